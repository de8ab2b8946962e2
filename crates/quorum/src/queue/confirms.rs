//! Publishers that wait until consumers have had their messages (`x-confirm-on`): the machine says when, by
//! the numbers of the messages; the publishers are known here. Never for how long they wait.

use super::QuorumQueue;
use confirm::Publisher;
use delivery::Answers;
use message::Refusal;
use meta::ConfirmOn;
use queue::machine::{Promise, Run};
use queue::{ConfirmWaiters, PositionRange};
use queue_type::{Confirm, DeadLetter, Incoming, PendingConfirms, TakenConfirm, Wakes};
use std::ops::Range;
use std::sync::Arc;
use stdx::MonotonicMs;

/// The publishers of a queue that wait for its consumers.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    by_number: ConfirmWaiters,
    /// Publishers whose messages depart, by the numbers of the letters.
    by_letter: ConfirmWaiters,
    answers: Answers,
}

impl Confirms {
    /// Lets the publishers of messages wait, the first of which has the number `first`.
    pub(crate) fn wait_for(&mut self, messages: &[Incoming<'_>], first: u64) {
        for (incoming, number) in messages.iter().zip(first..) {
            if let Some(confirm) = incoming.confirm {
                self.by_number.wait(
                    number,
                    self.answers.awaiting(confirm, 0),
                    MonotonicMs::default(),
                );
            }
        }
    }

    /// Takes the publisher that waits for that message.
    pub(crate) fn take(&mut self, number: u64) -> Option<Confirm> {
        self.answers.hand_on(self.by_number.take(number)?)
    }

    /// Notes a promise of the machine.
    pub(crate) fn note(&mut self, promise: Promise) {
        match promise {
            // A consumer has had the message, now or when it came before: no disk is waited for.
            Promise::Confirmed(run) | Promise::Duplicate(run) => {
                let Self { by_number, answers, .. } = self;
                by_number.take_range(numbers_of(run), |awaiting| answers.accept(awaiting));
            }
            Promise::Refused(run, why) => {
                let Self { by_number, answers, .. } = self;
                by_number.take_range(numbers_of(run), |awaiting| answers.refuse(awaiting, why));
            }
            Promise::Departs { number, letter, .. } => {
                if let Some(awaiting) = self.by_number.take(number) {
                    self.by_letter.wait(letter, awaiting, MonotonicMs::default());
                }
            }
            Promise::Purged { .. } => self.refuse_letters(0..u64::MAX, Refusal::Purged),
            Promise::Gap { .. }
            | Promise::Closed { .. }
            | Promise::InUse { .. }
            | Promise::NotEmpty { .. }
            | Promise::Unused => {}
        }
    }

    /// Refuses all publishes: the queue is deleted.
    pub(crate) fn refuse_all(&mut self) {
        let Self { by_number, answers, .. } = self;
        let all = PositionRange { start: 0, end: u64::MAX };
        by_number.take_range(all, |awaiting| answers.refuse(awaiting, Refusal::Deleted));
        self.refuse_letters(0..u64::MAX, Refusal::Deleted);
    }

    /// Refuses publishes whose letters are gone.
    pub(crate) fn refuse_letters(&mut self, Range { start, end }: Range<u64>, why: Refusal) {
        let Self { by_letter, answers, .. } = self;
        let letters = PositionRange { start, end };
        by_letter.take_range(letters, |awaiting| answers.refuse(awaiting, why));
    }

    /// Takes the publisher that waits for a letter.
    pub(crate) fn take_letter(&mut self, letter: u64) -> Option<Confirm> {
        self.answers.hand_on(self.by_letter.take(letter)?)
    }

    /// Takes back the publishers of letters that were not sent.
    pub(crate) fn come_back(&mut self, letters: &[DeadLetter]) {
        for DeadLetter { position, confirm, .. } in letters {
            if let Some(confirm) = confirm {
                let awaiting = self.answers.awaiting(confirm.as_ref(), 0);
                self.by_letter.wait(*position, awaiting, MonotonicMs::default());
            }
        }
    }

    /// Tells publishers the answers, after every turn.
    pub(crate) fn tell(&mut self, queue: &str, wakes: &mut Wakes) {
        self.answers.send(queue, wakes);
    }
}

fn numbers_of(Run { first, n, .. }: Run) -> PositionRange {
    PositionRange { start: first, end: first.saturating_add(n) }
}

/// The publishers that wait for a queue's consumers, for callers outside the queue.
#[derive(Clone, Copy, Debug)]
pub struct WaitingPublishers<'q>(&'q QuorumQueue);

impl<'q> WaitingPublishers<'q> {
    /// The waiting publishers of a queue.
    #[must_use]
    pub const fn of(queue: &'q QuorumQueue) -> Self {
        Self(queue)
    }

    /// The event upon which the queue's publishes are confirmed.
    #[must_use]
    pub fn confirm_on(self) -> ConfirmOn {
        self.0.counters.confirm_on()
    }

    /// Publishes that wait for the queue's consumers.
    #[must_use]
    pub fn pending(self) -> PendingConfirms {
        let now_ms = self.0.context.time().unix_ms();
        let state = stdx::lock(&self.0.state);
        let facts = state.machine.facts();
        PendingConfirms {
            n: facts.n_waiting(),
            bytes: facts.waiting_bytes(),
            oldest_ms: facts.waiting().next().map(|it| now_ms.since(it.came_ms)),
        }
    }

    /// Takes the publishers that wait for messages at these positions, which go elsewhere: they are answered
    /// there, unless [put back](Self::put_back).
    #[must_use]
    pub fn take(self, positions: &[u64]) -> Vec<TakenConfirm> {
        self.0.with(|turn| {
            let facts = turn.state.machine.facts();
            let Some(confirms) = &mut turn.state.publishing.confirms else { return Vec::new() };
            let waiting = |at: &u64| {
                let confirm = confirms.take(facts.waiting_at(*at)?)?;
                Some(TakenConfirm { position: *at, confirm })
            };
            positions.iter().filter_map(waiting).collect()
        })
    }

    /// Puts back publishers whose messages, told by their positions, did not go elsewhere after all. The
    /// publish of a message that has left meanwhile is refused: the message may be gone or not.
    pub fn put_back(self, back: &[TakenConfirm]) {
        self.0.with(|turn| {
            let facts = turn.state.machine.facts();
            let Some(confirms) = &mut turn.state.publishing.confirms else { return };
            for TakenConfirm { position: at, confirm } in back {
                let awaiting = confirms.answers.awaiting(confirm.as_ref(), 0);
                match facts.waiting_at(*at) {
                    Some(number) => {
                        confirms.by_number.wait(number, awaiting, MonotonicMs::default())
                    }
                    None => confirms.answers.refuse(awaiting, Refusal::Unavailable),
                }
            }
        });
    }

    /// Time when the publisher's first publish came that waits for consumers.
    #[must_use]
    pub fn pending_since_ms(self, publisher: &Arc<Publisher>) -> Option<MonotonicMs> {
        let time = self.0.context.time();
        let state = stdx::lock(&self.0.state);
        let confirms = state.publishing.confirms.as_ref()?;
        let first = confirms.answers.first_of(publisher, &confirms.by_number)?;
        let waiting = state.machine.facts().waiting().find(|it| it.number == first)?;
        Some(time.monotonic_ms().minus(time.unix_ms().since(waiting.came_ms)))
    }
}
