//! The policy of a queue: its behaviour beyond giving messages out in order, and the duties of its host.
//!
//! A queue without [`QueuePolicy`] is a plain one: [`Fifo::enqueue`] puts messages in, nothing else needs to
//! be told, and its backlog costs no memory. Any rule makes it a *ruled* one, and so does a message
//! with a deadline, until the queue is empty again. Times are milliseconds of one clock that goes on
//! over restarts (Unix time); all of them are arguments.
//!
//! **Putting in.** Messages of a ruled queue, and messages with a deadline of any queue, go in by
//! [`Fifo::put`] with [`MessageAttrs`]: priority (its property, 0 without one), deadline and body size.
//! The deadline is the time of arrival plus the smaller of the queue's time to live and the message's
//! `expiration`. Where [`Limits::refuses`] is set, the host compares sizes and limits before, message by
//! message, with what came before it put in *and given out*; a refused one is neither logged nor put
//! in, and its publisher gets a nack.
//!
//! **After every operation** that puts in or gives back, in this order, as RabbitMQ does it:
//! 1. give out: [`Fifo::next_delivery`] until [`Fifo::is_waiting`] (so that a message with a time to
//!    live of 0 reaches a consumer that waits for it). After messages *came back*, 2 and 3 come first;
//! 2. [`Messages::drop_over_limit`] until it gives nothing;
//! 3. [`Messages::expire`] if [`PolicyState::next_deadline`] has come. Before [`Fifo::take`] too.
//!
//! **Time.** The host keeps one timer for all queues. When [`PolicyState::next_deadline`] comes it calls
//! [`PolicyState::wake`], [`Messages::expire`] (again and again while the deadline is past: each call takes a
//! limited number), and gives out. The deadline changes with every operation and may be in the past;
//! that it comes without anything to do is normal.
//! Expiry may be late by 1/4096 of a message's time to live when there are very many different
//! deadlines, so a host that has the message at hand when it is delivered may compare its deadline,
//! and settle and dead-letter it as expired instead.
//!
//! **What is gone.** `drop_over_limit`, `expire`, `reject`, `give_back`, `give_back_all` and `detach` tell
//! what left the queue as [`Gone`]: positions and why. The host dead-letters these messages with that
//! reason if the queue has a dead-letter exchange, then releases their content and notes them as
//! settled in its log. Only then is the content gone, so a crash in between makes them come back.
//!
//! Messages lost to damage, and those that nobody waits for any more, go by [`Messages::discard`], or by
//! [`PolicyState::wake`] while they wait to be tried again. The head a host keeps at hand is
//! [`Messages::head`].
//! `drop_over_limit` and `expire` take messages from anywhere, so their content may have to be loaded.
//!
//! **Sizes.** The core never sees content. Where [`Limits::bytes_max`] is set, the host tells a size
//! whenever a ready message leaves: [`PolicyState::note_sent`] after each assignment,
//! [`ReadyBytes::left`] for what was dropped, expired or discarded (for `drop_over_limit` before
//! it is called again: that is how the next call knows). What comes back, the core knows itself. When
//! the limit is set on a queue that is not empty, [`ReadyBytes::set`] tells the sum, and
//! [`PolicyState::note_held`] the size of each held message.
//!
//! **Coming back.** A ruled queue's messages come back by [`Fifo::give_back`] (`basic.reject` with
//! requeue is [`Return::Failed`], `basic.nack` and `basic.recover` are [`Return::Released`]) and
//! [`Fifo::detach`] (a closed channel is [`Return::Failed`]; a cancelled
//! consumer keeps what it holds). They are ready at their places, or wait, or are gone by the delivery
//! limit. [`Returns::of`] tells the headers `x-delivery-count` and `x-acquired-count`, for a
//! message just assigned or held.
//!
//! **Single active consumer.** The host refuses exclusive consumers on such a queue. After `attach`,
//! `cancel` and `detach` it asks [`Consumers::single`] and tells listings;
//! [`SingleActive::active`] is the one a listing shows as such (`activity_status` `single_active` or
//! `waiting`).
//! The unsettled messages of the one before stay with it.
//!
//! **Recovery.** [`Fifo::with_policy`], [`Fifo::restore`] per message or run of messages that share
//! everything, in rising order, then [`Messages::restored`]. A host whose log keeps single messages has
//! priority, deadline and size in each; one that keeps notes about pages of messages puts
//! [`RecoveredMessages`] runs into the note when it writes the page, while it has them at hand.
//! [`Returns::iter`] lists what only the core knows, counts of messages that came back, and
//! [`Returns::take_changed`] those that have changed where [`QueuePolicy::notes_returns`] asks for it;
//! [`Returns::restore`] tells them after a restart (what waited to be tried again is ready then). With
//! priorities the delivered messages are not those below one position: [`Fifo::seen`] lists them.
//!
//! **Changes.** [`Fifo::set_policy`] applies a policy to a queue that exists: limits, delivery limit and
//! retry; the host then does the three steps above. Priorities and single active consumer are fixed
//! when a queue is declared. A changed time to live is for messages that come later (as in RabbitMQ's
//! classic queues), since deadlines are told with each.

