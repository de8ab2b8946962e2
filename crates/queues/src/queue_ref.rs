//! A queue of any type. Each verb says what every type of queue must be able to do.
//!
//! Verbs with an answer are awaited, although the queues of this node answer at once: a caller holds no lock
//! meanwhile, and then looks again at what may have changed. Nothing stays attached for a caller that gives
//! up before the answer. Publishing and settling wait for nothing.

use classic::{Consumer, Queue, Release, Returning};
use confirm::{DurabilityToken, Publisher};
use content::PagedQueue;
use log::SegmentId;
use meta::{ConfirmOn, Name, QueueDef, QueueId, State};
use queue::{AckMode, Return};
use queue_type::{
    AckTimeout, AfterDetach, Attach, AttachRefused, ChannelLimit, ConsumerView, DeleteConditions,
    Got, Holder, Owner, PendingConfirms, PickedMessage, Publishes, QueueRefused, QueueStat,
    RefusedItem, Settled, TakenConfirm, Taker, Wakes,
};
use quorum::{LogFigures, QuorumInspection, QuorumQueue, WaitingPublishers};
use remote::{RemoteConsumer, RemoteQueue};
use session::{ChannelId, CreditRequest, MessageChanges, Settle};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use stdx::{MonotonicMs, Now};
use stream::Stream;

/// Asks the consumer or release of whatever type, or the queue of this node or another. Where a type has an
/// answer of its own, the match is written out; there is never an arm for all others.
macro_rules! each {
    ($of:expr, $one:ident => $answer:expr $(, $remote:ident => $of_remote:expr)?) => {
        match $of {
            Self::Classic($one) => $answer,
            Self::Quorum($one) => $answer,
            Self::Stream($one) => $answer,
            $(Self::Remote($remote) => $of_remote,)?
        }
    };
}

/// As `each!` for what only classic queues of this node do, and an answer for the others.
macro_rules! classic {
    ($of:expr, $one:ident => $answer:expr, $other:expr $(, or $remote:ident)?) => {
        match $of {
            Self::Classic($one) => $answer,
            Self::Quorum(_) | Self::Stream(_) $(| Self::$remote(_))? => $other,
        }
    };
}

/// A queue of any type, and of any node.
#[derive(Clone, Debug)]
pub enum QueueRef {
    /// A classic queue, of either version.
    Classic(Arc<Queue>),
    /// A quorum queue.
    Quorum(Arc<QuorumQueue>),
    /// A stream.
    Stream(Arc<Stream>),
    /// A queue of whatever type whose messages are on another node.
    Remote(Arc<RemoteQueue>),
}

impl QueueRef {
    /// The queue's definition.
    pub fn def(&self) -> &Arc<QueueDef> {
        each!(self, queue => queue.def(), remote => remote.def())
    }

