//! Messages on their way to a home, until that has answered for them.

use crate::wire::AnsweredPuts;
use bytes::Bytes;
use confirm::{AnsweredRun, JournalSynced};
use message::Refusal;
use meta::QueueDef;
use queue_type::Confirm;
use session::{Confirmation, RefusedBy};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

/// Messages with numbers that follow each other, for one queue.
#[derive(Clone, Debug)]
pub(crate) struct PutRun {
    /// The queue.
    pub(crate) queue: Arc<QueueDef>,
    /// The publisher that waits, and the first publish; the others follow it.
    pub(crate) confirm: Confirm,
    /// How many messages there are.
    pub(crate) n: u64,
}

/// Messages of one frame whose publishers do not wait.
#[derive(Debug)]
struct OtherRun {
    last: u64,
    n_left: u64,
    /// The frame, if it is sent again over the next connection until it is answered.
    kept: Option<Bytes>,
}

/// Somebody who waits for messages up to a number: for those that are kept, or for the others.
#[derive(Debug)]
struct PutWaiter {
    upto: u64,
    is_for_kept: bool,
    waiter: WaiterBox,
}

/// The waiter itself.
struct WaiterBox(Box<dyn JournalSynced>);

stdx::debug_of!(|_it: WaiterBox|);

/// The messages on their way.
#[derive(Debug, Default)]
pub(crate) struct Puts {
    /// The number of the newest message.
    last: u64,
    /// Messages whose publishers wait, by the number of the first.
    confirmed: BTreeMap<u64, PutRun>,
    /// Other messages, by the number of the first.
    others: BTreeMap<u64, OtherRun>,
    waiters: Vec<PutWaiter>,
    /// The number of the newest message when messages were lost that no publisher waits for.
    lost_upto: u64,
    /// Bytes that the home has not taken yet.
    pub(crate) in_flight_bytes: u64,
}

/// Publishers and waiters to be told, without a lock.
#[derive(Default)]
pub(crate) struct ToldPuts {
    runs: Vec<(PutRun, Option<Refusal>)>,
    synced: Vec<Box<dyn JournalSynced>>,
    /// The waiters whose messages are lost.
    failed: Vec<PutWaiter>,
}

stdx::debug_of!(|it: ToldPuts| n_runs = it.runs.len());