#[cfg(doc)]
use crate::{Consumers, Fifo, Messages, PolicyState, ReadyBytes, Return, Returns, SingleActive};
use crate::{DeliveryCounts, Limits, PositionRange, Retry};
use message::Refusal;
use stdx::UnixMs;

/// The behaviour of a queue besides giving out messages in order. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePolicy {
    /// `x-max-priority`; 0 for a queue without priorities.
    pub priority_max: u8,
    /// Length limits.
    pub limits: Limits,
    /// `x-delivery-limit`: a message whose delivery failed more often is gone.
    pub delivery_limit: Option<u32>,
    /// Whether messages that come back are counted even without a delivery limit.
    pub counts_returns: bool,
    /// Whether the host is told of counts that change: [`Returns::take_changed`].
    pub notes_returns: bool,
    /// Delayed retry.
    pub retry: Option<Retry>,
}

impl QueuePolicy {
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) const fn counts(&self) -> bool {
        self.counts_returns || self.delivery_limit.is_some() || self.retry.is_some()
    }
}

/// The properties of a message that the core is told when it comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageAttrs {
    /// Higher ones leave first; above the queue's highest it counts as that.
    pub priority: u8,
    /// Time when the message expires.
    pub deadline_ms: Option<UnixMs>,
    /// Size of the body.
    pub bytes: u64,
}

/// Messages as they were before a restart, which share everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredMessages {
    /// Positions of the messages.
    pub positions: PositionRange,
    /// Priority as in [`MessageAttrs`].
    pub priority: u8,
    /// Deadline as in [`MessageAttrs`].
    pub deadline_ms: Option<UnixMs>,
    /// Size of all bodies together.
    pub bytes: u64,
    /// Counts of how often each message came back.
    pub returns: DeliveryCounts,
}

impl RecoveredMessages {
    /// No messages, to which nothing applies.
    pub const NOTHING_KNOWN: Self = Self {
        positions: PositionRange { start: 0, end: 0 },
        priority: 0,
        deadline_ms: None,
        bytes: 0,
        returns: DeliveryCounts { n_failed: 0, n_acquired: 0 },
    };
}

stdx::named! {
    /// The reason that messages left without being settled as done, as `x-death` names it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        /// A consumer refused the messages.
        Rejected = "rejected",
        /// The time of the messages was over.
        Expired = "expired",
        /// The queue was too long.
        MaxLen = "maxlen",
        /// The delivery of the messages failed too often.
        DeliveryLimit = "delivery_limit",
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Rejected => Self::Rejected,
            Reason::Expired => Self::Expired,
            Reason::MaxLen => Self::MaxLen,
            Reason::DeliveryLimit => Self::DeliveryLimit,
        }
    }
}

/// Messages that left the queue, and are to be dead-lettered where that is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Which ones.
    pub positions: PositionRange,
    /// Reason that the messages left.
    pub reason: Reason,
}
