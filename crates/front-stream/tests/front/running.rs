//! A connection with an open virtual host: requests, answers, chunks, confirms, the end.

use crate::harness::{Talk, frame};
use bytes::Bytes;
use edge::{CloseMode, OUTBOX_HIGH_WATER_BYTES, OUTBOX_STUCK_BYTES, TaskOutbox as _};
use front_stream::Settings;
use proptest::prelude::*;
use session::{
    ChannelId, ChunkData, ChunkDelivery, ErrorKind, Event, LinkId, MethodTag, PublisherId, Room,
    StreamEvent, StreamRefusal, SubscriptionId,
};
use std::collections::BTreeMap;
use streamproto::command::{
    Close, CommandVersions, Credit, Delete, ExchangeCommandVersions, FilteredMessage, Publish,
    PublishV2, PublishedMessage, StoreOffset, Subscribe, Unsubscribe,
};
use streamproto::list::Trailing;
use streamproto::{
    CodeResponse, Entry, Key, List, OffsetSpec, ResponseCode, ToClient, decode_frame,
};

/// The header of a chunk with these many bytes of data.
fn header(data: &[u8]) -> [u8; 48] {
    let header = streamproto::ChunkHeader { n_records: 1, n_entries: 1, ..Default::default() };
    let mut out = Vec::new();
    streamproto::Chunk::new(header, &[], data, &[]).unwrap().header.encode(&mut out);
    out.try_into().unwrap()
}

fn tag(key: Key, correlation_id: u32) -> MethodTag {
    MethodTag(u64::from(key.code()) << 32 | u64::from(correlation_id))
}

fn subscribe(talk: &Talk, link: u64, subscription: u8) {
    let (origin, subscription) = (tag(Key::Subscribe, 1), SubscriptionId(subscription));
    talk.event(Event::Stream(StreamEvent::Subscribed { origin, link: LinkId(link), subscription }));
}

#[test]
fn publishes_become_spans_of_their_entries() {
    let mut talk = Talk::open(Settings::default());
    let messages = [PublishedMessage { publishing_id: 7, entry: Entry::Message(b"hi") }];
    let publish = Publish { publisher_id: 2, messages: List::of(&messages) };
    let filtered = [FilteredMessage {
        publishing_id: 8,
        filter_value: Some(b"f"),
        entry: Entry::Message(b""),
    }];
    let v2 = PublishV2 { publisher_id: 255, messages: List::of(&filtered) };
    talk.sends(&[frame(&publish), frame(&v2)].concat());
    assert_eq!(
        talk.asked,
        [
            "append 2 1 [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 68, 69]",
            "append 255 1 filtered [0, 0, 0, 0, 0, 0, 0, 8, 0, 1, 66, 0, 0, 0, 0]",
        ]
    );
}

#[test]
fn requests_carry_what_clients_say() {
    let mut talk = Talk::open(Settings::default());
    talk.says(&Credit { subscription_id: 3, credit: 0xFFFE });
    talk.says(&StoreOffset { reference: "r", stream: "s", offset: 9 });
    let property = |key, value| streamproto::command::Property { key, value };
    let properties = [
        property("filter.0", "a"),
        property("filter.1", "b"),
        property("match-unfiltered", "true"),
        property("name", "group"),
        property("single-active-consumer", "true"),
        property("super-stream", "all"),
    ];
    talk.says(&Subscribe {
        correlation_id: 6,
        subscription_id: 1,
        stream: "s",
        offset: OffsetSpec::Timestamp(-1),
        credit: 10,
        properties: Trailing(List::of(&properties)),
    });
    assert_eq!(talk.asked[0], "credit 3 -2");
    assert!(talk.asked[1].contains("StoreOffset { reference: \"r\", stream: \"s\", offset: 9 }"));
    for part in [
        "700000006 ",
        "offset: TimestampMs(-1), credit: 10",
        "filters: [[97], [98]], match_unfiltered: true, all_types: false",
        "name: Some(\"group\"), single_active: true, super_stream: Some(\"all\")",
    ] {
        assert!(talk.asked[2].contains(part), "{part}: {}", talk.asked[2]);
    }
    assert!(talk.hears().is_empty());
}

