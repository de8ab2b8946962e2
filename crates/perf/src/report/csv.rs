//! The file of `--output-file`: PerfTest's columns, a line for each interval.

use hdrhistogram::Histogram;

use super::text::rate;
use super::{Interval, Printer, Shown, float, min_ns, per_second};

impl Printer {
    /// The names of the columns.
    pub(crate) fn csv_heading(&self) -> String {
        let mut text = "id,time (s),published (msg/s),returned (msg/s),confirmed (msg/s),\
                        nacked (msg/s),received (msg/s)"
            .to_owned();
        for kind in ["consumer", "confirm"] {
            for figure in ["min", "median", "75th p.", "95th p.", "99th p."] {
                text.push_str(&format!(",{figure} {kind} latency ({})", self.unit_name()));
            }
        }
        text
    }

    /// The line of an interval; what the run does not have is empty.
    pub(crate) fn csv_line(&self, interval: &Interval<'_>) -> String {
        let Shown { publishes, consumes, confirms, returns, .. } = self.shown;
        let counts = &interval.sample.counts;
        let mut text = format!("{},{:.3}", self.id, float(interval.elapsed_ns) / 1e9);
        for (is_shown, n) in [
            (publishes, counts.sent),
            (returns, counts.returned),
            (confirms, counts.confirmed),
            (confirms, counts.nacked),
            (consumes, counts.received),
        ] {
            text.push(',');
            if is_shown {
                text.push_str(&rate(per_second(n, interval.length_ns)));
            }
        }
        text.push_str(&self.csv_latencies(consumes, &interval.sample.latency));
        text.push_str(&self.csv_latencies(confirms, &interval.sample.confirm_latency));
        text
    }

    fn csv_latencies(&self, is_shown: bool, latency: &Histogram<u64>) -> String {
        if !is_shown {
            return ",".repeat(5);
        }
        let quantiles = [0.5, 0.75, 0.95, 0.99].map(|q| latency.value_at_quantile(q));
        let all = std::iter::once(min_ns(latency)).chain(quantiles);
        all.map(|ns| format!(",{}", self.unit(ns))).collect()
    }
}
