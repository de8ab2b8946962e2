//! Which segments are no longer kept: whole ones, the oldest first; the last stays.

/// The most chunks of a segment (RabbitMQ's).
pub const SEGMENT_CHUNKS_MAX: u64 = 256_000;

/// How much of a log is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of all segments together.
    pub bytes_max: Option<u64>,
    /// The age of a segment's last chunk, in milliseconds.
    pub age_max_ms: Option<u64>,
}

impl Retention {
    /// Whether no segment ever goes.
    pub const fn is_unlimited(&self) -> bool {
        self.bytes_max.is_none() && self.age_max_ms.is_none()
    }

    /// Whether a segment is too old whose last chunk is of this time.
    pub(crate) fn is_too_old(&self, last_timestamp_ms: i64, now_ms: i64) -> bool {
        let Some(age_max_ms) = self.age_max_ms else { return false };
        let age_ms = i128::from(now_ms) - i128::from(last_timestamp_ms);
        age_ms > i128::from(age_max_ms)
    }

    /// How many of the oldest segments are too many, by the sizes of all from the newest to the oldest: those
    /// with which the limit is exceeded, and all older ones.
    pub(crate) fn n_too_many(&self, newest_first: &[u64]) -> usize {
        let Some(bytes_max) = self.bytes_max else { return 0 };
        let mut sum = 0_u64;
        let kept = newest_first.iter().take_while(|bytes| {
            sum = sum.saturating_add(**bytes);
            sum <= bytes_max
        });
        let n_kept = kept.count().max(1);
        newest_first.len().saturating_sub(n_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_segments_that_fit_are_kept_and_always_one() {
        let too_many =
            |bytes_max, sizes: &[u64]| Retention { bytes_max, age_max_ms: None }.n_too_many(sizes);
        assert_eq!(too_many(None, &[10, 10, 10]), 0);
        assert_eq!(too_many(Some(30), &[10, 10, 10]), 0);
        assert_eq!(too_many(Some(29), &[10, 10, 10]), 1);
        assert_eq!(too_many(Some(0), &[10, 10, 10]), 2);
        assert_eq!(too_many(Some(25), &[10, 20, 1]), 2, "nothing older than what goes stays");
        assert_eq!(too_many(Some(5), &[]), 0);
    }

    #[test]
    fn a_segment_is_too_old_by_its_last_chunk() {
        let hour = Retention { bytes_max: None, age_max_ms: Some(3_600_000) };
        assert!(!hour.is_too_old(0, 3_600_000));
        assert!(hour.is_too_old(0, 3_600_001));
        assert!(!hour.is_too_old(i64::MAX, i64::MIN), "clocks may be wrong");
        assert!(hour.is_too_old(i64::MIN, i64::MAX));
        assert!(!Retention::default().is_too_old(0, i64::MAX));
    }
}
