//! The ledger of quorum queues and streams: what was published, what was confirmed, what clients did with it,
//! and at which offset of a stream each message is.

use super::HOUR_MS;
use session::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use testing::Random;
use testing::outbox::{Content, Given};

/// The violated rule, in words.
pub(super) type Violation = String;

/// Segments are that small so that retention has something to do.
pub(super) const SEGMENT_BYTES: u64 = 2_000;
const QUEUES: &[&str] = &["q0", "q1", "s0", "s1", "s2"];

/// The type of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Quorum,
    Stream { max_bytes: Option<u64>, max_age_days: Option<u64> },
}

impl Kind {
    pub(super) const fn is_stream(self) -> bool {
        matches!(self, Self::Stream { .. })
    }
}

/// A message that was published.
struct Sent {
    queue: &'static str,
    bytes: usize,
    published_ms: u64,
    is_confirmed: bool,
    /// A consumer has accepted it.
    is_accepted: bool,
    /// Some client was given it.
    was_given: bool,
}

/// A message that is there after a start, at its offset if it is in a stream.
pub(super) type Found = (u64, u64);

pub(super) struct Ledger {
    kinds: BTreeMap<&'static str, Kind>,
    declared: BTreeSet<&'static str>,
    sent: BTreeMap<u64, Sent>,
    /// The message at each offset that somebody was given in this life.
    offsets: BTreeMap<(&'static str, u64), u64>,
    /// The last offset that each consumer of a stream was given, by connection and link.
    last: BTreeMap<(usize, u64), u64>,
    pub(super) now_ms: u64,
}

impl Ledger {
    pub(super) fn new(random: &mut Random, now_ms: u64) -> Self {
        let kind = |queue: &str, random: &mut Random| match queue {
            "q0" | "q1" => Kind::Quorum,
            "s0" => Kind::Stream { max_bytes: None, max_age_days: None },
            _ => Kind::Stream {
                max_bytes: random.perhaps(50, &[2_000, 10_000]),
                max_age_days: random.perhaps(50, &[1, 7]),
            },
        };
        Self {
            kinds: QUEUES.iter().map(|queue| (*queue, kind(queue, random))).collect(),
            declared: BTreeSet::new(),
            sent: BTreeMap::new(),
            offsets: BTreeMap::new(),
            last: BTreeMap::new(),
            now_ms,
        }
    }

    pub(super) fn queues(&self) -> Vec<(&'static str, Kind)> {
        self.kinds.iter().map(|(queue, kind)| (*queue, *kind)).collect()
    }

    pub(super) fn kind(&self, queue: &str) -> Kind {
        self.kinds.get(queue).copied().unwrap_or(Kind::Quorum)
    }

    pub(super) fn some_queue(&self, random: &mut Random) -> &'static str {
        random.choose_key(&self.kinds).unwrap_or_default()
    }

    pub(super) fn is_declared(&self, queue: &str) -> bool {
        self.declared.contains(queue)
    }

    pub(super) fn declared(&mut self, queue: &'static str) {
        self.declared.insert(queue);
    }

    /// Another message: its number.
    pub(super) fn publish(&mut self, queue: &'static str, bytes: usize) -> u64 {
        let id = self.sent.len() as u64 + 1;
        let published_ms = self.now_ms;
        let (is_confirmed, is_accepted, was_given) = (false, false, false);
        let sent = Sent { queue, bytes, published_ms, is_confirmed, is_accepted, was_given };
        self.sent.insert(id, sent);
        id
    }

    pub(super) fn confirm(&mut self, id: u64) {
        if let Some(sent) = self.sent.get_mut(&id) {
            // Without its queue a message is confirmed and gone.
            sent.is_confirmed = self.declared.contains(sent.queue);
        }
    }

