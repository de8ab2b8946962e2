//! The ledger: what was published, confirmed, delivered and settled, and by which rules it may have gone.
//! Nobody says when a rule acts, so what a client is given is held against the rules one by one, and after
//! each start every message is asked where it is ([`accounts`](super::accounts)).

use super::rules::{LettersTo, Policy, Rules};
use crate::seen::{Framed, Parts, Seen, is_framed};
use session::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given};

/// The violated rule, in words.
pub(super) type Violation = String;

/// The name of a publisher, and the message's number among that publisher's.
pub(super) type Named = (&'static str, u64);

/// A message in a queue, as it was published there or as a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) id: u64,
    pub(super) queue: &'static str,
    pub(super) is_letter: bool,
}

impl At {
    /// The message where it was published to.
    pub(super) const fn first(id: u64, queue: &'static str) -> Self {
        Self { id, queue, is_letter: false }
    }

    /// Its dead letter in another queue.
    pub(super) const fn letter(self, queue: &'static str) -> Self {
        Self { id: self.id, queue, is_letter: true }
    }
}

/// A message in a queue, as often as it had died before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Copy {
    pub(super) id: u64,
    pub(super) queue: &'static str,
    pub(super) n_deaths: u64,
}

impl Copy {
    pub(super) const fn at(self) -> At {
        At { id: self.id, queue: self.queue, is_letter: self.n_deaths > 0 }
    }
}

/// A queue that a publish was routed to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routed {
    /// It confirmed once a consumer has had the message.
    pub(super) is_late: bool,
    pub(super) may_refuse: bool,
    /// It is gone: the message may never come back.
    pub(super) is_over: bool,
    /// When the message is to leave, at the earliest.
    pub(super) deadline_ms: Option<u64>,
}

/// A message that was published.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Sent {
    pub(super) to: BTreeMap<&'static str, Routed>,
    pub(super) published_ms: u64,
    pub(super) expiration_ms: Option<u64>,
    pub(super) priority: u8,
    pub(super) content: Content,
    /// Its body is stored apart where several queues hold it: queues that confirm late keep it, too.
    pub(super) is_large: bool,
    pub(super) named: Option<Named>,
    pub(super) n_attempts: u32,
    /// An operator has sent it from queue to queue: it is in one of them at least.
    pub(super) is_moved: bool,
    /// Came in behind all messages with lower numbers.
    pub(super) is_in_order: bool,
    /// The only answer there may be, if there is only one.
    pub(super) expected: Option<bool>,
    pub(super) answer: Option<bool>,
    /// The transaction it is part of is done.
    pub(super) is_committed: bool,
}

impl Sent {
    /// The queues that confirm it once a consumer has had it.
    pub(super) fn late(&self) -> impl Iterator<Item = &'static str> + Clone + '_ {
        self.to.iter().filter(|(_, to)| to.is_late && !to.is_over).map(|(queue, _)| *queue)
    }

    /// Whether a queue that it was published to is still the same.
    pub(super) fn is_of(&self, queue: &str) -> bool {
        self.to.get(queue).is_some_and(|to| !to.is_over)
    }

    pub(super) fn is_late_in(&self, queue: &str) -> bool {
        self.to.get(queue).is_some_and(|to| to.is_late)
    }
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
    pub(super) before: u64,
    counts: BTreeMap<Copy, Counts>,
    /// Clients are done with these.
    settled: BTreeSet<Copy>,
    /// Not to be given out again before that.
    waits_until: BTreeMap<Copy, u64>,
    /// Were there at the start, and whether they were marked redelivered.
    pub(super) found: BTreeMap<At, bool>,
    /// Were there several times at the start.
    pub(super) doubled: BTreeSet<u64>,
    /// Were purged while nobody held them.
    purged: BTreeSet<At>,
    /// Queues that have confirmed at once at times.
    pub(super) ever_plain: BTreeSet<&'static str>,
    /// Queues that have confirmed late at times.
    pub(super) ever_late: BTreeSet<&'static str>,
    /// Not to be given out again before that, as a client has said.
    not_before: BTreeMap<Copy, u64>,
    /// The newest annotation that a client has given a message back with.
    notes: BTreeMap<Copy, u64>,
    /// Queues a link to which is gone: what it was sent and has not seen counts as given, or as failed.
    unsure: BTreeSet<&'static str>,
    /// Queues that were missing at times: what was to go there may be lost.
    pub(super) ever_missing: BTreeSet<&'static str>,
    /// The shortest time that publishes could wait for consumers.
    pub(super) shortest_timeout_ms: Option<u64>,
}

