//! Consumers and takers of `basic.get`s of a queue, beside the machine: which channel and outbox each belongs
//! to.

use meta::ConnectionId;
use queue::machine::Assigned;
use queue::{AckMode, Checkout};
use queue_type::{AckTimeout, Activity, Attach, ConsumerView, Owner, Tally, WaitsFor};
use session::{ChannelId, Event, LinkId, Outbox, ShortString, Table};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Consumers and takers of `basic.get`s by the numbers that the machine knows them by.
#[derive(Default)]
pub(crate) struct Members {
    by_id: BTreeMap<u64, Member>,
    pub(crate) n_consumers: u64,
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
    pub(crate) connection: ConnectionId,
    pub(crate) channel: ChannelId,
    pub(crate) link: LinkId,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) consumer_tag: ShortString,
    pub(crate) checkout: Checkout,
    pub(crate) exclusive: bool,
    pub(crate) arguments: Table,
    /// Whether the outbox has no room, until the connection says so.
    pub(crate) is_full: bool,
    /// Messages that the consumer holds and that are not in its outbox yet.
    pub(crate) waiting: VecDeque<Assigned>,
    /// Whether the consumer gets deliveries, as its session sees it.
    pub(crate) is_active: Arc<AtomicBool>,
    /// Counts of the messages that the consumer was given.
    pub(crate) tally: Arc<Tally>,
}

impl Feed {
    pub(crate) fn of(attach: Attach<'_>, is_active: &Arc<AtomicBool>) -> Self {
        Self {
            connection: attach.connection,
            channel: attach.channel,
            link: attach.link,
            outbox: Arc::clone(attach.outbox),
            consumer_tag: attach.consumer_tag.clone(),
            checkout: attach.checkout,
            exclusive: attach.exclusive,
            arguments: attach.arguments,
            is_full: false,
            waiting: VecDeque::new(),
            is_active: Arc::clone(is_active),
            tally: attach.tally,
        }
    }

    /// The event that tells the client of the consumer's end.
    pub(crate) const fn cancelled(&self) -> Event<'_> {
        let Self { channel, link, consumer_tag, .. } = self;
        Event::ConsumerCancelled { channel: *channel, link: *link, consumer_tag }
    }
}

impl Members {
    /// Sets the last number that an earlier life has given out.
    pub(crate) fn begin_behind(&mut self, last: u64) {
        self.last = last;
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.last + 1
    }

    /// Adds a consumer with the number that is next.
    pub(crate) fn add(&mut self, feed: Feed, timeout_ms: Option<u64>) {
        self.last += 1;
        self.n_consumers += 1;
        let owner = (feed.connection, feed.channel);
        let feed = Some(Box::new(feed));
        self.by_id.insert(self.last, Member { owner, timeout_ms, feed, knows_timeout: false });
    }

    /// Adds a member that only takes messages it asks for; returns its number.
    pub(crate) fn add_passive(&mut self, owner: Owner, timeout_ms: Option<u64>) -> u64 {
        self.last += 1;
        let member = Member { owner, timeout_ms, feed: None, knows_timeout: false };
        self.by_id.insert(self.last, member);
        self.last
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
        self.by_id.remove(&id);
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
            let feed = member.feed.as_deref().filter(|feed| !feed.is_full)?;
            Some((*id, *feed.waiting.front()?))
        })
    }

    /// The consumers, for listings.
    pub(crate) fn views(&self, is_single: bool, active: Option<u64>) -> Vec<ConsumerView> {
        let view = |(id, member): (&u64, &Member)| {
            let feed = member.feed.as_deref()?;
            Some(ConsumerView {
                connection: feed.connection,
                channel: feed.channel,
                consumer_tag: feed.consumer_tag.clone(),
                ack_required: feed.checkout.settling == AckMode::Manual,
                prefetch_count: feed.checkout.prefetch.unwrap_or(0),
                exclusive: feed.exclusive,
                arguments: feed.arguments.clone(),
                activity: match is_single {
                    true if active == Some(*id) => Activity::SingleActive,
                    true => Activity::Waiting,
                    false => Activity::Up,
                },
                waits_for: feed.is_full.then_some(WaitsFor::Client),
            })
        };
        self.by_id.iter().filter_map(view).collect()
    }
}