    /// The queue's id.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.def().id
    }

    /// The queue as a classic one of this node: for background work, the delayed messages that operators list
    /// and cancel, and tests.
    pub const fn as_classic(&self) -> Option<&Arc<Queue>> {
        classic!(self, queue => Some(queue), None, or Remote)
    }

    /// The queue as a quorum queue of this node: for background work, and for what only quorum queues have.
    pub const fn as_quorum(&self) -> Option<&Arc<QuorumQueue>> {
        match self {
            Self::Quorum(queue) => Some(queue),
            Self::Classic(_) | Self::Stream(_) | Self::Remote(_) => None,
        }
    }

    /// The queue as one of another node.
    pub const fn as_remote(&self) -> Option<&Arc<RemoteQueue>> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::Classic(_) | Self::Quorum(_) | Self::Stream(_) => None,
        }
    }

    /// The queue as a stream of this node: for background work, and for what only streams have.
    pub const fn as_stream(&self) -> Option<&Arc<Stream>> {
        match self {
            Self::Stream(stream) => Some(stream),
            Self::Classic(_) | Self::Quorum(_) | Self::Remote(_) => None,
        }
    }

    /// Puts messages into the queue, in order; returns what must be durable before the persistent ones may be
    /// confirmed. A deleted queue takes messages silently.
    pub fn publish(
        &self,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        match self {
            Self::Classic(queue) => queue.publish(publishes, refused, wakes),
            Self::Quorum(queue) => queue.publish(publishes, refused, wakes),
            Self::Stream(stream) => stream.publish(publishes.messages, refused, wakes),
            Self::Remote(remote) => remote.publish(&publishes, refused),
        }
    }

    /// The event upon which the queue's publishes are confirmed.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        match self {
            Self::Classic(queue) => queue.confirm_on(),
            Self::Quorum(queue) => WaitingPublishers::of(queue).confirm_on(),
            Self::Stream(_) => ConfirmOn::Enqueue,
            Self::Remote(remote) => remote.confirm_on(),
        }
    }

    /// Whether the queue is still being read after a start: its clients wait for the end of that.
    pub fn is_loading(&self) -> bool {
        classic!(self, queue => queue.is_loading(), false, or Remote)
    }

    /// Resolves when the queue has its messages.
    pub async fn loaded(&self) {
        classic!(self, queue => queue.loaded().await, {}, or Remote)
    }

    /// Whether a publisher should let the consumers have their turn.
    pub fn slows_down(&self) -> bool {
        match self {
            Self::Classic(queue) => queue.slows_down(),
            Self::Quorum(queue) => queue.slows_down(),
            Self::Stream(_) => false,
            Self::Remote(remote) => remote.slows_down(),
        }
    }

    /// Whether a consumer would be given the next message at once.
    pub fn takes_at_once(&self) -> bool {
        classic!(self, queue => queue.takes_at_once(), false, or Remote)
    }

    /// Attaches a consumer; the outbox is told before its first delivery.
    pub async fn attach(&self, attach: Attach<'_>) -> Result<LinkRef, AttachRefused> {
        match self {
            Self::Classic(queue) => queue.attach(attach).map(LinkRef::Classic),
            Self::Quorum(queue) => queue.attach(attach).map(LinkRef::Quorum),
            // The consumer's start is looked up on the disk: other tasks go on meanwhile.
            Self::Stream(stream) => {
                tokio::task::block_in_place(|| stream.attach(attach)).map(LinkRef::Stream)
            }
            // Boxed, as all that waits for another node: sessions at queues of this one stay small.
            Self::Remote(remote) => Box::pin(remote.attach(attach)).await.map(LinkRef::Remote),
        }
    }

    /// Attaches a link that gets only the messages it asks for (`basic.get`).
    pub async fn attach_passive(
        &self,
        owner: Owner,
        settling: AckMode,
        node_timeout_ms: Option<u64>,
    ) -> Result<LinkRef, AttachRefused> {
        match self {
            Self::Classic(queue) => queue.attach_passive(owner, settling).map(LinkRef::Classic),
            Self::Quorum(queue) => {
                queue.attach_passive(owner, settling, node_timeout_ms).map(LinkRef::Quorum)
            }
            Self::Stream(stream) => Err(stream.refuse_get()),
            Self::Remote(remote) => {
                let attached = remote.attach_passive(owner, settling, node_timeout_ms);
                Box::pin(attached).await.map(LinkRef::Remote)
            }
        }
    }

    /// Notes that the queue was declared again, which counts as use (`x-expires`).
    pub fn touch(&self) {
        match self {
            Self::Classic(queue) => queue.touch(),
            Self::Quorum(queue) => queue.touch(),
            Self::Stream(_) => {}
            Self::Remote(remote) => remote.touch(),
        }
    }

    /// Takes the settings that definitions give the queue, unless it has those of a later epoch.
    pub fn set_settings(&self, meta: &State, epoch: u64) {
        match self {
            Self::Classic(queue) => queue.set_settings(&meta.queue_settings(queue.def()), epoch),
            Self::Quorum(queue) => queue.set_settings(&meta.queue_settings(queue.def()), epoch),
            Self::Stream(stream) => {
                stream.set_settings(&meta::stream_settings(meta, stream.def()), epoch);
            }
            Self::Remote(remote) => {
                remote.set_confirm_on(meta.queue_settings(remote.def()).confirm.on);
            }
        }
    }

    /// Drops every ready message; returns how many.
    pub async fn purge(&self) -> Result<u64, QueueRefused> {
        match self {
            Self::Classic(queue) => Ok(queue.purge()),
            Self::Quorum(queue) => Ok(queue.purge()),
            Self::Stream(stream) => Err(stream.refuse_purge()),
            Self::Remote(remote) => Box::pin(remote.purge()).await,
        }
    }

    /// Marks the queue as about to be deleted if the conditions hold: it takes nothing from now on. Returns
    /// the number of ready messages that will go with it.
    pub async fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        each!(self, queue => queue.begin_delete(conditions), remote => Box::pin(remote.begin_delete(conditions)).await)
    }

    /// Drops everything and tells the consumers. The queue takes nothing from now on.
    pub fn delete(&self) {
        each!(self, queue => queue.delete(), remote => remote.delete())
    }

    /// The queue's figures as a client or an operator is told of them who asks for something of this queue.
    pub async fn stat(&self) -> Result<QueueStat, QueueRefused> {
        each!(self, queue => Ok(queue.stat()), remote => Box::pin(remote.stat()).await)
    }

    /// The queue's consumers, for an operation on them.
    pub async fn consumers(&self) -> Result<Vec<ConsumerView>, QueueRefused> {
        match self {
            Self::Classic(_) | Self::Quorum(_) | Self::Stream(_) => Ok(self.local_consumers()),
            Self::Remote(remote) => Err(remote.refuse()),
        }
    }

    /// The node's own figures of the queue as of the last operation: for listings, metrics and the tick,
    /// whose answers are merged where there are several nodes. Those of another node's queue are all 0.
    #[must_use]
    pub fn local_stat(&self) -> QueueStat {
        each!(self, queue => queue.stat(), _remote => QueueStat::default())
    }

    /// The queue's consumers as this node's own listings show them.
    #[must_use]
    pub fn local_consumers(&self) -> Vec<ConsumerView> {
        match self {
            Self::Classic(queue) => queue.inspect().consumers(),
            Self::Quorum(queue) => queue.consumers(),
            Self::Stream(stream) => stream.consumers(),
            Self::Remote(_) => Vec::new(),
        }
    }

    /// Whether the queue is deleted, or about to be.
    pub fn is_deleted(&self) -> bool {
        each!(self, queue => queue.is_deleted(), remote => remote.is_deleted())
    }
}

