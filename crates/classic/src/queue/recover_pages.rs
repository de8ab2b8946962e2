//! Work a start leaves for later: the core of a queue with rules has to know something of each message,
//! and what is in page images must be read for that. Until then the queue's clients wait.

use super::Queue;
use super::durability::OlderContent;
use super::state::{QueueState, restored_ms};
use message::MessageRef;
use queue::PositionSet;
use std::sync::atomic::Ordering;
use store::Queued;
use store::backlog::{LoadedPage, Part};
use store::blob::BlobId;

/// A page's image as it was read; none if it cannot be.
pub(crate) struct PageRead {
    pub(crate) blob: BlobId,
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The outcome of telling the core of a page's messages.
pub(crate) enum ScanStep {
    /// It knows them; the next page begins here.
    Upto(u64),
    /// This image is to be read first.
    Read { blob: BlobId, is_durable: bool },
    /// There are no others.
    All,
}

impl Queue {
    /// From now on its clients wait until it is read.
    pub(super) fn start_reading(&self, local: &mut QueueState) {
        local.content.durability.start_loading();
        self.is_loading.store(true, Ordering::Release);
    }
}

/// Messages of which nothing is known.
fn unknown(ranges: Vec<std::ops::Range<u64>>) -> Vec<queue::RecoveredMessages> {
    let of_range = |range: std::ops::Range<u64>| queue::RecoveredMessages {
        positions: queue::PositionRange { start: range.start, end: range.end },
        ..queue::RecoveredMessages::NOTHING_KNOWN
    };
    ranges.into_iter().map(of_range).collect()
}

impl QueueState {
    /// A message of an earlier life, as the core is to know it.
    pub(super) fn stored_of(&self, queued: &Queued<'_>) -> queue::RecoveredMessages {
        self.policy.recovered(queued.position, &queued.message, u64::from(queued.body_bytes()))
    }
}

/// A queue that is being filled after a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'q>(&'q Queue);

impl Queue {
    /// The queue while it is filled after a start.
    #[must_use]
    pub(crate) const fn filling(&self) -> Filling<'_> {
        Filling(self)
    }
}

impl Filling<'_> {
    /// Tells the core of the messages of the first page at or behind `position`, with the image that was
    /// read for it.
    pub(crate) fn tell_part(&self, position: u64, read: Option<&PageRead>) -> ScanStep {
        let mut local = stdx::lock(&self.0.local);
        if local.is_deleted() {
            return ScanStep::All;
        }
        let (stored, end) = match local.content.backlog.pages().part_from(position) {
            None => return ScanStep::All,
            Some(Part::Here(page)) => {
                (page.messages().map(|queued| local.stored_of(&queued)).collect(), page.end)
            }
            Some(Part::Stored { first, blob, is_durable, wanted, end }) => {
                let Some(read) = read.filter(|read| read.blob == blob) else {
                    return ScanStep::Read { blob, is_durable };
                };
                let bytes = read.bytes.as_deref();
                let page =
                    bytes.map(|bytes| LoadedPage::read(&self.0.storage.pool, bytes, &wanted));
                let stored = match page {
                    Some(Ok(page)) => page.messages().map(|it| local.stored_of(&it)).collect(),
                    // Its messages are lost when their turn comes.
                    Some(Err(_)) | None => unknown(wanted.ranges_from(first)),
                };
                (stored, end)
            }
        };
        for stored in &stored {
            local.fifo.restore(stored, restored_ms(self.0, stored));
        }
        ScanStep::Upto(end)
    }

    /// The core knows all messages: the queue can be used. Positions from `next_position` on are free,
    /// those below `seen_below` may have been delivered before.
    pub(crate) fn end(&self, next_position: u64, seen_below: u64) {
        self.0.with(|local, wakes| {
            if !local.is_deleted() {
                local.restored(next_position, seen_below);
                self.0.end_loading(local, wakes);
            }
        });
    }

    /// Puts a message back in that was read from the queue's files. Positions rise from call to
    /// call.
    pub(crate) fn message(&self, position: u64, message: &MessageRef<'_>) {
        let mut local = stdx::lock(&self.0.local);
        if !local.is_deleted() {
            let stored = local.policy.recovered(position, message, message.body.len() as u64);
            local.fifo.restore(&stored, restored_ms(self.0, &stored));
            local.content.backlog.push(&self.0.storage.pool, position, message, None, None);
        }
    }

    /// Everything was read: the queue can be used.
    pub(crate) fn end_with_journal(&self, content: OlderContent) {
        self.0.with(|local, wakes| {
            if local.is_deleted() {
                return;
            }
            let OlderContent { journal, next_position, seen_below, log_upto } = content;
            local.fifo.messages_mut().restored(next_position, seen_below, &PositionSet::new());
            local.content.durability.use_journal(journal, log_upto);
            self.0.end_loading(local, wakes);
        });
    }
}
