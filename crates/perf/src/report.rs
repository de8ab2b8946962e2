//! What is printed: PerfTest's lines, or the same as JSON.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::clock::SECOND;
use crate::config::Format;
use crate::process::Usage;
use crate::stats::{Counts, Sample};
use crate::verify::Verdict;

/// What of the figures a run has: the others are not printed.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each figure is there or not")]
pub(crate) struct Shown {
    pub(crate) publishes: bool,
    pub(crate) consumes: bool,
    pub(crate) confirms: bool,
    pub(crate) returns: bool,
}

/// How to print.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) id: String,
    pub(crate) format: Format,
    pub(crate) shown: Shown,
}

/// The broker's process over the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broker {
    pub(crate) pid: u32,
    /// CPU time is that of the run, memory that at its end.
    pub(crate) usage: Usage,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) total: Sample,
    pub(crate) elapsed_ns: u64,
    pub(crate) broker: Option<Broker>,
    pub(crate) own_cpu_s: f64,
    pub(crate) verdict: Option<Verdict>,
}

impl Summary {
    /// Messages for figures per message: one that is published and delivered counts once. Of what
    /// was both published and delivered, the lesser; in a run of one kind, that kind.
    fn n_messages(&self, shown: Shown) -> u64 {
        let Counts { sent, received, .. } = self.total.counts;
        match (shown.publishes, shown.consumes) {
            (true, true) => sent.min(received),
            (true, false) => sent,
            (false, _) => received,
        }
    }
}

impl Printer {
    /// The heading of a table, for the format that has one.
    pub(crate) fn heading(&self) -> Option<String> {
        (self.format == Format::Compact).then(|| {
            let mut text = format!("{:<10}", "time");
            let Shown { publishes, consumes, confirms, returns } = self.shown;
            for (is_shown, name) in [
                (publishes, "sent"),
                (returns, "returned"),
                (confirms, "confirmed"),
                (confirms, "nacked"),
                (consumes, "received"),
            ] {
                if is_shown {
                    text.push_str(&format!(" {name:>13}"));
                }
            }
            if consumes {
                text.push_str(" consumer latency");
            }
            if confirms {
                text.push_str(" confirm latency");
            }
            text
        })
    }

    /// The line of an interval that ends `elapsed_ns` after the start.
    pub(crate) fn interval(&self, sample: &Sample, elapsed_ns: u64, interval_ns: u64) -> String {
        let rate = |n: u64| per_second(n, interval_ns);
        let figures = self.figures(&sample.counts, rate);
        let seconds = seconds(elapsed_ns);
        match self.format {
            Format::Json => {
                let mut object = self.json("interval", elapsed_ns);
                for (name, n) in figures {
                    object.insert(format!("{name}_per_second"), json!(n));
                }
                self.insert_latencies(sample, &mut object);
                Value::Object(object).to_string()
            }
            Format::Compact => {
                let mut text = format!("{:<10}", format!("{seconds:.3}s"));
                for (_, n) in figures {
                    text.push_str(&format!(" {:>13}", format!("{n} msg/s")));
                }
                for (_, latency) in self.latencies(sample) {
                    text.push_str(&format!(" {} µs", five(latency)));
                }
                text
            }
            Format::Default => {
                let mut text = format!("id: {}, time {seconds:.3} s", self.id);
                for (name, n) in figures {
                    text.push_str(&format!(", {name}: {n} msg/s"));
                }
                let mut prefix = ", min/median/75th/95th/99th";
                for (name, latency) in self.latencies(sample) {
                    text.push_str(&format!("{prefix} {name} latency: {} µs", five(latency)));
                    prefix = ",";
                }
                text
            }
        }
    }

