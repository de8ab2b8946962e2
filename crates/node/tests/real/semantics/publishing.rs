//! 56-75: publishing, confirms, returns, transactions.

use super::super::support::node::Node;
use super::script::{Kind, Talk, text};
use amqp091::method::{BasicAck, ConfirmSelect, TxCommit, TxRollback, TxSelect};
use amqp091::{Properties, PropertiesRef, ShortString, Table, Value};

fn short(text: &str) -> ShortString {
    ShortString::new(text).unwrap()
}

fn with_header(name: &'static str, value: Value) -> Properties {
    let mut headers = Table::new();
    headers.push(ShortString::from_static(name), value);
    Properties { headers: Some(headers), ..Properties::default() }
}

#[track_caller]
fn select_confirms(talk: &mut Talk) {
    assert_eq!(talk.ask(ConfirmSelect::default()), "confirm.select-ok");
}

#[test]
fn semantics_56_57_and_74_unroutable_messages_are_counted_and_come_back_first() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.publish("", "q", "not counted");
    select_confirms(&mut talk);
    talk.publish("", "nope", "dropped");
    assert_eq!(talk.next(), "ack 1");
    talk.publish_with("", "nope", true, &Properties::default(), "back");
    assert_eq!(talk.next(), "returned 312 NO_ROUTE back");
    assert_eq!(talk.next(), "ack 2");
    talk.publish("", "q", "in");
    assert_eq!(talk.next(), "ack 3");
}

/// Each number is settled once, whatever is put together.
#[test]
fn semantics_58_acks_and_nacks_are_told_apart() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let full = [("x-max-length", Value::I32(1)), ("x-overflow", text("reject-publish"))];
    talk.queue("full", Kind::default(), &full);
    talk.publish("", "full", "first");
    talk.queue("q", Kind { durable: true, ..Kind::default() }, &[]);
    talk.quiet();
    select_confirms(&mut talk);
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() };
    for n in 0..300 {
        let to = ["full", "q", "nope"][n % 3];
        talk.publish_with("", to, false, &persistent, "m");
    }
    let told = talk.confirms(1, 300);
    assert!(told.iter().enumerate().all(|(n, in_)| *in_ == (n % 3 != 0)), "{told:?}");
}

#[test]
fn semantics_60_and_75_a_full_queue_refuses_and_returns_nothing() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let full = [("x-max-length", Value::I32(2)), ("x-overflow", text("reject-publish"))];
    talk.queue("q", Kind::default(), &full);
    select_confirms(&mut talk);
    for body in ["a", "b", "c", "d"] {
        talk.publish_with("", "q", true, &Properties::default(), body);
    }
    assert_eq!(talk.confirms(1, 4), [true, true, false, false]);
    assert_eq!(talk.drain("q"), ["a", "b"]);
}

#[test]
fn semantics_61_a_missing_exchange_fails_the_channel_later() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.publish("", "q", "before");
    talk.publish("nope", "q", "lost");
    talk.publish("", "q", "after");
    assert_eq!(talk.failed(), "404 NOT_FOUND - no exchange 'nope' in vhost '/'");
    assert_eq!(talk.drain("q"), ["before"]);
}

