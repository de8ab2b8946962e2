//! Big-endian primitives from borrowed bytes; nothing is read that is not there.

use crate::error::DecodeError;

/// The width of the lengths, sizes and counts in front of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    One,
    Four,
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueCursor<'a>(pub(crate) &'a [u8]);

impl<'a> ValueCursor<'a> {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length or count.
    #[inline]
    pub(crate) fn length(&mut self, width: Width) -> Result<usize, DecodeError> {
        match width {
            Width::One => self.u8().map(usize::from),
            Width::Four => usize::try_from(self.u32()?).map_err(|_| DecodeError::Truncated),
        }
    }

    /// A length, then that many bytes.
    #[inline]
    pub(crate) fn counted(&mut self, width: Width) -> Result<&'a [u8], DecodeError> {
        let n = self.length(width)?;
        self.bytes(n)
    }

    /// The bytes read of `self` since it was `before`.
    #[inline]
    pub(crate) fn read_since(&self, before: Self) -> &'a [u8] {
        let n = before.0.len().saturating_sub(self.0.len());
        before.0.get(..n).unwrap_or_default()
    }
}
