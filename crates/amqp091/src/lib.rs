//! AMQP 0-9-1 on the wire: bytes to frames, methods, properties and tables, and back, for both sides.
//! Must never know sockets, clocks, queues or what a method means.
//! Start reading at `frame`, then `method`, `content`, `table`.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

pub mod error;
pub mod table;
mod wire;

pub use error::FieldError;
pub use table::{ShortString, Table, TableRef, Value, ValueRef};
