//! The storage's start: parts the log needs before it is opened, then the rest on top of it.

use super::{Images, Losses, Scarcity, Storage};
use crate::message_store::MessageStores;
use crate::options::StorageOptions;
use crate::pager::{self, Pager, PagerStepper};
use crate::queue::QueueHost;
use crate::v1::{self, ClassicV1, ClassicV1Stepper};
use background::Poison;
use log::{Disk, LogError, Stamper, Wal};
use meta::Name;
use std::io;
use std::sync::{Arc, Mutex};
use stdx::WallClock;
use store::StoreError;
use store::backlog::PagePool;
use store::v1::JournalTable;

/// The parts of the storage that are there before the log.
#[derive(Debug)]
pub struct StorageParts {
    disk: Arc<dyn Disk>,
    options: StorageOptions,
    stamper: Arc<Stamper>,
    pager: Pager,
    bodies: Arc<MessageStores>,
    v1: ClassicV1,
}

impl StorageParts {
    /// Parts that use `disk` and touch nothing yet.
    #[must_use]
    pub fn new(disk: &Arc<dyn Disk>, options: &StorageOptions, stamper: &Arc<Stamper>) -> Self {
        let (embed_below, file_bytes) = (options.embed_below_bytes, options.body_file_bytes);
        let bodies =
            MessageStores::new(Arc::clone(disk), embed_below, file_bytes, Arc::clone(stamper));
        Self {
            disk: Arc::clone(disk),
            options: options.clone(),
            stamper: Arc::clone(stamper),
            pager: Pager::new(options.pager),
            bodies: Arc::new(bodies),
            v1: ClassicV1::new(),
        }
    }

    /// The work before each commit of the log: bodies are made durable; and the log ends when something it
    /// relies on has failed, or what `of_host` tells of.
    pub fn before_commit(
        &self,
        of_host: Poison,
    ) -> impl Fn() -> Result<(), LogError> + Send + Sync + use<> {
        let failures = [self.pager.failure(), self.v1.failure(), of_host];
        let bodies = Arc::clone(&self.bodies);
        move || {
            failures.iter().try_for_each(Poison::check)?;
            bodies.sync()
        }
    }

    /// The storage on an open log, of these virtual hosts. `is_v1` says which queues are of version 1.
    ///
    /// # Errors
    /// The disk's.
    pub fn open<'a>(
        self,
        wal: Wal,
        host: Arc<dyn QueueHost>,
        is_v1: impl Fn(u64) -> bool,
        vhosts: impl Iterator<Item = &'a Name>,
    ) -> Result<Arc<Storage>, StoreError> {
        let Self { disk, options, stamper, pager, bodies, v1 } = self;
        let images = Images::open(&disk, &options, &stamper)?;
        let journals = Arc::new(JournalTable::open(Arc::clone(&disk), is_v1)?);
        bodies.open_all(vhosts)?;
        wal.set_thrifty(options.is_short);
        Ok(Arc::new(Storage {
            disk,
            wal,
            journals,
            pool: PagePool::default(),
            losses: Mutex::new(Losses::default()),
            images,
            bodies,
            pager,
            v1,
            time: WallClock::new(options.clock),
            host,
            scarcity: Scarcity::new(options.is_short),
        }))
    }
}

impl Storage {
    /// Everything that needs something in files is known: others may be freed.
    pub fn start_freeing(&self) {
        self.wal.start_freeing();
        self.images.durable.start_reclaiming();
        self.images.volatile.start_reclaiming();
    }

    /// Starts the threads of the pager and of queues of version 1.
    ///
    /// # Errors
    /// The system's.
    pub fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        pager::start(self)?;
        v1::start(self)
    }

    /// The work of these threads, to be done by the caller. For simulation.
    #[must_use]
    pub fn steppers(self: &Arc<Self>) -> (PagerStepper, ClassicV1Stepper) {
        (PagerStepper::new(self), ClassicV1Stepper::new(self))
    }

    /// Ends the threads: nothing is written any more but by the log, and nobody waits.
    pub fn end(&self) {
        self.pager.end();
        self.v1.end();
    }
}