macro_rules! from {
    ($($variant:ident($queue:ty)),*) => {
        $(impl From<Arc<$queue>> for QueueRef {
            fn from(queue: Arc<$queue>) -> Self {
                Self::$variant(queue)
            }
        })*
    };
}

from!(Classic(Queue), Quorum(QuorumQueue), Stream(Stream), Remote(RemoteQueue));

/// A consumer, or the taker of `basic.get`s of one channel, at a queue of any type.
#[derive(Clone, Debug)]
pub enum LinkRef {
    /// A consumer of a classic queue.
    Classic(Consumer),
    /// A consumer of a quorum queue.
    Quorum(Arc<quorum::Consumer>),
    /// A consumer of a stream.
    Stream(Arc<stream::Consumer>),
    /// A consumer of a queue of another node.
    Remote(Arc<RemoteConsumer>),
}

impl LinkRef {
    /// The link's queue. Not to be called for each message.
    pub fn queue(&self) -> QueueRef {
        match self {
            Self::Classic(consumer) => Arc::clone(&consumer.queue).into(),
            Self::Quorum(consumer) => Arc::clone(&consumer.queue).into(),
            Self::Stream(consumer) => Arc::clone(&consumer.stream).into(),
            Self::Remote(consumer) => Arc::clone(consumer.queue()).into(),
        }
    }

    /// The definition of the link's queue.
    pub fn def(&self) -> &Arc<QueueDef> {
        match self {
            Self::Classic(consumer) => consumer.queue.def(),
            Self::Quorum(consumer) => consumer.queue.def(),
            Self::Stream(consumer) => consumer.stream.def(),
            Self::Remote(consumer) => consumer.queue().def(),
        }
    }

    /// The channel that the link belongs to.
    pub fn channel(&self) -> ChannelId {
        match self {
            Self::Classic(consumer) => consumer.channel,
            Self::Quorum(consumer) => consumer.channel,
            Self::Stream(consumer) => consumer.channel(),
            Self::Remote(consumer) => consumer.channel(),
        }
    }

