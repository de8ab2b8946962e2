//! Answers to publishes, held against what became of the messages: what a publisher may be told, and what it
//! must be told by now.

use super::ledger::{At, Ledger, Sent, Violation};
use super::rules::Rules;

/// How much longer than it may a publish waits.
const LATE_MS_MAX: u64 = 100;

impl Ledger {
    /// A publisher is answered.
    pub(super) fn answer(&mut self, id: u64, is_ack: bool) -> Result<(), Violation> {
        let checked = self.check_answer(id, is_ack);
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.answer = Some(is_ack || sent.answer == Some(true));
            let queues = sent.to.keys().filter(|queue| is_ack && sent.is_of(queue));
            self.sure.extend(queues.map(|queue| At::first(id, queue)));
        }
        checked
    }

    fn check_answer(&self, id: u64, is_ack: bool) -> Result<(), Violation> {
        let Some(sent) = self.sent.get(&id) else { return Ok(()) };
        if sent.n_attempts == 1 && sent.expected.is_some_and(|expected| expected != is_ack) {
            return Err(format!("m{id} is answered {is_ack}"));
        }
        if is_ack {
            let missing = sent.late().find(|queue| !self.is_consumed(At::first(id, queue)));
            return missing.map_or(Ok(()), |queue| {
                Err(format!("m{id} is confirmed, and nobody has had it from {queue}"))
            });
        }
        let mut queues = sent.to.keys().copied();
        if !queues.clone().any(|queue| self.may_be_refused(id, sent, queue)) {
            return Err(format!("m{id} is refused"));
        }
        if sent.answer == Some(true) && !queues.any(|queue| sent.is_late_in(queue)) {
            return Err(format!("m{id} is confirmed, and refused"));
        }
        Ok(())
    }

    fn may_be_refused(&self, id: u64, sent: &Sent, queue: &'static str) -> bool {
        let is_late = sent.is_late_in(queue);
        sent.to.get(queue).is_some_and(|to| to.may_refuse)
            || self.ever(queue).any(Rules::may_refuse)
            || (is_late && self.may_be_lost(At::first(id, queue)))
    }

    /// Whether a consumer has had it, or may have had its dead letters.
    fn is_consumed(&self, at: At) -> bool {
        let letters_consumed = || {
            let to = self.letters_to(at.queue).unwrap_or_default();
            let is_confirmed = |to: &&'static str| self.is_letter_confirmed(at.letter(to));
            // Letters of quorum queues may go in circles.
            !to.is_empty() && (self.rules(at.queue).is_quorum || to.iter().all(is_confirmed))
        };
        self.past.consumed.contains(&at) || (self.may_leave(at, self.now_ms) && letters_consumed())
    }

    fn is_letter_confirmed(&self, letter: At) -> bool {
        self.life.ever_plain.contains(letter.queue)
            || self.life.ever_missing.contains(letter.queue)
            || self.is_consumed(letter)
    }

    /// Whether a publish may have waited for too long; a dead letter has waited for less.
    pub(super) fn may_time_out(&self, id: u64) -> bool {
        let at_ms = self.sent.get(&id).map_or(self.now_ms, |sent| sent.published_ms);
        let timeout_ms = self.life.shortest_timeout_ms;
        timeout_ms.is_some_and(|timeout_ms| at_ms + timeout_ms <= self.now_ms)
    }

    /// Whether a publish must have waited for too long in a queue that it has not left.
    fn must_time_out(&self, at: At, at_ms: u64) -> bool {
        let is_over = |timeout_ms| at_ms + timeout_ms + LATE_MS_MAX <= self.now_ms;
        let may_leave = self.may_leave(at, self.now_ms);
        self.timeout_ms.is_some_and(is_over) && !self.is_gone(at) && !may_leave
    }

    fn is_gone(&self, at: At) -> bool {
        let past = &self.past;
        [&past.consumed, &past.rejected, &past.dropped].iter().any(|set| set.contains(&at))
    }

    /// Whether no consumer may have it, of a queue that confirms late.
    fn may_be_lost(&self, at: At) -> bool {
        let is_quorum = self.rules(at.queue).is_quorum;
        is_quorum
            || self.past.dropped.contains(&at)
            || self.may_time_out(at.id)
            || (self.may_leave(at, self.now_ms) && self.may_lose_letters(at))
    }

    fn may_lose_letters(&self, at: At) -> bool {
        let Some(to) = self.letters_to(at.queue) else { return true };
        let may_lose = |to: &&'static str| {
            let rules = self.rules(to);
            self.life.ever_missing.contains(to)
                || rules.may_refuse()
                || rules.may_refuse_to_wait()
                || self.may_be_lost(at.letter(to))
        };
        to.is_empty() || to.iter().any(may_lose)
    }

    /// Whether nothing is to be waited for any more.
    pub(super) fn must_be_answered(&self, id: u64) -> bool {
        let Some(sent) = self.sent.get(&id) else { return true };
        let mut late = sent.late();
        late.all(|queue| self.is_surely_done(At::first(id, queue)))
            || sent.late().any(|queue| self.must_time_out(At::first(id, queue), sent.published_ms))
    }

    fn is_surely_done(&self, at: At) -> bool {
        if self.rules(at.queue).is_quorum {
            return false;
        }
        let letters_done = || match self.letters_to(at.queue) {
            None => true,
            Some(to) => {
                let is_late = |to: &&'static str| self.life.ever_late.contains(to);
                to.iter().all(|to| !is_late(to) || self.is_surely_done(at.letter(to)))
            }
        };
        let past = &self.past;
        past.consumed.contains(&at) || (past.rejected.contains(&at) && letters_done())
    }
}
