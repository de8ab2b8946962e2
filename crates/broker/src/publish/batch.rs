//! Messages on their way into queues together: gathered by queue, so that each queue is locked once.

use super::groups::{BatchGroups, Group, Groups, KEPT_PUBLISHES};
use super::refused::dead_letters_of;
use bytes::Bytes;
use confirm::{AnsweringQueues, DurabilityToken, Publisher};
use control::slices::WORK_MAX;
use exchanges::{DedupBarrier, Exchanges};
use message::{Body, MessageRef, Refusal};
use message_store::BodyHome;
use meta::Name;
use queue_type::{
    Any, ConfirmRef, Incoming, Named, Publishes, RefusedItem, RejectedDeadLetters, Wakes,
};
use queues::QueueRef;
use remote::RemoteQueue;
use session::{ChannelId, RefusedBy};
use smallvec::SmallVec;
use std::sync::Arc;
use store::backlog::SharedBody;
use trace::Tracing;
use trace::{Flow, Tapped};

/// Messages that a queue takes at once: bounds how long its lock is held, and the scratch list.
const PORTION_MESSAGES: usize = 1_024;

/// The cost of a queue when messages are put into queues at a stretch, in messages.
const PUTS_PER_QUEUE: usize = 15;

/// The messages of a batch, where their producer has them.
pub(crate) trait Source {
    /// Whether publishers wait already for the producer's answer: the messages come from queues that confirm
    /// once a consumer has had them.
    const IS_AWAITED: bool = false;

    /// The message that the producer knows by this index.
    fn message(&self, index: u32) -> MessageRef<'_>;

    /// The publisher that waits for a publish, if the publish has a number.
    fn publisher(&self, publish: &PendingPublish) -> Option<&Arc<Publisher>>;

    /// The refusal of a publish that no queue has refused.
    fn refused_by(&self, _publish: &PendingPublish) -> RefusedBy<'_> {
        RefusedBy { queue: "", why: Refusal::Unavailable }
    }
}

/// A publish that passed its checks.
#[derive(Debug)]
pub(crate) struct PendingPublish {
    /// The index of the message among the producer's.
    pub(crate) index: u32,
    /// The channel that a client published on.
    pub(crate) channel: ChannelId,
    /// The publish's number on a confirming channel; 0 elsewhere.
    pub(crate) sequence: u64,
    /// Whether a queue keeps the message durably: a durable queue if it is persistent, or one that keeps all.
    pub(crate) logged: bool,
    /// Whether a queue keeps the message in a journal of its own.
    pub(crate) apart: bool,
    /// Whether the message found a place, as far as the producer answers for it.
    pub(crate) placed: Placed,
    /// The queues that answer the publish themselves.
    pub(crate) answering: AnsweringQueues,
    /// The differences from the message that the producer has, if there are any.
    pub(crate) changed: Option<Box<MessageOverrides>>,
}

impl PendingPublish {
    /// A message for which nobody waits, unchanged and not to be logged.
    pub(crate) fn of(index: usize) -> Self {
        Self {
            index: u32::try_from(index).expect("a read holds fewer requests"),
            channel: ChannelId(0),
            sequence: 0,
            logged: false,
            apart: false,
            placed: Placed::InQueues,
            answering: AnsweringQueues::default(),
            changed: None,
        }
    }
}

/// The end of a publish, as far as its producer answers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// Its queues have the message, or answer for it themselves.
    InQueues,
    /// No queue was to have the message, and nothing else took it.
    Nowhere,
    /// A queue did not take the message, or a dead letter has no queue.
    Refused,
}

/// Changes of the broker's to a message, and copies that its queues share.
#[derive(Debug, Default)]
pub(crate) struct MessageOverrides {
    pub(crate) properties: Option<Bytes>,
    /// The properties for queues of delaying exchanges, where they differ: with the keys that the others
    /// hide.
    pub(crate) properties_held_back: Option<Bytes>,
    pub(crate) body: Option<Bytes>,
    /// The place where the body is stored once for several queues.
    pub(crate) home: Option<Arc<BodyHome>>,
    /// The publisher's name and the message's number, by which queues know a message that comes again.
    pub(crate) named: Option<Named>,
}

