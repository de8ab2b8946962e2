//! The conversion of queues from one version into the other while they are used.
//!
//! ```text
//! both are written: the old version counts, what is new goes into both
//!     -> what was there before is copied, page by page
//!     -> confirms wait for both; the new version becomes durable
//! one log entry: the new version counts
//!     -> the old version is let go of when that entry is durable
//! ```
//! Nobody waits for more than the copying of a page. A crash before the entry is durable leaves the
//! old version complete, one after it the new; a start removes what the losing side has left. Many
//! queues go together, so that they share what has to wait for the disk.

use super::sync::{SYNC_ALL_FROM, sync};
use crate::queue::{CopyOutcome, LogPageOutcome, PageRead, Queue, VersionChange, WorkerHost};
use content::{Journal, JournalInbox, Services, Storage, journals_dir_of};
use log::Lsn;
use meta::QueueVersion;
use queue_index::V1Queue;
use segments::IoContext;
use std::iter::once;
use std::sync::Arc;
use store::StoreError;
use store::backlog::{PersistentPositions, StoredPage};
use store::blob::BlobId;

/// Maximum number of queues that are converted together.
const GROUP_QUEUES_MAX: usize = 256;
/// Bytes of messages from which on no other queue joins a group.
const GROUP_BYTES_MAX: u64 = 12 << 20;
/// Bytes of images that are copied before they are made durable.
const COPIED_BYTES_MAX: u64 = 8 << 20;

/// A queue that is being converted.
struct Conversion {
    queue: Arc<Queue>,
    to: QueueVersion,
    /// The journal that messages are copied from, or to.
    journal: Arc<Journal>,
    /// Position up to which messages are copied.
    next: u64,
    /// Messages from this position on are in both versions already.
    upto: u64,
    /// An image that could not be read, unless it was replaced meanwhile.
    damaged: Option<BlobId>,
}

/// An image that was appended to the durable ones.
struct Copied {
    queue: Arc<Queue>,
    page: StoredPage,
    durable: BlobId,
    persistent: PersistentPositions,
    /// Position from which the conversion goes on if the image cannot be attached.
    from: u64,
}

/// Queues that are converted together.
pub(super) struct ConversionGroup {
    conversions: Vec<Conversion>,
    /// Index of the conversion at work: the queues before it are copied.
    at: usize,
    copied: Vec<Copied>,
    copied_bytes: u64,
    /// End of the log at the settling: all is in both versions when the log is durable up to here.
    settled_upto: Option<Lsn>,
}

/// The outcome of a part of a group's conversion.
pub(super) enum Converted {
    /// Unfinished: call `step` again.
    Part,
    /// Unfinished, and waiting for the log, the pager or a page that is being read.
    Wait,
    /// The queues have their new version. The journals `left`, by queue, are needed until the log is durable.
    Done { left: Vec<(u64, Arc<Journal>)> },
}

impl ConversionGroup {
    /// Starts to convert as many of `waiting` as may go together.
    pub(super) fn start(
        storage: &Storage,
        node: &dyn WorkerHost,
        waiting: &mut Vec<Arc<Queue>>,
        may_start: impl Fn(u64) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let mut conversions = Vec::new();
        let mut bytes = 0;
        let mut postponed = Vec::new();
        while let Some(queue) = waiting.pop() {
            if queue.is_deleted() {
                continue;
            }
            let wanted = node.wanted_version(queue.def());
            if queue.files_version.get() == wanted {
                continue;
            }
            if queue.is_loading() || !may_start(queue.id().0) {
                postponed.push(queue);
                continue;
            }
            bytes += queue.stat().message_bytes;
            conversions.extend(Conversion::start(storage, queue, wanted)?);
            if conversions.len() >= GROUP_QUEUES_MAX || bytes >= GROUP_BYTES_MAX {
                break;
            }
        }
        postponed.append(waiting);
        *waiting = postponed;
        if conversions.is_empty() {
            return Ok(None);
        }
        let copied = Vec::new();
        Ok(Some(Self { conversions, at: 0, copied, copied_bytes: 0, settled_upto: None }))
    }

    /// Whether everything is in both versions.
    pub(super) fn is_copied(&self) -> bool {
        self.at >= self.conversions.len() && self.copied.is_empty()
    }

