//! The storage that the queues of a node share: the log, and the stores of pages that are not in memory.

mod loss_lines;
mod scarcity;

use loss_lines::LossLines;
use scarcity::Scarcity;

use crate::journal::journals_dir_of;
use crate::options::StorageOptions;
use log::{Stamper, Wal};
use message_store::MessageStores;
use meta::QueueDef;
use queue_index::{Damage, JournalTable, V1Options};
use queue_type::Deaths;
use segments::Disk;
use std::sync::{Arc, Mutex};
use stdx::WallClock;
use store::StoreError;
use store::backlog::PagePool;
use store::blob::{BlobId, BlobOptions, BlobStore};

/// Pages with messages that survive a restart.
pub const PAGES_DIR: &str = "pages";
/// Pages that do not: emptied at the start.
pub const SWAP_DIR: &str = "swap";

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
    /// Memory of pages.
    pub pool: PagePool,
    /// Counted since the start.
    pub losses: Mutex<Losses>,
    loss_lines: LossLines,
    /// Messages that died in queues of any type.
    pub deaths: Deaths,
    /// Page images.
    pub images: Images,
    /// Bodies that queues have by reference.
    pub bodies: Arc<MessageStores>,
    /// Told which files queues of version 1 have.
    pub journals: Arc<JournalTable>,
    /// Operations after which a journal is flushed.
    journal_operations_max: u64,
    /// The clock.
    pub time: WallClock,
    scarcity: Scarcity,
}

/// Page images on disk.
#[derive(Debug)]
pub struct Images {
    /// Named by the log's notes.
    pub durable: BlobStore,
    /// Images of messages that do not survive a restart.
    pub volatile: BlobStore,
}

impl Images {
    /// Opens both stores.
    ///
    /// # Errors
    /// The disk's.
    fn open(
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
    pub const fn store(&self, is_durable: bool) -> &BlobStore {
        if is_durable { &self.durable } else { &self.volatile }
    }

    /// Writes what was appended, and makes it durable where that is wanted.
    ///
    /// # Errors
    /// The disk's; nothing may be confirmed any more.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.volatile.sync()?;
        self.durable.sync()
    }
}

impl Storage {
    /// The storage on an open log, with bodies of the virtual hosts. `is_v1` says which queues are of
    /// version 1.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &StorageOptions,
        stamper: &Arc<Stamper>,
        wal: Wal,
        bodies: Arc<MessageStores>,
        is_v1: impl Fn(u64) -> bool,
    ) -> Result<Self, StoreError> {
        let images = Images::open(&disk, options, stamper)?;
        let journals = Arc::new(JournalTable::open(Arc::clone(&disk), is_v1)?);
        wal.set_thrifty(options.is_short);
        Ok(Self {
            disk,
            wal,
            pool: PagePool::default(),
            losses: Mutex::default(),
            loss_lines: LossLines::default(),
            deaths: Deaths::default(),
            images,
            bodies,
            journals,
            journal_operations_max: options.journal_operations_max,
            time: WallClock::new(options.clock),
            scarcity: Scarcity::new(options.is_short),
        })
    }

    /// The data directory.
    pub const fn shared_disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The disk with the node's data.
    pub fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Messages and places in files that could not be read since the start.
    pub fn losses(&self) -> Losses {
        *stdx::lock(&self.losses)
    }

    /// Options for the files of a queue of version 1.
    pub fn journal_options(&self, queue: u64) -> V1Options {
        let told = Some((Arc::clone(&self.journals), queue));
        let journal_operations_max = self.journal_operations_max;
        V1Options { told, journal_operations_max, ..V1Options::new(journals_dir_of(queue)) }
    }

    /// Removes the files of a queue of version 1.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget_journal(&self, queue: u64) -> Result<(), StoreError> {
        self.journals.forget(queue)?;
        queue_index::remove_all(self.disk.as_ref(), &journals_dir_of(queue))
    }

    /// Counts a place in a file of a queue of version 1.
    pub fn count_unreadable(&self, damage: &Damage) {
        let mut losses = stdx::lock(&self.losses);
        losses.n_unreadable += 1;
        losses.unreadable_bytes += damage.bytes;
    }

    /// Counts messages that are lost.
    pub fn count_lost(&self, n_messages: u64) {
        stdx::lock(&self.losses).n_messages += n_messages;
    }

    /// Tells of messages of a queue that are lost, soon and together with others of the same reason.
    pub fn tell_lost(&self, queue: &QueueDef, reason: &str, n_messages: u64) {
        self.loss_lines.add(queue, reason, n_messages);
    }

    /// Tells what is lost and not told yet: each second, and at the end.
    pub fn tell_losses(&self, is_end: bool) {
        self.loss_lines.tell(is_end);
    }

    /// Counts bytes at the end of the log that the start cut off.
    pub fn count_cut_off(&self, bytes: u64) {
        stdx::lock(&self.losses).cut_off_bytes += bytes;
    }

    /// Everything that needs something in files is known: others may be freed.
    pub fn start_freeing(&self) {
        self.wal.start_freeing();
        self.images.durable.start_reclaiming();
        self.images.volatile.start_reclaiming();
    }

    /// Nobody needs the image any more.
    pub fn release_image(&self, image: BlobId, is_durable: bool) {
        if !self.images.store(is_durable).release(image, 1) {
            tracing::error!("released page image {image:?}, which does not exist");
        }
    }
}