    /// Whether a delivery over the link settles the message.
    pub fn is_no_ack(&self) -> bool {
        match self {
            Self::Classic(consumer) => consumer.is_no_ack(),
            Self::Quorum(consumer) => consumer.is_no_ack,
            Self::Stream(_) => false,
            Self::Remote(consumer) => consumer.is_no_ack(),
        }
    }

    /// Whether the link gets deliveries: it is neither cancelled nor one for `basic.get`.
    pub fn is_active(&self) -> bool {
        each!(self, consumer => consumer.is_active(), remote => remote.is_active())
    }

    /// Whether the link is one to another node that has forgotten it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        each!(self, _consumer => false, remote => remote.is_lost())
    }

    /// Whether both links are at one queue.
    pub fn is_at_queue_of(&self, other: &Self) -> bool {
        self.def().id == other.def().id
    }

    /// Gives the queue's next message to an outbox, if there is a message and it is in memory.
    pub async fn get(&self, taker: Taker<'_>) -> Result<Got, AttachRefused> {
        match self {
            Self::Classic(consumer) => consumer.get(taker),
            Self::Quorum(consumer) => consumer.get(taker),
            Self::Stream(_) => Ok(Got::Nothing),
            Self::Remote(consumer) => Box::pin(consumer.get(taker)).await,
        }
    }

    /// Resolves when the queue's next message is in memory, or the queue has no message.
    pub async fn next_in_memory(&self) {
        match self {
            Self::Classic(consumer) => consumer.next_in_memory().await,
            Self::Quorum(consumer) => consumer.next_in_memory().await,
            Self::Stream(_) | Self::Remote(_) => {}
        }
    }

    /// Settles messages that were delivered over the link; unknown positions are passed over.
    pub fn settle(&self, settles: &[Settle], wakes: &mut Wakes) -> Settled {
        each!(self, consumer => consumer.settle(settles, wakes), remote => remote.settle(settles, None))
    }

    /// Settles messages as [`LinkRef::settle`] does, with one outcome, and changes them. COMPAT: only quorum
    /// queues keep changes.
    pub fn modify(
        &self,
        settles: &[Settle],
        changes: &MessageChanges,
        wakes: &mut Wakes,
    ) -> Settled {
        match self {
            Self::Quorum(consumer) => {
                consumer.modify(settles, changes, wakes);
                Settled::All
            }
            Self::Remote(consumer) => consumer.settle(settles, Some(changes)),
            Self::Classic(_) | Self::Stream(_) => self.settle(settles, wakes),
        }
    }

    /// Tells a queue that keeps no record of the link's unacked messages that these are among them: the
    /// client has settled them, but the settlement has not been carried out.
    pub fn record(&self, positions: impl Iterator<Item = u64>) {
        classic!(self, consumer => consumer.record(positions), {}, or Remote)
    }

    /// Ends the link's deliveries; its unacked messages stay with it. `told` runs after the last delivery.
    pub async fn cancel(&mut self, told: impl FnOnce()) -> AfterDetach {
        each!(self, consumer => consumer.cancel(told), remote => {
            Box::pin(remote.cancel()).await;
            told();
            AfterDetach::Stays
        })
    }

    /// Detaches the link if it gets no deliveries any more and has no unacked messages; returns whether it
    /// did.
    pub fn detach_idle(&self) -> bool {
        each!(self, consumer => consumer.detach_idle(), remote => remote.detach_idle())
    }

    /// Changes the link's prefetch limit.
    pub fn set_prefetch(&self, prefetch: Option<u32>) {
        each!(self, consumer => consumer.set_prefetch(prefetch), remote => remote.set_prefetch(prefetch))
    }

    /// Takes the link's credit as its client sees it.
    pub fn flow(&self, request: &CreditRequest) {
        each!(self, consumer => consumer.flow(request), remote => remote.flow(request))
    }

    /// Makes the link one of those that share `limit`.
    pub fn limit(&self, limit: &Arc<ChannelLimit>) {
        classic!(self, consumer => consumer.limit(limit), {}, or Remote)
    }

    /// Resumes deliveries, since the limit that the link shares has room again.
    pub fn resume_limited(&self) {
        classic!(self, consumer => consumer.resume_limited(), {}, or Remote)
    }

    /// Resumes deliveries, since the link's connection can take them again. Returns the steps of a filter of
    /// messages that this took.
    pub fn resume(&self) -> usize {
        match self {
            Self::Classic(consumer) => consumer.resume(),
            Self::Quorum(consumer) => consumer.resume(),
            Self::Stream(consumer) => return consumer.resume(),
            Self::Remote(consumer) => consumer.resume(),
        }
        0
    }

    /// Begins to give messages back in several parts: the queue delivers nothing until the guard is dropped.
    pub fn begin_return(&self) -> ReturningRef {
        match self {
            Self::Classic(consumer) => {
                ReturningRef::Classic { _until_dropped: consumer.begin_return() }
            }
            Self::Quorum(_) | Self::Stream(_) | Self::Remote(_) => ReturningRef::Nobody,
        }
    }
}

