//! Small helpers every crate may use: time as a value, and reading and writing of internal records.
//! Knows integers and bytes. Never sockets, files, clocks, queues.
//! Start reading at [`Now`] and [`record`].

pub mod record;
mod time;

pub use time::Now;
