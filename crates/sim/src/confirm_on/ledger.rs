//! The ledger of publishes: where each went, what clients did with it there, and what its publisher may
//! be told.

use super::spec::Spec;
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given};

/// How much longer than it may a publish waits.
const LATE_MS_MAX: u64 = 100;

/// The violated rule, in words.
pub(super) type Violation = String;

/// A message in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copy {
    pub(super) id: u64,
    pub(super) queue: &'static str,
    /// Whether the message came as a dead letter.
    pub(super) is_letter: bool,
}

impl Copy {
    /// The message where it was published to.
    pub(super) const fn first(id: u64, queue: &'static str) -> Self {
        Self { id, queue, is_letter: false }
    }
}

/// One publish.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The queues it was routed to, and whether they confirmed late then.
    pub(super) queues: BTreeMap<&'static str, bool>,
    /// Queues that may refuse it.
    pub(super) refusable: BTreeSet<&'static str>,
    pub(super) content: Content,
    /// Its body is stored apart where several queues hold it: late queues keep it, too.
    pub(super) is_large: bool,
    pub(super) answer: Option<bool>,
    /// The transaction it is part of is done.
    pub(super) is_committed: bool,
    pub(super) at_ms: u64,
}

impl Sent {
    fn late(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.queues.iter().filter(|(_, is_late)| **is_late).map(|(queue, _)| *queue)
    }

    fn is_late_in(&self, queue: &str) -> bool {
        self.queues.get(queue).is_some_and(|is_late| *is_late)
    }
}

/// The fates of messages in one life of the node.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// A consumer acknowledged it, or it was written to one that does not.
    pub(super) accepted: BTreeSet<Copy>,
    /// A consumer does not want it.
    pub(super) rejected: BTreeSet<Copy>,
    /// Its queue was purged or deleted.
    pub(super) dropped: BTreeSet<Copy>,
    pub(super) delivered: BTreeSet<Copy>,
    /// Queues that have confirmed at once at times.
    pub(super) ever_plain: BTreeSet<&'static str>,
    /// Queues that have confirmed late at times.
    pub(super) ever_late: BTreeSet<&'static str>,
    /// Queues that were missing at times.
    pub(super) ever_missing: BTreeSet<&'static str>,
    /// Messages found at its start, and whether they were marked redelivered.
    pub(super) found: BTreeMap<Copy, bool>,
    /// The shortest time that publishes could wait for consumers.
    shortest_timeout_ms: Option<u64>,
}

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) specs: BTreeMap<&'static str, Spec>,
    pub(super) sent: BTreeMap<u64, Sent>,
    pub(super) life: Life,
    pub(super) now_ms: u64,
    /// How long publishes may wait for consumers.
    timeout_ms: Option<u64>,
    /// Messages accepted, rejected or dropped in earlier lives.
    gone_before: BTreeSet<Copy>,
}

impl Ledger {
    pub(super) fn new(specs: BTreeMap<&'static str, Spec>, now_ms: u64) -> Self {
        Self { specs, now_ms, ..Self::default() }
    }

    pub(super) fn spec(&self, queue: &str) -> &Spec {
        self.specs.get(queue).expect("the queue is one of the world's")
    }

    /// From now on publishes may wait for so long, also those that wait already.
    pub(super) fn set_timeout(&mut self, timeout_ms: u64) {
        self.timeout_ms = Some(timeout_ms);
        let shortest_ms = &mut self.life.shortest_timeout_ms;
        *shortest_ms = Some(shortest_ms.map_or(timeout_ms, |shortest| shortest.min(timeout_ms)));
    }

    /// Whether it may have waited for too long; a dead letter has waited for less.
    fn may_time_out(&self, copy: Copy) -> bool {
        let at_ms = self.sent.get(&copy.id).map_or(self.now_ms, |sent| sent.at_ms);
        let timeout_ms = self.life.shortest_timeout_ms;
        timeout_ms.is_some_and(|timeout_ms| at_ms + timeout_ms <= self.now_ms)
    }

    /// Whether it must have waited for too long in a queue that it has not left.
    fn must_time_out(&self, copy: Copy, at_ms: u64) -> bool {
        let is_over = |timeout_ms| at_ms + timeout_ms + LATE_MS_MAX <= self.now_ms;
        self.timeout_ms.is_some_and(is_over) && !self.is_gone(copy) && !self.may_leave(copy)
    }

    /// Whether a queue has a record of each message that a consumer holds.
    pub(super) fn always_records(&self, queue: &str) -> bool {
        let spec = self.spec(queue);
        !spec.heeds_policies() && spec.confirm_on != Some("ack-direct")
    }

