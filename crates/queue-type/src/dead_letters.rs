//! Messages that leave a queue by its rules, on their way to the target of its dead letters. Never the target
//! itself.

use crate::{Confirm, DeadLetterTo};
use message::{Body, MessageRef, OwnedMessage};
use message_store::SHARED_BODY_MIN_BYTES;
use meta::{QueueDef, QueueId};
use queue::Reason;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message that dies, apart from its queue.
#[derive(Debug)]
pub struct DeadLetter {
    /// Rule by which the message left.
    pub reason: Reason,
    /// Position of the message in its queue, if it is in one.
    pub position: u64,
    /// Number of positions that depart before it, of those that were asked for with it.
    pub n_before: u64,
    /// Confirm that waits for the message to be consumed.
    pub confirm: Option<Confirm>,
    message: OwnedMessage,
}

impl DeadLetter {
    /// A copy of a message that has no place yet.
    pub fn of(message: &MessageRef<'_>, reason: Reason) -> Self {
        // A queue whose confirms wait for consumers does not keep what it is given.
        let persistent = message.persistent || message.index().is_persistent();
        let message = OwnedMessage::new(&MessageRef { persistent, ..*message });
        Self { reason, position: 0, n_before: 0, confirm: None, message }
    }

    /// The message: a small body is to be copied into pages, a larger one shared.
    pub fn message(&self) -> MessageRef<'_> {
        let message = self.message.message();
        match message.body {
            Body::Shared(body) if body.len() < SHARED_BODY_MIN_BYTES => {
                MessageRef { body: Body::Borrowed(body), ..message }
            }
            Body::Shared(_) | Body::Borrowed(_) => message,
        }
    }

    /// Bytes that the letter takes.
    pub fn bytes(&self) -> usize {
        self.message().size_bytes() + size_of::<Self>()
    }
}

/// Letters that stay in their queue until all queues they go to have them (`at-least-once`).
#[derive(Debug, Default)]
pub struct AwaitedLetters {
    /// Numbers of the letters, each with the queues that have it.
    pub letters: Vec<(u64, Vec<QueueId>)>,
    /// Queues that did not take an earlier letter, which no other is to overtake.
    pub refused_by: Vec<QueueId>,
    /// Queues that were full at the last look.
    pub full: Vec<QueueId>,
}

/// An awaited letter that was sent as far as it could be.
#[derive(Debug)]
pub struct TriedLetter {
    /// Number of the letter.
    pub number: u64,
    /// Queues that have the letter.
    pub taken_by: Vec<QueueId>,
    /// Queues that have yet to take the letter.
    pub refused_by: Vec<QueueId>,
    /// Reason that no queue was found at all.
    pub lost_at: Option<LostAt>,
}

impl TriedLetter {
    /// Whether all queues that the letter goes to have it.
    pub const fn has_arrived(&self) -> bool {
        self.refused_by.is_empty() && self.lost_at.is_none()
    }
}

/// The reason that a letter goes to no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAt {
    /// The letter's exchange does not exist.
    Exchange,
    /// The letter's exchange leads nowhere, or back.
    Route,
}

/// Letters that are where they should be once that is durable.
#[derive(Debug)]
pub enum SentLetters {
    /// The first letters, of this number.
    First(u64),
    /// Letters that are awaited.
    Tried(Vec<TriedLetter>),
}

/// Letters that are in no queue.
#[derive(Debug)]
pub struct RejectedDeadLetters {
    /// The queue that did not take them.
    pub from: Arc<QueueDef>,
    /// Target of the letters.
    pub to: Arc<DeadLetterTo>,
    /// The letters, in order.
    pub letters: VecDeque<DeadLetter>,
}

impl RejectedDeadLetters {
    /// Bytes that the letters take.
    pub fn bytes(&self) -> usize {
        self.letters.iter().map(DeadLetter::bytes).sum()
    }
}
