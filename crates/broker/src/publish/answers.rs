//! The confirms of a batch: which publishes are answered by queues that wait for their consumers, and what
//! the answers of the producer wait for.

use super::batch::{Batch, PendingPublish, Source};
use confirm::{AnsweringQueues, DurabilityToken};
use log::Wal;
use session::Confirmation;

/// The event that a producer's answer to a publish waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmAfter {
    Nothing,
    /// The answer is a refusal: a queue did not take the message.
    Refused,
    ForLog,
    /// The journals of queues of version 1, and perhaps the log.
    MultiSync,
    /// The producer does not answer: queues do that wait for their consumers.
    ForConsumers,
}

impl PendingPublish {
    /// The event that the producer's answer waits for, once the batch is in its queues.
    pub(crate) fn confirm_after(&self, awaited: &DurabilityToken) -> ConfirmAfter {
        match () {
            () if self.answering.answer_alone() => ConfirmAfter::ForConsumers,
            () if self.refused => ConfirmAfter::Refused,
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

    /// Answers publishes that queues answer beside the producer: for queues that did not take the message,
    /// and for the producer if its answer need not wait. Publishes of a source with `IS_AWAITED` are all
    /// answered here.
    #[cold]
    pub(crate) fn answer_parts<S: Source>(&self, source: &S, wal: &Wal, awaited: &DurabilityToken) {
        let has_parts = |one: &&PendingPublish| one.answering.any() || S::IS_AWAITED;
        for one in self.pending.iter().filter(|one| one.sequence != 0).filter(has_parts) {
            let Some(publisher) = source.publisher(one) else { continue };
            one.answering.answer_refused(publisher, one.sequence);
            match one.confirm_after(awaited) {
                ConfirmAfter::Nothing => publisher.answer_parts(one.sequence, 1, Confirmation::Ack),
                ConfirmAfter::Refused => {
                    publisher.answer_parts(one.sequence, 1, Confirmation::Nack)
                }
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
