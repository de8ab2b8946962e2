//! Spans: how a message that belongs to a sampled trace went through the node. They are made where the
//! message is at hand, and wait for whoever sends them on; of too many some are dropped, and counted.
//!
//! Without a collector it costs one look at a flag for each batch.

use message::MessageRef;
use meta::{ConnectionId, Name, QueueDef, QueueId};
use queue_type::Given;
use queue_type::Owner;
use session::{ChannelId, Outcome, Settle};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Spans that wait for the collector; more are dropped.
const WAITING_MAX: usize = 8 * 1024;
/// Deliveries whose settlement gets a span; more deliveries get none for it.
const UNSETTLED_MAX: usize = 64 * 1024;

/// The header that says which trace a message belongs to: <https://www.w3.org/TR/trace-context/>.
pub const TRACEPARENT: &str = "traceparent";
/// The flag of `traceparent` that says that the trace is recorded.
const SAMPLED: u8 = 1;

/// The part of a trace that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: u128,
    /// The span that the message comes from.
    pub span_id: u64,
}

/// The kinds of span, by the names of OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside.
    Internal,
    /// A message came.
    Producer,
    /// A message went.
    Consumer,
}

/// An operation on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The operation, by the conventions for messaging.
    pub operation: &'static str,
    /// The exchange or queue.
    pub destination: String,
    /// The span's kind.
    pub kind: SpanKind,
    /// The span's id.
    pub id: u64,
    /// The span that it is a part of.
    pub parent: TraceContext,
    /// The beginning and the end, in nanoseconds since 1970.
    pub span_ns: (u64, u64),
    /// The span's attributes, by name.
    pub attributes: Vec<(&'static str, String)>,
}

/// The steps of a publish, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct PublishTimes {
    /// When the session began with the message.
    pub began: u64,
    /// When the message's queues were found.
    pub routed: u64,
    /// When the message was in its queues.
    pub stored: u64,
}

/// A connection, and the queue and position of a message that it holds.
type Held = (ConnectionId, QueueId, u64);

/// The time in nanoseconds since 1970.
pub type ClockNs = Box<dyn Fn() -> u64 + Send + Sync>;

/// Spans on their way to a collector.
pub struct Spans {
    now_ns: ClockNs,
    waiting: Mutex<Vec<Span>>,
    /// Unacked messages that belong to a recorded trace, with the channel that each was delivered to.
    unsettled: Mutex<HashMap<Held, (ChannelId, TraceContext)>>,
    last_id: AtomicU64,
    n_dropped: AtomicU64,
}

stdx::debug_of!(|it: Spans| n_dropped = it.n_dropped);

impl Spans {
    /// Starts without spans; their ids are made from numbers that rise from `random`.
    pub fn new(now_ns: ClockNs, random: u64) -> Self {
        let (waiting, unsettled) = (Mutex::default(), Mutex::default());
        let (last_id, n_dropped) = (AtomicU64::new(random), AtomicU64::new(0));
        Self { now_ns, waiting, unsettled, last_id, n_dropped }
    }

    /// Takes the spans that wait for the collector.
    #[must_use]
    pub fn take(&self) -> Vec<Span> {
        std::mem::take(&mut stdx::lock(&self.waiting))
    }