    /// The copy that a client was given.
    pub(super) fn copy_of(&self, queue: &'static str, given: &Given) -> Result<Copy, Violation> {
        let id = given.content.id().ok_or("a delivery without a number")?;
        let sent = self.sent.get(&id).ok_or("a message nobody published")?;
        let (was, is) = (&sent.content, &given.content);
        let is_letter = was.properties != is.properties;
        let is_whole = was.body == is.body
            && was.form == is.form
            && (is_letter || (&was.exchange, &was.key) == (&is.exchange, &is.key));
        if !is_whole {
            return Err(format!("m{id} came out as {is:?}"));
        }
        if !is_letter && !sent.queues.contains_key(queue) {
            return Err(format!("m{id} was not published to {queue}"));
        }
        Ok(Copy { id, queue, is_letter })
    }

    /// Whether a delivery may be; of dead letters, of which there may be several, less is known.
    pub(super) fn check_given(&self, copy: Copy, given: &Given) -> Result<(), Violation> {
        let Copy { id, queue, is_letter } = copy;
        let Life { accepted, rejected, delivered, found, .. } = &self.life;
        if is_letter {
            return Ok(());
        }
        if accepted.contains(&copy) || rejected.contains(&copy) {
            return Err(format!("m{id} of {queue} was settled, and is given again"));
        }
        let expected = delivered.contains(&copy) || found.get(&copy) == Some(&true);
        if given.redelivered != expected {
            return Err(format!("m{id} of {queue} should be marked {expected}"));
        }
        let sent = self.sent.get(&id).ok_or("a message nobody published")?;
        let is_of_this_life = !found.contains_key(&copy);
        match sent.answer.filter(|_| is_of_this_life && sent.is_late_in(queue)) {
            Some(true) => Err(format!("m{id} is confirmed, and given out by {queue}")),
            Some(false) if sent.queues.len() == 1 => {
                Err(format!("m{id} is refused, and given out by {queue}"))
            }
            Some(false) | None => Ok(()),
        }
    }

    /// Whether the publisher may be told so.
    pub(super) fn check_answer(&self, id: u64, is_ack: bool) -> Result<(), Violation> {
        let sent = self.sent.get(&id).ok_or("a message nobody published")?;
        if is_ack {
            let missing = sent.late().find(|queue| !self.is_consumed(Copy::first(id, queue)));
            return missing.map_or(Ok(()), |queue| {
                Err(format!("m{id} is confirmed, and nobody has had it from {queue}"))
            });
        }
        let may = |(queue, is_late): (&&'static str, &bool)| {
            sent.refusable.contains(queue) || (*is_late && self.may_be_lost(Copy::first(id, queue)))
        };
        if sent.queues.iter().any(may) { Ok(()) } else { Err(format!("m{id} is refused")) }
    }

    fn letter(copy: Copy, to: &'static str) -> Copy {
        Copy { id: copy.id, queue: to, is_letter: true }
    }

    /// Whether it may have left its queue by itself, or was rejected.
    fn may_leave(&self, copy: Copy) -> bool {
        self.life.rejected.contains(&copy) || self.spec(copy.queue).may_drop()
    }

    /// Whether a consumer has had it, or may have had its dead letters.
    fn is_consumed(&self, copy: Copy) -> bool {
        let letters_consumed = || {
            let to = self.spec(copy.queue).letters_to.as_deref().unwrap_or_default();
            !to.is_empty() && to.iter().all(|to| self.is_letter_confirmed(Self::letter(copy, to)))
        };
        self.life.accepted.contains(&copy) || (self.may_leave(copy) && letters_consumed())
    }

    fn is_letter_confirmed(&self, letter: Copy) -> bool {
        let Life { ever_plain, ever_missing, .. } = &self.life;
        ever_plain.contains(letter.queue)
            || ever_missing.contains(letter.queue)
            || self.is_consumed(letter)
    }

    /// Whether no consumer may have it, of a queue that confirms late.
    fn may_be_lost(&self, copy: Copy) -> bool {
        self.life.dropped.contains(&copy)
            || self.may_time_out(copy)
            || (self.may_leave(copy) && self.may_lose_letters(copy))
    }

