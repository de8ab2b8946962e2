//! 30-55: declaring, deleting, binding, routing.

use super::super::support::client::{Client, Login};
use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Talk, declaration, table, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicGet, BasicPublish, ChannelClose, ChannelOpen, ExchangeBind,
    ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
};
use amqp091::{Properties, ShortString, Table, TableRef, Value};

const DURABLE: Kind = Kind { durable: true, exclusive: false, auto_delete: false };
const EXCLUSIVE: Kind = Kind { durable: false, exclusive: true, auto_delete: false };
const AUTO_DELETE: Kind = Kind { durable: false, exclusive: false, auto_delete: true };

fn delete(queue: &str) -> QueueDelete<'_> {
    QueueDelete { queue: queue.as_bytes(), ..QueueDelete::default() }
}

fn delete_exchange(exchange: &str) -> ExchangeDelete<'_> {
    ExchangeDelete { exchange: exchange.as_bytes(), ..ExchangeDelete::default() }
}

fn unbind<'a>(queue: &'a str, exchange: &'a str, key: &'a str) -> QueueUnbind<'a> {
    QueueUnbind {
        queue: queue.as_bytes(),
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        ..QueueUnbind::default()
    }
}

#[test]
fn semantics_31_a_passive_declaration_compares_nothing() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    assert_eq!(talk.exchange("amq.direct", "fanout", true), "exchange.declare-ok");
    talk.queue("q", DURABLE, &[]);
    let arguments = table(&[("x-max-length", Value::I32(5))]);
    let declare = QueueDeclare { passive: true, ..declaration("q", AUTO_DELETE, &arguments) };
    assert_eq!(talk.ask(declare), "declared q 0 0");
}

#[test]
fn semantics_32_redeclaring_compares_what_the_queue_knows() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let limit = |n| ("x-max-length", Value::I32(n));
    talk.queue("q", DURABLE, &[limit(5), ("x-foo", text("a"))]);
    talk.publish("", "q", "m");
    assert_eq!(talk.queue("q", DURABLE, &[limit(5), ("x-foo", text("b"))]), "declared q 1 0");
    assert_eq!(talk.queue("q", DURABLE, &[limit(5)]), "declared q 1 0");
    let arguments = table(&[limit(6)]);
    assert_eq!(
        talk.refused(declaration("q", DURABLE, &arguments)),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'"
    );
    assert_eq!(
        talk.refused(declaration("q", DURABLE, &[])),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '5' of type 'signedint'"
    );
    let classic = [("x-queue-type", text("classic"))];
    talk.queue("untyped", DURABLE, &[]);
    assert_eq!(talk.queue("untyped", DURABLE, &classic), "declared untyped 0 0");
    talk.queue("typed", DURABLE, &classic);
    assert_eq!(talk.queue("typed", DURABLE, &[]), "declared typed 0 0");
    talk.queue("lazy", DURABLE, &[("x-queue-mode", text("lazy"))]);
    let told = talk.refused(declaration("lazy", DURABLE, &[]));
    assert!(
        told.starts_with("406 PRECONDITION_FAILED - inequivalent arg 'x-queue-mode'"),
        "{told}"
    );
}

#[test]
fn semantics_33_a_number_is_a_number_whatever_its_width() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.queue("q", DURABLE, &[("x-message-ttl", Value::I32(60_000))]);
    let wide = [("x-message-ttl", Value::I64(60_000))];
    assert_eq!(talk.queue("q", DURABLE, &wide), "declared q 0 0");
}

