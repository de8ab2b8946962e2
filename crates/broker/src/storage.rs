//! What the queues of a node share: the log, and the stores of pages that are not in memory.

mod scarcity;

pub(crate) use scarcity::Scarcity;

use crate::capacity::Capacity;
use crate::classic_v1::{ClassicV1, dir_of};
use crate::clock::WallClock;
use crate::message_store::{BodyStore, MessageStores};
use crate::options::StorageOptions;
use crate::pager::{BodyRefs, Pager};
use crate::rules::QueueTimers;
use log::{Disk, Stamper, Wal};
use std::sync::{Arc, Mutex};
use store::StoreError;
use store::backlog::{FreedPage, PagePool};
use store::blob::{BlobId, BlobOptions, BlobStore};
use store::v1::{Damage, JournalTable, V1Options};

/// Pages with messages that survive a restart.
pub(crate) const PAGES_DIR: &str = "pages";
/// Pages that do not: emptied at the start.
const SWAP_DIR: &str = "swap";

/// What could not be read since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Messages lost by damage.
    pub n_messages: u64,
    /// Places in the files of queues of version 1: damage, or writes that were cut off.
    pub n_unreadable: u64,
    /// Bytes of these places, as far as their length is known.
    pub unreadable_bytes: u64,
    /// Bytes at the end of the log, which the start cut off.
    pub cut_off_bytes: u64,
}

/// What queues of a node share.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) wal: Wal,
    pub(crate) pool: PagePool,
    pub(crate) losses: Mutex<Losses>,
    pub(crate) images: Images,
    pub(crate) bodies: Arc<MessageStores>,
    /// Told which files queues of version 1 have.
    pub(crate) journals: Arc<JournalTable>,
    pub(crate) pager: Pager,
    pub(crate) older: ClassicV1,
    pub(crate) time: WallClock,
    pub(crate) rules: QueueTimers,
    pub(crate) scarcity: Scarcity,
}

/// Page images on disk.
#[derive(Debug)]
pub(crate) struct Images {
    /// Named by the log's notes.
    pub(crate) durable: BlobStore,
    pub(crate) volatile: BlobStore,
}

impl Images {
    /// Opens both stores.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        options: &StorageOptions,
        stamper: &Arc<Stamper>,
    ) -> Result<Self, StoreError> {
        let open = |dir: &str, is_volatile| {
            let stamper = Arc::clone(stamper);
            let mut of_store = BlobOptions { is_volatile, stamper, ..BlobOptions::new(dir) };
            if options.page_file_bytes > 0 {
                of_store.file_bytes = options.page_file_bytes;
            }
            BlobStore::open(Arc::clone(disk), of_store)
        };
        Ok(Self { durable: open(PAGES_DIR, false)?, volatile: open(SWAP_DIR, true)? })
    }

    /// The store of images that are durable, or need not be.
    pub(crate) const fn store(&self, is_durable: bool) -> &BlobStore {
        if is_durable { &self.durable } else { &self.volatile }
    }

    /// Writes what was appended, and makes it durable where that is wanted.
    ///
    /// # Errors
    /// The disk's; nothing may be confirmed any more.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.volatile.sync()?;
        self.durable.sync()
    }
}

impl Storage {
    /// Gives back what a page had; its stored bodies are among `bodies`. What replaced its note in
    /// the log was appended before.
    pub(crate) fn free_page(&self, freed: FreedPage, bodies: &Arc<BodyStore>) {
        let FreedPage { blob: image, is_durable, segment, owed } = freed;
        if let Some(segment) = segment {
            self.wal.release(segment, 1);
        }
        match owed {
            None => self.release_image(image, is_durable),
            Some(positions) => {
                let bodies = Arc::clone(bodies);
                self.pager.release_named(BodyRefs { bodies, image, is_durable, positions });
            }
        }
    }

    /// The parts whose work publishers wait for.
    pub(crate) fn publishers_wait_for(&self) -> [&(dyn Capacity + Sync); 4] {
        [&self.wal, &self.pager, &self.older, &self.rules]
    }

    /// How a queue of version 1 keeps its files.
    pub(crate) fn journal_options(&self, queue: u64) -> V1Options {
        let told = Some((Arc::clone(&self.journals), queue));
        V1Options { told, ..V1Options::new(dir_of(queue)) }
    }

    /// Counts a place in a file of a queue of version 1.
    pub(crate) fn note_unreadable(&self, damage: &Damage) {
        let mut losses = stdx::lock(&self.losses);
        losses.n_unreadable += 1;
        losses.unreadable_bytes += damage.bytes;
    }

    /// Nobody needs the image any more.
    pub(crate) fn release_image(&self, image: BlobId, is_durable: bool) {
        if !self.images.store(is_durable).release(image, 1) {
            tracing::error!("page image {image:?} is released and was not there");
        }
    }
}