impl Life {
    /// A life that begins with these messages, behind the one with this number.
    pub(super) fn of(found: BTreeMap<At, bool>, before: u64) -> Self {
        Self { before, found, ..Self::default() }
    }
}

/// Everything that clients ever did.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    pub(super) consumed: BTreeSet<At>,
    pub(super) rejected: BTreeSet<At>,
    n_failed: BTreeMap<At, u64>,
    /// Purged, or gone with their queues, or perhaps.
    pub(super) dropped: BTreeSet<At>,
    /// Not found by a start, though no rule took them: they may not come back.
    pub(super) missing: BTreeSet<At>,
    /// All annotations that clients have given messages back with.
    notes: BTreeSet<(At, u64)>,
    /// Links that may have gone with deliveries that nobody has seen.
    n_leaves: u64,
    pub(super) n_starts: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// As the queues are declared.
    pub(super) rules: BTreeMap<&'static str, Rules>,
    /// The queue that the policy is for, or all of them.
    policy: Option<(Option<&'static str>, Policy)>,
    /// All rules that a queue ever had.
    ever: BTreeMap<&'static str, Vec<Rules>>,
    pub(super) sent: BTreeMap<u64, Sent>,
    /// Messages that have to be somewhere unless a rule or a client took them.
    pub(super) sure: BTreeSet<At>,
    pub(super) life: Life,
    pub(super) past: Past,
    pub(super) now_ms: u64,
    /// How long publishes may wait for consumers.
    pub(super) timeout_ms: Option<u64>,
    /// Clients take credit back: what a quorum queue has not sent stands first then, whatever its priority.
    pub(super) is_credit_taken_back: bool,
}

impl Ledger {
    pub(super) fn new(
        rules: BTreeMap<&'static str, Rules>,
        now_ms: u64,
        is_credit_taken_back: bool,
    ) -> Self {
        let ever = rules.iter().map(|(queue, rules)| (*queue, vec![*rules])).collect();
        Self { rules, ever, now_ms, is_credit_taken_back, ..Self::default() }
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

    /// From now on publishes may wait for so long, also those that wait already.
    pub(super) fn set_timeout(&mut self, timeout_ms: u64) {
        self.timeout_ms = Some(timeout_ms);
        let shortest_ms = &mut self.life.shortest_timeout_ms;
        *shortest_ms = Some(shortest_ms.map_or(timeout_ms, |shortest| shortest.min(timeout_ms)));
    }

    /// The queues a queue's dead letters go to.
    pub(super) fn letters_to(&self, queue: &str) -> Option<Vec<&'static str>> {
        let those = |which: &dyn Fn(&str, &Rules) -> bool| {
            let some = self.rules.iter().filter(|(queue, rules)| which(queue, rules));
            some.map(|(queue, _)| *queue).collect()
        };
        Some(match self.rules.get(queue)?.letters_to? {
            LettersTo::Queue(queue) => vec![queue],
            LettersTo::Spread => those(&|_, rules| rules.on_spread),
            LettersTo::Ends => those(&|queue, _| queue.starts_with('d')),
            LettersTo::Nowhere(_) => Vec::new(),
        })
    }

