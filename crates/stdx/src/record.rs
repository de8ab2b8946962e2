//! Reading and writing of internal binary records (log entries, snapshots): little-endian integers
//! and length-prefixed byte strings. Wire protocols have codecs of their own.

/// The error of a record that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The record ends before the value does.
    Truncated,
    /// A value is outside its domain (an unknown tag, a string that is not UTF-8).
    Invalid,
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the record ends too early",
            Self::Invalid => "the record holds a value outside its domain",
        })
    }
}

impl std::error::Error for RecordError {}

/// Reads values from the front of a byte slice. Every read is checked against what is left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes, as they are.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], RecordError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(RecordError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(RecordError::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, RecordError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A bool written by [`put_bool`].
    pub fn bool(&mut self) -> Result<bool, RecordError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            2..=u8::MAX => Err(RecordError::Invalid),
        }
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes, little-endian, signed.
    pub fn i64(&mut self) -> Result<i64, RecordError> {
        self.array().map(i64::from_le_bytes)
    }

    /// Bytes written by [`put_bytes`].
    pub fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let n = self.u32()?;
        self.take(usize::try_from(n).map_err(|_| RecordError::Invalid)?)
    }

    /// Text written by [`put_str`].
    pub fn str(&mut self) -> Result<&'a str, RecordError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| RecordError::Invalid)
    }
}

/// A list of records of fixed size, read where it lies.
#[derive(Clone, Copy, Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    read: fn(&mut Reader<'a>) -> Result<T, RecordError>,
}

impl<'a, T> List<'a, T> {
    /// Reads all that is left in `reader`, a whole number of records of `bytes_each`.
    ///
    /// # Errors
    /// It is not a whole number.
    pub fn rest(
        reader: &mut Reader<'a>,
        bytes_each: usize,
        read: fn(&mut Reader<'a>) -> Result<T, RecordError>,
    ) -> Result<Self, RecordError> {
        let bytes = reader.rest();
        if !bytes.len().is_multiple_of(bytes_each) {
            return Err(RecordError::Invalid);
        }
        Ok(Self { bytes, read })
    }

    /// The records.
    pub fn iter(self) -> impl Iterator<Item = T> + 'a
    where
        T: 'a,
    {
        let mut reader = Reader::new(self.bytes);
        std::iter::from_fn(move || (self.read)(&mut reader).ok())
    }
}

/// Appends one byte.
pub fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

/// Appends a bool as one byte, 0 or 1.
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

/// Appends two bytes, little-endian.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends four bytes, little-endian.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends eight bytes, little-endian.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends eight bytes, little-endian, signed.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a four-byte length and the bytes. Panics over 4 GiB: no internal record is that long.
pub fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    let n = u32::try_from(value.len()).expect("internal records are shorter than 4 GiB");
    put_u32(out, n);
    out.extend_from_slice(value);
}

/// Appends text as [`put_bytes`] does.
pub fn put_str(out: &mut Vec<u8>, value: &str) {
    put_bytes(out, value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_back() {
        let mut out = Vec::new();
        put_u8(&mut out, 7);
        put_bool(&mut out, true);
        put_u16(&mut out, 513);
        put_u32(&mut out, 70_000);
        put_u64(&mut out, u64::MAX);
        put_i64(&mut out, -3);
        put_bytes(&mut out, b"ab");
        put_str(&mut out, "é");
        let mut reader = Reader::new(&out);
        assert_eq!(reader.u8(), Ok(7));
        assert_eq!(reader.bool(), Ok(true));
        assert_eq!(reader.u16(), Ok(513));
        assert_eq!(reader.u32(), Ok(70_000));
        assert_eq!(reader.u64(), Ok(u64::MAX));
        assert_eq!(reader.i64(), Ok(-3));
        assert_eq!(reader.bytes(), Ok(b"ab".as_slice()));
        assert_eq!(reader.str(), Ok("é"));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_cut_record_is_truncated_at_every_byte() {
        let mut out = Vec::new();
        put_str(&mut out, "hello");
        for cut in 0..out.len() {
            assert_eq!(Reader::new(&out[..cut]).str(), Err(RecordError::Truncated));
        }
        assert_eq!(Reader::new(&[2]).bool(), Err(RecordError::Invalid));
    }
}
