//! Quorum queues and streams: publishers with confirms, consumers that settle or give back, time, and crashes
//! at any write. What was confirmed is held against what is there after each start: of a quorum queue nothing
//! confirmed is lost, and nothing comes twice without its mark; of a stream the offsets have no gap, keep
//! their messages for ever, and only retention takes any, from the front.

mod ledger;
mod restarts;

use crate::client::{Read, control, settle, short};
use crate::declare::Arguments;
use crate::harness::{Connected, Harness, expect_ok, fail};
use crate::node::{Node, NodeOptions, journal_operations_max};
use broker::{Clock, Session, StreamDurability};
use ledger::{Kind, Ledger};
use meta::QueueVersion;
use session::{Attachment, Op, Outcome, Position, Request, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use testing::Random;
use testing::outbox::{Content, Recorder, What};

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;
const PEERS_MAX: usize = 3;
const PUBLISHES_MAX: usize = 10;
/// Unsettled deliveries of a consumer.
const PREFETCHES: &[u16] = &[1, 3, 100];
const HOUR_MS: u64 = 3_600_000;
/// Time goes on by so much at once: two weeks pass in most runs.
const PASSING_MS: &[u64] = &[500, 1_000, HOUR_MS, 24 * HOUR_MS, 72 * HOUR_MS];

/// A connection with one channel.
struct Peer {
    session: Session,
    recorder: Arc<Recorder>,
    n_published: u64,
    /// By number of the publish: its message.
    unconfirmed: BTreeMap<u64, u64>,
    /// The queue of each consumer.
    links: BTreeMap<u64, &'static str>,
    held: BTreeMap<(u64, Position), u64>,
}

/// One run.
pub(crate) struct LogQueues {
    pub(crate) harness: Harness,
    peers: BTreeMap<usize, Peer>,
    /// The queue of the consumer that is in the making.
    consuming: Option<&'static str>,
    ledger: Ledger,
    /// The disk operation that is planned to fail.
    fault_at: Option<u64>,
    n_links: u64,
}

impl LogQueues {
    pub(crate) fn new(seed: u64, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let stream_durability =
            random.choose(&[StreamDurability::Fsync, StreamDurability::Write]).unwrap_or_default();
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: log::Durability::Sync,
            allowance_bytes: random.choose(&[0, 500, 4 << 20]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::TicksFrom(BEGINS_MS),
            stream_durability,
        };
        let ledger = Ledger::new(&mut random, BEGINS_MS);
        Self {
            harness: Harness::new(random, options, echo),
            peers: BTreeMap::new(),
            consuming: None,
            ledger,
            fault_at: None,
            n_links: 0,
        }
    }

    /// Whether the life is over: the disk has failed.
    fn is_over(&self) -> bool {
        let (disk, operations) = (&self.harness.disk, self.harness.disk.operations());
        // Also by a loss of power that was planned for the start.
        let has_failed = self.harness.has_failed() || disk.has_lost_power();
        has_failed || self.fault_at.is_some_and(|at| operations > at)
    }

    /// One random thing happens.
    fn act(&mut self) {
        match self.harness.random.below(100) {
            0..15 => self.step(),
            15..20 => self.pass_time(),
            20..26 => self.connect(),
            26..29 => self.leave(),
            29..35 => self.read(),
            35..65 => self.publish(),
            65..85 => self.settle(),
            85..97 => self.consume(),
            _ => self.dry(),
        }
    }

    fn step(&mut self) {
        if self.harness.random.percent(30) {
            let stepped =
                self.harness.node.as_ref().is_some_and(|node| node.steppers.streams.step());
            self.harness.note(format!("streams: {stepped}"));
        } else {
            self.harness.step_part();
        }
        self.take_in();
    }

    fn pass_time(&mut self) {
        self.ledger.now_ms += self.harness.random.choose(PASSING_MS).unwrap_or(1);
        self.harness.tick(self.ledger.now_ms);
        self.take_in();
    }

    fn connect(&mut self) {
        if self.peers.len() >= PEERS_MAX {
            return;
        }
        let Connected { client, recorder, session, .. } = self.harness.connect();
        self.harness.note(format!("client {client} connects"));
        let (unconfirmed, links, held) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let peer = Peer { session, recorder, n_published: 0, unconfirmed, links, held };
        self.peers.insert(client, peer);
        self.control(client, Op::OpenChannel);
        self.control(client, Op::EnableConfirms);
    }

    fn control(&mut self, peer: usize, op: Op) {
        self.harness.note(format!("client {peer}: {op:?}"));
        self.submit(peer, Read { input: Vec::new(), requests: vec![control(1, op)] });
    }

    fn submit(&mut self, peer: usize, read: Read) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let said = self.harness.say(&mut state.session, &read.input, read.requests);
        self.take_in();
        if !self.is_over() {
            said.check();
        }
    }

    fn some_peer(&mut self) -> Option<usize> {
        self.harness.random.choose_key(&self.peers)
    }

    fn leave(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        self.dry();
        let Some(state) = self.peers.remove(&peer) else { return };
        self.harness.note(format!("client {peer} is lost"));
        let is_closed = self.harness.close(state.session);
        self.take_in();
        if !is_closed && !self.is_over() {
            fail("a client cannot leave");
        }
    }

    fn read(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        self.read_of(peer);
    }

    /// A client reads what it was sent.
    fn read_of(&mut self, peer: usize) {
        let Some(state) = self.peers.get(&peer) else { return };
        let links = state.recorder.read_all();
        state.session.resume(&links);
        self.take_in();
    }

    fn publish(&mut self) {
        let Some(peer) = self.some_peer() else { return self.connect() };
        let mut read = Read::default();
        for _ in 0..=self.harness.random.below(PUBLISHES_MAX) {
            let queue = self.ledger.some_queue(&mut self.harness.random);
            let bytes = self.harness.random.choose(&[0, 20, 300, 3_000]).unwrap_or(0);
            let id = self.ledger.publish(queue, bytes);
            let content = Content {
                exchange: Vec::new(),
                key: queue.into(),
                properties: message::Properties::default().to_bytes(),
                body: Content::numbered_body(id, bytes),
                persistent: self.harness.random.percent(50),
            };
            read.publish(1, &content);
            if let Some(state) = self.peers.get_mut(&peer) {
                state.n_published += 1;
                state.unconfirmed.insert(state.n_published, id);
            }
            self.harness.note(format!("client {peer} publishes m{id}>{queue}"));
        }
        self.submit(peer, read);
    }

    fn settle(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let n = self.harness.random.below(state.held.len() + 1);
        let outcomes = [Outcome::Accepted, Outcome::Accepted, Outcome::Accepted, Outcome::Released];
        let outcome = self.harness.random.choose(&outcomes).unwrap_or(Outcome::Accepted);
        let mut read = Read::default();
        for ((link, position), id) in state.held.extract_if(.., |_, _| true).take(n) {
            state.recorder.forget(link, position);
            let queue = state.links.get(&link).copied().unwrap_or_default();
            self.ledger.settle(id, queue, outcome);
            read.requests.push(Request::Settle(settle(1, (link, position), outcome)));
        }
        self.harness.note(format!("client {peer} settles {n}, {outcome:?}"));
        self.submit(peer, read);
    }

    fn consume(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let queue = self.ledger.some_queue(&mut self.harness.random);
        let prefetch_count = self.harness.random.choose(PREFETCHES).unwrap_or(1);
        self.control(peer, Op::SetPrefetch { prefetch_count, global: false });
        let first = self.harness.random.percent(70);
        self.consume_of(peer, queue, first);
    }

    fn consume_of(&mut self, peer: usize, queue: &'static str, first: bool) {
        let mut arguments = Table::default();
        if first && self.ledger.kind(queue).is_stream() {
            arguments.push(short("x-stream-offset"), "first");
        }
        self.n_links += 1;
        self.consuming = Some(queue);
        let consumer_tag = short(&format!("c{}", self.n_links));
        let (queue, no_ack, exclusive) = (short(queue), false, false);
        let attachment = Attachment { queue, consumer_tag, no_ack, exclusive, arguments };
        self.control(peer, Op::Attach(attachment));
    }

    /// Declares what is not there.
    fn declare_missing(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        for (queue, kind) in self.ledger.queues() {
            if self.is_over() || self.harness.queue(queue).is_some() {
                continue;
            }
            if self.ledger.is_declared(queue) {
                fail(format!("{queue} is lost"));
            }
            self.control(peer, declaration(queue, kind));
            if !self.is_over() {
                self.ledger.declared(queue);
            }
        }
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.is_over() {
                return;
            }
            let stepped = self.harness.node.as_mut().is_some_and(Node::step);
            self.take_in();
            if !stepped {
                let waiting =
                    self.peers.values().find_map(|peer| peer.unconfirmed.first_key_value());
                if let Some((_, id)) = waiting.filter(|_| !self.is_over()) {
                    fail(format!("m{id} is not confirmed"));
                }
                return;
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Takes in what clients were told since the last time.
    fn take_in(&mut self) {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        for (peer, what) in heard {
            self.harness.note(format!("  {peer}: {what}"));
            self.hear(peer, what);
        }
    }

    fn hear(&mut self, peer: usize, what: What) {
        let is_over = self.is_over();
        let Some(state) = self.peers.get_mut(&peer) else { return };
        match what {
            What::Deliver { given, .. } => {
                let Some(queue) = state.links.get(&given.link) else { fail("an unknown link") };
                let id = expect_ok(self.ledger.take_given(queue, (peer, given.link), &given));
                state.held.insert((given.link, given.position), id);
            }
            What::Consuming { link, .. } => {
                let Some(queue) = self.consuming.take() else { fail("consuming without asking") };
                state.links.insert(link, queue);
            }
            What::Confirm { first, last, ack, .. } => {
                for number in first..=last {
                    let id = state.unconfirmed.remove(&number);
                    let Some(id) = id.filter(|_| ack) else { fail(format!("{number}: {ack}")) };
                    self.ledger.confirm(id);
                }
            }
            What::ChannelFailed { text, .. } | What::ConnectionFailed { text, .. } if !is_over => {
                fail(format!("a client is refused: {text}"));
            }
            What::ConsumerCancelled { tag, .. } if !is_over => fail(format!("{tag} is lost")),
            What::Got { .. }
            | What::GetEmpty
            | What::Cancelled { .. }
            | What::ConsumerCancelled { .. }
            | What::Done
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::Returned(..)
            | What::ChannelOpened
            | What::ChannelClosed(_)
            | What::ChannelFailed { .. }
            | What::ConnectionClosed
            | What::ConnectionFailed { .. }
            | What::Blocked(_)
            | What::Unblocked
            | What::Stream(_) => {}
        }
    }
}

fn declaration(queue: &str, kind: Kind) -> Op {
    let mut arguments = Arguments::default();
    match kind {
        Kind::Quorum => arguments.text("x-queue-type", Some("quorum")),
        Kind::Stream { max_bytes, max_age_days } => {
            arguments.text("x-queue-type", Some("stream"));
            arguments.number("x-stream-max-segment-size-bytes", Some(ledger::SEGMENT_BYTES));
            arguments.number("x-max-length-bytes", max_bytes);
            let max_age = max_age_days.map(|days| format!("{days}D"));
            arguments.text("x-max-age", max_age.as_deref());
        }
    }
    arguments.declare(queue, true)
}
