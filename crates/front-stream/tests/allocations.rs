//! In steady state nothing is allocated for a message: not when it is published, not when it is confirmed,
//! not when chunks are delivered and credit comes for them.

use edge::{TaskOutbox as _, WriteBatch};
use front_stream::{Connection, Settings};
use session::{
    ChunkData, ChunkDelivery, Event, LinkId, MethodTag, Outbox as _, PublisherId, StreamEvent,
    SubscriptionId,
};
use std::sync::Arc;
use stdx::Now;
use streamproto::command::{
    Credit, Open, PeerProperties, Publish, PublishedMessage, SaslAuthenticate, SaslHandshake, Tune,
};
use streamproto::{Command as _, Entry, List};

#[global_allocator]
static ALLOCATOR: counting::Allocator = counting::Allocator;

const NOW: Now = Now::at_ms(0);
/// Messages of one publish command.
const BATCH: u64 = 100;

fn running() -> Connection {
    let mut front = Connection::new(Arc::new(Settings::default()), 5552, NOW);
    let (mut bytes, mut requests) = (Vec::new(), Vec::new());
    PeerProperties::default().encode_frame(&mut bytes);
    SaslHandshake::default().encode_frame(&mut bytes);
    SaslAuthenticate { correlation_id: 1, mechanism: "PLAIN", data: b"\0a\0b" }
        .encode_frame(&mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front.authenticated(NOW, Ok(()));
    bytes.clear();
    Tune { frame_max: 0, heartbeat_secs: 0 }.encode_frame(&mut bytes);
    Open { correlation_id: 1, virtual_host: "/" }.encode_frame(&mut bytes);
    front.read(NOW, &bytes, &mut requests);
    front.opened(NOW, Ok(()));
    front
}

#[test]
fn a_message_costs_no_allocation() {
    let mut front = running();
    let outbox = front.outbox();
    let (origin, link, subscription) = (MethodTag(7 << 32), LinkId(1), SubscriptionId(1));
    let subscribed = || Event::Stream(StreamEvent::Subscribed { origin, link, subscription });
    assert!(outbox.batch(&mut |sink| sink.event(subscribed())).is_none());
    let (mut requests, mut batch, mut input) = (Vec::new(), WriteBatch::default(), Vec::new());
    let ids = 0..BATCH;
    let entry = Entry::Message(b"hello, world");
    let messages: Vec<_> =
        ids.map(|publishing_id| PublishedMessage { publishing_id, entry }).collect();
    for _ in 0..50 {
        let messages = List::of(&messages);
        Publish { publisher_id: 1, messages }.encode_frame(&mut input);
        Credit { subscription_id: 1, credit: 1 }.encode_frame(&mut input);
    }
    let mut before = counting::in_thread();
    for round in 0..20 {
        if round == 10 {
            before = counting::in_thread();
        }
        let progress = front.read(NOW, &input, &mut requests);
        assert_eq!((progress.consumed, requests.len()), (input.len(), 100));
        requests.clear();
        let taken = outbox.batch(&mut |sink| {
            for publisher in [1, 2, 1] {
                sink.answer_append(PublisherId(publisher), 0, BATCH, Ok(()));
            }
            let (header, data) = (&[0; 48], ChunkData::Borrowed(b"data"));
            let chunk = ChunkDelivery { header, data, committed_chunk_id: 0 };
            sink.deliver_chunk(LinkId(1), &chunk);
        });
        assert!(taken.is_none() && outbox.try_take(&mut batch));
        batch.advance(batch.n_left());
    }
    let n_allocations = counting::in_thread().since(before).n_allocations;
    assert_eq!(n_allocations, 0);
}
