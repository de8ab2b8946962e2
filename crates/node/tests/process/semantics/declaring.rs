//! Declaring, deleting, binding, routing.

use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Script, declaration, table, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicGet, BasicPublish, ChannelClose, ChannelOpen, ExchangeBind,
    ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
};
use amqp091::{Properties, ShortString, Table, TableRef, Value};
use testing::client::{Client, Login};

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
fn a_passive_declaration_compares_nothing() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    assert_eq!(script.exchange("amq.direct", "fanout", true), "exchange.declare-ok");
    script.queue("q", DURABLE, &[]);
    let arguments = table(&[("x-max-length", Value::I32(5))]);
    let declare = QueueDeclare { passive: true, ..declaration("q", AUTO_DELETE, &arguments) };
    assert_eq!(script.ask(declare), "declared q 0 0");
}

#[test]
fn redeclaring_a_queue_compares_only_known_arguments() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let limit = |n| ("x-max-length", Value::I32(n));
    script.queue("q", DURABLE, &[limit(5), ("x-foo", text("a"))]);
    script.publish("", "q", "m");
    assert_eq!(script.queue("q", DURABLE, &[limit(5), ("x-foo", text("b"))]), "declared q 1 0");
    assert_eq!(script.queue("q", DURABLE, &[limit(5)]), "declared q 1 0");
    let arguments = table(&[limit(6)]);
    assert_eq!(
        script.refused(declaration("q", DURABLE, &arguments)),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '6' but current is '5'"
    );
    assert_eq!(
        script.refused(declaration("q", DURABLE, &[])),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the value '5' of type 'signedint'"
    );
    let classic = [("x-queue-type", text("classic"))];
    script.queue("untyped", DURABLE, &[]);
    assert_eq!(script.queue("untyped", DURABLE, &classic), "declared untyped 0 0");
    script.queue("typed", DURABLE, &classic);
    assert_eq!(script.queue("typed", DURABLE, &[]), "declared typed 0 0");
    script.queue("lazy", DURABLE, &[("x-queue-mode", text("lazy"))]);
    let told = script.refused(declaration("lazy", DURABLE, &[]));
    assert!(
        told.starts_with("406 PRECONDITION_FAILED - inequivalent arg 'x-queue-mode'"),
        "{told}"
    );
}

/// Clients that leave the type to the virtual host say so with an empty text.
#[test]
fn an_empty_queue_type_is_the_default_type() {
    let node = Node::start(&[]);
    node.ctl(&["add_vhost", "quorums", "--default-queue-type", "quorum"]);
    node.ctl(&["set_permissions", "-p", "quorums", "guest", ".*", ".*", ".*"]);
    for (vhost, default) in [("/", "classic"), ("quorums", "quorum")] {
        let mut script = Script::with(&node, Login { vhost, ..Login::default() });
        for (name, kind) in [("empty", ""), ("undefined", "undefined")] {
            let silent = [("x-queue-type", text(kind)), ("x-max-length", Value::I32(5))];
            let typed = [("x-queue-type", text(default)), silent[1].clone()];
            for arguments in [&silent[..], &silent[1..], &typed[..], &silent[..]] {
                assert_eq!(script.queue(name, DURABLE, arguments), format!("declared {name} 0 0"));
            }
        }
        let columns =
            ["list_queues", "-q", "--no-table-headers", "-p", vhost, "name", "type", "arguments"];
        let listed = node.ctl(&columns);
        assert!(listed.lines().all(|line| line.contains(&format!("\t{default}\t"))), "{listed}");
        assert!(!listed.contains("\"\"") && !listed.contains("\"undefined\""), "{listed}");
    }
    let told = Script::to(&node).refused(declaration(
        "q",
        DURABLE,
        &table(&[("x-queue-type", Value::Void)]),
    ));
    assert!(told.ends_with("{unacceptable_type,void}"), "{told}");
    node.stop_and_leave();
}

