//! The queue seam: a queue of any type, as everything but background work sees it. Each verb says what every
//! type of queue must be able to do; a new type is an arm of `each!` and of the matches.

use classic::{Consumer, Queue, Release, Returning};
use confirm::{DurabilityToken, Publisher};
use log::SegmentId;
use meta::{ConfirmOn, QueueDef, QueueId, State};
use queue::{AckMode, Return};
use queue_type::{
    AckTimeout, AfterDetach, Attach, AttachRefused, ChannelLimit, ConsumerView, DeleteConditions,
    Got, Owner, PendingConfirms, Publishes, QueueRefused, QueueStat, RefusedItem, Settled, Taker,
    Wakes,
};
use quorum::{QuorumInspection, QuorumQueue, WaitingPublishers};
use session::{ChannelId, Settle};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use stdx::Now;
use stream::Stream;

/// Asks the queue, consumer or release of whatever type. Where a type has an answer of its own, the match is
/// written out; there is never an arm for all others.
macro_rules! each {
    ($of:expr, $one:ident => $answer:expr) => {
        match $of {
            Self::Classic($one) => $answer,
            Self::Quorum($one) => $answer,
            Self::Stream($one) => $answer,
        }
    };
}

/// A queue of any type.
#[derive(Clone, Debug)]
pub enum QueueRef {
    /// A classic queue, of either version.
    Classic(Arc<Queue>),
    /// A quorum queue.
    Quorum(Arc<QuorumQueue>),
    /// A stream.
    Stream(Arc<Stream>),
}

impl QueueRef {
    /// The queue's definition.
    pub fn def(&self) -> &Arc<QueueDef> {
        each!(self, queue => queue.def())
    }

