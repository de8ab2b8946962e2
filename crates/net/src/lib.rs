//! Sockets: where clients connect, and the task that serves one connection.
//! Knows sockets, time and the order of start and stop. Never what a frame or a queue is.
//! Start reading at [`Listener`].

mod listener;

pub use listener::{ListenAddress, Listener};
