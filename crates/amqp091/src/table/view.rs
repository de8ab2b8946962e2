//! Tables and arrays looked at in the bytes they came in, without copying.
//!
//! A view is validated once, when it is made from a peer's bytes; after that its iterators cannot
//! fail. A view of bytes that are not valid after all ends early; it never reads outside of them.

use super::{DEPTH_MAX, Decimal, ShortString, Table, Value};
use crate::error::FieldError;
use crate::wire::{self, WireCursor};

/// A table in wire form (the entries, without the length in front).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableRef<'a>(&'a [u8]);

impl<'a> TableRef<'a> {
    /// The table without entries.
    pub const EMPTY: TableRef<'static> = TableRef(&[]);

    /// Looks into `entries` after checking every length, type and the depth, without recursion
    /// and without allocating.
    ///
    /// # Errors
    /// The error of the first bad entry.
    pub fn parse(entries: &'a [u8]) -> Result<Self, FieldError> {
        validate(entries)?;
        Ok(Self(entries))
    }

    /// Checks entries as [`TableRef::parse`] does; tells whether the bytes are those that the table has once
    /// it is encoded anew.
    pub(crate) fn is_canonical(entries: &'a [u8]) -> Result<bool, FieldError> {
        validate(entries)
    }

    /// Looks into bytes that were validated before or encoded by this crate.
    #[must_use]
    pub const fn trusted(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// The entries as they came in.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in order.
    pub const fn iter(&self) -> TableIter<'a> {
        TableIter(WireCursor::new(self.0))
    }

    /// The first value under `name`.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<ValueRef<'a>> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// A copy that owns its data.
    ///
    /// # Errors
    /// Only for bytes that were never validated.
    pub fn to_owned(&self) -> Result<Table, FieldError> {
        self.to_owned_within(DEPTH_MAX)
    }

    fn to_owned_within(self, levels: usize) -> Result<Table, FieldError> {
        let levels = levels.checked_sub(1).ok_or(FieldError::TooDeep)?;
        let mut reader = WireCursor::new(self.0);
        let mut entries = Vec::new();
        while !reader.is_empty() {
            let name = ShortString::new(reader.short_str()?)?;
            entries.push((name, ValueRef::read(&mut reader)?.to_owned_within(levels)?));
        }
        Ok(Table(entries))
    }

    /// Appends length and entries.
    pub fn encode(self, out: &mut Vec<u8>) {
        wire::put_long_str(out, self.0);
    }
}

impl<'a> IntoIterator for TableRef<'a> {
    type Item = (&'a [u8], ValueRef<'a>);
    type IntoIter = TableIter<'a>;

    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
}

/// Names and values of a [`TableRef`].
#[derive(Clone, Debug)]
pub struct TableIter<'a>(WireCursor<'a>);

impl<'a> Iterator for TableIter<'a> {
    type Item = (&'a [u8], ValueRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.short_str().ok()?;
        Some((name, ValueRef::read(&mut self.0).ok()?))
    }
}

/// An array in wire form (the elements, without the length in front).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayRef<'a>(&'a [u8]);

impl<'a> ArrayRef<'a> {
    /// The elements as they came in.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The elements in order.
    pub const fn iter(&self) -> ArrayIter<'a> {
        ArrayIter(WireCursor::new(self.0))
    }

    fn to_owned_within(self, levels: usize) -> Result<Vec<Value>, FieldError> {
        let levels = levels.checked_sub(1).ok_or(FieldError::TooDeep)?;
        let mut reader = WireCursor::new(self.0);
        let mut values = Vec::new();
        while !reader.is_empty() {
            values.push(ValueRef::read(&mut reader)?.to_owned_within(levels)?);
        }
        Ok(values)
    }
}

impl<'a> IntoIterator for ArrayRef<'a> {
    type Item = ValueRef<'a>;
    type IntoIter = ArrayIter<'a>;

    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

/// The elements of an [`ArrayRef`].
#[derive(Clone, Debug)]
pub struct ArrayIter<'a>(WireCursor<'a>);

impl<'a> Iterator for ArrayIter<'a> {
    type Item = ValueRef<'a>;

    fn next(&mut self) -> Option<ValueRef<'a>> {
        ValueRef::read(&mut self.0).ok()
    }
}