#[test]
fn semantics_64_to_66_transactions() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let mut other = Talk::to(&node);
    talk.plain("q");
    talk.publish("", "q", "old");
    assert_eq!(talk.ask(TxSelect {}), "tx.select-ok");
    assert_eq!(
        talk.refused(ConfirmSelect::default()),
        "406 PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    );
    select_confirms(&mut talk);
    assert_eq!(
        talk.refused(TxSelect {}),
        "406 PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    );
    assert_eq!(talk.refused(TxCommit {}), "406 PRECONDITION_FAILED - channel is not transactional");
    assert_eq!(talk.ask(TxSelect {}), "tx.select-ok");
    // 66.
    talk.publish("", "q", "new");
    talk.publish_with("", "nope", true, &Properties::default(), "back");
    talk.quiet();
    assert_eq!(other.look_up("q"), "declared q 1 0");
    assert_eq!(talk.ask(TxCommit {}), "returned 312 NO_ROUTE back");
    assert_eq!(talk.next(), "tx.commit-ok");
    assert_eq!(other.look_up("q"), "declared q 2 0");
    // 64: an acknowledgement counts at the commit, and a rollback gives nothing back by itself.
    assert_eq!(talk.get("q"), "got 1 old left 1");
    talk.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(talk.ask(TxRollback {}), "tx.rollback-ok");
    assert_eq!(other.look_up("q"), "declared q 1 0");
    talk.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(talk.ask(TxCommit {}), "tx.commit-ok");
    talk.say(BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(talk.failed(), "406 PRECONDITION_FAILED - unknown delivery tag 1");
    assert_eq!(other.drain("q"), ["new"]);
}

#[test]
fn semantics_67_a_message_that_is_too_large_is_read_to_its_end() {
    let node = Node::start(&["max_message_size=1000"]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.publish("", "q", &"x".repeat(1_001));
    assert_eq!(
        talk.failed(),
        "406 PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
    );
    talk.publish("", "q", &"x".repeat(1_000));
    assert_eq!(talk.look_up("q"), "declared q 1 0");
}

#[test]
fn semantics_68_expirations_are_texts_of_numbers() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    let expiring = |text| Properties { expiration: Some(short(text)), ..Properties::default() };
    for wrong in ["abc", "", " 5", "-1"] {
        talk.publish_with("", "q", false, &expiring(wrong), "m");
        let told = talk.failed();
        assert!(told.starts_with("406 PRECONDITION_FAILED - invalid expiration "), "{told}");
    }
    talk.publish_with("", "q", false, &expiring("+60000"), "in");
    talk.publish_with("", "q", false, &expiring("0"), "over");
    assert_eq!(talk.drain("q"), ["in"]);
}

#[test]
fn semantics_69_a_user_id_is_ones_own() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    let of = |user| Properties { user_id: Some(short(user)), ..Properties::default() };
    talk.publish_with("", "q", false, &of("guest"), "mine");
    for wrong in ["ann", ""] {
        talk.publish_with("", "q", false, &of(wrong), "m");
        assert_eq!(
            talk.failed(),
            format!(
                "406 PRECONDITION_FAILED - user_id property set to '{wrong}' but authenticated user was 'guest'"
            )
        );
    }
    node.ctl(&["set_user_tags", "guest", "administrator", "impersonator"]);
    let mut talk = Talk::to(&node);
    talk.publish_with("", "q", false, &of("ann"), "anns");
    assert_eq!(talk.drain("q"), ["mine", "anns"]);
}

#[test]
fn semantics_70_cc_and_bcc_are_lists_of_texts() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.plain("q");
    talk.publish_with("", "none", false, &with_header("CC", text("q")), "m");
    let told = talk.failed();
    assert!(told.starts_with("406 PRECONDITION_FAILED - "), "{told}");
    // A missing exchange is told first.
    talk.publish_with("none", "k", false, &with_header("CC", text("q")), "m");
    assert_eq!(talk.failed(), "404 NOT_FOUND - no exchange 'none' in vhost '/'");
    // What is no text in the list is passed over.
    let keys = Value::Array(vec![text("q"), Value::I32(5), text("q")]);
    talk.publish_with("", "none", false, &with_header("BCC", keys.clone()), "blind");
    assert_eq!(talk.get("q"), "got 1 blind left 0");
    assert!(talk.headers().get(b"BCC").is_none());
    talk.publish_with("", "none", false, &with_header("CC", keys), "open");
    assert_eq!(talk.get("q"), "got 2 open left 0");
    assert!(talk.headers().get(b"CC").is_some());
}

#[test]
fn semantics_71_direct_replies() {
    let node = Node::start(&[]);
    let (mut asker, mut server) = (Talk::to(&node), Talk::to(&node));
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
    assert!(name.starts_with("amq.rabbitmq.reply-to."), "{name}");
    server.publish("", &name, "answer");
    assert_eq!(asker.next(), "c 1 answer");
    assert_eq!((asker.last.exchange.as_str(), asker.last.key.as_str()), ("", name.as_str()));
    asker.client.close();
    server.publish("", &name, "too late");
    server.quiet();
}

/// Clients compare bytes: what nothing has to change comes back as it was.
#[test]
fn semantics_72_headers_keep_their_order() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    talk.queue("q", Kind { durable: true, ..Kind::default() }, &[]);
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
    talk.publish_with("", "q", false, &properties, "m");
    assert_eq!(talk.get("q"), "got 1 m left 0");
    assert_eq!(talk.last.properties, properties.to_bytes());
}

#[test]
fn semantics_73_the_history_a_client_invents_is_not_continued() {
    let node = Node::start(&[]);
    let mut talk = Talk::to(&node);
    let dead = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text("dead"))];
    talk.queue("q", Kind::default(), &dead);
    talk.plain("dead");
    let mut death = Table::new();
    death.push(short("queue"), text("q"));
    death.push(short("reason"), text("rejected"));
    death.push(short("count"), Value::I64(41));
    let invented = with_header("x-death", Value::Array(vec![Value::Table(death)]));
    talk.publish_with("", "q", false, &invented, "m");
    assert_eq!(talk.get("q"), "got 1 m left 0");
    talk.discard(1);
    let mut told = talk.get("dead");
    while told == "empty" {
        told = talk.get("dead");
    }
    let headers = talk.headers();
    let deaths = headers.get(b"x-death").and_then(Value::as_array).unwrap();
    let count = deaths[0].as_table().unwrap().get(b"count").and_then(Value::as_i64);
    assert_eq!(count, Some(1));
}
