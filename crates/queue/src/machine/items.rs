//! Lists of values of fixed size, in memory or read where they lie in a record, and values that may be
//! missing.

use stdx::record::{Reader, RecordError, put_bool, put_u32, put_u64};

/// A value whose written form always has the same size, and any bytes of which are a value.
pub trait Item: Copy {
    /// Size of the written form.
    const BYTES: usize;

    /// Reads a value.
    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError>;

    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
}

/// A list of values, in memory or written.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a, T> {
    /// Values in memory.
    Slice(&'a [T]),
    /// Written values, as many as fit into the bytes.
    Written(&'a [u8]),
}

impl<'a, T: Item + 'a> Items<'a, T> {
    /// Number of values.
    pub const fn len(&self) -> usize {
        match self {
            Self::Slice(items) => items.len(),
            Self::Written(bytes) => bytes.len() / T::BYTES,
        }
    }

    /// Whether the list has no values.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values.
    pub fn iter(self) -> impl Iterator<Item = T> + 'a {
        let (items, bytes) = match self {
            Self::Slice(items) => (items, &[][..]),
            Self::Written(bytes) => (&[][..], bytes),
        };
        let mut reader = Reader::new(bytes);
        items.iter().copied().chain(std::iter::from_fn(move || T::read(&mut reader).ok()))
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let n = u32::try_from(self.len()).expect("a command is shorter than 4 GiB");
        put_u32(out, n);
        self.iter().for_each(|item| item.put(out));
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let n = usize::try_from(reader.u32()?).map_err(|_| RecordError::Invalid)?;
        Ok(Self::Written(reader.take(n.checked_mul(T::BYTES).ok_or(RecordError::Invalid)?)?))
    }
}

impl<'a, T: Item + PartialEq + 'a> PartialEq for Items<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Item + Eq + 'a> Eq for Items<'a, T> {}

/// Appends a value that may be missing.
pub(super) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    put_bool(out, value.is_some());
    put_u64(out, value.unwrap_or(0));
}

/// Reads a value written by [`put_option`].
pub(super) fn read_option(reader: &mut Reader<'_>) -> Result<Option<u64>, RecordError> {
    let (is_some, value) = (reader.bool()?, reader.u64()?);
    match value {
        0 => Ok(is_some.then_some(0)),
        value if is_some => Ok(Some(value)),
        1..=u64::MAX => Err(RecordError::Invalid),
    }
}
