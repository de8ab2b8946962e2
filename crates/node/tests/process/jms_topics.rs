//! Topics of JMS: subscriptions outlive a node that is killed, and end when their clients close them.

use super::support::node::Node;
use amqp10::{
    Attach, Detach, Header, LinkTarget, Open, Performative, Role, Section, SenderSettleMode,
    SourceTerminus, Symbol, Symbols, TargetTerminus, TerminusDurability, ValueRef,
    put_application_properties, put_described, put_map,
};
use testing::amqp10_client::{self, consumer, publisher};
use testing::amqp10_peer::Peer;

const GUEST: &[u8] = b"\0guest\0guest";
const TOPIC: Symbols<'static> = Symbols::One("topic");

/// A client that knows what brokers of JMS have.
fn connect(node: &Node) -> Peer {
    let desired_capabilities = Symbols::One("SHARED-SUBS");
    let open = Open { desired_capabilities, ..amqp10_client::open() };
    let mut peer = Peer::open_as(node.address(), GUEST, open);
    peer.says(&Performative::Begin(Box::new(amqp10_client::begin())));
    assert_eq!(peer.hears(), "begin");
    peer
}

/// Attaches a durable subscription to a topic with this selector; returns the answer.
fn subscribes(peer: &mut Peer, selector: &str) -> String {
    let (mut filter, mut filters) = (Vec::new(), Vec::new());
    put_described(&mut filter, 0x468c_0000_0004);
    ValueRef::Str(selector).encode(&mut filter);
    let filter = ValueRef::decode(&filter).unwrap().0;
    put_map(&mut filters, |items| items.put_symbol("jms-selector", filter));
    let Ok((ValueRef::Map(filters), _)) = ValueRef::decode(&filters) else { panic!("a map") };
    let source = SourceTerminus {
        address: Some(ValueRef::Str("news")),
        durable: TerminusDurability::UnsettledState,
        expiry_policy: Symbol("never"),
        filter: Some(filters),
        capabilities: TOPIC,
        ..SourceTerminus::default()
    };
    let (source, snd_settle_mode) = (Some(source), SenderSettleMode::Settled);
    let attach = Attach { name: "sub", source, snd_settle_mode, ..consumer(1, "") };
    peer.says(&Performative::Attach(Box::new(attach)));
    peer.hears()
}

/// Looks a subscription up, as clients do that are about to end it; returns the answer.
fn looks_up(peer: &mut Peer) -> String {
    let attach = Attach { name: "sub", source: None, ..consumer(1, "") };
    peer.says(&Performative::Attach(Box::new(attach)));
    peer.hears()
}

fn detaches(peer: &mut Peer, closed: bool) {
    peer.says(&Performative::Detach(Detach { handle: 1, closed, error: None }));
    assert_eq!(peer.hears(), "detach");
}

/// Publishes messages whose property `n` is these numbers, which are kept, to the topic.
fn publishes(node: &Node, numbers: &[u32]) {
    let mut peer = connect(node);
    let target = TargetTerminus {
        address: Some(ValueRef::Str("news")),
        capabilities: TOPIC,
        ..TargetTerminus::default()
    };
    let target = Some(LinkTarget::Terminus(target));
    peer.says(&Performative::Attach(Box::new(Attach { target, ..publisher(0, "") })));
    assert_eq!(peer.hears(), "attach Receiver");
    for (delivery, n) in (0..).zip(numbers) {
        peer.transfers_sections(delivery, false, |out| {
            let header = Header { durable: Some(true), ..Header::default() };
            Section::Header(header).encode(out);
            put_application_properties(out, |items| {
                items.put(ValueRef::Str("n"));
                items.put(ValueRef::U32(*n));
            });
            Section::Data(n.to_string().as_bytes()).encode(out);
        });
        assert_eq!(peer.hears(), format!("settled {delivery}..={delivery} accepted true"));
    }
}

#[test]
fn a_durable_subscription_outlives_a_killed_node() {
    let mut node = Node::start(&[]);
    publishes(&node, &[9]);
    let mut peer = connect(&node);
    assert_eq!(subscribes(&mut peer, "n > 1"), "attach Sender");
    let listed = node.ctl(&["list_links", "source_address", "queue_name"]);
    assert!(listed.contains("news\tjms.durable.client/sub"), "{listed}");
    detaches(&mut peer, false);
    publishes(&node, &[1, 2, 3]);
    node.kill_and_start();
    publishes(&node, &[4, 0]);
    let mut peer = connect(&node);
    assert_eq!(subscribes(&mut peer, "n > 1"), "attach Sender");
    peer.gives_credit(0, 10);
    for (delivery, n) in (0..).zip(["2 again", "3 again", "4"]) {
        assert_eq!(peer.hears(), format!("transfer {delivery} {n}"));
    }
    // Another connection does not get at it meanwhile.
    let mut other = connect(&node);
    for answer in [subscribes(&mut other, "n > 1"), looks_up(&mut connect(&node))] {
        assert_eq!(answer, "attach Sender");
    }
    assert_eq!(other.hears(), "detach amqp:resource-locked");
    detaches(&mut peer, false);
    assert_eq!(looks_up(&mut peer), "attach Sender");
    assert!(node.ctl(&["list_queues", "name"]).contains("jms.durable.client/sub"));
    detaches(&mut peer, true);
    assert!(!node.ctl(&["list_queues", "name"]).contains("jms."));
    assert_eq!(looks_up(&mut peer), "attach Sender");
    assert_eq!(peer.hears(), "detach amqp:not-found");
    // Other clients just have no source.
    let mut other = Peer::begun(node.address(), GUEST, "/");
    assert_eq!(looks_up(&mut other), "attach Sender");
    assert_eq!(other.hears(), "detach amqp:invalid-field");
    node.stop();
}

/// Subscriptions of a kind have one queue each, however many links there are.
#[test]
fn many_subscribers_of_one_name_share_one_queue() {
    let node = Node::start(&[]);
    let mut peers: Vec<Peer> = (0..100).map(|_| connect(&node)).collect();
    for (n, peer) in peers.iter_mut().enumerate() {
        for handle in 1..=10 {
            let name = format!("pool|{n}-{handle}");
            let source = SourceTerminus {
                address: Some(ValueRef::Str("work")),
                capabilities: Symbols::Listed(&["topic", "shared"]),
                ..SourceTerminus::default()
            };
            let attach = Attach { name: &name, source: Some(source), ..consumer(handle, "") };
            peer.says(&Performative::Attach(Box::new(attach)));
            assert_eq!(peer.hears(), "attach Sender", "{name}");
        }
    }
    let listed = node.ctl(&["list_queues", "name", "consumers"]);
    assert!(listed.contains("jms.shared.client/pool\t1000"), "{listed}");
    drop(peers);
    super::support::wait_until("the subscription to go", || {
        !node.ctl(&["list_queues", "name"]).contains("jms.shared")
    });
    node.stop();
}

#[test]
fn a_terminus_without_capabilities_is_no_topic() {
    let node = Node::start(&[]);
    let mut peer = connect(&node);
    peer.attaches(Role::Receiver, "news");
    assert_eq!(peer.hears(), "attach Sender");
    assert_eq!(peer.hears(), "detach amqp:invalid-field");
    assert!(!node.ctl(&["list_exchanges", "name"]).contains("jms.topic"));
    node.stop();
}
