//! Handshake, frames, connection.

use super::super::support::node::Node;
use super::super::support::wait_until;
use super::script::{Kind, Script, declaration, text};
use amqp091::method::{
    BasicCancel, BasicConsume, BasicPublish, BasicQos, ConnectionUpdateSecret, ExchangeDeclare,
    QueueDeclare, QueuePurge,
};
use amqp091::{Method, Properties, PropertiesRef};
use testing::client::{Client, HEADER, Login};

/// A content header without properties, byte by byte.
fn header_frame(client: &mut Client, class: u16, body_size: u64) {
    client.out.extend_from_slice(b"\x02\0\x01\0\0\0\x0e");
    client.out.extend_from_slice(&class.to_be_bytes());
    client.out.extend_from_slice(&[0; 2]);
    client.out.extend_from_slice(&body_size.to_be_bytes());
    client.out.extend_from_slice(b"\0\0\xCE");
}

#[test]
fn connection_start_lists_the_servers_capabilities() {
    let node = Node::start(&[]);
    let mut client = Client::raw(node.address());
    client.write(HEADER);
    let start = client.next();
    let Method::ConnectionStart(start) = start.method() else { panic!("{}", start.show()) };
    assert_eq!((start.version_major, start.version_minor), (0, 9));
    let properties = start.server_properties.to_owned().unwrap();
    let capabilities = properties.get(b"capabilities").unwrap().as_table().unwrap();
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ] {
        let can = capabilities.get(name.as_bytes()).and_then(amqp091::Value::as_bool);
        assert_eq!(can, Some(true), "{name}");
    }
}

#[test]
fn only_publishers_are_told_of_an_alarm() {
    let node = Node::start(&[]);
    let mut publisher = Script::to(&node);
    let mut incapable = Script::with(&node, Login { capable: false, ..Login::default() });
    let mut consumer = Script::to(&node);
    publisher.plain("q");
    publisher.publish("", "q", "before");
    publisher.quiet();
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "0"]);
    publisher.quiet();
    assert_eq!(consumer.consume("q", "c", true), "consuming c");
    assert_eq!(consumer.next(), "c 1 before");
    publisher.publish("", "q", "held");
    assert_eq!(publisher.next(), "connection.blocked low on memory");
    incapable.publish("", "q", "held");
    wait_until("both are held", || {
        let blocked = node.ctl(&["list_connections", "-s", "state"]);
        blocked.lines().filter(|state| *state == "blocked").count() == 2
    });
    consumer.quiet();
    node.ctl(&["set_vm_memory_high_watermark", "0.9"]);
    assert_eq!(publisher.next(), "connection.unblocked");
    assert_eq!([consumer.next(), consumer.next()], ["c 2 held", "c 3 held"]);
    incapable.quiet();
}

#[test]
fn acks_sent_before_a_blocked_publish_count() {
    let node = Node::start(&[]);
    let mut both = Script::to(&node);
    both.plain("q");
    both.publish("", "q", "a");
    both.publish("", "q", "b");
    assert_eq!(both.get("q"), "got 1 a left 1");
    assert_eq!(both.get("q"), "got 2 b left 0");
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "0"]);
    both.ack(1, false);
    both.publish("", "q", "held");
    assert_eq!(both.next(), "connection.blocked low on memory");
    both.ack(2, false);
    let unacked = || node.ctl(&["list_queues", "-s", "messages_unacknowledged"]);
    assert_eq!(unacked().trim(), "1");
    node.ctl(&["set_vm_memory_high_watermark", "0.9"]);
    assert_eq!(both.next(), "connection.unblocked");
    wait_until("the second acknowledgement", || unacked().trim() == "0");
}