#[test]
fn semantics_34_to_37_an_exclusive_queue_is_its_connections() {
    let node = Node::start(&[]);
    let (mut owner, mut other) = (Talk::to(&node), Talk::to(&node));
    owner.queue("q", Kind { durable: true, ..EXCLUSIVE }, &[]);
    // 34: it does not outlive its connection, so it is not durable.
    assert_eq!(owner.queue("q", EXCLUSIVE, &[]), "declared q 0 0");
    // 36.
    let locked = "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. \
                  It could be originally declared on another connection or the exclusive property value \
                  does not match that of the original declaration.";
    assert_eq!(owner.refused(declaration("q", Kind::default(), &[])), locked);
    // 35.
    let queue: &[u8] = b"q";
    assert_eq!(other.refused(declaration("q", EXCLUSIVE, &[])), locked);
    let look_up = QueueDeclare { passive: true, queue, ..QueueDeclare::default() };
    assert_eq!(other.refused(look_up), locked);
    assert_eq!(other.refused(BasicConsume { queue, ..BasicConsume::default() }), locked);
    assert_eq!(other.refused(BasicGet { queue, ..BasicGet::default() }), locked);
    assert_eq!(other.refused(QueuePurge { queue, ..QueuePurge::default() }), locked);
    assert_eq!(other.refused(delete("q")), locked);
    let bind = QueueBind { queue, exchange: b"amq.direct", ..QueueBind::default() };
    assert_eq!(other.refused(bind), locked);
    other.publish("", "q", "m");
    other.quiet();
    // 37: on any of the owner's channels; and it goes with the socket.
    owner.client.open_channel(2);
    owner.client.say(2, BasicGet { queue, no_ack: true, ..BasicGet::default() });
    assert_eq!(owner.next(), "got 1 m left 0");
    drop(owner);
    wait_until("the queue goes with its connection", || {
        other.say(look_up);
        let told = other.next();
        if told.starts_with("declared") {
            return true;
        }
        other.say(amqp091::method::ChannelCloseOk {});
        other.client.open_channel(1);
        told.starts_with("channel.close 404")
    });
    assert_eq!(other.queue("q", DURABLE, &[]), "declared q 0 0");
}

#[test]
fn semantics_38_an_empty_name_is_the_queue_declared_last() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("one");
    talk.plain("two");
    talk.publish("", "two", "m");
    assert_eq!(talk.get(""), "got 1 m left 0");
    assert_eq!(talk.bind("", "amq.fanout", ""), "queue.bind-ok");
    let look_up = QueueDeclare { passive: true, ..QueueDeclare::default() };
    assert_eq!(talk.refused(look_up), "404 NOT_FOUND - no queue '' in vhost '/'");
    assert_eq!(talk.queue("two", Kind::default(), &[]), "declared two 1 0");
    assert_eq!(talk.ask(delete("two")), "deleted 1");
    let get = BasicGet::default();
    assert_eq!(talk.refused(get), "404 NOT_FOUND - no queue 'two' in vhost '/'");
    assert_eq!(talk.refused(get), "404 NOT_FOUND - no previously declared queue");
    talk.plain("three");
    talk.client.say(1, ChannelClose { reply_code: 200, ..ChannelClose::default() });
    assert_eq!(talk.next(), "channel.close-ok");
    assert_eq!(talk.ask(ChannelOpen::default()), "channel.open-ok");
    assert_eq!(talk.refused(get), "404 NOT_FOUND - no previously declared queue");
}

#[test]
fn semantics_39_names_that_begin_with_amq_are_the_servers() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let exchange = ExchangeDeclare {
        exchange: b"amq.mine",
        kind: b"direct",
        durable: true,
        ..ExchangeDeclare::default()
    };
    assert_eq!(
        talk.refused(exchange),
        "403 ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    );
    assert_eq!(talk.exchange("amq.direct", "direct", false), "exchange.declare-ok");
    let other = ExchangeDeclare { exchange: b"amq.direct", kind: b"fanout", ..exchange };
    assert!(talk.refused(other).starts_with("406 PRECONDITION_FAILED - inequivalent arg 'type'"));
    assert_eq!(
        talk.refused(ExchangeDeclare { passive: true, ..exchange }),
        "404 NOT_FOUND - no exchange 'amq.mine' in vhost '/'"
    );
}

#[test]
fn semantics_40_the_default_exchange_is_as_it_is() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    let refused = "403 ACCESS_REFUSED - operation not permitted on the default exchange";
    let bind = QueueBind { queue: b"q", routing_key: b"k", ..QueueBind::default() };
    assert_eq!(talk.refused(bind), refused);
    assert_eq!(talk.refused(unbind("q", "", "q")), refused);
    let declare = ExchangeDeclare { kind: b"direct", durable: true, ..ExchangeDeclare::default() };
    assert_eq!(talk.refused(declare), refused);
    assert_eq!(talk.refused(delete_exchange("")), refused);
    let listed =
        node.ctl(&["list_bindings", "-s", "source_name", "destination_name", "routing_key"]);
    assert!(listed.lines().any(|line| line == "\tq\tq"), "{listed:?}");
}

#[test]
fn semantics_41_what_is_not_there_is_deleted_easily() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    assert_eq!(talk.ask(delete("nope")), "deleted 0");
    assert_eq!(talk.ask(delete_exchange("nope")), "exchange.delete-ok");
}

