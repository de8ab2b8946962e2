//! Messages of AMQP 0-9-1 as AMQP 1.0 has them, and back, as RabbitMQ 4 converts them (its page "Message
//! Conversions"), for streams, which store the former's in the latter's encoding, and for clients.
//! Must never know sockets, clocks, streams, chunks.
//! Start reading at [`to_amqp10`] and [`to_amqp091`], then [`receive`] and [`decode_amqp10`].
//!
//! | AMQP 0-9-1 | AMQP 1.0 |
//! |---|---|
//! | delivery mode, priority, expiration | header: durable, priority, ttl |
//! | exchange, routing key, type | annotations `x-exchange`, `x-routing-key`, `x-basic-type` |
//! | headers that begin with `x-`, `CC`, `x-death` of the broker | annotations, `x-cc`, `x-opt-deaths` |
//! | other headers, but for tables and arrays | application properties |
//! | app id, timestamp, reply-to `q` | group id, creation time, `/queues/q` |
//! | the other properties; cluster id is lost | those of the same name |
//! | body | a data section; with the type `amqp-1.0`, the sections that it is |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

mod added;
mod annotations;
mod attempt;
mod deaths;
mod decode;
mod encode;
mod head;
mod ids;
mod sections;
mod values;

pub use added::{annotate, merge_annotations};
pub use attempt::DeliveryAttempt;
pub use decode::{DecodeBuffer, decode_amqp10, properties_bytes_max, take_amqp10, to_amqp091};
pub use encode::{stream_filter_value, to_amqp10};
pub use head::Origin;
pub use sections::{ReceiveError, ReceivedBody, ReceivedSections, receive};
pub use values::{arguments_of, put_arguments};