    fn may_lose_letters(&self, copy: Copy) -> bool {
        let Some(to) = self.spec(copy.queue).letters_to.as_deref() else { return true };
        let may_lose = |to: &&'static str| {
            let spec = self.spec(to);
            self.life.ever_missing.contains(to)
                || spec.may_refuse()
                || spec.limits_pending()
                || spec.wants_consumer
                || self.may_be_lost(Self::letter(copy, to))
        };
        to.is_empty() || to.iter().any(may_lose)
    }

    /// Whether nothing is to be waited for any more.
    pub(super) fn must_be_answered(&self, id: u64) -> bool {
        let Some(sent) = self.sent.get(&id) else { return false };
        sent.late().all(|queue| self.is_surely_done(Copy::first(id, queue)))
            || sent.late().any(|queue| self.must_time_out(Copy::first(id, queue), sent.at_ms))
    }

    fn is_surely_done(&self, copy: Copy) -> bool {
        let Life { accepted, rejected, ever_late, .. } = &self.life;
        let letters_done = || match self.spec(copy.queue).letters_to.as_deref() {
            None => true,
            Some(to) => to
                .iter()
                .all(|to| !ever_late.contains(to) || self.is_surely_done(Self::letter(copy, to))),
        };
        accepted.contains(&copy) || (rejected.contains(&copy) && letters_done())
    }

    /// Whether a message of this life, or found at its start, must still be in that queue.
    pub(super) fn must_be_there(&self, copy: Copy) -> bool {
        let Some(sent) = self.sent.get(&copy.id) else { return false };
        let may_be_refused = sent.answer != Some(true) && sent.refusable.contains(copy.queue);
        let may_time_out = sent.is_late_in(copy.queue) && self.may_time_out(copy);
        let may_go = may_time_out || self.spec(copy.queue).may_drop();
        !may_be_refused && !self.is_gone(copy) && !may_go
    }

    fn is_gone(&self, copy: Copy) -> bool {
        let Life { accepted, rejected, dropped, .. } = &self.life;
        [accepted, rejected, dropped].iter().any(|set| set.contains(&copy))
    }

    /// The node has come back with this in its queues.
    pub(super) fn restart(
        &mut self,
        is_clean: bool,
        found: &BTreeMap<Copy, bool>,
    ) -> Result<(), Violation> {
        for copy in found.keys() {
            self.check_found(*copy)?;
        }
        for (id, sent) in &self.sent {
            for (queue, is_late) in &sent.queues {
                let copy = Copy::first(*id, queue);
                let is_kept = if *is_late {
                    is_clean && sent.is_large
                } else {
                    is_clean || sent.answer == Some(true) || sent.is_committed
                };
                let was_there = !self.gone_before.contains(&copy) && self.must_be_there(copy);
                let is_durable = self.spec(queue).durable && sent.content.persistent;
                if is_kept && is_durable && was_there && !found.contains_key(&copy) {
                    return Err(format!("m{id} of {queue} is lost"));
                }
            }
            self.check_letters(*id, sent, found)?;
        }
        self.begin_life(found);
        Ok(())
    }

    /// Checks that a message confirmed for its dead letter is in the queue of that letter.
    fn check_letters(
        &self,
        id: u64,
        sent: &Sent,
        found: &BTreeMap<Copy, bool>,
    ) -> Result<(), Violation> {
        for queue in sent.late().filter(|_| sent.answer == Some(true) && sent.content.persistent) {
            let first = Copy::first(id, queue);
            let to = self.spec(queue).letters_to.as_deref().unwrap_or_default();
            let was_rejected = self.life.rejected.contains(&first);
            for letter in to.iter().map(|to| Self::letter(first, to)).filter(|_| was_rejected) {
                let Life { ever_late, ever_missing, .. } = &self.life;
                let is_plain =
                    !ever_late.contains(letter.queue) && !ever_missing.contains(letter.queue);
                let is_durable = is_plain && self.spec(letter.queue).durable;
                if is_durable && self.must_be_there(letter) && !found.contains_key(&letter) {
                    return Err(format!("the dead letter of m{id} in {} is lost", letter.queue));
                }
            }
        }
        Ok(())
    }

    fn check_found(&self, copy: Copy) -> Result<(), Violation> {
        let Copy { id, queue, is_letter } = copy;
        let sent = self.sent.get(&id).ok_or("a message nobody published")?;
        if !self.spec(queue).durable || !sent.content.persistent {
            return Err(format!("m{id} of {queue} is back"));
        }
        if !is_letter && sent.is_late_in(queue) && !sent.is_large {
            return Err(format!("m{id} of {queue} was kept"));
        }
        Ok(())
    }

    fn begin_life(&mut self, found: &BTreeMap<Copy, bool>) {
        let Life { accepted, rejected, dropped, .. } = std::mem::take(&mut self.life);
        self.gone_before.extend(accepted.into_iter().chain(rejected).chain(dropped));
        // What no start has found is gone, too: what is published under its number is no more.
        for (id, sent) in &self.sent {
            let copies = sent.queues.keys().map(|queue| Copy::first(*id, queue));
            self.gone_before.extend(copies.filter(|copy| !found.contains_key(copy)));
        }
        self.life.found.clone_from(found);
    }

    /// The messages that may be in a queue.
    pub(super) fn copies_in(&self, queue: &'static str) -> Vec<Copy> {
        let ids = self.sent.keys();
        ids.flat_map(|id| [false, true].map(|is_letter| Copy { id: *id, queue, is_letter }))
            .collect()
    }

    /// A message published or found in this life that must be in its queue, and may not be at the end.
    pub(super) fn left(&self) -> Option<Copy> {
        let published = self
            .sent
            .iter()
            .flat_map(|(id, sent)| sent.queues.keys().map(|queue| Copy::first(*id, queue)));
        let mut of_this_life = published.filter(|copy| !self.gone_before.contains(copy));
        of_this_life.find(|copy| self.must_be_there(*copy))
    }
}