impl ToldPuts {
    /// Tells all of them.
    pub(crate) fn tell(self) {
        let mut wakers: Vec<Waker> = Vec::new();
        for (run, refused) in &self.runs {
            let Confirm { publisher, sequence } = &run.confirm;
            let answer = match *refused {
                None => Confirmation::Accepted,
                Some(why) => Confirmation::Refused(RefusedBy { queue: &run.queue.name, why }),
            };
            let (first, last) = (*sequence, *sequence + run.n - 1);
            wakers.extend(publisher.answer(std::iter::once(AnsweredRun { first, last, answer })));
        }
        wakers.extend(self.synced.into_iter().filter_map(JournalSynced::synced));
        wakers.extend(self.failed.into_iter().filter_map(|failed| failed.waiter.0.lost()));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Puts {
    /// The number of the next message.
    pub(crate) const fn next(&self) -> u64 {
        self.last + 1
    }

    /// The number of the newest message.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Notes messages whose publisher waits.
    pub(crate) fn note_confirmed(&mut self, run: PutRun) {
        let first = self.next();
        self.last += run.n;
        self.confirmed.insert(first, run);
    }

    /// Notes messages of one frame whose publishers do not wait; with `kept` they are sent again until the
    /// home has answered.
    pub(crate) fn note_others(&mut self, n: u64, kept: Option<Bytes>) {
        let first = self.next();
        self.last += n;
        self.others.insert(first, OtherRun { last: self.last, n_left: n, kept });
    }

    /// The frames that are to be sent over a new connection, in order.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Bytes> {
        self.others.values().filter_map(|run| run.kept.as_ref())
    }

    /// Takes an answer.
    pub(crate) fn answer(&mut self, answer: AnsweredPuts, told: &mut ToldPuts) {
        let AnsweredPuts { first, last, .. } = answer;
        while let Some((run_first, run)) = take_part(&mut self.confirmed, first, last) {
            self.split(run_first, run, answer, told);
        }
        self.answer_others(first, last);
        for done in std::mem::take(&mut self.waiters) {
            if self.is_done(done.upto, done.is_for_kept) {
                told.synced.push(done.waiter.0);
            } else {
                self.waiters.push(done);
            }
        }
    }

    /// Puts back the parts of a run that were not answered.
    fn split(
        &mut self,
        run_first: u64,
        run: PutRun,
        AnsweredPuts { first, last, refused }: AnsweredPuts,
        told: &mut ToldPuts,
    ) {
        let run_last = run_first + run.n - 1;
        let part = |from: u64, upto: u64| {
            let sequence = run.confirm.sequence + (from - run_first);
            let confirm = Confirm { sequence, ..run.confirm.clone() };
            PutRun { confirm, n: upto - from + 1, queue: Arc::clone(&run.queue) }
        };
        if run_first < first {
            self.confirmed.insert(run_first, part(run_first, first - 1));
        }
        if run_last > last {
            self.confirmed.insert(last + 1, part(last + 1, run_last));
        }
        told.runs.push((part(run_first.max(first), run_last.min(last)), refused));
    }

    fn answer_others(&mut self, first: u64, last: u64) {
        let mut at = self.others.range(..=first).next_back().map_or(first, |(first, _)| *first);
        while at <= last
            && let Some((run_first, run)) = self.others.range_mut(at..=last).next()
        {
            let run_first = *run_first;
            at = run.last + 1;
            let overlap = (run.last.min(last) + 1).saturating_sub(first.max(run_first));
            run.n_left = run.n_left.saturating_sub(overlap);
            if run.n_left == 0 {
                self.others.remove(&run_first);
            }
        }
    }

    /// Whether all messages up to this number are done with, of those that are kept or of the others.
    pub(crate) fn is_done(&self, upto: u64, is_for_kept: bool) -> bool {
        let mut earlier = self.others.range(..=upto);
        !earlier.any(|(_, run)| run.kept.is_some() == is_for_kept)
    }

    /// Adds a waiter; it comes back with `true` if there is nothing to wait for, with `false` if that may be
    /// lost.
    pub(crate) fn wait(
        &mut self,
        upto: u64,
        is_for_kept: bool,
        waiter: Box<dyn JournalSynced>,
    ) -> Option<(Box<dyn JournalSynced>, bool)> {
        let is_lost = !is_for_kept && upto <= self.lost_upto;
        if is_lost || self.is_done(upto, is_for_kept) {
            return Some((waiter, !is_lost));
        }
        self.waiters.push(PutWaiter { upto, is_for_kept, waiter: WaiterBox(waiter) });
        None
    }

    /// Gives up what is on its way, since the connection has ended: it may have arrived. What is kept stays;
    /// who waits for anything else hears that it failed.
    pub(crate) fn lose(&mut self, told: &mut ToldPuts) {
        let lost = std::mem::take(&mut self.confirmed).into_values();
        told.runs.extend(lost.map(|run| (run, Some(Refusal::Unavailable))));
        told.failed.extend(self.waiters.extract_if(.., |it| !it.is_for_kept));
        let n_before = self.others.len();
        self.others.retain(|_, run| run.kept.is_some());
        if self.others.len() < n_before {
            self.lost_upto = self.last;
        }
        for (first, run) in &mut self.others {
            run.n_left = run.last + 1 - first;
        }
        self.in_flight_bytes = 0;
    }
}

/// Takes out the last run that has any of the numbers.
fn take_part(runs: &mut BTreeMap<u64, PutRun>, first: u64, last: u64) -> Option<(u64, PutRun)> {
    let (at, run) = runs.range(..=last).next_back()?;
    let at = (at + run.n > first).then_some(*at)?;
    runs.remove_entry(&at)
}

#[cfg(test)]
mod tests;
