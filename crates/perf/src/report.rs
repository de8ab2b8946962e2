//! The printed report: PerfTest's lines, or the same as JSON.

mod csv;
mod json;
mod text;

pub(crate) use json::failure_json;

use std::fmt;

use hdrhistogram::Histogram;

use crate::clock::SECOND;
use crate::config::Format;
use crate::process::Usage;
use crate::stats::{Counts, Sample};
use crate::verify::Verdict;
use client::Closed;

/// The text of `--metrics-help`.
pub(crate) const METRICS_HELP: &str = "\
figures of every --interval, and of the whole run at its end:
 sent              messages published per second, with producers
 resent            those of them that were published before, with --resend
 returned          messages that came back per second, with -f mandatory
 confirmed, nacked confirms per second, with --confirm
 received          messages delivered per second, with consumers
 consumer latency  from publishing to delivery: min/median/75th/95th/99th/max, at the end also 99.9th
 confirm latency   from publishing to confirm, likewise, with --confirm
 broker            its CPU time per message and memory, if its process is here; see --broker-pid
 generator         this tool's CPU time per message, at the end
 resend            messages published, resent, unconfirmed, duplicated and missing, at the end
 verify            loss, duplicates, order and damage, at the end, with --verify or --resend
options:
 -mf,--metrics-format default|compact   how lines look
 --json                                 one JSON object per line, with all of it
 -ms,--use-millis                       latencies in milliseconds, between machines
";

/// The figures that a run has: the others are not printed.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each figure is there or not")]
pub(crate) struct Shown {
    pub(crate) publishes: bool,
    pub(crate) consumes: bool,
    pub(crate) confirms: bool,
    pub(crate) resends: bool,
    pub(crate) returns: bool,
    pub(crate) consumer_latency: bool,
    pub(crate) confirm_latency: bool,
}

/// The printer of a run's results.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) id: String,
    pub(crate) format: Format,
    pub(crate) shown: Shown,
    /// Text has latencies in milliseconds instead of microseconds.
    pub(crate) in_millis: bool,
}

/// The broker's process over the run, or over an interval of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broker {
    pub(crate) pid: u32,
    /// CPU time is that of the run or interval, memory that at its end.
    pub(crate) usage: Usage,
    /// The most memory it was seen with.
    pub(crate) rss_bytes_max: u64,
}

/// A part of a run that is over.
#[derive(Debug)]
pub(crate) struct Interval<'a> {
    pub(crate) sample: &'a Sample,
    /// The end of the interval, after the start.
    pub(crate) elapsed_ns: u64,
    pub(crate) length_ns: u64,
    pub(crate) broker: Option<Broker>,
    /// Milliseconds since 1970.
    pub(crate) wall_ms: u64,
}

/// Something that went wrong, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunError {
    /// The broker's reply code, if it said one.
    pub(crate) code: Option<u16>,
    pub(crate) reason: String,
    pub(crate) n: u64,
}

impl RunError {
    /// Whether it is the same, whenever it was.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.code, &self.reason) == (other.code, &other.reason)
    }
}

