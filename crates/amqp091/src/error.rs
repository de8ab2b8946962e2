//! What can be wrong with bytes from a peer.

use thiserror::Error;

/// What is wrong with one field of a method, of the content properties or of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The bytes end before the value does.
    #[error("the data ends before the field does")]
    Truncated,
    /// There are bytes after the last field.
    #[error("there is data after the last field")]
    TrailingBytes,
    /// A short string holds more than 255 bytes (only when encoding).
    #[error("a short string holds at most 255 bytes")]
    StringTooLong,
    /// A short string of a method is not UTF-8.
    #[error("Malformed UTF-8 in shortstr")]
    NotUtf8,
    /// A table or array holds a value of a type nobody knows; the tag is attached.
    #[error("unknown field type {0:#04x}")]
    UnknownType(u8),
    /// Tables and arrays are nested more than [`crate::table::DEPTH_MAX`] deep.
    #[error("tables are nested too deeply")]
    TooDeep,
}