impl MessageOverrides {
    /// Boxes the overrides; `None` if nothing is changed.
    #[inline]
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        // Taken apart, so that the compiler sees that there is nothing to be dropped without a change.
        let Self { properties, properties_held_back, body, home, named } = self;
        let is_changed = properties.is_some()
            || properties_held_back.is_some()
            || body.is_some()
            || home.is_some()
            || named.is_some();
        if !is_changed {
            return None;
        }
        Some(Box::new(Self { properties, properties_held_back, body, home, named }))
    }
}

/// A message that a queue did not take.
#[derive(Clone, Copy, Debug)]
struct NotTaken {
    /// Number of the queue's group.
    group: usize,
    /// Index of the publish.
    item: u32,
    why: Refusal,
}

/// The progress of putting a batch into its queues, and the results so far.
#[derive(Debug, Default)]
struct Putting {
    /// The group that comes next, and how many of its items are in the queue already.
    group: usize,
    n_items: usize,
    awaited: DurabilityToken,
    /// Messages that a queue did not take.
    not_taken: Vec<NotTaken>,
    /// Groups whose queues keep messages in journals of their own, or transient ones in the log too.
    apart: SmallVec<[usize; 2]>,
}

/// Publishes gathered by queue.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(super) pending: Vec<PendingPublish>,
    pub(super) groups: Groups,
    pub(crate) any: Any,
    /// The progress of putting the batch into its queues.
    putting: Putting,
    /// Scratch: the messages that a queue takes at once.
    incoming: Vec<Incoming<'static>>,
    /// Refused messages that are dead-lettered.
    undelivered: Vec<RejectedDeadLetters>,
    /// Messages that a queue did not take.
    not_taken: Vec<NotTaken>,
    /// Held while exchanges have noted messages that are not in their queues yet.
    noted: Option<Arc<DedupBarrier>>,
}

/// The messages that a queue takes at once.
struct Portion<'b> {
    queue: &'b QueueRef,
    on_consume: bool,
    /// Whether the queue is that of a delaying exchange.
    holds_back: bool,
    items: &'b [u32],
    /// Whether no more messages of the batch go to the queue.
    is_last: bool,
}