    /// The time at which a message that is published now is to leave its queue.
    pub(super) fn deadline_ms(&self, queue: &str, expiration_ms: Option<u64>) -> Option<u64> {
        let ttl_ms = self.rules(queue).ttl_ms.into_iter().chain(expiration_ms).min()?;
        Some(self.now_ms + ttl_ms)
    }

    /// A message is published.
    pub(super) fn publish(&mut self, id: u64, sent: Sent) {
        self.sure.extend(sent.to.keys().map(|queue| At::first(id, queue)));
        self.sent.insert(id, sent);
    }

    /// A message is routed to other queues than it was, or to none.
    pub(super) fn reroute(&mut self, id: u64, to: BTreeMap<&'static str, Routed>) {
        self.sure.retain(|at| at.id != id);
        if let Some(mut sent) = self.sent.remove(&id) {
            (sent.to, sent.is_in_order, sent.expected) = (to, false, None);
            sent.published_ms = self.now_ms;
            self.publish(id, sent);
        }
    }

    /// A named message is published once more.
    pub(super) fn resend(&mut self, id: u64) {
        let Some(sent) = self.sent.get(&id) else { return };
        let Some(queue) = sent.to.keys().next().copied() else { return };
        let deadline_ms = self.deadline_ms(queue, sent.expiration_ms);
        if let Some(sent) = self.sent.get_mut(&id) {
            for to in sent.to.values_mut() {
                to.deadline_ms = to.deadline_ms.into_iter().chain(deadline_ms).min();
            }
            sent.n_attempts += 1;
            sent.is_in_order = false;
            self.past.missing.remove(&At::first(id, queue));
        }
    }

    /// A client is given a message. `is_prompt` if everything that the clock asks for is done before that.
    pub(super) fn check_given(
        &mut self,
        copy: Copy,
        (given, seen): (&Given, &Seen),
        is_prompt: bool,
    ) -> Result<(), Violation> {
        self.check_content(copy.queue, (given, seen), self.now_ms)?;
        if !self.is_loose(copy) {
            self.check_again(copy, (given, seen))?;
        }
        if is_prompt && copy.n_deaths == 0 {
            self.check_time(copy)?;
        }
        match self.life.not_before.get(&copy).filter(|at_ms| **at_ms > self.now_ms) {
            Some(_) if self.is_loose(copy) => Ok(()),
            Some(at_ms) => Err(format!("m{} is given out before {at_ms}", copy.id)),
            None => Ok(()),
        }
    }

    /// Checks the annotation that a message was given back with.
    pub(super) fn check_note(&self, copy: Copy, framed: &Framed) -> Result<(), Violation> {
        let is_of_before = copy.id <= self.life.before;
        let is_kept = match (framed.note, self.life.notes.get(&copy)) {
            (Some(_), _) if !self.rules(copy.queue).is_quorum => copy.n_deaths > 0,
            (note @ Some(_), Some(_)) if !is_of_before => {
                note == self.life.notes.get(&copy).copied()
            }
            (Some(note), _) => {
                self.past.notes.iter().any(|(at, it)| at.id == copy.id && *it == note)
            }
            // It may be another dead letter of the same message.
            (None, wanted) => {
                wanted.is_none() || !self.rules(copy.queue).is_quorum || self.is_loose(copy)
            }
        };
        if is_kept { Ok(()) } else { Err(format!("{copy:?} has other annotations: {framed:?}")) }
    }

    /// A client gives a message back with an annotation, for later.
    pub(super) fn annotate(&mut self, copy: Copy, note: u64, until_ms: u64) {
        self.past.notes.insert((copy.at(), note));
        if self.rules(copy.queue).is_quorum {
            self.life.notes.insert(copy, note);
            self.life.not_before.insert(copy, until_ms);
        }
    }

    /// A link to a queue is gone.
    pub(super) fn leave(&mut self, queue: &'static str) {
        self.life.unsure.insert(queue);
        self.past.n_leaves += 1;
    }

