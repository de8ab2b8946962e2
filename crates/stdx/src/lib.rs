//! Small helpers every crate may use: time as a value, and reading and writing of internal records.
//! Knows integers and bytes. Never sockets, files, clocks, queues.
//! Start reading at [`Now`] and [`record`].

pub mod record;
mod time;

pub use time::{Now, civil_date};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one whose holder panicked: our locks guard state that every operation leaves
/// whole, and one connection's panic must not take the others down.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
