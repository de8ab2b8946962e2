//! Fields: the types of the protocol (clause "Types"), read from the front of a slice and appended
//! to a `Vec<u8>`. All integers are big-endian. Nothing is read that is not there.

use crate::error::FieldError;
use crate::response_code::ResponseCode;
use crate::spec::{BYTES_MAX, STRING_BYTES_MAX, STRINGS_MAX};

/// A value of the wire, looking into the bytes it came in.
pub trait Field<'a>: Sized {
    /// The fewest bytes a value takes, at least one in a list: as many elements fit.
    const BYTES_MIN: usize;
    /// The most elements of a list.
    const LISTED_MAX: u32 = u32::MAX;

    /// Takes the value from the front of `input`.
    ///
    /// # Errors
    /// Bytes that are cut short, or outside the type's domain.
    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError>;

    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
}

/// Reads a value that is all of `input`.
pub(crate) fn read_all<'a, T: Field<'a>>(mut input: &'a [u8]) -> Result<T, FieldError> {
    let value = T::read(&mut input)?;
    if input.is_empty() { Ok(value) } else { Err(FieldError::TrailingBytes) }
}

#[inline]
pub(crate) fn take<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8], FieldError> {
    let (head, tail) = input.split_at_checked(n).ok_or(FieldError::Truncated)?;
    *input = tail;
    Ok(head)
}

#[inline]
pub(crate) fn take_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], FieldError> {
    let (head, tail) = input.split_first_chunk::<N>().ok_or(FieldError::Truncated)?;
    *input = tail;
    Ok(*head)
}

/// Returns the least of `limits`; `u32::MAX` if there are none.
pub(crate) const fn least(mut limits: &[u32]) -> u32 {
    let mut least = u32::MAX;
    while let [first, rest @ ..] = limits {
        if *first < least {
            least = *first;
        }
        limits = rest;
    }
    least
}

/// Returns a length as the four bytes on the wire: longer values fit no frame and no chunk.
pub(crate) fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("everything encoded is far below 4 GiB: it fits frames and chunks")
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl<'a> Field<'a> for $type {
            const BYTES_MIN: usize = size_of::<Self>();

            #[inline]
            fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
                take_array(input).map(Self::from_be_bytes)
            }

            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 i16 i32 i64 }

impl<'a> Field<'a> for bool {
    const BYTES_MIN: usize = 1;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        match u8::read(input)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(FieldError::NotBoolean(other)),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl<'a> Field<'a> for ResponseCode {
    const BYTES_MIN: usize = 2;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        u16::read(input).map(Self)
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
}

/// The bytes behind a length that was read; none for the -1 of null.
#[inline]
fn take_nullable<'a>(input: &mut &'a [u8], len: i32) -> Result<Option<&'a [u8]>, FieldError> {
    match usize::try_from(len) {
        Ok(len) => take(input, len).map(Some),
        Err(_) if len == -1 => Ok(None),
        Err(_) => Err(FieldError::NegativeLength(len)),
    }
}

/// A `string`; null is read as the empty one. A longer one than [`STRING_BYTES_MAX`] is cut between
/// characters as it is written.
impl<'a> Field<'a> for &'a str {
    const BYTES_MIN: usize = 2;
    const LISTED_MAX: u32 = STRINGS_MAX;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        let len = i16::read(input)?;
        let bytes = take_nullable(input, i32::from(len))?.unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| FieldError::NotUtf8)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let (head, _) = self.split_at(self.floor_char_boundary(STRING_BYTES_MAX));
        Some(head.as_bytes()).put(out);
    }
}

/// A `string` that may be null and need not be text, such as a filter value. A longer one than
/// [`STRING_BYTES_MAX`] is cut as it is written.
impl<'a> Field<'a> for Option<&'a [u8]> {
    const BYTES_MIN: usize = 2;

    #[inline]
    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        let len = i16::read(input)?;
        take_nullable(input, i32::from(len))
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let Some(bytes) = self else { return (-1_i16).put(out) };
        let head = bytes.get(..STRING_BYTES_MAX).unwrap_or(bytes);
        i16::try_from(head.len()).unwrap_or(i16::MAX).put(out);
        out.extend_from_slice(head);
    }
}

/// The type `bytes`; null is read as none of them.
impl<'a> Field<'a> for &'a [u8] {
    const BYTES_MIN: usize = 4;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        let len = i32::read(input)?;
        take_nullable(input, len).map(Option::unwrap_or_default)
    }

    fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(self.len() <= BYTES_MAX, "everything encoded fits a frame");
        len_u32(self.len()).put(out);
        out.extend_from_slice(self);
    }
}

/// Everything up to the frame's end, without a length: the chunk of a `Deliver`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remainder<'a>(pub &'a [u8]);

impl<'a> Field<'a> for Remainder<'a> {
    const BYTES_MIN: usize = 0;

    fn read(input: &mut &'a [u8]) -> Result<Self, FieldError> {
        Ok(Self(std::mem::take(input)))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

/// Defines a struct of fields one after the other, and how it is read and written.
macro_rules! record {
    ($a:lifetime; $(#[$doc:meta])* $name:ident $(<$lt:lifetime>)?
        { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name $(<$lt>)? {
            $(
                #[doc = concat!("`", stringify!($field), "`.")]
                pub $field: $type,
            )*
        }

        impl<$a> $crate::field::Field<$a> for $name $(<$lt>)? {
            const BYTES_MIN: usize = 0 $(+ <$type as $crate::field::Field<$a>>::BYTES_MIN)*;
            const LISTED_MAX: u32 = $crate::field::least(&[
                $(<$type as $crate::field::Field<$a>>::LISTED_MAX),*
            ]);

            #[inline]
            #[allow(unused_variables, reason = "some records have no fields")]
            fn read(input: &mut &$a [u8]) -> Result<Self, $crate::error::FieldError> {
                Ok(Self { $($field: $crate::field::Field::read(input)?,)* })
            }

            #[inline]
            #[allow(unused_variables, reason = "some records have no fields")]
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::field::Field::put(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use record;