    /// A message that came back may count as failed.
    pub(super) fn may_have_failed(&mut self, copy: Copy) {
        self.life.waits_until.remove(&copy);
        *self.past.n_failed.entry(copy.at()).or_default() += 1;
    }

    /// Whether messages of a queue may wait although a consumer wants them.
    pub(super) fn may_hold_back(&self, queue: &str) -> bool {
        let mut waiting = self.life.not_before.keys();
        self.ever(queue).any(|rules| rules.retry.is_some()) || waiting.any(|it| it.queue == queue)
    }

    /// Whether messages of a queue may wait now, which count for its limits: also since before a start.
    pub(super) fn ever_waits(&self, queue: &str) -> bool {
        let mut given_back = self.past.notes.iter();
        self.may_hold_back(queue) || given_back.any(|(at, _)| at.queue == queue)
    }

    pub(super) fn note_given(&mut self, copy: Copy) {
        self.life.counts.entry(copy).or_default().n_given += 1;
    }

    /// Whether there may be several of it: dead letters that a crash has repeated or that came by several
    /// ways, and messages that were refused and came again.
    pub(super) fn is_loose(&self, copy: Copy) -> bool {
        let Some(sent) = self.sent.get(&copy.id) else { return true };
        let is_letter = copy.n_deaths > 0;
        if sent.is_moved {
            return true;
        }
        if !self.rules(copy.queue).is_quorum {
            let is_spread = |rules: &Rules| matches!(rules.letters_to, Some(LettersTo::Spread));
            let any_spread = sent.to.len() > 1 || self.rules.values().any(is_spread);
            return is_letter && (self.past.n_starts > 0 || any_spread);
        }
        let may_refuse = |queue: &str| {
            let rules = self.rules(queue);
            rules.may_refuse() || rules.confirm_on.is_some()
        };
        let may_be_new = sent.n_attempts > 1 && sent.to.keys().any(|queue| may_refuse(queue));
        (is_letter && self.past.n_starts > 0) || may_be_new
    }

    /// Checks what the broker tells about earlier deliveries.
    fn check_again(&self, copy: Copy, (given, seen): (&Given, &Seen)) -> Result<(), Violation> {
        let Copy { id, queue, n_deaths } = copy;
        let Counts { n_given, n_failed } = self.life.counts.get(&copy).copied().unwrap_or_default();
        if self.life.settled.contains(&copy) {
            return Err(format!("m{id} of {queue} was settled, and is given again"));
        }
        if n_deaths == 0 && self.life.purged.contains(&copy.at()) {
            return Err(format!("m{id} of {queue} was purged, and is given out"));
        }
        let found = self.life.found.get(&copy.at()).filter(|_| n_deaths == 0);
        // Of one that waited at the start, or expired as it was looked for, nothing is known.
        if found.is_none() && id <= self.life.before {
            return Ok(());
        }
        if n_deaths > 0 && is_framed(given) {
            return Ok(());
        }
        let is_unsure = self.life.unsure.contains(queue);
        let is_failed = |n: u64| n == n_failed || (is_unsure && n > n_failed);
        if !self.rules(queue).is_quorum {
            let expected = n_given > 0 || found == Some(&true);
            let is_counted = !is_framed(given) || found.is_some() || is_failed(seen.n_failed);
            if !is_counted || (seen.redelivered != expected && !(is_unsure && seen.redelivered)) {
                return Err(format!("m{id} of {queue} should be marked {expected}"));
            }
            return self.check_answered(copy, found.is_none());
        }
        if found.is_some() {
            let has_mark = seen.redelivered;
            return if has_mark { Ok(()) } else { Err(format!("m{id} of {queue} lost its mark")) };
        }
        if seen.redelivered != (seen.n_acquired > 0) || seen.n_acquired < n_given {
            return Err(format!("m{id} of {queue}, given {n_given} times, is given as {seen:?}"));
        }
        if !is_failed(seen.n_failed) {
            return Err(format!("m{id} of {queue}, failed {n_failed} times, is given as {seen:?}"));
        }
        Ok(())
    }

