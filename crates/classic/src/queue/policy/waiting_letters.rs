//! The sending of a queue's dead letters by the thread of rules. Dead letters stay in the queue while the
//! disk is short of space, neither ready nor unacked.

use crate::queue::Queue;
use delivery::Sending;
use message::Refusal;
use meta::QueueDef;
use queue::PositionRange;
use queue_type::{AfterDetach, DeadLetter, LetterBatch, LetterLimits, RuledQueue};
use std::sync::Arc;
use stdx::TimeScale;
use store::backlog::Lookup;

impl RuledQueue for Queue {
    fn def(&self) -> &Arc<QueueDef> {
        &self.def
    }

    fn has_journal(&self) -> bool {
        self.upkeep().journal().is_some()
    }

    fn on_time(&self, scale: TimeScale) -> AfterDetach {
        self.with(|state, wakes| state.on_time(self, scale, wakes))
    }

    fn first_letters(&self, limits: LetterLimits) -> Option<LetterBatch> {
        self.with(|state, _| {
            let batch = state.leaving().letters(limits);
            if let Some(policy) = &mut state.policy.state {
                policy.sending = if batch.is_some() { Sending::UnderWay } else { Sending::Idle };
                policy.n_sending = batch.as_ref().map_or(0, |batch| batch.n_positions);
            }
            batch
        })
    }

    fn letters_left(&self, n: u64) {
        self.with(|state, _| {
            for _ in 0..n {
                let first = state.policy.first_departing();
                let Some(policy) = &mut state.policy.state else { break };
                let Some(at) = policy.take_departed() else { break };
                if first.is_some_and(|first| !first.is_sized) {
                    state.leaving().note_bytes_gone(at);
                }
                // A message that was lost meanwhile had no letter to answer its publisher.
                state.confirms.not_consumed(PositionRange::one(at), Refusal::Damaged);
                state.content.release(self.pool(), at);
            }
            if let Some(policy) = &mut state.policy.state {
                policy.sending = Sending::Idle;
                policy.n_sending = 0;
            }
            state.content.log_settled(self);
            state.leaving().enforce(self, self.time().unix_ms());
        });
    }

    fn letters_wait_for_space(&self) {
        self.with(|state, _| {
            if let Some(policy) = &mut state.policy.state {
                policy.sending = Sending::WaitsForSpace;
            }
        });
    }

    fn keep_letters(&self, unsent: &[DeadLetter], n: u64) {
        self.with(|state, _| {
            let now_ms = self.time().monotonic_ms();
            for DeadLetter { position, confirm, .. } in unsent {
                let Some(confirm) = confirm else { continue };
                let bytes = match state.content.backlog.get(*position) {
                    Lookup::Here(message) => message.body.len(),
                    Lookup::Cold | Lookup::Gone => 0,
                };
                state.confirms.put_back(*position, confirm, bytes, now_ms);
            }
            state.policy.set_sending(n);
            if state.deleted {
                state.confirms.refuse_all(Refusal::Deleted);
            }
        });
    }
}
