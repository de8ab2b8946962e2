//! Publishing, confirms, returns, transactions.

use super::super::support::node::Node;
use super::script::{Kind, Script, text};
use amqp091::method::{BasicAck, ConfirmSelect, ExchangeDeclare, TxCommit, TxRollback, TxSelect};
use amqp091::{Properties, PropertiesRef, ShortString, Table, Value};
use testing::client::Login;

fn short(text: &str) -> ShortString {
    ShortString::new(text).unwrap()
}

fn with_header(name: &'static str, value: Value) -> Properties {
    let mut headers = Table::new();
    headers.push(ShortString::from_static(name), value);
    Properties { headers: Some(headers), ..Properties::default() }
}

#[track_caller]
fn select_confirms(script: &mut Script) {
    assert_eq!(script.ask(ConfirmSelect::default()), "confirm.select-ok");
}

#[test]
fn unroutable_messages_are_returned_before_their_ack() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.publish("", "q", "not counted");
    select_confirms(&mut script);
    script.publish("", "nope", "dropped");
    assert_eq!(script.next(), "ack 1");
    script.publish_with("", "nope", true, &Properties::default(), "back");
    assert_eq!(script.next(), "returned 312 NO_ROUTE back");
    assert_eq!(script.next(), "ack 2");
    script.publish("", "q", "in");
    assert_eq!(script.next(), "ack 3");
}

/// Each number is settled once, whatever is put together.
#[test]
fn acks_and_nacks_never_cover_each_other() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let full = [("x-max-length", Value::I32(1)), ("x-overflow", text("reject-publish"))];
    script.queue("full", Kind::default(), &full);
    script.publish("", "full", "first");
    script.queue("q", Kind { durable: true, ..Kind::default() }, &[]);
    script.quiet();
    select_confirms(&mut script);
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() };
    for n in 0..300 {
        let to = ["full", "q", "nope"][n % 3];
        script.publish_with("", to, false, &persistent, "m");
    }
    let told = script.confirms(1, 300);
    assert!(told.iter().enumerate().all(|(n, in_)| *in_ == (n % 3 != 0)), "{told:?}");
}

#[test]
fn a_full_queue_nacks_and_returns_nothing() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let full = [("x-max-length", Value::I32(2)), ("x-overflow", text("reject-publish"))];
    script.queue("q", Kind::default(), &full);
    select_confirms(&mut script);
    for body in ["a", "b", "c", "d"] {
        script.publish_with("", "q", true, &Properties::default(), body);
    }
    assert_eq!(script.confirms(1, 4), [true, true, false, false]);
    assert_eq!(script.drain("q"), ["a", "b"]);
}

#[test]
fn publishing_to_a_missing_exchange_closes_the_channel_later() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.publish("", "q", "before");
    script.publish("nope", "q", "lost");
    script.publish("", "q", "after");
    assert_eq!(script.failed(), "404 NOT_FOUND - no exchange 'nope' in vhost '/'");
    assert_eq!(script.drain("q"), ["before"]);
}

