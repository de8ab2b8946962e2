//! Errors in bytes from a peer, and the reply code that goes with each.

use thiserror::Error;

use crate::method_id::MethodId;
use crate::reply::ReplyCode;

/// An error in one field of a method, of the content properties or of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The bytes end before the value does.
    #[error("the data ends before the field does")]
    Truncated,
    /// Bytes are left after the last field.
    #[error("there is data after the last field")]
    TrailingBytes,
    /// A short string holds more than 255 bytes (only when one is made, never from the wire).
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
    /// The property flags announce more flags; there are no more than fourteen properties.
    #[error("more property flags follow than there are properties")]
    FlagsContinued,
}

/// An error in bytes from a peer. All of these end the connection. COMPAT: the texts for frames are
/// RabbitMQ's, without its dump of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The payload is larger than was negotiated; noticed before any of it is waited for.
    #[error("type {kind}, all octets = <<>>: {{frame_too_large,{size},{size_max}}}")]
    FrameTooLarge {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
        /// The announced payload size in bytes.
        size: u32,
        /// The largest payload size that fits `frame_max`.
        size_max: u32,
    },
    /// The frame does not end in 0xCE: sender and receiver disagree on where frames begin.
    #[error("type {kind}: {{invalid_frame_end_marker,{found}}}")]
    FrameEnd {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
        /// The octet in place of 0xCE.
        found: u8,
    },
    /// The frame's type is unknown, or its payload is too short for the type.
    #[error("type {kind}: unknown_frame")]
    UnknownFrame {
        /// The frame's type octet.
        kind: u8,
        /// The frame's channel.
        channel: u16,
    },
    /// A method or header frame is too short to say what it is.
    #[error("unknown_frame")]
    ShortPayload,
    /// The class or the method is unknown.
    #[error("unknown method {0}")]
    UnknownMethod(MethodId),
    /// A field of the method is malformed.
    #[error("cannot decode {method}: {error}")]
    Method {
        /// The method.
        method: MethodId,
        /// The field's error.
        error: FieldError,
    },
    /// The content header is for a class whose methods carry no content.
    #[error("expected content header for class 60, got one for class {0} instead")]
    ContentClass(u16),
    /// The weight of the content header is not zero (0-9-1 4.2.6.1).
    #[error("expected content header for class 60, got non content header frame instead")]
    ContentWeight,
    /// A property of the content header is malformed.
    #[error("cannot decode the content properties: {0}")]
    Properties(FieldError),
}

impl WireError {
    /// The code to close the connection with.
    ///
    /// COMPAT: RabbitMQ answers a malformed method with 501. On an unknown method, a malformed
    /// table and malformed properties its reader process dies and the socket with it; here the peer
    /// is told. Test: `errors_name_the_method_and_the_reply_code`.
    pub const fn reply_code(&self) -> ReplyCode {
        match self {
            Self::FrameTooLarge { .. }
            | Self::FrameEnd { .. }
            | Self::UnknownFrame { .. }
            | Self::ShortPayload => ReplyCode::FrameError,
            Self::UnknownMethod(_) => ReplyCode::NotImplemented,
            Self::ContentClass(_) | Self::ContentWeight => ReplyCode::UnexpectedFrame,
            Self::Properties(_) => ReplyCode::SyntaxError,
            Self::Method { error, .. } => match error {
                FieldError::Truncated
                | FieldError::TrailingBytes
                | FieldError::StringTooLong
                | FieldError::NotUtf8 => ReplyCode::FrameError,
                FieldError::UnknownType(_) | FieldError::TooDeep | FieldError::FlagsContinued => {
                    ReplyCode::SyntaxError
                }
            },
        }
    }

    /// The method to name in the close, if one is at fault.
    pub const fn method(&self) -> Option<MethodId> {
        let (Self::UnknownMethod(method) | Self::Method { method, .. }) = self else {
            return None;
        };
        Some(*method)
    }
}
