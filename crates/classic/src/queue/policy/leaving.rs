//! Messages that leave a queue by its rules: expired, too many, delivered too often; dead-lettered or
//! forgotten.

use super::{Departing, Policy, PolicyState, next_deadline};
use crate::queue::Queue;
use crate::queue::confirm_on::Confirms;
use content::Content;
use content::records;
use delivery::{CopiedLetters, DepartingMessage, Sending};
use message::Refusal;
use queue::machine::DeadLetters;
use queue::{Fifo, Gone, PositionRange, Reason};
use queue_type::{LetterBatch, LetterLimits, PickedMessage, RejectedDeadLetters};
use std::ops::Range;
use std::sync::Arc;
use stdx::UnixMs;
use store::backlog::Lookup;

/// Messages that expire in one go, more or less.
const EXPIRE_AT_A_TIME: u64 = 4_096;
/// Dead letters that are sent of a queue that goes; any more go with it.
const LAST_LETTERS: LetterLimits = LetterLimits { n_max: 64 * 1024, bytes_max: 64 * 1024 * 1024 };

/// Counts messages that died, to be dead-lettered or not. Messages that an exchange has delayed do not die.
pub(super) fn note_died(queue: &Queue, has_exchange: bool, reason: Reason, n: u64) {
    if queue.def.delays_for().is_none() {
        let to = if has_exchange { DeadLetters::AtMostOnce } else { DeadLetters::Dropped };
        queue.storage().deaths.note(queue.def.kind, to, reason, n);
    }
}

/// The parts of a queue that have to do with what leaves it other than by a consumer.
pub(in crate::queue) struct Leaving<'s> {
    pub(in crate::queue) fifo: &'s mut Fifo,
    pub(in crate::queue) content: &'s mut Content,
    pub(in crate::queue) confirms: &'s mut Confirms,
    pub(in crate::queue) policy: &'s mut Policy,
}

