//! The storage that the queues of a node share: the log, and the stores of pages that are not in memory.

mod open;
mod scarcity;

pub use open::StorageParts;
pub(crate) use scarcity::Scarcity;

use crate::body_refs::BodyRefs;
use crate::message_store::{BodyStore, MessageStores};
use crate::options::StorageOptions;
use crate::pager::Pager;
use crate::queue::QueueHost;
use crate::v1::{ClassicV1, journals_dir_of};
use background::Capacity;
use log::{Disk, Stamper, Wal};
use std::sync::{Arc, Mutex};
use stdx::WallClock;
use store::StoreError;
use store::backlog::{FreedPage, PagePool};
use store::blob::{BlobId, BlobOptions, BlobStore};
use store::v1::{Damage, JournalTable, V1Options};

/// Pages with messages that survive a restart.
pub const PAGES_DIR: &str = "pages";
/// Pages that do not: emptied at the start.
const SWAP_DIR: &str = "swap";

/// Messages and places in files that could not be read since the start.
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

/// The storage that queues of a node share.
#[derive(Debug)]
pub struct Storage {
    /// The data directory.
    pub disk: Arc<dyn Disk>,
    /// The node's log.
    pub wal: Wal,
    pub(crate) pool: PagePool,
    /// Counted since the start.
    pub losses: Mutex<Losses>,
    /// Page images.
    pub images: Images,
    /// Bodies that several queues hold.
    pub bodies: Arc<MessageStores>,
    /// Told which files queues of version 1 have.
    pub journals: Arc<JournalTable>,
    /// Keeps backlogs out of memory.
    pub pager: Pager,
    /// Queues of version 1.
    pub v1: ClassicV1,
    /// The clock.
    pub time: WallClock,
    pub(crate) host: Arc<dyn QueueHost>,
    pub(crate) scarcity: Scarcity,
}

/// Page images on disk.
#[derive(Debug)]
pub struct Images {
    /// Named by the log's notes.
    pub durable: BlobStore,
    /// Of messages that do not survive a restart.
    pub volatile: BlobStore,
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
    pub fn publishers_wait_for(&self) -> [&dyn Capacity; 4] {
        [&self.wal, &self.pager, &self.v1, &*self.host]
    }

    /// How a queue of version 1 keeps its files.
    pub(crate) fn journal_options(&self, queue: u64) -> V1Options {
        let told = Some((Arc::clone(&self.journals), queue));
        V1Options { told, ..V1Options::new(journals_dir_of(queue)) }
    }

    /// Counts a place in a file of a queue of version 1.
    pub(crate) fn note_unreadable(&self, damage: &Damage) {
        let mut losses = stdx::lock(&self.losses);
        losses.n_unreadable += 1;
        losses.unreadable_bytes += damage.bytes;
    }

    /// Counts bytes at the end of the log that the start cut off.
    pub fn note_cut_off(&self, bytes: u64) {
        stdx::lock(&self.losses).cut_off_bytes += bytes;
    }

    /// Nobody needs the image any more.
    pub(crate) fn release_image(&self, image: BlobId, is_durable: bool) {
        if !self.images.store(is_durable).release(image, 1) {
            tracing::error!("page image {image:?} is released and was not there");
        }
    }
}
