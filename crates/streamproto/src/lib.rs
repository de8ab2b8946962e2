//! The stream protocol on the wire, for both sides: bytes to frames, commands, chunks, and back.
//! Must never know sockets, files, clocks, streams or what a command means; messages are opaque.
//! Start reading at `frame`, then `command`, `direction`, then `chunk`.
//!
//! Clauses are those of RabbitMQ's stream protocol reference (`PROTOCOL.adoc`), and of the log
//! format in the head of Osiris' `osiris_log`, for chunks.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

pub mod chunk;
pub mod command;
mod command_id;
mod direction;
pub mod entry;
pub mod error;
pub mod field;
pub mod frame;
mod key;
pub mod list;
mod offset_spec;
mod response_code;
pub mod spec;
pub mod tracking;

pub use chunk::{Chunk, ChunkHeader, ChunkType};
pub use command::Command;
pub use command_id::CommandId;
pub use direction::{CodeResponse, ToClient, ToServer, split_id};
pub use entry::{Compression, Entries, Entry, SubBatch};
pub use error::{ChunkError, FieldError, SubBatchError, WireError};
pub use frame::{decode_frame, deliver_prefix, deliver_v2_prefix};
pub use key::Key;
pub use list::List;
pub use offset_spec::{FinalOffset, OffsetSpec};
pub use response_code::ResponseCode;