    /// The queue's id.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.def().id
    }

    /// The queue as a classic one: for background work, the delayed messages that operators list and cancel,
    /// and tests.
    pub const fn as_classic(&self) -> Option<&Arc<Queue>> {
        match self {
            Self::Classic(queue) => Some(queue),
            Self::Quorum(_) | Self::Stream(_) => None,
        }
    }

    /// Puts messages into the queue, in order; returns what must be durable before the persistent ones may be
    /// confirmed. A deleted queue takes messages silently.
    pub(crate) fn publish(
        &self,
        publishes: Publishes<'_, '_>,
        refused: &mut Vec<RefusedItem>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        match self {
            Self::Classic(queue) => queue.publish(publishes, refused, wakes),
            Self::Quorum(queue) => queue.publish(publishes, refused, wakes),
            Self::Stream(stream) => stream.publish(publishes.messages, refused, wakes),
        }
    }

    /// The event upon which the queue's publishes are confirmed.
    #[must_use]
    pub fn confirm_on(&self) -> ConfirmOn {
        match self {
            Self::Classic(queue) => queue.confirm_on(),
            Self::Quorum(queue) => WaitingPublishers::of(queue).confirm_on(),
            Self::Stream(_) => ConfirmOn::Enqueue,
        }
    }

    /// Whether the queue is still being read after a start: its clients wait for the end of that.
    pub fn is_loading(&self) -> bool {
        match self {
            Self::Classic(queue) => queue.is_loading(),
            Self::Quorum(_) | Self::Stream(_) => false,
        }
    }

    /// Resolves when the queue has its messages.
    pub async fn loaded(&self) {
        match self {
            Self::Classic(queue) => queue.loaded().await,
            Self::Quorum(_) | Self::Stream(_) => {}
        }
    }

    /// Whether a publisher should let the consumers have their turn.
    pub(crate) fn slows_down(&self) -> bool {
        match self {
            Self::Classic(queue) => queue.slows_down(),
            Self::Quorum(queue) => queue.slows_down(),
            Self::Stream(_) => false,
        }
    }

    /// Whether a consumer would be given the next message at once.
    pub(crate) fn takes_at_once(&self) -> bool {
        match self {
            Self::Classic(queue) => queue.takes_at_once(),
            Self::Quorum(_) | Self::Stream(_) => false,
        }
    }

    /// Attaches a consumer; the outbox is told before its first delivery.
    pub(crate) fn attach(&self, attach: Attach<'_>) -> Result<LinkRef, AttachRefused> {
        match self {
            Self::Classic(queue) => queue.attach(attach).map(LinkRef::Classic),
            Self::Quorum(queue) => queue.attach(attach).map(LinkRef::Quorum),
            // The consumer's start is looked up on the disk: other tasks go on meanwhile.
            Self::Stream(stream) => {
                tokio::task::block_in_place(|| stream.attach(attach)).map(LinkRef::Stream)
            }
        }
    }

    /// Attaches a link that gets only the messages it asks for (`basic.get`).
    pub(crate) fn attach_passive(
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
        }
    }

    /// Notes that the queue was declared again, which counts as use (`x-expires`).
    pub(crate) fn touch(&self) {
        match self {
            Self::Classic(queue) => queue.touch(),
            Self::Quorum(queue) => queue.touch(),
            Self::Stream(_) => {}
        }
    }

    /// Takes the settings that definitions give the queue, unless it has those of a later epoch.
    pub(crate) fn set_settings(&self, meta: &State, epoch: u64) {
        match self {
            Self::Classic(queue) => queue.set_settings(&meta.queue_settings(queue.def()), epoch),
            Self::Quorum(queue) => queue.set_settings(&meta.queue_settings(queue.def()), epoch),
            Self::Stream(stream) => {
                stream.set_settings(&meta::stream_settings(meta, stream.def()), epoch);
            }
        }
    }

    /// Drops every ready message; returns how many.
    pub(crate) fn purge(&self) -> Result<u64, QueueRefused> {
        match self {
            Self::Classic(queue) => Ok(queue.purge()),
            Self::Quorum(queue) => Ok(queue.purge()),
            Self::Stream(stream) => Err(stream.refuse_purge()),
        }
    }

    /// Marks the queue as about to be deleted if the conditions hold: it takes nothing from now on. Returns
    /// the number of ready messages that will go with it.
    pub(crate) fn begin_delete(&self, conditions: DeleteConditions) -> Result<u64, QueueRefused> {
        each!(self, queue => queue.begin_delete(conditions))
    }

    /// Drops everything and tells the consumers. The queue takes nothing from now on.
    pub(crate) fn delete(&self) {
        each!(self, queue => queue.delete())
    }

    /// The queue's figures as of the last operation.
    #[must_use]
    pub fn stat(&self) -> QueueStat {
        each!(self, queue => queue.stat())
    }

    /// The queue's consumers.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerView> {
        match self {
            Self::Classic(queue) => queue.inspect().consumers(),
            Self::Quorum(queue) => queue.consumers(),
            Self::Stream(stream) => stream.consumers(),
        }
    }

    /// Publishes that wait for the queue's consumers.
    #[must_use]
    pub fn pending_confirms(&self) -> PendingConfirms {
        match self {
            Self::Classic(queue) => queue.inspect().pending_confirms(),
            Self::Quorum(queue) => WaitingPublishers::of(queue).pending(),
            Self::Stream(_) => PendingConfirms::default(),
        }
    }

    /// The property `timestamp` of the queue's next message; `None` while the message is not in memory.
    #[must_use]
    pub fn head_timestamp(&self) -> Option<u64> {
        match self {
            Self::Classic(queue) => queue.inspect().head_timestamp(),
            Self::Quorum(queue) => queue.head_timestamp(),
            Self::Stream(_) => None,
        }
    }

    /// Adds up how many messages each channel holds.
    pub fn count_held(&self, held: &mut BTreeMap<Owner, u64>) {
        match self {
            Self::Classic(queue) => queue.inspect().count_held(held),
            Self::Quorum(queue) => queue.count_held(held),
            Self::Stream(stream) => stream.count_held(held),
        }
    }

    /// When this publisher's first publish came that still waits for consumers.
    pub(crate) fn pending_since_ms(&self, publisher: &Arc<Publisher>) -> Option<u64> {
        match self {
            Self::Classic(queue) => queue.inspect().pending_since_ms(publisher),
            Self::Quorum(queue) => WaitingPublishers::of(queue).pending_since_ms(publisher),
            Self::Stream(_) => None,
        }
    }

    /// Moves the queue's entries in `segment` of the log to the log's end.
    pub(crate) fn relocate(&self, segment: SegmentId) {
        match self {
            Self::Classic(queue) => queue.upkeep().relocate(segment),
            Self::Quorum(queue) => queue.relocate(segment),
            Self::Stream(_) => {}
        }
    }

    /// The channels that hold a message of the queue for too long.
    pub(crate) fn overdue(&self, node_timeout_ms: Option<u64>, now_ms: u64) -> Vec<AckTimeout> {
        match self {
            Self::Classic(queue) => queue.upkeep().overdue(node_timeout_ms, now_ms),
            Self::Quorum(queue) => queue.overdue(),
            // COMPAT: consumers of streams may take their time.
            Self::Stream(_) => Vec::new(),
        }
    }

    /// Whether the queue is deleted, or about to be.
    pub(crate) fn is_deleted(&self) -> bool {
        each!(self, queue => queue.is_deleted())
    }
}

/// A queue of any type that is asked why its messages stay.
#[derive(Clone, Copy, Debug)]
pub struct Diagnosis<'q>(pub &'q QueueRef);