#[test]
fn chunks_are_written_as_they_are_stored_whether_copied_or_shared() {
    for n_bytes in [100, 100_000] {
        let data: Vec<u8> = (0..=255).cycle().take(n_bytes).collect();
        let mut heard = Vec::new();
        for version in [1, 2] {
            for shared in [false, true] {
                let mut talk = Talk::open(Settings::default());
                let ours = [CommandVersions { key: 8, min_version: 1, max_version: version }];
                let commands = List::of(&ours);
                talk.says(&ExchangeCommandVersions { correlation_id: 1, commands });
                subscribe(&talk, 5, 9);
                talk.bytes();
                let header = &header(&[0; 9]);
                let chunk = |data| ChunkDelivery { header, data, committed_chunk_id: 77 };
                talk.batch(|sink| {
                    let data = match shared {
                        true => ChunkData::Shared(Bytes::from(data.clone())),
                        false => ChunkData::Borrowed(&data),
                    };
                    let room = sink.deliver_chunk(LinkId(5), &chunk(data));
                    assert!(matches!(room, Room::Bytes(_)));
                    let unknown = sink.deliver_chunk(LinkId(6), &chunk(ChunkData::Borrowed(&[])));
                    assert_eq!(unknown, Room::Full);
                });
                heard.push(talk.bytes());
            }
        }
        assert_eq!(heard[0], heard[1]);
        assert_eq!(heard[2], heard[3]);
        let (v1, _) = decode_frame(&heard[0], 0).unwrap().unwrap();
        let Ok(ToClient::Deliver(v1)) = ToClient::decode(v1) else { panic!("no delivery") };
        let (v2, _) = decode_frame(&heard[2], 0).unwrap().unwrap();
        let Ok(ToClient::DeliverV2(v2)) = ToClient::decode(v2) else { panic!("no delivery") };
        assert_eq!((v1.subscription_id, v2.committed_chunk_id, v1.chunk), (9, 77, v2.chunk));
        assert_eq!(v1.chunk.0, [&header(&[0; 9])[..], &data].concat());
    }
}

#[test]
fn a_full_outbox_and_news_for_a_waiting_link_both_come_back() {
    let mut talk = Talk::open(Settings::default());
    subscribe(&talk, 1, 1);
    subscribe(&talk, 2, 2);
    talk.bytes();
    let data = Bytes::from(vec![0; OUTBOX_HIGH_WATER_BYTES]);
    talk.batch(|sink| {
        let (header, data) = (&header(&[]), ChunkData::Shared(data.clone()));
        let chunk = ChunkDelivery { header, data, committed_chunk_id: 0 };
        assert_eq!(sink.deliver_chunk(LinkId(1), &chunk), Room::Full);
        assert_eq!(sink.room_bytes(), 0);
        sink.readable(LinkId(2));
        sink.readable(LinkId(1));
    });
    let mut batch = edge::WriteBatch::default();
    assert!(talk.outbox.try_take(&mut batch));
    assert!(batch.resume().is_empty());
    let n = batch.n_left();
    batch.advance(n);
    assert!(talk.outbox.try_take(&mut batch));
    assert_eq!(batch.resume(), &[LinkId(1), LinkId(2)]);
}

#[test]
fn refusals_have_the_form_that_clients_expect() {
    let mut talk = Talk::open(Settings::default());
    let why = StreamRefusal::StreamDoesNotExist;
    let keys = [Key::QueryOffset, Key::QueryPublisherSequence, Key::StreamStats, Key::Route];
    for key in keys.into_iter().chain([Key::Partitions, Key::ResolveOffsetSpec, Key::Subscribe]) {
        let origin = tag(key, 3);
        talk.event(Event::Stream(StreamEvent::Refused { origin, why }));
    }
    let heard = talk.hears();
    assert_eq!(heard.len(), 7);
    for heard in heard {
        assert!(heard.contains("correlation_id: 3, code: ResponseCode(2)"), "{heard}");
    }
    let subscription = SubscriptionId(4);
    talk.event(Event::Stream(StreamEvent::CreditRefused { subscription, why }));
    assert_eq!(
        talk.hears(),
        ["CreditResponse(CreditResponse { code: ResponseCode(2), subscription_id: 4 })"]
    );
}

