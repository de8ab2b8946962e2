//! The server side of AMQP 0-9-1: bytes of a client to requests, events of the broker to bytes.
//! Must never know sockets, clocks, threads or what a queue is.
//! Start reading at [`Connection`], then [`ClientOutbox`].

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod connection;
mod outbox;
mod reply;
mod settings;

pub use connection::Connection;
pub use edge::{Mechanism, OutboxBudget};
pub use outbox::{ClientOutbox, Locked};
pub use settings::{Immediate, Settings};