/// A guard while messages come back to a queue in several parts: the queue delivers nothing until it is
/// dropped.
#[derive(Debug)]
pub enum ReturningRef {
    /// The guard of a classic queue.
    Classic {
        /// Held until it is dropped.
        _until_dropped: Returning,
    },
    /// No guard is needed: a stream gets no messages back, and a quorum queue puts them first in line anyway.
    Nobody,
}

/// The consumers of one channel at one queue, whose messages come back together.
#[derive(Debug)]
pub enum ReleaseRef {
    /// Consumers of a classic queue.
    Classic(Release),
    /// Consumers of a quorum queue.
    Quorum(quorum::Release),
    /// Consumers of a stream.
    Stream(stream::Release),
    /// Consumers of a queue of another node.
    Remote(remote::RemoteRelease),
}

impl ReleaseRef {
    /// Collects consumers of one queue, with the positions that each keeps; `None` without consumers.
    pub fn of<'l>(links: impl Iterator<Item = (&'l LinkRef, HashSet<u64>)>) -> Option<Self> {
        let (mut classic, mut of_quorum) = (Vec::new(), Vec::new());
        let (mut of_stream, mut of_remote) = (Vec::new(), Vec::new());
        for (link, kept) in links {
            match link {
                LinkRef::Classic(consumer) => classic.push((consumer, kept)),
                LinkRef::Quorum(consumer) => of_quorum.push((consumer, kept)),
                LinkRef::Stream(consumer) => of_stream.push(Arc::clone(consumer)),
                LinkRef::Remote(consumer) => of_remote.push((consumer, kept)),
            }
        }
        let classic = Release::of(classic.into_iter()).map(Self::Classic);
        let classic =
            classic.or_else(|| quorum::Release::of(of_quorum.into_iter()).map(Self::Quorum));
        let local = classic.or_else(|| stream::Release::of(of_stream).map(Self::Stream));
        local.or_else(|| remote::RemoteRelease::of(of_remote.into_iter()).map(Self::Remote))
    }

    /// The number of consumers.
    pub fn n_consumers(&self) -> usize {
        each!(self, release => release.n_consumers(), remote => remote.n_consumers())
    }

    /// Whether the queue's consumers hold more than `n` messages.
    pub fn is_of_more_than(&self, n: usize) -> bool {
        classic!(self, release => release.is_of_more_than(n), false, or Remote)
    }

    /// Ends the deliveries of the last `n` consumers, and detaches those without unacked messages; `None`
    /// when all consumers were retired.
    pub fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        each!(self, release => release.retire(n), _remote => None)
    }

    /// Gives back up to `n` of the messages that the consumers do not keep; returns how many there were.
    pub fn give_back(&mut self, n: usize, how: Return) -> usize {
        classic!(self, release => release.give_back(n, how), 0, or Remote)
    }

    /// Requeues everything that the consumers hold, except what each keeps; the consumers stay attached.
    pub fn requeue_all(self) {
        match self {
            Self::Classic(release) => release.requeue_all(),
            Self::Quorum(release) => release.requeue_all(),
            Self::Stream(release) => release.settle_all(),
            Self::Remote(release) => release.requeue_all(),
        }
    }

    /// Detaches the consumers and gives back what they hold, before another consumer gets any of it.
    /// COMPAT: to classic queues always as failed, whatever `how` says.
    pub fn detach(self, how: Return) -> AfterDetach {
        match self {
            Self::Classic(release) => release.detach(),
            Self::Quorum(release) => release.detach(how),
            Self::Stream(release) => release.detach(),
            Self::Remote(release) => {
                release.detach(how);
                AfterDetach::Stays
            }
        }
    }
}

