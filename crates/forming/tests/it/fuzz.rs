//! Asks and answers there and back, and random bytes in their place.

use forming::{FORMING_ROWS, FormingAnswer, FormingAsk, FreshNode, MakerPromise};
use log::ClusterId;
use peer::{FrameDecoder, PeerFrame, Vocabulary};
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

fn promise() -> impl Strategy<Value = MakerPromise> {
    ("[a-z]{1,9}@[a-z]{1,9}", any::<u64>())
        .prop_map(|(maker, attempt)| MakerPromise { maker, attempt })
}

fn fresh() -> impl Strategy<Value = FreshNode> {
    let names = btree_set("rabbit@[a-z0-9.]{1,20}", 1..9);
    (names, any::<bool>(), of(promise())).prop_map(|(names, hears_majority, promise)| FreshNode {
        name: names.first().unwrap().clone(),
        hears_majority,
        promise,
        names,
    })
}

fn answer() -> impl Strategy<Value = FormingAnswer> {
    prop_oneof![
        ("[^\u{0}-\u{1f}\u{7f}-\u{9f}]{1,60}", any::<u128>())
            .prop_map(|(name, id)| FormingAnswer::Member { name, cluster: ClusterId(id) }),
        (fresh(), of(any::<u64>())).prop_map(|(node, over)| FormingAnswer::Fresh { node, over }),
    ]
}

/// Has the only frame of these bytes.
fn with_frame<T>(bytes: &[u8], then: impl FnOnce(PeerFrame<'_>) -> T) -> T {
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[FORMING_ROWS]));
    let mut input = bytes;
    then(decoder.next(&mut input).unwrap().unwrap())
}

proptest! {
    #[test]
    fn asks_are_read_as_they_were_written(node in fresh(), wants_back: bool) {
        let ask = FormingAsk { node, wants_back };
        let mut bytes = Vec::new();
        ask.encode(&mut bytes);
        with_frame(&bytes, |frame| {
            assert_eq!(FormingAsk::decode(frame.kind, &frame.body), Ok(Some(ask)));
            assert_eq!(FormingAnswer::decode(frame.kind, &frame.body), Ok(None));
            for cut in 0..frame.body.len() {
                assert!(FormingAsk::decode(frame.kind, &frame.body[..cut]).is_err());
            }
        });
    }

    #[test]
    fn answers_are_read_as_they_were_written(answer in answer()) {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        with_frame(&bytes, |frame| {
            assert_eq!(FormingAnswer::decode(frame.kind, &frame.body), Ok(Some(answer)));
            for cut in 0..frame.body.len() {
                assert!(FormingAnswer::decode(frame.kind, &frame.body[..cut]).is_err());
            }
        });
    }

    #[test]
    fn promises_are_read_as_they_were_written(promise in of(promise())) {
        let bytes = MakerPromise::encode(promise.as_ref());
        prop_assert_eq!(MakerPromise::decode(&bytes), Ok(promise));
    }

    /// What random bytes are read as is written as the same value.
    #[test]
    fn random_bytes_are_refused_or_read_alike(start in 0..3_u8, rest in vec(any::<u8>(), 0..300)) {
        let body = [&[start][..], &rest].concat();
        for row in FORMING_ROWS {
            let mut bytes = Vec::new();
            if let Ok(Some(ask)) = FormingAsk::decode(row.kind, &body) {
                ask.encode(&mut bytes);
                with_frame(&bytes, |it| assert_eq!(FormingAsk::decode(it.kind, &it.body), Ok(Some(ask))));
            } else if let Ok(Some(answer)) = FormingAnswer::decode(row.kind, &body) {
                answer.encode(&mut bytes);
                with_frame(&bytes, |it| {
                    assert_eq!(FormingAnswer::decode(it.kind, &it.body), Ok(Some(answer)));
                });
            }
        }
    }
}
