//! A quorum queue as operators see and steer it. Never the effects of its commands.

use crate::command_log::LogFigures;
use crate::queue::{QuorumQueue, n_taken_out};
use content::PagedQueue as _;
use message::{MessageRef, Properties};
use queue::Standing;
use queue::machine::{Command, Facts, Items, NumberRange, VERSION};
use queue_type::{Holder, Owner};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::task::Poll;
use stdx::UnixMs;
use store::backlog::Lookup;

/// Bytes of a body that are shown at most.
pub const BODY_START_BYTES: usize = 64;
/// Number of ready messages from which on none is peeked at: those before are passed under the queue's lock.
const PEEK_MAX: usize = 1 << 20;

/// A quorum queue as operators see and steer it.
#[derive(Clone, Copy, Debug)]
pub struct QuorumInspection<'q>(&'q QuorumQueue);

/// Figures of a quorum queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumFigures {
    /// Messages that were ever put in.
    pub n_put: u64,
    /// Ready messages that never came back, by priority, the highest first.
    pub n_ready_by_priority: Vec<(u8, u64)>,
    /// Messages that wait to be tried again.
    pub n_delayed: u64,
    /// Times until which the delayed messages wait, from the next to the last of them.
    pub delayed_span_ms: Option<RangeInclusive<UnixMs>>,
    /// Messages that are to be dead-lettered.
    pub n_departing: u64,
    /// The version that its commands and its state are written in.
    pub machine_version: u8,
}

/// A message that was peeked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// Exchange that the message was published to.
    pub exchange: String,
    /// Routing key that the message was published with.
    pub routing_key: String,
    /// Properties of the message, as its publisher set them.
    pub properties: Properties,
    /// First bytes of the body, at most [`BODY_START_BYTES`].
    pub body_start: Vec<u8>,
    /// Number of failed deliveries.
    pub n_failed: u32,
}

impl<'q> QuorumInspection<'q> {
    /// The queue as operators see and steer it.
    #[must_use]
    pub const fn of(queue: &'q QuorumQueue) -> Self {
        Self(queue)
    }

    /// Clears the mark that the queue was used, since its figures are about to be read.
    pub fn clear_used(&self) {
        self.0.counters.clear_used();
    }

    /// Figures as of now.
    #[must_use]
    pub fn figures(&self) -> QuorumFigures {
        self.facts(|facts| QuorumFigures {
            n_put: facts.next_position(),
            n_ready_by_priority: facts.n_ready_by_priority().collect(),
            n_delayed: facts.n_delayed(),
            delayed_span_ms: facts.delayed_span_ms(),
            n_departing: facts.n_departing(),
            machine_version: VERSION,
        })
    }

    /// Notes for how long each channel has held its oldest message, as of now in Unix milliseconds.
    pub fn note_held_ms(&self, now_ms: UnixMs, held_ms: &mut BTreeMap<Owner, u64>) {
        let state = stdx::lock(&self.0.state);
        for (id, owner) in state.members.owners() {
            if let Some((_, since_ms)) = state.machine.facts().held_since(id).next() {
                let oldest_ms = held_ms.entry(owner).or_default();
                *oldest_ms = now_ms.since(since_ms).max(*oldest_ms);
            }
        }
    }

    /// Whether nothing can be delivered before a page is read.
    #[must_use]
    pub fn waits_for_page(&self) -> bool {
        self.0.waits_for_page()
    }

    /// Figures of the queue's entries in the log, read without the queue's lock.
    #[must_use]
    pub fn log_figures(&self) -> LogFigures {
        let queue = self.0;
        queue.entries.figures(queue.context.wal().durable_upto())
    }

