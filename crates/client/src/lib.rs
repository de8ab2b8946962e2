//! A client of AMQP 0-9-1 brokers: URIs, sockets with TLS or without, connections that ask and wait. Knows
//! the wire protocol. Never any part of a broker. Start reading at [`Client`]; [`Publisher`] publishes with
//! confirms.

mod connection;
mod publisher;
mod transport;
mod uri;

pub use connection::{Client, Closed, Link, Unreachable, closed, lesser, open};
pub use publisher::{Answer, Outgoing, Publisher};
pub use transport::{Encryption, Received, Sent, Session, Transport, Trust};
pub use uri::Uri;
