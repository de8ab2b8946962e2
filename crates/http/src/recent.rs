//! Values that took long to work out, shared by all who ask the same a moment later. Values that took little
//! are worked out each time: how long a value is shared follows from what it took.

use crate::Clock;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use stdx::MonotonicMs;

/// Most values that are shared at a time.
const KEPT_MAX: usize = 8;
/// Longest time that a value is shared, milliseconds.
pub(crate) const SHARED_MAX_MS: u64 = 1_000;
/// All who ask the same over and over take this part of one processor together.
const LOAD_PART: u64 = 64;

/// Values by what was asked.
#[derive(Debug)]
pub(crate) struct Recent<K, V: ?Sized>(Mutex<Vec<Kept<K, V>>>);

#[derive(Debug)]
struct Kept<K, V: ?Sized> {
    key: K,
    value: Arc<V>,
    until_ms: MonotonicMs,
}

impl<K, V: ?Sized> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V: ?Sized> Recent<K, V> {
    /// The value for a key if it is there and `fits`, or else one that is made now. Without a clock
    /// nothing is shared.
    pub(crate) fn get(
        &self,
        clock: Option<&Clock>,
        key: K,
        fits: impl Fn(&V) -> bool,
        make: impl FnOnce() -> Arc<V>,
    ) -> Arc<V> {
        let Ok(value) = self.try_get(clock, key, fits, || Ok::<_, Infallible>(make()));
        value
    }

    /// Gets the value as `get` does, or the error of making it.
    pub(crate) fn try_get<E>(
        &self,
        clock: Option<&Clock>,
        key: K,
        fits: impl Fn(&V) -> bool,
        make: impl FnOnce() -> Result<Arc<V>, E>,
    ) -> Result<Arc<V>, E> {
        let Some(clock) = clock else { return make() };
        let asked_ms = clock().monotonic_ms;
        self.forget(asked_ms);
        let found = |kept: &&Kept<K, V>| kept.key == key && fits(&kept.value);
        if let Some(kept) = stdx::lock(&self.0).iter().find(found) {
            return Ok(Arc::clone(&kept.value));
        }
        let value = make()?;
        let now_ms = clock().monotonic_ms;
        let shared_ms = (now_ms.since(asked_ms) * LOAD_PART).min(SHARED_MAX_MS);
        if shared_ms > 0 {
            let mut all = stdx::lock(&self.0);
            all.retain(|kept| kept.key != key);
            all.truncate(KEPT_MAX - 1);
            all.insert(
                0,
                Kept { key, value: Arc::clone(&value), until_ms: now_ms.plus(shared_ms) },
            );
        }
        Ok(value)
    }

    /// Drops the values whose time is over.
    pub(crate) fn forget(&self, now_ms: MonotonicMs) {
        stdx::lock(&self.0).retain(|kept| now_ms < kept.until_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use stdx::Now;

    fn clock() -> (Clock, Arc<AtomicU64>) {
        let ms = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&ms);
        let now = move || Now::at_ms(read.load(Ordering::Relaxed));
        (Box::new(now), ms)
    }

    #[test]
    fn what_took_long_is_shared_and_the_rest_is_not() {
        let ((clock, ms), recent) = (clock(), Recent::default());
        let ask = |key, value, takes_ms| {
            *recent.get(
                Some(&clock),
                key,
                |_| true,
                || {
                    ms.fetch_add(takes_ms, Ordering::Relaxed);
                    Arc::new(value)
                },
            )
        };
        assert_eq!((ask("a", 1, 0), ask("a", 2, 2), ask("a", 3, 0)), (1, 2, 2));
        assert_eq!(ask("b", 4, 0), 4);
        ms.fetch_add(2 * LOAD_PART, Ordering::Relaxed);
        assert_eq!((ask("a", 5, 1_000), ask("a", 6, 0)), (5, 5));
        ms.fetch_add(SHARED_MAX_MS, Ordering::Relaxed);
        assert_eq!(ask("a", 7, 0), 7);
    }

    #[test]
    fn what_does_not_fit_is_made_anew_and_few_are_kept() {
        let ((clock, ms), recent) = (clock(), Recent::default());
        let ask = |key, least| {
            *recent.get(
                Some(&clock),
                key,
                |n| *n >= least,
                || {
                    ms.fetch_add(1, Ordering::Relaxed);
                    Arc::new(least)
                },
            )
        };
        assert_eq!((ask(0, 3), ask(0, 2), ask(0, 4), ask(0, 3)), (3, 3, 4, 4));
        (1..100).for_each(|key| assert_eq!(ask(key, 1), 1));
        assert_eq!(stdx::lock(&recent.0).len(), KEPT_MAX);
    }
}
