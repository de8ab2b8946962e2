//! Links of AMQP 1.0: the nodes that they lead to, and why they end.

use crate::amqp10::declare;
use crate::site::Site;
use amqp10::{
    DeliveryState, Detach, Disposition, LinkTarget, Open, Performative, Role, SerialNumber,
    SourceTerminus, Symbols, TerminusDurability, ValueRef,
};
use amqp091::method::{BasicAck, BasicConsume, QueueDeclare};
use amqp091::{ShortString, Table, TableRef, Value};
use front_amqp10::SOLE_CONNECTION;
use session::ConversionTotals;
use std::sync::Arc;
use testing::amqp10_client::{self, message_about};
use testing::amqp10_peer::Peer;
use testing::client::Client;

/// The login of the default user.
const GUEST: &[u8] = b"\0guest\0guest";

fn publishes_about(peer: &mut Peer, n: u32, subject: &str) {
    let message = message_about(subject, b"m");
    peer.transfers_sections(n, false, |out| out.extend_from_slice(&message));
}

/// Publishes to an address of version 1, a message with this subject.
fn published_about(site: &Site, address: &str, subject: &str) -> String {
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, address);
    assert_eq!(peer.hears(), "attach Receiver", "{address}");
    publishes_about(&mut peer, 0, subject);
    peer.hears()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_of_version_1_declare_queues_and_take_subjects_as_keys() {
    const ACCEPTED: &str = "settled 0..=0 accepted true";
    let site = Site::start_amqp10(|settings| settings.permits_address_v1 = true);
    let mut old = Client::guest(site.address);
    let is_durable = |old: &mut Client, queue: &str| {
        let queue = queue.as_bytes();
        let as_is = QueueDeclare { queue, durable: true, ..QueueDeclare::default() };
        old.ask(1, as_is) == "queue.declare-ok"
    };
    let mut durable = amqp10_client::publisher(0, "/queue/a%2Fb");
    if let Some(LinkTarget::Terminus(target)) = &mut durable.target {
        target.durable = TerminusDurability::UnsettledState;
    }
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.says(&Performative::Attach(Box::new(durable)));
    assert_eq!(peer.hears(), "attach Receiver");
    assert!(is_durable(&mut old, "a/b"));
    // A queue that is there is taken as it is, and so by its bare name.
    for address in ["/queue/a%2Fb", "a%2Fb", "/amq/queue/a%2Fb", "/queues/a%2Fb"] {
        assert_eq!(published_about(&site, address, "any"), ACCEPTED);
    }
    assert_eq!(published_about(&site, "/queue", "a/b"), ACCEPTED);
    assert_eq!(published_about(&site, "/queue", "none"), "settled 0..=0 accepted false");
    assert_eq!(published_about(&site, "brief", "any"), ACCEPTED);
    assert!(old.get("brief").is_some());
    for (address, key) in [
        ("/exchange/amq.topic", "by.subject"),
        ("/exchange/amq.topic/by.address", "by.address"),
        ("/topic/of.topic", "of.topic"),
    ] {
        let mut consumer = Peer::begun(site.address, GUEST, "/");
        consumer.attaches(Role::Receiver, &format!("/topic/{key}"));
        assert_eq!(consumer.hears(), "attach Sender");
        consumer.gives_credit(0, 1);
        assert_eq!(published_about(&site, address, "by.subject"), ACCEPTED);
        assert_eq!(consumer.hears(), "transfer 0 m", "{address}");
    }
    for missing in ["/amq/queue/none", "/exchange/none", "/exchange/none/k"] {
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches(Role::Sender, missing);
        assert_eq!([peer.hears(), peer.hears()], ["attach Receiver", "detach amqp:not-found"]);
    }
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queue");
    assert_eq!(peer.hears(), "attach Receiver");
    publishes_about(&mut peer, 0, &"k".repeat(256));
    assert_eq!(peer.hears(), "settled 0..=0 accepted false");
    assert_eq!(peer.hears(), "detach amqp:invalid-field");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_of_version_1_declare_queues_and_bind_them() {
    let site = Site::start_amqp10(|settings| settings.permits_address_v1 = true);
    let mut old = Client::guest(site.address);
    let queues = || site.broker.view().meta.queues().iter().count();
    for (n, (address, exchange, key)) in [
        ("/exchange/amq.direct/k", "amq.direct", "k"),
        ("/exchange/amq.fanout", "amq.fanout", "any"),
        ("/topic/a.*", "amq.topic", "a.b"),
        ("/queue/own", "", "own"),
        ("own", "", "own"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches(Role::Receiver, address);
        assert_eq!(peer.hears(), "attach Sender", "{address}");
        peer.gives_credit(0, 1);
        old.put_content(exchange, key, 1, b"m");
        old.flush();
        assert_eq!(peer.hears(), "transfer 0 m", "{address}");
        peer.accepts(0);
        peer.says(&Performative::Detach(Detach { handle: 1, closed: true, error: None }));
        assert_eq!(peer.hears(), "detach");
        // The queue stays.
        assert_eq!(queues(), (n + 1).min(4));
    }
    for (address, condition) in [
        ("/exchange/none/k", "amqp:not-found"),
        ("/amq/queue/none", "amqp:not-found"),
        ("/queue", "amqp:invalid-field"),
        ("/exchanges/amq.direct", "amqp:invalid-field"),
    ] {
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches(Role::Receiver, address);
        assert_eq!(
            [peer.hears(), peer.hears()],
            ["attach Sender".to_owned(), format!("detach {condition}")]
        );
        assert_eq!(queues(), 4, "{address}");
    }
}

/// Queues that somebody has for himself end the link that asks for them, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_others_end_the_link_alone() {
    let site = Site::start_amqp10(|_| {});
    let mut old = Client::guest(site.address);
    old.declare("in-use");
    let consume = BasicConsume { queue: b"in-use", exclusive: true, ..BasicConsume::default() };
    assert_eq!(old.ask(1, consume), "basic.consume-ok");
    let declare = QueueDeclare { queue: b"owned", exclusive: true, ..QueueDeclare::default() };
    assert_eq!(old.ask(1, declare), "queue.declare-ok");
    let mut peer = Peer::begun(site.address, GUEST, "/");
    for (queue, condition) in
        [("in-use", "amqp:unauthorized-access"), ("owned", "amqp:resource-locked")]
    {
        peer.attaches(Role::Receiver, &format!("/queues/{queue}"));
        assert_eq!(peer.hears(), "attach Sender");
        assert_eq!(peer.hears(), format!("detach {condition}"));
        peer.says(&Performative::Detach(Detach { handle: 1, closed: true, error: None }));
    }
    peer.attaches(Role::Sender, "/queues/in-use");
    assert_eq!(peer.hears(), "attach Receiver");
}

/// A message that is larger than a side takes ends the session, and stays where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_too_large_end_the_session() {
    const TOO_LARGE: &str = "end amqp:link:message-size-exceeded";
    let site = Site::start_amqp10(|settings| settings.message_bytes_max = 200);
    let mut old = Client::guest(site.address);
    for kind in ["classic", "quorum", "stream"] {
        declare(&mut old, kind, kind);
        for (max_message_size, heard) in [(100, TOO_LARGE), (1_000, "transfer"), (0, "transfer")] {
            let mut peer = Peer::begun(site.address, GUEST, "/");
            let address = format!("/queues/{kind}");
            let mut attach = amqp10_client::consumer(1, &address);
            attach.max_message_size = Some(max_message_size);
            peer.says(&Performative::Attach(Box::new(attach)));
            assert_eq!(peer.hears(), "attach Sender");
            peer.gives_credit(0, 1);
            old.put_publish(kind, true, &[b'm'; 100]);
            old.flush();
            let told = peer.hears();
            assert!(told.starts_with(heard), "{kind} {max_message_size}: {told}");
        }
    }
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/classic");
    assert_eq!(peer.hears(), "attach Receiver");
    peer.transfers(0, false, &[b'm'; 190]);
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    peer.transfers(1, false, &[b'm'; 200]);
    assert_eq!(peer.hears(), TOO_LARGE);
}

