//! A queue on its way into the other version of its files, under traffic: both are written until all is in
//! both. `v1::conversion` says in which order.

use super::Queue;
use super::recover_pages::PageRead;
use content::Journal;
use content::records;
use meta::QueueVersion;
use queue::PositionRange;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::Queued;
use store::backlog::{BacklogPart, LoadedPage, PersistentPositions, StoredPage, ToLog};
use store::blob::BlobId;

/// A page on its way into a journal.
struct PageCopy<'a> {
    journal: &'a Journal,
    positions: &'a Range<u64>,
}

impl PageCopy<'_> {
    /// Publishes all messages. Messages whose bodies are stored name them, and the page keeps the references.
    /// Of the bodies `stored_bytes` were stored for this.
    fn copy<'m>(
        &self,
        messages: impl Iterator<Item = Queued<'m>>,
        end: u64,
        mut stored_bytes: usize,
    ) -> CopyOutcome {
        let wanted = messages.filter(|queued| {
            queued.message.persistent && self.positions.contains(&queued.position)
        });
        for queued in wanted {
            let added_bytes = std::mem::take(&mut stored_bytes);
            let queued = Queued { is_delivered: false, ..queued };
            drop_note(self.journal.v1.publish(&queued, added_bytes));
        }
        if end >= self.positions.end { CopyOutcome::All } else { CopyOutcome::Upto(end) }
    }
}

/// Drops a note of the journal that nobody waits for.
const fn drop_note(_: u64) {}

/// The outcome of publishing a page in a journal.
pub(crate) enum CopyOutcome {
    /// The page is published; the next one begins at this position.
    Upto(u64),
    /// No page was left.
    All,
    /// The page's image is to be read first; the next page begins at `next`.
    Read { blob: BlobId, is_durable: bool, next: u64 },
    /// The image that was read is damaged; the next page begins at `next`.
    Damaged { next: u64 },
}

/// The outcome of having a page logged.
pub(crate) enum LogPageOutcome {
    /// The page is logged; the next one begins at this position.
    Upto(u64),
    /// No page was left.
    All,
    /// The page is on disk: its image is to be copied, then [`VersionChange::log_image`].
    Stored(StoredPage),
    /// The page is being read.
    Busy,
}

/// A queue on its way into the other version. `v1::conversion` says in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionChange<'q>(pub(crate) &'q Queue);

impl VersionChange<'_> {
    /// Begins to write into `journal`, beside the log. Returns the position from which on all is in both;
    /// none if the queue cannot be converted.
    pub(crate) fn write_journal_too(&self, journal: &Arc<Journal>) -> Option<u64> {
        let mut state = stdx::lock(&self.0.state);
        let is_begun = !state.deleted && state.content.durability.add_journal(journal);
        is_begun.then(|| state.fifo.messages().next_position())
    }

    /// Begins to write into the log, beside the journal. Returns the journal, and the position from which on
    /// all is in both.
    pub(crate) fn write_log_too(&self) -> Option<(Arc<Journal>, u64)> {
        let mut state = stdx::lock(&self.0.state);
        if state.deleted {
            return None;
        }
        let journal = state.content.durability.add_log()?;
        // Entries in the log are from before the queue had version 1, or from an attempt that did not come to
        // its end.
        records::append_purged(
            self.0.wal(),
            self.0.def.id.0,
            &[PositionRange { start: 0, end: u64::MAX }],
        );
        Some((journal, state.fifo.messages().next_position()))
    }

    /// Publishes the persistent messages of the first page in `positions` in a journal, with the image that
    /// was read for it.
    pub(crate) fn copy_page(
        &self,
        journal: &Journal,
        positions: Range<u64>,
        image: Option<&PageRead>,
    ) -> CopyOutcome {
        if positions.is_empty() {
            return CopyOutcome::All;
        }
        let mut state = stdx::lock(&self.0.state);
        let copy = PageCopy { journal, positions: &positions };
        let stored_bytes = state.content.backlog.jobs().name_bodies(positions.start);
        match state.content.backlog.pages().part_from(positions.start) {
            Some(BacklogPart::Here(page)) => copy.copy(page.messages(), page.end, stored_bytes),
            Some(BacklogPart::Stored { blob, is_durable, wanted, end, .. }) => match image {
                Some(PageRead { blob: of, bytes: Some(image) }) if *of == blob => {
                    match LoadedPage::read(self.0.pool(), image, &wanted) {
                        Ok(loaded) => copy.copy(loaded.messages(), end, 0),
                        Err(_) => CopyOutcome::Damaged { next: end },
                    }
                }
                Some(_) | None => CopyOutcome::Read { blob, is_durable, next: end },
            },
            None => CopyOutcome::All,
        }
    }

    /// Has the persistent messages of the first page in `positions` logged, if it is in memory.
    pub(crate) fn log_page(&self, positions: Range<u64>) -> LogPageOutcome {
        if positions.is_empty() {
            return LogPageOutcome::All;
        }
        let mut state = stdx::lock(&self.0.state);
        let append = |queued: &Queued<'_>| {
            records::append_message(self.0.wal(), self.0.def.id.0, queued).at.segment
        };
        match state.content.backlog.log_places().log_next(positions.start, append) {
            None => LogPageOutcome::All,
            Some(ToLog::Busy) => LogPageOutcome::Busy,
            Some(ToLog::Stored(page)) => LogPageOutcome::Stored(page),
            Some(ToLog::Done { next, freed }) => {
                if let Some(freed) = freed {
                    self.0.services.free_page(freed, &self.0.bodies);
                }
                LogPageOutcome::Upto(next)
            }
        }
    }

    /// Logs the page's image, which is durable as `durable`. False if the page has changed meanwhile.
    pub(crate) fn log_image(
        &self,
        page: &StoredPage,
        durable: BlobId,
        persistent: &PersistentPositions,
    ) -> bool {
        let mut state = stdx::lock(&self.0.state);
        let Some(logged) =
            state.content.backlog.log_places().image_logged(page, durable, persistent)
        else {
            if !page.is_durable {
                self.0.storage().images.durable.release(durable, 1);
            }
            return false;
        };
        if let Some(note) = &logged.note {
            let appended = records::append_paged(self.0.wal(), self.0.def.id.0, note);
            state.content.backlog.log_places().paged_in_log(page.page, appended.at.segment);
        }
        if let Some(segment) = logged.noted_before {
            self.0.wal().release(segment, 1);
        }
        if let Some(replaced) = logged.replaced {
            self.0.services.free_page(replaced, &self.0.bodies);
        }
        true
    }

    /// Has confirms wait for both versions from now on.
    pub(crate) fn await_both(&self) {
        stdx::lock(&self.0.state).content.durability.await_both();
    }

    /// Makes the version `to` the one that counts, by one log entry.
    pub(crate) fn complete(&self, to: QueueVersion) {
        let mut state = stdx::lock(&self.0.state);
        if state.deleted {
            return;
        }
        let upto = self.0.files_version.log(self.0.wal(), to);
        state.content.durability.complete(to, upto);
        if to == QueueVersion::V1 {
            state.content.backlog.log_places().unlog().release(self.0.wal());
        }
    }

    /// Shows how far the conversion has come, in thousandths.
    pub(crate) fn show_progress(&self, to: QueueVersion, permille: u64) {
        let shown = u64::from(to.number()) << 32 | (permille + 1);
        self.0.counters.conversion.store(shown, Ordering::Relaxed);
    }

    /// Shows that no conversion is under way.
    pub(crate) fn clear_progress(&self) {
        self.0.counters.conversion.store(0, Ordering::Relaxed);
    }
}
