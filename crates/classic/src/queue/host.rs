//! The node as its queues know it: asked to call them when it is time, to send dead letters, to tell who was
//! given what. Queues know no exchanges, definitions or connections.

use super::{AlarmTimes, Queue};
use message::MessageRef;
use meta::{QueueDef, QueueId, QueueVersion};
use queue_type::{Owner, RejectedDeadLetters};
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::task::Waker;
use stdx::TimeScale;

/// The node as its queues know it. Some of it is called under a queue's lock: it takes no lock of a queue.
pub trait QueueHost: Debug + Send + Sync {
    /// Whether publishers may go on: what it is to send is not too much.
    fn has_capacity(&self) -> bool;

    /// True if there is capacity now; otherwise `waker` is woken when there is.
    #[must_use = "false means: wait to be woken"]
    fn poll_capacity(&self, waker: &Waker) -> bool;

    /// Has [`Upkeep::on_time`](super::Upkeep::on_time) called at `times.at_ms` instead of at
    /// `times.before_ms`, both on that scale.
    fn set_alarm(&self, queue: &Weak<Queue>, id: QueueId, alarm: (TimeScale, AlarmTimes));

    /// Sends a queue's dead letters soon. The queue sees to it that it asks once.
    fn send_letters_of(&self, queue: Arc<Queue>);

    /// Sends letters that are in no queue.
    fn send_rejected(&self, letters: RejectedDeadLetters);

    /// A queue has been read after a start: letters may go there.
    fn queue_loaded(&self);

    /// There is space on the disk again: what waited for it goes on.
    fn space_is_back(&self);

    /// Whether deliveries are traced: cheap to ask.
    fn is_traced(&self) -> bool;

    /// Takes a copy of a message that was given to a channel just now, if it is traced.
    fn trace_delivery(
        &self,
        queue: &Arc<QueueDef>,
        to: Owner,
        redelivered: bool,
        message: &MessageRef<'_>,
    );
}

/// The node as the workers of classic queues know it.
pub trait WorkerHost: Debug + Send + Sync {
    /// Queues whose version is not the one they should have.
    fn queues_to_convert(&self) -> Vec<Arc<Queue>>;

    /// Queues whose files have version 1, or are about to, or had until now.
    fn queues_of_v1(&self) -> Vec<Arc<Queue>>;

    /// The version a queue should have.
    fn wanted_version(&self, def: &QueueDef) -> QueueVersion;

    /// Pages were synced: what is left in old segments of the log may be worth moving.
    fn pages_synced(&self);
}
