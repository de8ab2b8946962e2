//! The publishes of one socket read, gathered by queue so that each queue is locked once.

use super::confirm_on::PublisherOf;
use super::route_cache::Remembered;
use crate::confirm::{AnsweringQueues, DurabilityToken};
use crate::exchanges::{DedupBarrier, Exchanges};
use crate::message_store::BodyHome;
use crate::queue::{Incoming, Late, Publishes, Queue, RefusedItem, Wakes};
use crate::rules::{RejectedDeadLetters, dead_letters_of};
use crate::slices::WORK_MAX;
use bytes::Bytes;
use message::{Body, MessageRef};
use meta::{Name, QueueId};
use session::{ChannelId, Content, Publish, Request};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use store::backlog::SharedBody;

/// Publishes for which an empty batch keeps memory: more than one read holds.
const KEPT_PUBLISHES: usize = 16 * 1024;

/// Of the messages that are put into queues at a stretch, each queue counts for so many.
const PUTS_PER_QUEUE: usize = 15;

/// A publish that passed its checks.
#[derive(Debug)]
pub(crate) struct PendingPublish {
    /// Its index among the requests of the read.
    pub(crate) request: u32,
    pub(crate) channel: ChannelId,
    /// Its number on a confirming channel; 0 elsewhere.
    pub(crate) sequence: u64,
    /// Persistent, and some of its queues are durable.
    pub(crate) logged: bool,
    /// Some of its queues keep it in a journal of their own.
    pub(crate) apart: bool,
    /// One of its queues is full and did not take it.
    pub(crate) refused: bool,
    /// Who of its queues answers for itself.
    pub(crate) late: AnsweringQueues,
    /// What differs from the request as received.
    pub(crate) changed: Option<Box<MessageOverrides>>,
}

/// What the broker changed about a message, or prepared so that it is copied once.
#[derive(Debug, Default)]
pub(crate) struct MessageOverrides {
    pub(crate) properties: Option<Bytes>,
    /// Those for queues of delaying exchanges, where they are others: with the keys to be hidden.
    pub(crate) properties_held_back: Option<Bytes>,
    pub(crate) body: Option<Bytes>,
    /// Where the body is stored once for several queues.
    pub(crate) home: Option<Arc<BodyHome>>,
}

impl MessageOverrides {
    /// None if nothing is changed.
    #[inline]
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        // Taken apart, so that the compiler sees that there is nothing to be dropped without a change.
        let Self { properties, properties_held_back, body, home } = self;
        let is_changed = properties.is_some()
            || properties_held_back.is_some()
            || body.is_some()
            || home.is_some();
        if !is_changed {
            return None;
        }
        Some(Box::new(Self { properties, properties_held_back, body, home }))
    }
}

#[derive(Debug)]
pub(super) struct Group {
    queue: Option<Arc<Queue>>,
    /// It confirms once a consumer has had a message.
    pub(super) is_late: bool,
    pub(super) items: Vec<u32>,
}

/// Whether any publish of a batch ...
#[derive(Clone, Copy, Debug, Default)]
struct Any {
    /// is persistent, and some of its queues are durable.
    logged: bool,
    /// has a home for its body.
    stored: bool,
    /// has an expiration.
    expiring: bool,
}

/// What was put into queues at a stretch, and what has come of it.
#[derive(Debug, Default)]
struct Putting {
    /// The group that is next, and how many of its items are in already.
    group: usize,
    n_items: usize,
    awaited: DurabilityToken,
    refused_late: Vec<RefusedItem>,
    /// Groups whose queues keep messages in journals of their own.
    apart: SmallVec<[usize; 2]>,
}

