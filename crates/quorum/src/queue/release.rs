//! The consumers of one channel at one queue, whose messages come back together.

use super::QuorumQueue;
use super::consumer::Consumer;
use super::turn::Turn;
use queue::Return;
use queue::machine::{Command, Outcome};
use queue_type::AfterDetach;
use std::collections::HashSet;
use std::sync::Arc;

/// The consumers of one channel at one queue.
#[derive(Debug)]
pub struct Release {
    queue: Arc<QuorumQueue>,
    /// With the numbers of deliveries that each keeps.
    consumers: Vec<(u64, HashSet<u64>)>,
    /// Retired consumers that still hold something.
    holding: Vec<(u64, HashSet<u64>)>,
}

impl Release {
    /// The release of these consumers, all of one queue, with the deliveries that each keeps; `None` without
    /// any.
    #[must_use]
    pub fn of<'c>(
        consumers: impl Iterator<Item = (&'c Arc<Consumer>, HashSet<u64>)>,
    ) -> Option<Self> {
        let mut consumers = consumers.peekable();
        let queue = Arc::clone(&consumers.peek()?.0.queue);
        let consumers = consumers.map(|(consumer, kept)| (consumer.id, kept)).collect();
        Some(Self { queue, consumers, holding: Vec::new() })
    }

    /// Number of consumers that are released.
    pub const fn n_consumers(&self) -> usize {
        self.consumers.len()
    }

    /// Ends the deliveries of the last `n` consumers, and takes those of them away for good that hold
    /// nothing. `None` when all were retired: those are left then that hold something.
    pub fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        let last = self.consumers.split_off(self.consumers.len().saturating_sub(n));
        if last.is_empty() {
            self.consumers = std::mem::take(&mut self.holding);
            return None;
        }
        self.queue.with(|turn| {
            turn.stop_feeding(last.iter().map(|(consumer, _)| *consumer));
            for (consumer, kept) in last {
                if !turn.detach_idle(consumer) {
                    self.holding.push((consumer, kept));
                }
            }
        });
        Some(AfterDetach::Stays)
    }

    /// Requeues the messages that the consumers hold, but for those each keeps; the consumers stay attached.
    pub fn requeue_all(self) {
        self.queue.with(|turn| {
            for (consumer, kept) in &self.consumers {
                if let Some(feed) = turn.state.members.feed_mut(*consumer) {
                    feed.waiting.clear();
                }
                let held = turn.state.machine.facts().held(*consumer).map(|(number, _)| number);
                let back: Vec<u64> = held.filter(|number| !kept.contains(number)).collect();
                turn.settle(*consumer, Outcome::Returned(Return::Released), back.into_iter());
            }
        });
    }

    /// Detaches the consumers and requeues the messages they hold, before anybody else gets any of these.
    /// What was sent comes back as `how` says.
    #[must_use]
    pub fn detach(self, how: Return) -> AfterDetach {
        self.queue.with(|turn| {
            let consumers = self.consumers.iter().map(|(consumer, _)| *consumer);
            let leaving: Vec<_> = consumers.map(|it| (it, take_unsent(turn, it, how))).collect();
            // The consumers keep their places, so that nobody takes anything before all is back, and are
            // given one message at most.
            for (consumer, _) in &leaving {
                turn.apply(&Command::Prefetch { consumer: *consumer, prefetch: 1 });
            }
            for (consumer, (unsent, _)) in &leaving {
                let back = Outcome::Returned(Return::Released);
                turn.settle(*consumer, back, unsent.iter().copied());
            }
            for (consumer, (_, how)) in leaving {
                turn.detach(consumer, how);
            }
        });
        AfterDetach::Stays
    }
}

impl Turn<'_> {
    /// Detaches a consumer that gets nothing any more, if it holds no messages; true if that was done.
    pub(crate) fn detach_idle(&mut self, consumer: u64) -> bool {
        let is_idle = self.state.machine.facts().held(consumer).next().is_none();
        if is_idle {
            self.detach(consumer, Return::Released);
        }
        is_idle
    }

    /// Detaches a consumer.
    fn detach(&mut self, consumer: u64, how: Return) {
        self.state.members.remove(consumer);
        self.apply(&Command::Detach { consumer, how });
    }
}

/// Gives a consumer that leaves nothing more. Returns what it was not sent, and how the rest of what it holds
/// goes back: what nobody was sent has not failed.
fn take_unsent(turn: &mut Turn<'_>, consumer: u64, how: Return) -> (Vec<u64>, Return) {
    let Some(feed) = turn.state.members.take_feed(consumer) else {
        return (Vec::new(), how);
    };
    let n_held = turn.state.machine.facts().held(consumer).count();
    let how = if n_held > feed.waiting.len() { how } else { Return::Released };
    (feed.waiting.iter().map(|assigned| assigned.number).collect(), how)
}