    fn facts<T>(&self, ask: impl FnOnce(Facts<'_>) -> T) -> T {
        ask(stdx::lock(&self.0.state).machine.facts())
    }

    /// Peeks at the ready message that would be given out as the `nth`, counted from 0, once it is in memory;
    /// none if fewer messages are ready.
    pub async fn peek(&self, nth: usize) -> Option<Peeked> {
        if nth >= PEEK_MAX {
            return None;
        }
        poll_fn(|context| {
            self.0.with(|turn| {
                let facts = turn.state.machine.facts();
                let next = facts.ready().nth(nth).filter(|_| !turn.state.is_deleted);
                let Some(at) = next else { return Poll::Ready(None) };
                match turn.state.content.backlog.get(at) {
                    Lookup::Here(message) => {
                        Poll::Ready(peeked(&message, facts.counts(at).n_failed))
                    }
                    Lookup::Gone => Poll::Ready(None),
                    Lookup::Cold => {
                        turn.state.members.peeked = Some(at);
                        turn.state.paging.wait(context.waker());
                        Poll::Pending
                    }
                }
            })
        })
        .await
    }

    /// Holders of the messages at these positions.
    #[must_use]
    pub fn holders(&self, positions: &BTreeSet<u64>) -> Vec<Holder> {
        let now_ms = self.0.context.time().unix_ms();
        let mut state = stdx::lock(&self.0.state);
        let state = &mut *state;
        let mut holders = Vec::new();
        let owners: Vec<_> = state.members.owners().collect();
        for (id, owner) in owners {
            let held = state.machine.facts().held_since(id);
            for (position, at_ms) in held.filter(|(position, _)| positions.contains(position)) {
                let feed = state.members.feed_mut(id);
                let consumer_tag = feed.map(|feed| feed.channel.consumer_tag.clone());
                let held_ms = now_ms.since(at_ms);
                holders.push(Holder { position, owner, consumer_tag, held_ms });
            }
        }
        holders
    }

    /// Drops the ready messages at these positions, which rise; returns how many. Positions of the others are
    /// `stayed`.
    #[must_use]
    pub fn remove(&self, positions: &[u64], stayed: &mut Vec<u64>) -> u64 {
        let ([first, ..], [.., last]) = (positions, positions) else { return 0 };
        let ranges: Vec<NumberRange> = positions.iter().copied().map(NumberRange::one).collect();
        let command = Command::Remove { request: 0, positions: Items::Slice(&ranges) };
        self.0.with(|turn| {
            let standings = turn.state.machine.facts().standings(&(*first..last + 1));
            let is_ready = |at: &&u64| standings.at(**at) == Standing::Ready;
            stayed.extend(positions.iter().filter(|at| !is_ready(at)));
            n_taken_out(turn, &command)
        })
    }

    /// Has messages at these positions, which rise, wait until `delay_ms` from now if they wait to be tried
    /// again; returns how many. The command is logged, and not yet durable.
    #[must_use]
    pub fn reschedule(&self, positions: &[u64], delay_ms: u64) -> u64 {
        let ([first, ..], [.., last]) = (positions, positions) else { return 0 };
        self.0.with(|turn| {
            let standings = turn.state.machine.facts().standings(&(*first..last + 1));
            let waits = |at: &u64| matches!(standings.at(*at), Standing::Delayed(_));
            let waiting = positions.iter().copied().filter(waits).map(NumberRange::one);
            let waiting: Vec<NumberRange> = waiting.collect();
            if !waiting.is_empty() {
                let until_ms = turn.now_ms.plus(delay_ms);
                turn.apply(&Command::Reschedule { until_ms, positions: Items::Slice(&waiting) });
            }
            waiting.len() as u64
        })
    }

    /// Writes the machine's state to the log, so that the commands before need not be kept.
    pub fn checkpoint(&self) {
        self.0.with(|turn| {
            if turn.state.machine.is_made() && !turn.state.is_deleted {
                let (queue, state) = (turn.queue, &mut *turn.state);
                state.log.write_form(&queue.context, state.machine.get(), &queue.entries);
            }
        });
    }
}

fn peeked(message: &MessageRef<'_>, n_failed: u32) -> Option<Peeked> {
    let mut converted = Vec::new();
    let message = conversion::to_amqp091(message, &mut converted);
    let body = message.body.bytes();
    Some(Peeked {
        exchange: String::from_utf8_lossy(message.exchange).into_owned(),
        routing_key: String::from_utf8_lossy(message.routing_key).into_owned(),
        properties: message.index().to_properties()?,
        body_start: body.get(..BODY_START_BYTES).unwrap_or(body).to_vec(),
        n_failed,
    })
}
