//! The broker's part in undo: a deleted queue is made again, and messages are put into their queue. One
//! portion after the other is put into the queue, and then noted as there: a crash in between loses no
//! message, and those of one portion may come back twice. Permissions are checked elsewhere.

use super::Operations;
use crate::broker::{BY_OPERATOR, ChangeError};
use crate::publish::{ForOneQueue, Placed};
use message::{Annotations, MessageRef, OwnedMessage};
use meta::{Command, Done, QueueDeclare, QueueId};
use queue_type::{Wakes, wake_all};
use queues::QueueRef;
use std::borrow::Cow;
use std::sync::Arc;
use undo::{Act, BringingBack, Keeping, RemovedMessage, Taking, Undo, UndoRefused};

impl<'b> Operations<'b> {
    /// The undo entries.
    #[must_use]
    pub const fn undo(self) -> &'b Arc<Undo> {
        &self.broker().undo
    }

    /// Begins to take messages away, in the name of a user. No message is gone yet. The caller waits for the
    /// disk.
    #[must_use]
    pub fn begin_taking(&self, queue: &QueueRef, taking: Taking, by: &str) -> Keeping {
        Keeping::begin(self.undo(), queue, taking, by, &self.broker().view().meta)
    }
}

impl Operations<'_> {
    /// Finds the queue that the messages go to. A deleted queue is made again in the name of a user, a stream
    /// with its messages. Also returns why some of its bindings could not be made.
    ///
    /// # Errors
    /// The queue does not exist, or is another one of that name.
    pub async fn queue_of_undo(
        &self,
        back: &BringingBack,
        by: &str,
    ) -> Result<(QueueRef, Vec<String>), UndoRefused> {
        let (head, mut lacking) = (back.shown().head, Vec::new());
        if head.act == Act::Delete {
            let Some(definitions) = back.definitions() else {
                return Err(UndoRefused::NoQueue("unreadable definition".to_owned()));
            };
            let by = if by.is_empty() { BY_OPERATOR } else { by };
            // The files must be the stream's before the stream is there.
            let id = control::take_queue_id(&self.broker().control_plane);
            let stream = back.take_stream(id.0)?;
            for (nth, command) in definitions.iter().enumerate() {
                let command = with_id(command, id);
                match self.broker().changes().apply_durably(&command, by).await {
                    Ok(Done::QueueExists(_)) if stream.is_some() => {
                        back.put_back_stream(stream, id.0);
                        let reason = "another stream of this name exists";
                        return Err(UndoRefused::NoQueue(reason.to_owned()));
                    }
                    Ok(_) => {}
                    Err(ChangeError::Refused(error)) if nth == 0 => {
                        back.put_back_stream(stream, id.0);
                        return Err(UndoRefused::NoQueue(error.to_string()));
                    }
                    Err(ChangeError::Refused(error)) => lacking.push(error.to_string()),
                    Err(ChangeError::LogFailed) => std::future::pending().await,
                }
            }
        }
        let found = self.broker().queue(&head.vhost, &head.queue);
        let is_of_kind = |queue: &QueueRef| queue.as_stream().is_some() == head.stream.is_some();
        let found = found.filter(is_of_kind);
        let queue = found.filter(|queue| queue.def().exclusive_owner.is_none());
        let queue =
            queue.ok_or_else(|| UndoRefused::NoQueue("the queue does not exist".to_owned()))?;
        queue.loaded().await;
        Ok((queue, lacking))
    }

    /// Puts messages into their queue and waits for durability; returns the positions of those that it took.
    ///
    /// # Errors
    /// The queue is deleted: none of the messages is there.
    pub async fn put_back(
        &self,
        queue: &QueueRef,
        messages: &[RemovedMessage],
    ) -> Result<Vec<u64>, UndoRefused> {
        let (taken, durable) = {
            let source = ForOneQueue(messages.iter().map(|it| anew(&it.message)).collect());
            let (mut batch, mut wakes) = (source.batch(queue), Wakes::new());
            let durable = batch.put_all_in(&source, &mut wakes);
            batch.show(&self.broker().timers.tracing, None, &source);
            wake_all(&mut wakes);
            let taken =
                batch.pending().iter().zip(messages).filter(|(it, _)| it.placed != Placed::Refused);
            (taken.map(|(_, it)| it.position).collect(), durable)
        };
        if durable.durable(&self.broker().classic.storage().wal).await.is_err() {
            std::future::pending::<()>().await;
        }
        if queue.is_deleted() {
            return Err(UndoRefused::NoQueue("the queue is deleted".to_owned()));
        }
        Ok(taken)
    }
}

/// The command that makes a queue again: a stream of the files that were given to the id.
fn with_id(command: &Command, id: QueueId) -> Cow<'_, Command> {
    if let Command::DeclareQueue(declare) = command
        && declare.id.is_some()
    {
        return Cow::Owned(Command::DeclareQueue(QueueDeclare { id: Some(id), ..declare.clone() }));
    }
    Cow::Borrowed(command)
}

/// A message whose time to live begins anew.
fn anew(message: &OwnedMessage) -> MessageRef<'_> {
    let message = message.message();
    let annotations = Annotations { deadline_ms: None, ..message.annotations };
    MessageRef { annotations, ..message }
}
