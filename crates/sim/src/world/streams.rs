//! The ledger of streams: what was published, what was confirmed, and at which offset each message is.

use super::ledger::Violation;
use super::{BEGINS_MS, HOUR_MS};
use crate::seen::Parts;
use std::collections::{BTreeMap, BTreeSet};
use testing::Random;
use testing::outbox::{Content, Given};

/// Segments are that small so that retention has something to do.
pub(super) const SEGMENT_BYTES: u64 = 2_000;
const STREAMS: &[&str] = &["s0", "s1", "s2"];

/// The limits of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retention {
    pub(super) max_bytes: Option<u64>,
    pub(super) max_age_days: Option<u64>,
}

/// A message that was published.
struct Sent {
    stream: &'static str,
    bytes: usize,
    published_ms: u64,
    is_confirmed: bool,
}

/// A message that is there after a start, at its offset.
pub(super) type Found = (u64, u64);

/// The streams of a run, which may have none, and their messages.
pub(super) struct Streams {
    streams: BTreeMap<&'static str, Retention>,
    sent: BTreeMap<u64, Sent>,
    /// The message at each offset that somebody was given in this life.
    offsets: BTreeMap<(&'static str, u64), u64>,
    /// The last offset that each consumer was given, by connection and link.
    last: BTreeMap<(usize, u64), u64>,
    pub(super) now_ms: u64,
    /// An alarm held publishes back: messages do not stand in the order of their numbers.
    pub(super) are_reordered: bool,
}

impl Streams {
    pub(super) fn new(random: &mut Random, are_there: bool) -> Self {
        let mut retention = |stream: &str| match stream {
            "s0" => Retention::default(),
            _ => Retention {
                max_bytes: random.perhaps(50, &[2_000, 10_000]),
                max_age_days: random.perhaps(50, &[1, 7]),
            },
        };
        let streams = STREAMS.iter().filter(|_| are_there);
        Self {
            streams: streams.map(|stream| (*stream, retention(stream))).collect(),
            sent: BTreeMap::new(),
            offsets: BTreeMap::new(),
            last: BTreeMap::new(),
            now_ms: BEGINS_MS,
            are_reordered: false,
        }
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.streams.keys().copied().collect()
    }

    pub(super) fn has(&self, queue: &str) -> bool {
        self.streams.contains_key(queue)
    }

    pub(super) fn retention(&self, queue: &str) -> Option<Retention> {
        self.streams.get(queue).copied()
    }

    pub(super) fn stream_of(&self, id: u64) -> Option<&'static str> {
        self.sent.get(&id).map(|sent| sent.stream)
    }

    /// A message with that number is published.
    pub(super) fn publish(&mut self, id: u64, stream: &'static str, bytes: usize) {
        let sent = Sent { stream, bytes, published_ms: self.now_ms, is_confirmed: false };
        self.sent.insert(id, sent);
    }

    /// A message is confirmed. Without its stream it is gone.
    pub(super) fn confirm(&mut self, id: u64, is_there: bool) {
        if let Some(sent) = self.sent.get_mut(&id) {
            sent.is_confirmed = is_there;
        }
    }

    /// The number of a message that is as it was published to that stream.
    fn id_of(&self, stream: &str, given: &Given) -> Result<u64, Violation> {
        let id = Parts::of(&given.content).id()?;
        let sent = self.sent.get(&id).ok_or_else(|| format!("nobody published m{id}"))?;
        let is_same = Parts::of(&given.content).payload == Content::numbered_body(id, sent.bytes);
        if sent.stream != stream || !is_same {
            return Err(format!("m{id} of {stream} is not what was published to {}", sent.stream));
        }
        Ok(id)
    }

    /// A client was given a message: its number.
    pub(super) fn take_given(
        &mut self,
        stream: &'static str,
        link: (usize, u64),
        given: &Given,
    ) -> Result<u64, Violation> {
        let id = self.id_of(stream, given)?;
        let offset = given.position.0;
        let known = *self.offsets.entry((stream, offset)).or_insert(id);
        if known != id {
            return Err(format!("offset {offset} of {stream} has m{known}, and m{id}"));
        }
        // Retention may have taken what a slow consumer has not read.
        let last = self.last.insert(link, offset);
        if last.is_some_and(|last| offset <= last) {
            return Err(format!("offset {offset} of {stream} comes behind {last:?}"));
        }
        Ok(id)
    }

    /// A message that is there after a start.
    pub(super) fn look_at(&self, stream: &str, given: &Given) -> Result<Found, Violation> {
        Ok((self.id_of(stream, given)?, given.position.0))
    }

    /// The node has restarted, and has found this in a stream. With `is_sure` what is confirmed is there.
    pub(super) fn restart(
        &mut self,
        stream: &'static str,
        found: &[Found],
        is_sure: bool,
    ) -> Result<(), Violation> {
        let ids: BTreeSet<u64> = found.iter().map(|(id, _)| *id).collect();
        if ids.len() < found.len() {
            return Err(format!("a message is twice in {stream}"));
        }
        self.check_offsets(stream, found)?;
        for (id, sent) in self.sent.iter().filter(|(_, sent)| sent.stream == stream) {
            let is_gone = !ids.contains(id) && sent.is_confirmed && is_sure;
            if is_gone && !self.may_be_retired(*id, sent, found) {
                return Err(format!("confirmed m{id} of {stream} is lost"));
            }
        }
        for (id, sent) in self.sent.iter_mut().filter(|(_, sent)| sent.stream == stream) {
            // What is here is durable now; what is not never comes back, and is not looked for any more.
            sent.is_confirmed = ids.contains(id);
        }
        Ok(())
    }

    /// Offsets have no gap, messages stand in the order they came in, and where they were.
    fn check_offsets(&mut self, queue: &'static str, found: &[Found]) -> Result<(), Violation> {
        for (before, after) in found.iter().zip(found.iter().skip(1)) {
            if (before.0 >= after.0 && !self.are_reordered) || before.1 >= after.1 {
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
    fn may_be_retired(&self, id: u64, sent: &Sent, found: &[Found]) -> bool {
        let retention = self.retention(sent.stream).unwrap_or_default();
        let Retention { max_bytes, max_age_days } = retention;
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
