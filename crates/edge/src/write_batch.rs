//! Bytes that were taken from an outbox to be written.

use crate::CloseMode;
use crate::write_rope::{Cursor, WriteRope};
use session::{Error, FilePart, LinkId};
use std::io::IoSlice;

/// Bytes taken from an outbox, and how far they are written.
#[derive(Debug, Default)]
pub struct WriteBatch {
    pub(crate) rope: WriteRope,
    pub(crate) cursor: Cursor,
    pub(crate) n_left: usize,
    /// The end of the batch among all bytes ever taken.
    pub(crate) ends_at: u64,
    /// Whether something is settled by being written: the outbox is to be told of each write
    /// ([`Outgoing::wrote`](crate::Outgoing::wrote)).
    pub is_watched: bool,
    pub(crate) resume: Vec<LinkId>,
    pub(crate) refusal: Option<Box<Error>>,
    /// Set when nothing follows these bytes.
    pub close_mode: Option<CloseMode>,
}

impl WriteBatch {
    /// The part of a file that is to be written next, from which of its bytes on; none if that is something
    /// else.
    #[must_use]
    pub fn file(&self) -> Option<(&FilePart, usize)> {
        self.cursor.file(&self.rope)
    }

    /// Fills `slices` with what is to be written next, up to a part of a file; returns how many were
    /// filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.cursor.fill(&self.rope, slices)
    }

    /// Notes that `n` bytes were written.
    pub fn advance(&mut self, n: usize) {
        self.cursor.advance(&self.rope, n);
        self.n_left = self.n_left.saturating_sub(n);
    }

    /// Whether everything is written.
    pub const fn is_written(&self) -> bool {
        self.n_left == 0
    }

    /// The number of bytes left to write.
    pub const fn n_left(&self) -> usize {
        self.n_left
    }

    /// Bytes written of all that were ever taken.
    pub(crate) const fn n_written(&self) -> u64 {
        self.ends_at.saturating_sub(self.n_left as u64)
    }

    /// Links that found no room and may go on: the caller asks the broker for more on them.
    pub const fn resume(&mut self) -> &mut Vec<LinkId> {
        &mut self.resume
    }

    /// Whether the connection is to be failed.
    pub const fn has_refusal(&self) -> bool {
        self.refusal.is_some()
    }

    /// The error with which the connection is to be failed: there was something the client could not be
    /// sent.
    pub const fn take_refusal(&mut self) -> Option<Box<Error>> {
        self.refusal.take()
    }

    /// Gives back memory: the connection has nothing to do.
    pub fn trim(&mut self) {
        if self.is_written() {
            let (refusal, close_mode) = (self.refusal.take(), self.close_mode);
            *self = Self { refusal, close_mode, ..Self::default() };
        }
    }
}
