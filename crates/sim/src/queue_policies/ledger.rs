//! The ledger of messages: where each was published, what clients did with it, and by which rules it
//! may have gone.

use super::spec::{LettersTo, Spec};
use crate::seen::{Death, Seen};
use std::collections::{BTreeMap, BTreeSet};
use testing::outbox::{Content, Given};

/// The violated rule, in words.
pub(super) type Violation = String;

/// The messages of each queue, in order of delivery.
pub(super) type Found = BTreeMap<&'static str, Vec<Seen>>;

/// A message that was published.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) queue: &'static str,
    pub(super) published_ms: u64,
    pub(super) expiration_ms: Option<u64>,
    pub(super) priority: u8,
    pub(super) content: Content,
    /// Its queue was there.
    pub(super) is_routed: bool,
    /// Confirmed, or refused.
    pub(super) answer: Option<bool>,
    /// Whether the message has to be somewhere unless a rule or a client took it.
    pub(super) is_sure: bool,
    /// A restart did not find it: it may not come back.
    pub(super) is_gone: bool,
}

/// A message in a queue.
pub(super) type At = (u64, &'static str);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) specs: BTreeMap<&'static str, Spec>,
    pub(super) sent: BTreeMap<u64, Sent>,
    /// Clients are done with these.
    pub(super) consumed: BTreeSet<At>,
    pub(super) rejected: BTreeSet<At>,
    /// Failed deliveries since the last start ...
    pub(super) failed: BTreeMap<At, u32>,
    /// ... and ever.
    pub(super) failed_ever: BTreeMap<At, u32>,
    /// Queues that were not there once: what was in them, or was to go there, may be lost.
    pub(super) ever_gone: BTreeSet<&'static str>,
    pub(super) now_ms: u64,
}

impl Ledger {
    /// Whether a message never is in two queues, without a crash.
    pub(super) fn is_single(&self) -> bool {
        !self.specs.values().any(|spec| matches!(spec.letters_to, Some(LettersTo::Fanout)))
    }

    pub(super) fn spec(&self, queue: &str) -> Result<&Spec, Violation> {
        self.specs.get(queue).ok_or_else(|| format!("{queue} was never declared"))
    }

    pub(super) fn note_failed(&mut self, at: At) {
        *self.failed.entry(at).or_default() += 1;
        *self.failed_ever.entry(at).or_default() += 1;
    }

    /// The time at which a message that was published to its queue is to leave it.
    pub(super) fn deadline_ms(&self, sent: &Sent) -> Option<u64> {
        let of_queue = self.specs.get(sent.queue).and_then(|spec| spec.ttl_ms);
        let ttl_ms = [of_queue, sent.expiration_ms].into_iter().flatten().min()?;
        Some(sent.published_ms + ttl_ms)
    }

