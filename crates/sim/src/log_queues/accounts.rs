//! The invariants of the quorum queues of a node that has started again: nothing is lost but by a rule or a
//! client, nothing is twice, nothing is back.

use super::ledger::Violation;
use super::quorum::{At, Life, QuorumLedger, Sent};
use super::rules::Rules;
use crate::seen::Seen;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The quorum queues after a start, as they are on a copy on which time goes on until nothing waits.
#[derive(Debug, Default)]
pub(super) struct Peeked {
    /// The messages of each queue, in the order they come out.
    pub(super) found: BTreeMap<&'static str, Vec<Seen>>,
    /// How many dead letters of each queue have yet to arrive.
    pub(super) departing: BTreeMap<&'static str, u64>,
    /// Queues that have expired meanwhile.
    pub(super) expired: BTreeSet<&'static str>,
    /// The time at the end.
    pub(super) now_ms: u64,
}

impl Peeked {
    fn has(&self, (id, queue): At) -> bool {
        self.found.get(queue).is_some_and(|found| found.iter().any(|seen| seen.id == id))
    }
}

impl QuorumLedger {
    /// Whether a message may be dead in a queue for that reason.
    pub(super) fn may_die(&self, (id, queue): At, reason: &str, now_ms: u64) -> bool {
        let Some(sent) = self.sent.get(&id) else { return false };
        let mut ever = self.ever(queue);
        match reason {
            "expired" => {
                let is_over = |ttl_ms: u64| now_ms >= sent.published_ms + ttl_ms;
                let own = sent.deadline_ms.filter(|_| sent.queue == queue);
                own.is_some_and(|at_ms| now_ms >= at_ms)
                    || ever.any(|rules| rules.ttl_ms.is_some_and(is_over))
            }
            "maxlen" => ever.any(Rules::may_drop),
            "rejected" => self.past.rejected.contains(&(id, queue)),
            "delivery_limit" => {
                // Of what was on its way to a client when the node ended, only the node knows.
                let n_failed = self.past.n_failed.get(&(id, queue)).copied().unwrap_or(0);
                let n_failed = n_failed + self.past.n_starts;
                ever.any(|rules| rules.delivery_limit().is_some_and(|limit| n_failed > limit))
            }
            _ => false,
        }
    }

    /// Whether a rule or a client may have taken a message out of a queue, to where its dead letters go.
    pub(super) fn may_leave(&self, at: At, now_ms: u64) -> bool {
        let reasons = ["expired", "maxlen", "rejected", "delivery_limit"];
        reasons.iter().any(|reason| self.may_die(at, reason, now_ms))
    }

    /// Whether a message that was in `queue` is there, or where it may have gone from there. `stuck` gets it
    /// if its dead letter has to be on the way.
    fn is_accounted(
        &self,
        at: At,
        peeked: &Peeked,
        path: &mut Vec<&'static str>,
        stuck: &mut BTreeSet<At>,
    ) -> bool {
        let (id, queue) = at;
        if peeked.expired.contains(queue) {
            return true;
        }
        if peeked.has(at) || self.past.consumed.contains(&at) || self.past.dropped.contains(&at) {
            return true;
        }
        if !self.may_leave(at, peeked.now_ms) {
            return false;
        }
        let Some(targets) = self.letters_to(queue) else { return true };
        let is_at_least_once = self.rules(queue).is_at_least_once();
        path.push(queue);
        let arrived = targets.iter().all(|target| {
            // A cycle may have ended there, a full queue may have sent it away.
            let may_be_lost = self.past.ever_missing.contains(target)
                || (!is_at_least_once && self.ever(target).any(Rules::may_refuse));
            path.contains(target)
                || may_be_lost
                || self.is_accounted((id, target), peeked, path, stuck)
        });
        path.pop();
        if is_at_least_once && (targets.is_empty() || !arrived) {
            stuck.insert(at);
            return true;
        }
        arrived
    }

    fn check_all(&self, peeked: &Peeked) -> Result<(), Violation> {
        let mut stuck = BTreeSet::new();
        let sure = self.sent.iter().filter(|(_, sent)| sent.is_sure);
        for (id, Sent { queue, .. }) in sure {
            if !self.is_accounted((*id, queue), peeked, &mut Vec::new(), &mut stuck) {
                return Err(format!("m{id} of {queue} is lost"));
            }
        }
        // Whether it is the first queue that has yet to send it, or one of the others, does not matter.
        let missing: BTreeSet<u64> = stuck.into_iter().map(|(id, _)| id).collect();
        if missing.len() as u64 > peeked.departing.values().sum() {
            return Err(format!("of {missing:?} some are lost: {:?}", peeked.departing));
        }
        Ok(())
    }

    /// Messages that never came back stand in their order, higher priorities first, none of them twice.
    fn check_order(&self, peeked: &Peeked) -> Result<(), Violation> {
        for (queue, found) in &peeked.found {
            let alive: Vec<&Seen> = found.iter().filter(|seen| seen.deaths.is_empty()).collect();
            let ids: BTreeSet<u64> = alive.iter().map(|seen| seen.id).collect();
            if ids.len() < alive.len() {
                return Err(format!("a message is twice in {queue}"));
            }
            let rank = |seen: &Seen| {
                let sent = self.sent.get(&seen.id).filter(|sent| sent.n_attempts == 1)?;
                Some((Reverse(sent.priority), seen.id))
            };
            let fresh = alive.iter().filter(|seen| !seen.is_counted());
            let ranks: Vec<_> = fresh.filter_map(|seen| rank(seen)).collect();
            if let Some((a, b)) = ranks.iter().zip(ranks.iter().skip(1)).find(|(a, b)| a >= b) {
                return Err(format!("m{} stands before m{} in {queue}", a.1, b.1));
            }
        }
        Ok(())
    }

    /// The node has started again, and has this.
    pub(super) fn restart(&mut self, peeked: &Peeked) -> Result<(), Violation> {
        self.check_all(peeked)?;
        self.check_order(peeked)?;
        let (mut found, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for (id, sent) in self.sent.iter().filter(|(_, sent)| !sent.is_over) {
            let at = (*id, sent.queue);
            if peeked.has(at) {
                found.insert(at);
            } else if !self.may_leave(at, peeked.now_ms) && !peeked.expired.contains(sent.queue) {
                missing.insert(*id);
            }
        }
        for (id, sent) in &mut self.sent {
            // What is here is durable now; what is not is not looked for any more.
            sent.is_sure = found.contains(&(*id, sent.queue));
            sent.expected = None;
        }
        // What clients did with it was not durable.
        self.past.consumed.retain(|at| !found.contains(at));
        self.past.missing.extend(missing);
        let before = self.sent.last_key_value().map_or(0, |(id, _)| *id);
        self.life = Life::of(found, before);
        Ok(())
    }
}