/// An error of a channel closes the channel; an error of the connection closes all.
#[test]
fn soft_errors_close_the_channel_and_hard_errors_the_connection() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    assert_eq!(
        script.refused(QueueDeclare { queue: b"amq.q", ..QueueDeclare::default() }),
        "403 ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"
    );
    assert_eq!(
        script.refused(BasicConsume { queue: b"none", ..BasicConsume::default() }),
        "404 NOT_FOUND - no queue 'none' in vhost '/'"
    );
    let mut other = Script::to(&node);
    other.queue("mine", Kind { exclusive: true, ..Kind::default() }, &[]);
    let locked = script.refused(declaration("mine", Kind::default(), &[]));
    assert!(
        locked.starts_with("405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' in vhost '/'"),
        "{locked}"
    );
    script.plain("q");
    assert_eq!(
        script.refused(declaration("q", Kind { durable: true, ..Kind::default() }, &[])),
        "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"
    );
    let exchange = ExchangeDeclare { exchange: b"x", kind: b"odd", ..ExchangeDeclare::default() };
    assert_eq!(script.refused(exchange), "406 PRECONDITION_FAILED - unknown exchange type 'odd'");
    assert_eq!(
        script.ask(BasicQos { prefetch_size: 1, ..BasicQos::default() }),
        "connection.close 540 NOT_IMPLEMENTED - prefetch_size!=0 (1)"
    );
    let mut script = Script::to(&node);
    script.client.say(9, QueueDeclare::default());
    assert_eq!(script.next(), "connection.close 504 CHANNEL_ERROR - expected 'channel.open'");
}

#[test]
fn reply_texts_begin_with_the_error_name_and_end_at_255_bytes() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let name = "n".repeat(255);
    let told = script.look_up(&name);
    let text = told.strip_prefix("channel.close 404 ").unwrap();
    assert_eq!(text.len(), 255);
    assert!(text.starts_with("NOT_FOUND - no queue 'nnn"), "{text}");
}

/// Passwords do not expire: who has one may say what they like.
#[test]
fn a_new_secret_is_accepted() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let update = ConnectionUpdateSecret { new_secret: b"whatever", reason: b"renewed" };
    script.client.say(0, update);
    assert_eq!(script.next(), "connection.update-secret-ok");
    script.quiet();
}

#[test]
fn line_ends_are_stripped_from_declared_names() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    assert_eq!(script.queue("probe6a\r\nb", Kind::default(), &[]), "declared probe6ab 0 0");
    assert_eq!(script.exchange("x\r\ny", "fanout", false), "exchange.declare-ok");
    assert_eq!(script.bind("probe6ab", "xy", ""), "queue.bind-ok");
    script.publish("xy", "", "m");
    assert_eq!(script.get("probe6ab"), "got 1 m left 0");
    let purge = QueuePurge { queue: b"probe6a\r\nb", ..QueuePurge::default() };
    let told = script.refused(purge);
    assert_eq!(told, "404 NOT_FOUND - no queue 'probe6a\r\nb' in vhost '/'");
    // A table whose only value is of no known type.
    let mut bytes = Vec::new();
    QueueDeclare { queue: b"t", ..QueueDeclare::default() }.encode_frame(1, &mut bytes);
    bytes.truncate(bytes.len() - 5);
    bytes.extend_from_slice(b"\0\0\0\x03\x01kZ\xCE");
    let size = u32::try_from(bytes.len() - 8).unwrap();
    bytes[3..7].copy_from_slice(&size.to_be_bytes());
    script.client.write(&bytes);
    let told = script.next();
    assert!(told.starts_with("connection.close 502 SYNTAX_ERROR - "), "{told}");
    Script::to(&node).quiet();
}

#[test]
fn missing_properties_stay_missing() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    for properties in [
        Properties::default(),
        Properties { delivery_mode: Some(1), ..Properties::default() },
        Properties {
            correlation_id: Some(amqp091::ShortString::from_static("")),
            ..Properties::default()
        },
    ] {
        script.publish_with("", "q", false, &properties, "m");
        assert!(script.get("q").ends_with(" m left 0"));
        assert_eq!(script.last.properties, properties.to_bytes());
    }
}

#[test]
fn an_empty_body_has_no_frame() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let publish = BasicPublish { routing_key: b"q", ..BasicPublish::default() };
    publish.encode_frame(1, &mut script.client.out);
    header_frame(&mut script.client, 60, 0);
    script.client.flush();
    assert_eq!(script.consume("q", "c", true), "consuming c");
    assert_eq!(script.next(), "c 1 ");
    script.quiet();
}

#[test]
fn the_class_of_a_content_header_must_match_the_method() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    BasicPublish::default().encode_frame(1, &mut script.client.out);
    header_frame(&mut script.client, 50, 0);
    script.client.flush();
    assert_eq!(
        script.next(),
        "connection.close 505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
    );
}

