//! What the queues of a node share: the log, and the stores of pages that are not in memory.

use crate::pager::{Pager, PagerOptions};
use log::{Disk, Wal};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use store::StoreError;
use store::backlog::{FreedPage, PagePool};
use store::blob::{BlobOptions, BlobStore};

/// Pages with messages that survive a restart.
const PAGES_DIR: &str = "pages";
/// Pages that do not: emptied at the start.
const SWAP_DIR: &str = "swap";

/// How the broker keeps messages.
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    /// How backlogs are kept out of memory.
    pub pager: PagerOptions,
    /// Length at which a file of pages takes no more; 0 for the usual one.
    pub page_file_bytes: u32,
}

/// What queues of a node share.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) wal: Wal,
    pub(crate) pool: PagePool,
    /// Bytes of all messages in queues.
    pub(crate) held_bytes: AtomicU64,
    pub(crate) images: Images,
    pub(crate) pager: Pager,
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
    pub(crate) fn open(disk: &Arc<dyn Disk>, options: &StorageOptions) -> Result<Self, StoreError> {
        let open = |dir: &str, is_volatile| {
            let mut of_store = BlobOptions { is_volatile, ..BlobOptions::new(dir) };
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
    /// Gives back what a page had. What replaced its note in the log was appended before.
    pub(crate) fn free_page(&self, freed: &FreedPage) {
        if let Some(segment) = freed.segment {
            self.wal.release(segment, 1);
        }
        if !self.images.store(freed.is_durable).release(freed.blob, 1) {
            tracing::error!("page image {:?} is released and was not there", freed.blob);
        }
    }
}