    /// The end of the run: PerfTest's lines, then ours.
    pub(crate) fn summary(&self, summary: &Summary) -> String {
        if self.format == Format::Json {
            return self.summary_json(summary).to_string();
        }
        let prefix = match self.format {
            Format::Default => format!("id: {}, ", self.id),
            Format::Compact | Format::Json => String::new(),
        };
        let rate = |n: u64| per_second(n, summary.elapsed_ns);
        let counts = &summary.total.counts;
        let mut lines = vec![
            format!("sending rate avg: {} msg/s", rate(counts.sent)),
            format!("receiving rate avg: {} msg/s", rate(counts.received)),
        ];
        for (name, latency) in self.latencies(&summary.total) {
            let five = five(latency);
            lines.push(format!("{name} latency min/median/75th/95th/99th {five} µs"));
            let [high, max] = [us(latency.value_at_quantile(0.999)), us(latency.max())];
            lines.push(format!("{name} latency 99.9th/max {high}/{max} µs"));
        }
        lines.extend(self.cpu_lines(summary));
        if let Some(verdict) = &summary.verdict {
            lines.extend(verdict_lines(verdict));
        }
        lines
            .iter()
            .map(|line| format!("{prefix}{line}\n"))
            .collect::<String>()
            .trim_end()
            .to_owned()
    }

    fn cpu_lines(&self, summary: &Summary) -> Vec<String> {
        let n = float(summary.n_messages(self.shown));
        let own = summary.own_cpu_s;
        let mut lines = Vec::new();
        if let Some(Broker { pid, usage }) = summary.broker {
            lines.push(format!(
                "broker (pid {pid}) CPU {:.2} s, {:.3} µs per message, {:.0} msg per CPU second, \
                 memory {:.1} MiB",
                usage.cpu_s,
                ratio(usage.cpu_s * 1e6, n),
                ratio(n, usage.cpu_s),
                float(usage.rss_bytes) / 1_048_576.0
            ));
        }
        lines.push(format!("generator CPU {own:.2} s, {:.3} µs per message", ratio(own * 1e6, n)));
        lines
    }

    fn summary_json(&self, summary: &Summary) -> Value {
        let mut object = self.json("summary", summary.elapsed_ns);
        for (name, n) in self.figures(&summary.total.counts, |n| n) {
            object.insert(name.to_owned(), json!(n));
            let rate = per_second(n, summary.elapsed_ns);
            object.insert(format!("{name}_per_second"), json!(rate));
        }
        object.insert("sent_bytes".to_owned(), json!(summary.total.counts.sent_bytes));
        object.insert("received_bytes".to_owned(), json!(summary.total.counts.received_bytes));
        self.insert_latencies(&summary.total, &mut object);
        let n = summary.n_messages(self.shown);
        object.insert("messages".to_owned(), json!(n));
        if let Some(Broker { pid, usage }) = summary.broker {
            let broker = json!({
                "pid": pid,
                "cpu_seconds": usage.cpu_s,
                "cpu_us_per_message": ratio(usage.cpu_s * 1e6, float(n)),
                "messages_per_cpu_second": ratio(float(n), usage.cpu_s),
                "rss_bytes": usage.rss_bytes,
            });
            object.insert("broker".to_owned(), broker);
        }
        object.insert("generator_cpu_seconds".to_owned(), json!(summary.own_cpu_s));
        if let Some(verdict) = &summary.verdict {
            let verify = json!({
                "good": verdict.is_good(),
                "lost": verdict.is_loss_known.then_some(verdict.lost),
                "duplicates": verdict.duplicates,
                "out_of_order": verdict.out_of_order,
                "damaged": verdict.damaged,
                "examples": verdict.examples,
            });
            object.insert("verify".to_owned(), verify);
        }
        Value::Object(object)
    }

    fn json(&self, kind: &str, elapsed_ns: u64) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(kind));
        object.insert("id".to_owned(), json!(self.id));
        object.insert("seconds".to_owned(), json!(seconds(elapsed_ns)));
        object
    }

    fn insert_latencies(&self, sample: &Sample, object: &mut Map<String, Value>) {
        for (name, latency) in self.latencies(sample) {
            let of = |quantile| float(latency.value_at_quantile(quantile)) / 1e3;
            let values = json!({
                "min": float(if latency.is_empty() { 0 } else { latency.min() }) / 1e3,
                "median": of(0.5),
                "p75": of(0.75),
                "p95": of(0.95),
                "p99": of(0.99),
                "p99_9": of(0.999),
                "max": float(latency.max()) / 1e3,
            });
            object.insert(format!("{name}_latency_us"), values);
        }
    }

    fn figures(&self, counts: &Counts, of: impl Fn(u64) -> u64) -> Vec<(&'static str, u64)> {
        let Shown { publishes, consumes, confirms, returns } = self.shown;
        let all = [
            (publishes, "sent", counts.sent),
            (returns, "returned", counts.returned),
            (confirms, "confirmed", counts.confirmed),
            (confirms, "nacked", counts.nacked),
            (consumes, "received", counts.received),
        ];
        all.into_iter()
            .filter(|(is_shown, ..)| *is_shown)
            .map(|(_, name, n)| (name, of(n)))
            .collect()
    }

    fn latencies<'a>(&self, sample: &'a Sample) -> Vec<(&'static str, &'a Histogram<u64>)> {
        let all = [
            (self.shown.consumes, "consumer", &sample.latency),
            (self.shown.confirms, "confirm", &sample.confirm_latency),
        ];
        all.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, name, of)| (name, of)).collect()
    }
}

