//! Those who take messages from a queue, beside the machine: which channel and outbox each belongs to.

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
    /// The position of a message that an operator wants to look at.
    pub(crate) peeked: Option<u64>,
}

struct Member {
    owner: Owner,
    /// How long it may hold a message.
    timeout_ms: Option<u64>,
    /// None of a consumer that was cancelled, or never was one.
    feed: Option<Box<Feed>>,
    /// Its client knows that it held messages for too long.
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
    /// Its outbox has no room until the connection says so.
    pub(crate) is_full: bool,
    /// Messages it holds that are not in its outbox yet.
    pub(crate) waiting: VecDeque<Assigned>,
    /// As its session sees it.
    pub(crate) is_active: Arc<AtomicBool>,
    /// Counts of what it was given.
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

    /// Tells its client that it is no consumer any more.
    pub(crate) const fn cancelled(&self) -> Event<'_> {
        let Self { channel, link, consumer_tag, .. } = self;
        Event::ConsumerCancelled { channel: *channel, link: *link, consumer_tag }
    }
}

impl Members {
    /// Numbers up to this one were given out by an earlier life.
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

    /// Adds one that only takes what it asks for.
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

    /// Its client knows from now on that it held messages for too long.
    pub(crate) fn note_timeout_known(&mut self, id: u64) {
        self.by_id.get_mut(&id).into_iter().for_each(|member| member.knows_timeout = true);
    }

    /// One whose client does not know that it held messages for too long loses its channel.
    pub(crate) fn note_overdue(&mut self, id: u64) {
        if let Some(member) = self.by_id.get(&id).filter(|member| !member.knows_timeout) {
            let ((connection, channel), timeout_ms) = (member.owner, member.timeout_ms);
            let timeout_ms = timeout_ms.unwrap_or_default();
            self.overdue.push(AckTimeout { connection, channel, timeout_ms });
        }
    }

    /// Takes away one that gets nothing any more.
    pub(crate) fn remove(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    /// Takes all away, and returns those that got messages.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Feed>> + use<> {
        self.n_consumers = 0;
        std::mem::take(&mut self.by_id).into_values().filter_map(|member| member.feed)
    }

    pub(crate) fn owner(&self, id: u64) -> Option<Owner> {
        Some(self.by_id.get(&id)?.owner)
    }

    /// How long one may hold a message.
    pub(crate) fn timeout_ms(&self, id: u64) -> Option<u64> {
        self.by_id.get(&id)?.timeout_ms
    }

    /// The channels of those that get or hold messages.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (u64, Owner)> + '_ {
        self.by_id.iter().map(|(id, member)| (*id, member.owner))
    }

    /// The consumers that have something that is not in their outboxes, and what comes first.
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
