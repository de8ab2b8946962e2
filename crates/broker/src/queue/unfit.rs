//! Messages whose properties are more than a client takes at once. Whoever would be given one loses its
//! connection, and the message stays where it is. Must never know how large a frame is.

use super::state::QueueState;
use super::{Queue, Wakes};
use message::MessageRef;
use queue::ConsumerKey;
use session::{Outbox, PROPERTIES_BYTES_ALWAYS_TAKEN, Sink};
use store::backlog::Lookup;

/// What telling how often a message came back adds to its properties, at most.
const COUNTS_BYTES_MAX: usize = 64;

/// What the first ready message comes to.
pub(super) struct Next {
    pub(super) size_bytes: usize,
    pub(super) properties_bytes: usize,
}

impl Next {
    #[inline]
    pub(super) fn of(message: &MessageRef<'_>) -> Self {
        Self { size_bytes: message.size_bytes(), properties_bytes: message.properties.len() }
    }
}

impl QueueState {
    /// The size of the first ready message's properties; none while it is not in memory.
    pub(super) fn head_properties_bytes(&self) -> Option<usize> {
        match self.backlog.get(self.fifo.head()?) {
            Lookup::Here(message) => Some(message.properties.len()),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// Whether a client takes the properties of the next message; if not, its connection is about to end.
    pub(super) fn fits(
        &self,
        queue: &Queue,
        outbox: &dyn Outbox,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> bool {
        if properties_bytes <= PROPERTIES_BYTES_ALWAYS_TAKEN {
            return true;
        }
        let added_bytes = if self.counts_returns() { COUNTS_BYTES_MAX } else { 0 };
        let mut fits = false;
        wakes.extend(outbox.batch(&mut |sink: &mut dyn Sink| {
            fits = sink.fits(properties_bytes + added_bytes, queue.def.name.as_str());
        }));
        fits
    }

    /// As [`QueueState::fits`], for a consumer.
    #[cold]
    pub(super) fn fits_consumer(
        &self,
        queue: &Queue,
        consumer: ConsumerKey,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> bool {
        let host = self.hosts.get(consumer.0 as usize).and_then(Option::as_ref);
        host.is_none_or(|host| self.fits(queue, &*host.outbox, properties_bytes, wakes))
    }
}
