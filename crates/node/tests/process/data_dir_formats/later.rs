//! The content of data directories since format 2, where backlogs are paged, queues have two forms and
//! bodies are stored once for several queues; since format 3, where queues have limits and expiry;
//! since format 4, where delivery counts are stored; and since format 9, with messages of AMQP 1.0.

use super::{body, properties, table, take};
use crate::support::node::Node;
use crate::support::wait_until;
use amqp10::{
    Header, Role, Section, ValueRef, put_application_properties, put_message_annotations,
};
use amqp091::method::{BasicGet, BasicReject, QueueDeclare};
use amqp091::{Properties, PropertiesRef, Table, TableRef, Value};
use testing::amqp10_peer::Peer;
use testing::client::{Client, Message};

const N_PAGED: usize = 700;
const N_OLDER: usize = 40;
/// Of those in the older form, so many are gone again.
const N_OLDER_GONE: usize = 7;
const N_URGENT: usize = 12;
const N_PRIORITIES: usize = 4;
const N_TIMED: usize = 5;
/// Of those with a time to live, the first was refused.
const TTL_MS: i64 = 3_600_000;
/// Of the first of three messages so many deliveries have failed.
const N_FAILED: i64 = 2;

fn declare(client: &mut Client, queue: &str, arguments: &[(&str, Value)]) {
    let arguments = table(arguments).to_bytes();
    let (queue, arguments) = (queue.as_bytes(), TableRef::trusted(&arguments));
    let declare = QueueDeclare { queue, arguments, durable: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

fn urgent(number: usize) -> Properties {
    Properties { priority: u8::try_from(number % N_PRIORITIES).ok(), ..properties(number) }
}

fn older_bytes(number: usize) -> usize {
    if number.is_multiple_of(10) { 5_000 } else { 50 }
}

/// Adds what a directory of this format has more than one of format 1.
pub(super) fn fill(node: &Node, client: &mut Client, format: u32) {
    if format >= 2 {
        fill_paged(node, client);
    }
    if format >= 3 {
        fill_ruled(client);
    }
    if format >= 4 {
        fill_counted(client);
    }
    if format >= 9 {
        fill_sections(node, client);
    }
}

fn fill_paged(node: &Node, client: &mut Client) {
    declare(client, "older", &[("x-queue-version", Value::I32(1))]);
    declare(client, "paged", &[]);
    let put_older = |client: &mut Client, number| {
        client.put_message("", "older", &properties(number), &body(number, older_bytes(number)));
    };
    (1..N_OLDER).for_each(|number| put_older(client, number - 1));
    for number in 0..N_PAGED {
        client.put_message("", "paged", &properties(number), &body(number, 40));
    }
    client.wait_for_confirms();
    (0..N_OLDER_GONE).for_each(|_| drop(client.get("older")));
    // Confirmed behind those, so they are as durable.
    put_older(client, N_OLDER - 1);
    client.wait_for_confirms();
    wait_until("pages are written", || node.bytes_in("pages") > 10_000);
}

fn fill_ruled(client: &mut Client) {
    declare(client, "urgent", &[("x-max-priority", Value::I32(3))]);
    declare(client, "late", &[]);
    let to_late = [
        ("x-message-ttl", Value::I64(TTL_MS)),
        ("x-dead-letter-exchange", "".into()),
        ("x-dead-letter-routing-key", "late".into()),
    ];
    declare(client, "timed", &to_late);
    for number in 0..N_URGENT {
        client.put_message("", "urgent", &urgent(number), &body(number, 30));
    }
    for number in 0..N_TIMED {
        client.put_message("", "timed", &properties(number), &body(number, 30));
    }
    client.wait_for_confirms();
    client.say(1, BasicGet { queue: b"timed", ..BasicGet::default() });
    let first = client.message().unwrap();
    client.say(1, BasicReject { delivery_tag: first.tag, requeue: false });
    wait_until("the letter has arrived", || client.declare("late") == 1);
}

fn fill_counted(client: &mut Client) {
    declare(client, "counted", &[("x-delivery-limit", Value::I32(5))]);
    let put = |client: &mut Client, number| {
        client.put_message("", "counted", &properties(number), &body(number, 30));
    };
    (0..2).for_each(|number| put(client, number));
    client.wait_for_confirms();
    for _ in 0..N_FAILED {
        client.say(1, BasicGet { queue: b"counted", ..BasicGet::default() });
        let first = client.message().unwrap();
        client.say(1, BasicReject { delivery_tag: first.tag, requeue: true });
    }
    // Confirmed behind what was noted, which is as durable.
    put(client, 2);
    client.wait_for_confirms();
}

/// Messages of AMQP 1.0: one of plain bytes, one whose body is a value, one with annotations and properties.
fn fill_sections(node: &Node, client: &mut Client) {
    declare(client, "sections", &[]);
    let mut peer = Peer::begun(node.address(), b"\0carol\0secret", "shop");
    peer.attaches(Role::Sender, "/queues/sections");
    assert!(peer.hears().starts_with("attach"));
    let durable = Header { durable: Some(true), ..Header::default() };
    for (n, put) in (0..).zip(SECTIONS) {
        peer.transfers_sections(n, false, |out| {
            Section::Header(durable).encode(out);
            put(out);
        });
        assert_eq!(peer.hears(), format!("settled {n}..={n} accepted true"));
    }
}

/// The sections of messages, behind their headers.
const SECTIONS: [fn(&mut Vec<u8>); 3] = [
    |out| Section::Data(b"plain").encode(out),
    |out| Section::Value(ValueRef::Str("value")).encode(out),
    |out| {
        put_message_annotations(out, |items| items.put_symbol("x-note", ValueRef::U8(7)));
        put_application_properties(out, |items| {
            items.put(ValueRef::Str("number"));
            items.put(ValueRef::I64(3));
        });
        Section::Data(b"with properties").encode(out);
    },
];

/// The lines of `list_queues` about these queues, but for those whose messages go with time.
pub(super) fn listed(format: u32) -> Vec<String> {
    let mut lines = Vec::new();
    if format >= 2 {
        lines.push(format!("older\t\t{}", N_OLDER - N_OLDER_GONE));
        lines.push(format!("paged\t\t{N_PAGED}"));
    }
    if format >= 3 {
        lines.push(format!("urgent\t\t{N_URGENT}"));
    }
    if format >= 4 {
        lines.push("counted\t\t3".to_owned());
    }
    if format >= 9 {
        lines.push("sections\t\t3".to_owned());
    }
    lines
}

/// Whether time takes from what this line of `list_queues` is about.
pub(super) fn is_timed(line: &str) -> bool {
    ["timed\t", "late\t"].iter().any(|timed| line.starts_with(timed))
}

/// Reads back what [`fill`] made, which is gone afterwards.
pub(super) fn check(client: &mut Client, was_killed: bool, format: u32) {
    if format >= 2 {
        let older = take(client, "older");
        assert_eq!(older.len(), N_OLDER - N_OLDER_GONE);
        for (number, found) in (N_OLDER_GONE..).zip(&older) {
            assert_one(found, &properties(number), &body(number, older_bytes(number)));
            assert_eq!(found.redelivered, was_killed);
        }
        let paged = take(client, "paged");
        assert_eq!(paged.len(), N_PAGED);
        for (number, found) in paged.iter().enumerate() {
            assert_one(found, &properties(number), &body(number, 40));
        }
    }
    if format >= 3 {
        check_ruled(client, was_killed);
    }
    if format >= 4 {
        check_counted(client);
    }
    if format >= 9 {
        check_sections(client);
    }
}

fn check_counted(client: &mut Client) {
    let found = take(client, "counted");
    assert_eq!(found.len(), 3);
    for (number, found) in found.iter().enumerate() {
        assert_eq!(found.body, body(number, 30));
        let counted = (number == 0).then_some(N_FAILED);
        for name in ["x-delivery-count", "x-acquired-count"] {
            let headers = headers_of(found);
            assert_eq!(headers.get(name.as_bytes()).and_then(Value::as_i64), counted, "{name}");
        }
    }
}

fn check_sections(client: &mut Client) {
    let found = take(client, "sections");
    let value: Vec<u8> = [&b"\0S\x77\xa1\x05"[..], b"value"].concat();
    let bodies: Vec<&[u8]> = found.iter().map(|found| &*found.body).collect();
    assert_eq!(bodies, [b"plain", &*value, b"with properties"]);
    let headers = headers_of(&found[2]);
    for (name, n) in [("number", 3), ("x-note", 7)] {
        assert_eq!(headers.get(name.as_bytes()).and_then(Value::as_i64), Some(n), "{name}");
    }
}

fn check_ruled(client: &mut Client, was_killed: bool) {
    let found = take(client, "urgent");
    let by_priority = |priority| (0..N_URGENT).filter(move |n| n % N_PRIORITIES == priority);
    let order: Vec<usize> = (0..N_PRIORITIES).rev().flat_map(by_priority).collect();
    assert_eq!(found.len(), order.len());
    for (number, found) in order.into_iter().zip(&found) {
        assert_one(found, &urgent(number), &body(number, 30));
        assert_eq!(found.redelivered, was_killed);
    }
    check_timed(client, was_killed);
}

/// A message with a time to live is in its queue until then, and a dead letter afterwards. A refusal
/// that nobody waited for may be lost by a kill: then that message, too, has had its time.
fn check_timed(client: &mut Client, was_killed: bool) {
    let (mut alive, mut dead) = (Vec::new(), Vec::new());
    wait_until("all are there, dead or alive", || {
        alive.extend(take(client, "timed"));
        dead.extend(take(client, "late"));
        alive.len() + dead.len() == N_TIMED
    });
    for (number, found) in (N_TIMED - alive.len()..).zip(&alive) {
        assert_one(found, &properties(number), &body(number, 30));
    }
    for (number, found) in dead.iter().enumerate() {
        assert_eq!(found.body, body(number, 30));
        let reason = reason_of(found);
        let was_refused = number == 0 && !(was_killed && reason == "expired");
        assert_eq!(reason, if was_refused { "rejected" } else { "expired" }, "{number}");
    }
}

fn headers_of(message: &Message) -> Table {
    let properties = PropertiesRef::parse(&message.properties).unwrap().to_owned().unwrap();
    properties.headers.unwrap()
}

fn reason_of(letter: &Message) -> String {
    let headers = headers_of(letter);
    headers.get(b"x-first-death-reason").unwrap().as_str().unwrap().to_owned()
}

fn assert_one(found: &Message, properties: &Properties, body: &[u8]) {
    assert!(found.body == body);
    assert_eq!(found.properties, properties.to_bytes());
}
