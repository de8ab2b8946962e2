//! Publishes that go to queues which confirm once a consumer has had them: who answers which, and what the
//! session itself still has to.

use super::Session;
use super::batch::{Batch, PendingPublish};
use crate::confirm::{AnsweringQueues, DurabilityToken, Publisher};
use crate::queue::ConfirmRef;
use session::{ChannelId, Confirmation};
use std::sync::Arc;

/// A channel as queues know it.
pub(super) type PublisherOf<'c> = dyn Fn(ChannelId) -> Option<&'c Arc<Publisher>> + 'c;

impl Batch {
    /// Says, before any queue can answer, how many will.
    #[inline(never)]
    pub(super) fn begin_late(&mut self, publisher_of: &PublisherOf<'_>) {
        let groups = self.groups.iter().take(self.n_groups);
        let groups = groups.map(|group| (group.is_late, group.items.as_slice()));
        AnsweringQueues::count(&mut self.prepared, |one| &mut one.late, groups);
        let with_queue = |a: &PendingPublish, b: &PendingPublish| a.channel == b.channel;
        for of_channel in self.prepared.chunk_by(with_queue) {
            let publisher = of_channel.first().and_then(|one| publisher_of(one.channel));
            let Some(publisher) = publisher else { continue };
            let numbered = of_channel.iter().filter(|one| one.sequence != 0 && one.late.any());
            let mut n_alone = 0;
            for one in numbered {
                if one.late.answer_alone() {
                    n_alone += 1;
                } else {
                    publisher.begin_parts(one.sequence, one.late.n());
                }
            }
            publisher.begin_alone(n_alone);
        }
    }

    /// Who waits for a message to be consumed.
    pub(super) fn waiting_for<'c>(
        &self,
        item: u32,
        publisher_of: &PublisherOf<'c>,
    ) -> Option<ConfirmRef<'c>> {
        let one = self.prepared.get(item as usize).filter(|one| one.sequence != 0)?;
        Some(ConfirmRef { publisher: publisher_of(one.channel)?, sequence: one.sequence })
    }
}

/// Whether a session has nothing to wait for before it gives its part of the answer to a publish.
pub(super) const fn is_own_part_done(one: &PendingPublish, awaited: &DurabilityToken) -> bool {
    let waits_for_journals = one.apart && one.logged;
    let waits_for_log = one.logged && awaited.log.is_some();
    one.refused || !(waits_for_journals || waits_for_log)
}

impl Session {
    /// Answers publishes that queues answer themselves, for those that did not take them, and for
    /// queues that do not.
    #[cold]
    pub(super) fn answer_late(&self, awaited: &DurabilityToken) {
        for one in self.batch.prepared.iter().filter(|one| one.late.any() && one.sequence != 0) {
            let publisher = self.channels.get(one.channel).and_then(|it| it.publisher.as_ref());
            let Some(publisher) = publisher else { continue };
            one.late.answer_refused(publisher, one.sequence);
            if one.late.answer_alone() || !is_own_part_done(one, awaited) {
                continue;
            }
            let answer = if one.refused { Confirmation::Nack } else { Confirmation::Ack };
            publisher.answer_parts(one.sequence, 1, answer);
        }
    }
}
