//! Errors in bytes from a peer.

use thiserror::Error;

/// An error in an encoded value or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("the data ends before the value does")]
    Truncated,
    /// A list, map or array has other contents than its size or count says.
    #[error("the items of a list, map or array do not fit its size and count")]
    Count,
    /// No type has this constructor.
    #[error("unknown constructor {0:#04x}")]
    UnknownConstructor(u8),
    /// A value has a form that its type does not have: a boolean of 2, a character that is none.
    #[error("a value is not one of its type")]
    NotOfType,
    /// A string is not UTF-8, or a symbol not ASCII.
    #[error("a string is not UTF-8, or a symbol not ASCII")]
    NotText,
    /// A descriptor is neither an unsigned long nor a symbol.
    #[error("a descriptor is neither a number nor a symbol")]
    Descriptor,
    /// Values are nested more than [`crate::DEPTH_MAX`] deep.
    #[error("values are nested too deeply")]
    TooDeep,
    /// An array has more elements without bytes of their own than are let pass.
    #[error("an array has too many elements")]
    TooManyElements,
    /// A section of a message is unknown, comes twice, or not in its place.
    #[error("a section is unknown or not in its place")]
    Section,
    /// A field or section has a value of another type than it is defined with.
    #[error("a field has a value of another type")]
    FieldType,
    /// A composite lacks a field that it must have.
    #[error("the field {0} is missing")]
    MissingField(&'static str),
    /// A frame's body begins with none of its layer's performatives.
    #[error("a frame has no known performative")]
    UnknownPerformative,
}
