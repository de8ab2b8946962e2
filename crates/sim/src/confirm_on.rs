//! Queues that confirm a publish once a consumer has had it (`x-confirm-on`), among others that do not:
//! random work with policies that change, consumers and publishers that go, and crashes of the node.
//!
//! The clients' acknowledgements are written down as they are made; what a publisher is told is held
//! against them ([`ledger`]), and against what clients are given later.

mod ledger;
mod restarts;
mod settle;
mod spec;
mod tx_and_alarms;
mod work;

use crate::harness::{Harness, expect_ok, fail};
use crate::node::{Node, NodeOptions, journal_operations_max};
use broker::{Clock, Session, StreamDurability};
use ledger::{Copy, Ledger};
use meta::QueueVersion;
use session::{ChannelId, ErrorKind, Outcome, Position, Request};
use std::collections::BTreeMap;
use std::sync::Arc;
use testing::Random;
use testing::outbox::{Given, Recorder, What};

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;

/// The features of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Usual,
    /// Limits in bytes, transactions and alarms beside.
    TxAndAlarms,
    /// Publishes wait no longer than an operator policy says, which changes.
    Timeouts,
}

impl Kind {
    pub(crate) const fn of(seed: u64) -> Self {
        match seed % 16 {
            7 | 15 => Self::TxAndAlarms,
            11 => Self::Timeouts,
            _ => Self::Usual,
        }
    }
}

/// A consumer, or the gets of a channel from one queue.
struct Link {
    queue: &'static str,
    channel: u16,
    tag: String,
    is_consumer: bool,
    no_ack: bool,
    prefetch: usize,
}

/// A channel.
#[derive(Default)]
struct Channel {
    /// Numbers its publishes have; `None` if they are not confirmed.
    n_published: Option<u64>,
    /// By number of the publish: its message.
    unconfirmed: BTreeMap<u64, u64>,
    /// Whether the channel is ending: others may be given the messages it holds.
    is_closing: bool,
    is_transactional: bool,
}

/// A publish that was made: the number of its message, and the queue it goes to if it is only one.
type Published = (u64, Option<&'static str>);

/// A connection.
struct Peer {
    /// None while it is being closed.
    session: Option<Session>,
    recorder: Arc<Recorder>,
    channels: BTreeMap<u16, Channel>,
    links: BTreeMap<u64, Link>,
    held: BTreeMap<(u64, Position), Copy>,
    /// Not yet written to it, in the order of delivery; settled by that.
    unwritten: Vec<(u64, Position, Copy)>,
    /// Publishes an alarm holds, and on which channel.
    kept: Option<(u16, Vec<Published>)>,
}

impl Peer {
    /// The messages the client has and has not settled.
    fn copies(&self) -> impl Iterator<Item = Copy> + '_ {
        self.held.values().copied().chain(self.unwritten.iter().map(|(_, _, copy)| *copy))
    }
}

/// A client's request whose answer must be known.
#[derive(Clone, Debug)]
enum Asking {
    Consume { queue: &'static str, channel: u16, prefetch: usize },
    Get { queue: &'static str, channel: u16 },
}

/// A client's settlement, as long as it may be refused.
struct Saying {
    peer: usize,
    channel: u16,
    copies: Vec<Copy>,
    outcome: Outcome,
}

/// One run.
pub(crate) struct ConfirmOn {
    pub(crate) harness: Harness,
    peers: BTreeMap<usize, Peer>,
    asking: Option<Asking>,
    saying: Option<Saying>,
    /// The client and channel that are expected to fail, and the error.
    failing: Option<(usize, u16, ErrorKind)>,
    ledger: Ledger,
    now_ms: u64,
    kind: Kind,
    has_alarm: bool,
    /// Whether it is the disk's: dead letters wait for its end, and with them their confirms.
    is_disk_short: bool,
    n_links: u64,
    n_got: u64,
}

impl ConfirmOn {
    pub(crate) fn new(seed: u64, kind: Kind, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: log::Durability::Sync,
            allowance_bytes: random.choose(&[0, 500, 4_000, 4 << 20]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000, 2_000, 1 << 20]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            stream_durability: StreamDurability::Write,
        };
        let specs =
            spec::specs(&mut random, kind).into_iter().map(|spec| (spec.name, spec)).collect();
        let ledger = Ledger::new(specs, BEGINS_MS);
        Self {
            harness: Harness::new(random, options, echo),
            peers: BTreeMap::new(),
            asking: None,
            saying: None,
            failing: None,
            ledger,
            now_ms: BEGINS_MS,
            kind,
            has_alarm: false,
            is_disk_short: false,
            n_links: 0,
            n_got: 0,
        }
    }

    fn names(&self) -> Vec<&'static str> {
        self.ledger.specs.keys().copied().collect()
    }