    /// Checks that a message of a queue that confirms late was not answered before.
    fn check_answered(&self, copy: Copy, is_of_this_life: bool) -> Result<(), Violation> {
        let Copy { id, queue, n_deaths } = copy;
        let sent = self.sent.get(&id).filter(|sent| is_of_this_life && sent.is_late_in(queue));
        match sent.map(|sent| (sent.answer, sent.to.len())) {
            Some((Some(true), _)) if n_deaths == 0 => {
                Err(format!("m{id} is confirmed, and given out by {queue}"))
            }
            Some((Some(false), 1)) if n_deaths == 0 => {
                Err(format!("m{id} is refused, and given out by {queue}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that a message is given out neither after its time nor before it.
    fn check_time(&mut self, copy: Copy) -> Result<(), Violation> {
        let Copy { id, queue, .. } = copy;
        let sent = self.sent.get(&id).filter(|sent| sent.n_attempts == 1);
        // One that expires at once is given to a consumer that waits for it.
        let before = sent.filter(|sent| sent.published_ms < self.now_ms);
        let deadline_ms = before.and_then(|sent| sent.to.get(queue)?.deadline_ms);
        if deadline_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
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
        let (was, is) = (&sent.content, &given.content);
        // Quorum queues keep every message, and queues that confirm late next to none.
        let is_plain = !self.rules(queue).is_quorum && self.life.ever_late.is_empty();
        let (parts, seen_parts) = (Parts::of(was), Parts::of(is));
        let has_sections = parts.bare.is_some() || seen_parts.bare.is_some();
        let is_whole = match has_sections {
            true => parts.is_in(&seen_parts),
            false => was.body == is.body && was.form == is.form,
        };
        if !is_whole || (is_plain && was.persistent != is.persistent) {
            return Err(format!("m{id} of {queue} has another body"));
        }
        let limits: Option<Vec<u64>> = self.ever(queue).map(Rules::delivery_limit).collect();
        let limit = limits.and_then(|limits| limits.into_iter().max());
        if limit.is_some_and(|limit| seen.n_failed > limit) {
            return Err(format!("m{id} of {queue} has failed {} times", seen.n_failed));
        }
        if !seen.deaths.is_empty() {
            return self.check_deaths(queue, seen, now_ms);
        }
        let Some(to) = sent.to.get(queue) else {
            return Err(format!("m{id} was not published to {queue}"));
        };
        if to.is_over || (!sent.is_moved && self.past.missing.contains(&At::first(id, queue))) {
            return Err(format!("m{id} is back in {queue}"));
        }
        let is_only = sent.n_attempts == 1 && sent.to.len() == 1;
        if sent.answer == Some(false) && is_only && !to.is_late {
            return Err(format!("m{id} is in {queue}, which refused it"));
        }
        if has_sections {
            return Ok(());
        }
        let is_same = sent.is_moved || (&was.exchange, &was.key) == (&is.exchange, &is.key);
        if !is_same || (!seen.is_counted() && was.properties != is.properties) {
            return Err(format!("m{id} of {queue} came out as {is:?}"));
        }
        Ok(())
    }

    fn check_deaths(&self, queue: &'static str, seen: &Seen, now_ms: u64) -> Result<(), Violation> {
        let id = seen.id;
        for death in &seen.deaths {
            let name = self.rules.keys().find(|queue| **queue == death.queue);
            let name = name.ok_or_else(|| format!("m{id} has died in {}", death.queue))?;
            let at = [false, true].map(|is_letter| At { id, queue: name, is_letter });
            if !at.into_iter().any(|at| self.may_die(at, &death.reason, now_ms)) {
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

    /// Whether a message may be dead in a queue for that reason.
    pub(super) fn may_die(&self, at: At, reason: &str, now_ms: u64) -> bool {
        let Some(sent) = self.sent.get(&at.id) else { return false };
        let mut ever = self.ever(at.queue);
        match reason {
            "expired" => {
                let is_over = |ttl_ms: u64| now_ms >= sent.published_ms + ttl_ms;
                let own = sent.to.get(at.queue).and_then(|to| to.deadline_ms);
                own.is_some_and(|at_ms| now_ms >= at_ms)
                    || ever.any(|rules| rules.ttl_ms.is_some_and(is_over))
            }
            "maxlen" => ever.any(|rules| rules.may_be_full(self.sent.len() as u64)),
            "rejected" => self.past.rejected.contains(&at),
            "delivery_limit" => {
                let n_failed = self.past.n_failed.get(&at).copied().unwrap_or(0);
                // Of what was on its way to a client when the node ended, only the node knows.
                let is_quorum = self.rules(at.queue).is_quorum;
                let n_failed = n_failed + if is_quorum { self.past.n_starts } else { 0 };
                let n_failed = n_failed + self.past.n_leaves;
                ever.any(|rules| rules.delivery_limit().is_some_and(|limit| n_failed > limit))
            }
            _ => false,
        }
    }

    /// Whether a rule or a client may have taken a message out of a queue, to where its dead letters go.
    pub(super) fn may_leave(&self, at: At, now_ms: u64) -> bool {
        let reasons = ["expired", "rejected", "delivery_limit"];
        let drops = self.ever(at.queue).any(Rules::may_drop);
        reasons.iter().any(|reason| self.may_die(at, reason, now_ms))
            || (drops && self.may_die(at, "maxlen", now_ms))
    }

    /// A client settles what it holds.
    pub(super) fn settle(&mut self, copy: Copy, outcome: Outcome) {
        match outcome {
            Outcome::Accepted => {
                self.life.settled.insert(copy);
                self.past.consumed.insert(copy.at());
            }
            Outcome::Rejected => {
                self.life.settled.insert(copy);
                self.past.rejected.insert(copy.at());
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
        self.life.not_before.remove(&copy);
    }

    /// The places that a queue may have messages at.
    fn places_in(&self, queue: &'static str) -> impl Iterator<Item = At> + '_ {
        let ids = self.sent.keys();
        ids.flat_map(move |id| [false, true].map(|is_letter| At { id: *id, queue, is_letter }))
    }

    /// A queue is purged, while clients hold these. `is_known` if nothing is on its way to a client.
    pub(super) fn purge(&mut self, queue: &'static str, held: &BTreeSet<Copy>, is_known: bool) {
        let held: BTreeSet<At> = held.iter().map(|copy| copy.at()).collect();
        let gone: Vec<At> =
            self.places_in(queue).filter(|at| at.is_letter || !held.contains(at)).collect();
        if is_known {
            let answered = |at: &&At| {
                let sent = self.sent.get(&at.id);
                !at.is_letter && sent.is_some_and(|sent| sent.answer == Some(true))
            };
            self.life.purged.extend(gone.iter().filter(answered).copied());
        }
        self.past.dropped.extend(gone);
    }

    /// A queue is there no more.
    pub(super) fn remove(&mut self, queue: &'static str) {
        self.life.ever_missing.insert(queue);
        let gone: Vec<At> = self.places_in(queue).collect();
        self.past.dropped.extend(gone);
    }

    /// Whether a queue was declared anew is not known: nor whether it has what was confirmed, and whether
    /// dead letters found it.
    pub(super) fn doubt(&mut self, queue: &'static str) {
        self.life.ever_missing.insert(queue);
        let of_queue = self.sent.values_mut().filter(|sent| sent.to.contains_key(queue));
        of_queue.for_each(|sent| sent.answer = None);
    }

    /// A queue was declared anew: what was in an earlier one is gone for good.
    pub(super) fn declared(&mut self, queue: &'static str) {
        for to in self.sent.values_mut().filter_map(|sent| sent.to.get_mut(queue)) {
            to.is_over = true;
        }
        self.sure.retain(|at| at.queue != queue);
    }
}
