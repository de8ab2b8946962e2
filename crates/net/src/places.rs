//! Sockets of a kind that there is a limit to, oldest first: those of connections that have not opened a
//! virtual host yet, and those that only wait for their clients to close them.
//!
//! They cost memory and a descriptor, and it is not known whether anybody needs them. Beyond the limit a
//! new one takes the place of the oldest: whoever only keeps sockets open cannot keep others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// All places for one kind.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    oldest_first: BTreeMap<u64, Arc<Notify>>,
}

/// One place, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    lost: Arc<Notify>,
    all: Arc<Places>,
}

impl Places {
    /// At most so many at a time.
    pub(crate) fn new(max: u64) -> Arc<Self> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Arc::new(Self { max, taken: Mutex::default() })
    }

    /// Takes one, and tells the oldest that it has lost its own when there are too many.
    pub(crate) fn take(self: &Arc<Self>) -> Place {
        let lost = Arc::new(Notify::new());
        let mut taken = stdx::lock(&self.taken);
        let number = taken.next;
        taken.next += 1;
        taken.oldest_first.insert(number, Arc::clone(&lost));
        let is_too_many = taken.oldest_first.len() > self.max;
        let oldest = if is_too_many { taken.oldest_first.pop_first() } else { None };
        drop(taken);
        if let Some((_, oldest)) = oldest {
            oldest.notify_one();
        }
        Place { number, lost, all: Arc::clone(self) }
    }

    /// Tells all of them that they have lost their places.
    pub(crate) fn clear(&self) {
        let taken = std::mem::take(&mut stdx::lock(&self.taken).oldest_first);
        taken.values().for_each(|lost| lost.notify_one());
    }
}

impl Place {
    /// Notified when whoever has the place has to go.
    pub(crate) fn lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lost)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        stdx::lock(&self.all.taken).oldest_first.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_lost(place: &Place) -> bool {
        let lost = place.lost();
        pin!(lost.notified()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Places::new(2);
        let (first, second) = (all.take(), all.take());
        assert!(!is_lost(&first));
        let third = all.take();
        assert!(is_lost(&first) && !is_lost(&second));
        drop(second);
        drop(first);
        let fourth = all.take();
        assert!(!is_lost(&third) && !is_lost(&fourth));
        drop((third, fourth));
        assert!(stdx::lock(&all.taken).oldest_first.is_empty());
    }

    #[test]
    fn all_can_be_told_to_go() {
        let all = Places::new(u64::MAX);
        let places = [all.take(), all.take()];
        all.clear();
        assert!(places.iter().all(is_lost) && !is_lost(&all.take()));
    }
}
