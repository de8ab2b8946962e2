//! Federation from the upstream's side: another broker's links declare, bind and consume here as RabbitMQ's
//! do. A node is upstream only.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stream_client;
use amqp091::method::{
    BasicAck, BasicCancel, BasicConsume, BasicPublish, BasicQos, ExchangeBind, ExchangeDeclare,
    ExchangeDelete, ExchangeUnbind, QueueBind, QueueDeclare, QueueDelete,
};
use amqp091::{Method, Properties, ShortString, Table, TableRef, Value};
use streamproto::List;
use streamproto::command::PeerProperties;
use testing::client::{Client, HEADER, Message};

/// The names that a link from vhost `far` of the cluster `down` gives.
const QUEUE: &str = "federation: up -> down:far:up";
const INTERNAL: &str = "federation: up -> down:far:up B";

fn table(entries: &[(&'static str, Value)]) -> Table {
    let named =
        |(name, value): &(&'static str, Value)| (ShortString::from_static(name), value.clone());
    entries.iter().map(named).collect()
}

/// The arguments of the exchange that a link's queue is bound to.
fn upstream_arguments() -> Vec<(&'static str, Value)> {
    vec![
        ("x-max-hops", Value::I64(2)),
        ("x-downstream-name", Value::from("down")),
        ("x-downstream-vhost", Value::from("far")),
        ("x-internal-purpose", Value::from("federation")),
    ]
}

fn declare_upstream(client: &mut Client, channel: u16, arguments: &Table, passive: bool) -> String {
    let arguments = arguments.to_bytes();
    let declare = ExchangeDeclare {
        exchange: INTERNAL.as_bytes(),
        kind: b"x-federation-upstream",
        passive,
        durable: true,
        auto_delete: true,
        internal: true,
        arguments: TableRef::trusted(&arguments),
        ..ExchangeDeclare::default()
    };
    client.ask(channel, declare)
}

/// Declares as a link does: the exchange if it is missing, its queue, the exchange between them, bindings.
fn link(client: &mut Client, address: std::net::SocketAddr) {
    let up = ExchangeDeclare {
        exchange: b"up",
        kind: b"topic",
        durable: true,
        ..ExchangeDeclare::default()
    };
    client.open_channel(2);
    let missing = client.ask(2, ExchangeDeclare { passive: true, ..up });
    assert_eq!(missing, "channel.close 404 NOT_FOUND - no exchange 'up' in vhost '/'");
    client.say(2, amqp091::method::ChannelCloseOk {});
    assert_eq!(client.ask(1, up), "exchange.declare-ok");
    let arguments = table(&[
        ("x-expires", Value::I64(3_600_000)),
        ("x-message-ttl", Value::I64(3_600_000)),
        ("x-internal-purpose", Value::from("federation")),
        ("x-queue-type", Value::from("classic")),
    ]);
    let arguments = arguments.to_bytes();
    let queue = QueueDeclare {
        queue: QUEUE.as_bytes(),
        durable: true,
        arguments: TableRef::trusted(&arguments),
        ..QueueDeclare::default()
    };
    assert_eq!(client.ask(1, queue), "queue.declare-ok");
    assert_eq!(
        client.ask(1, BasicQos { prefetch_count: 1000, ..BasicQos::default() }),
        "basic.qos-ok"
    );
    client.consume(QUEUE, false);
    let delete = ExchangeDelete { exchange: INTERNAL.as_bytes(), ..ExchangeDelete::default() };
    assert_eq!(client.ask(1, delete), "exchange.delete-ok");
    // Over a connection of its own, which ends at once.
    let mut brief = Client::guest(address);
    assert_eq!(
        declare_upstream(&mut brief, 1, &table(&upstream_arguments()), false),
        "exchange.declare-ok"
    );
    brief.close();
    let bind = QueueBind {
        queue: QUEUE.as_bytes(),
        exchange: INTERNAL.as_bytes(),
        ..QueueBind::default()
    };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
    let bound_from = bound_from();
    let bind = ExchangeBind {
        source: b"up",
        destination: INTERNAL.as_bytes(),
        routing_key: b"a.#",
        arguments: TableRef::trusted(&bound_from),
        ..ExchangeBind::default()
    };
    assert_eq!(client.ask(1, bind), "exchange.bind-ok");
}

/// The argument by which bindings are handed from broker to broker.
fn bound_from() -> Vec<u8> {
    let hop = table(&[
        ("cluster-name", Value::from("down")),
        ("vhost", Value::from("far")),
        ("exchange", Value::from("far:up B")),
        ("hops", Value::I16(2)),
    ]);
    table(&[("x-bound-from", Value::Array(vec![Value::Table(hop)]))]).to_bytes()
}

fn hop(cluster: &str, vhost: &str) -> Value {
    let fields = [("cluster-name", Value::from(cluster)), ("vhost", Value::from(vhost))];
    Value::Table(table(&fields))
}

fn publish(client: &mut Client, hops: Option<Value>, body: &str) {
    let headers = hops.map(|hops| table(&[("x-received-from", hops)]));
    let properties = Properties { headers, ..Properties::default() };
    client.put_message("up", "a.b", &properties, body.as_bytes());
}

/// Those messages, in this order.
fn expect(link: &mut Client, bodies: &[&str]) {
    let messages: Vec<Message> = bodies.iter().map(|_| link.message().unwrap()).collect();
    for (message, body) in messages.iter().zip(bodies) {
        assert_eq!(String::from_utf8_lossy(&message.body), *body);
        assert_eq!((&*message.exchange, &*message.routing_key), (&b"up"[..], &b"a.b"[..]));
    }
    let delivery_tag = messages.last().unwrap().tag;
    link.say(1, BasicAck { delivery_tag, multiple: true });
}

/// A link gets what is bound, but for what its broker has had and what has been sent on too often; its
/// exchange outlives the node.
#[test]
fn a_downstream_broker_federates_an_exchange() {
    let mut node = Node::start(&[]);
    let mut downstream = Client::guest(node.address());
    link(&mut downstream, node.address());
    let mut client = Client::guest(node.address());
    client.select_confirms();
    let array = |hops: Vec<Value>| Some(Value::Array(hops));
    publish(&mut client, None, "first");
    publish(&mut client, array(vec![hop("down", "far")]), "had");
    publish(&mut client, array(vec![hop("other", "far"), hop("other", "far")]), "too far");
    publish(&mut client, array(vec![Value::I32(1), Value::I32(2)]), "too far");
    publish(&mut client, array(vec![hop("down", "near")]), "of another vhost");
    publish(
        &mut client,
        array(vec![Value::Table(table(&[("vhost", Value::from("far"))]))]),
        "of nobody",
    );
    publish(&mut client, array(Vec::new()), "of none");
    publish(&mut client, Some(hop("down", "far")), "no list");
    client.put_content("up", "b", 1, b"not bound");
    client.wait_for_confirms();
    expect(&mut downstream, &["first", "of another vhost", "of nobody", "of none", "no list"]);
    let mut stranger = Client::guest(node.address());
    let publish_there = BasicPublish { exchange: INTERNAL.as_bytes(), ..BasicPublish::default() };
    stranger.put_whole(publish_there, &Properties::default(), b"x");
    stranger.flush();
    let refused = format!(
        "channel.close 403 ACCESS_REFUSED - cannot publish to internal exchange '{INTERNAL}' in vhost '/'"
    );
    assert_eq!(stranger.next().show(), refused);
    drop((downstream, client, stranger));

    node.stop_and_start();
    let mut downstream = Client::guest(node.address());
    // The link looks now and then whether its exchange is still there.
    let declared = declare_upstream(&mut downstream, 1, &table(&upstream_arguments()), true);
    assert_eq!(declared, "exchange.declare-ok");
    downstream.consume(QUEUE, false);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    publish(&mut client, array(vec![hop("down", "far")]), "had");
    publish(&mut client, None, "second");
    client.wait_for_confirms();
    expect(&mut downstream, &["second"]);
    let bound_from = bound_from();
    let unbind = ExchangeUnbind {
        source: b"up",
        destination: INTERNAL.as_bytes(),
        routing_key: b"a.#",
        arguments: TableRef::trusted(&bound_from),
        ..ExchangeUnbind::default()
    };
    assert_eq!(downstream.ask(1, unbind), "exchange.unbind-ok");
    let delete = QueueDelete { queue: QUEUE.as_bytes(), ..QueueDelete::default() };
    client.say(1, delete);
    assert_eq!(client.next().show(), "queue.delete-ok");
    // It goes with its last binding.
    let gone = declare_upstream(&mut client, 1, &table(&upstream_arguments()), true);
    assert_eq!(
        gone,
        format!("channel.close 404 NOT_FOUND - no exchange '{INTERNAL}' in vhost '/'")
    );
}

/// A federated queue's link consumes while it has consumers itself, and comes after those that are here.
#[test]
fn a_downstream_broker_federates_a_queue() {
    let node = Node::start(&[]);
    let mut downstream = Client::guest(node.address());
    assert_eq!(downstream.declare("q"), 0);
    let arguments = table(&[("x-priority", Value::I64(-1))]).to_bytes();
    let consume = BasicConsume {
        queue: b"q",
        consumer_tag: b"federation-link-up",
        no_wait: true,
        arguments: TableRef::trusted(&arguments),
        ..BasicConsume::default()
    };
    downstream.say(1, consume);
    downstream.round_trip();
    let mut client = Client::guest(node.address());
    client.put_publish("q", true, b"for the link");
    client.flush();
    let message = downstream.message().unwrap();
    assert_eq!(message.body, b"for the link");
    downstream.say(1, BasicAck { delivery_tag: message.tag, multiple: false });
    let mut near = Client::guest(node.address());
    near.consume("q", true);
    client.put_publish("q", true, b"for the one here");
    client.flush();
    assert_eq!(near.message().unwrap().body, b"for the one here");
    near.close();
    downstream.say(1, BasicCancel { consumer_tag: b"federation-link-up", no_wait: true });
    downstream.round_trip();
    client.put_publish("q", true, b"stays");
    client.flush();
    client.round_trip();
    assert_eq!(client.get("q").unwrap().body, b"stays");
}

/// Such exchanges are refused as by RabbitMQ, in its words; queues of every type take the argument that says
/// whose they are.
#[test]
fn an_upstream_exchange_has_a_number_of_hops() {
    let node = Node::start(&[]);
    let refused = |arguments: &[(&'static str, Value)]| {
        let mut client = Client::guest(node.address());
        let told = declare_upstream(&mut client, 1, &table(arguments), false);
        told.replace("channel.close 406 PRECONDITION_FAILED - ", "")
    };
    assert_eq!(refused(&[]), "Argument x-max-hops missing");
    for value in [Value::I32(2), Value::from("2"), Value::F64(2.0), Value::Void] {
        assert_eq!(refused(&[("x-max-hops", value)]), "Argument x-max-hops must be of type long");
    }
    assert_eq!(refused(&[("x-max-hops", Value::I64(2))]), "exchange.declare-ok");
    assert_eq!(refused(&upstream_arguments()), "exchange.declare-ok");
    assert_eq!(
        refused(&[("x-max-hops", Value::I64(3))]),
        format!(
            "inequivalent arg 'x-max-hops' for exchange '{INTERNAL}' in vhost '/': received '3' but current \
             is '2'"
        )
    );
    assert_eq!(
        refused(&[]),
        format!(
            "inequivalent arg 'x-max-hops' for exchange '{INTERNAL}' in vhost '/': received none but \
             current is the value '2' of type 'long'"
        )
    );
    let mut client = Client::guest(node.address());
    for kind in ["classic", "quorum", "stream"] {
        let arguments =
            table(&[("x-queue-type", kind.into()), ("x-internal-purpose", "federation".into())])
                .to_bytes();
        let declare = QueueDeclare {
            queue: kind.as_bytes(),
            durable: true,
            arguments: TableRef::trusted(&arguments),
            ..QueueDeclare::default()
        };
        assert_eq!(client.ask(1, declare), "queue.declare-ok");
    }
}

/// A list of hops is looked through for each exchange that federates, in steps that are counted.
#[test]
fn many_upstreams_of_long_lists_keep_nobody_waiting() {
    const N_UPSTREAMS: usize = 2_000;
    let node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    let arguments = table(&[("x-max-hops", Value::I64(i64::MAX))]).to_bytes();
    let up = ExchangeDeclare { exchange: b"up", kind: b"topic", ..ExchangeDeclare::default() };
    assert_eq!(client.ask(1, up), "exchange.declare-ok");
    client.declare("q");
    for n in 0..N_UPSTREAMS {
        let name = format!("to {n}");
        let exchange = name.as_bytes();
        let declare = ExchangeDeclare {
            exchange,
            kind: b"x-federation-upstream",
            no_wait: true,
            arguments: TableRef::trusted(&arguments),
            ..ExchangeDeclare::default()
        };
        Method::from(declare).encode_frame(1, &mut client.out);
        let bind = QueueBind { queue: b"q", exchange, no_wait: true, ..QueueBind::default() };
        Method::from(bind).encode_frame(1, &mut client.out);
        let bind = ExchangeBind {
            source: b"up",
            destination: exchange,
            routing_key: b"#",
            no_wait: true,
            ..ExchangeBind::default()
        };
        Method::from(bind).encode_frame(1, &mut client.out);
    }
    client.flush();
    client.round_trip();
    client.select_confirms();
    let bystander = Bystander::watch(&node);
    let hops = vec![Value::Void; 100_000];
    for _ in 0..10 {
        publish(&mut client, Some(Value::Array(hops.clone())), "x");
    }
    client.wait_for_confirms();
    bystander.expect_no_wait("lists of hops for 2,000 upstreams");
    node.expect_logged(1, "exceed the step limit for a message");
}

/// The name by which brokers tell each other apart is the one that operators see and give.
#[test]
fn clients_are_told_the_clusters_name() {
    let greeted = |node: &Node| {
        let mut client = Client::raw(node.address());
        client.write(HEADER);
        let start = client.next();
        let Method::ConnectionStart(start) = start.method() else { panic!("{}", start.show()) };
        let name = start.server_properties.get(b"cluster_name").and_then(|name| name.as_str());
        let name = name.unwrap().to_owned();
        let mut streams = stream_client::Client::connect(node.stream_address());
        streams.says(&PeerProperties { correlation_id: 1, properties: List::of(&[]) });
        let told = streams.hears();
        assert!(told.contains(&format!("{name:?}")), "{told}");
        name
    };
    let shown = |node: &Node| {
        let status = node.ctl(&["cluster_status", "--formatter", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["cluster_name"].as_str().unwrap().to_owned()
    };
    let node = Node::start(&[]);
    assert_eq!(greeted(&node), shown(&node));
    assert!(greeted(&node).contains('@'), "{}", greeted(&node));
    node.ctl(&["set_cluster_name", "burrow"]);
    assert_eq!((greeted(&node), shown(&node)), ("burrow".to_owned(), "burrow".to_owned()));
    let node = Node::start_in_with(node.stop_and_leave(), &["cluster_name=hutch"]);
    assert_eq!((greeted(&node), shown(&node)), ("hutch".to_owned(), "hutch".to_owned()));
}
