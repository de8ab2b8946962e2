//! Bytes to be written, with large shared bodies spliced in instead of copied, and parts of files.

use bytes::Bytes;
use session::FilePart;
use std::io::IoSlice;

/// A buffer with shared slices between its bytes.
#[derive(Debug, Default)]
pub struct WriteRope {
    bytes: Vec<u8>,
    splices: Vec<Splice>,
    spliced_bytes: usize,
}

/// Something that goes out before the byte at this index.
#[derive(Debug)]
struct Splice {
    at: usize,
    what: Spliced,
}

#[derive(Debug)]
enum Spliced {
    Shared(Bytes),
    File(FilePart),
}

impl Spliced {
    fn len(&self) -> usize {
        match self {
            Self::Shared(shared) => shared.len(),
            Self::File(part) => part.len(),
        }
    }
}

impl WriteRope {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), splices: Vec::new(), spliced_bytes: 0 }
    }

    /// The bytes that are not shared, to be added to.
    #[inline]
    pub const fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a shared slice.
    pub fn splice(&mut self, shared: Bytes) {
        self.add(Spliced::Shared(shared));
    }

    /// Appends a part of a file.
    pub fn splice_file(&mut self, part: FilePart) {
        self.add(Spliced::File(part));
    }

    fn add(&mut self, what: Spliced) {
        self.spliced_bytes += what.len();
        self.splices.push(Splice { at: self.bytes.len(), what });
    }

    /// All bytes, spliced ones included.
    pub fn n_bytes(&self) -> usize {
        self.bytes.len() + self.spliced_bytes
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.splices.clear();
        self.spliced_bytes = 0;
    }

    /// Gives the buffer of an empty rope back if it is larger than that.
    pub(crate) fn give_back(&mut self, bytes_max: usize) {
        if self.bytes.capacity() > bytes_max {
            *self = Self::new();
        }
    }

    /// Memory held without need.
    pub(crate) fn spare_bytes(&self) -> usize {
        if self.n_bytes() == 0 { self.bytes.capacity() + self.splices.capacity() } else { 0 }
    }
}

/// The position up to which a rope is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    byte: usize,
    splice: usize,
    /// Bytes written of the splice at `splice`.
    within: usize,
}

/// The next part of a rope.
enum Piece<'a> {
    Bytes(&'a [u8]),
    File(&'a FilePart, usize),
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(part, from) => part.len().saturating_sub(*from),
        }
    }
}

impl Cursor {
    /// Fills `slices` with what comes next, up to a part of a file; returns how many were filled.
    pub(crate) fn fill<'a>(self, rope: &'a WriteRope, slices: &mut [IoSlice<'a>]) -> usize {
        let mut n_filled = 0;
        let mut at = self;
        for slot in slices {
            let Some(Piece::Bytes(piece)) = at.piece(rope) else { break };
            *slot = IoSlice::new(piece);
            n_filled += 1;
            at.step(rope, piece.len());
        }
        n_filled
    }

    /// The part of a file that comes next, and how much of it is written.
    pub(crate) fn file(self, rope: &WriteRope) -> Option<(&FilePart, usize)> {
        match self.piece(rope)? {
            Piece::File(part, from) => Some((part, from)),
            Piece::Bytes(_) => None,
        }
    }

    /// Moves on by `n` bytes.
    pub(crate) fn advance(&mut self, rope: &WriteRope, mut n: usize) {
        while n > 0 {
            let Some(piece) = self.piece(rope) else { return };
            let step = piece.len().min(n);
            self.step(rope, step);
            n -= step;
        }
    }

    /// The next contiguous bytes; never empty.
    fn piece(self, rope: &WriteRope) -> Option<Piece<'_>> {
        let until = match rope.splices.get(self.splice) {
            Some(splice) if self.byte >= splice.at => {
                return match &splice.what {
                    Spliced::Shared(shared) => shared.get(self.within..).map(Piece::Bytes),
                    Spliced::File(part) => Some(Piece::File(part, self.within)),
                };
            }
            Some(splice) => splice.at,
            None => rope.bytes.len(),
        };
        rope.bytes.get(self.byte..until).filter(|piece| !piece.is_empty()).map(Piece::Bytes)
    }

    /// Moves on within the next piece.
    fn step(&mut self, rope: &WriteRope, n: usize) {
        match rope.splices.get(self.splice) {
            Some(splice) if self.byte >= splice.at => {
                self.within += n;
                if self.within >= splice.what.len() {
                    self.splice += 1;
                    self.within = 0;
                }
            }
            Some(_) | None => self.byte += n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_however_they_are_cut() {
        let mut rope = WriteRope::default();
        rope.bytes.extend_from_slice(b"ab");
        rope.splice(Bytes::from_static(b"CDE"));
        rope.splice(Bytes::from_static(b"F"));
        rope.bytes.extend_from_slice(b"gh");
        rope.splice(Bytes::from_static(b"I"));
        assert_eq!(rope.n_bytes(), 9);
        for cut in 1..=9 {
            let (mut cursor, mut written) = (Cursor::default(), Vec::new());
            while written.len() < rope.n_bytes() {
                let mut slices = [IoSlice::new(&[]); 3];
                let n = cursor.fill(&rope, &mut slices);
                let bytes: Vec<u8> = slices[..n].iter().flat_map(|slice| slice.to_vec()).collect();
                let taken = bytes.len().min(cut);
                written.extend_from_slice(&bytes[..taken]);
                cursor.advance(&rope, taken);
            }
            assert_eq!(written, b"abCDEFghI");
            assert_eq!(cursor.fill(&rope, &mut [IoSlice::new(&[])]), 0);
        }
    }
}
