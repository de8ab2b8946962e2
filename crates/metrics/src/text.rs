//! The text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

pub(crate) use crate::kind::Kind;
use crate::kind::Label;
use crate::otlp::Otlp;
use serde_json::Value;
use std::fmt::{Display, Write as _};
use stdx::HistogramCounts;

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 * 1024;

/// A figure that the libraries of all languages give this name.
const START_TIME: &str = "process_start_time_seconds";

/// Writes figures, and hands them on in pieces.
pub(crate) struct Writer<'w> {
    /// The prefix of the figures' names.
    prefix: &'static str,
    text: String,
    take: &'w mut dyn FnMut(String) -> bool,
    is_wanted: bool,
    /// The figures for OTLP, if they are written for that instead.
    otlp: Option<Otlp>,
}

impl<'w> Writer<'w> {
    pub(crate) const fn new(prefix: &'static str, take: &'w mut dyn FnMut(String) -> bool) -> Self {
        Self { prefix, text: String::new(), take, is_wanted: true, otlp: None }
    }

    /// Gathers figures for OTLP.
    pub(crate) const fn gathering(
        prefix: &'static str,
        take: &'w mut dyn FnMut(String) -> bool,
        otlp: Otlp,
    ) -> Self {
        Self { prefix, text: String::new(), take, is_wanted: true, otlp: Some(otlp) }
    }

    /// Returns the figures gathered for OTLP; empty without OTLP.
    pub(crate) fn gathered(self) -> Vec<Value> {
        self.otlp.map(Otlp::end).unwrap_or_default()
    }

    /// Begins a figure; the prefix is left out before a name that has its own.
    pub(crate) fn begin(&mut self, name: &'static str, kind: Kind, help: &str) -> Metric<'_, 'w> {
        let prefix = match name.split('_').next() {
            Some("rabbitmq" | "leveret" | "telemetry") => "",
            _ if name == START_TIME => "",
            _ => self.prefix,
        };
        if let Some(otlp) = &mut self.otlp {
            otlp.begin(&format!("{prefix}{name}"), kind, help);
        }
        let kind = kind.as_str();
        // Writing to a string never fails.
        let _ok = writeln!(self.text, "# TYPE {prefix}{name} {kind}\n# HELP {prefix}{name} {help}");
        Metric { writer: self, prefix, name }
    }

    fn flush(&mut self) {
        if self.is_wanted {
            self.is_wanted = (self.take)(std::mem::take(&mut self.text));
        }
        self.text.clear();
    }

    pub(crate) fn end(mut self) {
        self.flush();
    }
}

/// A figure whose values are written.
pub(crate) struct Metric<'m, 'w> {
    writer: &'m mut Writer<'w>,
    prefix: &'static str,
    name: &'static str,
}

impl Metric<'_, '_> {
    pub(crate) fn value(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.sample("", labels, value);
    }

    /// Values by limits, each of which is `unit` times as much as what is written.
    pub(crate) fn histogram<const N: usize>(
        &mut self,
        label: Label<'_>,
        limits: &[u64; N],
        unit: f64,
        values: &HistogramCounts<N>,
    ) {
        let scaled = |value: u64| value as f64 / unit;
        if let Some(otlp) = &mut self.writer.otlp {
            let bounds: Vec<f64> =
                limits.iter().filter(|it| **it != u64::MAX).map(|it| scaled(*it)).collect();
            otlp.histogram(label, &bounds, &values.counts, scaled(values.sum));
            return;
        }
        let mut n = 0;
        for (limit, count) in limits.iter().zip(values.counts) {
            n += count;
            let is_last = *limit == u64::MAX;
            let le = if is_last { "+Inf".to_owned() } else { scaled(*limit).to_string() };
            self.sample("_bucket", &[label, ("le", &le)], n);
        }
        self.sample("_sum", &[label], scaled(values.sum));
        self.sample("_count", &[label], n);
    }

    /// A count of something, and the sum of it.
    pub(crate) fn summary(&mut self, labels: &[Label<'_>], n: u64, sum: f64) {
        self.sample("_count", labels, n);
        self.sample("_sum", labels, sum);
    }

    fn sample(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        if let Some(otlp) = &mut self.writer.otlp {
            otlp.value(labels, &value.to_string());
            return;
        }
        let text = &mut self.writer.text;
        text.push_str(self.prefix);
        text.push_str(self.name);
        text.push_str(suffix);
        // A label without a name is none.
        let labels = labels.iter().filter(|(label, _)| !label.is_empty());
        let mut is_any = false;
        for (label, value) in labels {
            text.push(if is_any { ',' } else { '{' });
            is_any = true;
            text.push_str(label);
            text.push_str("=\"");
            escape(text, value);
            text.push('"');
        }
        if is_any {
            text.push('}');
        }
        let _ok = writeln!(text, " {value}");
        if text.len() >= PIECE_BYTES {
            self.writer.flush();
        }
    }
}

fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut take = |piece| {
            pieces.push(piece);
            true
        };
        let mut writer = Writer::new("rabbitmq_", &mut take);
        write(&mut writer);
        writer.end();
        pieces
    }

    #[test]
    fn labels_are_escaped_and_prefixes_kept() {
        let pieces = written(|writer| {
            let mut metric = writer.begin("queues", Kind::Gauge, "Queues");
            metric.value(&[], 3);
            metric.value(&[("queue", "a\"b\\c\nd"), ("vhost", "/")], 1.5);
            writer.begin("leveret_x_total", Kind::Counter, "X").value(&[], 1);
        });
        assert_eq!(
            pieces.concat(),
            "# TYPE rabbitmq_queues gauge\n# HELP rabbitmq_queues Queues\nrabbitmq_queues 3\n\
             rabbitmq_queues{queue=\"a\\\"b\\\\c\\nd\",vhost=\"/\"} 1.5\n\
             # TYPE leveret_x_total counter\n# HELP leveret_x_total X\nleveret_x_total 1\n"
        );
    }

    #[test]
    fn what_is_long_comes_in_pieces_and_ends_when_nobody_wants_it() {
        let lines = |writer: &mut Writer<'_>| {
            let mut metric = writer.begin("queues", Kind::Gauge, "Queues");
            (0..100_000).for_each(|n| metric.value(&[], n));
        };
        let pieces = written(lines);
        assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < PIECE_BYTES + 100));
        let mut n = 0;
        let mut counted = |_| {
            n += 1;
            false
        };
        let mut writer = Writer::new("", &mut counted);
        lines(&mut writer);
        writer.end();
        assert_eq!(n, 1);
    }
}
