//! The confirms of a batch: which publishes are answered by queues that wait for their consumers, and what
//! the answers of the producer wait for.

use super::batch::{Batch, PendingPublish, Placed, Source};
use confirm::{AnsweringQueues, CommitBy, ConfirmQueue, DurabilityToken, Run};
use log::Wal;
use message::Refusal;
use session::{Confirmation, Sink};
use std::sync::Arc;

/// The event that a producer's answer to a publish waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmAfter {
    /// The answer is that the message is taken.
    Nothing,
    /// The answer is that no queue was to have the message.
    Unroutable,
    /// The answer is a refusal: a queue did not take the message.
    Refused,
    ForLog,
    /// The journals of queues of version 1, and perhaps the log.
    MultiSync,
    /// The producer does not answer: queues do that wait for their consumers.
    ForConsumers,
}

impl ConfirmAfter {
    /// Whether the answer waits for nothing.
    pub(crate) const fn is_told(self) -> bool {
        matches!(self, Self::Nothing | Self::Unroutable | Self::Refused)
    }
}

impl PendingPublish {
    /// The event that the producer's answer waits for, once the batch is in its queues.
    pub(crate) fn confirm_after(&self, awaited: &DurabilityToken) -> ConfirmAfter {
        match () {
            () if self.answering.answer_alone() => ConfirmAfter::ForConsumers,
            () if self.placed == Placed::Refused => ConfirmAfter::Refused,
            () if self.placed == Placed::Nowhere => ConfirmAfter::Unroutable,
            () if self.apart && self.logged => ConfirmAfter::MultiSync,
            () if self.logged && awaited.log.is_some() => ConfirmAfter::ForLog,
            () => ConfirmAfter::Nothing,
        }
    }
}

impl Batch {
    /// Counts, before any queue can answer, how many queues answer each publish, and tells the publishers.
    #[inline(never)]
    pub(super) fn count_answering<S: Source>(&mut self, source: &S) {
        let groups = self.groups.all().iter().map(|group| (group.on_consume, &*group.items));
        AnsweringQueues::count(&mut self.pending, |one| &mut one.answering, groups);
        let is_waited_for = |one: &&PendingPublish| one.sequence != 0 && one.answering.any();
        if !S::IS_AWAITED {
            for of_channel in self.pending.chunk_by(|a, b| a.channel == b.channel) {
                let n = of_channel.iter().filter(is_waited_for).count() as u64;
                if let Some(publisher) = of_channel.first().and_then(|one| source.publisher(one)) {
                    publisher.begin_alone(n);
                }
            }
        }
        for one in self.pending.iter().filter(is_waited_for) {
            if !one.answering.answer_alone()
                && let Some(publisher) = source.publisher(one)
            {
                publisher.share_part(one.sequence, one.answering.n());
            }
        }
    }
}

/// Publishes that follow each other, and whose answers wait for the same.
#[derive(Clone, Copy, Debug)]
struct AnswerRun {
    /// Index of the first publish in its batch.
    item: usize,
    run: Run,
    after: ConfirmAfter,
}

/// The answers to the publishes of a batch that is in its queues.
#[derive(Clone, Copy)]
pub(crate) struct Answers<'b>(pub(crate) &'b Batch);