/// A queue that was made for a link goes if the link is refused, and nothing of it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_temporary_queue_goes_with_a_refused_link() {
    let site = Site::start_amqp10(|_| {});
    let mut peer = Peer::begun(site.address, GUEST, "/");
    let mut properties = Vec::new();
    amqp10::put_map(&mut properties, |items| {
        items.put_symbol("rabbitmq:priority", ValueRef::Str("high"));
    });
    let mut attach = amqp10_client::consumer(1, "");
    attach.source = Some(SourceTerminus {
        dynamic: true,
        capabilities: Symbols::One("temporary-queue"),
        ..SourceTerminus::default()
    });
    if let Ok((ValueRef::Map(properties), _)) = ValueRef::decode(&properties) {
        attach.properties = properties;
    }
    peer.says(&Performative::Attach(Box::new(attach)));
    assert_eq!(peer.hears(), "attach Sender");
    assert_eq!(peer.hears(), "detach amqp:precondition-failed");
    assert_eq!(site.broker.view().meta.queues().iter().count(), 0);
}

/// Who gets a message from the other protocol is counted; who gets one from his own is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversions_are_counted_by_the_consumers_protocol() {
    let conversions = Arc::new(ConversionTotals::default());
    let site = Site::start_counting(&conversions);
    let mut old = Client::guest(site.address);
    for queue in ["q", "r"] {
        old.declare(queue);
    }
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/q");
    peer.attaches(Role::Receiver, "/queues/r");
    assert_eq!([peer.hears(), peer.hears()], ["attach Receiver", "attach Sender"]);
    for n in 0..3 {
        peer.transfers(n, false, b"m");
        assert_eq!(peer.hears(), format!("settled {n}..={n} accepted true"));
    }
    assert!(old.get("q").is_some());
    old.consume("q", true);
    assert!([old.message(), old.message()].iter().all(Option::is_some));
    peer.gives_credit(0, 10);
    old.put_publish("r", true, b"m");
    old.put_publish("r", true, b"m");
    old.flush();
    assert_eq!([peer.hears(), peer.hears()], ["transfer 0 m", "transfer 1 m"]);
    assert_eq!(conversions.counts(), [3, 2]);
    old.put_publish("q", true, b"m");
    old.flush();
    assert!(old.message().is_some());
    assert_eq!(conversions.counts(), [3, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_has_one_connection_if_the_newer_one_wants_so() {
    const TAKEN: &str = "close amqp:invalid-field";
    let site = Site::start_amqp10(|_| {});
    let open = |container_id: &str, is_sole: bool| {
        let wishes: &[&str] = if is_sole { &[SOLE_CONNECTION] } else { &[] };
        let desired_capabilities = Symbols::Listed(wishes);
        let open = Open { container_id, desired_capabilities, ..amqp10_client::open() };
        Peer::open_as(site.address, GUEST, open)
    };
    let beside = [open("me", false), open("me", false)];
    let mut second = open("me", true);
    assert_eq!(second.hears(), TAKEN);
    let _other = open("other", true);
    assert_eq!(open("other", true).hears(), TAKEN);
    drop((beside, second));
    while site.broker.connections.len() > 1 {
        tokio::task::yield_now().await;
    }
    let mut again = open("me", true);
    again.says(&Performative::Begin(Box::new(amqp10_client::begin())));
    assert_eq!(again.hears(), "begin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_confirm_on_ack_direct_have_both_protocols_on_either_side() {
    let site = Site::start_amqp10(|_| {});
    let mut old = Client::guest(site.address);
    old.select_confirms();
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static("x-confirm-on"), Value::from("ack-direct"));
    let arguments = arguments.to_bytes();
    let arguments = TableRef::trusted(&arguments);
    let declare = QueueDeclare { queue: b"q", arguments, ..QueueDeclare::default() };
    assert_eq!(old.ask(1, declare), "queue.declare-ok");
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/q");
    peer.attaches(Role::Receiver, "/queues/q");
    assert_eq!([peer.hears(), peer.hears()], ["attach Receiver", "attach Sender"]);
    peer.gives_credit(0, 2);
    old.put_publish("q", false, b"from 0-9-1");
    old.flush();
    assert_eq!(peer.hears(), "transfer 0 from 0-9-1");
    peer.accepts(0);
    let confirm = old.next().show();
    assert!(confirm.starts_with("basic.ack"), "{confirm}");
    // Another outcome ends the link, and is none.
    peer.transfers(0, false, b"from 1.0");
    assert_eq!(peer.hears(), "transfer 1 from 1.0");
    peer.says(&Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: SerialNumber::new(1),
        last: None,
        settled: true,
        state: Some(DeliveryState::RELEASED),
        batchable: false,
    }));
    assert_eq!(peer.hears(), "detach amqp:not-implemented");
    peer.says(&Performative::Detach(Detach { handle: 1, closed: true, error: None }));
    let message = loop {
        if let Some(message) = old.get_to_ack("q") {
            break message;
        }
    };
    assert_eq!((message.body.as_slice(), message.redelivered), (b"from 1.0".as_slice(), true));
    old.say(1, BasicAck { delivery_tag: message.tag, multiple: false });
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
}
