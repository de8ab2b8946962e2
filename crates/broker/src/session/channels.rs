//! A connection's channels and links.

use crate::connections::ChannelCounters;
use confirm::Publisher;
use meta::QueueId;
use queue_type::ChannelLimit;
use session::{ChannelId, Error, LinkId, Request, Settle, ShortString};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of publishes a transaction may gather before it is committed, what it takes to keep them included.
pub(super) const TX_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Places in queues that the publishes of a transaction may take: one for each publish and queue.
pub(super) const TX_PLACES_MAX: usize = 16 * 1024 * 1024;
/// Acknowledgements a transaction may gather before it is committed.
pub(super) const TX_SETTLES_MAX: usize = 4 * 1024 * 1024;

/// An open channel.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Number of the last publish since confirms were selected; `None` without confirms.
    pub(super) last_sequence: Option<u64>,
    /// The channel as queues know it; `None` without confirms.
    pub(super) publisher: Option<Arc<Publisher>>,
    /// Publishes and settlements that wait for `tx.commit`; `None` when the channel is not transactional.
    pub(super) tx: Option<Box<Tx>>,
    /// Prefetch limit of consumers to come; 0 for none.
    pub(super) prefetch_count: u16,
    /// The limit on messages that its consumers may hold together, where clients may set one.
    pub(super) limit: Option<Arc<ChannelLimit>>,
    /// The queue an empty name stands for.
    pub(super) last_queue: Option<ShortString>,
    pub(super) consumers: HashMap<ShortString, LinkId>,
    /// All of its links, also those of consumers that were cancelled and hold something.
    pub(super) links: BTreeSet<LinkId>,
    /// The link of `get`s from each queue, and of those without acknowledgement.
    pub(super) gets: HashMap<(QueueId, bool), LinkId>,
    /// Its consumers of direct replies: one at most of a client whose links are not requests of their own.
    pub(super) replies: Vec<ReplyConsumer>,
    /// Whether the log has a warning that selectors take too many steps for the channel's messages.
    pub(super) told_of_selectors: bool,
    pub(super) counters: Arc<ChannelCounters>,
}

/// A consumer of direct replies.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    /// The token behind `amq.rabbitmq.reply-to.` in the names of its replies.
    pub(super) token: String,
    pub(super) consumer_tag: ShortString,
    pub(super) link: LinkId,
}

/// A transaction being gathered.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(super) publishes: Vec<Request>,
    pub(super) publish_bytes: usize,
    pub(super) settles: Vec<Settle>,
    /// The reason why the transaction cannot be committed: a publish that was refused, of which only the
    /// commit of a client of links tells.
    pub(super) refused: Option<Error>,
}

impl Tx {
    /// Bytes of memory that the transaction takes.
    pub(super) const fn held_bytes(&self) -> u64 {
        (self.publish_bytes + self.settles.len() * size_of::<Settle>()) as u64
    }

    /// The positions that the transaction settles, by the link they were delivered on.
    pub(super) fn settled_by_link(&self) -> HashMap<LinkId, HashSet<u64>> {
        let mut settled: HashMap<LinkId, HashSet<u64>> = HashMap::new();
        for settle in &self.settles {
            settled.entry(settle.link).or_default().insert(settle.position.0);
        }
        settled
    }
}

/// Channels by number. Numbers are small: a list indexed by them is the quickest map.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    slots: Vec<Option<Box<Channel>>>,
    n_open: usize,
    last_serial: u64,
}

impl Channels {
    pub(super) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut Channel> {
        self.slots.get_mut(usize::from(channel.0))?.as_deref_mut()
    }

    pub(super) fn get(&self, channel: ChannelId) -> Option<&Channel> {
        self.slots.get(usize::from(channel.0))?.as_deref()
    }

    /// The open channels.
    pub(super) fn open_ones(&self) -> impl Iterator<Item = &Channel> {
        self.slots.iter().flatten().map(|channel| &**channel)
    }

    pub(super) fn open(&mut self, channel: ChannelId) -> &mut Channel {
        let slot = usize::from(channel.0);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let place = self.slots.get_mut(slot).expect("the list was just made long enough");
        if place.is_none() {
            self.n_open += 1;
        }
        self.last_serial += 1;
        let counters = ChannelCounters { serial: self.last_serial, ..ChannelCounters::default() };
        place.insert(Box::new(Channel { counters: Arc::new(counters), ..Channel::default() }))
    }

    pub(super) fn close(&mut self, channel: ChannelId) -> Option<Box<Channel>> {
        let closed = self.slots.get_mut(usize::from(channel.0))?.take();
        self.n_open -= usize::from(closed.is_some());
        if self.n_open == 0 {
            self.slots = Vec::new();
        }
        closed
    }

    pub(super) fn is_transactional(&self, channel: ChannelId) -> bool {
        self.get(channel).is_some_and(|channel| channel.tx.is_some())
    }

    /// Whether a channel is limited as a whole.
    pub(super) fn has_limit(&self) -> bool {
        self.slots.iter().flatten().any(|channel| channel.limit.is_some())
    }

    /// The prefetch limit of the channel's consumers to come.
    pub(super) fn prefetch(&self, channel: ChannelId) -> Option<u32> {
        let limit = self.get(channel).map_or(0, |channel| channel.prefetch_count);
        (limit != 0).then_some(u32::from(limit))
    }

    pub(super) fn set_prefetch(&mut self, channel: ChannelId, prefetch_count: u16) {
        if let Some(channel) = self.get_mut(channel) {
            channel.prefetch_count = prefetch_count;
            channel.counters.prefetch_count.store(u32::from(prefetch_count), Ordering::Relaxed);
        }
    }

    /// The limit that a new consumer of the channel shares.
    pub(super) fn limit(&self, channel: ChannelId) -> Option<Arc<ChannelLimit>> {
        self.get(channel)?.limit.clone()
    }

    pub(super) fn ids(&self) -> Vec<ChannelId> {
        let open = self.slots.iter().enumerate().filter(|(_, channel)| channel.is_some());
        open.filter_map(|(slot, _)| u16::try_from(slot).ok().map(ChannelId)).collect()
    }
}
