//! Traces of messages (the firehose), spans, taps, and events of changes. While nobody asks for them they
//! cost a look at a flag. Never who publishes what is told, nor connections and queues.
//! Start reading at [`Tracing`].

pub mod events;
mod firehose;
mod internal_message;
mod spans;
mod taps;
mod tracing;

pub use crate::tracing::{Delivered, EXCHANGE as TRACE_EXCHANGE, Tracing, Who};
pub use firehose::TracedClient;
pub use internal_message::InternalMessage;
pub use spans::{ClockNs, PublishTimes, Span, SpanKind, Spans, TRACEPARENT, TraceContext};
pub use taps::{Flow, Tapped, Taps};
