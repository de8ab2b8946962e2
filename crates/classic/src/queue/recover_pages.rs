//! Reading of page images that a start leaves for later: the core of a queue with rules has to know something
//! of each message, also of those in page images. Until then the queue's clients wait.

use super::Queue;
use super::loading::V1Content;
use super::policy::{Policy, RecoveredDeliveryCounts};
use content::{Content, Storage};
use log::SegmentCounts;
use queue::{Fifo, PolicyState, PositionRange, PositionSet, RecoveredMessages};
use std::ops::Range;
use stdx::UnixMs;
use store::Queued;
use store::backlog::{BacklogPart, LoadedPage, Lookup, PageNote};
use store::blob::BlobId;

/// A page's image as it was read; none if it cannot be.
pub(crate) struct PageRead {
    pub(crate) blob: BlobId,
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The outcome of telling the core of a page's messages.
pub(crate) enum ScanStep {
    /// The core knows the page's messages; the next page begins at this position.
    Upto(u64),
    /// The page's image is to be read first.
    Read { blob: BlobId, is_durable: bool },
    /// No page is left.
    All,
}

/// The parts of a queue that learn of messages of an earlier life.
pub(super) struct Restoring<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) content: &'s mut Content,
    pub(super) policy: &'s mut Policy,
}

impl Restoring<'_> {
    /// Tells the core of a message. Positions rise from call to call.
    pub(super) fn message(&mut self, queue: &Queue, queued: &Queued<'_>) {
        let body_bytes = u64::from(queued.body_bytes());
        tell(
            queue,
            self.fifo,
            &self.policy.recovered(queued.position, &queued.message, body_bytes),
        );
    }

    /// Tells the core of messages of which nothing needs to be known.
    pub(super) fn unread(&mut self, note: &PageNote) {
        for range in &note.live {
            self.fifo.restore(&unknown(range.start..range.end), UnixMs::default());
        }
    }

    /// Tells the core of the messages of the first page at or behind `position`, with the image that was
    /// read for it.
    fn part(&mut self, queue: &Queue, position: u64, read: Option<&PageRead>) -> ScanStep {
        let Self { fifo, content, policy } = self;
        let mut tell_one = |it: Queued<'_>| {
            let bytes = u64::from(it.body_bytes());
            tell(queue, fifo, &policy.recovered(it.position, &it.message, bytes));
        };
        match content.backlog.pages().part_from(position) {
            None => ScanStep::All,
            Some(BacklogPart::Here(page)) => {
                page.messages().for_each(tell_one);
                ScanStep::Upto(page.end)
            }
            Some(BacklogPart::Stored { first, blob, is_durable, wanted, end }) => {
                let Some(read) = read.filter(|read| read.blob == blob) else {
                    return ScanStep::Read { blob, is_durable };
                };
                let bytes = read.bytes.as_deref();
                match bytes.map(|bytes| LoadedPage::read(queue.pool(), bytes, &wanted)) {
                    Some(Ok(page)) => page.messages().for_each(&mut tell_one),
                    // Messages of the page are lost when their turn comes.
                    Some(Err(_)) | None => {
                        let ranges = wanted.ranges_from(first).into_iter();
                        ranges.for_each(|range| fifo.restore(&unknown(range), UnixMs::default()));
                    }
                }
                ScanStep::Upto(end)
            }
        }
    }

    /// Tells the core how often messages came back, of those that are still there. Returns which log
    /// segments that needs.
    pub(super) fn returns(&mut self, before: RecoveredDeliveryCounts) -> SegmentCounts {
        let RecoveredDeliveryCounts { counts, segments } = before;
        let mut any = false;
        for (position, counts) in counts {
            if !matches!(self.content.backlog.get(position), Lookup::Gone) {
                if let Some(policy) = self.fifo.messages_mut().policy_mut() {
                    policy.returns_mut().restore(position, counts);
                }
                any = true;
            }
        }
        let segments = if any { segments } else { SegmentCounts::default() };
        self.policy.restore_noted_returns(segments)
    }

    /// The core knows all messages. Positions from `next_position` on are free, those below `seen_below`
    /// may have been delivered before. Messages that are too many, which consumers had before a crash, go by
    /// an alarm: queues that dead letters go to are perhaps still being read.
    pub(super) fn end(&mut self, queue: &Queue, next_position: u64, seen_below: u64) {
        self.fifo.messages_mut().restored(next_position, seen_below, &PositionSet::new());
        if self.fifo.messages().policy().is_some_and(PolicyState::is_over_limit) {
            self.policy.call_at_once(queue);
        }
    }
}

/// Messages of which nothing is known.
fn unknown(range: Range<u64>) -> RecoveredMessages {
    let positions = PositionRange { start: range.start, end: range.end };
    RecoveredMessages { positions, ..RecoveredMessages::NOTHING_KNOWN }
}

/// Tells the core of messages; the time matters only where they expire.
fn tell(queue: &Queue, fifo: &mut Fifo, stored: &RecoveredMessages) {
    fifo.restore(
        stored,
        stored.deadline_ms.map_or_else(UnixMs::default, |_| queue.time().unix_ms()),
    );
}

/// A queue that is being filled after a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'q>(pub(crate) &'q Queue);

impl Filling<'_> {
    /// Tells the core of the messages of the first page at or behind `position`, with the image that was
    /// read for it.
    pub(crate) fn tell_part(&self, position: u64, read: Option<&PageRead>) -> ScanStep {
        let mut state = stdx::lock(&self.0.state);
        if state.deleted {
            return ScanStep::All;
        }
        state.restoring().part(self.0, position, read)
    }

    /// The core knows all messages: the queue can be used. Positions from `next_position` on are free,
    /// those below `seen_below` may have been delivered before.
    pub(crate) fn end(&self, next_position: u64, seen_below: u64) {
        self.0.with(|state, wakes| {
            if !state.deleted {
                state.restoring().end(self.0, next_position, seen_below);
                state.loading.end(self.0, wakes);
            }
        });
    }

    /// Puts a message back in that was read from the queue's files, with a reference to its body. A large
    /// one that is embedded, by an older program, is stored, so that a conversion has a reference too.
    /// Positions rise from call to call. False if a stored body is not there.
    pub(crate) fn message(&self, queued: &Queued<'_>) -> bool {
        let mut state = stdx::lock(&self.0.state);
        if state.deleted {
            return true;
        }
        if queued.stored.is_some_and(|stored| !self.0.bodies.retain(stored.blob)) {
            return false;
        }
        let Queued { position, message, .. } = queued;
        state.restoring().message(self.0, queued);
        let Storage { pool, bodies, .. } = self.0.storage();
        if queued.stored.is_none() && bodies.is_stored(message.body.len()) {
            let stored = self.0.bodies.store(message.body.bytes());
            state.content.backlog.push(pool, *position, message, None, Some(stored.blob));
        } else {
            state.content.backlog.restore(pool, queued, None);
        }
        true
    }

    /// Everything was read: the queue can be used.
    pub(crate) fn end_with_journal(&self, content: V1Content) {
        self.0.with(|state, wakes| {
            if state.deleted {
                return;
            }
            let V1Content { journal, next_position, seen_below, log_upto } = content;
            state.restoring().end(self.0, next_position, seen_below);
            state.content.durability.use_journal(journal, log_upto);
            state.loading.end(self.0, wakes);
        });
    }
}