#[test]
fn metadata_names_this_node_as_the_leader_of_what_there_is() {
    let mut talk = Talk::open(Settings::default());
    let origin = tag(Key::Metadata, 1);
    let streams = [("a", Ok(())), ("b", Err(StreamRefusal::AccessRefused))];
    // Of many the first are told before.
    let (streams_before, is_served) = (&streams[..1], true);
    talk.event(Event::Stream(StreamEvent::MetadataPart { streams: streams_before, is_served }));
    assert!(talk.hears().is_empty());
    talk.event(Event::Stream(StreamEvent::Metadata { origin, streams: &streams[1..], is_served }));
    let heard = talk.hears();
    for part in [
        "brokers: [Broker { reference: 0, host: \"localhost\", port: 5552 }]",
        "{ stream: \"a\", code: ResponseCode(1), leader: 0, replicas: [] }",
        "{ stream: \"b\", code: ResponseCode(16), leader: 65535, replicas: [] }",
    ] {
        assert!(heard[0].contains(part), "{part}: {}", heard[0]);
    }
    talk.event(Event::Stream(StreamEvent::Metadata {
        origin,
        streams: &streams,
        is_served: false,
    }));
    let heard = talk.hears();
    let nobody = "brokers: [], streams: [StreamMetadata { stream: \"a\", code: ResponseCode(1), leader: 65535";
    assert!(heard[0].contains(nobody), "{}", heard[0]);
}

#[test]
fn a_stream_that_goes_takes_its_links_along() {
    let mut talk = Talk::open(Settings::default());
    subscribe(&talk, 1, 1);
    talk.bytes();
    let links = [LinkId(1)];
    talk.event(Event::Stream(StreamEvent::StreamGone { stream: "s", links: &links }));
    talk.batch(|sink| {
        let data = ChunkData::Borrowed(b"late");
        let chunk = ChunkDelivery { header: &header(b""), data, committed_chunk_id: 0 };
        assert_eq!(sink.deliver_chunk(LinkId(1), &chunk), Room::Full);
    });
    assert_eq!(
        talk.hears(),
        ["MetadataUpdate(MetadataUpdate { code: ResponseCode(6), stream: \"s\" })"]
    );
}

#[test]
fn a_close_is_answered_behind_everything_asked_before() {
    let mut talk = Talk::open(Settings::default());
    let close = Close { correlation_id: 5, code: ResponseCode::OK, reason: "bye" };
    let last = frame(&Delete { correlation_id: 4, stream: "s" });
    talk.sends(&[last.clone(), frame(&close), last].concat());
    assert_eq!(talk.asked.len(), 2, "nothing is heard behind a close: {:?}", talk.asked);
    talk.event(Event::Done { channel: ChannelId(1), origin: tag(Key::Delete, 4) });
    talk.event(Event::ConnectionClosed);
    let answer = |key, correlation_id| {
        let code = ResponseCode::OK;
        format!("{:?}", ToClient::Code(CodeResponse { key, correlation_id, code }))
    };
    assert_eq!(talk.hears(), [answer(Key::Delete, 4), answer(Key::Close, 5)]);
    assert!(matches!(talk.close_mode, Some(CloseMode::Hold(_))));
}

#[test]
fn who_is_thrown_out_finds_the_end_and_no_word() {
    for kind in [
        ErrorKind::ConnectionForced,
        ErrorKind::ResourceError,
        ErrorKind::AccessRefused,
        ErrorKind::InternalError,
    ] {
        let mut talk = Talk::open(Settings::default());
        let error = session::Error::new(kind, "enough");
        talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
        talk.event(Event::Done { channel: ChannelId(1), origin: tag(Key::Delete, 4) });
        assert_eq!(talk.hears(), [""; 0], "{kind:?}");
        assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))), "{kind:?}");
    }
}