impl From<&anyhow::Error> for RunError {
    fn from(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Closed>() {
            Some(closed) => Self { code: Some(closed.code), reason: closed.text.clone(), n: 1 },
            None => Self { code: None, reason: format!("{error:#}"), n: 1 },
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{code} {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) total: Sample,
    pub(crate) elapsed_ns: u64,
    pub(crate) broker: Option<Broker>,
    /// CPU time of this tool, nanoseconds.
    pub(crate) own_cpu_ns: u64,
    pub(crate) verdict: Option<Verdict>,
    /// The reason of the end.
    pub(crate) reason: String,
    pub(crate) run_errors: Vec<RunError>,
    pub(crate) n_connections_lost: u64,
    pub(crate) n_connections_recovered: u64,
}

impl Summary {
    /// Messages that are not confirmed, where something is.
    pub(crate) fn n_unconfirmed(&self) -> u64 {
        let Counts { sent, resent, confirmed, .. } = self.total.counts;
        sent.saturating_sub(resent).saturating_sub(confirmed)
    }
}

/// The publishing of messages until they were confirmed, and what came of it.
#[derive(Clone, Copy, Debug)]
struct Resends {
    /// Messages, each counted once.
    published: u64,
    /// Publishes of messages that had been published before.
    resent: u64,
    /// Messages that were still waiting for their confirm at the end.
    unconfirmed: u64,
    /// Deliveries of messages that had come out of the same queue before.
    duplicates: u64,
    /// Confirmed messages that no consumer has had; `None` if nobody consumes, or it cannot be known where
    /// they have to arrive.
    missing: Option<u64>,
}

/// Messages for figures per message: one that is published and delivered counts once. Of what was
/// both published and delivered, the lesser; in a run of one kind, that kind.
fn n_messages(counts: &Counts, shown: Shown) -> u64 {
    match (shown.publishes, shown.consumes) {
        (true, true) => counts.sent.min(counts.received),
        (true, false) => counts.sent,
        (false, _) => counts.received,
    }
}

impl Printer {
    /// The heading before an interval's first line, for the formats that have one.
    pub(crate) fn heading(&self) -> Option<String> {
        (self.format == Format::Compact).then(|| self.compact_heading())
    }

    /// The lines before anything is connected: one per connection and one per channel.
    pub(crate) fn announcement(&self, kind: &str, connection: usize, n_channels: u16) -> String {
        let line = format!("id: {}, starting {kind} #{connection}", self.id);
        let channels = (0..n_channels).map(|channel| format!("\n{line}, channel #{channel}"));
        format!("{line}{}", channels.collect::<String>())
    }

    /// The line of an interval; `None` if there is nothing to say.
    pub(crate) fn interval(&self, interval: &Interval<'_>) -> Option<String> {
        // COMPAT: PerfTest is silent while nothing happens.
        let is_idle = interval.sample.counts.is_idle();
        match self.format {
            Format::Json => Some(self.interval_json(interval).to_string()),
            Format::Compact | Format::Default if is_idle => None,
            Format::Compact => Some(self.compact_line(interval)),
            Format::Default => Some(self.default_line(interval)),
        }
    }

    /// The end of the run: PerfTest's lines, then ours.
    pub(crate) fn summary(&self, summary: &Summary) -> String {
        match self.format {
            Format::Json => self.summary_json(summary).to_string(),
            Format::Default | Format::Compact => self.summary_text(summary),
        }
    }

    fn resends(&self, summary: &Summary) -> Option<Resends> {
        let verdict = summary.verdict.as_ref().filter(|_| self.shown.resends)?;
        let Counts { sent, resent, .. } = summary.total.counts;
        Some(Resends {
            published: sent.saturating_sub(resent),
            resent,
            unconfirmed: summary.n_unconfirmed(),
            duplicates: verdict.duplicates,
            missing: (verdict.is_loss_known && self.shown.consumes).then_some(verdict.lost),
        })
    }

    fn figures(&self, counts: &Counts) -> Vec<(&'static str, u64)> {
        let Shown { publishes, consumes, confirms, resends, returns, .. } = self.shown;
        let all = [
            (publishes, "sent", counts.sent),
            (resends, "resent", counts.resent),
            (returns, "returned", counts.returned),
            (confirms, "confirmed", counts.confirmed),
            (confirms, "nacked", counts.nacked),
            (consumes, "received", counts.received),
        ];
        all.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, name, n)| (name, n)).collect()
    }

    fn latencies<'a>(&self, sample: &'a Sample) -> Vec<(&'static str, &'a Histogram<u64>)> {
        let all = [
            (self.shown.consumer_latency, "consumer", &sample.latency),
            (self.shown.confirm_latency, "confirm", &sample.confirm_latency),
        ];
        all.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, name, of)| (name, of)).collect()
    }
}

/// The least latency; 0 without any.
fn min_ns(latency: &Histogram<u64>) -> u64 {
    if latency.is_empty() { 0 } else { latency.min() }
}

fn per_second(n: u64, ns: u64) -> f64 {
    ratio(float(n) * float(SECOND), float(ns))
}

fn float(n: u64) -> f64 {
    n as f64
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests;
