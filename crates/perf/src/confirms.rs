//! A channel's publishes that wait for their confirms, in the way the run asks for.

use crate::confirm_window::ConfirmWindow;
use crate::unconfirmed::Unconfirmed;

/// A basic.ack or basic.nack to a publisher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) tag: u64,
    pub(crate) is_multiple: bool,
    pub(crate) is_ack: bool,
}

/// The publishes of a channel that wait.
#[derive(Debug)]
pub(crate) enum Confirms {
    /// Nothing is confirmed.
    Off,
    /// Publishes are counted and timed. What is refused, or lost with its connection, is forgotten.
    Counted {
        window: ConfirmWindow,
        /// Messages sent on connections that are lost: delivery tags count from there.
        sent_before: u64,
    },
    /// Messages are kept, and published again until they are confirmed.
    Kept(Unconfirmed),
}

impl Confirms {
    /// Publishes are counted, `capacity` at a time.
    pub(crate) fn counted(capacity: usize) -> Self {
        Self::Counted { window: ConfirmWindow::new(capacity), sent_before: 0 }
    }

    /// The number of messages that may still be published for the first time.
    pub(crate) fn room(&self) -> usize {
        match self {
            Self::Off => usize::MAX,
            Self::Counted { window, .. } => window.room(),
            Self::Kept(unconfirmed) => unconfirmed.room(),
        }
    }

    /// The number of messages that wait.
    pub(crate) fn n_outstanding(&self) -> usize {
        match self {
            Self::Off => 0,
            Self::Counted { window, .. } => window.n_outstanding(),
            Self::Kept(unconfirmed) => unconfirmed.n_kept(),
        }
    }

    /// The number of messages that wait and are not published again.
    pub(crate) fn n_forgotten(&self) -> usize {
        if let Self::Kept(_) = self { 0 } else { self.n_outstanding() }
    }

    /// A message is published, for the first time or again. `stamp` is the time its latency counts from.
    #[inline]
    pub(crate) fn publish(&mut self, number: u64, stamp: u64, now: u64) {
        match self {
            Self::Off => {}
            Self::Counted { window, .. } => window.publish(stamp),
            Self::Kept(unconfirmed) => unconfirmed.publish(number, stamp, now),
        }
    }

    /// Number and stamp of the next message to publish again.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<(u64, u64)> {
        if let Self::Kept(unconfirmed) = self { unconfirmed.next_due(now) } else { None }
    }

    /// The time at which a message may have to be published again.
    pub(crate) fn due_at(&self) -> Option<u64> {
        if let Self::Kept(unconfirmed) = self { unconfirmed.due_at() } else { None }
    }

    /// The broker answered; `settled` gets number and stamp of each message that is done with. Gives back
    /// how many were confirmed or refused: none for an answer that makes no sense.
    pub(crate) fn settle(
        &mut self,
        answer: Answer,
        now: u64,
        mut settled: impl FnMut(u64, u64),
    ) -> u64 {
        let Answer { tag, is_multiple, is_ack } = answer;
        match self {
            Self::Off => 0,
            // Delivery tags count from 1, numbers of messages from 0.
            Self::Counted { window, sent_before } => {
                window.settle(tag, is_multiple, |tag, stamp| settled(*sent_before + tag - 1, stamp))
            }
            Self::Kept(unconfirmed) if is_ack => unconfirmed.confirm(tag, is_multiple, settled),
            Self::Kept(unconfirmed) => unconfirmed.refuse(tag, is_multiple, now),
        }
    }

    /// The connection is lost, after `sent` messages: tags count from 1 again.
    pub(crate) fn disconnect(&mut self, sent: u64) {
        match self {
            Self::Off => {}
            Self::Counted { window, sent_before } => {
                window.reset();
                *sent_before = sent;
            }
            Self::Kept(unconfirmed) => unconfirmed.disconnect(),
        }
    }
}
