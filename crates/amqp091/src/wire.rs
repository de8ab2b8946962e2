//! Big-endian primitives: a checked reader over borrowed bytes and appenders to a `Vec<u8>`.

use crate::error::FieldError;
use crate::short_string::ShortString;

/// Reads primitives from the front of a byte slice; nothing is read that is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireCursor<'a> {
    rest: &'a [u8],
}

impl<'a> WireCursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], FieldError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(FieldError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(FieldError::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FieldError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FieldError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FieldError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FieldError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads one length byte, then that many bytes.
    pub(crate) fn short_str(&mut self) -> Result<&'a [u8], FieldError> {
        let len = usize::from(self.u8()?);
        self.bytes(len)
    }

    /// Reads four length bytes, then that many bytes: long strings, tables and arrays.
    pub(crate) fn long_str(&mut self) -> Result<&'a [u8], FieldError> {
        let len = usize::try_from(self.u32()?).map_err(|_| FieldError::Truncated)?;
        self.bytes(len)
    }
}

/// Appends a short string whose length was checked when it was made.
pub(crate) fn put_short_string(out: &mut Vec<u8>, text: &ShortString) {
    let len = u8::try_from(text.len()).expect("a ShortString is never longer than 255 bytes");
    out.push(len);
    out.extend_from_slice(text);
}

/// Appends a short string; one that is too long is cut at 255 bytes, between characters if it is
/// text.
#[inline]
pub(crate) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let (len, bytes) = match u8::try_from(bytes.len()) {
        Ok(len) => (len, bytes),
        Err(_) => cut_short(bytes),
    };
    out.push(len);
    out.extend_from_slice(bytes);
}

#[cold]
fn cut_short(bytes: &[u8]) -> (u8, &[u8]) {
    let head = bytes.get(..ShortString::LEN_MAX).unwrap_or(bytes);
    let head = match std::str::from_utf8(head) {
        // No length means that the text was cut within a character.
        Err(error) if error.error_len().is_none() => {
            head.get(..error.valid_up_to()).unwrap_or(head)
        }
        Ok(_) | Err(_) => head,
    };
    (u8::try_from(head.len()).unwrap_or(u8::MAX), head)
}

/// Appends four length bytes and the bytes.
pub(crate) fn put_long_str(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&len_u32(bytes.len()).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends what `body` appends, preceded by its length in four bytes.
pub(crate) fn put_with_len(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = len_u32(out.len() - at - 4);
    if let Some(slot) = out.get_mut(at..at + 4) {
        slot.copy_from_slice(&len.to_be_bytes());
    }
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len)
        .expect("everything encoded is far below 4 GiB: it fits frames or memory limits")
}
