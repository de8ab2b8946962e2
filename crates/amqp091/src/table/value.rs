//! Owned values of tables and arrays.

use std::hash::{Hash, Hasher};

use super::encode::{put_array, put_table};
use super::view::{ArrayRef, TableRef, ValueRef};
use super::{ShortString, Table};

/// A decimal number: `value` / 10^`scale`. COMPAT: RabbitMQ reads `value` as unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Digits after the decimal point.
    pub scale: u8,
    /// The digits.
    pub value: u32,
}

/// A value. Equality is that of the wire form: the type counts, floats compare bit by bit.
/// For the comparison of declaration arguments see [`Value::is_equivalent`].
#[derive(Clone, Debug)]
pub enum Value {
    /// `t`.
    Bool(bool),
    /// `b`.
    I8(i8),
    /// `B`.
    U8(u8),
    /// `s`.
    I16(i16),
    /// `u`.
    U16(u16),
    /// `I`.
    I32(i32),
    /// `i`.
    U32(u32),
    /// `l`; `L` is read as this too.
    I64(i64),
    /// `f`.
    F32(f32),
    /// `d`.
    F64(f64),
    /// `D`.
    Decimal(Decimal),
    /// `S`: usually text, but any bytes may come.
    LongString(Vec<u8>),
    /// `A`.
    Array(Vec<Self>),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`.
    Table(Table),
    /// `V`.
    Void,
    /// `x`.
    Bytes(Vec<u8>),
}

impl Value {
    /// The name RabbitMQ gives to the type in error texts and over HTTP.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal(_) => "decimal",
            Self::LongString(_) => "longstr",
            Self::Array(_) => "array",
            Self::Timestamp(_) => "timestamp",
            Self::Table(_) => "table",
            Self::Void => "void",
            Self::Bytes(_) => "binary",
        }
    }

    /// The value as it is read from bytes; a table or an array is an empty one.
    #[must_use]
    pub fn flat(&self) -> ValueRef<'_> {
        match *self {
            Self::Bool(b) => ValueRef::Bool(b),
            Self::I8(n) => ValueRef::I8(n),
            Self::U8(n) => ValueRef::U8(n),
            Self::I16(n) => ValueRef::I16(n),
            Self::U16(n) => ValueRef::U16(n),
            Self::I32(n) => ValueRef::I32(n),
            Self::U32(n) => ValueRef::U32(n),
            Self::I64(n) => ValueRef::I64(n),
            Self::F32(n) => ValueRef::F32(n),
            Self::F64(n) => ValueRef::F64(n),
            Self::Decimal(d) => ValueRef::Decimal(d),
            Self::LongString(ref bytes) => ValueRef::LongString(bytes),
            Self::Array(_) => ValueRef::Array(ArrayRef::default()),
            Self::Timestamp(seconds) => ValueRef::Timestamp(seconds),
            Self::Table(_) => ValueRef::Table(TableRef::default()),
            Self::Void => ValueRef::Void,
            Self::Bytes(ref bytes) => ValueRef::Bytes(bytes),
        }
    }

    /// The number, if this is an integer of any width (not a timestamp).
    pub fn as_i64(&self) -> Option<i64> {
        self.flat().as_i64()
    }

    /// The number, if this is a float of either width.
    pub fn as_f64(&self) -> Option<f64> {
        self.flat().as_f64()
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        self.flat().as_bool()
    }

    /// The bytes of a long string (not of `Bytes`).
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.flat().as_bytes()
    }

    /// The text of a long string that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.flat().as_str()
    }

    /// The table, if this is one.
    pub const fn as_table(&self) -> Option<&Table> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// Whether two declaration arguments mean the same.
    /// COMPAT: RabbitMQ compares integers of all widths by value, floats of both widths by value,
    /// everything else with its type. Test: `integers_of_all_widths_are_equivalent_but_not_equal`.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.as_i64(), other.as_i64()) {
            return a == b;
        }
        if let (Some(a), Some(b)) = (self.as_f64(), other.as_f64()) {
            return a == b;
        }
        self == other
    }

    /// Appends tag and value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Self::Array(values) = self {
            put_array(out, |out| values.iter().for_each(|value| value.encode(out)));
        } else if let Self::Table(table) = self {
            put_table(out, |out| table.encode_entries(out));
        } else {
            self.flat().encode(out);
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Table(a), Self::Table(b)) => a == b,
            _ => self.flat() == other.flat(),
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bool(b) => b.hash(state),
            Self::I8(n) => n.hash(state),
            Self::U8(n) => n.hash(state),
            Self::I16(n) => n.hash(state),
            Self::U16(n) => n.hash(state),
            Self::I32(n) => n.hash(state),
            Self::U32(n) => n.hash(state),
            Self::I64(n) => n.hash(state),
            Self::F32(n) => n.to_bits().hash(state),
            Self::F64(n) => n.to_bits().hash(state),
            Self::Decimal(d) => d.hash(state),
            Self::Array(values) => values.hash(state),
            Self::Timestamp(seconds) => seconds.hash(state),
            Self::Table(table) => table.hash(state),
            Self::Void => {}
            Self::LongString(bytes) | Self::Bytes(bytes) => bytes.hash(state),
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

value_from! {
    bool => Bool, i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64,
    f32 => F32, f64 => F64, Decimal => Decimal, Table => Table, Vec<Value> => Array,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::LongString(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::LongString(text.into_bytes())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::LongString(bytes.to_vec())
    }
}

impl From<&ShortString> for Value {
    fn from(text: &ShortString) -> Self {
        Self::LongString(text.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_all_widths_are_equivalent_but_not_equal() {
        assert!(Value::I8(5).is_equivalent(&Value::U32(5)));
        assert!(Value::F32(1.5).is_equivalent(&Value::F64(1.5)));
        assert!(!Value::I64(1).is_equivalent(&Value::F64(1.0)));
        assert!(!Value::I64(1).is_equivalent(&Value::Timestamp(1)));
        assert!(!Value::from("1").is_equivalent(&Value::Bytes(b"1".to_vec())));
        assert_ne!(Value::I8(5), Value::U32(5));
        assert_eq!(Value::F64(f64::NAN), Value::F64(f64::NAN));
    }
}
