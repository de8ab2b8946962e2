//! Figures as OTLP has them in JSON: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use crate::kind::{Kind, Label};
use serde_json::{Value, json};

/// Counts go on from the start.
const CUMULATIVE: u8 = 2;

/// Figures that are gathered.
pub(crate) struct Otlp {
    metrics: Vec<Value>,
    /// When the node started, and now, in nanoseconds since 1970.
    times: (String, String),
    /// Name, type and meaning of the figure that was begun last, and its values.
    begun: Option<(String, Kind, String)>,
    points: Vec<Value>,
}

impl Otlp {
    pub(crate) fn new(started_ns: u64, now_ns: u64) -> Self {
        let times = (started_ns.to_string(), now_ns.to_string());
        Self { metrics: Vec::new(), times, begun: None, points: Vec::new() }
    }

    pub(crate) fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        self.finish();
        self.begun = Some((name.to_owned(), kind, help.to_owned()));
    }

    fn finish(&mut self) {
        let Some((name, kind, help)) = self.begun.take() else { return };
        let points = std::mem::take(&mut self.points);
        self.metrics.push(match kind {
            Kind::Counter => json!({"name": name, "description": help, "sum": {
                "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true,
            }}),
            Kind::Histogram => json!({"name": name, "description": help, "histogram": {
                "dataPoints": points, "aggregationTemporality": CUMULATIVE,
            }}),
            Kind::Gauge | Kind::Summary | Kind::Untyped => {
                json!({"name": name, "description": help, "gauge": {"dataPoints": points}})
            }
        });
    }

    /// Ends the gathering; returns all metrics.
    pub(crate) fn end(mut self) -> Vec<Value> {
        self.finish();
        self.metrics
    }

    pub(crate) fn value(&mut self, labels: &[Label<'_>], value: &str) {
        self.points.push(json!({
            "asDouble": value.parse::<f64>().unwrap_or_default(),
            "attributes": attributes(labels),
            "startTimeUnixNano": self.times.0, "timeUnixNano": self.times.1,
        }));
    }

    pub(crate) fn histogram(&mut self, label: Label<'_>, bounds: &[f64], counts: &[u64], sum: f64) {
        let texts: Vec<String> = counts.iter().map(u64::to_string).collect();
        self.points.push(json!({
            "count": counts.iter().sum::<u64>().to_string(), "sum": sum,
            "bucketCounts": texts, "explicitBounds": bounds, "attributes": attributes(&[label]),
            "startTimeUnixNano": self.times.0, "timeUnixNano": self.times.1,
        }));
    }
}

fn attributes(labels: &[Label<'_>]) -> Vec<Value> {
    let labels = labels.iter().filter(|(name, _)| !name.is_empty());
    labels.map(|(name, value)| json!({"key": name, "value": {"stringValue": value}})).collect()
}
