//! Consumers and takers of `basic.get`s of a queue, beside the machine: which channel and outbox each belongs
//! to.

use delivery::ConsumerChannel;
use queue::machine::Assigned;
use queue_type::{AckTimeout, Activity, ConsumerView, Owner};
use session::ConsumerCredit;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Consumers and takers of `basic.get`s by the numbers that the machine knows them by.
pub(crate) struct Members {
    by_id: BTreeMap<u64, Member>,
    pub(crate) n_consumers: u64,
    /// The last number that was given: the bits above 32 say in which life of which node.
    last: u64,
    /// Channels that have held a message for too long.
    pub(crate) overdue: Vec<AckTimeout>,
    /// Position of a message that an operator wants to peek at.
    pub(crate) peeked: Option<u64>,
}

struct Member {
    owner: Owner,
    /// Time for which the member may hold a message, in milliseconds.
    timeout_ms: Option<u64>,
    /// Way to the consumer; none if it was cancelled, or the member never was one.
    feed: Option<Box<Feed>>,
    /// Whether the client knows that the member held messages for too long.
    knows_timeout: bool,
}

/// The way to a consumer that gets deliveries.
pub(crate) struct Feed {
    pub(crate) channel: ConsumerChannel,
    /// Messages that the consumer holds and that are not in its outbox yet.
    pub(crate) waiting: VecDeque<Assigned>,
    /// Link credit that the client is to be told once nothing waits.
    pub(crate) credit: Option<ConsumerCredit>,
    /// Whether the consumer gets deliveries, as its session sees it.
    pub(crate) is_active: Arc<AtomicBool>,
}

impl Members {
    /// No members yet; their numbers are above `number_base`, in 32 bits.
    pub(crate) const fn numbered_from(number_base: u64) -> Self {
        Self {
            by_id: BTreeMap::new(),
            n_consumers: 0,
            last: number_base,
            overdue: Vec::new(),
            peeked: None,
        }
    }

    /// A number that no member has, nor any consumer of another life of the node.
    pub(crate) fn next_id(&mut self) -> u64 {
        loop {
            let count = self.last.wrapping_add(1) & u64::from(u32::MAX);
            self.last = self.last & !u64::from(u32::MAX) | count;
            if !self.by_id.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    /// Adds a consumer with a number that it was given.
    pub(crate) fn add(
        &mut self,
        id: u64,
        channel: ConsumerChannel,
        is_active: Arc<AtomicBool>,
        timeout_ms: Option<u64>,
    ) {
        self.n_consumers += 1;
        let owner = channel.owner();
        let (waiting, credit) = (VecDeque::new(), None);
        let feed = Some(Box::new(Feed { channel, waiting, credit, is_active }));
        let before =
            self.by_id.insert(id, Member { owner, timeout_ms, feed, knows_timeout: false });
        assert!(before.is_none(), "a number is that of one consumer");
    }

    /// Adds a member that only takes messages it asks for; returns its number.
    pub(crate) fn add_passive(&mut self, owner: Owner, timeout_ms: Option<u64>) -> u64 {
        let id = self.next_id();
        let member = Member { owner, timeout_ms, feed: None, knows_timeout: false };
        self.by_id.insert(id, member);
        id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn feed_mut(&mut self, id: u64) -> Option<&mut Feed> {
        self.by_id.get_mut(&id)?.feed.as_deref_mut()
    }

    /// Ends a consumer's deliveries; returns the way to it.
    pub(crate) fn take_feed(&mut self, id: u64) -> Option<Box<Feed>> {
        let feed = self.by_id.get_mut(&id)?.feed.take()?;
        assert!(self.n_consumers > 0, "a consumer that gets deliveries is counted");
        self.n_consumers -= 1;
        feed.is_active.store(false, Ordering::Relaxed);
        Some(feed)
    }

    /// Notes that the client knows of messages held for too long.
    pub(crate) fn note_timeout_known(&mut self, id: u64) {
        self.by_id.get_mut(&id).into_iter().for_each(|member| member.knows_timeout = true);
    }

    /// Notes the channel of a member that held a message for too long, for its end, unless the client knows
    /// of that.
    pub(crate) fn note_overdue(&mut self, id: u64) {
        if let Some(member) = self.by_id.get(&id).filter(|member| !member.knows_timeout) {
            let ((connection, channel), timeout_ms) = (member.owner, member.timeout_ms);
            let timeout_ms = timeout_ms.unwrap_or_default();
            self.overdue.push(AckTimeout { connection, channel, timeout_ms });
        }
    }

    /// Removes a member that gets nothing any more.
    pub(crate) fn remove(&mut self, id: u64) {
        let gone = self.by_id.remove(&id);
        debug_assert!(
            gone.is_none_or(|it| it.feed.is_none()),
            "deliveries end before their consumer"
        );
    }

    /// Removes all members, and returns the ways to those that got messages.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Feed>> + use<> {
        self.n_consumers = 0;
        std::mem::take(&mut self.by_id).into_values().filter_map(|member| member.feed)
    }

    pub(crate) fn owner(&self, id: u64) -> Option<Owner> {
        Some(self.by_id.get(&id)?.owner)
    }

    /// Time for which a member may hold a message, in milliseconds.
    pub(crate) fn timeout_ms(&self, id: u64) -> Option<u64> {
        self.by_id.get(&id)?.timeout_ms
    }

    /// Channels of the members that get or hold messages.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (u64, Owner)> + '_ {
        self.by_id.iter().map(|(id, member)| (*id, member.owner))
    }

    /// Consumers with messages that are not in their outboxes, each with the first of these.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, Assigned)> + '_ {
        self.by_id.iter().filter_map(|(id, member)| {
            let feed = member.feed.as_deref().filter(|feed| !feed.channel.room.is_closed())?;
            Some((*id, *feed.waiting.front()?))
        })
    }

    /// The consumers, for listings.
    pub(crate) fn views(&self, is_single: bool, active: Option<u64>) -> Vec<ConsumerView> {
        let view = |(id, member): (&u64, &Member)| {
            let is_active = is_single.then_some(active == Some(*id));
            Some(member.feed.as_deref()?.channel.view(Activity::of(is_active)))
        };
        self.by_id.iter().filter_map(view).collect()
    }
}