#[test]
fn the_brokers_close_waits_for_its_answer() {
    let mut talk = Talk::open(Settings::default());
    let error = session::Error::new(ErrorKind::CommandInvalid, "enough");
    talk.event(Event::ConnectionFailed { channel: None, error, origin: None });
    talk.event(Event::Done { channel: ChannelId(1), origin: tag(Key::Delete, 4) });
    let code = ResponseCode::UNKNOWN_FRAME;
    let close = Close { correlation_id: 1, code, reason: "enough" };
    assert_eq!(talk.hears(), [format!("{:?}", ToClient::Close(close))]);
    talk.says(&Unsubscribe { correlation_id: 8, subscription_id: 1 });
    assert!(talk.asked.is_empty() && talk.close_mode.is_none());
    let mut closed = Vec::new();
    CodeResponse { key: Key::Close, correlation_id: 1, code: ResponseCode::OK }
        .encode_frame(&mut closed);
    talk.sends(&closed);
    assert_eq!(talk.hears(), [""; 0]);
    assert!(matches!(talk.close_mode, Some(CloseMode::Linger(_))));
}

#[test]
fn many_requests_come_in_portions() {
    let mut talk = Talk::open(Settings::default());
    let credit = |subscription_id| frame(&Credit { subscription_id, credit: 1 });
    let input = [credit(1), credit(2)].concat().repeat(500);
    let mut requests = Vec::new();
    let progress = talk.front.read(crate::harness::START, &input, &mut requests);
    assert!(matches!(progress.step, edge::Step::Again));
    assert_eq!((requests.len(), progress.consumed), (256, 256 * credit(1).len()));
    talk.sends(&[]);
}

#[test]
fn credit_that_comes_piece_by_piece_is_given_at_once() {
    let mut talk = Talk::open(Settings::default());
    let credit = |subscription_id, credit| frame(&Credit { subscription_id, credit });
    let most = i16::MAX.cast_unsigned();
    let input = [credit(1, 1), credit(1, 1), credit(2, 3), credit(2, most), credit(2, 1)].concat();
    talk.sends(&input);
    assert_eq!(talk.asked, ["credit 1 2", "credit 2 3", "credit 2 32767", "credit 2 1"]);
}

#[test]
fn answers_that_nobody_reads_count_as_waiting_bytes() {
    let talk = Talk::open(Settings::default());
    talk.batch(|sink| sink.answer_append(PublisherId(1), 0, 1 << 20, Ok(())));
    assert!(talk.outbox.n_pending() >= OUTBOX_STUCK_BYTES);
}

proptest! {
    /// Whatever is answered, each message is answered once, in the order of its publisher's answers, and
    /// frames are small.
    #[test]
    fn answers_fold_and_none_is_lost(
        runs in prop::collection::vec((0..3_u8, 0..50_u64, 0..700_u64, any::<bool>()), 0..20),
    ) {
        let mut talk = Talk::open(Settings::default());
        let mut expected: BTreeMap<(u8, bool), Vec<u64>> = BTreeMap::new();
        talk.batch(|sink| {
            for &(publisher, first, n, good) in &runs {
                let answer = if good { Ok(()) } else { Err(StreamRefusal::PreconditionFailed) };
                sink.answer_append(PublisherId(publisher), first, first + n, answer);
                expected.entry((publisher, good)).or_default().extend(first..=first + n);
            }
        });
        let bytes = talk.bytes();
        let (mut rest, mut found) = (&bytes[..], BTreeMap::<(u8, bool), Vec<u64>>::new());
        while let Some((frame, used)) = decode_frame(rest, 8192).unwrap() {
            let heard = ToClient::decode(frame).unwrap();
            if let ToClient::PublishConfirm(it) = heard {
                found.entry((it.publisher_id, true)).or_default().extend(it.publishing_ids);
            } else if let ToClient::PublishError(it) = heard {
                let ids = it.errors.iter().map(|error| error.publishing_id);
                found.entry((it.publisher_id, false)).or_default().extend(ids);
            } else {
                prop_assert!(false, "{heard:?}");
            }
            rest = &rest[used..];
        }
        prop_assert_eq!(found, expected);
        prop_assert!(rest.is_empty());
    }
}
