//! Counts and latencies, per interval and in total.

use hdrhistogram::Histogram;

/// The longest latency that is told apart: an hour, in nanoseconds.
const LATENCY_MAX_NS: u64 = 3_600 * crate::clock::SECOND;
/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 3;

/// Counts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// With those that were sent again.
    pub(crate) sent: u64,
    pub(crate) resent: u64,
    pub(crate) confirmed: u64,
    pub(crate) nacked: u64,
    pub(crate) returned: u64,
    pub(crate) received: u64,
    /// Chunks of streams, that were received.
    pub(crate) chunks: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

impl Counts {
    /// Nothing happened.
    pub(crate) fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another interval's or thread's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.resent += other.resent;
        self.confirmed += other.confirmed;
        self.nacked += other.nacked;
        self.returned += other.returned;
        self.received += other.received;
        self.chunks += other.chunks;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }
}

/// Everything measured in an interval.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) counts: Counts,
    /// From publisher to consumer, nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// From publish to confirm, nanoseconds.
    pub(crate) confirm_latency: Histogram<u64>,
}

impl Sample {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self { counts: Counts::default(), latency: histogram(), confirm_latency: histogram() }
    }

    /// Adds another interval's or thread's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        let pairs = [
            (&mut self.latency, &other.latency),
            (&mut self.confirm_latency, &other.confirm_latency),
        ];
        for (into, other) in pairs.into_iter().filter(|(_, other)| !other.is_empty()) {
            into.add(other).expect("all histograms have the same bounds");
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
        .expect("the bounds are constants in the right order")
}

/// Puts equal values that follow each other into the histogram as one: messages of one write have
/// one time stamp.
#[derive(Debug, Default)]
pub(crate) struct Run {
    value: u64,
    n: u64,
}

impl Run {
    /// Adds `n` times `value`.
    #[inline]
    pub(crate) fn add(&mut self, value: u64, n: u64, into: &mut Histogram<u64>) {
        if value != self.value {
            self.flush(into);
            self.value = value;
        }
        self.n += n;
    }

    /// Hands over what is left.
    pub(crate) fn flush(&mut self, into: &mut Histogram<u64>) {
        if self.n > 0 {
            into.saturating_record_n(self.value, self.n);
            self.n = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_lose_nothing() {
        let (mut sample, mut run) = (Sample::new(), Run::default());
        for (value, n) in [(5, 2), (5, 1), (7, 1), (u64::MAX, 1), (0, 1)] {
            run.add(value, n, &mut sample.latency);
        }
        run.flush(&mut sample.latency);
        run.flush(&mut sample.latency);
        assert_eq!(sample.latency.len(), 6);
        assert_eq!(sample.latency.count_at(5), 3);
        let mut sum = Sample::new();
        sum.counts.sent = 1;
        sum.add(&sample);
        sum.add(&sample);
        assert_eq!((sum.latency.len(), sum.counts.sent), (12, 1));
    }
}
