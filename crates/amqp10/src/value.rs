//! Values of AMQP 1.0's types, looked at in the bytes they came in.
//!
//! A value is validated as a whole when it is decoded from a peer's bytes; after that the iterators of its
//! lists, maps and arrays cannot fail. A view of bytes that are not valid after all ends early; it never
//! reads outside of them.

mod collection;

pub use collection::{ArrayRef, DescribedRef, Descriptor, ListRef, MapRef};

use crate::code;
use crate::error::DecodeError;
use crate::reader::{ValueCursor, Width};

/// The depth to which values may nest: lists, maps, arrays and descriptors. A section's descriptor is one, so
/// that its map holds what a table of AMQP 0-9-1 may hold (32, the table itself being one).
pub const DEPTH_MAX: usize = 33;

/// A value (part 1, 1.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// `null`.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `ubyte`.
    U8(u8),
    /// `ushort`.
    U16(u16),
    /// `uint`.
    U32(u32),
    /// `ulong`.
    U64(u64),
    /// `byte`.
    I8(i8),
    /// `short`.
    I16(i16),
    /// `int`.
    I32(i32),
    /// `long`.
    I64(i64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
    /// IEEE 754-2008 decimal32, as it came in.
    Decimal32([u8; 4]),
    /// IEEE 754-2008 decimal64, as it came in.
    Decimal64([u8; 8]),
    /// IEEE 754-2008 decimal128, as it came in.
    Decimal128([u8; 16]),
    /// `char`.
    Char(char),
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// RFC 4122's bytes.
    Uuid([u8; 16]),
    /// `binary`.
    Binary(&'a [u8]),
    /// `string`.
    Str(&'a str),
    /// A word from a set that both peers know, ASCII.
    Symbol(&'a str),
    /// Values of any types.
    List(ListRef<'a>),
    /// Keys and values of any types.
    Map(MapRef<'a>),
    /// Values of one type.
    Array(ArrayRef<'a>),
    /// A value with a descriptor that says what it is.
    Described(DescribedRef<'a>),
}

impl<'a> ValueRef<'a> {
    /// The value at the front of `input` and the number of bytes it takes; every length, type and the depth
    /// are checked, nothing is allocated.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn decode(input: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut reader = ValueCursor(input);
        let value = Self::read_valid(&mut reader, DEPTH_MAX)?;
        Ok((value, input.len() - reader.0.len()))
    }

    /// The number, if this is an integer.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other types are no integers")]
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::U64(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::I64(n) => n.into(),
            _ => return None,
        })
    }

    /// Reads a value and validates what is in it.
    pub(crate) fn read_valid(
        reader: &mut ValueCursor<'a>,
        levels: usize,
    ) -> Result<Self, DecodeError> {
        let mut n_empty_left = collection::EMPTY_ELEMENTS_MAX;
        Self::read_within(reader, levels, &mut n_empty_left)
    }

    /// Reads a value that is a part of another, and validates what is in it.
    fn read_within(
        reader: &mut ValueCursor<'a>,
        levels: usize,
        n_empty_left: &mut usize,
    ) -> Result<Self, DecodeError> {
        let value = Self::read(reader, levels)?;
        collection::validate(&value, levels, n_empty_left)?;
        Ok(value)
    }

    /// Reads a value, and of what is in it only how long it is.
    #[inline]
    pub(crate) fn read(reader: &mut ValueCursor<'a>, levels: usize) -> Result<Self, DecodeError> {
        match reader.u8()? {
            code::DESCRIBED => DescribedRef::read(reader, levels).map(Self::Described),
            code => Self::read_as(code, reader),
        }
    }

    /// Reads a value whose constructor was read before.
    #[inline]
    pub(crate) fn read_as(code: u8, reader: &mut ValueCursor<'a>) -> Result<Self, DecodeError> {
        match code >> 4 {
            0x4..=0x9 => Self::read_fixed(code, reader),
            _ => Self::read_variable(code, reader),
        }
    }

    fn read_fixed(code: u8, reader: &mut ValueCursor<'a>) -> Result<Self, DecodeError> {
        Ok(match code {
            code::NULL => Self::Null,
            code::TRUE => Self::Bool(true),
            code::FALSE => Self::Bool(false),
            code::BOOL => match reader.u8()? {
                0 => Self::Bool(false),
                1 => Self::Bool(true),
                _ => return Err(DecodeError::NotOfType),
            },
            code::U32_ZERO => Self::U32(0),
            code::U64_ZERO => Self::U64(0),
            code::LIST_EMPTY => Self::List(ListRef::EMPTY),
            code::U8 => Self::U8(reader.u8()?),
            code::U16 => Self::U16(u16::from_be_bytes(reader.array()?)),
            code::U32 => Self::U32(reader.u32()?),
            code::U32_SMALL => Self::U32(u32::from(reader.u8()?)),
            code::U64 => Self::U64(reader.u64()?),
            code::U64_SMALL => Self::U64(u64::from(reader.u8()?)),
            code::I8 => Self::I8(i8::from_be_bytes(reader.array()?)),
            code::I16 => Self::I16(i16::from_be_bytes(reader.array()?)),
            code::I32 => Self::I32(i32::from_be_bytes(reader.array()?)),
            code::I32_SMALL => Self::I32(i32::from(i8::from_be_bytes(reader.array()?))),
            code::I64 => Self::I64(i64::from_be_bytes(reader.array()?)),
            code::I64_SMALL => Self::I64(i64::from(i8::from_be_bytes(reader.array()?))),
            code::F32 => Self::F32(f32::from_be_bytes(reader.array()?)),
            code::F64 => Self::F64(f64::from_be_bytes(reader.array()?)),
            code::DECIMAL32 => Self::Decimal32(reader.array()?),
            code::DECIMAL64 => Self::Decimal64(reader.array()?),
            code::DECIMAL128 => Self::Decimal128(reader.array()?),
            code::CHAR => Self::Char(char::from_u32(reader.u32()?).ok_or(DecodeError::NotOfType)?),
            code::TIMESTAMP => Self::Timestamp(i64::from_be_bytes(reader.array()?)),
            code::UUID => Self::Uuid(reader.array()?),
            _ => return Err(DecodeError::UnknownConstructor(code)),
        })
    }

    fn read_variable(code: u8, reader: &mut ValueCursor<'a>) -> Result<Self, DecodeError> {
        let width = if matches!(code >> 4, 0xB | 0xD | 0xF) { Width::Four } else { Width::One };
        Ok(match code {
            code::BINARY8 | code::BINARY32 => Self::Binary(reader.counted(width)?),
            code::STR8 | code::STR32 => {
                let bytes = reader.counted(width)?;
                Self::Str(std::str::from_utf8(bytes).map_err(|_| DecodeError::NotText)?)
            }
            code::SYMBOL8 | code::SYMBOL32 => match std::str::from_utf8(reader.counted(width)?) {
                Ok(symbol) if symbol.is_ascii() => Self::Symbol(symbol),
                Ok(_) | Err(_) => return Err(DecodeError::NotText),
            },
            code::LIST8 | code::LIST32 => Self::List(ListRef::read(reader, width)?),
            code::MAP8 | code::MAP32 => Self::Map(MapRef::read(reader, width)?),
            code::ARRAY8 | code::ARRAY32 => Self::Array(ArrayRef::read(reader, width)?),
            _ => return Err(DecodeError::UnknownConstructor(code)),
        })
    }
}
