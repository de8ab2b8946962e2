//! Borrowed values to bytes, for tables that are written without being built first.

use super::ValueRef;
use crate::wire;

/// Appends the name of a table's entry, whose value is to be appended next. A name of more than 255 bytes is
/// cut.
pub fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    wire::put_short_bytes(out, name);
}

/// Appends a text that `text` appends.
pub fn put_text(out: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'S');
    wire::put_with_len(out, text);
}

/// Appends an array of the values that `elements` appends.
pub fn put_array(out: &mut Vec<u8>, elements: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'A');
    wire::put_with_len(out, elements);
}

/// Appends a table of the names and values that `entries` appends.
pub fn put_table(out: &mut Vec<u8>, entries: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'F');
    wire::put_with_len(out, entries);
}

impl ValueRef<'_> {
    /// Appends tag and value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Bool(b) => out.extend_from_slice(&[b't', u8::from(b)]),
            Self::I8(n) => put(out, b'b', n.to_be_bytes()),
            Self::U8(n) => put(out, b'B', n.to_be_bytes()),
            Self::I16(n) => put(out, b's', n.to_be_bytes()),
            Self::U16(n) => put(out, b'u', n.to_be_bytes()),
            Self::I32(n) => put(out, b'I', n.to_be_bytes()),
            Self::U32(n) => put(out, b'i', n.to_be_bytes()),
            Self::I64(n) => put(out, b'l', n.to_be_bytes()),
            Self::F32(n) => put(out, b'f', n.to_be_bytes()),
            Self::F64(n) => put(out, b'd', n.to_be_bytes()),
            Self::Decimal(d) => {
                out.extend_from_slice(&[b'D', d.scale]);
                out.extend_from_slice(&d.value.to_be_bytes());
            }
            Self::LongString(bytes) => put_counted(out, b'S', bytes),
            Self::Array(array) => put_counted(out, b'A', array.as_bytes()),
            Self::Timestamp(seconds) => put(out, b'T', seconds.to_be_bytes()),
            Self::Table(table) => put_counted(out, b'F', table.as_bytes()),
            Self::Void => out.push(b'V'),
            Self::Bytes(bytes) => put_counted(out, b'x', bytes),
        }
    }
}

fn put<const N: usize>(out: &mut Vec<u8>, tag: u8, bytes: [u8; N]) {
    out.push(tag);
    out.extend_from_slice(&bytes);
}

fn put_counted(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    wire::put_long_str(out, bytes);
}
