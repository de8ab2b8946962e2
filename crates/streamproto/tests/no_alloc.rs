//! Decoding allocates nothing, whatever the input; encoding what flows per message neither, where
//! the buffer has room.

use proptest::collection::vec;
use proptest::prelude::*;
use streamproto::command::{Command, FilteredMessage, PublishConfirm, PublishV2};
use streamproto::tracking::{TrackingForm, TrackingRecords};
use streamproto::{Chunk, Entry, List, ToClient, ToServer, decode_frame};

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

fn n_allocations(work: impl FnOnce()) -> u64 {
    let before = counting::in_thread();
    work();
    counting::in_thread().since(before).n_allocations
}

/// Everything that can be asked of bytes.
fn decode_everything(input: &[u8]) {
    let mut n = 0;
    for chunk in [Chunk::decode_delivered(input), Chunk::decode_stored(input).map(|(it, _)| it)] {
        let Ok(chunk) = chunk else { continue };
        n += chunk.entries().count();
        n += TrackingRecords::new(chunk.trailer, TrackingForm::Snapshot).count();
        n += usize::from(chunk.verify_crc().is_ok()) + usize::from(chunk.verify_entries().is_ok());
    }
    n += usize::from(ToClient::decode(input).is_ok());
    if let Ok(ToServer::PublishV2(publish)) = ToServer::decode(input) {
        n += publish.messages.iter().filter(|message| message.filter_value.is_some()).count();
    }
    assert!(n <= input.len() * 2 + 5);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_any_bytes_allocates_nothing(
        key in 0_u8..33,
        response in any::<bool>(),
        version in 1_u8..3,
        rest in vec(prop_oneof![Just(0_u8), any::<u8>()], 0..200),
    ) {
        let frame = [&[if response { 0x80 } else { 0 }, key, 0, version][..], &rest].concat();
        let chunk = [&[0x50, 0, 0, key][..], &rest].concat();
        let n = n_allocations(|| {
            decode_everything(&frame);
            decode_everything(&chunk);
        });
        prop_assert_eq!(n, 0);
    }
}

#[test]
fn a_publish_and_its_confirm_allocate_nothing() {
    let message = |publishing_id| FilteredMessage {
        publishing_id,
        filter_value: Some(b"eu"),
        entry: Entry::Message(b"twelve bytes"),
    };
    let messages = [message(1), message(2)];
    let (mut out, mut answer) = (Vec::with_capacity(200), Vec::with_capacity(200));
    let n = n_allocations(|| {
        PublishV2 { publisher_id: 1, messages: List::of(&messages) }.encode_frame(&mut out);
        let (frame, _) = decode_frame(&out, 0).expect("a good frame").expect("a whole frame");
        let Ok(ToServer::PublishV2(publish)) = ToServer::decode(frame) else {
            panic!("not a publish");
        };
        let mut ids = [0; 2];
        for (id, message) in ids.iter_mut().zip(publish.messages) {
            *id = message.publishing_id;
        }
        PublishConfirm { publisher_id: 1, publishing_ids: List::of(&ids) }
            .encode_frame(&mut answer);
    });
    assert_eq!((n, answer.len()), (0, 29));
}
