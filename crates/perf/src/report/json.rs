//! Lines of JSON. The schema is in `docs/load-tool.md`: fields may be added, none changes its
//! meaning.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::{
    Broker, Interval, Printer, Resends, RunError, Summary, float, min_ns, n_messages, per_second,
    ratio,
};
use crate::stats::{Counts, Sample};
use crate::verify::Verdict;

/// Goes up when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

impl Printer {
    /// The first line: what is measured with what.
    pub(crate) fn start_json(&self, product: &str, version: &str, pid: Option<u32>) -> Value {
        json!({
            "type": "start",
            "schema": SCHEMA,
            "id": self.id,
            "tool_version": env!("CARGO_PKG_VERSION"),
            "server": { "product": product, "version": version },
            "broker_pid": pid,
        })
    }

    pub(super) fn interval_json(&self, interval: &Interval<'_>) -> Value {
        let Interval { sample, elapsed_ns, length_ns, broker, .. } = interval;
        let mut object = self.object("interval", *elapsed_ns);
        put(&mut object, "interval_seconds", seconds(*length_ns));
        self.insert_counts(&sample.counts, *length_ns, &mut object);
        self.insert_latencies(sample, &mut object);
        if let Some(broker) = broker {
            let cpu_share = ratio(broker.usage.cpu_s, seconds(*length_ns));
            let mut values = self.broker(broker, &sample.counts);
            put(&mut values, "cpu_percent", cpu_share * 100.0);
            put(&mut object, "broker", Value::Object(values));
        }
        Value::Object(object)
    }

    pub(super) fn summary_json(&self, summary: &Summary) -> Value {
        let counts = &summary.total.counts;
        let mut object = self.object("summary", summary.elapsed_ns);
        put(&mut object, "reason", summary.reason.as_str());
        self.insert_counts(counts, summary.elapsed_ns, &mut object);
        put(&mut object, "messages", n_messages(counts, self.shown));
        self.insert_latencies(&summary.total, &mut object);
        if let Some(broker) = &summary.broker {
            put(&mut object, "broker", Value::Object(self.broker(broker, counts)));
        }
        put(&mut object, "generator_cpu_seconds", seconds(summary.own_cpu_ns));
        let run_errors: Vec<Value> = summary.run_errors.iter().map(run_error).collect();
        put(&mut object, "errors", run_errors);
        put(&mut object, "connections_lost", summary.n_connections_lost);
        put(&mut object, "connections_recovered", summary.n_connections_recovered);
        if let Some(resends) = self.resends(summary) {
            put(&mut object, "resend", resend(&resends));
        }
        if let Some(verdict) = &summary.verdict {
            put(&mut object, "verify", verify(verdict));
        }
        Value::Object(object)
    }

    fn object(&self, kind: &str, elapsed_ns: u64) -> Map<String, Value> {
        let mut object = Map::new();
        put(&mut object, "type", kind);
        put(&mut object, "id", self.id.as_str());
        put(&mut object, "seconds", seconds(elapsed_ns));
        object
    }

    fn insert_counts(&self, counts: &Counts, ns: u64, object: &mut Map<String, Value>) {
        for (name, n) in self.figures(counts) {
            object.insert(name.to_owned(), json!(n));
            object.insert(format!("{name}_per_second"), json!(per_second(n, ns)));
        }
        if counts.chunks > 0 {
            put(object, "chunks", counts.chunks);
        }
        put(object, "sent_bytes", counts.sent_bytes);
        put(object, "received_bytes", counts.received_bytes);
    }

    fn insert_latencies(&self, sample: &Sample, object: &mut Map<String, Value>) {
        for (name, latency) in self.latencies(sample) {
            object.insert(format!("{name}_latency_us"), latency_us(latency));
        }
    }

    fn broker(&self, broker: &Broker, counts: &Counts) -> Map<String, Value> {
        let n = float(n_messages(counts, self.shown));
        let Broker { pid, usage, rss_bytes_max } = *broker;
        let mut values = Map::new();
        put(&mut values, "pid", pid);
        put(&mut values, "cpu_seconds", usage.cpu_s);
        put(&mut values, "cpu_us_per_message", ratio(usage.cpu_s * 1e6, n));
        put(&mut values, "messages_per_cpu_second", ratio(n, usage.cpu_s));
        put(&mut values, "rss_bytes", usage.rss_bytes);
        put(&mut values, "rss_max_bytes", rss_bytes_max);
        put(&mut values, "written_bytes", usage.written_bytes);
        values
    }
}

fn put(object: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    object.insert(name.to_owned(), value.into());
}

/// The last line of a run that could not begin.
pub(crate) fn failure_json(run_error: &RunError, exit_code: u8) -> Value {
    json!({
        "type": "error",
        "exit_code": exit_code,
        "error": { "code": run_error.code, "reason": run_error.reason },
    })
}

fn run_error(run_error: &RunError) -> Value {
    json!({ "code": run_error.code, "reason": run_error.reason, "count": run_error.n })
}

fn latency_us(latency: &Histogram<u64>) -> Value {
    let us = |ns: u64| float(ns) / 1e3;
    // Looking through an empty one takes as long as through a full one.
    let at = |quantile| if latency.is_empty() { 0 } else { latency.value_at_quantile(quantile) };
    let of = |quantile| us(at(quantile));
    json!({
        "count": latency.len(),
        "min": us(min_ns(latency)),
        "mean": latency.mean() / 1e3,
        "median": of(0.5),
        "p75": of(0.75),
        "p95": of(0.95),
        "p99": of(0.99),
        "p99_9": of(0.999),
        "max": us(latency.max()),
    })
}

fn resend(resends: &Resends) -> Value {
    let Resends { published, resent, unconfirmed, duplicates, missing } = *resends;
    json!({
        "published": published,
        "resent": resent,
        "unconfirmed": unconfirmed,
        "duplicates": duplicates,
        "missing": missing,
    })
}

fn verify(verdict: &Verdict) -> Value {
    json!({
        "good": verdict.is_good(),
        "lost": verdict.is_loss_known.then_some(verdict.lost),
        "duplicates": verdict.duplicates,
        "out_of_order": verdict.out_of_order,
        "damaged": verdict.damaged,
        "examples": verdict.examples,
    })
}

fn seconds(ns: u64) -> f64 {
    float(ns / 1_000) / 1e6
}
