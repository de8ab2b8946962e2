//! Messages of a queue that an operator sends on: each goes the way of a dead letter without having died,
//! with whoever waits for it to be consumed, and leaves its queue once it is durable where it goes. Never
//! whether that is permitted.

use super::transfer::{self, Fate, SentOn};
use crate::admin::Operations;
use confirm::LogFailed;
use message::{MessageRef, OwnedMessage};
use queue::Reason;
use queue_type::{Confirm, DeadLetter, PickedMessage, TakenConfirm};
use queues::{QueueContents, QueueRef};
use session::Confirmation;

/// A message that is to be sent on. It names the exchange and the key that it goes by, and has the properties
/// that it is to arrive with.
#[derive(Debug)]
pub struct Departure {
    /// Its position in its queue.
    pub position: u64,
    /// The message.
    pub message: OwnedMessage,
}

/// Messages that were sent on.
#[derive(Debug)]
pub struct Departed {
    /// The fate of each, in order.
    pub fates: Vec<Fate>,
    /// Of those that have arrived, so many left their queue. A consumer took the others meanwhile.
    pub n_left: u64,
}

impl Operations<'_> {
    /// Sends messages of a queue on. Those that have arrived, durably, leave the queue, if they are ready
    /// there still; that is logged when this resolves, and not yet durable.
    ///
    /// # Errors
    /// The log has failed: messages may be at both places.
    pub async fn send_on(
        &self,
        from: &QueueRef,
        messages: &[Departure],
    ) -> Result<Departed, LogFailed> {
        let mut letters: Vec<DeadLetter> = messages.iter().map(|it| letter(from, it)).collect();
        take_confirms(from, &mut letters);
        let mut fates = Vec::with_capacity(letters.len());
        while let Some(rest) = letters.get_mut(fates.len()..).filter(|rest| !rest.is_empty()) {
            let exchange = rest.first().map(|first| first.message().exchange.to_vec());
            let n = rest.iter().take_while(|it| Some(it.message().exchange) == exchange.as_deref());
            let n = n.count();
            let together = rest.get_mut(..n).unwrap_or_default();
            match transfer::send_on(self.broker(), from.def(), together) {
                Err(loading) => loading.loaded().await,
                Ok(SentOn { durable, fates: of_these, left_with }) => {
                    QueueContents(from).put_back_confirms(&left_with);
                    fates.extend(of_these);
                    durable.durable(&self.broker().classic.storage().wal).await?;
                }
            }
        }
        let arrived = letters.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Arrived);
        let arrived = arrived.map(|(it, _)| PickedMessage {
            position: it.position,
            body_bytes: it.message().body.len() as u64,
        });
        let n_left = QueueContents(from).remove(&arrived.collect::<Vec<_>>(), &mut Vec::new());
        Ok(Departed { fates, n_left })
    }
}

impl Operations<'_> {
    /// Drops the ready ones among messages of a queue that another broker has; returns how many. Whoever
    /// waits for their consumers has a confirm.
    #[must_use]
    pub fn hand_over(&self, from: &QueueRef, messages: &[PickedMessage]) -> u64 {
        let positions: Vec<u64> = messages.iter().map(|it| it.position).collect();
        for TakenConfirm { confirm, .. } in QueueContents(from).take_confirms(&positions) {
            let Confirm { publisher, sequence } = confirm;
            publisher.answer_parts(sequence, 1, Confirmation::Accepted);
        }
        QueueContents(from).remove(messages, &mut Vec::new())
    }
}

fn letter(from: &QueueRef, departure: &Departure) -> DeadLetter {
    let message = departure.message.message();
    // A quorum queue keeps transient ones too: its messages say themselves what they are.
    let persistent = message.persistent && !from.def().kind.logs_transient();
    let message = MessageRef { persistent, ..message };
    let mut letter = DeadLetter::of(&message, Reason::Rejected);
    letter.position = departure.position;
    letter
}

fn take_confirms(from: &QueueRef, letters: &mut [DeadLetter]) {
    let positions: Vec<u64> = letters.iter().map(|letter| letter.position).collect();
    let mut confirms = QueueContents(from).take_confirms(&positions).into_iter().peekable();
    for letter in letters {
        let taken = confirms.next_if(|it| it.position == letter.position);
        letter.confirm = taken.map(|it| it.confirm);
    }
}