/// Publishes gathered by queue.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Rises from batch to batch, from 1: tells remembered group numbers of older batches apart.
    number: u64,
    pub(crate) prepared: Vec<PendingPublish>,
    any: Any,
    /// Some of its queues are still being read after a start.
    any_loading: bool,
    /// Some of its queues confirm once a consumer has had a message.
    pub(super) any_late: bool,
    pub(super) groups: Vec<Group>,
    pub(super) n_groups: usize,
    group_of: HashMap<QueueId, u32>,
    /// How far putting in has come.
    putting: Putting,
    refused: Vec<RefusedItem>,
    /// Refused messages that are dead-lettered.
    undelivered: Vec<RejectedDeadLetters>,
    /// Held while exchanges have noted what is not in its queues yet.
    noted: Option<Arc<DedupBarrier>>,
}

impl Putting {
    const fn is_at_start(&self) -> bool {
        self.group == 0 && self.n_items == 0
    }
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { number: 1, ..Self::default() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.prepared.is_empty()
    }

    /// Adds a publish for the queues of a remembered route.
    #[inline]
    pub(crate) fn add(&mut self, prepared: PendingPublish, remembered: &mut Remembered) {
        let item = u32::try_from(self.prepared.len()).expect("a read holds fewer publishes");
        self.push(prepared);
        if remembered.batch != self.number {
            self.find_groups(remembered);
        }
        for group in &remembered.groups {
            if let Some(group) = self.groups.get_mut(*group as usize) {
                group.items.push(item);
            }
        }
    }

    /// One of the publishes has an expiration.
    pub(crate) const fn note_expiring(&mut self) {
        self.any.expiring = true;
    }

    /// An exchange is about to take note of a message.
    pub(crate) fn hold(&mut self, exchanges: &Exchanges) {
        self.noted.get_or_insert_with(|| exchanges.noted());
    }

    /// Adds a publish for `queues`.
    pub(crate) fn add_to(&mut self, prepared: PendingPublish, queues: &[Arc<Queue>]) {
        let item = u32::try_from(self.prepared.len()).expect("a read holds fewer publishes");
        self.push(prepared);
        for queue in queues {
            let group = self.group_for(queue);
            if let Some(group) = self.groups.get_mut(group as usize) {
                group.items.push(item);
            }
        }
    }

    #[inline]
    fn push(&mut self, prepared: PendingPublish) {
        self.any.logged |= prepared.logged;
        self.any.stored |= prepared.changed.as_ref().is_some_and(|one| one.home.is_some());
        self.prepared.push(prepared);
    }

    fn find_groups(&mut self, remembered: &mut Remembered) {
        remembered.batch = self.number;
        remembered.groups.clear();
        for queue in &remembered.route.queues {
            let group = self.group_for(queue);
            remembered.groups.push(group);
        }
    }

    fn group_for(&mut self, queue: &Arc<Queue>) -> u32 {
        if let Some(group) = self.group_of.get(&queue.id()) {
            return *group;
        }
        self.any_loading |= queue.is_loading();
        let is_late = queue.confirm_on().is_late();
        self.any_late |= is_late;
        let number = self.n_groups;
        self.n_groups += 1;
        if let Some(group) = self.groups.get_mut(number) {
            group.queue = Some(Arc::clone(queue));
            group.is_late = is_late;
        } else {
            self.groups.push(Group { queue: Some(Arc::clone(queue)), is_late, items: Vec::new() });
        }
        let number = u32::try_from(number).expect("fewer than 2^32 queues");
        self.group_of.insert(queue.id(), number);
        number
    }

