//! The server side of the stream protocol: bytes of a client to requests, events of the broker to bytes.
//! Must never know sockets, clocks, threads, or what a stream keeps.
//! Start reading at [`Connection`], then [`ClientOutbox`].

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod connection;
mod outbox;
mod reply;
mod settings;

pub use connection::Connection;
pub use outbox::{ClientOutbox, Locked};
pub use settings::{FRAME_BYTES_MAX, Settings};
