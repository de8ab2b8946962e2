//! Taps: copies of messages as they come to a queue or an exchange, for who watches them.
//!
//! While there are none, they cost nothing beside the look at the flag that traces have. With some, nobody
//! who publishes waits: what a tap has no room for is counted and left out.

use message::{MessageRef, OwnedMessage};
use meta::{Name, QueueId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Messages that wait for who watches, ...
const CAUGHT_MAX: usize = 1_024;
/// ... and their bytes, but for the last.
const CAUGHT_BYTES_MAX: usize = 4 << 20;

/// The place where messages are watched as they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tapped {
    /// A queue: the messages that it takes. A stream has better: its end.
    Queue(QueueId),
    /// An exchange of this virtual host: the messages that name it, whether they go to a queue or not.
    Exchange(Name, Name),
}

/// The taps that are open.
#[derive(Debug, Default)]
pub(crate) struct Taps(Mutex<Arc<[Arc<Flow>]>>);

/// A tap, and the messages that have come.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) of: Tapped,
    caught: Mutex<(Vec<OwnedMessage>, usize)>,
    n_missed: AtomicU64,
}

impl Taps {
    /// Opens or closes some.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Flow>>)) {
        let mut open = stdx::lock(&self.0);
        let mut taps = open.to_vec();
        change(&mut taps);
        *open = taps.into();
    }

    pub(crate) fn open(&self) -> Arc<[Arc<Flow>]> {
        Arc::clone(&stdx::lock(&self.0))
    }
}

impl Flow {
    pub(crate) fn new(of: Tapped) -> Self {
        Self { of, caught: Mutex::default(), n_missed: AtomicU64::new(0) }
    }

    /// Copies a message.
    pub(crate) fn add(&self, message: &MessageRef<'_>) {
        let Ok(mut caught) = self.caught.try_lock() else { return self.miss() };
        let (messages, n_bytes) = &mut *caught;
        if messages.len() >= CAUGHT_MAX || *n_bytes >= CAUGHT_BYTES_MAX {
            return self.miss();
        }
        let message = OwnedMessage::new(message);
        *n_bytes += message.size_bytes();
        messages.push(message);
    }

    fn miss(&self) {
        self.n_missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the messages that have come since, and how many beside them were left out.
    pub(crate) fn take(&self) -> (Vec<OwnedMessage>, u64) {
        let (messages, _) = std::mem::take(&mut *stdx::lock(&self.caught));
        (messages, self.n_missed.swap(0, Ordering::Relaxed))
    }
}