/// A value in the bytes it came in; see [`Value`] for the types.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are those of Value")]
pub enum ValueRef<'a> {
    Bool(bool),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    I64(i64),
    F32(f32),
    F64(f64),
    Decimal(Decimal),
    LongString(&'a [u8]),
    Array(ArrayRef<'a>),
    Timestamp(u64),
    Table(TableRef<'a>),
    Void,
    Bytes(&'a [u8]),
}

impl<'a> ValueRef<'a> {
    /// Reads tag and value. What is nested inside is not looked at.
    fn read(reader: &mut WireCursor<'a>) -> Result<Self, FieldError> {
        Ok(match reader.u8()? {
            b'S' => Self::LongString(reader.long_str()?),
            b't' => Self::Bool(reader.u8()? != 0),
            b'b' => Self::I8(i8::from_be_bytes(reader.array()?)),
            b'B' => Self::U8(reader.u8()?),
            b's' => Self::I16(i16::from_be_bytes(reader.array()?)),
            b'u' => Self::U16(reader.u16()?),
            b'I' => Self::I32(i32::from_be_bytes(reader.array()?)),
            b'i' => Self::U32(reader.u32()?),
            b'l' | b'L' => Self::I64(i64::from_be_bytes(reader.array()?)),
            b'f' => Self::F32(f32::from_be_bytes(reader.array()?)),
            b'd' => Self::F64(f64::from_be_bytes(reader.array()?)),
            b'D' => Self::Decimal(Decimal { scale: reader.u8()?, value: reader.u32()? }),
            b'A' => Self::Array(ArrayRef(reader.long_str()?)),
            b'T' => Self::Timestamp(reader.u64()?),
            b'F' => Self::Table(TableRef(reader.long_str()?)),
            b'V' => Self::Void,
            b'x' => Self::Bytes(reader.long_str()?),
            tag => return Err(FieldError::UnknownType(tag)),
        })
    }

    /// A copy that owns its data.
    ///
    /// # Errors
    /// Only for bytes that were never validated.
    pub fn to_owned(&self) -> Result<Value, FieldError> {
        self.to_owned_within(DEPTH_MAX - 1)
    }

    fn to_owned_within(self, levels: usize) -> Result<Value, FieldError> {
        Ok(match self {
            Self::Bool(b) => Value::Bool(b),
            Self::I8(n) => Value::I8(n),
            Self::U8(n) => Value::U8(n),
            Self::I16(n) => Value::I16(n),
            Self::U16(n) => Value::U16(n),
            Self::I32(n) => Value::I32(n),
            Self::U32(n) => Value::U32(n),
            Self::I64(n) => Value::I64(n),
            Self::F32(n) => Value::F32(n),
            Self::F64(n) => Value::F64(n),
            Self::Decimal(d) => Value::Decimal(d),
            Self::LongString(bytes) => Value::LongString(bytes.to_vec()),
            Self::Array(array) => Value::Array(array.to_owned_within(levels)?),
            Self::Timestamp(seconds) => Value::Timestamp(seconds),
            Self::Table(table) => Value::Table(table.to_owned_within(levels)?),
            Self::Void => Value::Void,
            Self::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        })
    }

    /// The number, if this is an integer of any width (not a timestamp).
    #[expect(clippy::wildcard_enum_match_arm, reason = "other types are no integers")]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::I8(n) => Some(i64::from(n)),
            Self::U8(n) => Some(i64::from(n)),
            Self::I16(n) => Some(i64::from(n)),
            Self::U16(n) => Some(i64::from(n)),
            Self::I32(n) => Some(i64::from(n)),
            Self::U32(n) => Some(i64::from(n)),
            Self::I64(n) => Some(n),
            _ => None,
        }
    }

    /// The number, if this is a float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        if let Self::F32(n) = *self {
            Some(f64::from(n))
        } else if let Self::F64(n) = *self {
            Some(n)
        } else {
            None
        }
    }

    /// The truth value, if this is one.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(b) = *self { Some(b) } else { None }
    }

    /// The bytes of a long string (not of `Bytes`).
    pub const fn as_bytes(&self) -> Option<&'a [u8]> {
        if let Self::LongString(bytes) = *self { Some(bytes) } else { None }
    }

    /// The text of a long string that is UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The table, if this is one.
    pub const fn as_table(&self) -> Option<TableRef<'a>> {
        if let Self::Table(table) = *self { Some(table) } else { None }
    }

    /// The elements, if this is an array.
    pub const fn as_array(&self) -> Option<ArrayRef<'a>> {
        if let Self::Array(array) = *self { Some(array) } else { None }
    }
}

/// A container that is being walked through: what is left of it, and whether values have names.
#[derive(Clone, Copy)]
struct Open<'a> {
    reader: WireCursor<'a>,
    has_names: bool,
}

/// A value, as far as it matters to a check.
enum Passed<'a> {
    /// A value with nothing nested in it.
    Value,
    /// A value with nothing nested in it, in another form than it is encoded in.
    OtherForm,
    Container(Open<'a>),
}