#[test]
fn semantics_42_and_43_bindings() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    assert_eq!(talk.ask(unbind("q", "amq.direct", "k")), "queue.unbind-ok");
    let to_nowhere = QueueBind { queue: b"q", exchange: b"x", ..QueueBind::default() };
    assert_eq!(talk.refused(to_nowhere), "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    let of_nobody = QueueBind { queue: b"none", exchange: b"amq.direct", ..QueueBind::default() };
    assert_eq!(talk.refused(of_nobody), "404 NOT_FOUND - no queue 'none' in vhost '/'");
    // 43: the same again changes nothing; arguments tell bindings apart, their order does not.
    let (a, b) = (("a", Value::I32(1)), ("b", Value::I32(2)));
    for arguments in [&[a.clone(), b.clone()][..], &[b, a.clone()], &[a]] {
        assert_eq!(talk.bind_with("q", "amq.direct", "k", arguments), "queue.bind-ok");
    }
    let listed = node.ctl(&["list_bindings", "-s", "source_name"]);
    assert_eq!(listed.lines().filter(|line| *line == "amq.direct").count(), 2, "{listed}");
    talk.publish("amq.direct", "k", "m");
    assert_eq!(talk.drain("q"), ["m"]);
}

#[test]
fn semantics_44_an_exchange_deletes_itself_with_its_last_binding() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let declare = |exchange| ExchangeDeclare {
        exchange,
        kind: b"fanout",
        auto_delete: true,
        ..ExchangeDeclare::default()
    };
    for exchange in [&b"x"[..], b"never", b"target"] {
        assert_eq!(talk.ask(declare(exchange)), "exchange.declare-ok");
    }
    talk.plain("q");
    // Bindings to it do not count.
    let from_elsewhere =
        ExchangeBind { destination: b"target", source: b"amq.fanout", ..ExchangeBind::default() };
    assert_eq!(talk.ask(from_elsewhere), "exchange.bind-ok");
    let no_more = amqp091::method::ExchangeUnbind {
        destination: b"target",
        source: b"amq.fanout",
        ..Default::default()
    };
    assert_eq!(talk.ask(no_more), "exchange.unbind-ok");
    assert_eq!(talk.exchange("target", "fanout", true), "exchange.declare-ok");
    talk.bind("q", "x", "1");
    talk.bind("q", "x", "2");
    assert_eq!(talk.ask(unbind("q", "x", "1")), "queue.unbind-ok");
    assert_eq!(talk.exchange("x", "fanout", true), "exchange.declare-ok");
    assert_eq!(talk.ask(unbind("q", "x", "2")), "queue.unbind-ok");
    let look_up = ExchangeDeclare { passive: true, ..declare(b"x") };
    assert_eq!(talk.refused(look_up), "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    assert_eq!(talk.exchange("never", "fanout", true), "exchange.declare-ok");
}

#[test]
fn semantics_45_a_queue_deletes_itself_after_its_last_consumer() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.queue("q", AUTO_DELETE, &[]);
    talk.queue("never", AUTO_DELETE, &[]);
    let mut other = Talk::to(&node);
    other.consume("q", "c", true);
    talk.consume("q", "d", true);
    assert_eq!(talk.ask(BasicCancel { consumer_tag: b"d", no_wait: false }), "cancelled d");
    assert_eq!(talk.look_up("q"), "declared q 0 1");
    other.client.close();
    let look_up = QueueDeclare { passive: true, queue: b"q", ..QueueDeclare::default() };
    assert_eq!(talk.refused(look_up), "404 NOT_FOUND - no queue 'q' in vhost '/'");
    assert_eq!(talk.look_up("never"), "declared never 0 0");
}

#[test]
fn semantics_47_if_unused_and_if_empty() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.consume("q", "c", false);
    let unused = QueueDelete { if_unused: true, ..delete("q") };
    assert_eq!(talk.refused(unused), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
    talk.publish("", "q", "m");
    let empty = QueueDelete { if_empty: true, ..delete("q") };
    assert_eq!(talk.refused(empty), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty");
    assert_eq!(talk.ask(unused), "deleted 1");
    talk.plain("q");
    talk.exchange("x", "fanout", false);
    talk.bind("q", "x", "");
    let unused = ExchangeDelete { if_unused: true, ..delete_exchange("x") };
    assert_eq!(talk.refused(unused), "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use");
    talk.ask(unbind("q", "x", ""));
    assert_eq!(talk.ask(unused), "exchange.delete-ok");
}

#[test]
fn semantics_48_and_94_consumers_hear_that_their_queue_is_gone() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let mut incapable = Talk::with(&node, Login { capable: false, ..Login::default() });
    let mut capable = Talk::with(&node, Login::default());
    talk.plain("q");
    talk.publish("", "q", "m");
    assert_eq!(capable.consume("q", "c", false), "consuming c");
    assert_eq!(capable.next(), "c 1 m");
    incapable.consume("q", "d", false);
    talk.publish("", "q", "n");
    assert_eq!(talk.ask(delete("q")), "deleted 0");
    assert_eq!(capable.next(), "c 2 n");
    assert_eq!(capable.next(), "lost c");
    // 94: whether it answers or not.
    capable.say(amqp091::method::BasicCancelOk { consumer_tag: b"c" });
    capable.quiet();
    incapable.quiet();
}