    pub(super) fn settle(&mut self, id: u64, queue: &str, outcome: Outcome) {
        let is_quorum = !self.kind(queue).is_stream();
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.is_accepted |= is_quorum && outcome == Outcome::Accepted;
        }
    }

    /// The number of a message that is as it was published to that queue.
    fn id_of(&self, queue: &str, given: &Given) -> Result<u64, Violation> {
        let id = given.content.id().ok_or("a delivery without a number")?;
        let sent = self.sent.get(&id).ok_or_else(|| format!("nobody published m{id}"))?;
        let is_same = given.content.body == Content::numbered_body(id, sent.bytes);
        if sent.queue != queue || !is_same {
            return Err(format!("m{id} of {queue} is not what was published to {}", sent.queue));
        }
        Ok(id)
    }

    /// A client was given a message: its number.
    pub(super) fn take_given(
        &mut self,
        queue: &'static str,
        link: (usize, u64),
        given: &Given,
    ) -> Result<u64, Violation> {
        let id = self.id_of(queue, given)?;
        if self.kind(queue).is_stream() {
            let offset = given.position.0;
            let known = *self.offsets.entry((queue, offset)).or_insert(id);
            if known != id {
                return Err(format!("offset {offset} of {queue} has m{known}, and m{id}"));
            }
            // Retention may have taken what a slow consumer has not read.
            let last = self.last.insert(link, offset);
            if last.is_some_and(|last| offset <= last) {
                return Err(format!("offset {offset} of {queue} comes behind {last:?}"));
            }
            return Ok(id);
        }
        let Some(sent) = self.sent.get_mut(&id) else { return Ok(id) };
        if sent.was_given && !given.redelivered {
            return Err(format!("m{id} of {queue} comes twice without its mark"));
        }
        sent.was_given = true;
        Ok(id)
    }

    /// A message that is there after a start.
    pub(super) fn look_at(&self, queue: &str, given: &Given) -> Result<Found, Violation> {
        let id = self.id_of(queue, given)?;
        let was_given = self.sent.get(&id).is_some_and(|sent| sent.was_given);
        if !self.kind(queue).is_stream() && was_given && !given.redelivered {
            return Err(format!("m{id} of {queue} has lost its mark"));
        }
        Ok((id, given.position.0))
    }

    /// The node has restarted, and has found this in a queue. With `is_sure` what is confirmed is there.
    pub(super) fn restart(
        &mut self,
        queue: &'static str,
        found: &[Found],
        is_sure: bool,
    ) -> Result<(), Violation> {
        let ids: BTreeSet<u64> = found.iter().map(|(id, _)| *id).collect();
        if ids.len() < found.len() {
            return Err(format!("a message is twice in {queue}"));
        }
        let kind = self.kind(queue);
        if kind.is_stream() {
            self.check_offsets(queue, found)?;
        }
        for (id, sent) in self.sent.iter().filter(|(_, sent)| sent.queue == queue) {
            let is_gone = !ids.contains(id) && sent.is_confirmed && is_sure;
            if is_gone && !sent.is_accepted && !self.may_be_retired(kind, *id, sent, found) {
                return Err(format!("confirmed m{id} of {queue} is lost"));
            }
        }
        for (id, sent) in self.sent.iter_mut().filter(|(_, sent)| sent.queue == queue) {
            // What is here is durable now; what is not never comes back, and is not looked for any more.
            sent.is_confirmed = ids.contains(id);
            sent.is_accepted &= !ids.contains(id);
        }
        Ok(())
    }

    /// Offsets have no gap, messages stand in the order they came in, and where they were.
    fn check_offsets(&mut self, queue: &'static str, found: &[Found]) -> Result<(), Violation> {
        for (before, after) in found.iter().zip(found.iter().skip(1)) {
            if before.0 >= after.0 || before.1 >= after.1 {
                return Err(format!("{before:?} stands before {after:?} in {queue}"));
            }
            let between = before.1 + 1..after.1;
            if let Some(lost) = between.filter_map(|at| self.offsets.get(&(queue, at))).next() {
                return Err(format!("m{lost} is lost in the middle of {queue}"));
            }
        }
        for (id, offset) in found {
            let known = self.offsets.get(&(queue, *offset));
            let other = known.filter(|known| *known != id);
            if let Some(other) = other.filter(|other| self.is_confirmed(**other)) {
                return Err(format!("offset {offset} of {queue} had m{other}, has m{id}"));
            }
        }
        self.offsets.retain(|(of, _), _| *of != queue);
        self.offsets.extend(found.iter().map(|(id, offset)| ((queue, *offset), *id)));
        Ok(())
    }

    fn is_confirmed(&self, id: u64) -> bool {
        self.sent.get(&id).is_some_and(|sent| sent.is_confirmed)
    }

    /// Whether retention may have taken a message: it stood in front of all that are there, and, where age
    /// alone counts, is older than that.
    fn may_be_retired(&self, kind: Kind, id: u64, sent: &Sent, found: &[Found]) -> bool {
        let Kind::Stream { max_bytes, max_age_days } = kind else { return false };
        let is_in_front = found.first().is_none_or(|(first, _)| id < *first);
        let age_ms = self.now_ms - sent.published_ms;
        let is_old = max_age_days.is_some_and(|days| age_ms >= days * 24 * HOUR_MS);
        is_in_front && (is_old || max_bytes.is_some())
    }

    /// A new life begins: consumers are others.
    pub(super) fn begin(&mut self) {
        self.last.clear();
    }
}
