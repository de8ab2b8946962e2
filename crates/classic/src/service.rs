//! The classic queues of a node as the broker holds them: their start, their threads, and the order in which
//! they end.

use crate::queue::{PageScan, Queue, WorkerHost};
use crate::v1::{self, ClassicV1Stepper, V1Loading};
use content::pager::{self, PagerStepper};
use content::{JournalInbox, PagerHost, PagerInbox, Services, Storage, StorageOptions, Task};
use log::{Durability, LogError, Stamper, Wal, WalOptions};
use message_store::MessageStores;
use meta::Name;
use queue_type::{QueueHost, UsedQueues};
use segments::Disk;
use segments::Poison;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use store::StoreError;

/// The parts of classic queues that are there before the log.
#[derive(Debug)]
pub struct ClassicParts {
    disk: Arc<dyn Disk>,
    options: StorageOptions,
    stamper: Arc<Stamper>,
    bodies: Arc<MessageStores>,
    number_base: u64,
    /// The first failure of something the log relies on.
    pub failure: Poison,
}

impl ClassicParts {
    /// Parts that use `disk` and touch nothing yet, for a log with these options. Numbers of consumers are
    /// above `number_base`, in 32 bits.
    #[must_use]
    pub fn new(
        disk: &Arc<dyn Disk>,
        options: &StorageOptions,
        of_log: &WalOptions,
        number_base: u64,
    ) -> Self {
        let stamper = &of_log.stamper;
        let (embed_below, file_bytes) = (options.embed_below_bytes, options.body_file_bytes);
        let bodies =
            MessageStores::new(Arc::clone(disk), embed_below, file_bytes, Arc::clone(stamper));
        let mut options = options.clone();
        if of_log.durability == Durability::Write {
            // A commit then syncs nothing but body stores: bodies stay in their log entries.
            options.pager.stored_at_once_bytes_min = usize::MAX;
        }
        Self {
            disk: Arc::clone(disk),
            options,
            stamper: Arc::clone(stamper),
            bodies: Arc::new(bodies),
            number_base,
            failure: Poison::default(),
        }
    }

    /// The work before each commit of the log: bodies are made durable; and the log ends when something it
    /// relies on has failed.
    pub fn before_commit(&self) -> impl Fn() -> Result<(), LogError> + Send + Sync + use<> {
        let (failure, bodies) = (self.failure.clone(), Arc::clone(&self.bodies));
        move || {
            failure.check(|reason| LogError::Poisoned { reason })?;
            bodies.sync()
        }
    }

    /// Classic queues on an open log, of these virtual hosts; files of deleted ones are removed. `is_v1` says
    /// which queues are of version 1.
    ///
    /// # Errors
    /// The disk's.
    pub fn open<'a>(
        self,
        wal: Wal,
        host: Arc<dyn QueueHost>,
        is_v1: impl Fn(u64) -> bool,
        vhosts: impl Iterator<Item = &'a Name>,
        deleted: impl Iterator<Item = &'a Name>,
    ) -> Result<ClassicService, StoreError> {
        let Self { disk, options, stamper, bodies, number_base, failure } = self;
        bodies.open_all(vhosts, deleted)?;
        let storage = Storage::open(disk, &options, &stamper, wal, bodies, is_v1)?;
        let pager = PagerInbox::new(options.pager, &failure);
        let journals = JournalInbox::new(&failure);
        let used = UsedQueues::default();
        let n_annotations_dropped = AtomicU64::new(0);
        let services =
            Services { storage, pager, journals, host, used, number_base, n_annotations_dropped };
        Ok(ClassicService { services: Arc::new(services) })
    }
}

/// The classic queues of a node. Dropping it ends its threads.
#[derive(Debug)]
pub struct ClassicService {
    /// The parts of the node that its queues share.
    pub services: Arc<Services>,
}

impl ClassicService {
    /// The storage.
    pub fn storage(&self) -> &Storage {
        &self.services.storage
    }

    /// Starts the threads of the pager and of queues of version 1.
    ///
    /// # Errors
    /// The system's.
    pub fn start_threads(&self, node: &Weak<dyn WorkerHost>) -> io::Result<()> {
        let host: Weak<dyn PagerHost> = Weak::<dyn WorkerHost>::clone(node);
        pager::start(&self.services, host)?;
        v1::start(&self.services, Weak::clone(node))
    }

    /// The work of these threads, to be done by the caller. For simulation.
    #[must_use]
    pub fn steppers(&self, node: &Weak<dyn WorkerHost>) -> (PagerStepper, ClassicV1Stepper) {
        let host: Weak<dyn PagerHost> = Weak::<dyn WorkerHost>::clone(node);
        let pager = PagerStepper::new(&self.services, host);
        (pager, ClassicV1Stepper::new(&self.services, Weak::clone(node)))
    }

    /// After a start, loads queues of version 1; removes the journals of `unwanted` queues; and reads the
    /// page images of others.
    pub fn load_all(&self, queues: Vec<V1Loading>, to_read: Vec<PageScan>, unwanted: Vec<u64>) {
        let journals = &self.services.journals;
        to_read.into_iter().for_each(|scan| self.services.fill(Box::new(scan)));
        journals.add(Task::Sweep(unwanted));
        queues.into_iter().for_each(|loading| self.services.fill(Box::new(loading)));
    }

    /// Has the files of a new queue of version 1 made.
    pub fn make_files(services: &Services, queue: Arc<Queue>) {
        services.fill(Box::new(V1Loading::new(queue, None)));
    }

    /// Converts queues that should have another version than they have.
    pub fn review_versions(&self) {
        self.services.journals.add(Task::Review);
    }

    /// Has queues page that take more than they may since others have grown, and files reclaimed.
    pub fn keep_memory_small(&self, look_at_pages: impl FnOnce()) {
        let pager = &self.services.pager;
        if pager.has_excess() {
            look_at_pages();
        }
        pager.reclaim();
    }

    /// Bytes of all messages in queues, on disk too.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.services.pager.held_bytes()
    }

    /// The disk is short of space, or no longer.
    pub fn set_short(&self, is_short: bool) {
        if self.services.storage.set_short(is_short) && !is_short {
            self.services.host.space_is_back();
            self.review_versions();
        }
    }

    /// Ends in good order: nothing is written any more but by the log, nobody waits, and what the journals
    /// of `queues` have is durable. Nobody else uses the queues any more.
    ///
    /// # Errors
    /// The disk's, also those of the time before.
    pub fn close<'a>(&self, queues: impl Iterator<Item = &'a Arc<Queue>>) -> Result<(), LogError> {
        self.end();
        for journal in queues.filter_map(|queue| queue.upkeep().journal()) {
            v1::sync_at_end(&self.services, &journal)?;
        }
        Ok(self.services.storage.journals.sync()?)
    }

    /// Ends at once: who waits for the journals of `queues` waits in vain.
    pub fn abort<'a>(&self, queues: impl Iterator<Item = &'a Arc<Queue>>) {
        // Queues that wait for their turn keep the services they wait in, and who waits for a journal keeps
        // that.
        self.end();
        queues.filter_map(|queue| queue.upkeep().journal()).for_each(|journal| journal.fail());
    }

    fn end(&self) {
        self.services.pager.stop();
        self.services.journals.inbox.stop();
    }
}

impl Drop for ClassicService {
    fn drop(&mut self) {
        self.end();
    }
}
