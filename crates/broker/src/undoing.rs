//! Purging, deleting and removing so that it can be undone, and undoing it. Never who may do so.
//!
//! ```text
//! look at messages -> write them down, sync -> take away exactly these -> the next ones
//! ```
//! So there is no moment at which a message is nowhere.

mod bringing_back;
mod keeping;

pub use bringing_back::{BringingBack, UndoRefused};
pub use keeping::{Keeping, TakenAway, Taking};

use crate::admin::Operations;
use crate::alarms::Alarm;
use crate::broker::Broker;
use crate::queue_ref::QueueRef;
use crate::undo::{Busy, KeptStream, UndoEntry, UndoFiles};
use log::Disk;

/// The bounds within which messages that are taken away next can be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoOffer {
    /// How long.
    pub window_ms: u64,
    /// How many bytes.
    pub bytes_max: u64,
}

/// All that can be brought back, as operators see and use it.
#[derive(Clone, Copy, Debug)]
pub struct UndoEntries<'b>(&'b Broker);

impl<'b> Operations<'b> {
    /// All that can be brought back.
    #[must_use]
    pub const fn undo(self) -> UndoEntries<'b> {
        UndoEntries(self.0)
    }
}

impl<'b> UndoEntries<'b> {
    fn disk(self) -> &'b dyn Disk {
        self.0.classic.storage().disk()
    }

    pub(crate) fn files(self) -> UndoFiles<'b> {
        UndoFiles { disk: self.disk(), streams: &self.0.control_plane.streams }
    }

    fn unix_ms(self) -> u64 {
        self.0.classic.storage().time.unix_ms()
    }

    /// The part of messages taken away next that can be brought back; none if nothing can.
    #[must_use]
    pub fn offer(&self) -> Option<UndoOffer> {
        let options = self.0.undo.options;
        if options.window_ms == 0 || self.0.alarms.is_on(Alarm::Disk) {
            return None;
        }
        let taken: u64 = stdx::lock(&self.0.undo.entries).values().map(|it| it.bytes()).sum();
        let free = self.disk().space().ok()?.free_bytes.saturating_add(taken);
        let bytes_max = options.bytes_max.min(free / 100 * options.free_percent_max);
        Some(UndoOffer { window_ms: options.window_ms, bytes_max })
    }

    /// The stream, if it is one that can be brought back when it is deleted now. It waits for the disk.
    #[must_use]
    pub fn kept_stream(&self, queue: &QueueRef) -> Option<KeptStream> {
        let (QueueRef::Stream(stream), Some(offer)) = (queue, self.offer()) else { return None };
        let bytes = stream.view.stored_bytes().ok().filter(|bytes| *bytes < offer.bytes_max)?;
        Some(KeptStream { id: stream.id().0, bytes, n_messages: stream.stat().n_ready })
    }

    /// All of them, the last first.
    #[must_use]
    pub fn all(&self) -> Vec<UndoEntry> {
        let unix_ms = self.unix_ms();
        let entries = stdx::lock(&self.0.undo.entries);
        let shown = entries.values().rev().map(|entry| entry.shown());
        shown.filter(|it| it.head.until_ms > unix_ms || it.busy != Busy::No).collect()
    }

    /// Forgets one of them; false if it is not there, or busy. It waits for the disk.
    #[must_use]
    pub fn forget(&self, id: u64) -> bool {
        self.0.undo.forget(self.files(), id)
    }
}