#[test]
fn ages_of_streams_are_equal_however_they_are_written() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let age = |age| [("x-queue-type", text("stream")), ("x-max-age", text(age))];
    for same in ["7D", "168h", "10080m", "604800s", "07D"] {
        assert_eq!(script.queue("s", DURABLE, &age(same)), "declared s 0 0");
    }
    assert_eq!(
        script.refused(declaration("s", DURABLE, &table(&age("8D")))),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 's' in vhost '/': received \
         '691200000' but current is '604800000'"
    );
}

#[test]
fn numeric_arguments_are_equal_whatever_their_width() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.queue("q", DURABLE, &[("x-message-ttl", Value::I32(60_000))]);
    let wide = [("x-message-ttl", Value::I64(60_000))];
    assert_eq!(script.queue("q", DURABLE, &wide), "declared q 0 0");
}

#[test]
fn an_exclusive_queue_belongs_to_its_connection() {
    let node = Node::start(&[]);
    let (mut owner, mut other) = (Script::to(&node), Script::to(&node));
    owner.queue("q", Kind { durable: true, ..EXCLUSIVE }, &[]);
    // It does not outlive its connection, so it is not durable.
    assert_eq!(owner.queue("q", EXCLUSIVE, &[]), "declared q 0 0");
    let locked = "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. \
                  It could be originally declared on another connection or the exclusive property value \
                  does not match that of the original declaration.";
    assert_eq!(owner.refused(declaration("q", Kind::default(), &[])), locked);
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
    // On any of the owner's channels; and it goes with the socket.
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
fn an_empty_queue_name_is_the_last_declared_queue() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("one");
    script.plain("two");
    script.publish("", "two", "m");
    assert_eq!(script.get(""), "got 1 m left 0");
    assert_eq!(script.bind("", "amq.fanout", ""), "queue.bind-ok");
    let look_up = QueueDeclare { passive: true, ..QueueDeclare::default() };
    assert_eq!(script.refused(look_up), "404 NOT_FOUND - no queue '' in vhost '/'");
    assert_eq!(script.queue("two", Kind::default(), &[]), "declared two 1 0");
    assert_eq!(script.ask(delete("two")), "deleted 1");
    let get = BasicGet::default();
    assert_eq!(script.refused(get), "404 NOT_FOUND - no queue 'two' in vhost '/'");
    assert_eq!(script.refused(get), "404 NOT_FOUND - no previously declared queue");
    script.plain("three");
    script.client.say(1, ChannelClose { reply_code: 200, ..ChannelClose::default() });
    assert_eq!(script.next(), "channel.close-ok");
    assert_eq!(script.ask(ChannelOpen::default()), "channel.open-ok");
    assert_eq!(script.refused(get), "404 NOT_FOUND - no previously declared queue");
}

#[test]
fn names_with_the_amq_prefix_are_reserved() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let exchange = ExchangeDeclare {
        exchange: b"amq.mine",
        kind: b"direct",
        durable: true,
        ..ExchangeDeclare::default()
    };
    assert_eq!(
        script.refused(exchange),
        "403 ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    );
    assert_eq!(script.exchange("amq.direct", "direct", false), "exchange.declare-ok");
    let other = ExchangeDeclare { exchange: b"amq.direct", kind: b"fanout", ..exchange };
    assert!(script.refused(other).starts_with("406 PRECONDITION_FAILED - inequivalent arg 'type'"));
    assert_eq!(
        script.refused(ExchangeDeclare { passive: true, ..exchange }),
        "404 NOT_FOUND - no exchange 'amq.mine' in vhost '/'"
    );
}

