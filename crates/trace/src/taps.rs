//! Taps: copies of messages as they come to a queue or an exchange, for operators who watch them.
//!
//! Without taps, a publish costs nothing beside a look at the flag of traces. With taps, publishers do not
//! wait: messages that a tap has no room for are counted and left out.

use message::{MessageRef, OwnedMessage};
use meta::{Name, QueueId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Messages that a tap keeps until they are taken.
const CAUGHT_MAX: usize = 1_024;
/// Bytes of messages that a tap keeps until they are taken; the last message may exceed them.
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
pub struct Taps(Mutex<Arc<[Arc<Flow>]>>);

/// A tap, and the messages that have come.
#[derive(Debug)]
pub struct Flow {
    /// The place that is watched.
    pub of: Tapped,
    caught: Mutex<(Vec<OwnedMessage>, usize)>,
    n_missed: AtomicU64,
}

impl Taps {
    /// Opens or closes taps.
    pub fn change(&self, change: impl FnOnce(&mut Vec<Arc<Flow>>)) {
        let mut open = stdx::lock(&self.0);
        let mut taps = open.to_vec();
        change(&mut taps);
        *open = taps.into();
    }

    /// The taps that are open.
    #[must_use]
    pub fn open(&self) -> Arc<[Arc<Flow>]> {
        Arc::clone(&stdx::lock(&self.0))
    }
}

impl Flow {
    /// Begins to watch.
    #[must_use]
    pub fn new(of: Tapped) -> Self {
        Self { of, caught: Mutex::default(), n_missed: AtomicU64::new(0) }
    }

    /// Copies a message, or counts it as missed.
    pub fn add(&self, message: &MessageRef<'_>) {
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

    /// Takes the messages that came since the last call, and how many beside these were left out.
    pub fn take(&self) -> (Vec<OwnedMessage>, u64) {
        let (messages, _) = std::mem::take(&mut *stdx::lock(&self.caught));
        (messages, self.n_missed.swap(0, Ordering::Relaxed))
    }
}
