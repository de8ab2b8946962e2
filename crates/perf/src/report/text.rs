//! Lines as PerfTest has them, and what is added to them at the end of a run.

use hdrhistogram::Histogram;
use stdx::UnixMs;

use super::{
    Broker, Interval, Printer, Resends, RunError, Summary, float, min_ns, n_messages, per_second,
    ratio,
};
use crate::config::Format;
use crate::stats::Sample;
use crate::verify::Verdict;

/// PerfTest's names of its six latencies.
const LATENCY_NAMES: &str = "min/median/75th/95th/99th/max";
/// The width of a latency in the compact format, a space in front included.
const LATENCY_WIDTH: usize = 27;

impl Printer {
    pub(super) fn compact_heading(&self) -> String {
        let nothing = Sample::new();
        let figures = self.figures(&nothing.counts);
        let figures = figures.iter().map(|(name, _)| format!("{name:>13}"));
        let latencies = self.latencies(&nothing);
        let latency = |name| format!("{:>LATENCY_WIDTH$}", format!("{name} latency"));
        let latencies = latencies.iter().map(|(name, _)| latency(name));
        [format!("{:<19}", "time")].into_iter().chain(figures).chain(latencies).collect()
    }

    pub(super) fn compact_line(&self, interval: &Interval<'_>) -> String {
        let mut text = date_time(interval.wall_ms);
        for (_, n) in self.figures(&interval.sample.counts) {
            let rate = rate(per_second(n, interval.length_ns));
            text.push_str(&format!("{:>13}", format!("{rate} msg/s")));
        }
        let mut is_aligned = true;
        for (_, latency) in self.latencies(interval.sample) {
            let latency = self.six(latency);
            is_aligned &= latency.chars().count() < LATENCY_WIDTH;
            let width = if is_aligned { LATENCY_WIDTH } else { 0 };
            let space = if is_aligned { "" } else { " " };
            text.push_str(&format!("{space}{latency:>width$}"));
        }
        text
    }

    pub(super) fn default_line(&self, interval: &Interval<'_>) -> String {
        let mut text = format!("id: {}, time {:.3} s", self.id, float(interval.elapsed_ns) / 1e9);
        for (name, n) in self.figures(&interval.sample.counts) {
            let rate = rate(per_second(n, interval.length_ns));
            text.push_str(&format!(", {name}: {rate} msg/s"));
        }
        let mut names = format!(", {LATENCY_NAMES} ");
        for (name, latency) in self.latencies(interval.sample) {
            text.push_str(&format!("{names}{name} latency: {}", self.six(latency)));
            names = ", ".to_owned();
        }
        text
    }

    pub(super) fn summary_text(&self, summary: &Summary) -> String {
        let prefix = match self.format {
            Format::Default => format!("id: {}, ", self.id),
            Format::Compact | Format::Json => String::new(),
        };
        let average = |n: u64| rate(per_second(n, summary.elapsed_ns));
        let counts = &summary.total.counts;
        let mut lines = vec![
            format!("sending rate avg: {} msg/s", average(counts.sent)),
            format!("receiving rate avg: {} msg/s", average(counts.received)),
        ];
        let latencies = self.latencies(&summary.total);
        for (name, latency) in &latencies {
            lines.push(format!("{name} latency {LATENCY_NAMES} {}", self.six(latency)));
        }
        // From here on PerfTest has nothing.
        for (name, latency) in &latencies {
            let (high, unit) = (self.unit(latency.value_at_quantile(0.999)), self.unit_name());
            lines.push(format!("{name} latency 99.9th {high} {unit}"));
        }
        lines.extend(self.cpu_lines(summary));
        lines.extend(error_lines(summary));
        if let Some(Resends { published, resent, unconfirmed, duplicates, missing }) =
            self.resends(summary)
        {
            let missing = known(missing);
            lines.push(format!(
                "resend: published: {published}, resent: {resent}, unconfirmed: {unconfirmed}, \
                 duplicates: {duplicates}, missing: {missing}"
            ));
        }
        if let Some(verdict) = &summary.verdict {
            lines.extend(verdict_lines(verdict));
        }
        lines.iter_mut().for_each(|line| line.insert_str(0, &prefix));
        lines.join("\n")
    }

    fn cpu_lines(&self, summary: &Summary) -> Vec<String> {
        let n = float(n_messages(&summary.total.counts, self.shown));
        let own = float(summary.own_cpu_ns) / 1e9;
        let mut lines = Vec::new();
        if let Some(Broker { pid, usage, rss_bytes_max }) = summary.broker {
            let [rss, rss_max] =
                [usage.rss_bytes, rss_bytes_max].map(|bytes| float(bytes) / 1_048_576.0);
            lines.push(format!(
                "broker (pid {pid}) CPU {:.2} s, {:.3} µs per message, {:.0} msg per CPU second, \
                 memory {rss:.1} MiB, at most {rss_max:.1} MiB",
                usage.cpu_s,
                ratio(usage.cpu_s * 1e6, n),
                ratio(n, usage.cpu_s),
            ));
        }
        lines.push(format!("generator CPU {own:.2} s, {:.3} µs per message", ratio(own * 1e6, n)));
        lines
    }

    /// min/median/75th/95th/99th/max and their unit.
    fn six(&self, latency: &Histogram<u64>) -> String {
        let [median, p75, p95, p99] = [0.5, 0.75, 0.95, 0.99].map(|q| latency.value_at_quantile(q));
        let six = [min_ns(latency), median, p75, p95, p99, latency.max()];
        let six = six.map(|ns| self.unit(ns).to_string());
        format!("{} {}", six.join("/"), self.unit_name())
    }

    pub(super) fn unit(&self, ns: u64) -> u64 {
        if self.in_millis { ns / 1_000_000 } else { ns / 1_000 }
    }

    pub(super) fn unit_name(&self) -> &'static str {
        if self.in_millis { "ms" } else { "µs" }
    }
}

/// A rate with as many digits as PerfTest gives it.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 1.0 => format!("{rate:.2}"),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => format!("{}", rate.floor()),
    }
}

/// `2025/04/08 16:54:19`, in UTC.
fn date_time(wall_ms: u64) -> String {
    let text = stdx::date_time(UnixMs::from_raw(wall_ms), ' ').replace('-', "/");
    text.split_once('.').map_or_else(String::new, |(text, _)| text.to_owned())
}

fn error_lines(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let (lost, recovered) = (summary.n_connections_lost, summary.n_connections_recovered);
    if lost > 0 {
        lines.push(format!("connections lost: {lost}, made again: {recovered}"));
    }
    let line = |run_error: &RunError| format!("error: {run_error} ({} times)", run_error.n);
    lines.extend(summary.run_errors.iter().map(line));
    lines
}

fn known(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), |n| n.to_string())
}

fn verdict_lines(verdict: &Verdict) -> Vec<String> {
    let lost = known(verdict.is_loss_known.then_some(verdict.lost));
    let mut lines = vec![format!(
        "verify: {}, lost: {lost}, duplicates: {}, out of order: {}, damaged: {}",
        if verdict.is_good() { "good" } else { "WRONG" },
        verdict.duplicates,
        verdict.out_of_order,
        verdict.damaged
    )];
    lines.extend(verdict.examples.iter().map(|example| format!("verify: {example}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_rates_have_more_digits() {
        let rates = [0.0, 0.128, 9.06, 10.0, 123.9, 4_000_000.5].map(rate);
        assert_eq!(rates, ["0", "0.13", "9.1", "10", "123", "4000000"]);
        assert_eq!(date_time(1_744_131_259_999), "2025/04/08 16:54:19");
    }
}