#[test]
fn transactions() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let mut other = Script::to(&node);
    script.plain("q");
    script.publish("", "q", "old");
    assert_eq!(script.ask(TxSelect {}), "tx.select-ok");
    assert_eq!(
        script.refused(ConfirmSelect::default()),
        "406 PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    );
    select_confirms(&mut script);
    assert_eq!(
        script.refused(TxSelect {}),
        "406 PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    );
    assert_eq!(
        script.refused(TxCommit {}),
        "406 PRECONDITION_FAILED - channel is not transactional"
    );
    assert_eq!(script.ask(TxSelect {}), "tx.select-ok");
    script.publish("", "q", "new");
    script.publish_with("", "nope", true, &Properties::default(), "back");
    script.quiet();
    assert_eq!(other.look_up("q"), "declared q 1 0");
    assert_eq!(script.ask(TxCommit {}), "returned 312 NO_ROUTE back");
    assert_eq!(script.next(), "tx.commit-ok");
    assert_eq!(other.look_up("q"), "declared q 2 0");
    // An acknowledgement counts at the commit, and a rollback gives nothing back by itself.
    assert_eq!(script.get("q"), "got 1 old left 1");
    script.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(script.ask(TxRollback {}), "tx.rollback-ok");
    assert_eq!(other.look_up("q"), "declared q 1 0");
    script.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(script.ask(TxCommit {}), "tx.commit-ok");
    script.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(script.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
    assert_eq!(other.drain("q"), ["new"]);
}

/// Whatever closes the channel of a publish does so in a transaction too, at once.
#[test]
fn a_publish_that_is_refused_closes_the_channel_of_its_transaction_at_once() {
    let node = Node::start(&[]);
    node.ctl(&["add_user", "ann", "secret"]);
    node.ctl(&["set_permissions", "ann", ".*", "^(amq.default|amq.topic|inside|nope|q)$", ".*"]);
    node.ctl(&["set_topic_permissions", "ann", "amq.topic", "^good", ".*"]);
    let mut script =
        Script::with(&node, Login { user: "ann", password: "secret", ..Login::default() });
    script.plain("q");
    let inside = ExchangeDeclare {
        exchange: b"inside",
        kind: b"fanout",
        internal: true,
        ..Default::default()
    };
    assert_eq!(script.ask(inside), "exchange.declare-ok");
    let plain = Properties::default;
    let header = |value| with_header("CC", value);
    let expiring = |text| Properties { expiration: Some(short(text)), ..plain() };
    let of = |user| Properties { user_id: Some(short(user)), ..plain() };
    let direct = Properties { reply_to: Some(short("amq.rabbitmq.reply-to")), ..plain() };
    for (exchange, key, properties, code) in [
        ("nope", "q", plain(), "404 NOT_FOUND - no exchange 'nope' "),
        ("inside", "q", plain(), "403 ACCESS_REFUSED - cannot publish to internal exchange "),
        ("amq.fanout", "q", plain(), "403 ACCESS_REFUSED - write access to exchange 'amq.fanout' "),
        ("amq.topic", "bad", plain(), "403 ACCESS_REFUSED - write access to topic 'bad' "),
        ("amq.topic", "good", header(Value::Array(vec![text("bad")])), "403 ACCESS_REFUSED - "),
        ("", "q", of("guest"), "406 PRECONDITION_FAILED - user_id property "),
        ("", "q", expiring("soon"), "406 PRECONDITION_FAILED - invalid expiration 'soon'"),
        ("", "amq.rabbitmq.reply-to.x", expiring("soon"), "406 PRECONDITION_FAILED - invalid "),
        ("", "q", header(text("q")), "406 PRECONDITION_FAILED - invalid message: "),
        ("", "q", direct, "406 PRECONDITION_FAILED - fast reply consumer does not exist"),
    ] {
        for in_transaction in [false, true] {
            if in_transaction {
                assert_eq!(script.ask(TxSelect {}), "tx.select-ok");
                script.publish("", "q", "rolled back with its channel");
            }
            script.publish_with(exchange, key, false, &properties, "m");
            let told = script.failed();
            assert!(told.starts_with(code), "{told}");
        }
    }
    assert_eq!(script.look_up("q"), "declared q 0 0");
}

#[test]
fn an_oversized_message_is_read_to_its_end_then_refused() {
    let node = Node::start(&["max_message_size=1000"]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.publish("", "q", &"x".repeat(1_001));
    assert_eq!(
        script.failed(),
        "406 PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    );
    script.publish("", "q", &"x".repeat(1_000));
    assert_eq!(script.look_up("q"), "declared q 1 0");
}

#[test]
fn expirations_are_decimal_strings() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let expiring = |text| Properties { expiration: Some(short(text)), ..Properties::default() };
    // Ten years are the most.
    for wrong in ["abc", "", " 5", "-1", "315360000001", "99999999999999999999"] {
        script.publish_with("", "q", false, &expiring(wrong), "m");
        let told = script.failed();
        assert!(told.starts_with("406 PRECONDITION_FAILED - invalid expiration "), "{told}");
    }
    script.publish_with("", "q", false, &expiring("+60000"), "in");
    script.publish_with("", "q", false, &expiring("315360000000"), "long");
    script.publish_with("", "q", false, &expiring("0"), "over");
    assert_eq!(script.drain("q"), ["in", "long"]);
}

#[test]
fn the_user_id_must_be_the_authenticated_user() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    let of = |user| Properties { user_id: Some(short(user)), ..Properties::default() };
    script.publish_with("", "q", false, &of("guest"), "mine");
    for wrong in ["ann", ""] {
        script.publish_with("", "q", false, &of(wrong), "m");
        assert_eq!(
            script.failed(),
            format!(
                "406 PRECONDITION_FAILED - user_id property set to '{wrong}' but authenticated user was 'guest'"
            )
        );
    }
    node.ctl(&["set_user_tags", "guest", "administrator", "impersonator"]);
    let mut script = Script::to(&node);
    script.publish_with("", "q", false, &of("ann"), "anns");
    assert_eq!(script.drain("q"), ["mine", "anns"]);
}

#[test]
fn cc_and_bcc_are_arrays_of_strings() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.plain("q");
    script.publish_with("", "none", false, &with_header("CC", text("q")), "m");
    let told = script.failed();
    assert!(told.starts_with("406 PRECONDITION_FAILED - "), "{told}");
    // A missing exchange is told first.
    script.publish_with("none", "k", false, &with_header("CC", text("q")), "m");
    assert_eq!(script.failed(), "404 NOT_FOUND - no exchange 'none' in vhost '/'");
    // What is no text in the list is passed over.
    let keys = Value::Array(vec![text("q"), Value::I32(5), text("q")]);
    script.publish_with("", "none", false, &with_header("BCC", keys.clone()), "blind");
    assert_eq!(script.get("q"), "got 1 blind left 0");
    assert!(script.headers().get(b"BCC").is_none());
    script.publish_with("", "none", false, &with_header("CC", keys), "open");
    assert_eq!(script.get("q"), "got 2 open left 0");
    assert!(script.headers().get(b"CC").is_some());
}

#[test]
fn direct_reply_to() {
    let node = Node::start(&[]);
    let (mut asker, mut server) = (Script::to(&node), Script::to(&node));
    server.plain("q");
    let reply_to = |to: &str| Properties { reply_to: Some(short(to)), ..Properties::default() };
    let direct = reply_to("amq.rabbitmq.reply-to");
    asker.publish_with("", "q", false, &direct, "nobody listens");
    assert_eq!(asker.failed(), "406 PRECONDITION_FAILED - fast reply consumer does not exist");
    assert_eq!(asker.consume("amq.rabbitmq.reply-to", "c", true), "consuming c");
    asker.publish_with("", "q", false, &direct, "ask");
    asker.quiet();
    assert_eq!(server.get("q"), "got 1 ask left 0");
    let properties = PropertiesRef::parse(&server.last.properties).unwrap();
    let name = String::from_utf8(properties.reply_to().unwrap().to_vec()).unwrap();
    let parts: Vec<&str> =
        name.strip_prefix("amq.rabbitmq.reply-to.").unwrap().split('.').collect();
    assert!(parts.len() == 2 && parts.iter().all(|part| !part.is_empty()), "{name}");
    server.publish("", &name, "answer");
    assert_eq!(asker.next(), "c 1 answer");
    assert_eq!((asker.last.exchange.as_str(), asker.last.key.as_str()), ("", name.as_str()));
    asker.client.close();
    server.publish("", &name, "too late");
    server.quiet();
}

/// Clients compare bytes: what nothing has to change comes back as it was.
#[test]
fn headers_keep_their_order() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    script.queue("q", Kind { durable: true, ..Kind::default() }, &[]);
    let mut headers = Table::new();
    for name in ["z", "a", "m"] {
        headers.push(short(name), Value::I32(1));
    }
    let properties = Properties {
        headers: Some(headers),
        delivery_mode: Some(2),
        timestamp: Some(1_700_000_000),
        ..Properties::default()
    };
    script.publish_with("", "q", false, &properties, "m");
    assert_eq!(script.get("q"), "got 1 m left 0");
    assert_eq!(script.last.properties, properties.to_bytes());
}

#[test]
fn an_x_death_header_made_by_a_client_is_not_continued() {
    let node = Node::start(&[]);
    let mut script = Script::to(&node);
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
    script.queue("q", Kind::default(), &dead);
    script.plain("dead");
    let mut death = Table::new();
    death.push(short("queue"), text("q"));
    death.push(short("reason"), text("rejected"));
    death.push(short("count"), Value::I64(41));
    let invented = with_header("x-death", Value::Array(vec![Value::Table(death)]));
    script.publish_with("", "q", false, &invented, "m");
    assert_eq!(script.get("q"), "got 1 m left 0");
    script.discard(1);
    let mut told = script.get("dead");
    while told == "empty" {
        told = script.get("dead");
    }
    let headers = script.headers();
    let deaths = headers.get(b"x-death").and_then(Value::as_array).unwrap();
    let count = deaths[0].as_table().unwrap().get(b"count").and_then(Value::as_i64);
    assert_eq!(count, Some(1));
}