#[test]
fn the_default_exchange_cannot_be_changed() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let refused = "403 ACCESS_REFUSED - operation not permitted on the default exchange";
    let bind = QueueBind { queue: b"q", routing_key: b"k", ..QueueBind::default() };
    assert_eq!(script.refused(bind), refused);
    assert_eq!(script.refused(unbind("q", "", "q")), refused);
    let declare = ExchangeDeclare { kind: b"direct", durable: true, ..ExchangeDeclare::default() };
    assert_eq!(script.refused(declare), refused);
    assert_eq!(script.refused(delete_exchange("")), refused);
    let listed =
        node.ctl(&["list_bindings", "-s", "source_name", "destination_name", "routing_key"]);
    assert!(listed.lines().any(|line| line == "\tq\tq"), "{listed:?}");
}

#[test]
fn deleting_a_missing_queue_or_exchange_succeeds() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    assert_eq!(script.ask(delete("nope")), "deleted 0");
    assert_eq!(script.ask(delete_exchange("nope")), "exchange.delete-ok");
}

#[test]
fn binding_twice_changes_nothing_and_unbinding_a_missing_binding_succeeds() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    assert_eq!(script.ask(unbind("q", "amq.direct", "k")), "queue.unbind-ok");
    let to_nowhere = QueueBind { queue: b"q", exchange: b"x", ..QueueBind::default() };
    assert_eq!(script.refused(to_nowhere), "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    let of_nobody = QueueBind { queue: b"none", exchange: b"amq.direct", ..QueueBind::default() };
    assert_eq!(script.refused(of_nobody), "404 NOT_FOUND - no queue 'none' in vhost '/'");
    // The same again changes nothing; arguments tell bindings apart, their order does not.
    let (a, b) = (("a", Value::I32(1)), ("b", Value::I32(2)));
    for arguments in [&[a.clone(), b.clone()][..], &[b, a.clone()], &[a]] {
        assert_eq!(script.bind_with("q", "amq.direct", "k", arguments), "queue.bind-ok");
    }
    let listed = node.ctl(&["list_bindings", "-s", "source_name"]);
    assert_eq!(listed.lines().filter(|line| *line == "amq.direct").count(), 2, "{listed}");
    script.publish("amq.direct", "k", "m");
    assert_eq!(script.drain("q"), ["m"]);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let declare = |exchange| ExchangeDeclare {
        exchange,
        kind: b"fanout",
        auto_delete: true,
        ..ExchangeDeclare::default()
    };
    for exchange in [&b"x"[..], b"never", b"target"] {
        assert_eq!(script.ask(declare(exchange)), "exchange.declare-ok");
    }
    script.plain("q");
    // Bindings to it do not count.
    let from_elsewhere =
        ExchangeBind { destination: b"target", source: b"amq.fanout", ..ExchangeBind::default() };
    assert_eq!(script.ask(from_elsewhere), "exchange.bind-ok");
    let no_more = amqp091::method::ExchangeUnbind {
        destination: b"target",
        source: b"amq.fanout",
        ..Default::default()
    };
    assert_eq!(script.ask(no_more), "exchange.unbind-ok");
    assert_eq!(script.exchange("target", "fanout", true), "exchange.declare-ok");
    script.bind("q", "x", "1");
    script.bind("q", "x", "2");
    assert_eq!(script.ask(unbind("q", "x", "1")), "queue.unbind-ok");
    assert_eq!(script.exchange("x", "fanout", true), "exchange.declare-ok");
    assert_eq!(script.ask(unbind("q", "x", "2")), "queue.unbind-ok");
    let look_up = ExchangeDeclare { passive: true, ..declare(b"x") };
    assert_eq!(script.refused(look_up), "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    assert_eq!(script.exchange("never", "fanout", true), "exchange.declare-ok");
}

#[test]
fn an_auto_delete_queue_goes_with_its_last_consumer() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.queue("q", AUTO_DELETE, &[]);
    script.queue("never", AUTO_DELETE, &[]);
    let mut other = Script::to(&node);
    other.consume("q", "c", true);
    script.consume("q", "d", true);
    assert_eq!(script.ask(BasicCancel { consumer_tag: b"d", no_wait: false }), "cancelled d");
    assert_eq!(script.look_up("q"), "declared q 0 1");
    other.client.close();
    let look_up = QueueDeclare { passive: true, queue: b"q", ..QueueDeclare::default() };
    assert_eq!(script.refused(look_up), "404 NOT_FOUND - no queue 'q' in vhost '/'");
    assert_eq!(script.look_up("never"), "declared never 0 0");
}

