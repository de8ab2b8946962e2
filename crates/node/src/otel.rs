//! Figures and spans to a collector of OpenTelemetry: OTLP as JSON over HTTP, which every collector takes at
//! port 4318. <https://opentelemetry.io/docs/specs/otlp/#otlphttp>

use crate::wall;
use anyhow::{Context as _, ensure};
use broker::{Span, SpanKind, Spans};
use http::Api;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Interval at which spans are sent.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the collector.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The beginning of an answer that is looked at, bytes.
const ANSWER_BYTES_MAX: u64 = 4 * 1024;

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    /// Host and port.
    authority: String,
    /// The path before `/v1/metrics`.
    path: String,
}

impl Endpoint {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let rest = text.strip_prefix("http://").context("it does not begin with `http://`")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        ensure!(!host.is_empty() && !text.contains(char::is_whitespace), "it names no host");
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { host.to_owned() } else { format!("{host}:4318") };
        Ok(Self { authority, path: path.trim_end_matches('/').to_owned() })
    }

    /// Sends a document.
    async fn post(&self, signal: &str, document: &Value) -> io::Result<()> {
        let body = document.to_string();
        let Self { authority, path } = self;
        let head = format!(
            "POST {path}/v1/{signal} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let mut socket = TcpStream::connect(authority).await?;
        socket.write_all(head.as_bytes()).await?;
        socket.write_all(body.as_bytes()).await?;
        let mut answer = Vec::new();
        socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') {
            Ok(())
        } else {
            Err(io::Error::other(format!("status {status}")))
        }
    }
}

/// The time in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(wall::since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// Sends figures and spans for as long as the node runs.
pub(crate) struct Exporter {
    endpoint: Endpoint,
    node: String,
    spans: Arc<Spans>,
    started_ns: u64,
    /// Whether the last document was not taken.
    is_failing: bool,
}

impl Exporter {
    /// The exporter to this address.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn new(endpoint: &str, node: String, spans: Arc<Spans>) -> anyhow::Result<Self> {
        let parsed = Endpoint::parse(endpoint);
        let endpoint =
            parsed.with_context(|| format!("`otel.endpoint = {endpoint}` cannot be used"))?;
        Ok(Self { endpoint, node, spans, started_ns: now_ns(), is_failing: false })
    }

    /// Sends figures every so many seconds, and what is left at the end.
    pub(crate) async fn run(mut self, api: Arc<Api>, every_s: u64, ending: Arc<Notify>) {
        let mut ticks = interval(SPANS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for second in 1_u64.. {
            let is_over = tokio::select! {
                _ = ticks.tick() => false,
                () = ending.notified() => true,
            };
            self.send_spans().await;
            if is_over || second % every_s == 0 {
                let (source, started_ns) = (Arc::clone(&api), self.started_ns);
                let write = move || source.otlp_metrics(started_ns, now_ns());
                if let Ok(metrics) = tokio::task::spawn_blocking(write).await {
                    let scope = json!([{"scope": {"name": "leveret"}, "metrics": metrics}]);
                    let resource = self.resource();
                    let all = json!([{"resource": resource, "scopeMetrics": scope}]);
                    self.send("metrics", &json!({"resourceMetrics": all})).await;
                }
            }
            if is_over {
                return;
            }
        }
    }

    async fn send_spans(&mut self) {
        let spans = self.spans.take();
        if spans.is_empty() {
            return;
        }
        let n_spans = spans.len() as u64;
        let spans: Vec<Value> = spans.iter().map(span_value).collect();
        let scope = json!([{"scope": {"name": "leveret"}, "spans": spans}]);
        let all = json!([{"resource": self.resource(), "scopeSpans": scope}]);
        if !self.send("traces", &json!({"resourceSpans": all})).await {
            self.spans.note_dropped(n_spans);
        }
    }

    /// Sends a document once; whether it was taken. The log is told of changes.
    async fn send(&mut self, signal: &str, document: &Value) -> bool {
        let sent = timeout(TIMEOUT, self.endpoint.post(signal, document)).await;
        let sent = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let address = &self.endpoint.authority;
        match &sent {
            Ok(()) if self.is_failing => {
                tracing::info!("the OpenTelemetry collector at {address} accepts {signal} again")
            }
            Err(error) if !self.is_failing => {
                tracing::warn!(
                    "the OpenTelemetry collector at {address} does not accept {signal}: {error}"
                );
            }
            Ok(()) | Err(_) => {}
        }
        self.is_failing = sent.is_err();
        sent.is_ok()
    }

    fn resource(&self) -> Value {
        let attributes = [
            ("service.name", "leveret"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", &self.node),
        ];
        json!({"attributes": attributes.map(|(key, value)| attribute(key, value))})
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A span, named by the conventions for messaging.
fn span_value(span: &Span) -> Value {
    let (destination, kind) = match (span.destination.as_str(), span.kind) {
        ("", kind) => ("amq.default", kind),
        named => named,
    };
    let kind = match kind {
        SpanKind::Internal => 1,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    };
    let mut attributes = vec![
        attribute("messaging.system", "rabbitmq"),
        attribute("messaging.operation.name", span.operation),
        attribute("messaging.destination.name", destination),
    ];
    attributes.extend(span.attributes.iter().map(|(key, value)| attribute(key, value)));
    json!({
        "traceId": format!("{:032x}", span.parent.trace_id),
        "spanId": format!("{:016x}", span.id),
        "parentSpanId": format!("{:016x}", span.parent.span_id),
        "name": format!("{} {destination}", span.operation),
        "kind": kind,
        "startTimeUnixNano": span.span_ns.0.to_string(),
        "endTimeUnixNano": span.span_ns.1.to_string(),
        "attributes": attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_perhaps_a_path() {
        let parsed = |text| Endpoint::parse(text).map(|it| (it.authority, it.path)).ok();
        let known = |authority: &str, path: &str| Some((authority.to_owned(), path.to_owned()));
        assert_eq!(parsed("http://otel"), known("otel:4318", ""));
        assert_eq!(parsed("http://[::1]:80/a/b/"), known("[::1]:80", "/a/b"));
        for wrong in ["https://otel", "otel:4318", "http://", "http:///a", "http://a b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
