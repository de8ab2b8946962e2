//! The notes of one log in the table of streams. Nothing is noted where there is no table.

use std::sync::Arc;

use crate::error::Result;
use crate::files::StreamFiles;
use crate::shared::{LogEnd, LogView};
use crate::sync::Noting;
use crate::table::StreamNote;

/// The notes of one log.
#[derive(Debug)]
pub struct LogNotes {
    pub(crate) files: Arc<StreamFiles>,
    pub(crate) stream: u64,
    /// The identity in the headers of the log's files.
    pub(crate) identity: u32,
}

impl LogNotes {
    /// The note to be made when everything up to `end` is durable.
    fn of(&self, view: &LogView, end: LogEnd) -> StreamNote {
        let LogEnd { next_ordinal, next_offset, segment: last, position, .. } = end;
        let (identity, first) = (self.identity, view.first_offset());
        let of_end = StreamNote { last, position, next_offset, next_ordinal, ..Default::default() };
        StreamNote { identity, first, ..of_end }
    }

    /// The note that a sync up to `end` is to make.
    pub(crate) fn begin(&self, view: &LogView, end: LogEnd) -> Noting {
        let (files, stream, note) = (Arc::clone(&self.files), self.stream, self.of(view, end));
        Noting { files, stream, note, removed: Vec::new() }
    }

    /// Notes durably what there is, which may be less than was noted.
    pub(crate) fn put_anew(&self, view: &LogView, end: LogEnd) -> Result<()> {
        let Some(table) = self.files.table() else { return Ok(()) };
        table.put(self.stream, self.of(view, end))?;
        table.sync()
    }

    /// Notes what there is, which is durable.
    pub(crate) fn put(&self, view: &LogView, end: LogEnd) -> Result<()> {
        let Some(table) = self.files.table() else { return Ok(()) };
        table.tell(self.stream, self.of(view, end))
    }

    /// Forgets the log durably: some of it is about to be cut off.
    pub(crate) fn forget(&self) -> Result<()> {
        let Some(table) = self.files.table() else { return Ok(()) };
        table.forget(self.stream)?;
        table.sync()
    }

    /// Whether nothing is noted yet that a start would miss.
    pub fn are_missing(&self) -> bool {
        self.files.table().is_some_and(|table| table.note(self.stream).is_none())
    }
}