impl Batch {
    /// Makes a batch whose queues keep messages as usual: none of them waits for its consumers.
    pub(crate) fn kept_at_once() -> Self {
        Self { groups: Groups::kept_at_once(), ..Self::default() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn pending(&self) -> &[PendingPublish] {
        &self.pending
    }

    /// Notes that a publish of the batch has an expiration.
    pub(crate) const fn note_expiring(&mut self) {
        self.any.expiring = true;
    }

    /// Takes the barrier, since an exchange is about to take note of a message.
    pub(crate) fn hold(&mut self, exchanges: &Exchanges) {
        self.noted.get_or_insert_with(|| exchanges.noted());
    }

    /// Makes room for so many publishes at once: growing bit by bit copies all of them each time.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.pending.reserve(n);
    }

    /// Adds a publish for `queues`.
    pub(crate) fn add(&mut self, publish: PendingPublish, queues: &[QueueRef]) {
        let item = self.push(publish);
        self.groups.add(item, queues);
    }

    /// As [`Batch::add`], for queues that publishes were added for before: `groups` remembers which.
    #[inline]
    pub(crate) fn add_remembered(
        &mut self,
        publish: PendingPublish,
        queues: &[QueueRef],
        groups: &mut BatchGroups,
    ) {
        let item = self.push(publish);
        self.groups.add_remembered(item, queues, groups);
    }

    #[inline]
    fn push(&mut self, publish: PendingPublish) -> u32 {
        stdx::walk::step("gather");
        let item = u32::try_from(self.pending.len()).expect("a batch holds fewer publishes");
        self.any.logged |= publish.logged;
        if let Some(changed) = &publish.changed {
            self.any.stored |= changed.home.is_some();
            self.any.named |= changed.named.is_some();
        }
        self.pending.push(publish);
        item
    }

    /// Puts the batch into its queues, or as much as may be done at a stretch: returns `None` then, and is to
    /// be called again. The token says what must be durable before persistent messages may be confirmed.
    pub(crate) fn put_in<S: Source>(
        &mut self,
        source: &S,
        wakes: &mut Wakes,
    ) -> Option<DurabilityToken> {
        let mut putting = std::mem::take(&mut self.putting);
        if self.groups.any_on_consume() && putting.group == 0 && putting.n_items == 0 {
            self.count_answering(source);
        }
        let mut undelivered = std::mem::take(&mut self.undelivered);
        let mut incoming = emptied(std::mem::take(&mut self.incoming));
        let mut room = WORK_MAX;
        while let Some(portion) = self.next_portion(&putting, room) {
            incoming
                .extend(portion.items.iter().map(|item| self.incoming(*item, source, &portion)));
            undelivered.extend(putting.put(self.any, &portion, &mut incoming, wakes));
            incoming.clear();
            room = room.saturating_sub(portion.items.len());
            if portion.is_last {
                room = room.saturating_sub(PUTS_PER_QUEUE);
            }
        }
        (self.incoming, self.undelivered) = (emptied(incoming), undelivered);
        if putting.group < self.groups.all().len() {
            self.putting = putting;
            return None;
        }
        Some(self.note_put(putting))
    }

    /// Puts the batch into its queues at a stretch, however large it is; returns the token of `put_in`.
    pub(crate) fn put_all_in<S: Source>(
        &mut self,
        source: &S,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        loop {
            if let Some(awaited) = self.put_in(source, wakes) {
                return awaited;
            }
        }
    }

    /// The messages that are to be put in next.
    fn next_portion(&self, putting: &Putting, room: usize) -> Option<Portion<'_>> {
        let group = self.groups.all().get(putting.group).filter(|_| room > 0)?;
        let left = group.items.get(putting.n_items..).unwrap_or_default();
        let items = left.get(..room.min(PORTION_MESSAGES)).unwrap_or(left);
        let is_last = items.len() == left.len();
        let queue = group.queue()?;
        let holds_back = queue.def().is_internal();
        Some(Portion { queue, on_consume: group.on_consume, holds_back, items, is_last })
    }

