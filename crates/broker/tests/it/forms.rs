//! Messages whose bodies are sections of AMQP 1.0: nobody changes those, wherever a message goes.

use crate::classic_v1::want_version;
use crate::client::{Client, Kind, at, block_on, start_set, table, text, wait_until};
use broker::{BringingBack, Broker, BrokerOptions, Taking, UndoOptions};
use conversion::{ReceivedBody, receive};
use message::BodyForm;
use proptest::prelude::*;
use session::{
    ChannelId, Content, HeadPlace, Op, Outcome, Publish, ReadInput, Request, Span, Value,
};
use std::sync::Arc;
use testing::{CrashOutcome, MemoryDisk};

fn start(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    let undo = UndoOptions { window_ms: 60_000, bytes_max: 1 << 20, ..UndoOptions::default() };
    start_set(disk.clone(), BrokerOptions { undo, ..BrokerOptions::default() })
}

struct Node {
    disk: Arc<MemoryDisk>,
    broker: Arc<Broker>,
    client: Client,
}

impl Node {
    fn on(disk: Arc<MemoryDisk>) -> Self {
        let broker = start(&disk);
        let client = Client::connect(&broker);
        Self { disk, broker, client }
    }

    /// Starts again after a loss of power or a stop in good order.
    fn restarted(self, power_is_lost: bool) -> Self {
        let Self { mut disk, broker, client } = self;
        if power_is_lost {
            disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        } else {
            client.disconnect();
            broker.stop().unwrap();
        }
        drop(broker);
        let node = Self::on(disk);
        // The clock begins anew with each node.
        at(&node.broker, 2_000);
        node
    }

    /// Gets a message that is about to come to a queue. The clock is told again and again: what a start reads
    /// may have deadlines.
    fn gets(&mut self, queue: &str) {
        wait_until("a message comes", || {
            at(&self.broker, 2_000);
            self.client.get(queue) != ["get empty"]
        });
    }
}

fn span(buffer: &[u8], start: usize) -> Span {
    let len = u32::try_from(buffer.len() - start).unwrap();
    Span { start: u32::try_from(start).unwrap(), len }
}

/// Publishes what was received, its head in the front's scratch.
pub(crate) fn publish(
    client: &mut Client,
    exchange: &str,
    key: &str,
    sections: &[u8],
) -> Vec<String> {
    let mut scratch = [exchange, key].concat().into_bytes();
    let names = (Span { start: 0, len: u32::try_from(exchange.len()).unwrap() }, scratch.len());
    let received = receive(sections, &mut scratch).unwrap();
    let ReceivedBody::From(body_at) = received.body else { panic!("nothing is to go") };
    let publish = Publish {
        channel: ChannelId(1),
        head: HeadPlace::Scratch,
        exchange: names.0,
        routing_key: span(&scratch[..names.1], exchange.len()),
        properties: span(&scratch, names.1),
        content: Content::Inline(span(sections, body_at)),
        form: BodyForm::Amqp10,
        mandatory: false,
        immediate: false,
        persistent: received.persistent,
        inspect: received.inspect,
    };
    let input = ReadInput { bytes: sections, scratch: &scratch };
    block_on(client.session().submit(&input, &mut vec![Request::Publish(publish)])).unwrap();
    client.heard()
}

/// A message that has an application property only, and a body.
fn plain_sections(colour: &str) -> Vec<u8> {
    use amqp10::{Section, ValueRef};
    let mut out = Vec::new();
    amqp10::put_application_properties(&mut out, |items| {
        items.put(ValueRef::Str("colour"));
        items.put(ValueRef::Str(colour));
    });
    Section::Data(b"body").encode(&mut out);
    out
}

/// A durable message with annotations, an application property and that body.
fn sections(delay_ms: u32, colour: &str, body: &[u8]) -> Vec<u8> {
    use amqp10::{Header, Section, ValueRef};
    let mut out = Vec::new();
    Section::Header(Header { durable: Some(true), ..Header::default() }).encode(&mut out);
    amqp10::put_message_annotations(&mut out, |items| {
        items.put_symbol("x-delay", ValueRef::U32(delay_ms));
        items.put_symbol("x-mine", ValueRef::Decimal32([1, 2, 3, 4]));
    });
    amqp10::put_application_properties(&mut out, |items| {
        items.put(ValueRef::Str("colour"));
        items.put(ValueRef::Str(colour));
    });
    Section::Data(body).encode(&mut out);
    Section::Footer(amqp10::MapRef::EMPTY).encode(&mut out);
    out
}

/// The part of sections that stays: all but their header.
fn kept(sections: &[u8]) -> &[u8] {
    let ReceivedBody::From(at) = receive(sections, &mut Vec::new()).unwrap().body else {
        panic!("nothing is to go")
    };
    &sections[at..]
}

fn is_last(client: &Client, sent: &[u8]) -> bool {
    let last = client.last();
    last.form == BodyForm::Amqp10 && last.body == kept(sent)
}

#[test]
fn a_head_in_the_scratch_is_that_of_a_transaction_too() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    let sent = sections(0, "red", b"at once");
    publish(&mut client, "", "q", &sent);
    client.get("q");
    assert!(is_last(&client, &sent));
    assert_eq!((client.last().key, client.last().persistent), (b"q".to_vec(), true));
    client.ask(Op::EnableTransactions);
    publish(&mut client, "", "q", &sent);
    assert_eq!(client.get("q"), ["get empty"]);
    client.ask(Op::Commit);
    assert!(client.get("q")[0].starts_with("got "));
    assert!(is_last(&client, &sent));
}