/// Every type of value comes back as it was sent.
#[test]
fn field_tables_hold_rabbitmqs_value_types() {
    const ENTRIES: &[u8] =
        b"\x01ab\xff\x01bB\xff\x01cs\xff\xfe\x01du\xff\xfe\x01eI\xff\xff\xff\xfe\
        \x01fi\xff\xff\xff\xfe\x01gl\xff\xff\xff\xff\xff\xff\xff\xfe\x01hf\x3f\x80\0\0\
        \x01jd\x3f\xf0\0\0\0\0\0\0\x01kD\x02\0\0\0\x7b\x01mS\0\0\0\x02hi\x01nx\0\0\0\x02\0\xff\
        \x01oV\x01pt\x01\x01qT\0\0\0\0\x5e\0\0\0\x01rA\0\0\0\x03t\0V\x01sF\0\0\0\x03\x01zV";
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let mut properties = b"\x20\0".to_vec();
    properties.extend_from_slice(&u32::try_from(ENTRIES.len()).unwrap().to_be_bytes());
    properties.extend_from_slice(ENTRIES);
    script.publish_bytes("", "q", false, &properties, b"m");
    assert_eq!(script.get("q"), "got 1 m left 0");
    assert_eq!(script.last.properties, properties);
    let read = |name: &[u8]| script.headers().get(name).and_then(amqp091::Value::as_i64);
    let numbers = [b"a", b"b", b"c", b"d", b"e", b"g"].map(|name| read(name).unwrap());
    assert_eq!(numbers, [-1, 255, -2, 65_534, -2, -2]);
}

/// Clients of Java and Go cannot read `L`, which py-amqp writes; RabbitMQ sends what everybody can read.
#[test]
fn header_types_go_out_as_rabbitmq_has_them() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
    let durable = Kind { durable: true, ..Kind::default() };
    let quorum = [&dead[..], &[("x-queue-type", text("quorum"))]].concat();
    script.queue("classic", durable, &dead);
    script.queue("quorum", durable, &quorum);
    script.plain("dead");
    let sized =
        |entries: &[u8]| [&u32::try_from(entries.len()).unwrap().to_be_bytes(), entries].concat();
    // A number beside others, in an array, and in a table in an array.
    let headers = |long: u8, truth: u8| {
        let number = [&[long][..], &[0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0]].concat();
        let array = [b"A".to_vec(), sized(&[&number[..], &[b't', truth]].concat())].concat();
        let table =
            [b"F".to_vec(), sized(&[&b"\x01k"[..], &array, b"\x01j", &number].concat())].concat();
        let nested = [b"A".to_vec(), sized(&[&table[..], &number].concat())].concat();
        let entries = [&b"\x02ts"[..], &number, b"\x01n", &nested, b"\x01zI\0\0\0\x01"].concat();
        [&b"\x30\0"[..], &sized(&entries), &[2]].concat()
    };
    let (sent, due) = (headers(b'L', 7), headers(b'l', 1));
    for body in ["small", &"large ".repeat(50_000)] {
        script.publish_bytes("", "nowhere", true, &sent, body.as_bytes());
        assert_eq!(script.next(), format!("returned 312 NO_ROUTE {body}"));
        assert_eq!(script.last.properties, due);
        for queue in ["classic", "quorum"] {
            script.publish_bytes("", queue, false, &sent, body.as_bytes());
            assert_eq!(script.consume(queue, "c", false), "consuming c");
            let told = script.next();
            let tag: u64 = told.split(' ').nth(1).unwrap().parse().unwrap();
            assert_eq!(script.last.properties, due);
            script.discard(tag);
            assert_eq!(
                script.ask(BasicCancel { consumer_tag: b"c", no_wait: false }),
                "cancelled c"
            );
            let mut told = script.get("dead");
            while told == "empty" {
                told = script.get("dead");
            }
            let kept = PropertiesRef::parse(&due).unwrap().headers().unwrap().to_owned().unwrap();
            assert!(PropertiesRef::parse(&script.last.properties).unwrap().is_canonical());
            let headers = script.headers();
            assert!(kept.iter().all(|(name, value)| headers.get(name) == Some(value)));
        }
    }
}
