//! The traces that are on, and copies of traced messages that were delivered. Trace messages are made
//! elsewhere.

use crate::spans::Spans;
use crate::taps::{Flow, Taps};
use message::{MessageRef, OwnedMessage};
use meta::{ConnectionId, Name, QueueDef};
use queue_type::Owner;
use session::ChannelId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The exchange that copies go to.
pub const EXCHANGE: &str = "amq.rabbitmq.trace";

/// The bit of traces and spans.
const TRACES: u8 = 1;
/// The bit of taps, which are not told of deliveries.
const TAPS: u8 = 2;

/// The users whose messages are traced.
#[derive(Clone, Debug)]
pub enum Who {
    /// All users.
    Everybody,
    /// The users of these names.
    These(BTreeSet<Name>),
}

/// The traces that are on. A restart of the node ends them all.
#[derive(Debug, Default)]
pub struct Tracing {
    on: AtomicU8,
    by_vhost: Mutex<BTreeMap<Name, Arc<Who>>>,
    /// Where spans go, once there is a collector.
    spans: OnceLock<Arc<Spans>>,
    taps: Taps,
}

impl Who {
    fn covers(&self, user: &str) -> bool {
        match self {
            Self::Everybody => true,
            Self::These(users) => users.contains(user),
        }
    }
}

impl Tracing {
    /// Whether traces, spans or taps are on; cheap to ask.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.on.load(Ordering::Relaxed) != 0
    }

    /// Whether traces or spans are on; cheap to ask.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.on.load(Ordering::Relaxed) & TRACES != 0
    }

    fn set(&self, bit: u8, is_on: bool) {
        if is_on {
            self.on.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.on.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Opens or closes taps.
    pub fn change_taps(&self, change: impl FnOnce(&mut Vec<Arc<Flow>>)) {
        self.taps.change(|taps| {
            change(taps);
            self.set(TAPS, !taps.is_empty());
        });
    }

    /// The taps that are open, if any are.
    #[inline]
    pub fn taps(&self) -> Option<&Taps> {
        (self.on.load(Ordering::Relaxed) & TAPS != 0).then_some(&self.taps)
    }

    /// Makes spans from now on.
    pub fn start_spans(&self, spans: Spans) -> Arc<Spans> {
        let spans = self.spans.get_or_init(|| Arc::new(spans));
        self.set(TRACES, true);
        Arc::clone(spans)
    }

    /// Where spans go, if anywhere.
    pub fn spans(&self) -> Option<&Arc<Spans>> {
        self.spans.get()
    }

    /// The users whose messages are traced in a virtual host, if any are.
    pub fn of(&self, vhost: &str) -> Option<Arc<Who>> {
        if !self.is_any() {
            return None;
        }
        stdx::lock(&self.by_vhost).get(vhost).cloned()
    }

    /// A copy of a message that a queue has just given to a channel, if deliveries of its virtual host are
    /// traced.
    #[cold]
    pub fn delivered(
        &self,
        queue: &Arc<QueueDef>,
        (connection, channel): Owner,
        redelivered: bool,
        message: &MessageRef<'_>,
    ) -> Option<Delivered> {
        let traced = self.of(&queue.vhost).filter(|_| message.exchange != EXCHANGE.as_bytes())?;
        let (queue, message) = (Arc::clone(queue), OwnedMessage::new(message));
        Some(Delivered { queue, connection, channel, redelivered, message, traced })
    }

    /// Whether the messages of a user in a virtual host are traced.
    #[must_use]
    pub fn covers(&self, vhost: &str, user: &str) -> bool {
        self.of(vhost).is_some_and(|who| who.covers(user))
    }

    /// Traces a virtual host, or a user in it.
    pub fn start(&self, vhost: Name, user: Option<Name>) {
        let mut by_vhost = stdx::lock(&self.by_vhost);
        match (by_vhost.get_mut(&vhost).map(Arc::make_mut), user) {
            (Some(Who::These(users)), Some(user)) => {
                users.insert(user);
            }
            (None, Some(user)) => {
                by_vhost.insert(vhost, Arc::new(Who::These(BTreeSet::from([user]))));
            }
            (Some(Who::Everybody), Some(_)) => {}
            (_, None) => {
                by_vhost.insert(vhost, Arc::new(Who::Everybody));
            }
        }
        self.set(TRACES, true);
    }

    /// Ends the trace of a virtual host, or of a user in it.
    pub fn stop(&self, vhost: &str, user: Option<&str>) {
        let mut by_vhost = stdx::lock(&self.by_vhost);
        let is_over = match (by_vhost.get_mut(vhost).map(Arc::make_mut), user) {
            (Some(Who::These(users)), Some(user)) => {
                users.remove(user);
                users.is_empty()
            }
            (_, Some(_)) => false,
            (_, None) => true,
        };
        if is_over {
            by_vhost.remove(vhost);
        }
        self.set(TRACES, !by_vhost.is_empty() || self.spans.get().is_some());
    }
}

/// A message that was delivered to a channel.
#[derive(Debug)]
pub struct Delivered {
    /// The queue.
    pub queue: Arc<QueueDef>,
    /// The connection that the message was delivered to.
    pub connection: ConnectionId,
    /// The channel that the message was delivered to.
    pub channel: ChannelId,
    /// Whether the message had been delivered before.
    pub redelivered: bool,
    /// The message.
    pub message: OwnedMessage,
    /// The users whose messages were traced at that time.
    traced: Arc<Who>,
}

impl Delivered {
    /// Bytes of memory that the copy takes.
    pub fn size_bytes(&self) -> usize {
        self.message.size_bytes() + size_of::<Self>()
    }

    /// Whether messages of this user were traced at that time.
    pub fn covers(&self, user: &str) -> bool {
        self.traced.covers(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_virtual_hosts_are_traced_on_their_own() {
        let tracing = Tracing::default();
        assert!(!tracing.is_any() && tracing.of("a").is_none() && !tracing.covers("a", "x"));
        tracing.start("a".into(), Some("x".into()));
        assert!(tracing.of("a").is_some() && tracing.covers("a", "x") && !tracing.covers("a", "y"));
        tracing.start("b".into(), None);
        tracing.start("b".into(), Some("x".into()));
        assert!(tracing.covers("b", "y"), "all stay all");
        tracing.stop("a", Some("y"));
        assert!(tracing.covers("a", "x"));
        tracing.stop("a", Some("x"));
        assert!(tracing.of("a").is_none() && tracing.is_any());
        tracing.stop("b", None);
        assert!(!tracing.is_any());
    }
}