#[test]
fn headers_exchanges_see_application_properties() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    for colour in ["red", "blue"] {
        client.declare(colour, false);
        let arguments = table(&[("colour", text(colour))]);
        assert_eq!(client.bind_with("amq.headers", colour, "", arguments), ["done"]);
    }
    client.declare_exchange("hash", "x-consistent-hash", &[("hash-header", text("colour"))]);
    client.bind("hash", "red", "1");
    for sent in [sections(0, "blue", b"body"), plain_sections("blue")] {
        publish(&mut client, "amq.headers", "", &sent);
        assert_eq!(client.get("red"), ["get empty"]);
        assert!(client.get("blue")[0].starts_with("got "));
        assert!(is_last(&client, &sent));
        publish(&mut client, "hash", "", &sent);
        assert!(client.get("red")[0].starts_with("got "));
    }
    // A dead letter too.
    client.declare_with("dying", false, &[("x-dead-letter-exchange", text("amq.headers"))]);
    let sent = sections(0, "red", b"body");
    publish(&mut client, "", "dying", &sent);
    client.get("dying");
    client.settle_newest(Outcome::Rejected);
    client.get_soon("red");
    assert!(is_last(&client, &sent));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]
    /// A message is delayed, is in a queue while that is converted, dies there, is purged from another and
    /// brought back; the node ends at any of these stations.
    #[test]
    fn a_body_stays_what_it_was_on_any_way(
        seed in any::<u8>(),
        n_bytes in prop_oneof![0..40_usize, 4_000..9_000_usize],
        kinds in [prop_oneof![Just("classic"), Just("quorum")], prop_oneof![Just("classic"), Just("quorum")]],
        versions in [1..3_u8, 1..3_u8],
        ends in any::<[bool; 4]>(), is_converted in any::<bool>(),
    ) {
        let body: Vec<u8> = (0..n_bytes).map(|at| at.to_le_bytes()[0].wrapping_mul(seed)).collect();
        let mut node = Node::on(Arc::new(MemoryDisk::new()));
        let declared = |kind: &'static str, version: u8| {
            let mut arguments = vec![("x-queue-type", Value::from(kind))];
            arguments.extend((kind == "classic").then_some(("x-queue-version", Value::I64(version.into()))));
            arguments
        };
        let dying = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("last")),
        ];
        // Policies say the version of a queue that is declared without one.
        want_version(&node.broker, versions[0]);
        let kind = [("x-queue-type", Value::from(kinds[0]))];
        node.client.declare_with("first", true, &[&kind[..], &dying].concat());
        node.client.declare_with("last", true, &declared(kinds[1], versions[1]));
        node.client.declare_exchange("x", "x-delayed-message", &[("x-delayed-type", text("direct"))]);
        node.client.bind("x", "first", "k");
        node.client.ask(Op::EnableConfirms);
        let sent = sections(1_000, "red", &body);
        let heard = publish(&mut node.client, "x", "k", &sent);
        node.client.wait_for(heard, 1);
        // Only confirms tell what is left when power is lost.
        let is_lost = [true, true, false, false];
        let end = |node: Node, station: usize| match ends[station] {
            true => node.restarted(is_lost[station]),
            false => node,
        };
        node = end(node, 0);
        at(&node.broker, 2_000);
        node.gets("first");
        prop_assert!(is_last(&node.client, &sent));
        node.client.settle_newest(Outcome::Released);
        if kinds[0] == "classic" && is_converted {
            let other = 3 - versions[0];
            want_version(&node.broker, other);
            // Where the node ends, the conversion is under way.
            wait_until("the queue is converted", || {
                let stat = node.broker.queue("/", "first").unwrap().local_stat();
                ends[1] || (stat.version.number() == other && stat.conversion.is_none())
            });
        }
        node = end(node, 1);
        node.gets("first");
        prop_assert!(is_last(&node.client, &sent));
        node.client.settle_newest(Outcome::Rejected);
        node.gets("last");
        prop_assert!(is_last(&node.client, &sent));
        prop_assert!(node.client.last_headers().get(b"x-death").is_some());
        node.client.settle_newest(Outcome::Released);
        node = end(node, 2);
        // Where the node ended on the way, there may be another copy, which may come later, too.
        wait_until("the message is there", || node.client.ask_ready("last") > 0);
        let queue = node.broker.queue("/", "last").unwrap();
        let keeping = node.broker.operations().begin_taking(&queue, Taking::Purge, "me");
        let taken = block_on(keeping.take(&|| true));
        prop_assert!(taken.n_messages > 0);
        drop(queue);
        node = end(node, 3);
        let heard = node.client.get("last");
        prop_assert!(heard == ["get empty"] || is_last(&node.client, &sent));
        let entry = node.broker.operations().undo().all().remove(0);
        let back = BringingBack::begin(node.broker.operations().undo(), entry.id).unwrap();
        let queue = node.broker.queue("/", "last").unwrap();
        for number in back.portions() {
            let messages = back.messages(number).unwrap();
            block_on(node.broker.operations().put_back(&queue, &messages)).unwrap();
        }
        node.gets("last");
        prop_assert!(is_last(&node.client, &sent));
    }
}

#[test]
fn a_queue_in_streams_encoding_keeps_the_sections() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    client.declare_with("s", true, &[("x-queue-type", text("stream"))]);
    publish(&mut client, "", "s", &sections(0, "red", b"body"));
    client.publish("s", &["plain"], Kind::Transient);
    let first = [("x-stream-offset", text("first"))];
    client.ask(Op::SetPrefetch { prefetch_count: 9, global: false });
    let heard = client.consume_with("s", "", false, &first);
    let heard = client.wait_for(heard, 3);
    assert_eq!(heard, ["consuming", "deliver body", "deliver plain"]);
}
