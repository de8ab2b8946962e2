//! Arrays: a count of four bytes and that many elements (clause "Types").

use std::fmt;

use crate::error::FieldError;
use crate::field::{Field, len_u32, take};

/// An array, either of elements in the bytes it came in, which were all looked at when it was
/// decoded, or of elements to be encoded.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    elements: Elements<'a, T>,
}

#[derive(Clone, Copy)]
enum Elements<'a, T> {
    Encoded { n: u32, bytes: &'a [u8] },
    Values(&'a [T]),
}

impl<'a, T: Field<'a> + Copy> List<'a, T> {
    /// The array of `values`.
    #[must_use]
    pub const fn of(values: &'a [T]) -> Self {
        Self { elements: Elements::Values(values) }
    }

    /// The array of `n` elements that were appended to `bytes` one after the other.
    #[must_use]
    pub const fn of_encoded(n: u32, bytes: &'a [u8]) -> Self {
        Self { elements: Elements::Encoded { n, bytes } }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self.elements {
            Elements::Encoded { n, .. } => usize::try_from(n).unwrap_or(usize::MAX),
            Elements::Values(values) => values.len(),
        }
    }

    /// The bytes of the elements, of an array that was read.
    pub const fn n_bytes(&self) -> usize {
        match self.elements {
            Elements::Encoded { bytes, .. } => bytes.len(),
            Elements::Values(_) => 0,
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in order.
    pub const fn iter(&self) -> ListIter<'a, T> {
        ListIter { rest: *self }
    }

    /// The bytes of `n` elements in front of `input`, each of which is read once: what the array
    /// is made of afterwards cannot fail.
    fn read_elements(input: &mut &'a [u8], n: u32) -> Result<&'a [u8], FieldError> {
        let at_least = u64::from(n) * T::BYTES_MIN as u64;
        if at_least > input.len() as u64 {
            return Err(FieldError::Truncated);
        }
        let mut rest = *input;
        for _ in 0..n {
            T::read(&mut rest)?;
        }
        take(input, input.len() - rest.len())
    }
}

impl<'a, T: Field<'a> + Copy> Field<'a> for List<'a, T> {
    const BYTES_MIN: usize = 4;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        const { assert!(T::BYTES_MIN > 0, "elements of no bytes could be any number") };
        let n = u32::read(input)?;
        if n > T::LISTED_MAX {
            return Err(FieldError::TooMany { n, n_max: T::LISTED_MAX });
        }
        let bytes = Self::read_elements(input, n)?;
        Ok(Self { elements: Elements::Encoded { n, bytes } })
    }

    fn put(&self, out: &mut Vec<u8>) {
        len_u32(self.len()).put(out);
        match self.elements {
            Elements::Encoded { bytes, .. } => out.extend_from_slice(bytes),
            Elements::Values(values) => values.iter().for_each(|value| value.put(out)),
        }
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self { elements: Elements::Values(&[]) }
    }
}

impl<'a, T: Field<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Field<'a> + Copy + Eq> Eq for List<'a, T> {}

impl<'a, T: Field<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Field<'a> + Copy> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// The elements of a [`List`].
#[derive(Clone, Copy)]
pub struct ListIter<'a, T> {
    rest: List<'a, T>,
}

impl<'a, T: Field<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.rest.elements {
            Elements::Encoded { n, bytes } => {
                *n = n.checked_sub(1)?;
                T::read(bytes).ok()
            }
            Elements::Values(values) => {
                let (first, rest) = values.split_first()?;
                *values = rest;
                Some(*first)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.rest.len();
        (n, Some(n))
    }
}

impl<'a, T: Field<'a> + Copy> ExactSizeIterator for ListIter<'a, T> {}

/// An array at the end of a command that may be left out; as RabbitMQ does, it is if it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailing<'a, T: Field<'a> + Copy>(pub List<'a, T>);

impl<'a, T: Field<'a> + Copy> Field<'a> for Trailing<'a, T> {
    const BYTES_MIN: usize = 0;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        if input.is_empty() { Ok(Self::default()) } else { List::read(input).map(Self) }
    }

    fn put(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            self.0.put(out);
        }
    }
}

impl<'a, T: Field<'a> + Copy> Default for Trailing<'a, T> {
    fn default() -> Self {
        Self(List::default())
    }
}
