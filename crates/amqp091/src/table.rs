//! Field tables: the arguments of declarations, message headers, client properties.
//!
//! ```text
//! table  = len:u32 (name tag value)*      name = len:u8 bytes
//! array  = len:u32 (tag value)*           value by tag, integers big-endian:
//!   t bool    b i8   B u8   s i16   u u16   I i32   i u32   l i64   L i64   f f32   d f64
//!   D scale:u8 value:u32    T seconds:u64   S len:u32 bytes   x len:u32 bytes
//!   A array   F table   V nothing
//! ```
//! COMPAT: the tags are RabbitMQ's, which differ from the specification's (0-9-1 4.2.1 against the
//! errata): `s` is a 16-bit integer, not a short string; `L` is read as signed and written as `l`,
//! also in headers that pass through (`PropertiesRef::to_canonical`).
//! Test: `wire_form_of_every_type`.
//!
//! [`Table`] and [`Value`] own their data; [`TableRef`] and [`ValueRef`] look into the wire bytes.
//! Names may repeat; the first one counts, the order is kept.

mod encode;
mod value;
mod view;

pub use encode::{put_array, put_name, put_table, put_text};
pub use value::{Decimal, Value};
pub use view::{ArrayIter, ArrayRef, TableIter, TableRef, ValueRef};

pub use crate::short_string::ShortString;
use crate::wire;

/// The depth to which tables and arrays may nest; the outermost table is level one.
pub const DEPTH_MAX: usize = 32;

/// An owned field table: names and values in the order they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table(Vec<(ShortString, Value)>);

impl Table {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The first value under `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key.as_bytes() == name).map(|(_, value)| value)
    }

    /// Sets the value under `name`: in place where the name exists, else at the end.
    /// Gives back what was there.
    pub fn insert(&mut self, name: ShortString, value: impl Into<Value>) -> Option<Value> {
        let value = value.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Appends without looking for an entry of the same name.
    pub fn push(&mut self, name: ShortString, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// Removes every entry of that name; gives back the first one's value.
    pub fn remove(&mut self, name: &[u8]) -> Option<Value> {
        let at = self.0.iter().position(|(key, _)| key.as_bytes() == name)?;
        let (_, value) = self.0.remove(at);
        self.0.retain(|(key, _)| key.as_bytes() != name);
        Some(value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (ShortString, Value)> {
        self.0.iter()
    }

    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends length and entries.
    pub fn encode(&self, out: &mut Vec<u8>) {
        wire::put_with_len(out, |out| self.encode_entries(out));
    }

    /// The entries without the length in front: what [`TableRef`] looks into.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_entries(&mut out);
        out
    }

    fn encode_entries(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            wire::put_short_string(out, name);
            value.encode(out);
        }
    }
}

impl FromIterator<(ShortString, Value)> for Table {
    fn from_iter<I: IntoIterator<Item = (ShortString, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl IntoIterator for Table {
    type Item = (ShortString, Value);
    type IntoIter = std::vec::IntoIter<(ShortString, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Table {
    type Item = &'a (ShortString, Value);
    type IntoIter = std::slice::Iter<'a, (ShortString, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &'static str) -> ShortString {
        ShortString::from_static(text)
    }

    #[test]
    fn insert_replaces_in_place_and_remove_takes_all() {
        let mut table = Table::new();
        table.push(name("a"), 1i64);
        table.push(name("b"), true);
        table.push(name("a"), 2i64);
        assert_eq!(table.insert(name("a"), "x"), Some(Value::I64(1)));
        assert_eq!(table.get(b"a"), Some(&Value::from("x")));
        assert_eq!(table.remove(b"a"), Some(Value::from("x")));
        assert_eq!(table.len(), 1);
        assert_eq!(table.get(b"a"), None);
    }

    #[test]
    fn wire_form_of_every_type() {
        let all = [
            (Value::Bool(true), &b"t\x01"[..]),
            (Value::I8(-1), b"b\xff"),
            (Value::U8(255), b"B\xff"),
            (Value::I16(-2), b"s\xff\xfe"),
            (Value::U16(258), b"u\x01\x02"),
            (Value::I32(-2), b"I\xff\xff\xff\xfe"),
            (Value::U32(1), b"i\0\0\0\x01"),
            (Value::I64(-1), b"l\xff\xff\xff\xff\xff\xff\xff\xff"),
            (Value::F32(1.0), b"f\x3f\x80\0\0"),
            (Value::F64(1.0), b"d\x3f\xf0\0\0\0\0\0\0"),
            (Value::Decimal(Decimal { scale: 2, value: 314 }), b"D\x02\0\0\x01\x3a"),
            (Value::LongString(b"hi".to_vec()), b"S\0\0\0\x02hi"),
            (Value::Bytes(b"hi".to_vec()), b"x\0\0\0\x02hi"),
            (Value::Array(vec![Value::Void]), b"A\0\0\0\x01V"),
            (Value::Timestamp(5), b"T\0\0\0\0\0\0\0\x05"),
            (Value::Table(Table::new()), b"F\0\0\0\0"),
            (Value::Void, b"V"),
        ];
        for (value, bytes) in all {
            let table: Table = [(name("k"), value)].into_iter().collect();
            let mut expected = b"\x01k".to_vec();
            expected.extend_from_slice(bytes);
            assert_eq!(table.to_bytes(), expected);
            assert_eq!(TableRef::parse(&expected).unwrap().to_owned().unwrap(), table);
        }
    }
}
