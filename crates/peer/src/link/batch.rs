//! Bytes that were taken from a link to be written.

use bytes::{Buf as _, Bytes};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes taken from a link, and which of them are left to write.
#[derive(Debug, Default)]
pub struct LinkBatch {
    parts: VecDeque<Bytes>,
    n_left: usize,
}

impl LinkBatch {
    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.n_left += bytes.len();
            self.parts.push_back(bytes);
        }
    }

    /// Fills `slices` with what is to be written next; returns how many were filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(&self.parts);
        filled.map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    /// Bytes left to write.
    #[must_use]
    pub const fn n_left(&self) -> usize {
        self.n_left
    }

    /// Removes the first `n` bytes, which were written.
    pub(super) fn advance(&mut self, mut n: usize) {
        self.n_left = self.n_left.saturating_sub(n);
        while n > 0
            && let Some(part) = self.parts.front_mut()
        {
            let step = n.min(part.len());
            part.advance(step);
            n -= step;
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
    }
}
