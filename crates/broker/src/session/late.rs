//! Publishes that go to queues which confirm once a consumer has had them: who answers which, and what the
//! session itself still has to.

use super::Session;
use super::batch::{Batch, Prepared};
use crate::confirm::{Awaited, Publisher};
use crate::queue::{ConfirmRef, RefusedItem};
use session::{ChannelId, Confirmation};
use std::sync::Arc;

/// A channel as queues know it.
pub(super) type PublisherOf<'c> = dyn Fn(ChannelId) -> Option<&'c Arc<Publisher>> + 'c;

/// Who answers a publish, if any of its queues does so itself; else nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LateQueues {
    n_queues: u32,
    /// Of those, such that answer themselves.
    n_late: u32,
    /// Of the latter, such that did not take it.
    n_refused: u32,
}

impl LateQueues {
    /// Whether any queue answers itself.
    pub(super) const fn any(self) -> bool {
        self.n_late > 0
    }

    /// Whether the only queue answers itself.
    pub(super) const fn answer_alone(self) -> bool {
        self.n_late == 1 && self.n_queues == 1
    }
}

impl Batch {
    /// Says, before any queue can answer, how many will.
    #[inline(never)]
    pub(super) fn begin_late(&mut self, publisher_of: &PublisherOf<'_>) {
        self.count_queues();
        let with_queue = |a: &Prepared, b: &Prepared| a.channel == b.channel;
        for of_channel in self.prepared.chunk_by(with_queue) {
            let publisher = of_channel.first().and_then(|one| publisher_of(one.channel));
            let Some(publisher) = publisher else { continue };
            let numbered = of_channel.iter().filter(|one| one.sequence != 0 && one.late.any());
            let mut n_alone = 0;
            for one in numbered {
                if one.late.answer_alone() {
                    n_alone += 1;
                } else {
                    publisher.begin_parts(one.sequence, one.late.n_late);
                }
            }
            publisher.begin_alone(n_alone);
        }
    }

    fn count_queues(&mut self) {
        let Self { groups, prepared, n_groups, .. } = self;
        for group in groups.iter().take(*n_groups) {
            for item in &group.items {
                if let Some(one) = prepared.get_mut(*item as usize) {
                    one.late.n_queues += 1;
                    one.late.n_late += u32::from(group.is_late);
                }
            }
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

    #[cold]
    pub(super) fn mark_refused_late(&mut self, refused: &[RefusedItem]) {
        for RefusedItem { item, .. } in refused {
            if let Some(prepared) = self.prepared.get_mut(*item as usize) {
                prepared.late.n_refused += 1;
            }
        }
    }
}

/// Whether a session has nothing to wait for before it gives its part of the answer to a publish.
pub(super) const fn is_own_part_done(one: &Prepared, awaited: &Awaited) -> bool {
    let waits_for_journals = one.apart && one.logged;
    let waits_for_log = one.logged && awaited.log.is_some();
    one.refused || !(waits_for_journals || waits_for_log)
}

impl Session {
    /// Answers publishes that queues answer themselves, for those that did not take them, and for
    /// queues that do not.
    #[cold]
    pub(super) fn answer_late(&self, awaited: &Awaited) {
        for one in self.batch.prepared.iter().filter(|one| one.late.any() && one.sequence != 0) {
            let publisher = self.channels.get(one.channel).and_then(|it| it.publisher.as_ref());
            let Some(publisher) = publisher else { continue };
            if one.late.n_refused > 0 {
                publisher.answer_parts(one.sequence, one.late.n_refused, Confirmation::Nack);
            }
            if one.late.answer_alone() || !is_own_part_done(one, awaited) {
                continue;
            }
            let answer = if one.refused { Confirmation::Nack } else { Confirmation::Ack };
            publisher.answer_parts(one.sequence, 1, answer);
        }
    }
}
