//! The parts of a node that its streams share: the disk, open files, the clock, the inbox of their threads.

use background::{Inbox, Next, Pending, Poison};
use chunk_log::{ReadAhead, StreamFiles};
use log::Disk;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use stdx::{Clock, WallClock};

/// Publishers wait while so many bytes of all streams wait for the disk.
const UNWRITTEN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The event that publishes to streams are confirmed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamDurability {
    /// They are handed to the operating system, as with RabbitMQ.
    #[default]
    Write,
    /// They are synced to the disk.
    Fsync,
}

/// How a node keeps its streams.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// The event that publishes are confirmed upon.
    pub durability: StreamDurability,
    /// How far consumers read ahead.
    pub read_ahead: ReadAhead,
    /// Files of streams that are open at a time.
    pub open_files_max: usize,
}

/// Open files of all streams where nothing else is said.
const OPEN_FILES_MAX: usize = 4_096;

impl Default for StreamOptions {
    fn default() -> Self {
        let (durability, read_ahead) = (StreamDurability::default(), ReadAhead::default());
        Self { durability, read_ahead, open_files_max: OPEN_FILES_MAX }
    }
}

/// The parts of a node that its streams share.
#[derive(Debug)]
pub(crate) struct StreamServices {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) files: Arc<StreamFiles>,
    pub(crate) options: StreamOptions,
    pub(crate) time: WallClock,
    pub(crate) inbox: Inbox<Work>,
    pub(crate) failure: Poison,
}

/// Something for a thread to do.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The work of the threads.
#[derive(Default)]
pub(crate) struct Work(VecDeque<Task>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.0.len()).finish()
    }
}

impl Pending for Work {}

impl StreamServices {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        options: StreamOptions,
        clock: Clock,
        failure: &Poison,
    ) -> Arc<Self> {
        let files = StreamFiles::new(Arc::clone(&disk), options.open_files_max);
        let inbox = Inbox::new(UNWRITTEN_BYTES_MAX, failure);
        let (time, failure) = (WallClock::new(clock), failure.clone());
        Arc::new(Self { disk, files, options, time, inbox, failure })
    }

    /// So many bytes wait no longer.
    pub(crate) fn note_written(&self, bytes: u64) {
        let was_too_much = self.inbox.excess_bytes() >= UNWRITTEN_BYTES_MAX;
        self.inbox.remove_excess(bytes);
        if was_too_much {
            self.inbox.tell_of_capacity();
        }
    }

    pub(crate) fn remove_files(&self, id: u64) {
        if let Err(error) = chunk_log::delete_log(&self.files, id) {
            tracing::error!("files of deleted stream {id} stay: {error}");
        }
    }

    /// Has a thread do it.
    pub(crate) fn ask(&self, task: Task) {
        self.inbox.add(|work| work.0.push_back(task));
    }

    /// The life of a thread.
    pub(crate) fn do_tasks(&self) {
        let next = |work: &mut Work, _| work.0.pop_front().map_or(Next::Wait, Next::Do);
        while let Some(task) = self.inbox.wait(next) {
            task();
        }
    }

    /// Does one thing that the threads would do; false if there is none.
    pub(crate) fn step(&self) -> bool {
        let task =
            self.inbox.step(|work: &mut Work| work.0.pop_front().map_or(Next::Wait, Next::Do));
        task.map(|task| task()).is_some()
    }
}
