//! Errors in bytes from a peer or a file, and the response code that goes with those of frames.

use thiserror::Error;

use crate::command_id::CommandId;
use crate::response_code::ResponseCode;

/// An error in one field of a command, of a chunk's entry or of its trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FieldError {
    /// The bytes end before the value does, or cannot hold as many elements as a list announces.
    #[error("the data ends before the field does")]
    Truncated,
    /// A list of more elements than are ever taken; noticed before any of them is looked at.
    #[error("a list of {n}, at most {n_max} are allowed")]
    TooMany {
        /// The number of elements that the list announces.
        n: u32,
        /// The most elements that are taken.
        n_max: u32,
    },
    /// Bytes are left after the last field.
    #[error("there is data after the last field")]
    TrailingBytes,
    /// A string is not UTF-8.
    #[error("malformed UTF-8 in a string")]
    NotUtf8,
    /// A length is negative, and not the -1 of null.
    #[error("a length of {0}")]
    NegativeLength(i32),
    /// A flag is neither 0 nor 1.
    #[error("a flag of {0}")]
    NotBoolean(u8),
    /// The kind of an offset specification is unknown.
    #[error("unknown offset type {0}")]
    UnknownOffsetType(u16),
    /// The kind of a tracking record is unknown.
    #[error("unknown tracking type {0}")]
    UnknownTrackingType(u8),
}

/// An error in bytes from a peer. All of these end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// The frame is larger than is allowed; noticed before any of it is waited for.
    #[error("frame too large: {size} bytes, at most {size_max} are allowed")]
    FrameTooLarge {
        /// The announced size in bytes.
        size: u32,
        /// The largest size allowed now.
        size_max: u32,
    },
    /// A frame without key and version.
    #[error("the frame is too short for a command")]
    ShortFrame,
    /// The command is unknown, or is not known in this direction or in this version.
    #[error("unknown command {0}")]
    UnknownCommand(CommandId),
    /// A field of the command is malformed.
    #[error("cannot decode {command}: {error}")]
    Command {
        /// The command.
        command: CommandId,
        /// The field's error.
        error: FieldError,
    },
}

impl WireError {
    /// The code to close the connection with.
    ///
    /// COMPAT: RabbitMQ takes a malformed command for one that it does not know.
    /// Test: `errors_name_the_command_and_the_closing_code`.
    pub const fn response_code(&self) -> ResponseCode {
        match self {
            Self::FrameTooLarge { .. }
            | Self::Command { error: FieldError::TooMany { .. }, .. } => {
                ResponseCode::FRAME_TOO_LARGE
            }
            Self::ShortFrame | Self::UnknownCommand(_) | Self::Command { .. } => {
                ResponseCode::UNKNOWN_FRAME
            }
        }
    }
}

/// An error in the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// The bytes end before the chunk does.
    #[error("the data ends before the chunk does")]
    Truncated,
    /// The first byte is not that of a chunk of the one version there is.
    #[error("a chunk begins with 0x50, not with {0:#04x}")]
    Magic(u8),
    /// The entries that are announced cannot fit their bytes.
    #[error("{n_entries} entries do not fit {data_bytes} bytes")]
    EntriesDoNotFit {
        /// The number of entries in the header.
        n_entries: u16,
        /// The size of the entries in the header, in bytes.
        data_bytes: u32,
    },
    /// The checksum of the entries is another.
    #[error("the checksum of the entries is {found:#010x}, not {expected:#010x}")]
    Crc {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// An entry is malformed.
    #[error("cannot decode an entry: {0}")]
    Entry(#[from] FieldError),
    /// The entries hold another number of records than the header says.
    #[error("the entries hold {found} records, not {expected}")]
    Records {
        /// The number of records in the header.
        expected: u32,
        /// The number of records in the entries.
        found: u64,
    },
    /// A part is longer than the header can say (only when one is made, never from bytes).
    #[error("a part of the chunk is too long")]
    TooLong,
}

/// The reason for refusing a sub-batch that was published; the other messages of the frame stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubBatchError {
    /// The sub-batch would be larger than is allowed once it is decompressed.
    #[error("{0} bytes uncompressed are too many")]
    TooLarge(u32),
    /// The sub-batch holds no message.
    #[error("no messages")]
    NoRecords,
    /// The messages cannot fit the bytes they are said to have uncompressed.
    #[error("{n_records} messages do not fit {uncompressed_bytes} bytes")]
    RecordsDoNotFit {
        /// The number of messages, as the entry says.
        n_records: u16,
        /// The size of the messages uncompressed, as the entry says.
        uncompressed_bytes: u32,
    },
    /// The compression is none of the known ones.
    #[error("unknown compression {0}")]
    UnknownCompression(u8),
    /// The sub-batch is compressed, but has no bytes.
    #[error("compressed, and empty")]
    Empty,
    /// The sub-batch is not compressed, and yet of another size than it says.
    #[error("{found} bytes instead of {expected}")]
    Size {
        /// The size in bytes that the entry says.
        expected: u32,
        /// The number of bytes that are there.
        found: usize,
    },
}