    /// Does a part of the conversion.
    pub(super) fn step(
        &mut self,
        services: &Services,
        scratch: &mut Vec<u8>,
    ) -> Result<Converted, StoreError> {
        let (storage, inbox) = (&services.storage, &services.journals);
        if !storage.wal.has_capacity() || !services.pager.has_capacity() {
            return Ok(Converted::Wait);
        }
        if self.copied_bytes >= COPIED_BYTES_MAX {
            self.attach_copied(storage)?;
            return Ok(Converted::Part);
        }
        let Some(conversion) = self.conversions.get_mut(self.at) else {
            if !self.copied.is_empty() {
                self.attach_copied(storage)?;
                return Ok(Converted::Part);
            }
            return self.finish(inbox, storage);
        };
        if conversion.queue.is_deleted() {
            self.conversions.remove(self.at);
            return Ok(Converted::Part);
        }
        let is_copied = match conversion.to {
            QueueVersion::V1 => conversion.copy(inbox, storage)?,
            QueueVersion::V2 => match conversion.log_part(storage, scratch)? {
                LoggedPart::Part { copied } => {
                    self.copied_bytes += copied.as_ref().map_or(0, |_| scratch.len() as u64);
                    self.copied.extend(copied);
                    false
                }
                LoggedPart::Busy => return Ok(Converted::Wait),
                LoggedPart::All => true,
            },
        };
        conversion.show_progress();
        self.at += usize::from(is_copied);
        Ok(Converted::Part)
    }

    /// Makes the copied images durable, and has the log name them.
    fn attach_copied(&mut self, storage: &Storage) -> Result<(), StoreError> {
        storage.images.durable.sync()?;
        self.copied_bytes = 0;
        for Copied { queue, page, durable, persistent, from } in self.copied.drain(..) {
            if VersionChange(&queue).log_image(&page, durable, &persistent) {
                continue;
            }
            // The page was loaded, or has gone, meanwhile: copying goes back to where it began.
            let place = self.conversions.iter_mut().position(|one| Arc::ptr_eq(&one.queue, &queue));
            if let Some(place) = place
                && let Some(conversion) = self.conversions.get_mut(place)
            {
                conversion.next = conversion.next.min(from);
                self.at = self.at.min(place);
            }
        }
        Ok(())
    }

    /// Makes the new version durable, now that all is in both. Confirms wait for both from here on: the
    /// definitions, which say which version counts, may be written at any moment after the change.
    fn settle(&self, inbox: &JournalInbox, storage: &Storage) -> Result<Lsn, StoreError> {
        self.conversions.iter().for_each(|one| VersionChange(&one.queue).await_both());
        let to_v1 = || self.conversions.iter().filter(|one| one.to == QueueVersion::V1);
        let journals: Vec<_> = to_v1().map(|one| Arc::clone(&one.journal)).collect();
        sync(inbox, storage, &journals)?;
        if journals.len() < SYNC_ALL_FROM {
            // Removed files must not come back after a crash, although nothing was written since.
            for dir in to_v1().map(|one| journals_dir_of(one.queue.id().0)) {
                storage.disk.sync_dir(&dir).context("sync", &dir)?;
            }
        }
        Ok(storage.wal.stats().appended_upto)
    }

    /// Settles the group, then has the new version count once the log is durable.
    fn finish(&mut self, inbox: &JournalInbox, storage: &Storage) -> Result<Converted, StoreError> {
        let upto = match self.settled_upto {
            Some(upto) => upto,
            None => {
                let upto = self.settle(inbox, storage)?;
                self.settled_upto = Some(upto);
                upto
            }
        };
        if storage.wal.durable_upto() < upto {
            storage.wal.commit_soon();
            return Ok(Converted::Wait);
        }
        self.conversions.iter().for_each(|one| VersionChange(&one.queue).complete(one.to));
        let mut left = Vec::new();
        for conversion in self.conversions.drain(..) {
            VersionChange(&conversion.queue).clear_progress();
            if conversion.to == QueueVersion::V2 && !conversion.queue.is_deleted() {
                left.push((conversion.queue.id().0, conversion.journal));
            }
        }
        Ok(Converted::Done { left })
    }
}

enum LoggedPart {
    Part {
        copied: Option<Copied>,
    },
    /// A page is being read.
    Busy,
    All,
}

impl Conversion {
    /// Begins to write both versions. None if the queue has gone.
    fn start(
        storage: &Storage,
        queue: Arc<Queue>,
        to: QueueVersion,
    ) -> Result<Option<Self>, StoreError> {
        let begun = match to {
            QueueVersion::V1 => {
                // Remains of an attempt that did not come to its end.
                storage.forget_journal(queue.id().0)?;
                let disk = Arc::clone(&storage.disk);
                let options = storage.journal_options(queue.id().0);
                let (v1, _) = V1Queue::open(disk, options, &mut |_| ())?;
                let journal = Journal::new(v1, Arc::clone(&queue.bodies));
                VersionChange(&queue).write_journal_too(&journal).map(|upto| (journal, upto))
            }
            QueueVersion::V2 => VersionChange(&queue).write_log_too(),
        };
        let Some((journal, upto)) = begun else { return Ok(None) };
        let conversion = Self { queue, to, journal, next: 0, upto, damaged: None };
        conversion.show_progress();
        Ok(Some(conversion))
    }