impl Diagnosis<'_> {
    /// Notes for how long each channel has held its oldest message, at least; nothing of streams.
    pub fn note_held_ms(self, now: Now, held_ms: &mut BTreeMap<Owner, u64>) {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().note_held_ms(now.monotonic_ms, held_ms),
            QueueRef::Quorum(queue) => {
                QuorumInspection::of(queue).note_held_ms(now.unix_ms, held_ms);
            }
            QueueRef::Stream(_) => {}
        }
    }

    /// Whether nothing can be delivered before a page is read from disk.
    #[must_use]
    pub fn waits_for_page(self) -> bool {
        match self.0 {
            QueueRef::Classic(queue) => queue.inspect().waits_for_page(),
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).waits_for_page(),
            QueueRef::Stream(_) => false,
        }
    }

    /// Messages that came back and wait for their redelivery.
    #[must_use]
    pub fn n_delayed(self) -> u64 {
        match self.0 {
            QueueRef::Classic(_) | QueueRef::Stream(_) => 0,
            QueueRef::Quorum(queue) => QuorumInspection::of(queue).figures().n_delayed,
        }
    }
}

/// A consumer, or the taker of `basic.get`s of one channel, at a queue of any type.
#[derive(Clone, Debug)]
pub(crate) enum LinkRef {
    Classic(Consumer),
    Quorum(Arc<quorum::Consumer>),
    Stream(Arc<stream::Consumer>),
}

impl LinkRef {
    /// The link's queue. Not to be called for each message.
    pub(crate) fn queue(&self) -> QueueRef {
        match self {
            Self::Classic(consumer) => QueueRef::Classic(Arc::clone(&consumer.queue)),
            Self::Quorum(consumer) => QueueRef::Quorum(Arc::clone(&consumer.queue)),
            Self::Stream(consumer) => QueueRef::Stream(Arc::clone(&consumer.stream)),
        }
    }

    /// The definition of the link's queue.
    pub(crate) fn def(&self) -> &Arc<QueueDef> {
        match self {
            Self::Classic(consumer) => consumer.queue.def(),
            Self::Quorum(consumer) => consumer.queue.def(),
            Self::Stream(consumer) => consumer.stream.def(),
        }
    }

    /// The channel that the link belongs to.
    pub(crate) fn channel(&self) -> ChannelId {
        match self {
            Self::Classic(consumer) => consumer.channel,
            Self::Quorum(consumer) => consumer.channel,
            Self::Stream(consumer) => consumer.channel(),
        }
    }

    /// Whether a delivery over the link settles the message.
    pub(crate) fn is_no_ack(&self) -> bool {
        match self {
            Self::Classic(consumer) => consumer.is_no_ack(),
            Self::Quorum(consumer) => consumer.is_no_ack,
            Self::Stream(_) => false,
        }
    }

    /// Whether the link gets deliveries: it is neither cancelled nor one for `basic.get`.
    pub(crate) fn is_active(&self) -> bool {
        each!(self, consumer => consumer.is_active())
    }

    /// Whether both links are at one queue.
    pub(crate) fn is_at_queue_of(&self, other: &Self) -> bool {
        self.def().id == other.def().id
    }

    /// Gives the queue's next message to an outbox, if there is a message and it is in memory.
    pub(crate) fn get(&self, taker: Taker<'_>) -> Result<Got, AttachRefused> {
        match self {
            Self::Classic(consumer) => consumer.get(taker),
            Self::Quorum(consumer) => consumer.get(taker),
            Self::Stream(_) => Ok(Got::Nothing),
        }
    }

    /// Resolves when the queue's next message is in memory, or the queue has no message.
    pub(crate) async fn next_in_memory(&self) {
        match self {
            Self::Classic(consumer) => consumer.next_in_memory().await,
            Self::Quorum(consumer) => consumer.next_in_memory().await,
            Self::Stream(_) => {}
        }
    }

    /// Settles messages that were delivered over the link; unknown positions are passed over.
    pub(crate) fn settle(&self, settles: &[Settle], wakes: &mut Wakes) -> Settled {
        each!(self, consumer => consumer.settle(settles, wakes))
    }

    /// Tells a queue that keeps no record of the link's unacked messages that these are among them: the
    /// client has settled them, but the settlement has not been carried out.
    pub(crate) fn record(&self, positions: impl Iterator<Item = u64>) {
        match self {
            Self::Classic(consumer) => consumer.record(positions),
            Self::Quorum(_) | Self::Stream(_) => {}
        }
    }

    /// Ends the link's deliveries; its unacked messages stay with it. `told` runs after the last delivery.
    pub(crate) fn cancel(&mut self, told: impl FnOnce()) -> AfterDetach {
        each!(self, consumer => consumer.cancel(told))
    }

