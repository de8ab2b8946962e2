//! Events: what happens to definitions, connections and the like. The last ones are kept, and told to the
//! exchange `amq.rabbitmq.event` of one virtual host (<https://www.rabbitmq.com/docs/event-exchange>).

mod changes;
mod headers;

pub use changes::ChangeEvents;
pub use headers::{Event, EventHeaders, Process};

use crate::internal_message::InternalMessage;
use message::{Body, Properties};
use meta::{EVENT_EXCHANGE, Name};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use stdx::{MonotonicMs, Ring, UnixMs};

/// Events that are kept, and bytes of them.
const KEPT_EVENTS_MAX: usize = 2_000;
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Time after a look at them in which events of channels are kept too. There may be very many.
const READ_AGAIN_MS: u64 = 60_000;

/// The last events, and where they are told.
#[derive(Debug)]
pub struct EventLog {
    /// The last events.
    pub last: Ring<Event>,
    /// The virtual host, if they are told in one.
    pub vhost: OnceLock<Name>,
    /// Until when somebody is taken to read them, in monotonic time.
    read_until_ms: AtomicU64,
}

impl Default for EventLog {
    fn default() -> Self {
        let last = Ring::new(KEPT_EVENTS_MAX, KEPT_BYTES_MAX);
        Self { last, vhost: OnceLock::new(), read_until_ms: AtomicU64::new(0) }
    }
}

impl EventLog {
    /// The last events, for somebody who reads them at `now_ms`, in monotonic time. For a minute from then on
    /// those of channels are kept too.
    pub fn read(&self, now_ms: MonotonicMs) -> &Ring<Event> {
        self.read_until_ms.store(now_ms.plus(READ_AGAIN_MS).get(), Ordering::Relaxed);
        &self.last
    }

    /// Whether somebody is taken to read events at `now_ms`, in monotonic time.
    #[must_use]
    pub fn is_read(&self, now_ms: MonotonicMs) -> bool {
        now_ms.get() < self.read_until_ms.load(Ordering::Relaxed)
    }

    /// Keeps an event.
    pub fn keep(&self, name: &'static str, headers: EventHeaders, unix_ms: UnixMs) {
        let event = Event { unix_ms, name, headers: headers.kept() };
        let n_bytes = event.headers.len();
        self.last.push(event, n_bytes);
    }
}

/// The message that tells of an event in a virtual host.
#[must_use]
pub fn message_of(
    vhost: &str,
    name: &str,
    headers: &EventHeaders,
    unix_ms: UnixMs,
) -> InternalMessage {
    let in_ms = i64::try_from(unix_ms.get()).unwrap_or(i64::MAX);
    let properties = Properties {
        delivery_mode: Some(2),
        timestamp: Some(unix_ms.get() / 1_000),
        headers: Some(headers.told(in_ms)),
        ..Properties::default()
    };
    let (key, body) = (name.as_bytes().to_vec(), Body::Borrowed(&[]));
    InternalMessage::publish(vhost, EVENT_EXCHANGE, key, &properties, &body)
}