    fn show_progress(&self) {
        let permille = self.next.min(self.upto) * 1000 / self.upto.max(1);
        VersionChange(&self.queue).show_progress(self.to, permille);
    }

    /// Publishes a page in the journal. True when there is none left.
    fn copy(&mut self, inbox: &JournalInbox, storage: &Storage) -> Result<bool, StoreError> {
        let mut read = None;
        loop {
            let positions = self.next..self.upto;
            let image = read.as_ref();
            match VersionChange(&self.queue).copy_page(&self.journal, positions, image) {
                CopyOutcome::All => {
                    self.next = self.upto;
                    return Ok(true);
                }
                CopyOutcome::Upto(next) => {
                    self.next = next;
                    self.journal.v1.make_room(&self.journal.bodies.blobs)?;
                    inbox.count(&self.journal);
                    return Ok(false);
                }
                CopyOutcome::Damaged { next } => {
                    self.leave_behind(storage, "the page's image is damaged");
                    self.next = next;
                }
                CopyOutcome::Read { blob, next, .. } if self.damaged == Some(blob) => {
                    self.leave_behind(storage, "the page's image cannot be read");
                    self.next = next;
                }
                CopyOutcome::Read { blob, is_durable, .. } => {
                    let mut image = Vec::new();
                    let found = self.read_image(storage, blob, is_durable, &mut image)?;
                    read = found.map(|blob| PageRead { blob, bytes: Some(image) });
                }
            }
        }
    }

    /// Has a page logged, or its image copied.
    fn log_part(
        &mut self,
        storage: &Storage,
        scratch: &mut Vec<u8>,
    ) -> Result<LoggedPart, StoreError> {
        scratch.clear();
        let from = self.next;
        let page = match VersionChange(&self.queue).log_page(from..self.upto) {
            LogPageOutcome::All => return Ok(LoggedPart::All),
            LogPageOutcome::Busy => return Ok(LoggedPart::Busy),
            LogPageOutcome::Upto(next) => {
                self.next = next;
                return Ok(LoggedPart::Part { copied: None });
            }
            LogPageOutcome::Stored(page) => page,
        };
        let is_damaged = self.damaged == Some(page.blob);
        let read = if is_damaged && !page.is_durable {
            // The journal has the messages of the page.
            let first = page.page.first();
            self.journal.page(&storage.pool, first, once(first..page.next))?.map(|read| {
                scratch.extend(read.image(&storage.pool).parts().concat());
                page.blob
            })
        } else {
            self.read_image(storage, page.blob, page.is_durable, scratch)?
        };
        let persistent = PersistentPositions::of(scratch).ok().filter(|_| read.is_some());
        let Some(persistent) = persistent else {
            self.damaged = Some(page.blob);
            if is_damaged {
                self.leave_behind(storage, "the page's image cannot be read");
                self.next = page.next;
            }
            return Ok(LoggedPart::Part { copied: None });
        };
        self.next = page.next;
        let durable =
            if page.is_durable { page.blob } else { storage.images.durable.append(&[&*scratch]) };
        let queue = Arc::clone(&self.queue);
        Ok(LoggedPart::Part { copied: Some(Copied { queue, page, durable, persistent, from }) })
    }

    /// Reads an image. None if that cannot be done, perhaps because it was replaced meanwhile.
    fn read_image(
        &mut self,
        storage: &Storage,
        blob: BlobId,
        is_durable: bool,
        into: &mut Vec<u8>,
    ) -> Result<Option<BlobId>, StoreError> {
        match storage.images.store(is_durable).read(blob, into) {
            Ok(()) => Ok(Some(blob)),
            Err(error) if error.is_of_disk() => Err(error),
            Err(_) => {
                self.damaged = Some(blob);
                Ok(None)
            }
        }
    }

    fn leave_behind(&self, storage: &Storage, why: &str) {
        stdx::lock(&storage.losses).n_unreadable += 1;
        let def = self.queue.def();
        tracing::error!(
            queue = %def.name,
            vhost = %def.vhost,
            position = self.next,
            "cannot convert a page of messages: {why}"
        );
    }
}
