//! Sockets: where clients connect, and the task that serves one connection.
//! Knows sockets, time and the order of start and stop. Never what a frame or a queue is; the protocols are
//! told apart in `front.rs` only.
//! Start reading at [`Server`], then `connection.rs`.

mod accept;
mod activity;
mod clock;
mod connection;
mod front;
mod listener;
pub mod peer;
mod peer_lines;
mod proxy;
mod read_clock;
mod server;
mod socket;
mod timers;

pub use clock::Clock;
pub use front::Protocol;
pub use listener::{ClosedListener, ListenAddress, Listener, Service};
pub use peer_lines::{Kind as PeerLineKind, Source as PeerLineSource};
pub use server::{Server, ServerSettings};
pub use timers::Timers;