    /// Queues that are there.
    fn queues(&self) -> Vec<&'static str> {
        self.names().into_iter().filter(|queue| self.harness.queue(queue).is_some()).collect()
    }

    fn peer(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(&peer).expect("the client is connected")
    }

    /// A client says something, and has its answers.
    fn submit(&mut self, peer: usize, input: &[u8], requests: Vec<Request>) {
        let session = self.peers.get_mut(&peer).and_then(|state| state.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.say(session, input, requests);
        session.wake();
        self.check_events();
        if self.harness.has_failed() {
            return;
        }
        said.check();
        if self.asking.take().is_some() {
            fail("a question has no answer");
        }
        if let Some((_, channel, kind)) = self.failing.take() {
            fail(format!("channel {channel} should have failed, {kind:?}"));
        }
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.harness.has_failed() {
                return;
            }
            self.note_modes();
            let stepped = self.harness.node.as_mut().is_some_and(Node::step);
            self.check_events();
            if !stepped {
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Checks the invariants of a node that has nothing left to do by itself.
    fn check_dry(&self) {
        if self.harness.has_failed() {
            return;
        }
        let channels = self.peers.values().flat_map(|peer| peer.channels.values());
        let waiting: Vec<u64> =
            channels.flat_map(|channel| channel.unconfirmed.values().copied()).collect();
        let overdue = waiting.iter().find(|id| self.ledger.must_be_answered(**id));
        if let Some(id) = overdue.filter(|_| !self.is_disk_short) {
            fail(format!("m{id} is not answered"));
        }
        let queues = self.queues().into_iter().filter_map(|name| self.harness.queue(name));
        let n_pending: u64 = queues.map(|queue| queue.pending_confirms().n).sum();
        if n_pending < waiting.len() as u64 {
            fail(format!("{} wait, and {n_pending} in queues", waiting.len()));
        }
        for peer in self.peers.values() {
            let Some(session) = &peer.session else { continue };
            for (number, channel) in &peer.channels {
                let (n, wanted) = (
                    session.connection().n_unconfirmed(ChannelId(*number)),
                    channel.unconfirmed.len() as u64,
                );
                if n != wanted {
                    fail(format!("{wanted} publishes wait, listed are {n}"));
                }
            }
        }
    }

    fn n_consumers(&self, queue: &str) -> usize {
        let links = self.peers.values().flat_map(|peer| peer.links.values());
        links.filter(|link| link.is_consumer && link.queue == queue).count()
    }

    /// Checks the invariants between two operations.
    fn check(&mut self) {
        if self.harness.has_failed() {
            return;
        }
        self.note_modes();
        for name in self.queues() {
            let Some(queue) = self.harness.queue(name) else { continue };
            let pending = queue.pending_confirms();
            let stat = queue.stat();
            let n_there = stat.n_ready + stat.n_unacked + stat.n_departing;
            if pending.n > n_there {
                fail(format!("{} wait for {n_there} messages of {name}", pending.n));
            }
            let spec = self.ledger.spec(name);
            let is_over = |limit: Option<u64>, n| limit.is_some_and(|limit| n > limit);
            if is_over(spec.max_pending, pending.n)
                || is_over(spec.max_pending_bytes, pending.bytes)
            {
                fail(format!("{} wait for messages of {name}", pending.n));
            }
            if pending.n != stat.n_pending_confirms {
                fail(format!("{name} is listed with other confirms than it has"));
            }
        }
    }

    /// Notes the confirm mode of each queue.
    fn note_modes(&mut self) {
        for name in self.names() {
            let is_late =
                self.harness.queue(name).map(|queue| queue.confirm_on().waits_for_consumers());
            let life = &mut self.ledger.life;
            match is_late {
                None => drop(life.ever_missing.insert(name)),
                Some(true) => drop(life.ever_late.insert(name)),
                Some(false) => drop(life.ever_plain.insert(name)),
            }
        }
    }

    /// Takes in what clients were told since the last time.
    fn check_events(&mut self) {
        self.note_modes();
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        if let Some(saying) = self.saying.take() {
            let is_refused = heard.iter().any(|(peer, what)| {
                let is_it = |channel: u16| (*peer, channel) == (saying.peer, saying.channel);
                matches!(what, What::ChannelFailed { channel, .. } if is_it(*channel))
            });
            self.take_saying(saying, is_refused);
        }
        for (peer, what) in heard {
            self.harness.note(format!("  {peer}: {what}"));
            if self.peers.contains_key(&peer) {
                self.take_in(peer, what);
            }
        }
    }

    fn take_saying(&mut self, saying: Saying, is_refused: bool) {
        let Saying { peer, channel, copies, outcome } = saying;
        if is_refused && !copies.iter().all(|copy| self.ledger.always_records(copy.queue)) {
            self.failing = Some((peer, channel, ErrorKind::NotImplementedByMode));
            self.release(peer, channel);
        } else if outcome == Outcome::Rejected {
            self.ledger.life.rejected.extend(copies);
        }
    }

    fn take_in(&mut self, peer: usize, what: What) {
        match what {
            What::Deliver { given, .. } => self.take_given(peer, &given),
            What::Got { given, no_ack, .. } => self.take_got(peer, &given, no_ack),
            What::Consuming { link, tag, no_ack } => {
                let Some(Asking::Consume { queue, channel, prefetch }) = self.asking.take() else {
                    fail("consuming without asking")
                };
                let link_of = Link { queue, channel, tag, is_consumer: true, no_ack, prefetch };
                self.peer(peer).links.insert(link, link_of);
            }
            What::GetEmpty => drop(self.asking.take()),
            What::Cancelled { tag, .. } | What::ConsumerCancelled { tag, .. } => {
                let mut links = self.peer(peer).links.values_mut();
                let found = links.find(|link| link.is_consumer && link.tag == tag);
                if let Some(link) = found {
                    link.is_consumer = false;
                }
            }
            What::Confirm { channel, first, last, ack } => {
                self.take_confirm((peer, channel), first..=last, ack);
            }
            What::ChannelFailed { channel, kind, text } => {
                let is_expected = self.failing.take() == Some((peer, channel, kind));
                if !is_expected && !self.harness.has_failed() {
                    fail(format!("a client is refused: {text}"));
                }
                self.end_channel(peer, channel);
            }
            What::ConnectionFailed { text, .. } => {
                if !self.harness.has_failed() {
                    fail(format!("a client is refused: {text}"));
                }
            }
            What::ChannelClosed(channel) => self.end_channel(peer, channel),
            What::Returned(..)
            | What::Done
            | What::Stream(_)
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::ChannelOpened
            | What::ConnectionClosed
            | What::Blocked(_)
            | What::Unblocked => {}
        }
    }

    fn take_got(&mut self, peer: usize, given: &Given, no_ack: bool) {
        let Some(Asking::Get { queue, channel }) = self.asking.take() else {
            fail("got without asking")
        };
        self.n_got += 1;
        let tag = String::new();
        let link = Link { queue, channel, tag, is_consumer: false, no_ack, prefetch: 0 };
        self.peer(peer).links.entry(given.link).or_insert(link).no_ack = no_ack;
        self.take_given(peer, given);
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(Link { queue, channel, is_consumer, no_ack, prefetch, .. }) =
            self.peer(peer).links.get(&given.link)
        else {
            fail("a delivery on an unknown link")
        };
        let (queue, channel, no_ack) = (*queue, *channel, *no_ack);
        let prefetch = Some(*prefetch).filter(|limit| *is_consumer && !no_ack && *limit > 0);
        let copy = expect_ok(self.ledger.copy_of(queue, given));
        if !self.harness.has_failed() {
            expect_ok(self.ledger.check_given(copy, given));
            self.check_free(copy);
            self.check_by_write(queue, given, no_ack);
        }
        self.ledger.life.delivered.insert(copy);
        let is_closing = self.peer(peer).channels.get(&channel).is_none_or(|it| it.is_closing);
        let state = self.peer(peer);
        match (no_ack, given.by_write) {
            (true, false) => drop(self.ledger.life.accepted.insert(copy)),
            _ if is_closing => {}
            (true, true) => state.unwritten.push((given.link, given.position, copy)),
            (false, _) => {
                state.held.insert((given.link, given.position), copy);
                let of_link = state.held.keys().filter(|(link, _)| *link == given.link).count();
                if prefetch.is_some_and(|limit| of_link > limit) {
                    fail(format!("link {} holds {of_link}, over its limit", given.link));
                }
            }
        }
    }

    /// Checks that no other client holds the message.
    fn check_free(&self, copy: Copy) {
        let mut held = self.peers.values().flat_map(Peer::copies);
        if !copy.is_letter && held.any(|held| held == copy) {
            fail(format!("m{} of {} is given twice", copy.id, copy.queue));
        }
    }

    fn check_by_write(&self, queue: &str, given: &Given, no_ack: bool) {
        let life = &self.ledger.life;
        let must = no_ack && !life.ever_plain.contains(queue);
        let may = no_ack && life.ever_late.contains(queue);
        if (must && !given.by_write) || (given.by_write && !may) {
            fail(format!("a message of {queue} is settled by its write: {}", given.by_write));
        }
    }

    fn take_confirm(
        &mut self,
        (peer, channel): (usize, u16),
        numbers: std::ops::RangeInclusive<u64>,
        ack: bool,
    ) {
        for number in numbers {
            let channel = self.peer(peer).channels.get_mut(&channel);
            let Some(id) = channel.and_then(|channel| channel.unconfirmed.remove(&number)) else {
                fail(format!("{number} is answered twice, or was not asked"));
            };
            expect_ok(self.ledger.check_answer(id, ack));
            if let Some(sent) = self.ledger.sent.get_mut(&id) {
                sent.answer = Some(ack);
            }
            self.check_nobody_holds(id, ack);
        }
    }

    /// Checks that no client holds a confirmed message of a queue that confirms on consumption.
    fn check_nobody_holds(&self, id: u64, ack: bool) {
        let Some(sent) = self.ledger.sent.get(&id).filter(|_| ack) else { return };
        for (queue, is_late) in &sent.queues {
            if *is_late && !self.harness.has_failed() {
                self.check_free(Copy::first(id, queue));
            }
        }
    }

    /// A channel ends: what it holds may be given to others from now on.
    fn release(&mut self, peer: usize, channel: u16) {
        let Peer { links, held, unwritten, channels, .. } = self.peer(peer);
        let is_of = |link: &u64| links.get(link).is_some_and(|link| link.channel == channel);
        held.retain(|(link, _), _| !is_of(link));
        unwritten.retain(|(link, ..)| !is_of(link));
        if let Some(channel) = channels.get_mut(&channel) {
            channel.is_closing = true;
        }
    }

    /// A channel has ended.
    fn end_channel(&mut self, peer: usize, channel: u16) {
        let peer = self.peer(peer);
        peer.channels.remove(&channel);
        peer.links.retain(|_, link| link.channel != channel);
    }
}