    /// A message in the form in which the portion's queue takes it.
    #[inline]
    fn incoming<'a, S: Source>(
        &'a self,
        item: u32,
        source: &'a S,
        portion: &Portion<'_>,
    ) -> Incoming<'a> {
        let publish = self.pending.get(item as usize).expect("items index `pending`");
        let (message, home) = publish.message(source);
        let mut incoming = Incoming { message, home, confirm: None, named: None };
        if self.any.named {
            incoming.named = publish.changed.as_ref().and_then(|changed| changed.named.as_ref());
        }
        if portion.holds_back {
            publish.hold_back(&mut incoming);
        }
        if publish.sequence != 0 && (portion.on_consume || !S::IS_AWAITED) {
            let sequence = publish.sequence;
            let publisher = source.publisher(publish);
            incoming.confirm = publisher.map(|publisher| ConfirmRef { publisher, sequence });
        }
        incoming
    }

    /// Notes the results of a batch that is in its queues.
    fn note_put(&mut self, putting: Putting) -> DurabilityToken {
        let Putting { awaited, not_taken, apart, .. } = putting;
        for group in apart.iter().filter_map(|number| self.groups.all().get(*number)) {
            let Some(kind) = group.queue().map(|queue| queue.def().kind) else { continue };
            for item in &group.items {
                if let Some(publish) = self.pending.get_mut(*item as usize) {
                    publish.apart |= !kind.logs_transient();
                    publish.logged |= kind.keeps_transient();
                }
            }
        }
        if !not_taken.is_empty() {
            self.note_not_taken(&not_taken);
        }
        self.not_taken = not_taken;
        if let Some(noted) = self.noted.take() {
            noted.placed(&awaited);
        }
        awaited
    }

    /// Notes messages as refused: by the queue where the queue answers itself, by the producer elsewhere.
    #[cold]
    fn note_not_taken(&mut self, not_taken: &[NotTaken]) {
        let groups = self.groups.all();
        let answers = |it: &&NotTaken| groups.get(it.group).is_some_and(|group| group.on_consume);
        let by_queues = not_taken.iter().filter(answers).map(|it| it.item);
        AnsweringQueues::note_refused(&mut self.pending, |one| &mut one.answering, by_queues);
        for NotTaken { item, .. } in not_taken.iter().filter(|it| !answers(it)) {
            if let Some(publish) = self.pending.get_mut(*item as usize) {
                publish.placed = Placed::Refused;
            }
        }
    }

    /// Notes that the last publish of the batch has no queue, and that nothing else took it.
    #[inline]
    pub(crate) fn note_unroutable(&mut self) {
        if let Some(last) = self.pending.last_mut() {
            last.placed = Placed::Nowhere;
        }
    }

    /// A queue of another node that has not taken most of what was sent to it.
    pub(crate) fn without_room(&self) -> Option<&Arc<RemoteQueue>> {
        self.groups.without_room()
    }

    /// The messages that queues did not take, whether or not those queues answer for themselves.
    pub(super) fn refusals(&self) -> Refusals<'_> {
        let mut by_item = self.not_taken.clone();
        by_item.sort_by_key(|it| it.item);
        Refusals { groups: &self.groups, by_item }
    }

    /// Shows each message with the names of its queues, in order.
    pub(crate) fn each_routed<S: Source>(
        &self,
        source: &S,
        mut show: impl FnMut(ChannelId, &MessageRef<'_>, &[Name]),
    ) {
        let mut queues: Vec<Vec<Name>> = vec![Vec::new(); self.pending.len()];
        for group in self.groups.all() {
            let Some(queue) = group.queue() else { continue };
            for item in &group.items {
                if let Some(names) = queues.get_mut(*item as usize) {
                    names.push(queue.def().name.clone());
                }
            }
        }
        for (publish, queues) in self.pending.iter().zip(&queues) {
            show(publish.channel, &publish.message(source).0, queues);
        }
    }

    /// Copies the messages, which are in their queues, to open taps. `vhost` is `None` for messages that
    /// their exchange has routed before: only taps of queues get these.
    #[inline]
    pub(crate) fn show<S: Source>(&self, tracing: &Tracing, vhost: Option<&str>, source: &S) {
        if let Some(taps) = tracing.taps() {
            taps.open().iter().for_each(|flow| show_to(self, flow, vhost, source));
        }
    }

    /// Refused messages that are to be dead-lettered.
    pub(crate) fn take_undelivered(&mut self) -> Vec<RejectedDeadLetters> {
        std::mem::take(&mut self.undelivered)
    }

    /// A queue that is still being read, so that nothing can be put in yet.
    pub(crate) fn loading(&self) -> Option<QueueRef> {
        self.groups.loading().cloned()
    }

    /// Whether one of the queues wants its publishers slowed down.
    pub(crate) fn is_slowed_down(&self) -> bool {
        self.groups.is_slowed_down()
    }

    /// Empties the batch; what it allocated stays for the next, unless a transaction was very large.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.pending.shrink_to(KEPT_PUBLISHES);
        self.groups.clear();
        self.noted = None;
        self.not_taken.clear();
        self.putting = Putting::default();
        self.any = Any::default();
    }
}