#[test]
fn semantics_49_publishes_to_a_queue_that_goes_are_confirmed() {
    let node = Node::start(&[]);
    let (mut talk, mut other) = (Talk::to(&node), Talk::to(&node));
    talk.queue("q", DURABLE, &[]);
    talk.say(amqp091::method::ConfirmSelect::default());
    assert_eq!(talk.next(), "confirm.select-ok");
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() };
    other.say(delete("q"));
    for _ in 0..100 {
        talk.publish_with("", "q", false, &persistent, "m");
    }
    assert!(other.next().starts_with("deleted "));
    assert_eq!(talk.confirms(1, 100), [true; 100]);
}

#[test]
fn semantics_50_internal_exchanges_and_circles() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let internal = ExchangeDeclare {
        exchange: b"inner",
        kind: b"fanout",
        internal: true,
        ..ExchangeDeclare::default()
    };
    assert_eq!(talk.ask(internal), "exchange.declare-ok");
    talk.exchange("outer", "fanout", false);
    let bind =
        |destination, source| ExchangeBind { destination, source, ..ExchangeBind::default() };
    assert_eq!(talk.ask(bind(b"inner", b"outer")), "exchange.bind-ok");
    assert_eq!(talk.ask(bind(b"outer", b"inner")), "exchange.bind-ok");
    talk.plain("q");
    talk.bind("q", "inner", "");
    talk.publish("outer", "", "m");
    assert_eq!(talk.drain("q"), ["m"]);
    talk.publish("inner", "", "m");
    assert_eq!(
        talk.failed(),
        "403 ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"
    );
}

/// However many bindings and keys lead there.
#[test]
fn semantics_51_a_queue_gets_a_message_once() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    for queue in ["q", "cc", "bcc"] {
        talk.plain(queue);
        talk.bind(queue, "amq.topic", &format!("{queue}.#"));
        talk.bind(queue, "amq.topic", &format!("*.{queue}"));
    }
    talk.bind("q", "amq.topic", "#");
    let mut headers = Table::new();
    let keys = |keys: &[&str]| Value::Array(keys.iter().map(|key| text(key)).collect());
    headers.push(ShortString::from_static("CC"), keys(&["cc.cc", "q.q", "cc.x"]));
    headers.push(ShortString::from_static("BCC"), keys(&["bcc.bcc"]));
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    talk.publish_with("amq.topic", "q.q", false, &properties, "m");
    for queue in ["q", "cc", "bcc"] {
        assert_eq!(talk.get(queue).split(' ').skip(2).collect::<Vec<_>>(), ["m", "left", "0"]);
        assert_eq!(talk.last.key, "q.q");
        assert!(talk.headers().get(b"CC").is_some() && talk.headers().get(b"BCC").is_none());
    }
}

#[test]
fn semantics_52_words_of_topics_may_be_empty() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    for pattern in ["#", "", "*", "*.#", "a.*.b", "#.#"] {
        talk.plain(pattern_queue(pattern));
        talk.bind(pattern_queue(pattern), "amq.topic", pattern);
    }
    for key in ["", "a..b", "a"] {
        talk.publish("amq.topic", key, key);
    }
    let mut got = |pattern| talk.drain(pattern_queue(pattern));
    assert_eq!(got("#"), ["", "a..b", "a"]);
    assert_eq!(got(""), [""]);
    assert_eq!(got("*"), ["a"]);
    assert_eq!(got("*.#"), ["a..b", "a"]);
    assert_eq!(got("a.*.b"), ["a..b"]);
    assert_eq!(got("#.#"), ["", "a..b", "a"]);
    let three = QueueBind {
        queue: b"all",
        exchange: b"amq.topic",
        routing_key: b"#.a.#.b.#",
        ..QueueBind::default()
    };
    let told = talk.refused(three);
    assert!(told.starts_with("406 PRECONDITION_FAILED - "), "{told}");
}

fn pattern_queue(pattern: &str) -> &str {
    match pattern {
        "#" => "all",
        "" => "empty",
        other => other,
    }
}