    /// The queues a queue's dead letters go to.
    fn letters_to(&self, spec: &Spec) -> Option<Vec<&'static str>> {
        Some(match spec.letters_to? {
            LettersTo::Queue(queue) => vec![queue],
            LettersTo::Fanout => {
                let bound = self.specs.values().filter(|spec| spec.on_fanout);
                bound.map(|spec| spec.name).collect()
            }
        })
    }

    /// Whether a message may be dead in a queue for that reason.
    fn may_die(&self, (id, queue): At, reason: &str) -> bool {
        let (Some(sent), Some(spec)) = (self.sent.get(&id), self.specs.get(queue)) else {
            return false;
        };
        let is_over = |ttl_ms: u64| self.now_ms >= sent.published_ms + ttl_ms;
        match reason {
            "expired" => {
                let own = sent.expiration_ms.filter(|_| sent.queue == queue);
                [spec.ttl_ms, own].into_iter().flatten().any(is_over)
            }
            "maxlen" => {
                let n_ever = self.sent.len() as u64;
                spec.is_limited() && spec.max_length.is_none_or(|max| n_ever > max)
                    || spec.max_bytes.is_some()
            }
            "rejected" => self.rejected.contains(&(id, queue)),
            "delivery_limit" => {
                let n_failed = self.failed_ever.get(&(id, queue)).copied().unwrap_or(0);
                spec.delivery_limit.is_some_and(|limit| n_failed > limit)
            }
            _ => false,
        }
    }

    fn may_leave(&self, (id, queue): At) -> bool {
        let drops = self.specs.get(queue).is_some_and(Spec::may_drop);
        ["expired", "rejected", "delivery_limit"].iter().any(|why| self.may_die((id, queue), why))
            || (drops && self.may_die((id, queue), "maxlen"))
    }

    /// Whether a message that was in `queue` is there, or where it may have gone from there.
    fn is_accounted(&self, at: At, path: &mut Vec<&'static str>, found: &Found) -> bool {
        let (id, queue) = at;
        let is_there = found.get(queue).is_some_and(|found| found.iter().any(|one| one.id == id));
        if is_there || self.consumed.contains(&at) || self.ever_gone.contains(queue) {
            return true;
        }
        let Some(spec) = self.specs.get(queue) else { return true };
        if !self.may_leave(at) {
            return false;
        }
        path.push(queue);
        let targets = self.letters_to(spec).unwrap_or_default();
        let all = targets.iter().all(|target| {
            // A cycle may have ended there, a full queue may have sent it away.
            path.contains(target)
                || self.specs.get(target).is_none_or(Spec::may_refuse)
                || self.is_accounted((id, target), path, found)
        });
        path.pop();
        all
    }

    /// Checks that a delivered message is as it was published, and has died only as it may.
    pub(super) fn check_seen(
        &self,
        queue: &'static str,
        given: &Given,
        seen: &Seen,
    ) -> Result<(), Violation> {
        let id = seen.id;
        let sent = self.sent.get(&id).ok_or_else(|| format!("nobody published m{id}"))?;
        let (content, published) = (&given.content, &sent.content);
        let is_kept = content.body == published.body && content.form == published.form;
        if !is_kept || content.persistent != published.persistent {
            return Err(format!("m{id} of {queue} has another body"));
        }
        let Some(newest) = seen.deaths.first() else {
            if sent.queue != queue {
                return Err(format!("m{id} got from {} to {queue} alive", sent.queue));
            }
            if sent.answer == Some(false) {
                return Err(format!("m{id} is in {queue}, which refused it"));
            }
            if !seen.is_counted() && content.properties != published.properties {
                return Err(format!("m{id} of {queue} has other properties"));
            }
            return Ok(());
        };
        for Death { queue, reason, .. } in &seen.deaths {
            let spec = self.spec(queue)?;
            if !self.may_die((id, spec.name), reason) {
                return Err(format!("m{id} cannot have died in {queue}: {reason}"));
            }
        }
        let from = self.spec(&newest.queue)?;
        if !self.letters_to(from).is_some_and(|targets| targets.contains(&queue)) {
            return Err(format!("m{id} of {} does not go to {queue}", newest.queue));
        }
        if seen.has_been_in(queue) {
            return Err(format!("m{id} goes round in a circle, through {queue}"));
        }
        Ok(())
    }

    /// Everything that has to be somewhere is.
    pub(super) fn check_all(&self, found: &Found) -> Result<(), Violation> {
        for (id, sent) in self.sent.iter().filter(|(_, sent)| sent.is_sure && sent.is_routed) {
            if sent.answer != Some(false)
                && !self.is_accounted((*id, sent.queue), &mut Vec::new(), found)
            {
                return Err(format!("m{id} of {} is lost", sent.queue));
            }
        }
        Ok(())
    }

    /// Messages stand in their order, higher priorities first. Of dead letters nothing is known.
    pub(super) fn check_order(&self, found: &Found) -> Result<(), Violation> {
        for (queue, found) in found {
            let spec = self.spec(queue)?;
            let alive = found.iter().filter(|seen| seen.deaths.is_empty());
            let rank = |seen: &Seen| {
                let sent = self.sent.get(&seen.id);
                let priority = sent.map_or(0, |sent| spec.priority(sent.priority));
                (std::cmp::Reverse(priority), seen.id)
            };
            if let Some((a, b)) = alive.clone().zip(alive.skip(1)).find(|(a, b)| rank(a) >= rank(b))
            {
                return Err(format!("m{} stands before m{} in {queue}", a.id, b.id));
            }
        }
        Ok(())
    }

    /// The node has restarted, and has `found` this.
    pub(super) fn restart(&mut self, is_clean: bool, found: &Found) -> Result<(), Violation> {
        for sent in self.sent.values_mut() {
            let is_safe = sent.answer == Some(true) || is_clean;
            sent.is_sure &= is_safe && sent.content.persistent;
        }
        self.check_all(found)?;
        let mut here = BTreeSet::new();
        for (queue, found) in found {
            for Seen { id, .. } in found {
                let sent = self.sent.get(id).ok_or_else(|| format!("nobody published m{id}"))?;
                if !sent.content.persistent {
                    return Err(format!("transient m{id} survived in {queue}"));
                }
                if sent.is_gone {
                    return Err(format!("m{id} is back in {queue}"));
                }
                here.insert(*id);
                // What clients did with it was not durable.
                self.consumed.remove(&(*id, *queue));
            }
        }
        // Rules act when somebody looks, which may have been here only. Of one that was refused its
        // publisher need not have been told yet.
        let leaving = self.sent.iter().filter(|(id, sent)| {
            let refuses = self.specs.get(sent.queue).is_some_and(Spec::may_refuse);
            refuses || self.may_leave((**id, sent.queue))
        });
        let leaving: BTreeSet<u64> = leaving.map(|(id, _)| *id).collect();
        let is_single = self.is_single();
        for (id, sent) in &mut self.sent {
            let is_here = here.contains(id);
            // Of what nobody was told is durable, not all copies need be here.
            sent.is_sure = is_here && (sent.is_sure || is_single);
            sent.is_gone = !is_here && !leaving.contains(id);
        }
        self.failed.clear();
        Ok(())
    }
}
