//! The connections that have not opened a virtual host yet, oldest first.
//!
//! They cost memory and a descriptor before anybody has shown a password, so there is a limit to them. Beyond
//! it a new one takes the place of the oldest: whoever only keeps sockets open cannot keep others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// All handshakes of a server.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    begun: Mutex<Begun>,
}

#[derive(Debug, Default)]
struct Begun {
    next: u64,
    oldest_first: BTreeMap<u64, Arc<Notify>>,
}

/// One handshake, from the socket to `connection.open`; dropped when it is over.
#[derive(Debug)]
pub(crate) struct Handshake {
    number: u64,
    displaced: Arc<Notify>,
    all: Arc<Handshakes>,
}

impl Handshakes {
    /// At most so many at a time.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, begun: Mutex::default() })
    }

    /// Begins one, and tells the oldest that its time is up when there are too many.
    pub(crate) fn begin(self: &Arc<Self>) -> Handshake {
        let displaced = Arc::new(Notify::new());
        let mut begun = stdx::lock(&self.begun);
        let number = begun.next;
        begun.next += 1;
        begun.oldest_first.insert(number, Arc::clone(&displaced));
        let is_too_many = begun.oldest_first.len() > self.max;
        let oldest = if is_too_many { begun.oldest_first.pop_first() } else { None };
        drop(begun);
        if let Some((_, oldest)) = oldest {
            oldest.notify_one();
        }
        Handshake { number, displaced, all: Arc::clone(self) }
    }
}

impl Handshake {
    /// Notified when the handshake has to make room for a new one.
    pub(crate) fn displaced(&self) -> Arc<Notify> {
        Arc::clone(&self.displaced)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        stdx::lock(&self.all.begun).oldest_first.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_displaced(handshake: &Handshake) -> bool {
        let displaced = handshake.displaced();
        pin!(displaced.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Handshakes::new(2);
        let (first, second) = (all.begin(), all.begin());
        assert!(!is_displaced(&first));
        let third = all.begin();
        assert!(is_displaced(&first) && !is_displaced(&second));
        drop(second);
        drop(first);
        let fourth = all.begin();
        assert!(!is_displaced(&third) && !is_displaced(&fourth));
        drop((third, fourth));
        assert!(stdx::lock(&all.begun).oldest_first.is_empty());
    }
}
