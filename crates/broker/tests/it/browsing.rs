//! Looking at messages page by page, while they come and go: nothing changes, none that stays is missed, none
//! is seen twice.

use crate::classic_v1::convert;
use crate::client::{Client, at, start_with, wait_until};
use broker::{Broker, Browser, LookFrom, PagerOptions, StorageOptions};
use message::Properties;
use proptest::prelude::*;
use session::{Outcome, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use testing::MemoryDisk;

/// The queue that is looked at, and one to which the same is done, but that.
const QUEUES: [&str; 2] = ["seen", "other"];
const TTL_MS: u64 = 5_000;

#[derive(Clone, Debug)]
enum Step {
    /// Messages come, with a priority.
    Publish(Vec<u8>),
    /// One is fetched.
    Get,
    /// The oldest that is held is settled.
    Settle(Outcome),
    /// So many milliseconds go by, and messages expire.
    Pass(u64),
    /// The files of classic queues get the other version.
    Convert,
    /// The next few messages are looked at; at the end it begins anew, in the other direction.
    Look(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        Just(Outcome::Accepted),
        Just(Outcome::Rejected),
        Just(Outcome::Modified),
        Just(Outcome::Released),
    ];
    let step = prop_oneof![
        3 => prop::collection::vec(0..4_u8, 1..12).prop_map(Step::Publish),
        3 => Just(Step::Get),
        3 => outcome.prop_map(Step::Settle),
        1 => (1..TTL_MS).prop_map(Step::Pass),
        1 => Just(Step::Convert),
        6 => (1..7_usize).prop_map(Step::Look),
    ];
    prop::collection::vec(step, 1..60)
}

/// A look from one end of the queue to the other.
struct Look {
    browser: Browser,
    seen: BTreeMap<String, u64>,
    last: Option<u64>,
    is_backwards: bool,
    /// The messages that were there when it began.
    there: BTreeSet<String>,
}

struct World {
    broker: Arc<Broker>,
    /// One for each queue.
    clients: [Client; 2],
    n_published: usize,
    now_ms: u64,
    /// The times at which those that are ready expire, by their bodies.
    ready: BTreeMap<String, u64>,
    held: VecDeque<(String, u64)>,
    is_backwards: bool,
    version: u8,
}

impl World {
    fn new(arguments: &[(&'static str, Value)]) -> Self {
        let pager = PagerOptions {
            budget_bytes: 4_000,
            allowance_bytes_min: 2_000,
            allowance_bytes_max: 2_000,
            excess_bytes_max: 20_000,
            unsynced_bytes_max: 10_000,
            ..PagerOptions::default()
        };
        let storage =
            StorageOptions { pager, page_file_bytes: 20_000, ..StorageOptions::default() };
        let broker = start_with(Arc::new(MemoryDisk::new()), &storage);
        let ttl = ("x-message-ttl", Value::I64(TTL_MS.try_into().unwrap()));
        let arguments: Vec<_> = arguments.iter().cloned().chain([ttl]).collect();
        let clients = QUEUES.map(|queue| {
            let mut client = Client::connect(&broker);
            client.declare_with(queue, true, &arguments);
            client
        });
        let (ready, held) = (BTreeMap::new(), VecDeque::new());
        let (n_published, now_ms, is_backwards, version) = (0, 0, true, 2);
        let mut world =
            Self { broker, clients, n_published, now_ms, ready, held, is_backwards, version };
        world.pass(1_000);
        world
    }
}

impl World {
    fn publish(&mut self, priorities: &[u8]) {
        let bodies: Vec<String> =
            (0..priorities.len()).map(|n| format!("{:0>100}", self.n_published + n)).collect();
        self.n_published += priorities.len();
        let properties = |priority: &u8| Properties {
            priority: Some(*priority),
            delivery_mode: Some(2),
            ..Properties::default()
        };
        let all: Vec<_> =
            priorities.iter().map(properties).zip(bodies.iter().map(String::as_str)).collect();
        for (client, queue) in self.clients.iter_mut().zip(QUEUES) {
            client.publish_with("", queue, &all);
        }
        let deadline_ms = self.now_ms + TTL_MS;
        self.ready.extend(bodies.into_iter().map(|body| (body, deadline_ms)));
        self.settled();
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        at(&self.broker, self.now_ms);
        self.settled();
    }

    /// Both queues have those that have not expired.
    fn settled(&mut self) {
        self.ready.retain(|_, deadline_ms| *deadline_ms > self.now_ms);
        let n_ready = self.ready.len() as u64;
        for (client, queue) in self.clients.iter_mut().zip(QUEUES) {
            wait_until("all are ready", || client.ask_ready(queue) == n_ready);
        }
    }

    fn convert(&mut self) {
        self.version = 3 - self.version;
        convert(&self.broker, self.version);
    }

    /// Fetches a message of each, which are alike.
    fn get(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let [one, other] = &mut self.clients;
        let got = one.get_soon(QUEUES[0]);
        assert_eq!(got, other.get_soon(QUEUES[1]));
        assert_eq!(one.last().properties, other.last().properties);
        let body = got.split(' ').nth(1).unwrap();
        self.held.push_back(self.ready.remove_entry(body).unwrap());
    }

    fn settle(&mut self, outcome: Outcome) {
        let Some(settled) = self.held.pop_front() else { return };
        for client in &mut self.clients {
            client.settle(1, outcome);
        }
        let comes_back = matches!(outcome, Outcome::Modified | Outcome::Released);
        self.ready.extend(Some(settled).filter(|_| comes_back));
        self.settled();
    }

    /// All that is there now.
    fn there(&self) -> BTreeSet<String> {
        let queue = self.broker.queue("/", QUEUES[0]).unwrap();
        let mut look =
            Look::new(Browser::new(&queue, LookFrom::Position(0)), false, BTreeSet::new());
        while look.go_on(usize::MAX) {}
        look.seen.into_keys().collect()
    }

    fn look(&mut self) -> Look {
        self.is_backwards = !self.is_backwards;
        let queue = self.broker.queue("/", QUEUES[0]).unwrap();
        let from = match self.is_backwards {
            true => LookFrom::Before(u64::MAX),
            false => LookFrom::Position(0),
        };
        Look::new(Browser::new(&queue, from), self.is_backwards, self.there())
    }
}

impl Look {
    const fn new(browser: Browser, is_backwards: bool, there: BTreeSet<String>) -> Self {
        Self { browser, seen: BTreeMap::new(), last: None, is_backwards, there }
    }

    /// Looks at so many more, each for the first time and in order. False at the end.
    fn go_on(&mut self, n_max: usize) -> bool {
        let (mut n, seen) = (0, &mut self.seen);
        let (last, is_backwards) = (&mut self.last, self.is_backwards);
        let goes_on = self.browser.step(&mut |at| {
            n += 1;
            let body = String::from_utf8(at.seen.message.body.bytes().to_vec()).unwrap();
            let position = at.seen.position;
            assert_eq!(seen.insert(body, position), None, "it is seen twice");
            let last = last.replace(position);
            assert!(last.is_none_or(|last| (position < last) == is_backwards && position != last));
            if n >= n_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        goes_on.unwrap()
    }

    /// Whatever was there when it began and is there still was seen.
    fn check(&self, there: &BTreeSet<String>) {
        let missed: Vec<_> =
            self.there.intersection(there).filter(|body| !self.seen.contains_key(*body)).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }
}

fn check(arguments: &[(&'static str, Value)], steps: &[Step]) {
    let mut world = World::new(arguments);
    let mut look = world.look();
    for step in steps {
        match step {
            Step::Publish(messages) => world.publish(messages),
            Step::Get => world.get(),
            Step::Settle(outcome) => world.settle(*outcome),
            Step::Pass(ms) => world.pass(*ms),
            // A quorum queue has one version.
            Step::Convert if arguments.iter().any(|(name, _)| *name == "x-queue-type") => {}
            Step::Convert => world.convert(),
            Step::Look(n) => {
                if !look.go_on(*n) {
                    look.check(&world.there());
                    look = world.look();
                }
            }
        }
    }
    while look.go_on(3) {}
    look.check(&world.there());
    while !world.held.is_empty() {
        world.settle(Outcome::Released);
    }
    // Order, redelivered and delivery counts are as if nobody had looked.
    while !world.ready.is_empty() {
        world.get();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_look_at_a_classic_queue_misses_nothing_and_changes_nothing(steps in steps()) {
        check(&[], &steps);
    }

    #[test]
    fn a_look_at_a_queue_with_priorities_misses_nothing_and_changes_nothing(steps in steps()) {
        check(&[("x-max-priority", Value::I32(3))], &steps);
    }

    #[test]
    fn a_look_at_a_quorum_queue_misses_nothing_and_changes_nothing(steps in steps()) {
        let unlimited = ("x-delivery-limit", Value::I32(-1));
        check(&[("x-queue-type", Value::from("quorum")), unlimited], &steps);
    }
}
