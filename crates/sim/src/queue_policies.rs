//! Queues from which time, limits and returns take messages: random work and time with
//! crashes in the middle.
//!
//! The model of `plain_queues.rs` follows every message. Here nobody says when a rule acts, so each message
//! is asked at the end, and after each start, where it is: in its queue, where its dead letters go, or
//! gone by a rule that allows it ([`ledger`]). What clients are given meanwhile is held against the
//! rules one by one.

mod hear;
mod ledger;
mod restarts;
mod spec;
mod work;

use crate::harness::{Harness, fail};
use crate::node::{NodeOptions, journal_operations_max, some_durability};
use crate::seen::Seen;
use crate::world::{Crowd, Link, World};
use broker::{Clock, StreamDurability};
use ledger::{At, Ledger, Violation};
use meta::QueueVersion;
use spec::{QUEUES, Spec};
use std::collections::{BTreeMap, BTreeSet};
use testing::Random;

/// One run.
pub(crate) struct QueuePolicies {
    pub(crate) harness: Harness,
    crowd: Crowd<At>,
    ledger: Ledger,
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
            crowd: Crowd::default(),
            ledger: Ledger { specs, now_ms: 1_000_000, ..Ledger::default() },
            used_ms: BTreeMap::new(),
            is_dry: false,
            has_restarted: false,
            delivered: BTreeSet::new(),
            enforced: BTreeSet::new(),
            returned_to: BTreeSet::new(),
        }
    }

    /// Queues that are there.
    fn queues(&self) -> Vec<&'static str> {
        self.ledger.specs.keys().copied().filter(|queue| self.is_there(queue)).collect()
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
        if !self.is_unused(spec, used_ms) || self.crowd.n_consumers(spec.name) > 0 {
            fail(format!("{} is gone too early", spec.name));
        }
        self.ledger.ever_gone.insert(spec.name);
        self.enforced.remove(spec.name);
    }

    /// Whether a queue that was used then has not been used for too long.
    fn is_unused(&self, spec: &Spec, used_ms: u64) -> bool {
        spec.expires_ms.is_some_and(|expires_ms| self.ledger.now_ms >= used_ms + expires_ms)
    }

    fn use_queue(&mut self, queue: &'static str) {
        self.used_ms.insert(queue, self.ledger.now_ms);
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
        let staying = || self.crowd.peers.values().filter(|peer| peer.session.is_some());
        let links = || staying().flat_map(|peer| peer.links.values());
        let Some(this) = self.crowd.peers.get(&peer).and_then(|peer| peer.links.get(&link)) else {
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
