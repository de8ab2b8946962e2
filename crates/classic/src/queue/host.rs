//! The node as its queues know it: asked to call them when it is time, to send dead letters, to trace
//! deliveries. Queues know no exchanges, definitions or connections.

use super::{AlarmTimes, LetterBatch, Queue, QueueContext};
use crate::journal::Journal;
use message::MessageRef;
use meta::{QueueDef, QueueId, QueueVersion};
use queue::Standings;
use queue_type::{AfterDetach, DeadLetter, Owner, RejectedDeadLetters, TriedLetter};
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::task::Waker;
use stdx::TimeScale;
use store::backlog::{ColdPage, FoundPage, Image, Job, LoadedPage, PageBitmap, PageKey, Toward};
use store::blob::BlobId;

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

    /// Has [`RuledQueue::on_time`] called at `times.at_ms` instead of at
    /// `times.before_ms`, both on that scale.
    fn set_alarm(&self, queue: Weak<dyn RuledQueue>, id: QueueId, alarm: (TimeScale, AlarmTimes));

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

/// A queue as the thread of rules knows it.
pub trait RuledQueue: Debug + Send + Sync {
    /// Definition of the queue.
    fn def(&self) -> &Arc<QueueDef>;

    /// Carries out everything that is due by now. To be called when the alarm comes.
    #[must_use]
    fn on_time(&self, scale: TimeScale) -> AfterDetach;

    /// The first dead letters, about so many. They stay until [`RuledQueue::letters_left`] says that they
    /// are elsewhere. None if there are none for now; then it asks again.
    fn first_letters(&self, n_max: usize, bytes_max: usize) -> Option<LetterBatch>;

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

/// A queue as the pager knows it: jobs of its backlog, and what comes of them.
pub trait PagedQueue: Debug + Send + Sync {
    /// The queue's definition, and where it is kept.
    fn context(&self) -> &QueueContext;

    /// Whether nothing can be delivered before a page is read.
    fn waits_for_page(&self) -> bool;

    /// The next job of the pager's turn. After none, the queue asks anew when there is one.
    fn next_job(&self, image: &mut Image) -> Option<Job>;

    /// Notes that a page's image is stored, and durable if it is to be.
    fn written(&self, page: PageKey, blob: BlobId, is_durable: bool);

    /// Takes the page that was read, or the reason that it cannot be read.
    fn loaded(&self, page: PageKey, loaded: Result<LoadedPage, String>);

    /// Finds the nearest page with a message in that direction, and the standings of its messages.
    fn find(&self, toward: Toward) -> Option<(FoundPage, Standings)>;

    /// Messages that are still in a page once it was read, and their standings; none if the page is gone.
    fn still(&self, page: &ColdPage) -> Option<(PageBitmap, Standings)>;

    /// The queue's journal, if it has one: read in place of a page that cannot be read.
    fn journal(&self) -> Option<Arc<Journal>>;
}

/// The node as the workers of classic queues know it.
pub trait WorkerHost: Debug + Send + Sync {
    /// Queues whose version is not the one they should have.
    fn queues_to_convert(&self) -> Vec<Arc<Queue>>;

    /// Queues whose files have version 1, or that are being converted to or from it.
    fn queues_of_v1(&self) -> Vec<Arc<Queue>>;

    /// The version a queue should have.
    fn wanted_version(&self, def: &QueueDef) -> QueueVersion;

    /// Notes that pages were synced: messages left in old segments of the log may be worth moving.
    fn pages_synced(&self);
}
