//! The invariants of the queues of a node that has started again, or is at its end: nothing is lost but by a
//! rule or a client, nothing is twice, nothing is back.

use super::ledger::{At, Ledger, Life, Violation};
use super::rules::Rules;
use crate::seen::Seen;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The queues after a start, as they are on a copy, or at the end of a run.
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
    /// The node has started again.
    pub(super) is_start: bool,
}

/// Where a message is looked for.
#[derive(Default)]
struct Search {
    path: Vec<&'static str>,
    /// Messages whose dead letters have to be on the way.
    stuck: BTreeSet<At>,
}

impl Peeked {
    /// All places where messages are, and whether they are marked there.
    fn places(&self) -> BTreeMap<At, bool> {
        let of_queue = |(queue, found): (&&'static str, &Vec<Seen>)| {
            let queue = *queue;
            let at = |seen: &Seen| At { id: seen.id, queue, is_letter: !seen.deaths.is_empty() };
            found.iter().map(|seen| (at(seen), seen.redelivered)).collect::<Vec<_>>()
        };
        self.found.iter().flat_map(of_queue).collect()
    }
}

impl Ledger {
    /// Whether a message is in a queue, or a client has taken it there.
    fn is_at(&self, at: At, peeked: &Peeked) -> bool {
        let At { id, queue, is_letter } = at;
        let is_there = peeked.found.get(queue).is_some_and(|found| {
            found.iter().any(|seen| seen.id == id && seen.deaths.is_empty() != is_letter)
        });
        is_there || self.past.consumed.contains(&at) || self.past.dropped.contains(&at)
    }

    /// Whether a message is where it was, or where it may have gone from there.
    fn is_accounted(&self, at: At, peeked: &Peeked, search: &mut Search) -> bool {
        let At { id, queue, is_letter } = at;
        let sent = self.sent.get(&id);
        let places = sent.filter(|sent| sent.is_moved).map(|sent| sent.to.keys());
        // A client may have rejected it there.
        let is_done = |at| self.is_at(at, peeked) || self.past.rejected.contains(&at);
        if places.is_some_and(|mut places| places.any(|it| is_done(At::first(id, it)))) {
            return true;
        }
        if self.is_at(at, peeked) {
            return true;
        }
        let to = sent.and_then(|sent| sent.to.get(queue)).filter(|_| !is_letter);
        let is_late = to.map_or_else(|| self.life.ever_late.contains(queue), |to| to.is_late);
        if peeked.expired.contains(queue) || (is_late && self.may_time_out(id)) {
            return true;
        }
        if !self.may_leave(at, peeked.now_ms) {
            return false;
        }
        let Some(targets) = self.letters_to(queue) else { return true };
        let is_at_least_once = self.rules(queue).is_at_least_once();
        search.path.push(queue);
        let arrived = targets.iter().all(|target| {
            // A cycle may have ended there, a full queue may have sent it away.
            search.path.contains(target)
                || self.may_lose_letter(target, is_at_least_once, peeked)
                || self.is_accounted(at.letter(target), peeked, search)
        });
        search.path.pop();
        if is_at_least_once && (targets.is_empty() || !arrived) {
            search.stuck.insert(at);
            return true;
        }
        arrived
    }

    fn may_lose_letter(&self, to: &str, is_at_least_once: bool, peeked: &Peeked) -> bool {
        let may_refuse = |rules: &Rules| rules.may_refuse() || rules.may_refuse_to_wait();
        // Queues that confirm late keep little.
        let is_late = self.life.ever_late.contains(to) && !self.rules(to).is_quorum;
        !self.rules.contains_key(to)
            || self.life.ever_missing.contains(to)
            || (peeked.is_start && is_late)
            || (!is_at_least_once && self.ever(to).any(may_refuse))
    }

    /// Checks that everything is somewhere that has to be.
    pub(super) fn check_all(&self, peeked: &Peeked) -> Result<(), Violation> {
        let mut search = Search::default();
        for at in &self.sure {
            let Some(sent) = self.sent.get(&at.id) else { continue };
            let may_refuse = sent.to.get(at.queue).is_some_and(|to| to.may_refuse)
                || self.ever(at.queue).any(Rules::may_refuse);
            if sent.answer != Some(true) && may_refuse {
                continue;
            }
            if !self.is_accounted(*at, peeked, &mut search) {
                return Err(format!("m{} of {} is lost", at.id, at.queue));
            }
        }
        // Whether it is the first queue that has yet to send it, or one of the others, does not matter.
        let missing: BTreeSet<u64> = search.stuck.into_iter().map(|at| at.id).collect();
        if missing.len() as u64 > peeked.departing.values().sum() {
            return Err(format!("of {missing:?} some are lost: {:?}", peeked.departing));
        }
        Ok(())
    }

