//! The node as its queues know it: asked to call them when it is time, to send dead letters, to trace
//! deliveries. Queues know no exchanges, definitions or connections.

use crate::{
    AfterDetach, AwaitedLetters, DeadLetter, DeadLetterTo, Owner, RejectedDeadLetters, TriedLetter,
};
use message::MessageRef;
use meta::{QueueDef, QueueId};
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::task::Waker;
use stdx::{MonotonicMs, TimeScale, UnixMs};

/// The change of a queue's alarm, on the clock that its time is of.
#[derive(Clone, Copy, Debug)]
pub enum AlarmChange {
    /// An alarm for messages.
    Unix(AlarmTimes<UnixMs>),
    /// An alarm for an unused queue, or for publishes that wait for consumers.
    Monotonic(AlarmTimes<MonotonicMs>),
}

/// A queue's alarm, before and from now on.
#[derive(Clone, Copy, Debug)]
pub struct AlarmTimes<T> {
    /// Until now; none if there was none.
    pub before: Option<T>,
    /// From now on; none if there is to be none.
    pub at: Option<T>,
}

/// Dead letters to be sent.
pub struct LetterBatch {
    /// Target of the letters.
    pub to: Arc<DeadLetterTo>,
    /// The letters, in order.
    pub letters: Vec<DeadLetter>,
    /// Number of messages in the batch, with those that were lost meanwhile.
    pub n_positions: u64,
    /// Letters that stay in the queue until all their targets have them; none if letters leave when they are
    /// sent.
    pub awaited: Option<AwaitedLetters>,
}

/// A delivery to a channel, for traces.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// Whether the message was given to a consumer before.
    pub redelivered: bool,
    /// Position that the consumer is to settle; none if the delivery settles it.
    pub position: Option<u64>,
}

/// The node as its queues know it. Some calls come under a queue's lock, so the node takes no lock of a
/// queue.
pub trait QueueHost: Debug + Send + Sync {
    /// Whether publishers may go on, as the node has not too many dead letters to send.
    fn has_capacity(&self) -> bool;

    /// Returns true if there is capacity now; otherwise `waker` is woken when there is.
    #[must_use = "false means: wait to be woken"]
    fn poll_capacity(&self, waker: &Waker) -> bool;

    /// Has [`RuledQueue::on_time`] called at the new time instead of at the one before.
    fn set_alarm(&self, queue: Weak<dyn RuledQueue>, id: QueueId, change: AlarmChange);

    /// Sends a queue's dead letters soon. The queue sees to it that it asks once.
    fn send_letters_of(&self, queue: Arc<dyn RuledQueue>);

    /// Sends letters that are in no queue.
    fn send_rejected(&self, letters: RejectedDeadLetters);

    /// Notes that a queue has been read after a start: letters may go there.
    fn queue_loaded(&self);

    /// Resumes work that waited for space on the disk.
    fn space_is_back(&self);

    /// Whether deliveries are traced: cheap to ask.
    fn is_traced(&self) -> bool;

    /// Takes note of a message that was given to a channel just now, if it is traced.
    fn trace_delivery(
        &self,
        queue: &Arc<QueueDef>,
        to: Owner,
        given: Given,
        message: &MessageRef<'_>,
    );
}

/// Limits of the dead letters that are copied together.
#[derive(Clone, Copy, Debug)]
pub struct LetterLimits {
    /// Number of letters.
    pub n_max: usize,
    /// Bytes of letters, above which no other is copied.
    pub bytes_max: usize,
}

/// A queue as the thread of rules knows it.
pub trait RuledQueue: Debug + Send + Sync {
    /// Definition of the queue.
    fn def(&self) -> &Arc<QueueDef>;

    /// Carries out everything that is due by now. To be called when the alarm comes.
    #[must_use]
    fn on_time(&self, scale: TimeScale) -> AfterDetach;

    /// The first dead letters, about so many. They stay until [`RuledQueue::letters_left`] says that they
    /// are elsewhere. None if there are none for now; then it asks again.
    fn first_letters(&self, limits: LetterLimits) -> Option<LetterBatch>;

    /// Removes the first `n` dead letters, which are where they should be.
    fn letters_left(&self, n: u64);

    /// Notes where awaited letters that were tried have arrived. For a queue with awaited letters only.
    fn letters_tried(&self, _: Vec<TriedLetter>) {}

    /// Lets the dead letters wait for space: they need not be in memory until they are asked for again.
    fn letters_wait_for_space(&self);

    /// Keeps letters that were not sent where they are; the `n` positions before them are on their way.
    fn keep_letters(&self, unsent: &[DeadLetter], n: u64);

    /// Whether letters must be durable where they go before they leave: the queue is in no order with the
    /// log.
    fn has_journal(&self) -> bool;
}
