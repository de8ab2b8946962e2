//! The outgoing half of a connection, whatever its protocol: bytes that wait to be written, the room there
//! is for more, what is settled by being written, and how it all ends.

use crate::auto_ack_in_flight::AutoAckInFlight;
use crate::outbox_budget::{OUTBOX_HIGH_WATER_BYTES, OutboxBudget, Share};
use crate::write_rope::{Cursor, WriteRope};
use crate::{CloseMode, Closing, Put, WriteBatch};
use session::{ConvertedTo, Error, LinkId, Position, Room, Settle};
use std::sync::Arc;
use std::task::Waker;

/// An idle outbox keeps no more than this much memory.
const IDLE_BYTES_MAX: usize = 512;
/// Memory that a connection keeps from one write to the next at most, where there are many connections.
const CROWDED_BYTES_MAX: usize = 4 * 1024;
/// The most deliveries, settled by their write, that are handed on at a time.
const SETTLED_MAX: usize = 256;

/// The part of a client's outbox that is the same for all protocols. A front encodes into its rope, under
/// the outbox's lock; the connection's task takes batches out and writes them without it.
#[derive(Debug)]
pub struct Outgoing {
    rope: WriteRope,
    share: Share,
    /// Bytes ever taken: tells whether the client was sent anything.
    n_taken: u64,
    /// Bytes taken and not yet known to be written.
    n_in_flight: usize,
    /// Links to be resumed: they were told that there is no room, or there is something for them.
    paused: Vec<LinkId>,
    /// Deliveries that are settled once they are written.
    auto_acks: AutoAckInFlight,
    /// The connection's task, while it sleeps.
    waker: Option<Waker>,
    /// The refusal of something that the client cannot be sent.
    refusal: Option<Box<Error>>,
    closing: Closing,
    close_mode: Option<CloseMode>,
}

impl Outgoing {
    /// Creates an empty outgoing half, within the node's budget.
    #[must_use]
    pub fn new(budget: &Arc<OutboxBudget>) -> Self {
        Self {
            rope: WriteRope::default(),
            share: Share::new(budget),
            n_taken: 0,
            n_in_flight: 0,
            paused: Vec::new(),
            auto_acks: AutoAckInFlight::default(),
            waker: None,
            refusal: None,
            closing: Closing::No,
            close_mode: None,
        }
    }

    /// The bytes that wait, to be added to.
    #[inline]
    pub const fn rope(&mut self) -> &mut WriteRope {
        &mut self.rope
    }

    /// The position of the next byte among all that were put in.
    #[inline]
    #[must_use]
    pub fn end_of_bytes(&self) -> u64 {
        self.n_taken + self.rope.n_bytes() as u64
    }

    /// Bytes that wait to be written.
    #[inline]
    pub fn n_pending(&self) -> usize {
        self.rope.n_bytes() + self.n_in_flight
    }

