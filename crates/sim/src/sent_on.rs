//! Messages that an operator sends on between queues of both types, while a client publishes and takes, with
//! losses of power at any write. Those that were confirmed, and that the client has not had, are in one
//! queue at least after each start; and in one only as long as no power is lost.

use crate::client::{Read, control, settle, short};
use crate::declare::{Arguments, Overflow};
use crate::harness::{Connected, Harness, StartFaults, Started, expect_ok, fail};
use crate::node::{NodeOptions, journal_operations_max};
use broker::{
    Browser, Clock, Departed, Departure, Fate, LookFrom, LookedAt, Session, Standing,
    StreamDurability,
};
use log::Durability;
use message::{MessageRef, OwnedMessage, Properties};
use meta::QueueVersion;
use session::{Op, Outcome, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use stdx::Now;
use testing::outbox::{Content, Recorder, What};
use testing::{MemoryDisk, Random};

/// The first three are queues; the last of those is soon full.
const PLACES: [&str; 4] = ["q0", "q1", "full", "nowhere"];
const QUEUES: [&str; 3] = ["q0", "q1", "full"];
const FULL_AT: u64 = 3;
const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 60;
const TOGETHER_MAX: usize = 12;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 60;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 1, percent: 20, are_noted: false };

/// The only client.
struct Peer {
    session: Session,
    recorder: std::sync::Arc<Recorder>,
    n_published: u64,
    unconfirmed: BTreeMap<u64, u64>,
}

/// One run.
pub(crate) struct SentOn {
    pub(crate) harness: Harness,
    peer: Option<Peer>,
    n_messages: u64,
    confirmed: BTreeSet<u64>,
    taken: BTreeSet<u64>,
    /// Those that may be in several places.
    doubled: BTreeSet<u64>,
}

