//! Bringing back what was taken away: a portion at a time is put into the queue, and then noted as there. A
//! crash in between loses no message; those of one portion may come back twice.

use crate::entry::{Busy, Entry, KeptStream, RemovedMessage, UndoEntry, name_of};
use crate::undo::Undo;
use meta::Command;
use segments::{DiskFile, FileError, IoContext as _, OpenMode};
use std::sync::Arc;

/// The reason why an entry is not brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoRefused {
    /// The entry does not exist, or no longer.
    NotFound,
    /// The entry is being written or brought back already.
    Busy,
    /// The messages have no queue to go to, for this reason.
    NoQueue(String),
}

/// An entry that is being brought back.
#[derive(Debug)]
pub struct BringingBack {
    undo: Arc<Undo>,
    entry: Arc<Entry>,
    file: Box<dyn DiskFile>,
    /// The commands that make the queue again, if they can be read.
    definitions: Option<Vec<Command>>,
}

impl BringingBack {
    /// Begins to bring an entry back. The caller waits for the disk.
    ///
    /// # Errors
    /// The entry does not exist, or is busy.
    pub fn begin(undo: &Arc<Undo>, id: u64) -> Result<Self, UndoRefused> {
        let unix_ms = undo.unix_ms();
        let entry = {
            let entries = stdx::lock(&undo.entries);
            let entry = entries.get(&id).filter(|entry| entry.head.until_ms > unix_ms);
            let entry = entry.ok_or(UndoRefused::NotFound)?;
            if !entry.set_busy(Busy::BringingBack) {
                return Err(UndoRefused::Busy);
            }
            Arc::clone(entry)
        };
        if !entry.end_writing(None) {
            entry.set_busy(Busy::No);
            return Err(UndoRefused::Busy);
        }
        let file = undo.disk().open(&name_of(id), OpenMode::Existing).context("open", &name_of(id));
        match file.and_then(|file| entry.mend(&*file).map(|()| file)) {
            Ok(file) => {
                let definitions = entry.definitions(&*file);
                Ok(Self { undo: Arc::clone(undo), entry, file, definitions })
            }
            Err(error) => {
                entry.set_busy(Busy::No);
                tracing::warn!("cannot undo: {error}");
                Err(UndoRefused::NotFound)
            }
        }
    }

    /// The entry in its present state.
    #[must_use]
    pub fn shown(&self) -> UndoEntry {
        self.entry.shown()
    }

    /// The numbers of the portions that are left to be brought back.
    #[must_use]
    pub fn portions(&self) -> Vec<u32> {
        self.entry.portions()
    }

    /// The commands that make a deleted queue again; `None` if they cannot be read.
    #[must_use]
    pub fn definitions(&self) -> Option<&[Command]> {
        self.definitions.as_deref()
    }

    /// Gives the files of the entry's stream to the stream `id`, which is about to be made of them. The
    /// caller waits for the disk.
    ///
    /// # Errors
    /// The disk's: the files are the entry's still.
    pub fn take_stream(&self, id: u64) -> Result<Option<KeptStream>, UndoRefused> {
        let Some(stream) = self.entry.stream() else { return Ok(None) };
        let noted = self.entry.note_move(&*self.file, id).map_err(|error| error.to_string());
        let moved = noted.and_then(|()| {
            self.undo.streams.move_files(stream.id, id).map_err(|error| error.to_string())
        });
        if let Err(reason) = moved {
            self.put_back_stream(Some(stream), id);
            return Err(UndoRefused::NoQueue(reason));
        }
        self.entry.set_stream(None);
        Ok(Some(stream))
    }

    /// Takes back the files that [`BringingBack::take_stream`] gave to the stream `id`: it was not made. The
    /// caller waits for the disk.
    pub fn put_back_stream(&self, stream: Option<KeptStream>, id: u64) {
        let Some(kept) = stream else { return };
        match self.undo.streams.move_files(id, kept.id) {
            Ok(()) => self.entry.set_stream(stream),
            Err(error) => tracing::error!("undo needs a restart of the node: {error}"),
        }
    }

    /// The messages of a portion; `None` if the portion cannot be read. The
    /// caller waits for the disk.
    #[must_use]
    pub fn messages(&self, number: u32) -> Option<Vec<RemovedMessage>> {
        self.entry.messages(&*self.file, number)
    }

    /// Notes that messages of a portion are back: those at these positions, or all. The caller waits for the
    /// disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn note(&self, number: u32, positions: Option<&[u64]>) -> Result<(), FileError> {
        self.entry.leave_out(&*self.file, number, positions)?;
        self.file.sync_data().context("sync", &name_of(self.entry.id))
    }

    /// Ends the work: the entry is removed if nothing is left of it. The caller waits for the disk.
    pub fn end(self) {
        let UndoEntry { id, n_messages, is_damaged, head, .. } = self.entry.shown();
        let undo = Arc::clone(&self.undo);
        drop(self);
        // A stream's messages are not in the part that is damaged.
        if n_messages == 0 && (!is_damaged || head.stream.is_some()) {
            let _was_there = undo.forget(id);
        }
    }
}

impl Drop for BringingBack {
    fn drop(&mut self) {
        self.entry.set_busy(Busy::No);
    }
}