    /// Bytes of deliveries that there is room for.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.share.high_water_bytes().saturating_sub(self.n_pending())
    }

    /// The room left after a delivery on a link; without any, the link is noted, to be resumed, unless
    /// `is_paused` says that it is already.
    #[inline]
    pub fn room_after(&mut self, link: LinkId, is_paused: &mut bool) -> Room {
        let (n_pending, high_water_bytes) = (self.n_pending(), self.share.high_water_bytes());
        if n_pending < high_water_bytes {
            return Room::Bytes(high_water_bytes - n_pending);
        }
        if !*is_paused {
            *is_paused = true;
            self.paused.push(link);
        }
        Room::Full
    }

    /// Notes a link that waits and has something to deliver, as if it had found no room, unless `is_paused`
    /// says that it is noted already.
    pub fn readable(&mut self, link: LinkId, is_paused: &mut bool) {
        if self.closing == Closing::No && !*is_paused {
            *is_paused = true;
            self.paused.push(link);
        }
    }

    /// Notes a delivery that was put in, and is settled by being written.
    #[inline]
    pub fn settle_by_write(&mut self, put: Put) {
        self.auto_acks.push(put, self.n_taken);
    }

    /// Forgets the deliveries of a channel, written or not: they go back to their queues.
    pub fn forget_channel(&mut self, channel: u16) {
        self.auto_acks.forget_channel(channel);
    }

    /// Deliveries of these links, which are sorted, that are settled once they are written and are not yet,
    /// with their delivery tags.
    pub fn unsettled(&self, links: &[LinkId]) -> impl Iterator<Item = (u64, LinkId, Position)> {
        self.auto_acks.of_links(links)
    }

    /// Notes that a batch was written, but for what is left in it: deliveries settled by that wait for
    /// [`Outgoing::take_settled`].
    pub fn wrote(&mut self, batch: &WriteBatch) {
        self.auto_acks.wrote(batch.n_written());
    }

    /// Whether deliveries were settled by being written.
    #[inline]
    pub fn has_settled(&self) -> bool {
        self.auto_acks.has_written()
    }

    /// Takes some of the deliveries that were settled by being written; the broker is to be told
    /// before anything else happens, for the outbox knows nothing of them any more. False when there
    /// are none.
    pub fn take_settled(&mut self, settles: &mut Vec<Settle>) -> bool {
        let has_some = self.has_settled();
        if has_some {
            self.auto_acks.take_written(SETTLED_MAX, |settle| settles.push(settle));
        }
        has_some
    }

    /// The connection is to be failed: there is something that the client cannot be sent. The first error
    /// counts.
    #[cold]
    pub fn refuse(&mut self, error: impl FnOnce() -> Error) {
        self.refusal.get_or_insert_with(|| Box::new(error()));
    }

    /// Whether there is anything to be taken.
    #[inline]
    pub fn has_something(&self) -> bool {
        self.rope.n_bytes() > 0
            || !self.paused.is_empty()
            || self.close_mode.is_some()
            || self.refusal.is_some()
    }

    /// Takes everything that waits into `batch`, which must be written by now; when links that found no
    /// room may go on, `resumed` is called. False when there is nothing to do: no bytes, no links to
    /// resume, nothing to be settled, no end.
    pub fn take(&mut self, batch: &mut WriteBatch, resumed: impl FnOnce()) -> bool {
        debug_assert!(batch.is_written(), "a batch is taken only after the one before is written");
        self.waker = None;
        let n_bytes = self.rope.n_bytes();
        batch.rope.clear();
        if self.share.high_water_bytes() < OUTBOX_HIGH_WATER_BYTES {
            batch.rope.give_back(CROWDED_BYTES_MAX);
        }
        batch.cursor = Cursor::default();
        std::mem::swap(&mut batch.rope, &mut self.rope);
        batch.n_left = n_bytes;
        batch.close_mode = self.close_mode;
        if self.closing == Closing::No && self.refusal.is_some() {
            batch.refusal = self.refusal.take();
        }
        self.n_in_flight = n_bytes;
        self.n_taken += n_bytes as u64;
        batch.ends_at = self.n_taken;
        batch.is_watched = !self.auto_acks.is_empty();
        self.share.look_again();
        if n_bytes <= self.share.high_water_bytes() / 2 && !self.paused.is_empty() {
            resumed();
            batch.resume.append(&mut self.paused);
        }
        n_bytes > 0
            || !batch.resume.is_empty()
            || batch.close_mode.is_some()
            || batch.refusal.is_some()
            || (batch.is_watched && self.has_settled())
    }

    /// The connection's task sleeps until there is something to be taken.
    pub fn sleep(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(before) => before.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The connection's task is awake: nobody needs to wake it.
    #[inline]
    pub fn awake(&mut self) {
        self.waker = None;
    }

    /// The connection's task, if it sleeps: the caller wakes it.
    #[inline]
    #[must_use]
    pub const fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// The progress of the connection's close.
    #[inline]
    pub const fn closing(&self) -> Closing {
        self.closing
    }

    /// Notes that a close was put in, and the client's answer is awaited: nothing else follows, no link goes
    /// on.
    pub fn close(&mut self) {
        self.closing = Closing::Sent;
        self.paused = Vec::new();
    }

    /// Ends the output: nothing follows what was put in, not even an answer.
    pub fn end(&mut self, close_mode: CloseMode) {
        self.close();
        self.closing = Closing::Ended;
        self.close_mode = Some(close_mode);
    }

    /// Whether nothing goes out, and nothing was put in since [`Outgoing::end_of_bytes`] was `n_put`.
    pub fn is_silent_since(&self, n_put: u64) -> bool {
        self.n_taken == n_put && self.n_pending() == 0
    }

    /// Gives back memory that is not in use.
    pub fn trim(&mut self) {
        if self.rope.spare_bytes() > IDLE_BYTES_MAX {
            self.rope = WriteRope::default();
        }
        self.auto_acks.trim();
        self.paused.shrink_to_fit();
    }
}

/// Counts a message that was converted for the consumer that it goes to.
pub fn note_converted(out: &Outgoing, to: ConvertedTo) {
    out.share.note_converted(to);
}
