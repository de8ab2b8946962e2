//! Messages that an exchange holds back, or that wait in a quorum queue to be tried again, and an operator
//! has go on at another time. One of an exchange is put into its queue anew, and leaves its old place once it
//! is durable at the new one; one of a quorum queue keeps its place.

use super::sent_on::Departure;
use crate::admin::Operations;
use crate::publish::ForOneQueue;
use amqp091::{ShortString, Value};
use classic::DELAY;
use confirm::LogFailed;
use inspect::{Browser, LookFrom, LookedAt, end_of};
use message::{MessageRef, OwnedMessage};
use queue_type::{Wakes, wake_all};
use queues::QueueRef;
use quorum::QuorumInspection;
use std::ops::ControlFlow;

/// Messages that are picked together.
const TOGETHER_MAX: usize = 256;

/// A position, and the end of those that count.
type Place = (u64, Option<u64>);

impl Operations<'_> {
    /// The next of the messages in a queue, be it that of a delaying exchange, that are picked, from a
    /// position on and before an end, which is that of now if none is said; and where to go on, if there may
    /// be more. It waits for the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn pick_held_back(
        &self,
        queue: &QueueRef,
        (from, end): Place,
        is_picked: &dyn Fn(&LookedAt<'_>) -> bool,
    ) -> Result<(Vec<Departure>, Option<Place>), String> {
        let end = end.map_or_else(|| end_of(queue), Ok)?;
        let mut browser = Browser::new(queue, LookFrom::Position(from));
        let (mut picked, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next.filter(|_| picked.len() < TOGETHER_MAX) {
            let mut at_end = from;
            let goes_on = browser.step(&mut |at| {
                at_end = at.seen.position + 1;
                if at_end <= end && is_picked(at) {
                    let message = OwnedMessage::new(&at.seen.message);
                    picked.push(Departure { position: at.seen.position, message });
                }
                if at_end >= end || picked.len() >= TOGETHER_MAX {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            next = Some(at_end).filter(|at| goes_on && *at < end);
        }
        Ok((picked, next.map(|next| (next, Some(end)))))
    }

    /// Has messages of the queue of a delaying exchange, or of a quorum queue, go on so long from now.
    /// Returns how many there are; the others have gone on meanwhile, and those of an exchange come once
    /// more.
    ///
    /// # Errors
    /// The log has failed: messages may be there twice.
    pub async fn reschedule_held_back(
        &self,
        queue: &QueueRef,
        messages: &[Departure],
        delay_ms: u32,
    ) -> Result<u64, LogFailed> {
        if let Some(queue) = queue.as_quorum() {
            let positions: Vec<u64> = messages.iter().map(|it| it.position).collect();
            let n = QuorumInspection::of(queue).reschedule(&positions, delay_ms.into());
            self.durable().await;
            return Ok(n);
        }
        let durable = {
            let delayed: Vec<OwnedMessage> =
                messages.iter().map(|it| with_delay(&it.message, delay_ms)).collect();
            let source = ForOneQueue(delayed.iter().map(OwnedMessage::message).collect());
            let (mut batch, mut wakes) = (source.batch(queue), Wakes::new());
            let durable = batch.put_all_in(&source, &mut wakes);
            wake_all(&mut wakes);
            durable
        };
        durable.durable(&self.broker().classic.storage().wal).await?;
        let is_left = |it: &&Departure| {
            queue.as_classic().is_some_and(|queue| queue.held_back().cancel(it.position))
        };
        let n_left = messages.iter().filter(is_left).count();
        self.durable().await;
        Ok(n_left as u64)
    }
}

fn with_delay(message: &OwnedMessage, delay_ms: u32) -> OwnedMessage {
    let message = message.message();
    let properties = message.index().with_changed_headers(|headers| {
        headers.insert(ShortString::from_static(DELAY), Value::I64(i64::from(delay_ms)));
    });
    OwnedMessage::new(&MessageRef { properties: &properties, ..message })
}
