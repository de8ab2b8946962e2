//! Lists of values of fixed size: in memory, or read where they lie in a record.

use stdx::record::{List, Reader, RecordError, put_u32};

/// A value whose written form always has the same size, and any bytes of which are a value.
pub trait Item: Copy {
    /// The size.
    const BYTES: usize;

    /// Reads one.
    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError>;

    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

/// A list of values, in memory or written.
#[derive(Clone, Copy, Debug)]
pub enum Items<'a, T> {
    /// In memory.
    Slice(&'a [T]),
    /// Written, with how many they are.
    Written(List<'a, T>, usize),
}

impl<'a, T: Item + 'a> Items<'a, T> {
    /// How many they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Slice(items) => items.len(),
            Self::Written(_, n) => *n,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values from number `from` on.
    pub fn iter_from(self, from: usize) -> impl Iterator<Item = T> + 'a {
        let (items, list) = match self {
            Self::Slice(items) => (items.get(from..).unwrap_or_default(), None),
            Self::Written(list, _) => (&[][..], Some(list.iter().skip(from))),
        };
        items.iter().copied().chain(list.into_iter().flatten())
    }

    /// The values.
    pub fn iter(self) -> impl Iterator<Item = T> + 'a {
        self.iter_from(0)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let n = u32::try_from(self.len()).expect("a command is shorter than 4 GiB");
        put_u32(out, n);
        self.iter().for_each(|item| item.put(out));
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let n = usize::try_from(reader.u32()?).map_err(|_| RecordError::Invalid)?;
        let n_bytes = n.checked_mul(T::BYTES).ok_or(RecordError::Invalid)?;
        let mut items = Reader::new(reader.take(n_bytes)?);
        let list = List::rest(&mut items, T::BYTES, |reader| T::read(reader))?;
        Ok(Self::Written(list, n))
    }
}

impl<'a, T: Item + PartialEq + 'a> PartialEq for Items<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Item + Eq + 'a> Eq for Items<'a, T> {}
