//! Publishers that wait until consumers have had their messages (`x-confirm-on`): the machine says when, by
//! the numbers of the messages; the publishers are known here. Never for how long they wait.

use super::QuorumQueue;
use confirm::Publisher;
use meta::ConfirmOn;
use queue::machine::{Promise, Run};
use queue_type::{Confirm, ConfirmRef, DeadLetter, Incoming, PendingConfirms, Wakes};
use session::Confirmation;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The publishers of a queue that wait for its consumers.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    by_number: BTreeMap<u64, Confirm>,
    /// Publishers whose messages depart, by the numbers of the letters.
    by_letter: BTreeMap<u64, Confirm>,
    /// Answers that publishers were not told yet.
    answers: Vec<(Confirm, Confirmation)>,
}

impl Confirms {
    /// Lets the publishers of messages wait, the first of which has the number `first`.
    pub(crate) fn wait_for(&mut self, messages: &[Incoming<'_>], first: u64) {
        for (incoming, number) in messages.iter().zip(first..) {
            if let Some(ConfirmRef { publisher, sequence }) = incoming.confirm {
                let publisher = Arc::clone(publisher);
                self.by_number.insert(number, Confirm { publisher, sequence });
            }
        }
    }

    /// Takes the publisher that waits for that message.
    pub(crate) fn take(&mut self, number: u64) -> Option<Confirm> {
        self.by_number.remove(&number)
    }

    /// Notes a promise of the machine.
    pub(crate) fn note(&mut self, promise: Promise) {
        match promise {
            // A consumer has had the message, now or when it came before: no disk is waited for.
            Promise::Confirmed(run) | Promise::Duplicate(run) => {
                self.answer(run, Confirmation::Ack);
            }
            Promise::Refused(run) => self.answer(run, Confirmation::Nack),
            Promise::Departs { number, letter, .. } => {
                if let Some(confirm) = self.take(number) {
                    self.by_letter.insert(letter, confirm);
                }
            }
            Promise::Purged { .. } => self.refuse_letters(0..u64::MAX),
            Promise::Gap { .. }
            | Promise::Closed { .. }
            | Promise::InUse { .. }
            | Promise::NotEmpty { .. }
            | Promise::Unused => {}
        }
    }

    fn answer(&mut self, run: Run, answer: Confirmation) {
        for number in run.first..run.first.saturating_add(run.n) {
            if let Some(confirm) = self.by_number.remove(&number) {
                self.answers.push((confirm, answer));
            }
        }
    }

    /// Refuses all publishes: no consumer will have the messages.
    pub(crate) fn refuse_all(&mut self) {
        let all = std::mem::take(&mut self.by_number).into_values();
        self.answers.extend(all.map(|confirm| (confirm, Confirmation::Nack)));
        self.refuse_letters(0..u64::MAX);
    }

    /// Refuses publishes whose letters are lost.
    pub(crate) fn refuse_letters(&mut self, numbers: Range<u64>) {
        let lost = self.by_letter.extract_if(numbers, |_, _| true);
        self.answers.extend(lost.map(|(_, confirm)| (confirm, Confirmation::Nack)));
    }

    /// Takes the publishers that wait for letters which are elsewhere.
    pub(crate) fn take_letters(&mut self, numbers: Range<u64>) -> impl Iterator<Item = Confirm> {
        self.by_letter.extract_if(numbers, |_, _| true).map(|(_, confirm)| confirm)
    }

    /// Moves publishers that wait for letters into these letters.
    pub(crate) fn go_with(&mut self, letters: &mut [DeadLetter]) {
        for letter in letters {
            letter.confirm = self.by_letter.remove(&letter.position);
        }
    }

    /// Takes back the publishers of letters that were not sent.
    pub(crate) fn come_back(&mut self, letters: &[DeadLetter]) {
        let back = letters.iter().filter_map(|it| Some((it.position, it.confirm.clone()?)));
        self.by_letter.extend(back);
    }

    /// Tells publishers the answers, after every turn.
    pub(crate) fn tell(&mut self, wakes: &mut Wakes) {
        let key = |(confirm, _): &(Confirm, Confirmation)| {
            (Arc::as_ptr(&confirm.publisher).addr(), confirm.sequence)
        };
        self.answers.sort_by_key(key);
        for of_one in self.answers.chunk_by(|a, b| key(a).0 == key(b).0) {
            let Some((Confirm { publisher, .. }, _)) = of_one.first() else { continue };
            let follows =
                |a: &(Confirm, _), b: &(Confirm, _)| a.0.sequence + 1 == b.0.sequence && a.1 == b.1;
            let runs = of_one.chunk_by(follows).filter_map(|run| {
                let ((first, answer), (last, _)) = (run.first()?, run.last()?);
                Some((first.sequence, last.sequence, *answer))
            });
            wakes.extend(publisher.answer(runs));
        }
        self.answers.clear();
    }

    /// Number of the first message that this publisher waits for.
    pub(crate) fn first_of(&self, publisher: &Arc<Publisher>) -> Option<u64> {
        let is_its = |confirm: &Confirm| Arc::ptr_eq(&confirm.publisher, publisher);
        self.by_number.iter().find(|(_, confirm)| is_its(confirm)).map(|(number, _)| *number)
    }
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
        let now_ms = self.0.context.services.storage.time.unix_ms();
        let state = stdx::lock(&self.0.state);
        let facts = state.machine.facts();
        PendingConfirms {
            n: facts.n_waiting(),
            bytes: facts.waiting_bytes(),
            oldest_ms: facts.waiting().next().map(|(came_ms, ..)| now_ms.saturating_sub(came_ms)),
        }
    }

    /// Takes the publishers that wait for messages at these positions, which go elsewhere: they are answered
    /// there, unless [put back](Self::put_back).
    #[must_use]
    pub fn take(self, positions: &[u64]) -> Vec<(u64, Confirm)> {
        self.0.with(|turn| {
            let facts = turn.state.machine.facts();
            let Some(confirms) = &mut turn.state.publishing.confirms else { return Vec::new() };
            let waiting = |at: &u64| Some((*at, confirms.take(facts.waiting_at(*at)?)?));
            positions.iter().filter_map(waiting).collect()
        })
    }

    /// Puts back publishers whose messages, told by their positions, did not go elsewhere after all. The
    /// publish of a message that has left meanwhile is refused: the message may be gone or not.
    pub fn put_back(self, back: &[(u64, Confirm)]) {
        self.0.with(|turn| {
            let facts = turn.state.machine.facts();
            let Some(confirms) = &mut turn.state.publishing.confirms else { return };
            for (at, confirm) in back {
                match facts.waiting_at(*at) {
                    Some(number) => drop(confirms.by_number.insert(number, confirm.clone())),
                    None => confirms.answers.push((confirm.clone(), Confirmation::Nack)),
                }
            }
        });
    }

    /// Time when the publisher's first publish came that waits for consumers, by the monotonic clock.
    #[must_use]
    pub fn pending_since_ms(self, publisher: &Arc<Publisher>) -> Option<u64> {
        let time = &self.0.context.services.storage.time;
        let state = stdx::lock(&self.0.state);
        let first = state.publishing.confirms.as_ref()?.first_of(publisher)?;
        let (came_ms, ..) = state.machine.facts().waiting().find(|(.., it)| *it == first)?;
        Some(time.monotonic_ms().saturating_sub(time.unix_ms().saturating_sub(came_ms)))
    }
}
