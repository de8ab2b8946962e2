//! The ledger of quorum queues: what was published, what clients did with it, and by which rules it may have
//! gone. Nobody says when a rule acts, so what a client is given is held against the rules one by one, and
//! after each start every message is asked where it is ([`accounts`](super::accounts)).

use super::ledger::Violation;
use super::rules::{LettersTo, Policy, Rules};
use crate::seen::Seen;
use session::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given};

/// A message in a queue.
pub(super) type At = (u64, &'static str);

/// The name of a publisher, and the message's number among that publisher's.
pub(super) type Named = (&'static str, u64);

/// A message in a queue, as often as it had died before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Copy {
    pub(super) id: u64,
    pub(super) queue: &'static str,
    pub(super) n_deaths: u64,
}

impl Copy {
    const fn at(self) -> At {
        (self.id, self.queue)
    }
}

/// A message that was published.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) queue: &'static str,
    pub(super) published_ms: u64,
    pub(super) expiration_ms: Option<u64>,
    /// When it is to leave its queue, at the earliest.
    pub(super) deadline_ms: Option<u64>,
    pub(super) priority: u8,
    pub(super) content: Content,
    pub(super) named: Option<Named>,
    pub(super) n_attempts: u32,
    /// The only answer there may be, if there is only one.
    pub(super) expected: Option<bool>,
    pub(super) answer: Option<bool>,
    /// Whether the message has to be somewhere unless a rule or a client took it.
    pub(super) is_sure: bool,
    /// Its queue is gone: it may never come back.
    pub(super) is_over: bool,
}

/// How often a message was given out in this life, and how often that failed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    n_given: u64,
    n_failed: u64,
}

/// Everything that happened since the node has started.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// Messages up to this number were published before.
    before: u64,
    counts: BTreeMap<Copy, Counts>,
    /// Clients are done with these.
    settled: BTreeSet<Copy>,
    /// Not to be given out again before that.
    waits_until: BTreeMap<Copy, u64>,
    /// Were there at the start.
    pub(super) found: BTreeSet<At>,
    /// Were purged while nobody held them.
    purged: BTreeSet<At>,
}

impl Life {
    /// A life that begins with these messages, behind the one with this number.
    pub(super) fn of(found: BTreeSet<At>, before: u64) -> Self {
        Self { before, found, ..Self::default() }
    }
}