impl<'a> Passed<'a> {
    /// Passes over a value as [`ValueRef::read`] reads it.
    #[inline]
    fn over(reader: &mut WireCursor<'a>) -> Result<Self, FieldError> {
        let width = match reader.u8()? {
            b'S' | b'x' => {
                reader.long_str()?;
                return Ok(Self::Value);
            }
            b't' => return Ok(if reader.u8()? > 1 { Self::OtherForm } else { Self::Value }),
            b'L' => {
                reader.bytes(8)?;
                return Ok(Self::OtherForm);
            }
            b'A' => {
                let reader = WireCursor::new(reader.long_str()?);
                return Ok(Self::Container(Open { reader, has_names: false }));
            }
            b'F' => {
                let reader = WireCursor::new(reader.long_str()?);
                return Ok(Self::Container(Open { reader, has_names: true }));
            }
            b'V' => 0,
            b'b' | b'B' => 1,
            b's' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'l' | b'd' | b'T' => 8,
            tag => return Err(FieldError::UnknownType(tag)),
        };
        reader.bytes(width)?;
        Ok(Self::Value)
    }
}

/// Checks a table with all that is nested in it, with a fixed stack of the open containers. Whether no value
/// has another form than it is encoded in.
fn validate(entries: &[u8]) -> Result<bool, FieldError> {
    let mut is_canonical = true;
    if entries.is_empty() {
        return Ok(is_canonical);
    }
    let mut outer = [None; DEPTH_MAX - 1];
    let mut depth = 0_usize;
    let mut open = Open { reader: WireCursor::new(entries), has_names: true };
    loop {
        if open.reader.is_empty() {
            let Some(up) = depth.checked_sub(1) else { return Ok(is_canonical) };
            depth = up;
            let Some(Some(container)) = outer.get(up).copied() else { return Ok(is_canonical) };
            open = container;
            continue;
        }
        if open.has_names {
            open.reader.short_str()?;
        }
        let inner = match Passed::over(&mut open.reader)? {
            Passed::Value => continue,
            Passed::OtherForm => {
                is_canonical = false;
                continue;
            }
            Passed::Container(inner) => inner,
        };
        *outer.get_mut(depth).ok_or(FieldError::TooDeep)? = Some(open);
        depth += 1;
        open = inner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Vec<u8> {
        let mut table = Table::new();
        for _ in 1..levels {
            let mut outer = Table::new();
            outer.insert(ShortString::from_static("k"), table);
            table = outer;
        }
        table.to_bytes()
    }

    #[test]
    fn depth_is_limited() {
        let deepest = nested(DEPTH_MAX);
        assert!(TableRef::parse(&deepest).unwrap().to_owned().is_ok());
        let too_deep = nested(DEPTH_MAX + 1);
        assert_eq!(TableRef::parse(&too_deep), Err(FieldError::TooDeep));
        assert_eq!(TableRef::trusted(&too_deep).to_owned(), Err(FieldError::TooDeep));
    }

    #[test]
    fn a_very_deep_table_does_not_exhaust_the_stack() {
        // Each level is a bare array element: tag and a length that covers all the rest.
        let mut bytes = b"\x01kA".to_vec();
        let levels = 20_000u32;
        for level in (0..levels).rev() {
            bytes.extend_from_slice(&(level * 5).to_be_bytes());
            if level > 0 {
                bytes.push(b'A');
            }
        }
        assert_eq!(TableRef::parse(&bytes), Err(FieldError::TooDeep));
    }

    #[test]
    fn malformed_entries_are_told_apart() {
        assert_eq!(TableRef::parse(b"\x05ab"), Err(FieldError::Truncated));
        assert_eq!(TableRef::parse(b"\x01kS\0\0\0\x05abc"), Err(FieldError::Truncated));
        assert_eq!(TableRef::parse(b"\x01kZ"), Err(FieldError::UnknownType(b'Z')));
        // The inner table claims more than the outer one holds.
        assert_eq!(TableRef::parse(b"\x01kF\0\0\0\x04\x01jV"), Err(FieldError::Truncated));
    }

    #[test]
    fn views_find_values_and_unchecked_garbage_ends_early() {
        let table = TableRef::parse(b"\x01at\x01\x01bL\0\0\0\0\0\0\0\x07").unwrap();
        assert_eq!(table.get(b"a"), Some(ValueRef::Bool(true)));
        assert_eq!(table.get(b"b").and_then(|v| v.as_i64()), Some(7));
        assert_eq!(table.get(b"c"), None);
        assert_eq!(ValueRef::LongString(b"text").as_str(), Some("text"));
        assert_eq!(ValueRef::F32(0.5).as_f64(), Some(0.5));
        assert_eq!(ValueRef::I64(1).as_f64(), None);
        assert_eq!(TableRef::trusted(b"\x01at\x01\x09").iter().count(), 1);
    }
}