/// A queue of any type whose node looks after it, now and then.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep<'q>(pub &'q QueueRef);

impl Upkeep<'_> {
    /// Moves the queue's entries in `segment` of the log to the log's end.
    pub fn relocate(self, segment: SegmentId) {
        match self.0 {
            QueueRef::Classic(queue) => queue.upkeep().relocate(segment),
            QueueRef::Quorum(queue) => queue.relocate(segment),
            QueueRef::Stream(_) | QueueRef::Remote(_) => {}
        }
    }

    /// The channels that hold a message of the queue for too long.
    pub fn overdue(self, node_timeout_ms: Option<u64>, now_ms: MonotonicMs) -> Vec<AckTimeout> {
        match self.0 {
            QueueRef::Classic(queue) => queue.upkeep().overdue(node_timeout_ms, now_ms),
            QueueRef::Quorum(queue) => queue.overdue(),
            // COMPAT: consumers of streams may take their time.
            QueueRef::Stream(_) | QueueRef::Remote(_) => Vec::new(),
        }
    }
}

/// A queue of any type that is asked for figures, and why its messages stay.
#[derive(Clone, Copy, Debug)]
pub struct Diagnosis<'q>(pub &'q QueueRef);

impl<'q> Diagnosis<'q> {
    /// The name of the other node that has the queue's messages; `None` if this node has them.
    #[must_use]
    pub fn home(self) -> Option<&'q Name> {
        match self.0 {
            QueueRef::Remote(remote) => Some(remote.home_name()),
            QueueRef::Classic(_) | QueueRef::Quorum(_) | QueueRef::Stream(_) => None,
        }
    }

    /// Notes for how long each channel has held its oldest message, at least; nothing of streams.
    pub fn note_held_ms(self, now: Now, held_ms: &mut BTreeMap<Owner, u64>) {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().note_held_ms(now.monotonic_ms, held_ms),
            QueueRef::Quorum(queue) => {
                QuorumInspection::of(queue).note_held_ms(now.unix_ms, held_ms);
            }
            QueueRef::Stream(_) | QueueRef::Remote(_) => {}
        }
    }

    /// Whether nothing can be delivered before a page is read from disk.
    #[must_use]
    pub fn waits_for_page(self) -> bool {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().waits_for_page(),
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).waits_for_page(),
            QueueRef::Stream(_) | QueueRef::Remote(_) => false,
        }
    }

    /// Messages that came back and wait for their redelivery.
    #[must_use]
    pub fn n_delayed(self) -> u64 {
        match self.0 {
            QueueRef::Classic(_) | QueueRef::Stream(_) | QueueRef::Remote(_) => 0,
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).figures().n_delayed,
        }
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(self, held: &mut BTreeMap<Owner, u64>) {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().count_held(held),
            QueueRef::Quorum(queue) => queue.count_held(held),
            QueueRef::Stream(stream) => stream.count_held(held),
            QueueRef::Remote(_) => {}
        }
    }

    /// When this publisher's first publish came that still waits for consumers.
    pub fn pending_since_ms(self, publisher: &Arc<Publisher>) -> Option<MonotonicMs> {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().pending_since_ms(publisher),
            QueueRef::Quorum(queue) => WaitingPublishers::of(queue).pending_since_ms(publisher),
            QueueRef::Stream(_) | QueueRef::Remote(_) => None,
        }
    }

    /// The queue's commands in the log; nothing of classic queues and streams.
    #[must_use]
    pub fn log_figures(self) -> LogFigures {
        match self.0 {
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).log_figures(),
            QueueRef::Classic(_) | QueueRef::Stream(_) | QueueRef::Remote(_) => {
                LogFigures::default()
            }
        }
    }

    /// Publishes that wait for the queue's consumers.
    #[must_use]
    pub fn pending_confirms(self) -> PendingConfirms {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().pending_confirms(),
            QueueRef::Quorum(queue) => WaitingPublishers::of(queue).pending(),
            QueueRef::Stream(_) | QueueRef::Remote(_) => PendingConfirms::default(),
        }
    }

    /// The property `timestamp` of the queue's next message; `None` while the message is not in memory.
    #[must_use]
    pub fn head_timestamp(self) -> Option<u64> {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().head_timestamp(),
            QueueRef::Quorum(queue) => queue.head_timestamp(),
            QueueRef::Stream(_) | QueueRef::Remote(_) => None,
        }
    }

    /// Forgets that the queue's figures have changed, since they are about to be read.
    pub fn clear_used(self) {
        match self.0 {
            QueueRef::Classic(queue) => queue.clear_used(),
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).clear_used(),
            QueueRef::Stream(_) | QueueRef::Remote(_) => {}
        }
    }
}