impl Leaving<'_> {
    /// After messages came in or back: drops what exceeds a length limit, then what has expired.
    pub(in crate::queue) fn enforce(&mut self, queue: &Queue, now_ms: UnixMs) {
        if self.fifo.messages().policy().is_none() {
            return;
        }
        while self.knows_its_bytes() {
            let Some(dropped) = self.fifo.messages_mut().drop_over_limit() else { break };
            self.leave(queue, &[dropped]);
        }
        self.expire(queue, now_ms);
        self.content.log_settled(queue);
    }

    /// Whether the core knows the bytes of all ready messages: of none that left is the size still to be
    /// read.
    fn knows_its_bytes(&self) -> bool {
        self.policy.state.as_deref().is_none_or(|policy| policy.n_unsized == 0)
    }

    /// Takes out what is over now, a limited number at a time.
    fn expire(&mut self, queue: &Queue, now_ms: UnixMs) {
        if next_deadline(self.fifo).is_none_or(|deadline_ms| deadline_ms > now_ms) {
            return;
        }
        let mut gone = Vec::new();
        self.fifo.messages_mut().expire(now_ms, EXPIRE_AT_A_TIME, &mut gone);
        self.leave(queue, &gone);
    }

    /// Messages are gone by a rule: they are dead-lettered where that is wanted, or forgotten.
    fn leave(&mut self, queue: &Queue, gone: &[Gone]) {
        let has_exchange =
            self.policy.state.as_deref().is_some_and(|policy| policy.dead_letter_to.is_some());
        for gone in gone {
            note_died(queue, has_exchange, gone.reason, gone.positions.len());
            let was_ready = matches!(gone.reason, Reason::Expired | Reason::MaxLen);
            let counts_bytes = self.policy.state.as_deref().is_some_and(PolicyState::counts_bytes);
            if !(was_ready && counts_bytes) {
                self.leave_sized(queue, Departing { gone: *gone, is_sized: true });
                continue;
            }
            for at in gone.positions.start..gone.positions.end {
                let is_sized = self.note_bytes_gone(at);
                let gone = Gone { positions: PositionRange::one(at), ..*gone };
                self.leave_sized(queue, Departing { gone, is_sized });
            }
        }
    }

    /// Tells the core the size of a message that is ready no more; false if it is not at hand.
    pub(in crate::queue) fn note_bytes_gone(&mut self, at: u64) -> bool {
        match self.content.backlog.get(at) {
            Lookup::Here(message) => {
                if let Some(policy) = self.fifo.messages_mut().policy_mut() {
                    policy.ready_bytes_mut().left(message.body.len() as u64);
                }
            }
            Lookup::Cold => return false,
            Lookup::Gone => {}
        }
        true
    }

    fn leave_sized(&mut self, queue: &Queue, departing: Departing) {
        match &mut self.policy.state {
            Some(policy) if policy.dead_letter_to.is_some() || !departing.is_sized => {
                policy.depart(departing);
            }
            Some(_) | None => {
                self.forget(queue, departing.gone.positions, departing.gone.reason.into());
            }
        }
    }

    /// Forgets messages that are gone.
    fn forget(&mut self, queue: &Queue, positions: PositionRange, why: Refusal) {
        self.confirms.not_consumed(positions, why);
        self.content.forget(queue, [positions]);
    }

    /// Forgets what departs and is to be dead-lettered nowhere, as far as it is at hand.
    pub(super) fn shed(&mut self, queue: &Queue) {
        while let Some(departing) = self.policy.first_departing() {
            let at = departing.gone.positions.start;
            if !departing.is_sized && !self.note_bytes_gone(at) {
                return;
            }
            self.policy.state.as_deref_mut().and_then(PolicyState::take_departed);
            self.confirms.not_consumed(PositionRange::one(at), departing.gone.reason.into());
            self.content.release(queue.pool(), at);
        }
    }

    /// Forgets messages that are purged together.
    fn drop_ranges(&mut self, queue: &Queue, gone: &[PositionRange]) {
        gone.iter().for_each(|range| self.confirms.not_consumed(*range, Refusal::Purged));
        self.content.drop_ranges(queue, gone);
    }

    /// Messages are damaged: nobody is given them.
    pub(in crate::queue) fn lose(
        &mut self,
        queue: &Queue,
        lost: impl Iterator<Item = Range<u64>>,
        reason: &str,
    ) {
        let range = |range: Range<u64>| PositionRange { start: range.start, end: range.end };
        let lost: Vec<_> = lost.map(range).collect();
        let n_lost: u64 = lost.iter().map(|range| range.len()).sum();
        stdx::lock(&queue.storage().losses).n_messages += n_lost;
        queue.storage().tell_lost(&queue.def, reason, n_lost);
        for range in &lost {
            self.fifo.messages_mut().discard(*range);
            self.confirms.not_consumed(*range, Refusal::Damaged);
        }
        if queue.def.durable {
            records::append_purged(queue.wal(), queue.id().0, &lost);
        }
    }

    /// Drops every ready message, and the dead letters that wait for space; returns how many.
    pub(in crate::queue) fn purge(&mut self, queue: &Queue) -> u64 {
        let mut gone = Vec::new();
        let n_ready = self.fifo.messages_mut().purge(&mut gone);
        self.drop_ranges(queue, &gone);
        n_ready + self.purge_waiting_letters(queue)
    }

    /// Drops the ready ones among messages; returns how many. The positions of the others are `stayed`.
    pub(in crate::queue) fn remove(
        &mut self,
        queue: &Queue,
        messages: &[PickedMessage],
        stayed: &mut Vec<u64>,
    ) -> u64 {
        let mut n_removed = 0;
        for PickedMessage { position: at, body_bytes } in messages {
            if self.fifo.messages_mut().discard(PositionRange::one(*at)) == 0 {
                stayed.push(*at);
                continue;
            }
            if let Some(policy) = self.fifo.messages_mut().policy_mut() {
                policy.ready_bytes_mut().left(*body_bytes);
            }
            self.forget(queue, PositionRange::one(*at), Refusal::Purged);
            n_removed += 1;
        }
        self.content.log_settled(queue);
        n_removed
    }

    /// Expires what is over, before somebody is given something.
    pub(in crate::queue) fn look_at_time(&mut self, queue: &Queue) {
        if next_deadline(self.fifo).is_some() {
            let now_ms = queue.time().unix_ms();
            self.enforce(queue, now_ms);
        }
    }

    /// Messages came back to the queue; some of them are gone.
    pub(in crate::queue) fn after_return(&mut self, queue: &Queue, gone: &[Gone]) {
        self.leave(queue, gone);
        if self.fifo.messages().policy().is_some() {
            self.enforce(queue, queue.time().unix_ms());
        }
    }

    /// The time messages come back at, where that matters.
    pub(in crate::queue) fn returned_ms(&self, queue: &Queue) -> UnixMs {
        let has_policy = self.fifo.messages().policy().is_some();
        if has_policy { queue.time().unix_ms() } else { UnixMs::default() }
    }

    /// Counts the sizes of messages that are there already. Of those that are on disk only, an average
    /// is counted.
    pub(super) fn count_bytes(&mut self) {
        let (mut n_here, mut bytes_here, mut n_cold) = (0_u64, 0_u64, 0_u64);
        for at in self.fifo.messages().ready().flat_map(|range| range.start..range.end) {
            match self.content.backlog.get(at) {
                Lookup::Here(message) => {
                    n_here += 1;
                    bytes_here += message.body.len() as u64;
                }
                Lookup::Cold => n_cold += 1,
                Lookup::Gone => {}
            }
        }
        let of_cold = bytes_here.checked_div(n_here).unwrap_or(0).saturating_mul(n_cold);
        let held: Vec<u64> = self.fifo.consumers().held().map(|(_, at)| at).collect();
        let Some(policy) = self.fifo.messages_mut().policy_mut() else { return };
        policy.ready_bytes_mut().set(bytes_here.saturating_add(of_cold));
        for at in held {
            if let Lookup::Here(message) = self.content.backlog.get(at) {
                policy.note_held(at, message.body.len() as u64);
            }
        }
    }

    /// Copies of the first dead letters within `limits`; `None` if none is in memory.
    /// The messages stay in the backlog until `RuledQueue::letters_left`, but whoever waits for their
    /// confirms goes with the copies: of what is not sent `RuledQueue::keep_letters` takes them back.
    pub(in crate::queue) fn letters(&mut self, limits: LetterLimits) -> Option<LetterBatch> {
        let policy = self.policy.state.as_deref()?;
        let to = policy.dead_letter_to.clone()?;
        let each = |departing: &Departing| {
            let Gone { positions, reason } = departing.gone;
            let positions = positions.start..positions.end;
            positions.map(move |at| DepartingMessage { number: at, at, reason })
        };
        let departing = policy.departing.iter().flat_map(each);
        let backlog = &self.content.backlog;
        let CopiedLetters { mut batch, .. } =
            CopiedLetters::of(to, departing, backlog, false, limits);
        for letter in &mut batch.letters {
            letter.confirm = self.confirms.take(letter.position);
        }
        (batch.n_positions > 0).then_some(batch)
    }

    /// Copies of the dead letters of a queue that is being deleted, as far as they are in memory and not
    /// being sent already; `None` while the disk is short of space.
    pub(in crate::queue) fn last_letters(&mut self, queue: &Queue) -> Option<RejectedDeadLetters> {
        if self.policy.sending() == Sending::WaitsForSpace {
            return None;
        }
        let policy = self.policy.state.as_deref_mut()?;
        for _ in 0..std::mem::take(&mut policy.n_sending) {
            policy.take_departed();
        }
        let batch = self.letters(LAST_LETTERS)?;
        let LetterBatch { to, letters, .. } = batch;
        Some(RejectedDeadLetters { from: Arc::clone(&queue.def), to, letters: letters.into() })
    }

    /// Drops the dead letters that wait for space, as who purges or deletes the queue wants it. How many
    /// there were.
    fn purge_waiting_letters(&mut self, queue: &Queue) -> u64 {
        if self.policy.sending() != Sending::WaitsForSpace {
            return 0;
        }
        let Some(policy) = self.policy.state.as_deref_mut() else { return 0 };
        let mut gone: Vec<PositionRange> = policy.take_departing();
        gone.sort_unstable_by_key(|range| range.start);
        self.drop_ranges(queue, &gone);
        gone.iter().map(|range| range.len()).sum()
    }
}
