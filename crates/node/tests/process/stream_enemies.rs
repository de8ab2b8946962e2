//! Enemies on the port of the stream protocol, beside a client of each protocol that must not wait for them.

use crate::support::bystander::Bystander;
use crate::support::node::Node;
use crate::support::stream_client::{Client, code};
use crate::support::wait_until;
use std::io::Write as _;
use std::net::TcpStream;
use streamproto::command::{
    Create, Credit, DeclarePublisher, Delete, Metadata, Publish, PublishedMessage, Subscribe,
    Unsubscribe,
};
use streamproto::list::Trailing;
use streamproto::{Command, Entry, Key, List, OffsetSpec, ResponseCode};

/// `LEVERET_CROWD` asks for so many times as much.
fn crowd(n: usize) -> usize {
    n * std::env::var("LEVERET_CROWD").map_or(1, |times| times.parse().unwrap())
}

/// A client of each protocol that measures how long it waits.
struct Bystanders([Bystander; 2]);

impl Bystanders {
    fn watch(node: &Node) -> Self {
        Self([Bystander::watch(node), Bystander::watch_streams(node)])
    }

    fn expect_no_wait(self, attack: &str) {
        let [queues, streams] = self.0;
        queues.expect_no_wait(attack);
        streams.expect_no_wait(&format!("{attack}, streams"));
    }
}

fn bytes<'a>(command: &impl Command<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    out
}

/// They say nothing, half of a frame, or another protocol's words; wrong passwords and long frames.
#[test]
fn strangers_cost_nobody_anything() {
    let node = Node::start(&[]);
    let before = node.rss();
    let bystanders = Bystanders::watch(&node);
    let half = &bytes(&Create { correlation_id: 1, stream: "s", arguments: List::default() })[..9];
    let words: [&[u8]; 4] = [b"", half, b"GET / HTTP/1.1\r\n\r\n", b"\0\0\x20\x01\0\x11\0\x01"];
    let all: Vec<TcpStream> = (0..crowd(1_000))
        .map(|number| {
            let mut socket = TcpStream::connect(node.stream_address()).unwrap();
            // Whose words are none has lost the connection, perhaps.
            drop(socket.write_all(words[number % words.len()]));
            socket
        })
        .collect();
    let guessed: Vec<_> = std::thread::scope(|scope| {
        let guess = || Client::login(node.stream_address(), "guest", "guess").1;
        let guesses: Vec<_> = (0..20).map(|_| scope.spawn(guess)).collect();
        guesses.into_iter().map(|guess| guess.join().unwrap()).collect()
    });
    let refused = code(Key::SaslAuthenticate, 3, ResponseCode::AUTHENTICATION_FAILURE);
    assert!(guessed.iter().all(|answer| *answer == refused), "{guessed:?}");
    wait_until("their time is over", || node.n_connections() <= 2);
    bystanders.expect_no_wait(&format!("{} strangers", all.len()));
    let grown = node.rss().saturating_sub(before);
    eprintln!("{} KiB for {} strangers", grown >> 10, all.len());
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(all);
    node.stop();
}

/// A user with no right but to come in asks for everything.
#[test]
fn who_may_do_nothing_does_nothing() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    node.ctl(&["add_user", "fox", "fox"]);
    node.ctl(&["set_permissions", "fox", "^$", "^$", "^$"]);
    let bystanders = Bystanders::watch(&node);
    let mut fox = Client::open_as(node.stream_address(), ("fox", "fox"), "/");
    let (reference, stream, denied) = ("", "s", ResponseCode::ACCESS_REFUSED);
    for _ in 0..crowd(500) {
        fox.says(&Create { correlation_id: 1, stream: "t", arguments: List::default() });
        fox.says(&Delete { correlation_id: 2, stream });
        fox.says(&DeclarePublisher { correlation_id: 3, publisher_id: 1, reference, stream });
        fox.says(&subscribe(1, "s"));
        for (key, id) in
            [(Key::Create, 1), (Key::Delete, 2), (Key::DeclarePublisher, 3), (Key::Subscribe, 7)]
        {
            assert_eq!(fox.hears(), code(key, id, denied));
        }
        fox.says(&Metadata { correlation_id: 4, streams: List::of(&["s"]) });
        assert!(fox.hears().contains("code: ResponseCode(16)"));
        fox.publish(1, 1);
        assert!(fox.hears().contains("PublishError"));
    }
    bystanders.expect_no_wait("a user without rights");
    owner.declare_publisher(1, "s");
    node.stop();
}