    /// Puts everything into its queues, or as much as may be done at a stretch: none then, and it is
    /// to be called again. Returns what must be durable before what is persistent may be confirmed.
    pub(crate) fn put_in(
        &mut self,
        input: &[u8],
        requests: &[Request],
        publisher_of: &PublisherOf<'_>,
        wakes: &mut Wakes,
    ) -> Option<DurabilityToken> {
        let mut putting = std::mem::take(&mut self.putting);
        if self.any_late && putting.is_at_start() {
            self.begin_late(publisher_of);
        }
        let mut refused = std::mem::take(&mut self.refused);
        let mut undelivered = std::mem::take(&mut self.undelivered);
        let who = |item: u32| self.waiting_for(item, publisher_of);
        let mut room = WORK_MAX;
        for (number, group) in
            self.groups.iter().enumerate().take(self.n_groups).skip(putting.group)
        {
            if let Some(queue) = &group.queue {
                let left = group.items.get(putting.n_items..).unwrap_or_default();
                let items = left.get(..room).unwrap_or(left);
                let is_held_back = queue.def().is_internal();
                let resolve = |item: u32| {
                    let incoming = self.incoming(item, input, requests);
                    if is_held_back { self.as_held_back(item, incoming) } else { incoming }
                };
                let batch = Publishes {
                    items,
                    resolve: &resolve,
                    any_logged: self.any.logged,
                    any_stored: self.any.stored,
                    any_expiring: self.any.expiring,
                    late: group.is_late.then_some(Late { who: &who }),
                };
                let n_refused = refused.len();
                let of_queue = queue.publish(&batch, &mut refused, wakes);
                if let Some(refused) = refused.get(n_refused..).filter(|these| !these.is_empty()) {
                    undelivered.extend(dead_letters_of(queue, refused, &resolve));
                }
                if group.is_late {
                    putting.refused_late.extend(refused.drain(n_refused..));
                }
                if !of_queue.journals.is_empty() {
                    putting.apart.push(number);
                }
                putting.awaited.add(of_queue);
                room = room.saturating_sub(items.len() + PUTS_PER_QUEUE);
                let is_whole = items.len() == left.len();
                if room == 0 && (!is_whole || number + 1 < self.n_groups) {
                    let n_items = if is_whole { 0 } else { putting.n_items + items.len() };
                    (putting.group, putting.n_items) = (number + usize::from(is_whole), n_items);
                    (self.putting, self.refused, self.undelivered) =
                        (putting, refused, undelivered);
                    return None;
                }
                putting.n_items = 0;
            }
        }
        let Putting { awaited, refused_late, apart, .. } = putting;
        for number in apart {
            self.mark_apart(number);
        }
        if !refused_late.is_empty() {
            let refused_late = refused_late.iter().map(|one| one.item);
            AnsweringQueues::note_refused(&mut self.prepared, |one| &mut one.late, refused_late);
        }
        if !refused.is_empty() {
            self.mark_refused(&mut refused);
        }
        self.undelivered = undelivered;
        self.refused = refused;
        if let Some(noted) = self.noted.take() {
            noted.placed(&awaited);
        }
        Some(awaited)
    }

