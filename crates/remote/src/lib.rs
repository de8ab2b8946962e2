//! Queues whose messages are on another node, as this node's clients use them, and the bytes that both nodes
//! exchange for it. Never sockets, or the choice of a queue's home.
//! Start reading at [`RemoteQueue`].

pub mod commands;
mod consumer;
mod home;
mod puts;
mod remote_queue;
pub mod requests;
pub mod wire;

pub use consumer::{RemoteConsumer, RemoteRelease};
pub use home::{HomeLinks, Homes};
pub use remote_queue::RemoteQueue;

#[cfg(test)]
mod tests;
