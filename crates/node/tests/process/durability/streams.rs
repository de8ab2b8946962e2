//! Streams with `durability = fsync`: what was confirmed is there after a kill, once and in order.

use super::super::support::node::Node;
use super::super::support::stream_client::{Client, code};
use super::super::support::wait_until;
use super::{Random, from_env};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use streamproto::command::{
    Command as _, Credit, DeclarePublisher, Publish, PublishedMessage, QueryPublisherSequence,
};
use streamproto::{Chunk, Entry, Key, List, OffsetSpec, ResponseCode, ToClient};

const STREAMS: [&str; 3] = ["stream-0", "stream-1", "stream-2"];
/// Publishers of each stream, who keep their names over all rounds.
const N_PUBLISHERS: u8 = 2;
/// Whose message comes behind all others when a stream is read.
const MARKER: u8 = u8::MAX;
/// Unconfirmed messages of a publisher.
const WINDOW: u64 = 300;

/// A publisher, as it knows itself: its messages have the numbers from 1 on.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    sent: u64,
    confirmed: u64,
}

/// A stream over all rounds.
struct Stream {
    name: &'static str,
    publishers: [Mutex<Known>; N_PUBLISHERS as usize],
    /// The last number of each publisher that was read.
    read: BTreeMap<u8, u64>,
    /// The offset behind what was read.
    read_to: u64,
    /// The number of the last marker.
    marker: u64,
}

/// The only message of that number: its size says nothing of the number, and few are large.
fn message(publisher: u8, number: u64) -> Vec<u8> {
    let [.., byte] = number.to_be_bytes();
    let size = if number.is_multiple_of(97) { 70_000 } else { usize::from(byte) };
    let mut message = vec![byte; 9 + size];
    message[0] = publisher;
    message[1..9].copy_from_slice(&number.to_be_bytes());
    message
}

impl Stream {
    fn new(name: &'static str) -> Self {
        Self { name, publishers: Default::default(), read: BTreeMap::new(), read_to: 0, marker: 0 }
    }

    fn n_confirmed(&self) -> u64 {
        self.publishers.iter().map(|known| known.lock().unwrap().confirmed).sum()
    }

    /// A client that is one of its publishers: the node remembers what it has confirmed to it.
    fn publisher(&self, node: &Node, publisher: u8) -> Client {
        let mut client = Client::open(node.stream_address(), "/");
        let reference = format!("publisher-{publisher}");
        let (publisher_id, reference, stream) = (publisher, reference.as_str(), self.name);
        client.says(&DeclarePublisher { correlation_id: 8, publisher_id, reference, stream });
        assert_eq!(client.hears(), code(Key::DeclarePublisher, 8, ResponseCode::OK));
        client.says(&QueryPublisherSequence { correlation_id: 9, reference, stream });
        let frame = client.try_frame().unwrap();
        let told = ToClient::decode(&frame).unwrap();
        let ToClient::QueryPublisherSequenceResponse(last) = told else { panic!("{told:?}") };
        let known = self.publishers[usize::from(publisher)].lock().unwrap();
        assert!(last.sequence >= known.confirmed, "{known:?}: {last:?}");
        client
    }

    /// Publishes until the connection ends; again from the first that is not confirmed.
    fn publish(&self, mut client: Client, publisher: u8, mut random: Random) {
        let known = &self.publishers[usize::from(publisher)];
        let mut now = *known.lock().unwrap();
        now.sent = now.confirmed;
        loop {
            let mut out = Vec::new();
            while now.sent < now.confirmed + WINDOW {
                let numbers = now.sent + 1..=now.sent + 1 + random.below(8) as u64;
                now.sent = *numbers.end();
                put(publisher, numbers, &mut out);
            }
            if client.try_send(&out).is_err() {
                return;
            }
            let Some(frame) = client.try_frame() else { return };
            let told = ToClient::decode(&frame).unwrap();
            let ToClient::PublishConfirm(confirm) = told else { panic!("{told:?}") };
            for number in confirm.publishing_ids {
                assert_eq!(number, now.confirmed + 1, "confirmed out of order");
                now.confirmed = number;
            }
            known.lock().unwrap().confirmed = now.confirmed;
        }
    }

