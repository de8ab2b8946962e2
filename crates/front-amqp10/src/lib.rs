//! The server side of AMQP 1.0: bytes of a client to requests, answers of the broker to bytes.
//! Must never know sockets, clocks, threads, or what a queue keeps.
//! Start reading at [`ClientConnection`], then [`ServerConnection`], the protocol alone, and
//! `SessionEndpoint`.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod address;
mod client_connection;
mod connection;
mod fault;
mod incoming;
mod life;
mod links;
mod login;
pub mod management;
mod management_links;
mod open;
mod outbox;
mod outcomes;
mod outgoing;
mod published_heads;
mod requests;
mod session_endpoint;
mod session_table;
mod settings;
mod settlement;
mod subscriptions;
mod topics;
mod transactions;
mod unanswered;
mod windows;

pub use address::{SourceAddress, TargetAddress};
pub use client_connection::ClientConnection;
pub use connection::{ServerConnection, listed_session, release_overdue, transaction_ended};
pub use fault::{FaultScope, ProtocolFault};
pub use incoming::{LINK_CREDIT, LINK_CREDIT_MAX, UNFINISHED_BYTES_MAX};
pub use open::{ClientOpen, SOLE_CONNECTION};
pub use outbox::{ClientOutbox, LockedServer};
pub use requests::{
    AttachAsked, AttachResult, AttachedLink, LinkHandle, LinkRequest, ManagementCall, SentContent,
    SentMessage,
};
pub use settings::{ANONYMOUS_RELAY, ConnectionSettings, LINK_PAIR};
pub use settlement::{NumberedEntries, UnsettledDeliveries};
pub use topics::SHARED_SUBSCRIPTIONS;
pub use windows::{INCOMING_WINDOW, OUTGOING_WINDOW, SessionWindows};