#[test]
fn if_unused_and_if_empty_guard_a_deletion() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.consume("q", "c", false);
    let unused = QueueDelete { if_unused: true, ..delete("q") };
    assert_eq!(script.refused(unused), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
    script.publish("", "q", "m");
    let empty = QueueDelete { if_empty: true, ..delete("q") };
    assert_eq!(script.refused(empty), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty");
    assert_eq!(script.ask(unused), "deleted 1");
    script.plain("q");
    script.exchange("x", "fanout", false);
    script.bind("q", "x", "");
    let unused = ExchangeDelete { if_unused: true, ..delete_exchange("x") };
    assert_eq!(
        script.refused(unused),
        "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"
    );
    script.ask(unbind("q", "x", ""));
    assert_eq!(script.ask(unused), "exchange.delete-ok");
}

#[test]
fn deleting_a_queue_cancels_its_consumers() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let mut incapable = Script::with(&node, Login { capable: false, ..Login::default() });
    let mut capable = Script::with(&node, Login::default());
    script.plain("q");
    script.publish("", "q", "m");
    assert_eq!(capable.consume("q", "c", false), "consuming c");
    assert_eq!(capable.next(), "c 1 m");
    incapable.consume("q", "d", false);
    script.publish("", "q", "n");
    assert_eq!(script.ask(delete("q")), "deleted 0");
    assert_eq!(capable.next(), "c 2 n");
    assert_eq!(capable.next(), "lost c");
    // Whether it answers or not.
    capable.say(amqp091::method::BasicCancelOk { consumer_tag: b"c" });
    capable.quiet();
    incapable.quiet();
}

#[test]
fn publishes_to_a_queue_being_deleted_are_acked() {
    let node = Node::start(&[]);
    let (mut script, mut other) = (Script::to(&node), Script::to(&node));
    script.queue("q", DURABLE, &[]);
    script.say(amqp091::method::ConfirmSelect::default());
    assert_eq!(script.next(), "confirm.select-ok");
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() };
    other.say(delete("q"));
    for _ in 0..100 {
        script.publish_with("", "q", false, &persistent, "m");
    }
    assert!(other.next().starts_with("deleted "));
    assert_eq!(script.confirms(1, 100), [true; 100]);
}

#[test]
fn internal_exchanges_and_binding_cycles() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let internal = ExchangeDeclare {
        exchange: b"inner",
        kind: b"fanout",
        internal: true,
        ..ExchangeDeclare::default()
    };
    assert_eq!(script.ask(internal), "exchange.declare-ok");
    script.exchange("outer", "fanout", false);
    let bind =
        |destination, source| ExchangeBind { destination, source, ..ExchangeBind::default() };
    assert_eq!(script.ask(bind(b"inner", b"outer")), "exchange.bind-ok");
    assert_eq!(script.ask(bind(b"outer", b"inner")), "exchange.bind-ok");
    script.plain("q");
    script.bind("q", "inner", "");
    script.publish("outer", "", "m");
    assert_eq!(script.drain("q"), ["m"]);
    script.publish("inner", "", "m");
    assert_eq!(
        script.failed(),
        "403 ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"
    );
}