    /// Detaches the link if it gets no deliveries any more and has no unacked messages; returns whether it
    /// did.
    pub(crate) fn detach_idle(&self) -> bool {
        each!(self, consumer => consumer.detach_idle())
    }

    /// Changes the link's prefetch limit.
    pub(crate) fn set_prefetch(&self, prefetch: Option<u32>) {
        each!(self, consumer => consumer.set_prefetch(prefetch))
    }

    /// Makes the link one of those that share `limit`.
    pub(crate) fn limit(&self, limit: &Arc<ChannelLimit>) {
        match self {
            Self::Classic(consumer) => consumer.limit(limit),
            Self::Quorum(_) | Self::Stream(_) => {}
        }
    }

    /// Resumes deliveries, since the limit that the link shares has room again.
    pub(crate) fn resume_limited(&self) {
        match self {
            Self::Classic(consumer) => consumer.resume_limited(),
            Self::Quorum(_) | Self::Stream(_) => {}
        }
    }

    /// Resumes deliveries, since the link's connection can take them again.
    pub(crate) fn resume(&self) {
        each!(self, consumer => consumer.resume())
    }

    /// Begins to give messages back in several parts: the queue delivers nothing until the guard is dropped.
    pub(crate) fn begin_return(&self) -> ReturningRef {
        match self {
            Self::Classic(consumer) => {
                ReturningRef::Classic { _until_dropped: consumer.begin_return() }
            }
            Self::Quorum(_) | Self::Stream(_) => ReturningRef::Nobody,
        }
    }
}

/// A guard while messages come back to a queue in several parts: the queue delivers nothing until it is
/// dropped.
pub(crate) enum ReturningRef {
    Classic {
        _until_dropped: Returning,
    },
    /// No guard is needed: a stream gets no messages back, and a quorum queue puts them first in line anyway.
    Nobody,
}

/// The consumers of one channel at one queue, whose messages come back together.
#[derive(Debug)]
pub(crate) enum ReleaseRef {
    Classic(Release),
    Quorum(quorum::Release),
    Stream(stream::Release),
}

impl ReleaseRef {
    /// Collects consumers of one queue, with the positions that each keeps; `None` without consumers.
    pub(crate) fn of<'l>(links: impl Iterator<Item = (&'l LinkRef, HashSet<u64>)>) -> Option<Self> {
        let (mut classic, mut of_quorum, mut of_stream) = (Vec::new(), Vec::new(), Vec::new());
        for (link, kept) in links {
            match link {
                LinkRef::Classic(consumer) => classic.push((consumer, kept)),
                LinkRef::Quorum(consumer) => of_quorum.push((consumer, kept)),
                LinkRef::Stream(consumer) => of_stream.push(Arc::clone(consumer)),
            }
        }
        let classic = Release::of(classic.into_iter()).map(Self::Classic);
        let classic = classic.or_else(|| quorum::Release::of(of_quorum).map(Self::Quorum));
        classic.or_else(|| stream::Release::of(of_stream).map(Self::Stream))
    }

    /// The number of consumers.
    pub(crate) fn n_consumers(&self) -> usize {
        each!(self, release => release.n_consumers())
    }

    /// Whether the queue's consumers hold more than `n` messages.
    pub(crate) fn is_of_more_than(&self, n: usize) -> bool {
        match self {
            Self::Classic(release) => release.is_of_more_than(n),
            Self::Quorum(_) | Self::Stream(_) => false,
        }
    }

    /// Ends the deliveries of the last `n` consumers, and detaches those without unacked messages; `None`
    /// when all consumers were retired.
    pub(crate) fn retire(&mut self, n: usize) -> Option<AfterDetach> {
        each!(self, release => release.retire(n))
    }

    /// Gives back up to `n` of the messages that the consumers do not keep; returns how many there were.
    pub(crate) fn give_back(&mut self, n: usize, how: Return) -> usize {
        match self {
            Self::Classic(release) => release.give_back(n, how),
            Self::Quorum(_) | Self::Stream(_) => 0,
        }
    }

    /// Requeues everything that the consumers hold, except what each keeps; the consumers stay attached.
    pub(crate) fn requeue_all(self) {
        match self {
            Self::Classic(release) => release.requeue_all(),
            Self::Quorum(release) => release.requeue_all(),
            Self::Stream(release) => release.settle_all(),
        }
    }

    /// Detaches the consumers and gives back what they hold, before another consumer gets any of it.
    pub(crate) fn detach(self) -> AfterDetach {
        each!(self, release => release.detach())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions keep a `LinkRef` for each consumer.
    #[test]
    fn a_link_is_small() {
        assert!(size_of::<LinkRef>() <= 16, "{}", size_of::<LinkRef>());
    }
}