fn subscribe(subscription_id: u8, stream: &str) -> Subscribe<'_> {
    let (correlation_id, offset, credit) = (7, OffsetSpec::First, 10);
    let properties = Trailing(List::default());
    Subscribe { correlation_id, subscription_id, stream, offset, credit, properties }
}

#[test]
fn a_stream_deleted_under_a_crowd_is_gone_for_each_of_them() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    let mut publisher = Client::open(node.stream_address(), "/");
    publisher.declare_publisher(1, "s");
    let messages = [PublishedMessage { publishing_id: 1, entry: Entry::Message(b"x") }];
    publisher.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
    assert!(publisher.hears().contains("PublishConfirm"));
    let n = crowd(1_000) / 10;
    let mut all: Vec<Client> = (0..n).map(|_| Client::open(node.stream_address(), "/")).collect();
    for client in &mut all {
        for id in 0..10 {
            client.subscribe(id, "s", OffsetSpec::Next, 10);
        }
    }
    let bystanders = Bystanders::watch(&node);
    owner.says(&Delete { correlation_id: 2, stream: "s" });
    assert_eq!(owner.hears(), code(Key::Delete, 2, ResponseCode::OK));
    for client in &mut all {
        assert!(client.hears().contains("MetadataUpdate"), "each connection is told once");
        client.says(&Metadata { correlation_id: 4, streams: List::default() });
        assert!(client.hears().contains("MetadataResponse"), "and nothing else");
    }
    bystanders.expect_no_wait("a stream deleted under a crowd");
    wait_until("the space of its files is given back", || !node.holds_removed("/streams/"));
    drop(all);
    node.stop();
}

/// Subscriptions come and go under the same number, with more credit than there can be, while deliveries are
/// on their way.
#[test]
fn numbers_of_subscriptions_are_reused_as_fast_as_it_goes() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    owner.declare_publisher(1, "s");
    let body = vec![b'x'; 20_000];
    for publishing_id in 0..200 {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(&body) }];
        owner.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(owner.hears().contains("PublishConfirm"));
    }
    let before = node.rss();
    let bystanders = Bystanders::watch(&node);
    let mut fox = Client::open(node.stream_address(), "/");
    let (mut n_delivered, unsubscribed) = (0, code(Key::Unsubscribe, 8, ResponseCode::OK));
    for _ in 0..crowd(300) {
        fox.says(&subscribe(1, "s"));
        fox.says(&subscribe(1, "s"));
        for _ in 0..9 {
            fox.says(&Credit { subscription_id: 1, credit: u16::MAX });
            fox.says(&Credit { subscription_id: 1, credit: 0x7FFF });
        }
        fox.says(&Unsubscribe { correlation_id: 8, subscription_id: 1 });
        let mut heard = fox.hears();
        let mut n_refused = 0;
        while heard != unsubscribed {
            n_refused += usize::from(
                heard == code(Key::Subscribe, 7, ResponseCode::SUBSCRIPTION_ID_ALREADY_EXISTS),
            );
            n_delivered += usize::from(heard.contains("Deliver"));
            heard = fox.hears();
        }
        assert_eq!(n_refused, 1);
    }
    assert!(n_delivered > 300, "{n_delivered}");
    bystanders.expect_no_wait("numbers of subscriptions that are reused");
    let grown = node.rss().saturating_sub(before);
    eprintln!("{} KiB for {n_delivered} chunks", grown >> 10);
    assert!(grown < 64 << 20, "{grown} bytes");
    node.stop();
}

#[test]
fn where_there_are_few_descriptors_those_who_are_in_go_on() {
    let node = Node::start_with_ulimit("-n 256", &[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    owner.declare_publisher(1, "s");
    owner.subscribe(1, "s", OffsetSpec::First, 9);
    let all: Vec<TcpStream> =
        (0..400).map(|_| TcpStream::connect(node.stream_address()).unwrap()).collect();
    for id in 0..3 {
        owner.publish(1, id);
        let heard = [owner.hears(), owner.hears()];
        assert!(heard.iter().any(|it| it.contains("Deliver")), "{heard:?}");
    }
    owner.create("t");
    assert!(node.n_descriptors() <= 256);
    drop(all);
    wait_until("others come in again", || {
        let mut client = Client::connect(node.stream_address());
        client.says(&streamproto::command::PeerProperties::default());
        client.try_hear().is_some_and(|heard| heard.contains("PeerPropertiesResponse"))
    });
    node.stop();
}