impl SentOn {
    pub(crate) fn new(seed: u64, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let options = NodeOptions {
            segment_bytes: 16 * 1024,
            durability: Durability::Sync,
            allowance_bytes: random.choose(&[0, 1_000, 1 << 20]).unwrap_or(1 << 20),
            embed_below_bytes: 200,
            journal_operations_max: journal_operations_max(seed),
            default_version: random
                .choose(&[QueueVersion::V1, QueueVersion::V2])
                .unwrap_or_default(),
            clock: Clock::TicksFrom(Now::default()),
            stream_durability: StreamDurability::default(),
        };
        let harness = Harness::new(random, options, echo);
        Self {
            harness,
            peer: None,
            n_messages: 0,
            confirmed: BTreeSet::new(),
            taken: BTreeSet::new(),
            doubled: BTreeSet::new(),
        }
    }

    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.harness.begin();
        self.connect();
        self.declare();
        for _ in 0..=self.harness.random.below(LIVES_MAX) {
            self.harness.plan_fault(FAULT_WITHIN);
            for _ in 0..self.harness.random.below(WORK_MAX) {
                if self.harness.has_failed() {
                    break;
                }
                self.act();
            }
            self.restart();
            self.connect();
        }
    }

    fn connect(&mut self) {
        let Connected { recorder, session, .. } = self.harness.connect();
        self.peer = Some(Peer { session, recorder, n_published: 0, unconfirmed: BTreeMap::new() });
        self.ask(Op::OpenChannel);
        self.ask(Op::EnableConfirms);
    }

    fn declare(&mut self) {
        for queue in QUEUES {
            let kind = self.harness.random.choose(&["classic", "quorum"]);
            let mut arguments = Arguments::default();
            arguments.text("x-queue-type", kind);
            let is_full = queue == "full";
            arguments.number("x-max-length", is_full.then_some(FULL_AT));
            arguments.text("x-overflow", is_full.then_some(Overflow::Reject.word()));
            self.harness.note(format!("{queue} is a {kind:?} queue"));
            self.ask(arguments.declare(queue, true));
        }
    }

    fn act(&mut self) {
        match self.harness.random.below(10) {
            0..3 => self.publish(),
            3..6 => self.send_on(),
            6 => self.take(),
            _ => {
                self.harness.step_part();
                self.hear();
            }
        }
    }

    fn publish(&mut self) {
        let mut read = Read::default();
        let queue = self.harness.random.choose(&QUEUES).unwrap_or("q0");
        let n = 1 + self.harness.random.below(TOGETHER_MAX);
        self.harness.note(format!("m{}.. {n} of them to {queue}", self.n_messages + 1));
        let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
        for _ in 0..n {
            self.n_messages += 1;
            let id = self.n_messages;
            let size = self.harness.random.choose(&[8, 300]).unwrap_or(8);
            let mut body = vec![0; size];
            body.splice(..8, id.to_be_bytes());
            let (exchange, key) = (Vec::new(), queue.as_bytes().to_vec());
            let properties = properties.clone();
            let form = Content::form_of(id);
            read.publish(1, &Content { exchange, key, properties, body, persistent: true, form });
            if let Some(peer) = &mut self.peer {
                peer.n_published += 1;
                peer.unconfirmed.insert(peer.n_published, id);
            }
        }
        self.say(read);
    }

    /// Some of the ready messages of a queue go elsewhere.
    fn send_on(&mut self) {
        let from = self.harness.random.choose(&QUEUES).unwrap_or("q0");
        let to = self.harness.random.choose(&PLACES).unwrap_or("q1");
        let Some(queue) = self.harness.queue(from) else { return };
        let n_max = self.harness.random.below(TOGETHER_MAX);
        let departures = departures(&mut Browser::new(&queue, LookFrom::Position(0)), to, n_max);
        let ids: Vec<u64> = departures.iter().map(|it| id_of(&it.message)).collect();
        self.harness.note(format!("{from} sends {ids:?} on to {to}"));
        let Some(sent) = self.harness.send_on(&queue, &departures) else {
            self.doubled.extend(ids);
            return;
        };
        let Departed { fates, n_left } = sent;
        let arrived = fates.iter().filter(|fate| **fate == Fate::Arrived).count() as u64;
        if (to == "nowhere" && arrived > 0) || (to.starts_with('q') && arrived < ids.len() as u64) {
            fail(format!("{to}: {fates:?}"));
        }
        if n_left != arrived {
            fail(format!("{n_left} of {arrived} left, and no consumer took any"));
        }
        self.hear();
    }

    /// A client takes a message, for good.
    fn take(&mut self) {
        let queue = self.harness.random.choose(&QUEUES).unwrap_or("q0");
        for what in self.ask(Op::Get { queue: short(queue), no_ack: false }) {
            if let What::Got { given, .. } = what {
                let id = id_in(&given.content.body);
                self.harness.note(format!("m{id} of {queue} is taken"));
                self.taken.insert(id);
                let place = (given.link, given.position);
                if let Some(peer) = &self.peer {
                    peer.recorder.forget(given.link, given.position);
                }
                self.say(Read::of(vec![Request::Settle(settle(1, place, Outcome::Accepted))]));
            }
        }
    }

    fn ask(&mut self, op: Op) -> Vec<What> {
        self.say(Read::of(vec![control(1, op)]))
    }

    /// Says something, and returns what was heard but for confirms.
    fn say(&mut self, read: Read) -> Vec<What> {
        let Some(mut peer) = self.peer.take() else { return Vec::new() };
        let said = self.harness.say(&mut peer.session, read);
        self.peer = Some(peer);
        if !self.harness.has_failed() {
            said.check();
        }
        self.hear()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "who asked looks at the others")]
    fn hear(&mut self) -> Vec<What> {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        let mut others = Vec::new();
        for (_, what) in heard {
            match what {
                What::Confirm { first, last, answer, .. } => {
                    self.note_answer(first..=last, answer.is_ack())
                }
                What::ChannelFailed { text, .. } | What::ConnectionFailed { text, .. }
                    if !self.harness.has_failed() =>
                {
                    fail(text);
                }
                _ => others.push(what),
            }
        }
        others
    }

    fn note_answer(&mut self, numbers: std::ops::RangeInclusive<u64>, ack: bool) {
        let Some(peer) = &mut self.peer else { return };
        for number in numbers {
            let id = peer.unconfirmed.remove(&number);
            self.confirmed.extend(id.filter(|_| ack));
        }
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self) {
        self.hear();
        if let Some(peer) = self.peer.take() {
            self.harness.close(peer.session);
        }
        if !self.harness.has_failed() {
            self.check_single();
        }
        let disk = self.harness.lose_node();
        let Started { copy, .. } = self.harness.start(disk, START_FAULTS);
        let found = expect_ok(self.found(&copy));
        self.harness.note(format!("there are {found:?}"));
        let mut sure = self.confirmed.difference(&self.taken);
        if let Some(lost) = sure.find(|id| !found.contains_key(id)) {
            fail(format!("m{lost} is lost"));
        }
        self.doubled = found.iter().filter(|(_, n)| **n > 1).map(|(id, _)| *id).collect();
    }

    /// No message is in two queues that was not before.
    fn check_single(&self) {
        let mut seen = BTreeSet::new();
        for queue in QUEUES.iter().filter_map(|name| self.harness.queue(name)) {
            let mut browser = Browser::new(&queue, LookFrom::Position(0));
            for departure in departures(&mut browser, "", usize::MAX) {
                let id = id_of(&departure.message);
                if !seen.insert(id) && !self.doubled.contains(&id) {
                    fail(format!("m{id} is in two queues"));
                }
            }
        }
    }

    /// How often each message is in queues.
    fn found(&self, copy: &MemoryDisk) -> Result<BTreeMap<u64, usize>, String> {
        let mut client = self.harness.look_into(copy);
        let mut found = BTreeMap::new();
        for queue in QUEUES {
            for given in client.read_queue(queue)? {
                *found.entry(id_in(&given.content.body)).or_default() += 1;
            }
        }
        Ok(found)
    }
}

fn departures(browser: &mut Browser, to: &str, n_max: usize) -> Vec<Departure> {
    let mut departures = Vec::new();
    let mut see = |at: &LookedAt<'_>| {
        if departures.len() >= n_max {
            return ControlFlow::Break(());
        }
        if at.seen.standing == Standing::Ready {
            let key = to.as_bytes();
            let message = MessageRef { exchange: b"", routing_key: key, ..at.seen.message };
            let message = OwnedMessage::new(&message);
            departures.push(Departure { position: at.seen.position, message });
        }
        ControlFlow::Continue(())
    };
    // Where the disk fails meanwhile there are fewer.
    while browser.step(&mut see).unwrap_or(false) {}
    departures
}

fn id_of(message: &OwnedMessage) -> u64 {
    id_in(message.message().body.bytes())
}

fn id_in(body: &[u8]) -> u64 {
    body.first_chunk().map_or(0, |id| u64::from_be_bytes(*id))
}