    /// Reads on: each publisher's messages come once and in order, those that are confirmed at least.
    fn check(&mut self, node: &Node) {
        let mut client = Client::open(node.stream_address(), "/");
        client.declare_publisher(MARKER, self.name);
        let mut out = Vec::new();
        self.marker += 1;
        put(MARKER, self.marker..=self.marker, &mut out);
        client.try_send(&out).unwrap();
        assert!(client.hears().contains("PublishConfirm"));
        client.subscribe(0, self.name, OffsetSpec::Offset(self.read_to), 10);
        while !self.read_frame(&client.try_frame().unwrap()) {
            client.says(&Credit { subscription_id: 0, credit: 1 });
        }
        for (publisher, known) in (0..).zip(&self.publishers) {
            let known = known.lock().unwrap();
            let read = self.read.get(&publisher).copied().unwrap_or_default();
            assert!(read >= known.confirmed, "{}: {read} of {known:?}", self.name);
        }
    }

    /// Whether the last marker is there.
    fn read_frame(&mut self, frame: &[u8]) -> bool {
        let told = ToClient::decode(frame).unwrap();
        let ToClient::Deliver(deliver) = told else { panic!("{told:?}") };
        let chunk = Chunk::decode_delivered(deliver.chunk.0).unwrap();
        chunk.verify_crc().unwrap();
        let mut is_end = false;
        for entry in chunk.entries() {
            let (offset, Entry::Message(found)) = entry.unwrap() else { panic!("a sub-batch") };
            if offset < self.read_to {
                continue;
            }
            self.read_to = offset + 1;
            let number = u64::from_be_bytes(found[1..9].try_into().unwrap());
            assert!(found == message(found[0], number), "{} is damaged at {offset}", self.name);
            if found[0] == MARKER {
                is_end |= number == self.marker;
                continue;
            }
            let before = self.read.insert(found[0], number).unwrap_or_default();
            assert_eq!(number, before + 1, "{} at {offset}: lost, or there twice", self.name);
        }
        is_end
    }
}

/// Appends a frame with these messages.
fn put(publisher: u8, numbers: std::ops::RangeInclusive<u64>, out: &mut Vec<u8>) {
    let bodies: Vec<_> = numbers.map(|number| (number, message(publisher, number))).collect();
    let messages: Vec<_> = bodies
        .iter()
        .map(|(publishing_id, body)| (*publishing_id, Entry::Message(body)))
        .map(|(publishing_id, entry)| PublishedMessage { publishing_id, entry })
        .collect();
    Publish { publisher_id: publisher, messages: List::of(&messages) }.encode_frame(out);
}

/// Traffic until enough is confirmed; then the node is killed in the middle of it.
fn traffic(node: &mut Node, streams: &[Stream], random: &mut Random) {
    let n_confirmed = || streams.iter().map(Stream::n_confirmed).sum::<u64>();
    let enough = n_confirmed() + 50 + random.below(from_env("DURABILITY_MESSAGES", 3000)) as u64;
    let both = |stream| (0..N_PUBLISHERS).map(move |publisher| (stream, publisher));
    let publishers = streams.iter().flat_map(both);
    let publishers: Vec<_> = publishers.map(|(it, n)| (it, n, it.publisher(node, n))).collect();
    std::thread::scope(|scope| {
        for (stream, publisher, client) in publishers {
            let random = random.fork();
            scope.spawn(move || stream.publish(client, publisher, random));
        }
        wait_until("enough is confirmed", || n_confirmed() >= enough);
        node.kill();
    });
}

#[test]
fn what_was_confirmed_survives_kill_9_in_streams() {
    let mut node = Node::start(&["stream.durability=fsync"]);
    let mut client = Client::open(node.stream_address(), "/");
    STREAMS.iter().for_each(|stream| client.create(stream));
    let (mut streams, mut random) = (STREAMS.map(Stream::new), Random::by_chance());
    let n_rounds = from_env("DURABILITY_ROUNDS", 4);
    let mut slowest_start = Duration::ZERO;
    for _ in 0..n_rounds {
        traffic(&mut node, &streams, &mut random);
        let started = Instant::now();
        node.start_again();
        slowest_start = slowest_start.max(started.elapsed());
        streams.iter_mut().for_each(|stream| stream.check(&node));
    }
    // All of it, which earlier rounds have seen once.
    for stream in &mut streams {
        (stream.read, stream.read_to) = (BTreeMap::new(), 0);
        stream.check(&node);
    }
    let n_read: u64 = streams.iter().flat_map(|stream| stream.read.values()).sum();
    let n_confirmed: u64 = streams.iter().map(Stream::n_confirmed).sum();
    eprintln!("{n_rounds} rounds, {n_confirmed} confirmed, {n_read} read, none lost or twice");
    eprintln!("slowest start {slowest_start:?}");
    node.stop();
}