#[test]
fn semantics_53_headers() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let (one, tag) = (("k", Value::I32(1)), ("x-tag", text("t")));
    let bindings: [(&str, Vec<(&'static str, Value)>); 7] = [
        ("all", vec![("x-match", text("all")), one.clone(), tag.clone()]),
        ("any", vec![("x-match", text("any")), one.clone(), tag.clone()]),
        ("all-with-x", vec![("x-match", text("all-with-x")), one.clone(), tag.clone()]),
        ("any-with-x", vec![("x-match", text("any-with-x")), one.clone(), tag.clone()]),
        ("present", vec![("x-match", text("all")), ("k", Value::Void)]),
        ("all of none", vec![("x-match", text("all"))]),
        ("any of none", vec![("x-match", text("any"))]),
    ];
    for (queue, arguments) in &bindings {
        talk.plain(queue);
        assert_eq!(talk.bind_with(queue, "amq.headers", "", arguments), "queue.bind-ok");
    }
    let cases: [(&str, Vec<(&'static str, Value)>); 4] = [
        ("number", vec![one]),
        ("text", vec![("k", text("1"))]),
        ("tag", vec![tag.clone()]),
        ("both", vec![("k", Value::I64(1)), tag]),
    ];
    for (body, headers) in cases {
        let headers: Table = headers
            .into_iter()
            .map(|(name, value)| (ShortString::from_static(name), value))
            .collect();
        let properties = Properties { headers: Some(headers), ..Properties::default() };
        talk.publish_with("amq.headers", "", false, &properties, body);
    }
    assert_eq!(talk.drain("all"), ["number", "both"]);
    assert_eq!(talk.drain("any"), ["number", "both"]);
    assert_eq!(talk.drain("all-with-x"), ["both"]);
    assert_eq!(talk.drain("any-with-x"), ["number", "tag", "both"]);
    assert_eq!(talk.drain("present"), ["number", "text", "both"]);
    assert_eq!(talk.drain("all of none"), ["number", "text", "tag", "both"]);
    assert_eq!(talk.drain("any of none"), [""; 0]);
}

#[test]
fn semantics_54_alternate_exchanges() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let mut declare = |exchange: &[u8], alternate: &str| {
        let arguments = table(&[("alternate-exchange", text(alternate))]);
        let arguments = TableRef::trusted(&arguments);
        let declare =
            ExchangeDeclare { exchange, kind: b"direct", arguments, ..ExchangeDeclare::default() };
        assert_eq!(talk.ask(declare), "exchange.declare-ok");
    };
    declare(b"lost", "nowhere");
    declare(b"x", "aside");
    talk.exchange("aside", "direct", false);
    talk.plain("q");
    talk.bind("q", "aside", "known");
    let none = Properties::default();
    talk.publish("lost", "k", "dropped");
    talk.quiet();
    talk.publish_with("x", "known", true, &none, "aside");
    talk.quiet();
    assert_eq!(talk.get("q"), "got 1 aside left 0");
    assert_eq!((talk.last.exchange.as_str(), talk.last.key.as_str()), ("x", "known"));
    talk.publish_with("x", "unknown", true, &none, "back");
    assert_eq!(talk.next(), "returned 312 NO_ROUTE back");
}

#[test]
fn semantics_55_generated_names_are_not_declared_again() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let declared = talk.queue("", EXCLUSIVE, &[]);
    let name = declared.split(' ').nth(1).unwrap();
    assert!(name.starts_with("amq.gen-"), "{name}");
    assert_eq!(
        talk.refused(declaration(name, EXCLUSIVE, &[])),
        format!("403 ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'")
    );
}

/// 62: somebody publishes while the queue is deleted and declared over and over.
#[test]
fn semantics_62_a_queue_that_goes_away_fails_no_publish() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let address = node.address();
    let publisher = std::thread::spawn(move || {
        let mut client = Client::guest(address);
        for _ in 0..2_000 {
            let publish = BasicPublish { routing_key: b"q", ..BasicPublish::default() };
            publish.encode_frame(1, &mut client.out);
            let none = amqp091::PropertiesRef::parse(b"\0\0").unwrap();
            amqp091::content::encode_content(1, none, b"m", 131_072, &mut client.out);
            client.flush();
        }
        client.declare("end");
    });
    while !publisher.is_finished() {
        // What arrives between the declaration and its answer is counted there.
        let declared = talk.queue("q", Kind::default(), &[]);
        assert!(declared.starts_with("declared q ") && declared.ends_with(" 0"), "{declared}");
        assert!(talk.ask(delete("q")).starts_with("deleted "));
    }
    publisher.join().unwrap();
}