    /// The number of spans dropped since the node started.
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }

    /// Counts spans that could not be sent to the collector.
    pub fn note_dropped(&self, n: u64) {
        self.n_dropped.fetch_add(n, Ordering::Relaxed);
    }

    /// The time in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        (self.now_ns)()
    }

    fn put(&self, mut span: Span) -> u64 {
        // The multiplication spreads ids over 64 bits; no span has the id 0.
        let number = self.last_id.fetch_add(1, Ordering::Relaxed);
        span.id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let id = span.id;
        let mut waiting = stdx::lock(&self.waiting);
        if waiting.len() < WAITING_MAX {
            waiting.push(span);
        } else {
            drop(waiting);
            self.note_dropped(1);
        }
        id
    }

    /// Makes the spans of a published message.
    pub fn published(
        &self,
        message: &MessageRef<'_>,
        queues: &[Name],
        PublishTimes { began, routed, stored }: PublishTimes,
    ) {
        let Some(part) = self.publish(message, began, stored) else { return };
        let names = queues.iter().map(|queue| queue.as_str()).collect::<Vec<_>>().join(",");
        let attributes = vec![("leveret.queues", names)];
        let span_ns = (began, routed);
        self.put(Span { operation: "route", span_ns, attributes, ..part.clone() });
        self.put(Span { span_ns: (routed, stored), ..part });
    }

    /// Makes the spans of a message that was appended to a stream, which the message names as its exchange.
    pub fn appended(&self, message: &MessageRef<'_>, began_ns: u64, stored_ns: u64) {
        if let Some(part) = self.publish(message, began_ns, stored_ns) {
            self.put(part);
        }
    }

    /// Records the span of a publish; returns the span of the storing, which is not recorded yet.
    fn publish(&self, message: &MessageRef<'_>, began: u64, stored: u64) -> Option<Span> {
        let parent = context_of(message)?;
        let key = String::from_utf8_lossy(message.routing_key).into_owned();
        let destination = String::from_utf8_lossy(message.exchange).into_owned();
        let publish = Span {
            operation: "publish",
            destination,
            kind: SpanKind::Producer,
            id: 0,
            parent,
            span_ns: (began, stored),
            attributes: vec![
                ("messaging.rabbitmq.destination.routing_key", key),
                ("messaging.message.body.size", message.body.len().to_string()),
            ],
        };
        let (kind, attributes) = (SpanKind::Internal, Vec::new());
        let part = Span { operation: "store", kind, attributes, ..publish.clone() };
        let span_id = self.put(publish);
        Some(Span { parent: TraceContext { span_id, ..parent }, ..part })
    }

    /// Records a delivery to a consumer; `position` is that of a message that the consumer is to settle.
    #[cold]
    pub fn delivered(
        &self,
        queue: &QueueDef,
        (connection, channel): Owner,
        Given { redelivered, position }: Given,
        message: &MessageRef<'_>,
    ) {
        let Some(parent) = context_of(message) else { return };
        let redelivered = redelivered.to_string();
        self.put_of_consumer("deliver", queue, parent, "leveret.redelivered", redelivered);
        let Some(position) = position else { return };
        let mut unsettled = stdx::lock(&self.unsettled);
        if unsettled.len() < UNSETTLED_MAX {
            unsettled.insert((connection, queue.id, position), (channel, parent));
        }
    }

    /// Forgets the unacked messages of a closed channel, or without a channel those of a closed connection.
    pub fn forget(&self, connection: ConnectionId, channel: Option<ChannelId>) {
        stdx::lock(&self.unsettled).retain(|(of, _, _), (by, _)| {
            *of != connection || channel.is_some_and(|channel| channel != *by)
        });
    }

    /// Records the settlement of messages of a queue.
    #[cold]
    pub fn settled(&self, connection: ConnectionId, queue: &QueueDef, settles: &[Settle]) {
        for settle in settles {
            let key = (connection, queue.id, settle.position.0);
            let Some((_, parent)) = stdx::lock(&self.unsettled).remove(&key) else { continue };
            let outcome = match settle.outcome {
                Outcome::Accepted => "ack",
                Outcome::Modified | Outcome::Released => "requeue",
                Outcome::Rejected => "reject",
            };
            let outcome = outcome.to_owned();
            self.put_of_consumer("settle", queue, parent, "leveret.outcome", outcome);
        }
    }

    /// Records what a consumer of a queue gets or does now.
    fn put_of_consumer(
        &self,
        operation: &'static str,
        queue: &QueueDef,
        parent: TraceContext,
        attribute: &'static str,
        value: String,
    ) {
        let (now, destination) = (self.now_ns(), queue.name.to_string());
        let (kind, span_ns, attributes) =
            (SpanKind::Consumer, (now, now), vec![(attribute, value)]);
        self.put(Span { operation, destination, kind, id: 0, parent, span_ns, attributes });
    }
}

/// The trace that a message belongs to, if it is recorded.
fn context_of(message: &MessageRef<'_>) -> Option<TraceContext> {
    let mut converted = Vec::new();
    let headers = conversion::to_amqp091(message, &mut converted).index().headers()?;
    let header = headers.get(TRACEPARENT.as_bytes())?;
    parse(header.as_str()?)
}

/// Reads `00-<trace>-<span>-<flags>`; newer versions may have more behind that.
fn parse(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let mut number = |n_digits: usize| {
        let part = parts.next()?;
        let is_hex = part.len() == n_digits && part.bytes().all(|it| it.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(part, 16).ok())?
    };
    let (version, trace_id, span_id, flags) = (number(2)?, number(32)?, number(16)?, number(2)?);
    let is_sampled = u8::try_from(flags).ok()? & SAMPLED != 0;
    let context = TraceContext { trace_id, span_id: u64::try_from(span_id).ok()? };
    (version != 0xff && is_sampled && trace_id != 0 && span_id != 0).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampled_trace_is_known_by_its_header() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace_id = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
        let context = TraceContext { trace_id, span_id: 0xb7ad_6b71_6920_3331 };
        assert_eq!(parse(text), Some(context));
        assert_eq!(parse(&text.replace("00-", "cc-").replace("-01", "-03-more")), Some(context));
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    /// Closed connections and channels make room for the deliveries of others.
    #[test]
    fn who_goes_leaves_nothing() {
        let spans = Spans::new(Box::new(|| 7), 3);
        let parent = TraceContext { trace_id: 1, span_id: 2 };
        let key = |connection, at| (ConnectionId(connection), QueueId(5), at);
        for (connection, at) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            let channel = ChannelId(u16::try_from(at).unwrap());
            stdx::lock(&spans.unsettled).insert(key(connection, at), (channel, parent));
        }
        spans.forget(ConnectionId(1), None);
        spans.forget(ConnectionId(2), Some(ChannelId(0)));
        let left: Vec<_> = stdx::lock(&spans.unsettled).keys().copied().collect();
        assert_eq!(left, [key(2, 1)]);
    }

    #[test]
    fn too_many_are_dropped_and_counted() {
        let spans = Spans::new(Box::new(|| 7), 3);
        let parent = TraceContext { trace_id: 1, span_id: 2 };
        for _ in 0..WAITING_MAX + 5 {
            spans.put(Span {
                operation: "deliver",
                destination: "q".to_owned(),
                kind: SpanKind::Consumer,
                id: 0,
                parent,
                span_ns: (7, 7),
                attributes: Vec::new(),
            });
        }
        assert_eq!((spans.take().len(), spans.n_dropped()), (WAITING_MAX, 5));
        assert!(spans.take().is_empty());
    }
}
