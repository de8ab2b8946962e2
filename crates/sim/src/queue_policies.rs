//! Queues from which time, limits and returns take messages: random work and time with
//! crashes in the middle.
//!
//! The model of `plain_queues.rs` follows every message. Here nobody says when a rule acts, so each message
//! is asked at the end, and after each start, where it is: in its queue, where its dead letters go, or
//! gone by a rule that allows it ([`ledger`]). What clients are given meanwhile is held against the
//! rules one by one.

mod ledger;
mod restarts;
mod spec;
mod work;

use crate::harness::{Harness, expect_ok, fail};
use crate::node::{Node, NodeOptions, journal_operations_max, some_durability};
use crate::seen::Seen;
use broker::{Clock, Session, StreamDurability};
use ledger::{Ledger, Violation};
use meta::QueueVersion;
use session::{Position, Request};
use spec::{QUEUES, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testing::Random;
use testing::outbox::{Given, Recorder, What};

/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;

/// A consumer, or the gets of a channel from one queue.
struct Link {
    queue: &'static str,
    tag: String,
    is_consumer: bool,
    no_ack: bool,
    /// Consumers of a queue have come in this order.
    number: u64,
    /// By priority: the newest message it was the first to get.
    newest: BTreeMap<u8, u64>,
}

/// A connection with one channel.
struct Peer {
    /// None while it is being closed.
    session: Option<Session>,
    recorder: Arc<Recorder>,
    n_published: u64,
    /// By number of the publish: its message.
    unconfirmed: BTreeMap<u64, u64>,
    links: BTreeMap<u64, Link>,
    held: BTreeMap<(u64, Position), (u64, &'static str)>,
    prefetch: usize,
}

/// A client's request whose answer must be known.
#[derive(Clone, Debug)]
enum Asking {
    Consume { queue: &'static str, tag: String, no_ack: bool },
    Get { queue: &'static str, no_ack: bool },
}

/// One run.
pub(crate) struct QueuePolicies {
    pub(crate) harness: Harness,
    peers: BTreeMap<usize, Peer>,
    asking: Option<Asking>,
    ledger: Ledger,
    n_links: u64,
    n_got: u64,
    /// Queues that are in use were used then, at least.
    used_ms: BTreeMap<&'static str, u64>,
    /// Everything was done that the clock asks for.
    is_dry: bool,
    has_restarted: bool,
    /// Messages as they were given out since the start, by how often they had died.
    delivered: BTreeSet<(u64, &'static str, u64)>,
    /// Queues that were published to since the start: their limits hold.
    enforced: BTreeSet<&'static str>,
    /// Queues that messages came back to.
    returned_to: BTreeSet<&'static str>,
}

impl QueuePolicies {
    pub(crate) fn new(seed: u64, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: some_durability(&mut random),
            allowance_bytes: random.choose(&[0, 500, 4_000, 4 << 20]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000, 1 << 20]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            stream_durability: StreamDurability::Write,
        };
        let n_queues = 2 + random.below(QUEUES.len() - 1);
        let names = QUEUES.iter().take(n_queues);
        let specs = names.map(|name| (*name, Spec::new(&mut random, name))).collect();
        Self {
            harness: Harness::new(random, options, echo),
            peers: BTreeMap::new(),
            asking: None,
            ledger: Ledger { specs, now_ms: 1_000_000, ..Ledger::default() },
            n_links: 0,
            n_got: 0,
            used_ms: BTreeMap::new(),
            is_dry: false,
            has_restarted: false,
            delivered: BTreeSet::new(),
            enforced: BTreeSet::new(),
            returned_to: BTreeSet::new(),
        }
    }

    fn is_there(&self, queue: &str) -> bool {
        self.harness.queue(queue).is_some()
    }

    /// Queues that are there.
    fn queues(&self) -> Vec<&'static str> {
        self.ledger.specs.keys().copied().filter(|queue| self.is_there(queue)).collect()
    }

    fn peer(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(&peer).expect("the client is connected")
    }

    /// A client says something, and has its answers.
    fn submit(&mut self, peer: usize, input: &[u8], requests: Vec<Request>) {
        let session = self.peers.get_mut(&peer).and_then(|state| state.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.say(session, input, requests);
        self.check_events();
        if self.harness.has_failed() {
            return;
        }
        said.check();
        if self.asking.take().is_some() {
            fail("a question has no answer");
        }
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            if self.harness.has_failed() {
                return;
            }
            let stepped = self.harness.node.as_mut().is_some_and(Node::step);
            self.check_events();
            if !stepped {
                self.is_dry = true;
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    fn check_dry(&self) {
        if self.harness.has_failed() {
            return;
        }
        let waiting = self.peers.values().find_map(|peer| peer.unconfirmed.first_key_value());
        if let Some((_, id)) = waiting {
            fail(format!("m{id} is not confirmed"));
        }
        for (queue, spec) in &self.ledger.specs {
            let Some(expires_ms) = spec.expires_ms.filter(|_| self.n_consumers(queue) == 0) else {
                continue;
            };
            let used_ms = self.used_ms.get(queue).copied().unwrap_or(0);
            if self.is_there(queue) && self.ledger.now_ms >= used_ms + expires_ms {
                fail(format!("{queue} is unused and still there"));
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
        let specs: Vec<Spec> = self.ledger.specs.values().cloned().collect();
        for spec in specs {
            if !self.is_there(spec.name) {
                self.note_missing(&spec);
                continue;
            }
            let Some(max) = spec.max_length.filter(|_| self.enforced.contains(spec.name)) else {
                continue;
            };
            // Nothing goes from a full one that refuses publishes, also when something comes back.
            if spec.may_refuse() && (self.has_restarted || self.returned_to.contains(spec.name)) {
                continue;
            }
            let view = self.harness.node.as_ref().map(|node| node.broker.view());
            let queue = view.and_then(|view| view.queue("/", spec.name));
            let n_ready = queue.map_or(0, |queue| queue.stat().n_ready);
            // Sizes of what is on disk only are found out before more goes.
            if n_ready > max && spec.max_bytes.is_none() {
                fail(format!("{} has {n_ready} messages", spec.name));
            }
        }
    }

    /// A queue is not there: it was not declared, or has not been used for too long.
    fn note_missing(&mut self, spec: &Spec) {
        let Some(used_ms) = self.used_ms.remove(spec.name) else { return };
        self.harness.note(format!("{} is gone", spec.name));
        if !self.is_unused(spec, used_ms) || self.n_consumers(spec.name) > 0 {
            fail(format!("{} is gone too early", spec.name));
        }
        self.ledger.ever_gone.insert(spec.name);
        self.enforced.remove(spec.name);
    }

    /// Whether a queue that was used then has not been used for too long.
    fn is_unused(&self, spec: &Spec, used_ms: u64) -> bool {
        spec.expires_ms.is_some_and(|expires_ms| self.ledger.now_ms >= used_ms + expires_ms)
    }

    /// Takes in what clients were told since the last time.
    fn check_events(&mut self) {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        for (peer, what) in heard {
            self.harness.note(format!("  {peer}: {what}"));
            if self.peers.contains_key(&peer) {
                self.take_in(peer, what);
            }
        }
    }

    fn take_in(&mut self, peer: usize, what: What) {
        match what {
            What::Deliver { given, .. } => self.take_given(peer, &given),
            What::Got { given, .. } => {
                let Some(Asking::Get { queue, no_ack }) = self.asking.take() else {
                    fail("got without asking")
                };
                let link = self.new_link(queue, "", no_ack);
                self.peer(peer).links.entry(given.link).or_insert(link).no_ack = no_ack;
                self.n_got += 1;
                self.take_given(peer, &given);
            }
            What::Consuming { link: number, tag, .. } => {
                let Some(Asking::Consume { queue, tag: wanted, no_ack }) = self.asking.take()
                else {
                    fail("consuming without asking")
                };
                assert_eq!(tag, wanted, "the tag is the client's");
                let link = Link { is_consumer: true, ..self.new_link(queue, &tag, no_ack) };
                self.peer(peer).links.insert(number, link);
            }
            What::GetEmpty => drop(self.asking.take()),
            What::Cancelled { tag, .. } => {
                let links = &mut self.peer(peer).links;
                let found = links.values_mut().find(|link| link.is_consumer && link.tag == tag);
                if let Some(link) = found {
                    link.is_consumer = false;
                    let queue = link.queue;
                    self.use_queue(queue);
                }
            }
            What::Confirm { first, last, ack, .. } => self.take_confirm(peer, first..=last, ack),
            What::ChannelFailed { text, .. } | What::ConnectionFailed { text, .. } => {
                if !self.harness.has_failed() {
                    fail(format!("a client is refused: {text}"));
                }
            }
            What::ConsumerCancelled { tag, .. } => fail(format!("{tag} is lost")),
            What::Returned(..)
            | What::Done
            | What::Stream(_)
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::ChannelOpened
            | What::ChannelClosed(_)
            | What::ConnectionClosed
            | What::Blocked(_)
            | What::Unblocked => {}
        }
    }

    fn new_link(&mut self, queue: &'static str, tag: &str, no_ack: bool) -> Link {
        self.n_links += 1;
        let (tag, newest) = (tag.to_owned(), BTreeMap::new());
        Link { queue, tag, is_consumer: false, no_ack, number: self.n_links, newest }
    }

    fn use_queue(&mut self, queue: &'static str) {
        self.used_ms.insert(queue, self.ledger.now_ms);
    }

    fn take_confirm(&mut self, peer: usize, numbers: std::ops::RangeInclusive<u64>, ack: bool) {
        for number in numbers {
            let Some(id) = self.peer(peer).unconfirmed.remove(&number) else {
                fail(format!("{number} is confirmed twice, or was never published"));
            };
            let Some(sent) = self.ledger.sent.get_mut(&id) else { continue };
            sent.answer = Some(ack);
            let queue = sent.queue;
            let may_refuse = self.ledger.specs.get(queue).is_some_and(Spec::may_refuse);
            if !ack && !may_refuse {
                fail(format!("m{id} is refused by {queue}"));
            }
        }
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(link) = self.peer(peer).links.get(&given.link) else {
            fail("a delivery on an unknown link")
        };
        let (queue, no_ack, is_consumer) = (link.queue, link.no_ack, link.is_consumer);
        let seen = expect_ok(Seen::of(given));
        if self.harness.has_failed() {
            // What a failed log leaves undone is not looked at.
            self.ledger.consumed.insert((seen.id, queue));
            return;
        }
        expect_ok(self.ledger.check_seen(queue, given, &seen));
        expect_ok(self.check_time(queue, &seen).and_then(|()| self.check_counts(queue, &seen)));
        if is_consumer {
            expect_ok(self.check_turn(peer, given.link, &seen));
        }
        self.delivered.insert((seen.id, queue, seen.n_deaths()));
        if no_ack {
            self.ledger.consumed.insert((seen.id, queue));
        } else {
            let peer = self.peer(peer);
            peer.held.insert((given.link, given.position), (seen.id, queue));
            let of_link = peer.held.keys().filter(|(link, _)| *link == given.link).count();
            if is_consumer && peer.prefetch > 0 && of_link > peer.prefetch {
                fail(format!("link {} holds {of_link}, over its limit", given.link));
            }
        }
    }

    /// Checks that no client gets an expired message once the clock's work is done.
    fn check_time(&self, queue: &str, seen: &Seen) -> Result<(), Violation> {
        let Some(sent) = self.ledger.sent.get(&seen.id).filter(|_| seen.deaths.is_empty()) else {
            return Ok(());
        };
        let now_ms = self.ledger.now_ms;
        let is_over = self.ledger.deadline_ms(sent).is_some_and(|deadline| deadline <= now_ms);
        if self.is_dry && is_over && sent.published_ms < now_ms {
            return Err(format!("m{} of {queue} is given out after its time", seen.id));
        }
        Ok(())
    }

    /// Checks the headers that count earlier deliveries.
    fn check_counts(&self, queue: &'static str, seen: &Seen) -> Result<(), Violation> {
        let id = seen.id;
        let spec = self.ledger.spec(queue)?;
        if let Some(limit) = spec.delivery_limit.filter(|limit| seen.n_failed > u64::from(*limit)) {
            return Err(format!("m{id} of {queue} has failed more than {limit} times"));
        }
        let is_single = self.ledger.is_single() && !self.has_restarted;
        let is_again = self.delivered.contains(&(id, queue, seen.n_deaths()));
        if is_single && seen.redelivered != is_again {
            return Err(format!("m{id} of {queue} is marked {}", seen.redelivered));
        }
        if is_single && self.ledger.consumed.contains(&(id, queue)) {
            let is_new = seen.deaths.iter().any(|death| death.queue == queue);
            if !is_new {
                return Err(format!("m{id} of {queue} was consumed before"));
            }
        }
        Ok(())
    }

    /// Consumers get messages in order, and of those of which one is active only that one does.
    fn check_turn(&mut self, peer: usize, link: u64, seen: &Seen) -> Result<(), Violation> {
        let Some(sent) = self.ledger.sent.get(&seen.id) else { return Ok(()) };
        // Those of a client that leaves go one after the other.
        let staying = || self.peers.values().filter(|peer| peer.session.is_some());
        let links = || staying().flat_map(|peer| peer.links.values());
        let Some(this) = self.peers.get(&peer).and_then(|peer| peer.links.get(&link)) else {
            return Ok(());
        };
        let spec = self.ledger.spec(this.queue)?;
        let is_first = |other: &Link| {
            !other.is_consumer || other.queue != this.queue || other.number >= this.number
        };
        if spec.is_single_active && !links().all(is_first) {
            return Err(format!("link {link} gets m{} and is not active", seen.id));
        }
        if seen.redelivered || !seen.deaths.is_empty() {
            return Ok(());
        }
        let priority = spec.priority(sent.priority);
        let newest = &mut self.peer(peer).links.get_mut(&link).ok_or("no link")?.newest;
        let before = newest.insert(priority, seen.id).unwrap_or(0);
        if before > seen.id {
            return Err(format!("m{} comes behind m{before}", seen.id));
        }
        Ok(())
    }
}
