//! Numbers that publishers have put: repeated puts are known by their numbers.

use super::bounds::{NAMED_PUBLISHER_BYTES, NAMED_PUBLISHERS_BYTES_MAX, REFUSED_RUNS_MAX};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::UnixMs;

/// The bytes that a key counts as.
pub(super) trait KeyBytes {
    fn n_bytes(&self) -> usize;
}

impl KeyBytes for u64 {
    fn n_bytes(&self) -> usize {
        0
    }
}

impl KeyBytes for Arc<[u8]> {
    fn n_bytes(&self) -> usize {
        self.len() + NAMED_PUBLISHER_BYTES
    }
}

/// Values by key, of which only those used last are kept.
#[derive(Clone, Debug)]
pub(super) struct Recent<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    /// Keys by when they were used.
    by_use: BTreeMap<u64, K>,
    n_uses: u64,
    /// Bytes of all keys.
    n_bytes: usize,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), by_use: BTreeMap::new(), n_uses: 0, n_bytes: 0 }
    }
}

impl<K: Ord + Clone + KeyBytes, V> Recent<K, V> {
    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Sets a value, used now. The values used longest ago are removed while there are more than `n_max`, or
    /// keys of more than [`NAMED_PUBLISHERS_BYTES_MAX`].
    pub(super) fn insert(&mut self, key: K, value: V, n_max: u32) {
        self.n_uses += 1;
        let before = self.entries.insert(key.clone(), (self.n_uses, value));
        // Both maps share the text of a key.
        let key = match before {
            Some((used, _)) => self.by_use.remove(&used).unwrap_or(key),
            None => {
                self.n_bytes += key.n_bytes();
                key
            }
        };
        self.by_use.insert(self.n_uses, key);
        self.shrink(n_max);
    }

    pub(super) fn shrink(&mut self, n_max: u32) {
        while self.entries.len() > n_max as usize || self.n_bytes > NAMED_PUBLISHERS_BYTES_MAX {
            let Some((_, key)) = self.by_use.pop_first() else { return };
            let gone = self.entries.remove(&key);
            assert!(gone.is_some(), "a key that is used has a value");
            self.n_bytes -= key.n_bytes();
        }
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((used, _)) = self.entries.remove(key)
            && let Some(key) = self.by_use.remove(&used)
        {
            self.n_bytes -= key.n_bytes();
        }
    }

    /// All entries; the one used longest ago first.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.by_use.values().map(|key| {
            let (_, value) = self.entries.get(key).expect("what is used is there");
            (key, value)
        })
    }
}

/// The numbers that a publisher has put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Number after the highest that was put.
    pub(super) next: u64,
    /// Refused numbers below `next`, which may be put again: ends of runs by their first. Where runs are too
    /// many, some numbers that were put count as refused: rather a message comes twice than never.
    pub(super) refused: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Makes the numbers of a publisher that begins with `first`.
    pub(super) const fn from(first: u64) -> Self {
        Self { next: first, refused: BTreeMap::new() }
    }

    /// The run of refused numbers that `number` lies in.
    fn refused_run(&self, number: u64) -> Option<(u64, u64)> {
        let (start, end) = self.refused.range(..=number).next_back()?;
        (number < *end).then_some((*start, *end))
    }

    /// Whether a message with that number was put before.
    pub(super) fn has_put(&self, number: u64) -> bool {
        number < self.next && self.refused_run(number).is_none()
    }

    /// Notes that a message with that number is put.
    pub(super) fn put(&mut self, number: u64) {
        self.next = self.next.max(number.saturating_add(1));
        if let Some((start, end)) = self.refused_run(number) {
            self.refused.remove(&start);
            self.add_run(start, number);
            self.add_run(number + 1, end);
        }
    }

    /// A message that was put is refused after all.
    fn refuse_put(&mut self, number: u64) {
        if self.has_put(number) {
            self.refuse(number);
        }
    }

    /// A message with that number is refused.
    pub(super) fn refuse(&mut self, number: u64) {
        self.next = self.next.max(number.saturating_add(1));
        if self.refused_run(number).is_some() {
            return;
        }
        match self.refused.range_mut(..number).next_back() {
            Some((_, end)) if *end == number => *end = number.saturating_add(1),
            Some(_) | None => self.add_run(number, number.saturating_add(1)),
        }
    }

    fn add_run(&mut self, start: u64, end: u64) {
        if start < end {
            self.refused.insert(start, end);
        }
        while self.refused.len() > REFUSED_RUNS_MAX
            && let Some((first, _)) = self.refused.pop_first()
            && let Some((_, end)) = self.refused.pop_first()
        {
            self.refused.insert(first, end);
        }
    }
}

/// A publish that is answered once its message has been consumed, or is gone.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    /// None if the publisher is gone, and is known by its name alone.
    pub(super) publisher: Option<u64>,
    pub(super) number: u64,
    /// The name and the publishing id of a named publisher.
    pub(super) named: Option<Box<(Vec<u8>, u64)>>,
    pub(super) bytes: u32,
    pub(super) came_ms: UnixMs,
}

/// The publishers of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Publishers {
    /// By the host's numbers for them.
    pub(super) numbered: Recent<u64, Numbers>,
    /// By the names that clients gave them.
    pub(super) named: Recent<Arc<[u8]>, Numbers>,
}

impl Publishers {
    /// A message that was put is refused after all.
    pub(super) fn refuse(&mut self, waiter: &Waiter) {
        let publisher = waiter.publisher.and_then(|it| self.numbered.get_mut(&it));
        if let Some(numbers) = publisher {
            numbers.refuse_put(waiter.number);
        }
        if let Some((name, id)) = waiter.named.as_deref()
            && let Some(numbers) = self.named.get_mut(name.as_slice())
        {
            numbers.refuse_put(*id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_their_bytes_are_forgotten_the_oldest_first() {
        let (mut known, n) = (Recent::<Arc<[u8]>, u64>::default(), 100_000_u64);
        let name = |n: u64| -> Arc<[u8]> { format!("{n:0>256}").into_bytes().into() };
        (0..n).for_each(|nth| known.insert(name(nth), nth, u32::MAX));
        let each = 256 + NAMED_PUBLISHER_BYTES;
        assert_eq!(known.iter().len(), NAMED_PUBLISHERS_BYTES_MAX / each);
        assert_eq!((known.get(&name(0)), known.get(&name(n - 1))), (None, Some(&(n - 1))));
        known.insert(name(n - 1), 0, u32::MAX);
        known.remove(&name(n - 1));
        known.shrink(1);
        assert_eq!((known.n_bytes, known.iter().next().map(|(_, nth)| *nth)), (each, Some(n - 2)));
    }
}