    /// Checks that messages stand in their order, higher priorities first, none of them twice.
    fn check_order(&self, peeked: &Peeked) -> Result<(), Violation> {
        for (queue, found) in &peeked.found {
            let is_moved = |id: u64| self.sent.get(&id).is_some_and(|sent| sent.is_moved);
            let is_alive = |seen: &&Seen| seen.deaths.is_empty() && !is_moved(seen.id);
            let alive: Vec<&Seen> = found.iter().filter(is_alive).collect();
            let ids: BTreeSet<u64> = alive.iter().map(|seen| seen.id).collect();
            if ids.len() < alive.len() {
                return Err(format!("a message is twice in {queue}"));
            }
            let rules = self.rules(queue);
            let rank = |seen: &Seen| {
                let sent = self.sent.get(&seen.id).filter(|sent| sent.is_in_order)?;
                Some((Reverse(rules.priority(sent.priority)), seen.id))
            };
            // In classic queues what came back is where it was.
            let fresh = alive.iter().filter(|seen| !rules.is_quorum || !seen.is_counted());
            let mut ranks: Vec<_> = fresh.filter_map(|seen| rank(seen)).collect();
            if rules.is_quorum && self.is_credit_taken_back {
                ranks.sort_by_key(|(priority, _)| *priority);
            }
            if let Some((a, b)) = ranks.iter().zip(ranks.iter().skip(1)).find(|(a, b)| a >= b) {
                return Err(format!("m{} stands before m{} in {queue}", a.1, b.1));
            }
        }
        Ok(())
    }

    /// Checks that nothing has survived that is not kept.
    fn check_kept(&self, found: &BTreeMap<At, bool>) -> Result<(), Violation> {
        for At { id, queue, is_letter } in found.keys() {
            let sent = self.sent.get(id).ok_or_else(|| format!("nobody published m{id}"))?;
            let rules = self.rules(queue);
            if !rules.is_quorum && (rules.is_transient || !sent.content.persistent) {
                return Err(format!("transient m{id} survived in {queue}"));
            }
            let is_late = sent.is_late_in(queue) && !rules.is_quorum;
            if !is_letter && is_late && !sent.is_large {
                return Err(format!("m{id} of {queue} was kept"));
            }
        }
        Ok(())
    }

    /// Whether a message that was to be in a queue is to be there after a restart.
    fn is_kept(&self, at: At, is_clean: bool) -> bool {
        let Some(sent) = self.sent.get(&at.id) else { return false };
        let is_acked = sent.answer == Some(true);
        let rules = self.rules(at.queue);
        if rules.is_quorum {
            return is_acked || is_clean;
        }
        // What was confirmed late was consumed, or its dead letters are elsewhere.
        let is_safe = if sent.is_late_in(at.queue) {
            is_acked || (is_clean && sent.is_large)
        } else {
            is_acked || is_clean || sent.is_committed
        };
        is_safe && sent.content.persistent && (!rules.is_transient || sent.is_late_in(at.queue))
    }

    /// The node has started again, and has this.
    pub(super) fn restart(&mut self, is_clean: bool, peeked: &Peeked) -> Result<(), Violation> {
        let sure = std::mem::take(&mut self.sure);
        self.sure = sure.into_iter().filter(|at| self.is_kept(*at, is_clean)).collect();
        let found = peeked.places();
        self.check_kept(&found)?;
        self.check_all(peeked)?;
        self.check_order(peeked)?;
        let (mut sure, mut missing) = (BTreeSet::new(), BTreeSet::new());
        let here: BTreeSet<u64> = found.keys().map(|at| at.id).collect();
        self.sent.values_mut().for_each(|sent| sent.expected = None);
        for (id, sent) in &self.sent {
            for queue in sent.to.keys().filter(|queue| sent.is_of(queue)) {
                let at = At::first(*id, queue);
                let is_only = sent.to.len() == 1 && !self.rules(queue).is_quorum;
                let was_sure = is_only && self.sure.contains(&at) && here.contains(id);
                let is_loose = self.may_leave(at, peeked.now_ms) || self.may_be_refused_yet(at);
                if found.contains_key(&at) || was_sure {
                    sure.insert(at);
                } else if !is_loose && !peeked.expired.contains(queue) {
                    missing.insert(at);
                }
            }
        }
        self.sure = sure;
        // What clients did with it was not durable.
        self.past.consumed.retain(|at| !found.contains_key(at));
        self.past.missing.extend(missing);
        let before = self.sent.last_key_value().map_or(0, |(id, _)| *id);
        self.life = Life::of(found, before);
        let (mut seen, all) = (BTreeSet::new(), peeked.found.values().flatten());
        self.life.doubled = all.map(|seen| seen.id).filter(|id| !seen.insert(*id)).collect();
        Ok(())
    }

    /// Whether a message may have been refused, of which its publisher need not have been told.
    fn may_be_refused_yet(&self, at: At) -> bool {
        !self.rules(at.queue).is_quorum && self.ever(at.queue).any(Rules::may_refuse)
    }
}
