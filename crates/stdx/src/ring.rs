//! The last of what came, in memory.

use crate::lock;
use std::collections::VecDeque;
use std::sync::Mutex;

/// The last items that came, numbered from 1, within a number of items and of bytes. Memory is taken as they
/// come. Copies of items should be cheap: readers are given them.
#[derive(Debug)]
pub struct Ring<T> {
    items_max: usize,
    bytes_max: usize,
    state: Mutex<RingState<T>>,
}

#[derive(Debug)]
struct RingState<T> {
    /// Items with their bytes, the oldest first.
    items: VecDeque<(usize, T)>,
    n_bytes: usize,
    /// The number of items that ever came.
    n_items: u64,
}

/// Items of a ring as they were at a time.
#[derive(Debug)]
pub struct RingItems<T> {
    /// The items that were wanted, each with its number, the oldest first.
    pub items: Vec<(u64, T)>,
    /// The number of the oldest item that is kept, wanted or not; that of the next one if none is.
    pub first: u64,
    /// The number of the next item that comes.
    pub next: u64,
}

impl<T: Clone> Ring<T> {
    /// Creates an empty ring.
    pub const fn new(items_max: usize, bytes_max: usize) -> Self {
        let state = RingState { items: VecDeque::new(), n_bytes: 0, n_items: 0 };
        Self { items_max, bytes_max, state: Mutex::new(state) }
    }

    /// Keeps an item, which takes `more_bytes` besides its own size, in the place of the oldest ones.
    pub fn push(&self, item: T, more_bytes: usize) {
        let n_bytes = size_of::<T>() + more_bytes;
        let mut state = lock(&self.state);
        state.n_items += 1;
        state.n_bytes += n_bytes;
        state.items.push_back((n_bytes, item));
        while state.items.len() > self.items_max || state.n_bytes > self.bytes_max {
            let Some((n_bytes, _)) = state.items.pop_front() else { break };
            state.n_bytes -= n_bytes;
        }
    }

    /// Items with a greater number than this.
    pub fn after(&self, after: u64) -> RingItems<T> {
        let state = lock(&self.state);
        let first = state.n_items + 1 - state.items.len() as u64;
        let n_seen =
            usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        let items = (first..).zip(&state.items).skip(n_seen);
        let items = items.map(|(number, (_, item))| (number, item.clone())).collect();
        RingItems { items, first, next: state.n_items + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(ring: &Ring<u8>, after: u64) -> Vec<(u64, u8)> {
        ring.after(after).items.iter().map(|(number, item)| (*number, *item)).collect()
    }

    fn ends(ring: &Ring<u8>) -> (u64, u64) {
        let RingItems { first, next, .. } = ring.after(0);
        (first, next)
    }

    #[test]
    fn the_last_items_are_kept_and_numbered() {
        let ring = Ring::new(3, 1_000);
        assert_eq!((numbered(&ring, 0), ends(&ring)), (vec![], (1, 1)));
        (10..15).for_each(|item| ring.push(item, 0));
        assert_eq!(numbered(&ring, 0), [(3, 12), (4, 13), (5, 14)]);
        assert_eq!(numbered(&ring, 4), [(5, 14)]);
        assert_eq!((numbered(&ring, 5), numbered(&ring, u64::MAX)), (vec![], vec![]));
        assert_eq!(ends(&ring), (3, 6));
    }

    #[test]
    fn bytes_are_limited_too() {
        let ring = Ring::new(100, 10);
        (1..=4).for_each(|item| ring.push(item, 2));
        assert_eq!(numbered(&ring, 0), [(2, 2), (3, 3), (4, 4)]);
        ring.push(5, 8);
        assert_eq!(numbered(&ring, 0), [(5, 5)]);
        ring.push(6, 10);
        assert_eq!((numbered(&ring, 0), ends(&ring)), (vec![], (7, 7)));
        ring.push(7, 9);
        assert_eq!(numbered(&ring, 0), [(7, 7)]);
    }
}