/// Copies the messages of a batch to an open tap.
#[cold]
fn show_to<S: Source>(batch: &Batch, flow: &Flow, vhost: Option<&str>, source: &S) {
    match &flow.of {
        Tapped::Queue(queue) => {
            let is_it = |group: &Group| group.queue().is_some_and(|it| it.id() == *queue);
            let Some(number) = batch.groups.all().iter().position(is_it) else { return };
            let items = batch.groups.all().get(number).map_or(&[][..], |group| &group.items);
            let is_taken = |item: &&u32| {
                let is_it = |it: &NotTaken| it.group == number && it.item == **item;
                !batch.not_taken.iter().any(is_it)
            };
            let taken = items.iter().filter(is_taken);
            let taken = taken.filter_map(|item| batch.pending.get(*item as usize));
            taken.for_each(|publish| flow.add(&publish.message(source).0));
        }
        Tapped::Exchange(of, name) if vhost == Some(of) => {
            let all = batch.pending.iter().map(|publish| publish.message(source).0);
            all.filter(|it| it.exchange == name.as_bytes()).for_each(|it| flow.add(&it));
        }
        Tapped::Exchange(..) => {}
    }
}

/// The queues of a batch that did not take messages.
pub(super) struct Refusals<'b> {
    groups: &'b Groups,
    /// The messages, by the index of the publish.
    by_item: Vec<NotTaken>,
}

impl Refusals<'_> {
    /// Whether a queue refused a publish for that reason.
    pub(super) fn any_for(&self, why: Refusal) -> bool {
        self.by_item.iter().any(|it| it.why == why)
    }

    /// The first queue that refused the publish of that index, with its reason.
    pub(super) fn of(&self, item: usize) -> Option<RefusedBy<'_>> {
        let first = self.by_item.partition_point(|it| (it.item as usize) < item);
        let it = self.by_item.get(first).filter(|it| it.item as usize == item)?;
        let queue = self.groups.all().get(it.group)?.queue()?;
        Some(RefusedBy { queue: queue.def().name.as_str(), why: it.why })
    }
}

impl Putting {
    /// Puts messages into a queue; returns those that it did not take and that are dead-lettered.
    fn put(
        &mut self,
        any: Any,
        portion: &Portion<'_>,
        messages: &mut [Incoming<'_>],
        wakes: &mut Wakes,
    ) -> Option<RejectedDeadLetters> {
        let Portion { queue, on_consume, items, is_last, .. } = *portion;
        let (group, mut refused) = (self.group, Vec::new());
        let of_queue = queue.publish(Publishes { messages, any, on_consume }, &mut refused, wakes);
        let logs_all = queue.def().kind.logs_transient();
        if (logs_all || !of_queue.journals.is_empty()) && self.apart.last() != Some(&self.group) {
            self.apart.push(self.group);
        }
        self.awaited.add(of_queue);
        (self.group, self.n_items) = match is_last {
            true => (self.group + 1, 0),
            false => (self.group, self.n_items + items.len()),
        };
        if refused.is_empty() {
            return None;
        }
        self.not_taken.extend(refused.iter().filter_map(|RefusedItem { item, why, .. }| {
            Some(NotTaken { group, item: *items.get(*item as usize)?, why: *why })
        }));
        dead_letters_of(queue.def(), &refused, messages)
    }
}

impl PendingPublish {
    /// The message with its overrides, and the place where its body is stored.
    #[inline]
    fn message<'a, S: Source>(
        &'a self,
        source: &'a S,
    ) -> (MessageRef<'a>, Option<&'a Arc<BodyHome>>) {
        let mut message = source.message(self.index);
        let Some(changed) = &self.changed else { return (message, None) };
        if let Some(properties) = &changed.properties {
            message.properties = properties;
        }
        if let Some(body) = &changed.body {
            message.body = Body::Shared(body);
        }
        (message, changed.home.as_ref())
    }

    /// Gives a message the properties that the queue of a delaying exchange is to have.
    fn hold_back<'a>(&'a self, incoming: &mut Incoming<'a>) {
        let changed = self.changed.as_ref();
        if let Some(properties) = changed.and_then(|it| it.properties_held_back.as_deref()) {
            incoming.message.properties = properties;
            // A home with properties has those of the other queues.
            incoming.home = incoming.home.filter(|home| home.properties().is_none());
        }
    }
}

/// An empty list of messages in the memory of another.
fn emptied<'b>(mut messages: Vec<Incoming<'_>>) -> Vec<Incoming<'b>> {
    messages.clear();
    messages.into_iter().map(|_| unreachable!("it is empty")).collect()
}
