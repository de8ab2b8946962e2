//! The check of the fuzz target on its corpus and on random input, without a fuzzer.

use proptest::collection::vec;
use proptest::prelude::*;
use streamproto::command::{
    Create, Credit, DeclarePublisher, Delete, DeletePublisher, Metadata, Property, Publish,
    PublishedMessage, QueryOffset, StoreOffset, Subscribe, Unsubscribe,
};
use streamproto::list::Trailing;
use streamproto::{Command, Entry, List, OffsetSpec};

#[path = "../../../../fuzz/checks/stream_session.rs"]
mod checks;
#[path = "../../../../fuzz/checks/inputs.rs"]
mod inputs;

#[test]
fn sessions_of_the_corpus_are_served_or_end() {
    let inputs = inputs::corpus("stream_session");
    assert!(inputs.len() >= 9);
    for input in inputs {
        for size in [6, 255] {
            checks::session(&[&[size], &input[1..]].concat());
        }
    }
}

fn framed<'a>(command: &impl Command<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    out
}

/// Commands that fit together, in any order and with few names and numbers; or what they are not.
fn any_command() -> impl Strategy<Value = Vec<u8>> {
    let parts = (0..14_u8, 0..3_u8, 0..4_u16, prop::sample::select(vec!["s", "t", ""]));
    let command = parts.prop_map(|(kind, id, n, stream)| {
        let (correlation_id, reference) = (9, "r");
        let (publisher_id, subscription_id) = (id, id);
        let property = |key, value| Property { key, value };
        match kind {
            0 => {
                let sizes = [property("stream-max-segment-size-bytes", "100")];
                let arguments = List::of(&sizes[..usize::from(n % 2)]);
                framed(&Create { correlation_id, stream, arguments })
            }
            1 => framed(&Delete { correlation_id, stream }),
            2 => framed(&DeclarePublisher { correlation_id, publisher_id, reference, stream }),
            3 => framed(&DeletePublisher { correlation_id, publisher_id }),
            4..=6 => {
                let entry = Entry::Message(&[7; 90]);
                let messages: Vec<_> = (0..u64::from(n) * 9)
                    .map(|publishing_id| PublishedMessage { publishing_id, entry })
                    .collect();
                framed(&Publish { publisher_id, messages: List::of(&messages) })
            }
            7 | 8 => {
                let offset = [
                    OffsetSpec::First,
                    OffsetSpec::Last,
                    OffsetSpec::Next,
                    OffsetSpec::Offset(u64::from(id) * 5),
                ];
                let offset = offset[usize::from(n)];
                let single = [property("name", "g"), property("single-active-consumer", "true")];
                let properties = Trailing(List::of(if id == 2 { &single[..] } else { &[] }));
                let credit = n;
                framed(&Subscribe {
                    correlation_id,
                    subscription_id,
                    stream,
                    offset,
                    credit,
                    properties,
                })
            }
            9 => framed(&Unsubscribe { correlation_id, subscription_id }),
            10 => framed(&Credit { subscription_id, credit: n }),
            11 => framed(&StoreOffset { reference, stream, offset: u64::from(n) }),
            12 => framed(&QueryOffset { correlation_id, reference, stream }),
            _ => framed(&Metadata { correlation_id, streams: List::of(&[stream]) }),
        }
    });
    let raw = (0..31_u8, 1..3_u8, vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..40));
    let raw = raw.prop_map(|(key, version, fields)| {
        let mut frame = u32::try_from(fields.len() + 4).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(&[0, key, 0, version]);
        frame.extend_from_slice(&fields);
        frame
    });
    prop_oneof![12 => command, 1 => raw]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_session_is_served_or_ends(size in any::<u8>(), commands in vec(any_command(), 0..30)) {
        checks::session(&[&[size][..], &commands.concat()].concat());
    }
}
