//! Consumers and `get`s of a queue, beside the core: which channel and outbox each belongs to. Never the
//! messages they hold.

use super::Queue;
use delivery::ConsumerChannel;
use message::MessageRef;
use queue::{ConsumerKey, Fifo};
use queue_type::Given;
use queue_type::{ChannelLimit, Owner};
use std::sync::Arc;

/// States of links (AMQP 1.0): drains that go on, and the news that clients were told.
#[derive(Debug, Default)]
struct LinkStates {
    /// Consumers whose link credit is to be used up, by what is there first.
    draining: Vec<ConsumerKey>,
    /// The single active consumer, as clients were told.
    active: Option<ConsumerKey>,
}

/// Consumers and `get`s by the keys that the core knows them by.
#[derive(Default)]
pub(super) struct Consumers {
    /// Consumers that get messages.
    channels: Vec<Option<ConsumerChannel>>,
    /// Channels of the consumers, also of those that only hold messages.
    owners: Vec<Option<Owner>>,
    /// Consumers that share a limit with others of their channel.
    n_limited: u32,
    /// Whether a consumer is exclusive.
    has_exclusive: bool,
    had_any: bool,
    /// The state of links, which few queues have.
    links: Option<Box<LinkStates>>,
    /// Whether new messages are not given out yet: the publisher is about to say that it has no more for now,
    /// by [waking](std::task::Wake) the queue.
    pub(super) is_gathering: bool,
}

impl Consumers {
    /// Adds a consumer.
    pub(super) fn add(&mut self, key: ConsumerKey, consumer: ConsumerChannel) {
        assert!(!self.has_exclusive, "an exclusive consumer is the only one");
        self.n_limited += u32::from(consumer.limit.is_some());
        self.has_exclusive = consumer.exclusive;
        self.add_owner(key, consumer.owner());
        put_at(&mut self.channels, key, consumer);
        self.had_any = true;
    }

    /// Adds the channel of a consumer; alone, of one that takes only what it asks for.
    pub(super) fn add_owner(&mut self, key: ConsumerKey, owner: Owner) {
        put_at(&mut self.owners, key, owner);
    }

    /// A consumer that gets messages.
    pub(super) fn get(&self, key: ConsumerKey) -> Option<&ConsumerChannel> {
        self.channels.get(key.0 as usize)?.as_ref()
    }

    /// A consumer that gets messages, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, key: ConsumerKey) -> Option<&mut ConsumerChannel> {
        self.channels.get_mut(key.0 as usize)?.as_mut()
    }

    /// Changes something about a consumer that gets messages, and whether it is open as far as that follows.
    #[inline]
    pub(super) fn change(
        &mut self,
        core: &mut Fifo,
        key: ConsumerKey,
        change: impl FnOnce(&mut ConsumerChannel),
    ) {
        let Some(consumer) = self.get_mut(key) else { return };
        let was_open = consumer.is_open();
        change(consumer);
        if consumer.is_open() != was_open {
            core.consumers_mut().change(key).set_open(!was_open);
        }
    }

    /// The channel that a consumer belongs to, if it gets or holds messages.
    pub(super) fn owner(&self, key: ConsumerKey) -> Option<Owner> {
        self.owners.get(key.0 as usize).copied().flatten()
    }

    /// A consumer gets no more messages.
    pub(super) fn remove(&mut self, key: ConsumerKey) {
        let place = self.channels.get_mut(key.0 as usize);
        let Some(left) = place.and_then(Option::take) else { return };
        self.n_limited -= u32::from(left.limit.is_some());
        self.has_exclusive &= !left.exclusive;
        self.set_draining(key, false);
    }

    /// Forgets the channel of a consumer that gets no messages and holds none.
    pub(super) fn forget_owner(&mut self, key: ConsumerKey) {
        if let Some(place) = self.owners.get_mut(key.0 as usize) {
            *place = None;
        }
    }

    /// Sets whether a consumer's link credit is to be used up.
    pub(super) fn set_draining(&mut self, key: ConsumerKey, is_draining: bool) {
        if is_draining || !self.draining().is_empty() {
            let draining = &mut self.links.get_or_insert_default().draining;
            draining.retain(|other| *other != key);
            draining.extend(is_draining.then_some(key));
        }
    }

    /// The single active consumer, as clients were told.
    pub(super) fn told_active(&self) -> Option<ConsumerKey> {
        self.links.as_ref()?.active
    }

    /// Notes which consumer clients are told to be the single active one; returns that of before.
    pub(super) fn tell_active(&mut self, active: Option<ConsumerKey>) -> Option<ConsumerKey> {
        std::mem::replace(&mut self.links.get_or_insert_default().active, active)
    }

    /// Consumers whose link credit is to be used up.
    #[inline]
    pub(super) fn draining(&self) -> &[ConsumerKey] {
        self.links.as_ref().map(|links| &*links.draining).unwrap_or_default()
    }

    /// Adds a consumer to those that share `limit`.
    pub(super) fn limit(&mut self, key: ConsumerKey, limit: &Arc<ChannelLimit>) {
        let place = self.channels.get_mut(key.0 as usize);
        if let Some(consumer) = place.and_then(Option::as_mut) {
            self.n_limited += u32::from(consumer.limit.is_none());
            consumer.limit = Some(Arc::clone(limit));
        }
    }

    /// Removes all consumers, and returns those that got messages.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = ConsumerChannel> {
        let Self { channels, had_any, .. } = std::mem::take(self);
        self.had_any = had_any;
        channels.into_iter().flatten()
    }

    /// Consumers that get messages.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConsumerKey, &ConsumerChannel)> {
        let numbered = (0..).map(ConsumerKey).zip(&self.channels);
        numbered.filter_map(|(key, consumer)| Some((key, consumer.as_ref()?)))
    }

    /// Channels of the consumers that get or hold messages.
    pub(super) fn owners(&self) -> impl Iterator<Item = (ConsumerKey, Owner)> {
        let numbered = (0..).map(ConsumerKey).zip(&self.owners);
        numbered.filter_map(|(key, owner)| Some((key, (*owner)?)))
    }

    /// Whether any consumer shares a limit with others of its channel.
    #[inline]
    pub(super) const fn any_limited(&self) -> bool {
        self.n_limited > 0
    }

    /// Whether a consumer is exclusive.
    pub(super) const fn is_exclusive(&self) -> bool {
        self.has_exclusive
    }

    /// Whether any consumer ever got messages.
    pub(super) const fn had_any(&self) -> bool {
        self.had_any
    }

    /// Tells the firehose of a message that a consumer was given.
    #[cold]
    pub(super) fn trace(
        &self,
        queue: &Queue,
        key: ConsumerKey,
        given: Given,
        message: &MessageRef<'_>,
    ) {
        if let Some(owner) = self.owner(key) {
            queue.services.host.trace_delivery(&queue.def, owner, given, message);
        }
    }
}

fn put_at<T>(places: &mut Vec<Option<T>>, key: ConsumerKey, value: T) {
    let slot = key.0 as usize;
    if places.len() <= slot {
        places.resize_with(slot + 1, || None);
    }
    if let Some(place) = places.get_mut(slot) {
        assert!(place.is_none(), "a key is that of one consumer");
        *place = Some(value);
    }
}