/// However many bindings and keys lead there.
#[test]
fn a_queue_gets_a_message_once() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    for queue in ["q", "cc", "bcc"] {
        script.plain(queue);
        script.bind(queue, "amq.topic", &format!("{queue}.#"));
        script.bind(queue, "amq.topic", &format!("*.{queue}"));
    }
    script.bind("q", "amq.topic", "#");
    let mut headers = Table::new();
    let keys = |keys: &[&str]| Value::Array(keys.iter().map(|key| text(key)).collect());
    headers.push(ShortString::from_static("CC"), keys(&["cc.cc", "q.q", "cc.x"]));
    headers.push(ShortString::from_static("BCC"), keys(&["bcc.bcc"]));
    let properties = Properties { headers: Some(headers), ..Properties::default() };
    script.publish_with("amq.topic", "q.q", false, &properties, "m");
    for queue in ["q", "cc", "bcc"] {
        assert_eq!(script.get(queue).split(' ').skip(2).collect::<Vec<_>>(), ["m", "left", "0"]);
        assert_eq!(script.last.key, "q.q");
        assert!(script.headers().get(b"CC").is_some() && script.headers().get(b"BCC").is_none());
    }
}

#[test]
fn topic_words_may_be_empty() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    for pattern in ["#", "", "*", "*.#", "a.*.b", "#.#"] {
        script.plain(pattern_queue(pattern));
        script.bind(pattern_queue(pattern), "amq.topic", pattern);
    }
    for key in ["", "a..b", "a"] {
        script.publish("amq.topic", key, key);
    }
    let mut got = |pattern| script.drain(pattern_queue(pattern));
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
    let told = script.refused(three);
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
fn headers_exchange_matching() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
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
        script.plain(queue);
        assert_eq!(script.bind_with(queue, "amq.headers", "", arguments), "queue.bind-ok");
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
        script.publish_with("amq.headers", "", false, &properties, body);
    }
    assert_eq!(script.drain("all"), ["number", "both"]);
    assert_eq!(script.drain("any"), ["number", "both"]);
    assert_eq!(script.drain("all-with-x"), ["both"]);
    assert_eq!(script.drain("any-with-x"), ["number", "tag", "both"]);
    assert_eq!(script.drain("present"), ["number", "text", "both"]);
    assert_eq!(script.drain("all of none"), ["number", "text", "tag", "both"]);
    assert_eq!(script.drain("any of none"), [""; 0]);
}

#[test]
fn alternate_exchanges() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let mut declare = |exchange: &[u8], alternate: &str| {
        let arguments = table(&[("alternate-exchange", text(alternate))]);
        let arguments = TableRef::trusted(&arguments);
        let declare =
            ExchangeDeclare { exchange, kind: b"direct", arguments, ..ExchangeDeclare::default() };
        assert_eq!(script.ask(declare), "exchange.declare-ok");
    };
    declare(b"lost", "nowhere");
    declare(b"x", "aside");
    script.exchange("aside", "direct", false);
    script.plain("q");
    script.bind("q", "aside", "known");
    let none = Properties::default();
    script.publish("lost", "k", "dropped");
    script.quiet();
    script.publish_with("x", "known", true, &none, "aside");
    script.quiet();
    assert_eq!(script.get("q"), "got 1 aside left 0");
    assert_eq!((script.last.exchange.as_str(), script.last.key.as_str()), ("x", "known"));
    script.publish_with("x", "unknown", true, &none, "back");
    assert_eq!(script.next(), "returned 312 NO_ROUTE back");
}

#[test]
fn generated_queue_names_cannot_be_redeclared() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let declared = script.queue("", EXCLUSIVE, &[]);
    let name = declared.split(' ').nth(1).unwrap();
    assert!(name.starts_with("amq.gen-"), "{name}");
    assert_eq!(
        script.refused(declaration(name, EXCLUSIVE, &[])),
        format!("403 ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'")
    );
}

/// A client publishes while the queue is deleted and declared over and over.
#[test]
fn a_queue_deleted_during_a_publish_fails_no_channel() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
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
        let declared = script.queue("q", Kind::default(), &[]);
        assert!(declared.starts_with("declared q ") && declared.ends_with(" 0"), "{declared}");
        assert!(script.ask(delete("q")).starts_with("deleted "));
    }
    publisher.join().unwrap();
}
