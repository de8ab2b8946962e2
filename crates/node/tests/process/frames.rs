//! Messages with more properties than a client's frames hold.

use super::support::bystander::Bystander;
use super::support::node::Node;
use amqp091::method::{BasicConsume, BasicGet, BasicPublish};
use amqp091::{Properties, PropertiesRef, ShortString, Table, Value, content};
use testing::client::{Client, Login};

/// The frame size of the clients that are sent too much.
const NARROW: u32 = 8_192;
const HEADER_BYTES: usize = 60_000;

fn client(node: &Node, frame_max: u32) -> Client {
    let mut client = Client::login(node.address(), Login { frame_max, ..Login::default() });
    client.open_channel(1);
    client
}

fn with_header(n_bytes: usize) -> Properties {
    let mut headers = Table::new();
    headers.push(ShortString::from_static("h"), Value::from("x".repeat(n_bytes).as_str()));
    Properties { headers: Some(headers), delivery_mode: Some(2), ..Properties::default() }
}

fn refused(n_bytes: usize, where_it_stays: &str) -> String {
    format!(
        "connection.close 501 FRAME_ERROR - a content header of {n_bytes} bytes exceeds the \
         negotiated frame_max of {NARROW}{where_it_stays}"
    )
}

/// The frame of a content header with these properties.
fn frame_bytes(properties: &Properties) -> usize {
    let properties = properties.to_bytes();
    let mut out = Vec::new();
    content::encode_content_header(1, PropertiesRef::trusted(&properties), 0, &mut out);
    out.len()
}

#[test]
fn a_content_header_larger_than_a_frame_is_never_sent_and_its_message_stays_for_others() {
    let node = Node::start(&[]);
    let bystander = Bystander::watch(&node);
    let properties = with_header(HEADER_BYTES);
    let n_bytes = frame_bytes(&properties);
    let mut wide = client(&node, 131_072);
    wide.declare("q");
    wide.select_confirms();
    wide.put_message("", "q", &properties, b"large");
    wide.put_publish("q", true, b"small");
    wide.wait_for_confirms();

    let expected = refused(n_bytes, "; the message stays in queue 'q'");
    for no_ack in [false, true] {
        let mut narrow = client(&node, NARROW);
        narrow.consume("q", no_ack);
        assert_eq!(narrow.next().show(), expected);
        assert_eq!(wide.declare("q"), 2, "consumed, no_ack {no_ack}");
        let mut narrow = client(&node, NARROW);
        let get = BasicGet { queue: b"q", no_ack, ..BasicGet::default() };
        assert_eq!(narrow.ask(1, get), expected);
        assert_eq!(wide.declare("q"), 2, "got, no_ack {no_ack}");
    }
    for body in [b"large", b"small"] {
        let got = wide.get("q").unwrap();
        assert_eq!((got.redelivered, &*got.body), (false, body.as_slice()));
    }
    // What comes while consumers wait goes to those who can have it.
    let mut taker = client(&node, 131_072);
    for no_ack in [true, false] {
        let mut waiting: Vec<Client> = (0..3).map(|_| client(&node, NARROW)).collect();
        waiting.iter_mut().for_each(|narrow| narrow.consume("q", no_ack));
        wide.put_message("", "q", &properties, b"large");
        wide.wait_for_confirms();
        for narrow in &mut waiting {
            assert_eq!(narrow.next().show(), expected);
        }
        assert_eq!(wide.declare("q"), 1, "waited for, no_ack {no_ack}");
        assert_eq!(wide.get("q").unwrap().body, b"large");
    }
    taker.consume("q", true);
    let mut narrow = client(&node, NARROW);
    narrow.consume("q", true);
    for n in 0..4_u8 {
        wide.put_message("", "q", &properties, &[n]);
        wide.wait_for_confirms();
        assert_eq!(taker.message().unwrap().body, [n]);
    }
    assert_eq!(narrow.next().show(), expected);
    bystander.expect_no_wait("messages with headers larger than frames");
    node.stop();
}

#[test]
fn a_publisher_is_not_returned_more_than_it_may_be_sent() {
    let node = Node::start(&[]);
    let mut narrow = client(&node, NARROW);
    // Clients may send a few bytes more than they have agreed to, as with RabbitMQ.
    let around = with_header(8_000);
    let n_short = NARROW as usize - frame_bytes(&around);
    for (n_more, fits) in [(n_short, true), (n_short + 1, false)] {
        let properties = with_header(8_000 + n_more);
        let publish =
            BasicPublish { routing_key: b"nowhere", mandatory: true, ..BasicPublish::default() };
        publish.encode_frame(1, &mut narrow.out);
        let properties = properties.to_bytes();
        let properties = PropertiesRef::parse(&properties).unwrap();
        content::encode_content(1, properties, b"", NARROW, &mut narrow.out);
        narrow.flush();
        let answer = narrow.next();
        if fits {
            assert_eq!(answer.show(), "basic.return");
            assert_eq!(narrow.next().payload.len() + 8, NARROW as usize);
        } else {
            assert_eq!(answer.show(), refused(NARROW as usize + 1, ""));
        }
    }
    let consume = BasicConsume { queue: b"q", ..BasicConsume::default() };
    let mut other = client(&node, NARROW);
    other.declare("q");
    assert_eq!(other.ask(1, consume), "basic.consume-ok");
    node.stop();
}
