//! The open files of all streams of a node: a limited number, the least recently used closed for another.
//!
//! A [`Slot`] stands for one file, open or not; the log that writes it and all readers share it, so a file is
//! open once. A file that somebody is just using, or that a [`FileRange`](crate::FileRange) names, stays open
//! beyond the limit until that is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use segments::{Disk, File};

use crate::counters::{Counters, ReadCounts};
use crate::error::Result;
use crate::table::StreamTable;

/// The files of all streams.
#[derive(Debug)]
pub struct StreamFiles {
    disk: Arc<dyn Disk>,
    open_files_max: usize,
    opened: Mutex<Opened>,
    /// Files of segments that retention has removed.
    removed: Mutex<Vec<File>>,
    counters: Counters,
    /// The table that is told what streams have; none where nobody asks afterwards.
    table: Option<StreamTable>,
}

/// The most files of removed segments that stay open until [`StreamFiles::close_removed`]; further ones are
/// closed by the thread that removes or reads them.
const REMOVED_OPEN_MAX: usize = 64;

/// Slots with an open file, in the order of a clock's hand. A slot that is gone leaves when the hand
/// meets it.
#[derive(Debug, Default)]
struct Opened {
    slots: Vec<Weak<Slot>>,
    hand: usize,
}

/// A file that is open or not.
#[derive(Debug)]
pub(crate) struct Slot {
    files: Arc<StreamFiles>,
    name: Box<str>,
    handle: Mutex<Option<File>>,
    is_used: AtomicBool,
}

impl StreamFiles {
    /// The files below `disk`, at most so many of them open (one at least).
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, open_files_max: usize) -> Arc<Self> {
        Self::with_table(disk, open_files_max, None)
    }

    /// The files below `disk`, with the table that is told what streams have.
    #[must_use]
    pub fn with_table(
        disk: Arc<dyn Disk>,
        open_files_max: usize,
        table: Option<StreamTable>,
    ) -> Arc<Self> {
        let open_files_max = open_files_max.max(1);
        Arc::new(Self {
            disk,
            open_files_max,
            opened: Mutex::default(),
            removed: Mutex::default(),
            counters: Counters::default(),
            table,
        })
    }

    /// The table that is told what streams have, if a table is used.
    pub const fn table(&self) -> Option<&StreamTable> {
        self.table.as_ref()
    }

    /// Figures of the readers of all streams since the start.
    #[must_use]
    pub fn read_counts(&self) -> ReadCounts {
        self.counters.read()
    }

    /// How many files are open, besides those in use that had to make room.
    pub fn n_open(&self) -> usize {
        let opened = self.opened();
        let is_open = |slot: &&Weak<Slot>| slot.upgrade().is_some_and(|slot| slot.is_open());
        opened.slots.iter().filter(is_open).count()
    }

    /// Closes files of removed segments that nobody reads any more. The last handle of a
    /// large one gives its space back, which takes a while: for a thread that nobody waits for.
    pub fn close_removed(&self) {
        let mut removed = self.removed();
        let is_unread = |file: &mut File| Arc::strong_count(file.handle()) == 1;
        let unread: Vec<_> = removed.extract_if(.., is_unread).collect();
        drop(removed);
        drop(unread);
    }

    /// Closes the files in a directory that is removed, whoever has their slots still: their space is given
    /// back.
    pub(crate) fn close_in(&self, dir: &str) {
        let is_in = |slot: &Arc<Slot>| slot.name.rsplit_once('/').is_some_and(|(of, _)| of == dir);
        let slots: Vec<_> = {
            let opened = self.opened();
            opened.slots.iter().filter_map(Weak::upgrade).filter(is_in).collect()
        };
        for slot in slots {
            drop(slot.handle().take());
        }
    }

    /// Whether files of removed segments are open.
    pub fn has_removed(&self) -> bool {
        !self.removed().is_empty()
    }

    /// Has [`Self::close_removed`] close the file of a segment that is about to be removed.
    pub(crate) fn keep_removed(&self, slot: &Arc<Slot>) {
        let file = slot.file();
        let mut removed = self.removed();
        if removed.len() < REMOVED_OPEN_MAX {
            removed.extend(file);
        }
    }

    fn removed(&self) -> MutexGuard<'_, Vec<File>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A file that is there, not open yet.
    pub(crate) fn slot(self: &Arc<Self>, name: &str) -> Arc<Slot> {
        Arc::new(Slot {
            files: Arc::clone(self),
            name: name.into(),
            handle: Mutex::default(),
            is_used: AtomicBool::new(true),
        })
    }

    /// A new file; a left-over of that name is removed.
    pub(crate) fn create(self: &Arc<Self>, name: &str) -> Result<Arc<Slot>> {
        let file = File::create_anew(self.disk(), name)?;
        let slot = self.slot(name);
        *slot.handle() = Some(file);
        self.admit(&slot);
        Ok(slot)
    }

    /// Takes a slot that has just opened its file, and closes what is too many.
    fn admit(&self, slot: &Arc<Slot>) {
        let mut closed = Vec::new();
        let mut opened = self.opened();
        let mut steps_left = 2 * opened.slots.len();
        while opened.slots.len() >= self.open_files_max && steps_left > 0 {
            closed.extend(opened.turn());
            steps_left -= 1;
        }
        opened.slots.push(Arc::downgrade(slot));
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Opened {
    /// Moves the hand to the next slot: one that was used since its last turn stays. The file to be closed.
    fn turn(&mut self) -> Option<File> {
        if self.hand >= self.slots.len() {
            self.hand = 0;
        }
        let slot = self.slots.get(self.hand).and_then(Weak::upgrade);
        let handle = match &slot {
            Some(slot) => match slot.try_close() {
                Closing::Closed(handle) => handle,
                Closing::InUse => {
                    self.hand += 1;
                    return None;
                }
            },
            None => None,
        };
        if self.hand < self.slots.len() {
            self.slots.swap_remove(self.hand);
        }
        handle
    }
}

enum Closing {
    Closed(Option<File>),
    InUse,
}

impl Slot {
    /// The file, opened if it is not.
    pub(crate) fn file(self: &Arc<Self>) -> Result<File> {
        let mut handle = self.handle();
        if let Some(file) = handle.as_ref() {
            self.is_used.store(true, Ordering::Relaxed);
            return Ok(file.clone());
        }
        let file = File::open(self.files.disk(), &self.name)?;
        *handle = Some(file.clone());
        drop(handle);
        self.files.admit(self);
        Ok(file)
    }

    /// The file, if it is open and nobody is just opening it.
    pub(crate) fn file_at_hand(&self) -> Option<File> {
        let file = self.handle.try_lock().ok()?.clone();
        self.is_used.store(true, Ordering::Relaxed);
        file
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn is_open(&self) -> bool {
        self.handle().is_some()
    }

    fn try_close(&self) -> Closing {
        if self.is_used.swap(false, Ordering::Relaxed) {
            return Closing::InUse;
        }
        match self.handle.try_lock() {
            Ok(mut handle) => Closing::Closed(handle.take()),
            Err(TryLockError::Poisoned(handle)) => Closing::Closed(handle.into_inner().take()),
            Err(TryLockError::WouldBlock) => Closing::InUse,
        }
    }

    fn handle(&self) -> MutexGuard<'_, Option<File>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