impl<'b> Answers<'b> {
    /// Runs of numbered publishes whose answers wait for the same, which `after` tells.
    #[inline]
    fn runs(
        self,
        after: impl Fn(&PendingPublish) -> ConfirmAfter + Copy + 'b,
    ) -> impl Iterator<Item = AnswerRun> + 'b {
        let same = move |a: &PendingPublish, b: &PendingPublish| {
            a.channel == b.channel && a.sequence + 1 == b.sequence && after(a) == after(b)
        };
        let mut item = 0;
        self.0.pending.chunk_by(same).filter_map(move |run| {
            let first_item = item;
            item += run.len();
            let (first, last) = (run.first()?, run.last()?.sequence);
            let of_channel = Run { channel: first.channel, first: first.sequence, last };
            let answer = || AnswerRun { item: first_item, run: of_channel, after: after(first) };
            (first.sequence != 0).then(answer)
        })
    }

    /// Whether a queue was not available for one of the publishes.
    pub(crate) fn is_any_unavailable(self) -> bool {
        self.0.refusals().any_for(Refusal::Unavailable)
    }

    /// Answers numbered publishes: now those that wait for nothing, by `tell`, the others once they may be.
    /// Returns who commits the log for those that wait for it.
    pub(crate) fn confirm<S: Source>(
        self,
        source: &S,
        awaited: &DurabilityToken,
        confirms: &Arc<ConfirmQueue>,
        wal: &Wal,
        tell: impl FnOnce(&mut dyn FnMut(&mut dyn Sink)),
    ) -> CommitBy {
        let this = Answers(self.0);
        // Publishes that queues answer too are answered one by one, unless they wait for the disk.
        let of_runs = |one: &PendingPublish| {
            let after = one.confirm_after(awaited);
            if after.is_told() && one.answering.any() { ConfirmAfter::ForConsumers } else { after }
        };
        let runs = |wanted: ConfirmAfter| {
            let wanted = move |answer: AnswerRun| (answer.after == wanted).then_some(answer.run);
            this.runs(of_runs).filter_map(wanted)
        };
        if this.0.pending.iter().any(|one| one.sequence != 0 && of_runs(one).is_told()) {
            tell(&mut |sink| this.tell(sink, of_runs));
        }
        if this.0.groups.any_on_consume() {
            this.answer_parts(source, wal, awaited);
        }
        let committer = match awaited.log {
            Some(upto) => confirms.wait(wal, upto, runs(ConfirmAfter::ForLog)),
            None => CommitBy::Thread,
        };
        if !awaited.journals.is_empty() {
            confirms.wait_apart(wal, awaited, runs(ConfirmAfter::MultiSync).collect());
        }
        committer
    }

    /// Tells the answers that wait for nothing; `after` tells what each waits for.
    fn tell(
        self,
        sink: &mut dyn Sink,
        after: impl Fn(&PendingPublish) -> ConfirmAfter + Copy + 'b,
    ) {
        for AnswerRun { item, run, after } in self.runs(after) {
            match after {
                ConfirmAfter::Nothing => {
                    sink.confirm(run.channel, run.first, run.last, Confirmation::Accepted);
                }
                ConfirmAfter::Unroutable => {
                    sink.confirm(run.channel, run.first, run.last, Confirmation::Unroutable);
                }
                ConfirmAfter::Refused => self.tell_refused(sink, item, run),
                ConfirmAfter::ForLog | ConfirmAfter::MultiSync | ConfirmAfter::ForConsumers => {}
            }
        }
    }

    /// Tells of publishes that queues have refused, the first of which has the index `item`.
    #[cold]
    fn tell_refused(self, sink: &mut dyn Sink, item: usize, run: Run) {
        let (refusals, mut first) = (self.0.refusals(), run.first);
        let by = (item..).zip(run.first..=run.last).map(|(item, _)| {
            refusals.of(item).expect("a publish is refused by a queue that did not take it")
        });
        for alike in by.collect::<Vec<_>>().chunk_by(|a, b| a == b) {
            let (last, by) = (first + alike.len() as u64 - 1, alike.first());
            let by = *by.expect("a chunk has a first");
            sink.confirm(run.channel, first, last, Confirmation::Refused(by));
            first = last + 1;
        }
    }

    /// Answers publishes that queues answer beside the producer: for queues that did not take the message,
    /// and for the producer if its answer need not wait. Publishes of a source with `IS_AWAITED` are all
    /// answered here.
    #[cold]
    pub(crate) fn answer_parts<S: Source>(self, source: &S, wal: &Wal, awaited: &DurabilityToken) {
        let refusals = self.0.refusals();
        let has_parts = |one: &PendingPublish| one.answering.any() || S::IS_AWAITED;
        for (item, one) in self.0.pending.iter().enumerate() {
            let publisher = source.publisher(one).filter(|_| one.sequence != 0 && has_parts(one));
            let Some(publisher) = publisher else { continue };
            let by = refusals.of(item).unwrap_or_else(|| source.refused_by(one));
            one.answering.answer_refused(publisher, one.sequence, by);
            let answer = |answer| publisher.answer_parts(one.sequence, 1, answer);
            match one.confirm_after(awaited) {
                ConfirmAfter::Nothing => answer(Confirmation::Accepted),
                ConfirmAfter::Unroutable => answer(Confirmation::Unroutable),
                ConfirmAfter::Refused => answer(Confirmation::Refused(by)),
                ConfirmAfter::ForLog | ConfirmAfter::MultiSync if S::IS_AWAITED => {
                    publisher.answer_when_durable(wal, awaited, one.sequence);
                }
                // Runs of sequence numbers wait for the disk in the session; queues answer after their
                // consumers.
                ConfirmAfter::ForLog | ConfirmAfter::MultiSync | ConfirmAfter::ForConsumers => {}
            }
        }
    }
}