fn verdict_lines(verdict: &Verdict) -> Vec<String> {
    let lost = if verdict.is_loss_known { verdict.lost.to_string() } else { "unknown".to_owned() };
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

/// PerfTest's five: min/median/75th/95th/99th in microseconds.
fn five(latency: &Histogram<u64>) -> String {
    let min = if latency.is_empty() { 0 } else { latency.min() };
    let quantiles = [0.5, 0.75, 0.95, 0.99].map(|q| us(latency.value_at_quantile(q)).to_string());
    format!("{}/{}", us(min), quantiles.join("/"))
}

fn us(ns: u64) -> u64 {
    ns / 1000
}

fn seconds(ns: u64) -> f64 {
    float(ns / 1_000_000) / 1e3
}

fn per_second(n: u64, ns: u64) -> u64 {
    let rate = u128::from(n) * u128::from(SECOND) / u128::from(ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn float(n: u64) -> f64 {
    n as f64
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(format: Format) -> Printer {
        let shown = Shown { publishes: true, consumes: true, confirms: true, returns: false };
        Printer { id: "test".to_owned(), format, shown }
    }

    fn sample() -> Sample {
        let mut sample = Sample::new();
        sample.counts.sent = 200;
        sample.counts.received = 100;
        sample.counts.confirmed = 50;
        (1..=100).for_each(|us| sample.latency.record(us * 1000).unwrap());
        sample
    }

    fn summary() -> Summary {
        let usage = Usage { cpu_s: 0.5, rss_bytes: 1 << 20 };
        let broker = Some(Broker { pid: 7, usage });
        let verdict = Some(Verdict { lost: 1, is_loss_known: true, ..Verdict::default() });
        Summary { total: sample(), elapsed_ns: 2 * SECOND, broker, own_cpu_s: 0.1, verdict }
    }

    #[test]
    fn lines_are_perftests() {
        assert_eq!(
            printer(Format::Default).interval(&sample(), 1_002_000_000, SECOND / 2),
            "id: test, time 1.002 s, sent: 400 msg/s, confirmed: 100 msg/s, nacked: 0 msg/s, \
             received: 200 msg/s, min/median/75th/95th/99th consumer latency: 1/50/75/95/99 µs, \
             confirm latency: 0/0/0/0/0 µs"
        );
        let text = printer(Format::Default).summary(&summary());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "id: test, sending rate avg: 100 msg/s");
        assert_eq!(lines[1], "id: test, receiving rate avg: 50 msg/s");
        assert_eq!(
            lines[2],
            "id: test, consumer latency min/median/75th/95th/99th 1/50/75/95/99 µs"
        );
        assert!(lines[6].contains("5000.000 µs per message, 200 msg per CPU second, memory 1.0"));
        assert!(lines[8].starts_with("id: test, verify: WRONG, lost: 1"), "{text}");
        let compact = printer(Format::Compact);
        let line = compact.interval(&sample(), SECOND, SECOND);
        assert!(line.starts_with("1.000s         200 msg/s      50 msg/s"), "{line}");
        assert!(compact.heading().unwrap().starts_with("time                sent     confirmed"));
    }

    #[test]
    fn json_has_all_of_it() {
        let line = printer(Format::Json).interval(&sample(), SECOND, SECOND);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["type"], "interval");
        assert_eq!(line["received_per_second"], 100);
        let text = printer(Format::Json).summary(&summary());
        let text: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text["messages"], 100);
        assert_eq!(text["broker"]["messages_per_cpu_second"], 200.0);
        assert_eq!(text["verify"]["good"], false);
        assert!(text["consumer_latency_us"]["p99_9"].as_f64().unwrap() > 99.0);
    }
}
