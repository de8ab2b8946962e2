//! Small helpers every crate may use: time as a value, reading and writing of internal records, counts by
//! size, the last of what came, marks along the walk of a message.
//! Knows integers and bytes. Never sockets, files, queues; of clocks only the functions it is given.
//! Start reading at [`Now`] and [`record`].

mod clock;
mod debug_of;
mod duration;
mod edit_distance;
mod histogram;
mod named;
pub mod record;
mod ring;
mod time;
pub mod walk;

pub use clock::{Clock, TimeScale, WallClock};
pub use duration::duration_s;
pub use edit_distance::edit_distance;
pub use histogram::{Histogram, HistogramCounts, count};
pub use ring::{Ring, RingItems};
pub use time::{Civil, Date, MonotonicMs, Now, UnixMs, date_time};

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The version of RabbitMQ whose behaviour and commands are followed, as nodes tell it.
/// COMPAT: clients, tools and scripts choose by it what they may use.
pub const RABBITMQ_VERSION: &str = "4.4.0";

/// The words of a list with commas between them.
pub fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(", ").filter(|word| !word.is_empty())
}

/// Adds a waker to those that are called later, unless one is there that wakes the same task.
pub fn add_waker(known: &mut Vec<Waker>, waker: &Waker) {
    if !known.iter().any(|known| known.will_wake(waker)) {
        known.push(waker.clone());
    }
}

/// Locks a mutex, also one whose holder panicked: our locks guard state that every operation leaves
/// whole, and one connection's panic must not take the others down.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
