//! Asks and answers there and back, and random bytes in their place.

use forming::{
    FORMING_ROWS, FormingAnswer, FormingAsk, FreshNode, JOINING_ROWS, JoinAnswer, JoinAsk,
    JoinedCluster, JoinedMember, JoiningNote, LeaveAsk, MakerPromise,
};
use log::{ClusterId, NodeNumber};
use peer::{FrameDecoder, PeerAddress, PeerFrame, Vocabulary};
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

fn joined() -> impl Strategy<Value = JoinedCluster> {
    let member = (any::<u16>(), "[a-z]{1,9}", "[a-z]{1,9}", any::<u16>());
    let member = member.prop_map(|(number, name, host, port)| JoinedMember {
        number: NodeNumber(number),
        name,
        address: PeerAddress { host, port },
    });
    (any::<u128>(), any::<[u16; 2]>(), vec(member, 0..5)).prop_map(
        |(id, [epoch, number], members)| {
            let (cluster, number) = (ClusterId(id), NodeNumber(number));
            JoinedCluster { cluster, epoch: u32::from(epoch), number, members }
        },
    )
}

fn join_answer() -> impl Strategy<Value = JoinAnswer> {
    prop_oneof![
        joined().prop_map(JoinAnswer::Joined),
        Just(JoinAnswer::Left),
        "[a-z ]{0,40}".prop_map(JoinAnswer::NotNow),
        "[a-z ]{0,40}".prop_map(JoinAnswer::Refused),
    ]
}

/// Has the only frame of these bytes.
fn with_frame<T>(bytes: &[u8], then: impl FnOnce(PeerFrame<'_>) -> T) -> T {
    let mut decoder = FrameDecoder::new(Vocabulary::new(1, &[FORMING_ROWS, JOINING_ROWS]));
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

    #[test]
    fn joins_are_read_as_they_were_written(token: u64, name in "[a-z]{1,9}", answer in join_answer()) {
        let address = PeerAddress { host: name.clone(), port: 7 };
        let (join, mut bytes) = (JoinAsk { name, address, token }, Vec::new());
        join.encode(&mut bytes);
        with_frame(&bytes, |frame| {
            assert_eq!(JoinAsk::decode(frame.kind, &frame.body), Ok(Some(join)));
        });
        let leave = LeaveAsk { cluster: ClusterId(u128::from(token)), number: NodeNumber(5) };
        bytes.clear();
        leave.encode(&mut bytes);
        with_frame(&bytes, |frame| {
            assert_eq!(LeaveAsk::decode(frame.kind, &frame.body), Ok(Some(leave)));
        });
        bytes.clear();
        answer.encode(&mut bytes);
        with_frame(&bytes, |frame| {
            assert_eq!(JoinAnswer::decode(frame.kind, &frame.body), Ok(Some(answer)));
            for cut in 0..frame.body.len() {
                assert!(JoinAnswer::decode(frame.kind, &frame.body[..cut]).is_err());
            }
        });
    }

    #[test]
    fn joining_notes_are_read_as_they_were_written(token: u64, joined in joined(), which in 0..4) {
        let note = match which {
            0 => JoiningNote::Asks { token },
            1 => JoiningNote::Wipes(None),
            2 => JoiningNote::Wipes(Some(joined)),
            _ => JoiningNote::Learns(joined),
        };
        let bytes = note.encode();
        prop_assert_eq!(JoiningNote::decode(&bytes), Ok(note));
        (0..bytes.len()).for_each(|cut| assert!(JoiningNote::decode(&bytes[..cut]).is_err()));
    }

    /// Frames of random bytes are read without a panic, or refused.
    #[test]
    fn random_joins_are_refused_or_read(tag in 0..4_u8, rest in vec(any::<u8>(), 0..200)) {
        let body = [&[tag][..], &rest].concat();
        for row in JOINING_ROWS {
            drop(JoinAsk::decode(row.kind, &body));
            drop(LeaveAsk::decode(row.kind, &body));
            drop(JoinAnswer::decode(row.kind, &body));
        }
        drop(JoiningNote::decode(&body));
    }

    /// A value that random bytes are read as is written, and read as the same one.
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