    /// Shows each message with the names of its queues, in order.
    pub(crate) fn each_routed(
        &self,
        input: &[u8],
        requests: &[Request],
        mut show: impl FnMut(ChannelId, &MessageRef<'_>, &[Name]),
    ) {
        let mut queues: Vec<Vec<Name>> = vec![Vec::new(); self.prepared.len()];
        for group in self.groups.iter().take(self.n_groups) {
            let Some(queue) = &group.queue else { continue };
            for item in &group.items {
                if let Some(names) = queues.get_mut(*item as usize) {
                    names.push(queue.def().name.clone());
                }
            }
        }
        for ((item, prepared), queues) in (0..).zip(&self.prepared).zip(&queues) {
            let incoming = self.incoming(item, input, requests);
            show(prepared.channel, &incoming.message, queues);
        }
    }

    #[cold]
    fn mark_apart(&mut self, group: usize) {
        let Some(group) = self.groups.get(group) else { return };
        for item in &group.items {
            if let Some(prepared) = self.prepared.get_mut(*item as usize) {
                prepared.apart = true;
            }
        }
    }

    #[cold]
    fn mark_refused(&mut self, refused: &mut Vec<RefusedItem>) {
        for RefusedItem { item, .. } in refused.drain(..) {
            if let Some(prepared) = self.prepared.get_mut(item as usize) {
                prepared.refused = true;
            }
        }
    }

    /// Refused messages that are to be dead-lettered.
    pub(crate) fn take_undelivered(&mut self) -> Vec<RejectedDeadLetters> {
        std::mem::take(&mut self.undelivered)
    }

    /// A queue that is still being read, so that nothing can be put in yet.
    pub(crate) fn loading(&self) -> Option<Arc<Queue>> {
        if !self.any_loading {
            return None;
        }
        let queues =
            self.groups.iter().take(self.n_groups).filter_map(|group| group.queue.as_ref());
        queues.into_iter().find(|queue| queue.is_loading()).cloned()
    }

    /// Whether one of the queues wants its publishers slowed down.
    pub(crate) fn is_slowed_down(&self) -> bool {
        let queues =
            self.groups.iter().take(self.n_groups).filter_map(|group| group.queue.as_ref());
        queues.into_iter().any(|queue| queue.slows_down())
    }

    fn incoming<'a>(&'a self, item: u32, input: &'a [u8], requests: &'a [Request]) -> Incoming<'a> {
        let prepared = self.prepared.get(item as usize).expect("items index `prepared`");
        let publish = match requests.get(prepared.request as usize) {
            Some(Request::Publish(publish)) => publish,
            Some(Request::Settle(_) | Request::Control(_)) | None => {
                unreachable!("only publishes are prepared")
            }
        };
        let (mut message, mut home) = (message_of(publish, input), None);
        if let Some(changed) = &prepared.changed {
            home = changed.home.as_ref();
            if let Some(properties) = &changed.properties {
                message.properties = properties;
            }
            if let Some(body) = &changed.body {
                message.body = Body::Shared(body);
            }
        }
        Incoming { message, home, confirm: prepared.sequence != 0 }
    }

    /// A message as the queue of a delaying exchange is to have it.
    fn as_held_back<'a>(&'a self, item: u32, mut incoming: Incoming<'a>) -> Incoming<'a> {
        let prepared = self.prepared.get(item as usize);
        let changed = prepared.and_then(|prepared| prepared.changed.as_ref());
        if let Some(properties) = changed.and_then(|it| it.properties_held_back.as_deref()) {
            incoming.message.properties = properties;
            // The other queues share theirs.
            incoming.home = incoming.home.filter(|home| home.properties().is_none());
        }
        incoming
    }

    /// Makes room for so many publishes at once: growing bit by bit copies all of them each time.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.prepared.reserve(n);
    }

    /// Empties the batch; what it allocated stays for the next, unless a transaction was very large.
    pub(crate) fn clear(&mut self) {
        self.prepared.clear();
        self.prepared.shrink_to(KEPT_PUBLISHES);
        self.noted = None;
        self.putting = Putting::default();
        (self.any, self.any_loading, self.any_late) = (Any::default(), false, false);
        for group in self.groups.iter_mut().take(self.n_groups) {
            group.queue = None;
            group.items.clear();
            group.items.shrink_to(KEPT_PUBLISHES);
        }
        self.n_groups = 0;
        self.group_of.clear();
        self.number += 1;
    }
}

/// The exchange and routing key of a publish request.
#[inline]
pub(crate) fn address_of<'a>(publish: &'a Publish, input: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let base = match &publish.content {
        Content::Inline(_) => input,
        Content::Owned(owned) => owned.head.as_ref(),
    };
    (publish.exchange.of(base), publish.routing_key.of(base))
}

/// The message a publish request stands for.
#[inline]
pub(crate) fn message_of<'a>(publish: &'a Publish, input: &'a [u8]) -> MessageRef<'a> {
    let (base, body) = match &publish.content {
        Content::Inline(span) => (input, Body::Borrowed(span.of(input))),
        Content::Owned(owned) => (owned.head.as_ref(), Body::Shared(&owned.body)),
    };
    MessageRef {
        exchange: publish.exchange.of(base),
        routing_key: publish.routing_key.of(base),
        properties: publish.properties.of(base),
        body,
        persistent: publish.persistent,
        annotations: message::Annotations::NONE,
    }
}
