//! The difference between the clocks of two nodes.

use stdx::{MonotonicMs, Now, UnixMs};

/// The difference above which operators are told.
const SKEW_MAX_MS: u64 = 1_000;
/// The best of the pulses in this time counts: each is late by the way it took.
const WINDOW_MS: u64 = 10_000;
/// Operators are told again after this time.
const TOLD_EVERY_MS: u64 = 3_600_000;

/// A watch of a peer's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SkewWatch {
    /// The peer's time less ours, the highest of the window, which is the least late one.
    best_ms: Option<i64>,
    ends: MonotonicMs,
    told_until: MonotonicMs,
}

impl SkewWatch {
    /// Takes a pulse's clock into account; returns the skew if it is to be told.
    pub(super) fn add(&mut self, clock: UnixMs, now: Now) -> Option<i64> {
        let ahead = i64::try_from(clock.since(now.unix_ms)).unwrap_or(i64::MAX);
        let behind = i64::try_from(now.unix_ms.since(clock)).unwrap_or(i64::MAX);
        let skew_ms = ahead - behind;
        let Some(best_ms) = self.best_ms else {
            self.best_ms = Some(skew_ms);
            self.ends = now.monotonic_ms.plus(WINDOW_MS);
            return None;
        };
        let best_ms = best_ms.max(skew_ms);
        self.best_ms = Some(best_ms);
        if now.monotonic_ms < self.ends {
            return None;
        }
        self.best_ms = None;
        let is_told = best_ms.unsigned_abs() > SKEW_MAX_MS && now.monotonic_ms >= self.told_until;
        is_told.then(|| {
            self.told_until = now.monotonic_ms.plus(TOLD_EVERY_MS);
            best_ms
        })
    }
}