/// The messages of a queue of any type, to be browsed, removed and sent on.
#[derive(Clone, Copy, Debug)]
pub struct QueueContents<'q>(pub &'q QueueRef);

impl QueueContents<'_> {
    /// Takes the publishers that wait until the messages at `positions` are consumed, in their order.
    #[must_use]
    pub fn take_confirms(self, positions: &[u64]) -> Vec<TakenConfirm> {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().take_confirms(positions),
            QueueRef::Quorum(queue) => WaitingPublishers::of(queue).take(positions),
            QueueRef::Stream(_) | QueueRef::Remote(_) => Vec::new(),
        }
    }

    /// Puts back publishers that were taken by [`QueueContents::take_confirms`], by position.
    pub fn put_back_confirms(self, confirms: &[TakenConfirm]) {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().put_back_confirms(confirms),
            QueueRef::Quorum(queue) => WaitingPublishers::of(queue).put_back(confirms),
            QueueRef::Stream(_) | QueueRef::Remote(_) => {}
        }
    }

    /// Drops the ready ones among messages, whose positions rise; returns how many. The positions of the
    /// others are `stayed`. A stream keeps its messages.
    #[must_use]
    pub fn remove(self, messages: &[PickedMessage], stayed: &mut Vec<u64>) -> u64 {
        match self.0 {
            QueueRef::Classic(queue) => queue.remove(messages, stayed),
            QueueRef::Quorum(queue) => {
                let positions: Vec<u64> = messages.iter().map(|it| it.position).collect();
                QuorumInspection::of(queue).remove(&positions, stayed)
            }
            QueueRef::Stream(_) | QueueRef::Remote(_) => 0,
        }
    }

    /// The place from which the queue's messages are browsed.
    #[must_use]
    pub fn browsable(self) -> Browsable {
        match self.0 {
            QueueRef::Classic(queue) => Browsable::Paged(Arc::<Queue>::clone(queue)),
            QueueRef::Quorum(queue) => Browsable::Paged(Arc::<QuorumQueue>::clone(queue)),
            QueueRef::Stream(stream) => Browsable::Stream(Arc::clone(stream)),
            QueueRef::Remote(remote) => Browsable::HomeDown(remote.explanation()),
        }
    }

    /// The holders of the messages at these positions, as far as the queue has a record of them.
    #[must_use]
    pub fn holders(self, positions: &BTreeSet<u64>) -> Vec<Holder> {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().holders(positions),
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).holders(positions),
            QueueRef::Stream(_) | QueueRef::Remote(_) => Vec::new(),
        }
    }
}

/// The messages of a queue, as a browser reads them.
#[derive(Debug)]
pub enum Browsable {
    /// Messages by position, on pages.
    Paged(Arc<dyn PagedQueue>),
    /// Messages by offset, in chunks.
    Stream(Arc<Stream>),
    /// The messages are on a node that is down: the explanation.
    HomeDown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions keep a `LinkRef` for each consumer.
    #[test]
    fn a_link_is_small() {
        assert!(size_of::<LinkRef>() <= 16, "{}", size_of::<LinkRef>());
    }

    /// Routes that sessions remember keep a `QueueRef` for each queue.
    #[test]
    fn a_queue_is_small() {
        assert!(size_of::<QueueRef>() <= 16, "{}", size_of::<QueueRef>());
    }
}