/// Everything that clients ever did.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    pub(super) consumed: BTreeSet<At>,
    pub(super) rejected: BTreeSet<At>,
    pub(super) n_failed: BTreeMap<At, u64>,
    /// Purged, or deleted with their queues, or perhaps.
    pub(super) dropped: BTreeSet<At>,
    /// Queues that were not there once: what was to go there may be lost.
    pub(super) ever_missing: BTreeSet<&'static str>,
    /// Not found by a start, though no rule took them: they may not come back.
    pub(super) missing: BTreeSet<u64>,
    pub(super) n_starts: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct QuorumLedger {
    /// As the queues are declared.
    pub(super) rules: BTreeMap<&'static str, Rules>,
    /// The queue that the policy is for, or all of them.
    policy: Option<(Option<&'static str>, Policy)>,
    /// All rules that a queue ever had.
    ever: BTreeMap<&'static str, Vec<Rules>>,
    pub(super) sent: BTreeMap<u64, Sent>,
    pub(super) life: Life,
    pub(super) past: Past,
    pub(super) now_ms: u64,
}

impl QuorumLedger {
    pub(super) fn new(rules: BTreeMap<&'static str, Rules>, now_ms: u64) -> Self {
        let ever = rules.iter().map(|(queue, rules)| (*queue, vec![*rules])).collect();
        Self { rules, ever, now_ms, ..Self::default() }
    }

    /// The rules that a queue has now.
    pub(super) fn rules(&self, queue: &str) -> Rules {
        let declared = self.rules.get(queue).copied().unwrap_or_default();
        match &self.policy {
            Some((of, policy)) if of.is_none_or(|of| of == queue) => declared.with(policy),
            Some(_) | None => declared,
        }
    }

    pub(super) fn ever(&self, queue: &str) -> impl Iterator<Item = &Rules> {
        self.ever.get(queue).into_iter().flatten()
    }

    pub(super) const fn policy(&self) -> Option<(Option<&'static str>, Policy)> {
        self.policy
    }

    /// A policy is about to be there.
    pub(super) fn set_policy(&mut self, of: Option<&'static str>, policy: Policy) {
        self.policy = Some((of, policy));
        for queue in self.rules.keys().copied().collect::<Vec<_>>() {
            let rules = self.rules(queue);
            self.ever.entry(queue).or_default().push(rules);
        }
    }

    /// The queues a queue's dead letters go to.
    pub(super) fn letters_to(&self, queue: &str) -> Option<Vec<&'static str>> {
        Some(match self.rules.get(queue)?.letters?.to {
            LettersTo::Queue(queue) => vec![queue],
            LettersTo::Fanout => {
                let bound = self.rules.iter().filter(|(_, rules)| rules.on_fanout);
                bound.map(|(queue, _)| *queue).collect()
            }
            LettersTo::Nowhere => Vec::new(),
        })
    }

    /// The time at which a message that is published now is to leave its queue.
    pub(super) fn deadline_ms(&self, queue: &str, expiration_ms: Option<u64>) -> Option<u64> {
        let ttl_ms = self.rules(queue).ttl_ms.into_iter().chain(expiration_ms).min()?;
        Some(self.now_ms + ttl_ms)
    }

    /// A named message is published once more.
    pub(super) fn resend(&mut self, id: u64) {
        let Some(sent) = self.sent.get(&id) else { return };
        let deadline_ms = self.deadline_ms(sent.queue, sent.expiration_ms);
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.deadline_ms = sent.deadline_ms.into_iter().chain(deadline_ms).min();
            sent.n_attempts += 1;
            self.past.missing.remove(&id);
        }
    }

    /// A publisher is answered.
    pub(super) fn answer(&mut self, id: u64, is_ack: bool) -> Result<(), Violation> {
        let Some(sent) = self.sent.get(&id) else { return Ok(()) };
        let (queue, n_attempts) = (sent.queue, sent.n_attempts);
        if n_attempts == 1 && sent.expected.is_some_and(|expected| expected != is_ack) {
            return Err(format!("m{id} of {queue} is answered {is_ack}"));
        }
        let may_refuse = |rules: &Rules| rules.may_refuse() || rules.confirms_late;
        if !is_ack && !self.ever(queue).any(may_refuse) {
            return Err(format!("m{id} is refused by {queue}"));
        }
        if !is_ack && sent.answer == Some(true) && !self.rules(queue).confirms_late {
            return Err(format!("m{id} is confirmed, and refused by {queue}"));
        }
        if is_ack && !sent.is_over && self.rules(queue).confirms_late {
            self.check_consumed((id, queue))?;
        }
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.answer = Some(is_ack || sent.answer == Some(true));
            sent.is_sure |= is_ack && !sent.is_over;
        }
        Ok(())
    }

    /// A message of a queue that confirms late is confirmed: a consumer has had it, or its dead letters are
    /// elsewhere.
    fn check_consumed(&self, at: At) -> Result<(), Violation> {
        let has_letters = || {
            let to = self.letters_to(at.1).unwrap_or_default();
            !to.is_empty() && self.may_leave(at, self.now_ms)
        };
        if self.past.consumed.contains(&at) || has_letters() {
            return Ok(());
        }
        Err(format!("m{} of {} is confirmed, and nobody has had it", at.0, at.1))
    }

    /// A client is given a message. `is_prompt` if it is given everything as soon as that is assigned.
    pub(super) fn take_given(
        &mut self,
        queue: &'static str,
        given: &Given,
        is_prompt: bool,
    ) -> Result<(Copy, Seen), Violation> {
        let seen = Seen::of(given)?;
        let copy = Copy { id: seen.id, queue, n_deaths: seen.n_deaths() };
        self.check_content(queue, (given, &seen), self.now_ms)?;
        if !self.is_loose(copy) {
            self.check_again(copy, &seen)?;
        }
        if is_prompt && copy.n_deaths == 0 {
            self.check_time(copy)?;
        }
        self.life.counts.entry(copy).or_default().n_given += 1;
        Ok((copy, seen))
    }

    /// Whether there may be several of it: dead letters that a crash has repeated, and messages that were
    /// refused and came again.
    pub(super) fn is_loose(&self, copy: Copy) -> bool {
        let sent = self.sent.get(&copy.id);
        let may_be_new = |sent: &Sent| {
            let rules = self.rules(sent.queue);
            sent.n_attempts > 1 && (rules.may_refuse() || rules.confirms_late)
        };
        (copy.n_deaths > 0 && self.past.n_starts > 0) || sent.is_none_or(may_be_new)
    }

    /// Checks what the broker tells about earlier deliveries.
    fn check_again(&self, copy: Copy, seen: &Seen) -> Result<(), Violation> {
        let Copy { id, queue, n_deaths } = copy;
        let Counts { n_given, n_failed } = self.life.counts.get(&copy).copied().unwrap_or_default();
        if self.life.settled.contains(&copy) {
            return Err(format!("m{id} of {queue} was settled, and is given again"));
        }
        if n_deaths == 0 && self.life.purged.contains(&copy.at()) {
            return Err(format!("m{id} of {queue} was purged, and is given out"));
        }
        let was_found = n_deaths == 0 && self.life.found.contains(&copy.at());
        if was_found && !seen.redelivered {
            return Err(format!("m{id} of {queue} has lost its mark"));
        }
        // Of one that waited at the start, or expired as it was looked for, nothing is known.
        if was_found || id <= self.life.before {
            return Ok(());
        }
        if seen.redelivered != (seen.n_acquired > 0) || seen.n_acquired < n_given {
            return Err(format!("m{id} of {queue}, given {n_given} times, is given as {seen:?}"));
        }
        if seen.n_failed != n_failed {
            return Err(format!("m{id} of {queue}, failed {n_failed} times, is given as {seen:?}"));
        }
        Ok(())
    }

    /// Checks that a message is given out neither after its time nor before it.
    fn check_time(&mut self, copy: Copy) -> Result<(), Violation> {
        let Copy { id, queue, .. } = copy;
        let sent = self.sent.get(&id).filter(|sent| sent.n_attempts == 1);
        // One that expires at once is given to a consumer that waits for it.
        let before = sent.filter(|sent| sent.published_ms < self.now_ms);
        if before.and_then(|sent| sent.deadline_ms).is_some_and(|at_ms| at_ms <= self.now_ms) {
            return Err(format!("m{id} of {queue} is given out after its time"));
        }
        let waits_until = self.life.waits_until.remove(&copy).unwrap_or(0);
        if waits_until > self.now_ms && sent.is_some() {
            return Err(format!("m{id} of {queue} is given out before {waits_until}"));
        }
        Ok(())
    }

    /// Checks that a message is as it was published, and has died only as it may, until `now_ms`.
    pub(super) fn check_content(
        &self,
        queue: &'static str,
        (given, seen): (&Given, &Seen),
        now_ms: u64,
    ) -> Result<(), Violation> {
        let id = seen.id;
        let sent = self.sent.get(&id).ok_or_else(|| format!("nobody published m{id}"))?;
        if given.content.body != sent.content.body || given.content.form != sent.content.form {
            return Err(format!("m{id} of {queue} has another body"));
        }
        let limits: Option<Vec<u64>> = self.ever(queue).map(Rules::delivery_limit).collect();
        let limit = limits.and_then(|limits| limits.into_iter().max());
        if limit.is_some_and(|limit| seen.n_failed > limit) {
            return Err(format!("m{id} of {queue} has failed {} times", seen.n_failed));
        }
        if seen.deaths.is_empty() {
            return self.check_alive(queue, given, seen, sent);
        }
        self.check_deaths(queue, seen, now_ms)
    }

    fn check_alive(
        &self,
        queue: &str,
        given: &Given,
        seen: &Seen,
        sent: &Sent,
    ) -> Result<(), Violation> {
        let id = seen.id;
        if sent.queue != queue {
            return Err(format!("m{id} got from {} to {queue} alive", sent.queue));
        }
        if sent.is_over || self.past.missing.contains(&id) {
            return Err(format!("m{id} is back in {queue}"));
        }
        let is_late = self.rules(queue).confirms_late;
        if sent.answer == Some(false) && sent.n_attempts == 1 && !is_late {
            return Err(format!("m{id} is in {queue}, which refused it"));
        }
        if !seen.is_counted() && given.content.properties != sent.content.properties {
            return Err(format!("m{id} of {queue} has other properties"));
        }
        Ok(())
    }

    fn check_deaths(&self, queue: &'static str, seen: &Seen, now_ms: u64) -> Result<(), Violation> {
        let id = seen.id;
        for death in &seen.deaths {
            let name = self.rules.keys().find(|queue| **queue == death.queue);
            let name = name.ok_or_else(|| format!("m{id} has died in {}", death.queue))?;
            if !self.may_die((id, *name), &death.reason, now_ms) {
                return Err(format!("m{id} cannot have died in {name}: {}", death.reason));
            }
        }
        let from = seen.deaths.first().map_or("", |newest| newest.queue.as_str());
        if !self.letters_to(from).is_some_and(|targets| targets.contains(&queue)) {
            return Err(format!("m{id} of {from} does not go to {queue}"));
        }
        if seen.has_been_in(queue) {
            return Err(format!("m{id} goes round in a circle, through {queue}"));
        }
        Ok(())
    }

    /// A client settles what it holds.
    pub(super) fn settle(&mut self, copy: Copy, outcome: Outcome) {
        let at = copy.at();
        match outcome {
            Outcome::Accepted => {
                self.life.settled.insert(copy);
                self.past.consumed.insert(at);
            }
            Outcome::Rejected => {
                self.life.settled.insert(copy);
                self.past.rejected.insert(at);
            }
            Outcome::Modified => self.come_back(copy, true),
            Outcome::Released => self.come_back(copy, false),
        }
    }

    /// A message comes back that a client held.
    pub(super) fn come_back(&mut self, copy: Copy, has_failed: bool) {
        let counts = self.life.counts.entry(copy).or_default();
        if has_failed {
            counts.n_failed += 1;
            *self.past.n_failed.entry(copy.at()).or_default() += 1;
        }
        let n_failed = counts.n_failed;
        let until_ms = self.now_ms + self.rules(copy.queue).wait_ms(has_failed, n_failed);
        self.life.waits_until.insert(copy, until_ms);
    }

    /// A queue was purged, while clients held these. `is_known` if nothing was on its way to a client.
    pub(super) fn purge(&mut self, queue: &'static str, held: &BTreeSet<u64>, is_known: bool) {
        let ids = self.sent.iter().filter(|(id, _)| !held.contains(id));
        for (id, sent) in ids {
            self.past.dropped.insert((*id, queue));
            if is_known && sent.queue == queue && sent.is_sure {
                self.life.purged.insert((*id, queue));
            }
        }
    }

    /// A queue is there no more.
    pub(super) fn remove(&mut self, queue: &'static str) {
        self.past.ever_missing.insert(queue);
        self.past.dropped.extend(self.sent.keys().map(|id| (*id, queue)));
    }

    /// Whether a queue was declared anew is not known: nor whether it has what was confirmed, and whether
    /// dead letters found it.
    pub(super) fn doubt(&mut self, queue: &'static str) {
        self.past.ever_missing.insert(queue);
        let of_queue = self.sent.values_mut().filter(|sent| sent.queue == queue);
        of_queue.for_each(|sent| sent.answer = None);
    }

    /// A queue was declared anew: what was in an earlier one is gone for good.
    pub(super) fn declared(&mut self, queue: &'static str) {
        let of_queue = self.sent.values_mut().filter(|sent| sent.queue == queue);
        of_queue.for_each(|sent| (sent.is_over, sent.is_sure) = (true, false));
    }
}
