//! AMQP 1.0 on the port of AMQP 0-9-1, with a client of each.

use crate::site::Site;
use amqp10::{
    Attach, Detach, Flow, FrameType, LinkTarget, Performative, ProtocolLayer, Role, Section,
    SenderSettleMode, Symbols, TargetTerminus, ValueRef,
};
use amqp091::method::{BasicGet, ExchangeDeclare, QueueDeclare, QueueDelete};
use amqp091::{PropertiesRef, ShortString, Table, TableRef, Value};
use broker::{Alarm, Count};
use front_amqp091::Settings;
use meta::QueueKind;
use std::io::Read as _;
use testing::amqp10_client;
use testing::amqp10_peer::{NO_FLOW, Peer};
use testing::client::{Client, Login};

/// The login of the default user.
const GUEST: &[u8] = b"\0guest\0guest";

fn site() -> Site {
    Site::start_with(Settings::default(), |_| {})
}

pub(crate) fn declare(client: &mut Client, queue: &str, kind: &str) {
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static("x-queue-type"), Value::from(kind));
    let arguments = arguments.to_bytes();
    let arguments = TableRef::trusted(&arguments);
    let queue = queue.as_bytes();
    let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_chooses_the_protocol() {
    let site = site();
    for header in [&b"AMQP\0\x01\0\0"[..], b"AMQP\x02\x01\0\0", b"whatever"] {
        let mut peer = Peer::connect(site.address);
        peer.sends(header);
        assert_eq!(peer.bytes(8), ProtocolLayer::Sasl.header());
        assert_eq!(peer.socket.read(&mut [0]).unwrap(), 0, "nothing follows");
    }
    let mut of_old = Peer::connect(site.address);
    of_old.sends(b"AMQP\x01\x01\x08\0");
    assert_eq!(of_old.bytes(8), b"AMQP\0\0\x09\x01");
    drop(Client::guest(site.address));
    let mut peer = Peer::open(site.address, GUEST, "/");
    let protocols: Vec<_> =
        site.broker.connections.list().iter().map(|it| it.identity.protocol).collect();
    assert!(protocols.contains(&session::ProtocolKind::Amqp10), "{protocols:?}");
    assert_eq!(site.broker.connections.n_of(session::ProtocolKind::Amqp10), 1);
    peer.says(&Performative::Close(amqp10::Close { error: None }));
    assert_eq!(peer.hears(), "close");
    let mut refused = Peer::open(site.address, GUEST, "nowhere");
    assert_eq!(refused.hears(), "close amqp:unauthorized-access");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_pass_between_both_protocols() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.declare("q");
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/q");
    assert_eq!(peer.hears(), "attach Receiver");
    peer.transfers(0, false, b"one");
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    peer.transfers(1, true, b"two");
    peer.transfers(2, false, b"three");
    assert_eq!(peer.hears(), "settled 2..=2 accepted true");
    assert_eq!(old.get("q").map(|it| it.body), Some(b"one".to_vec()));
    peer.attaches(Role::Receiver, "/queues/q");
    assert_eq!(peer.hears(), "attach Sender");
    peer.gives_credit(0, 1);
    assert_eq!(peer.hears(), "transfer 0 two");
    peer.accepts(0);
    peer.gives_credit(1, 2);
    assert_eq!(peer.hears(), "transfer 1 three");
    old.put_publish("q", false, b"four");
    old.flush();
    assert_eq!(peer.hears(), "transfer 2 four");
    // What is not settled when the client is gone comes again.
    drop(peer);
    let mut other = Peer::begun(site.address, GUEST, "/");
    other.attaches(Role::Receiver, "/queues/q");
    assert_eq!(other.hears(), "attach Sender");
    other.gives_credit(0, 10);
    assert_eq!(other.hears(), "transfer 0 three again");
    assert_eq!(other.hears(), "transfer 1 four again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_listed_and_counted_by_protocol() {
    let site = site();
    let mut old = Client::guest(site.address);
    declare(&mut old, "q", "quorum");
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/q");
    assert_eq!(peer.hears(), "attach Receiver");
    for n in 0..3 {
        peer.transfers(n, false, b"m");
        assert_eq!(peer.hears(), format!("settled {n}..={n} accepted true"));
    }
    assert!(old.get("q").is_some());
    peer.attaches(Role::Receiver, "/queues/q");
    assert_eq!(peer.hears(), "attach Sender");
    peer.gives_credit(0, 10);
    peer.hears();
    peer.accepts(0);
    assert!(peer.hears().starts_with("transfer 1"));
    peer.flows(2, Flow { link_credit: Some(8), echo: true, ..NO_FLOW });
    assert_eq!(peer.hears_any(), "flow 2+8 of 0");
    let connections = &site.broker.connections;
    let connection = connections.list().pop().unwrap();
    assert_eq!(connection.identity.login.container_id(), Some("client"));
    let sessions = connection.sessions();
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    let links = session.incoming.iter().chain(&session.outgoing);
    let links: Vec<_> = links.map(|it| (it.handle, it.delivery_count, it.credit)).collect();
    assert_eq!(links, [(0, 3, 167), (1, 2, 8)]);
    assert!(connections.list()[0].sessions().is_empty(), "AMQP 0-9-1 has none");
    // What is counted stays so when the client is gone.
    for is_open in [true, false] {
        let totals = connections.by_protocol();
        let (new, old) =
            (&totals[&session::ProtocolKind::Amqp10], &totals[&session::ProtocolKind::Amqp091]);
        let published = [new, old].map(|it| (it.published.n_published, it.published.n_answered));
        assert_eq!(published, [(3, 3), (0, 0)], "open: {is_open}");
        let of = |totals: &broker::ProtocolTotals, count| {
            totals.delivered.get(&QueueKind::Quorum).map_or(0, |counts| counts.of(count))
        };
        let delivered = [Count::Delivered, Count::Acked, Count::Got, Count::GotAuto];
        assert_eq!(delivered.map(|count| of(new, count)), [2, 1, 0, 0], "open: {is_open}");
        assert_eq!(of(old, Count::Got) + of(old, Count::GotAuto), 1, "open: {is_open}");
        if is_open {
            peer.says(&Performative::Close(amqp10::Close { error: None }));
            assert_eq!(peer.hears(), "close");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dynamic_target_is_a_queue_that_goes_with_its_link() {
    let site = site();
    let mut peer = Peer::begun(site.address, GUEST, "/");
    let publisher = amqp10_client::publisher_to(0, None);
    let Some(LinkTarget::Terminus(target)) = publisher.target else { panic!("a publisher") };
    let capabilities = Symbols::One("temporary-queue");
    let target = TargetTerminus { dynamic: true, capabilities, ..target };
    let attach = Attach { target: Some(LinkTarget::Terminus(target)), ..publisher };
    peer.says(&Performative::Attach(Box::new(attach)));
    let answer = peer.frame(FrameType::Amqp);
    let Ok((Performative::Attach(answer), _)) = Performative::decode(&answer) else {
        panic!("an attach")
    };
    let Some(LinkTarget::Terminus(target)) = answer.target else { panic!("a target") };
    let Some(ValueRef::Str(address)) = target.address else { panic!("an address") };
    assert!(address.starts_with("/queues/amq.dyn-") && target.dynamic, "{address}");
    peer.transfers(0, false, b"m");
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    peer.attaches(Role::Receiver, address);
    assert_eq!(peer.hears(), "attach Sender");
    peer.gives_credit(0, 1);
    assert_eq!(peer.hears(), "transfer 0 m");
    peer.says(&Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    assert_eq!(peer.hears(), "detach");
    assert_eq!(peer.hears(), "detach amqp:resource-deleted");
}

/// Sections whose header in AMQP 0-9-1 is larger than the smallest frames, and those that are not.
fn put_many(out: &mut Vec<u8>, n_properties: u32) {
    amqp10::put_application_properties(out, |items| {
        for n in 0..n_properties {
            items.put(ValueRef::Str(&format!("property {n:04}")));
            items.put(ValueRef::U64(0));
        }
        items.put(ValueRef::Str(&"k".repeat(256)));
        items.put(ValueRef::Str("no name in AMQP 0-9-1"));
    });
    Section::Data(b"large").encode(out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_whose_header_becomes_too_large_stay_for_others() {
    const N_PROPERTIES: u32 = 400;
    let site = site();
    let mut wide = Client::guest(site.address);
    for kind in ["classic", "quorum"] {
        let arguments = Table::from_iter([(ShortString::from_static("x-queue-type"), kind.into())]);
        let arguments = arguments.to_bytes();
        let arguments = TableRef::trusted(&arguments);
        let queue = kind.as_bytes();
        let declare = QueueDeclare { queue, arguments, durable: true, ..QueueDeclare::default() };
        assert_eq!(wide.ask(1, declare), "queue.declare-ok");
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches(Role::Sender, &format!("/queues/{kind}"));
        assert_eq!(peer.hears(), "attach Receiver");
        let narrow = || {
            let login = Login { frame_max: 8_192, ..Login::default() };
            let mut narrow = Client::login(site.address, login);
            narrow.open_channel(1);
            narrow
        };
        let mut waiting = narrow();
        waiting.consume(kind, true);
        peer.transfers_sections(0, false, |out| put_many(out, N_PROPERTIES));
        assert_eq!(peer.hears(), "settled 0..=0 accepted true");
        let mut coming = narrow();
        coming.consume(kind, true);
        let mut getting = narrow();
        let get = BasicGet { queue, no_ack: true, ..BasicGet::default() };
        let refused = getting.ask(1, get);
        for refused in [refused, coming.next().show(), waiting.next().show()] {
            assert!(refused.starts_with("connection.close 501 FRAME_ERROR"), "{refused}");
            assert!(refused.ends_with(&format!("stays in queue '{kind}'")), "{refused}");
        }
        let got = wide.get(kind).unwrap();
        assert_eq!((got.redelivered, &*got.body), (kind == "quorum", &b"large"[..]));
        let headers = PropertiesRef::parse(&got.properties).unwrap().headers().unwrap();
        assert_eq!(
            headers.iter().filter(|(name, _)| !name.starts_with(b"x-")).count(),
            N_PROPERTIES as usize
        );
        // A head that is perhaps too large, and is not.
        let mut narrow = narrow();
        narrow.consume(kind, true);
        peer.transfers_sections(1, true, |out| put_many(out, 100));
        assert_eq!(narrow.message().unwrap().body, b"large");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_refused_alone() {
    let site = site();
    let mut peer = Peer::begun(site.address, GUEST, "/");
    for (role, address, condition) in [
        (Role::Receiver, "/queues/none", "amqp:not-found"),
        (Role::Sender, "/queues/none", "amqp:not-found"),
        (Role::Sender, "/exchanges/none/key", "amqp:not-found"),
        (Role::Sender, "nothing", "amqp:invalid-field"),
    ] {
        peer.attaches(role, address);
        assert!(peer.hears().starts_with("attach"));
        assert_eq!(peer.hears(), format!("detach {condition}"));
        let handle = u32::from(role == Role::Receiver);
        peer.says(&Performative::Detach(Detach { handle, closed: true, error: None }));
    }
    let mut old = Client::guest(site.address);
    old.declare("brief");
    peer.attaches(Role::Sender, "/queues/brief");
    assert_eq!(peer.hears(), "attach Receiver");
    let delete = QueueDelete { queue: b"brief", ..QueueDelete::default() };
    assert_eq!(old.ask(1, delete), "queue.delete-ok");
    peer.transfers(0, false, b"lost");
    assert_eq!(peer.hears(), "detach amqp:resource-deleted");
}

/// Messages that name their nodes: the broker knows which of them there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_name_their_nodes() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.declare("q");
    let exchange = ExchangeDeclare {
        exchange: b"inner",
        kind: b"direct",
        internal: true,
        ..ExchangeDeclare::default()
    };
    assert_eq!(old.ask(1, exchange), "exchange.declare-ok");
    let transfer = |peer: &mut Peer, n: u32, settled: bool, message: &[u8]| {
        peer.transfers_sections(n, settled, |out| out.extend_from_slice(message));
    };
    let attached = || {
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.says(&Performative::Attach(Box::new(amqp10_client::publisher_to(0, None))));
        assert_eq!(peer.hears(), "attach Receiver");
        peer
    };
    let to = |address: &str| amqp10_client::message_to(address, b"m");
    let mut peer = attached();
    transfer(&mut peer, 0, false, &to("/queues/q"));
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    transfer(&mut peer, 1, false, &to("/queues/none"));
    assert_eq!(peer.hears(), "settled 1..=1 accepted false");
    transfer(&mut peer, 2, false, &to("/exchanges/none/k"));
    assert_eq!(peer.hears(), "settled 2..=2 accepted false amqp:not-found");
    transfer(&mut peer, 3, false, &to("q"));
    assert_eq!(peer.hears(), "settled 3..=3 accepted false amqp:precondition-failed");
    transfer(&mut peer, 4, true, &to("/exchanges/amq.direct/k"));
    transfer(&mut peer, 5, false, &to("/queues/q"));
    assert_eq!(peer.hears(), "settled 5..=5 accepted true");
    transfer(&mut peer, 6, true, &to("/exchanges/none"));
    assert_eq!(peer.hears(), "detach amqp:not-found");
    let mut foreign = Vec::new();
    let properties = amqp10::Properties {
        to: Some(ValueRef::Str("/queues/q")),
        user_id: Some(b"somebody"),
        ..amqp10::Properties::default()
    };
    Section::Properties(properties).encode(&mut foreign);
    Section::Data(b"m").encode(&mut foreign);
    for message in [to("/exchanges/inner"), foreign] {
        let mut peer = attached();
        transfer(&mut peer, 0, false, &to("/queues/q"));
        assert_eq!(peer.hears(), "settled 0..=0 accepted true");
        transfer(&mut peer, 1, false, &message);
        assert_eq!(peer.hears(), "detach amqp:unauthorized-access");
        // The session goes on.
        peer.attaches(Role::Receiver, "/queues/q");
        assert_eq!(peer.hears(), "attach Sender");
    }
}

/// Credit is the queue's own: it counts what is there, and a drain uses it up. What one consumer has no
/// credit for another one gets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_get_what_they_give_credit_for() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.select_confirms();
    for (queue, kind) in [("of-classic", "classic"), ("of-quorum", "quorum")] {
        declare(&mut old, queue, kind);
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches(Role::Receiver, &format!("/queues/{queue}"));
        assert_eq!(peer.hears(), "attach Sender");
        for n in 0..15 {
            old.put_publish(queue, true, format!("m{n}").as_bytes());
        }
        old.wait_for_confirms();
        peer.flows(0, Flow { link_credit: Some(0), echo: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "flow 0+0 of 15", "{queue}");
        peer.flows(0, Flow { link_credit: Some(1), echo: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "transfer 0 m0");
        assert_eq!(peer.hears_any(), "flow 1+0 of 14");
        // Without credit it holds nothing back from another one.
        let mut other = Peer::begun(site.address, GUEST, "/");
        other.attaches(Role::Receiver, &format!("/queues/{queue}"));
        assert_eq!(other.hears(), "attach Sender");
        other.gives_credit(0, 2);
        assert_eq!([other.hears(), other.hears()], ["transfer 0 m1", "transfer 1 m2"]);
        peer.gives_credit(1, 10);
        for n in 0..10 {
            assert_eq!(peer.hears_any(), format!("transfer {} m{}", n + 1, n + 3));
        }
        peer.flows(11, Flow { link_credit: Some(100), drain: true, ..NO_FLOW });
        assert_eq!([peer.hears_any(), peer.hears_any()], ["transfer 11 m13", "transfer 12 m14"]);
        assert_eq!(peer.hears_any(), "flow 111+0 of 0 drained");
        // What the client holds when it is gone comes again, in order.
        drop(peer);
        other.gives_credit(2, 13);
        for (id, n) in (2..).zip([0].into_iter().chain(3..15)) {
            assert_eq!(other.hears(), format!("transfer {id} m{n} again"));
        }
    }
}

/// A stream gives no more than the credit, whether the client settles what it gets or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_consumed_by_credit() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.select_confirms();
    declare(&mut old, "s", "stream");
    for (n, mode) in [SenderSettleMode::Mixed, SenderSettleMode::Settled].into_iter().enumerate() {
        let mut peer = Peer::begun(site.address, GUEST, "/");
        peer.attaches_as(Role::Receiver, "/queues/s", mode);
        assert_eq!(peer.hears(), "attach Sender");
        for body in [b"a", b"b", b"c"] {
            old.put_publish("s", true, body);
        }
        old.wait_for_confirms();
        peer.gives_credit(0, 2);
        assert_eq!([peer.hears(), peer.hears()], ["transfer 0 a", "transfer 1 b"], "{n}");
        peer.flows(2, Flow { link_credit: Some(9), drain: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "transfer 2 c");
        assert_eq!(peer.hears_any(), "flow 11+0 of 0 drained");
    }
}

/// An alarm closes the windows of all sessions, those that publish and those that begin later, and nothing
/// else: a client that has not heard of it yet is borne, and consumers go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alarms_close_windows_and_consumers_go_on() {
    let site = site();
    let mut old = Client::guest(site.address);
    declare(&mut old, "q", "classic");
    let mut peer = Peer::begun(site.address, GUEST, "/");
    peer.attaches(Role::Sender, "/queues/q");
    assert_eq!(peer.hears(), "attach Receiver");
    assert_eq!(peer.hears_any(), "flow 0+170 of 0");
    peer.attaches(Role::Receiver, "/queues/q");
    assert_eq!(peer.hears(), "attach Sender");
    site.broker.set_alarm(Alarm::Memory, true);
    assert_eq!(peer.hears_any(), "flow window 0");
    let mut late = Peer::begun(site.address, GUEST, "/");
    for n in 0..2 {
        peer.transfers(n, false, b"during it");
        assert_eq!(peer.hears(), format!("settled {n}..={n} accepted true"));
        peer.gives_credit(n, 1);
        assert_eq!(peer.hears(), format!("transfer {n} during it"));
    }
    site.broker.set_alarm(Alarm::Memory, false);
    assert_eq!(peer.hears_any(), "flow window 400");
    assert_eq!(late.hears_any(), "flow window 400");
}
