//! The check of the fuzz target on the committed corpus and on random input, without a fuzzer.

use amqp10::{Group, Header, Items, Properties, Section, ValueRef};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[path = "../../../../fuzz/checks/conversion.rs"]
mod checks;

/// The committed inputs.
#[expect(clippy::disallowed_methods, reason = "the corpus is files")]
fn corpus() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/conversion");
    let files = std::fs::read_dir(&dir).expect("the target has a corpus");
    files.map(|file| std::fs::read(file.expect("a file").path()).expect("a file")).collect()
}

fn every_section() -> Vec<u8> {
    let mut out = Vec::new();
    let header =
        Header { durable: Some(true), priority: Some(5), ttl_ms: Some(7), ..Header::default() };
    Section::Header(header).encode(&mut out);
    amqp10::put_message_annotations(&mut out, |items| {
        items.put_symbol("x-exchange", ValueRef::Str("e"));
        items.put_symbol("x-basic-type", ValueRef::Binary(b"t"));
        items.put(ValueRef::Symbol("x-cc"));
        items.put_list(|list| list.put(ValueRef::Str("c")));
        items.put(ValueRef::Symbol("x-opt-deaths"));
        items.put_maps([1, 2], |death: &mut Items<'_>, n| {
            death.put_symbol("count", ValueRef::U64(n));
            death.put(ValueRef::Symbol("routing-keys"));
            death.put_strings(["k"]);
        });
    });
    let properties = Properties {
        message_id: Some(ValueRef::Uuid([7; 16])),
        correlation_id: Some(ValueRef::U64(7)),
        user_id: Some(b"u"),
        reply_to: Some(ValueRef::Str("/queues/q%20q")),
        content_type: Some("t"),
        creation_time_ms: Some(7),
        group: Group { id: Some("g"), ..Group::default() },
        ..Properties::default()
    };
    Section::Properties(properties).encode(&mut out);
    amqp10::put_application_properties(&mut out, |items| {
        items.put(ValueRef::Str("k"));
        items.put_map(|map| map.put_symbol("nested", ValueRef::Timestamp(7)));
    });
    Section::Data(b"one").encode(&mut out);
    Section::Data(b"two").encode(&mut out);
    out
}

fn any_input() -> impl Strategy<Value = Vec<u8>> {
    let mut valid = corpus();
    assert!(!valid.is_empty(), "there is a corpus");
    valid.push(every_section());
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let changed = (proptest::sample::select(valid), changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len().max(1));
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..80), 3 => changed]
}

#[test]
fn the_corpus_is_delivered() {
    corpus().iter().for_each(|input| checks::stored(input));
    checks::stored(&every_section());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_delivered(input in any_input()) {
        checks::stored(&input);
    }
}
