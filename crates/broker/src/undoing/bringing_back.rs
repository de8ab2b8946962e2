//! Bringing back what was taken away: a portion at a time is put into the queue, and then noted as there. A
//! crash in between loses no message; those of one portion may come back twice.

use crate::broker::{BY_OPERATOR, Broker, ChangeError};
use crate::publish::ForOneQueue;
use crate::queue_ref::QueueRef;
use crate::undo::{Act, Busy, Entry, UndoEntry, name_of};
use log::{DiskFile, IoContext as _, LogError, OpenMode};
use message::{Annotations, MessageRef, OwnedMessage};
use meta::{Command, Done};
use queue_type::{Wakes, wake_all};
use std::sync::Arc;

/// The reason why an entry is not brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoRefused {
    /// The entry does not exist, or no longer.
    NotFound,
    /// The entry is being written or brought back already.
    Busy,
    /// The messages have no queue to go to, for this reason.
    NoQueue(String),
}

/// An entry that is being brought back.
#[derive(Debug)]
pub struct BringingBack {
    broker: Arc<Broker>,
    entry: Arc<Entry>,
    file: Box<dyn DiskFile>,
    /// The commands that make the queue again, if they can be read.
    definitions: Option<Vec<Command>>,
}

/// A message whose time to live begins anew.
fn anew(message: &OwnedMessage) -> MessageRef<'_> {
    let message = message.message();
    let annotations = Annotations { deadline_ms: None, ..message.annotations };
    MessageRef { annotations, ..message }
}

impl BringingBack {
    /// Begins to bring an entry back. The caller waits for the disk.
    ///
    /// # Errors
    /// The entry does not exist, or is busy.
    pub fn begin(broker: &Arc<Broker>, id: u64) -> Result<Self, UndoRefused> {
        let undo = broker.operations().undo();
        let unix_ms = undo.unix_ms();
        let entry = {
            let entries = stdx::lock(&broker.undo.entries);
            let entry = entries.get(&id).filter(|entry| entry.head.until_ms > unix_ms);
            let entry = entry.ok_or(UndoRefused::NotFound)?;
            if !entry.set_busy(Busy::BringingBack) {
                return Err(UndoRefused::Busy);
            }
            Arc::clone(entry)
        };
        if !entry.end_writing(None) {
            entry.set_busy(Busy::No);
            return Err(UndoRefused::Busy);
        }
        let file = undo.disk().open(&name_of(id), OpenMode::Existing).context("open", &name_of(id));
        match file.and_then(|file| entry.mend(&*file).map(|()| file)) {
            Ok(file) => {
                let definitions = entry.definitions(&*file);
                Ok(Self { broker: Arc::clone(broker), entry, file, definitions })
            }
            Err(error) => {
                entry.set_busy(Busy::No);
                tracing::warn!("cannot undo: {error}");
                Err(UndoRefused::NotFound)
            }
        }
    }

    /// The entry in its present state.
    #[must_use]
    pub fn shown(&self) -> UndoEntry {
        self.entry.shown()
    }

    /// The numbers of the portions that are left to be brought back.
    #[must_use]
    pub fn portions(&self) -> Vec<u32> {
        self.entry.portions()
    }

    /// Finds the queue that the messages go to. A deleted queue is made again in the name of a user, a stream
    /// with its messages. Also returns why some of its bindings could not be made.
    ///
    /// # Errors
    /// The queue does not exist, or is another one of that name.
    pub async fn queue(&self, by: &str) -> Result<(QueueRef, Vec<String>), UndoRefused> {
        let (head, mut lacking) = (&self.entry.head, Vec::new());
        if head.act == Act::Delete {
            let Some(definitions) = &self.definitions else {
                return Err(UndoRefused::NoQueue("unreadable definition".to_owned()));
            };
            let by = if by.is_empty() { BY_OPERATOR } else { by };
            // The files must be the stream's before the stream is there.
            let stream = self.entry.stream();
            self.entry.set_stream(None);
            for (nth, command) in definitions.iter().enumerate() {
                match self.broker.changes().apply_durably(command, by).await {
                    Ok(Done::QueueExists(_)) if stream.is_some() => {
                        self.entry.set_stream(stream);
                        let reason = "another stream of this name exists";
                        return Err(UndoRefused::NoQueue(reason.to_owned()));
                    }
                    Ok(_) => {}
                    Err(ChangeError::Refused(error)) if nth == 0 => {
                        self.entry.set_stream(stream);
                        return Err(UndoRefused::NoQueue(error.to_string()));
                    }
                    Err(ChangeError::Refused(error)) => lacking.push(error.to_string()),
                    Err(ChangeError::LogFailed) => std::future::pending().await,
                }
            }
        }
        let found = self.broker.queue(&head.vhost, &head.queue);
        let is_of_kind =
            |queue: &QueueRef| matches!(queue, QueueRef::Stream(_)) == head.stream.is_some();
        let found = found.filter(is_of_kind);
        let queue = found.filter(|queue| queue.def().exclusive_owner.is_none());
        let queue =
            queue.ok_or_else(|| UndoRefused::NoQueue("the queue does not exist".to_owned()))?;
        queue.loaded().await;
        Ok((queue, lacking))
    }

    /// The messages of a portion with the positions that they had; `None` if the portion cannot be read. The
    /// caller waits for the disk.
    #[must_use]
    pub fn messages(&self, number: u32) -> Option<Vec<(u64, OwnedMessage)>> {
        self.entry.messages(&*self.file, number)
    }

    /// Puts messages into their queue and waits for durability; returns the positions of those that it took.
    ///
    /// # Errors
    /// The queue is deleted: none of the messages is there.
    pub async fn put(
        &self,
        queue: &QueueRef,
        messages: &[(u64, OwnedMessage)],
    ) -> Result<Vec<u64>, UndoRefused> {
        let (taken, durable) = {
            let source = ForOneQueue(messages.iter().map(|(_, message)| anew(message)).collect());
            let (mut batch, mut wakes) = (source.batch(queue), Wakes::new());
            let durable = batch.put_all_in(&source, &mut wakes);
            batch.show(&self.broker.timers.tracing, None, &source);
            wake_all(&mut wakes);
            let taken = batch.pending().iter().zip(messages).filter(|(it, _)| !it.refused);
            (taken.map(|(_, (position, _))| *position).collect(), durable)
        };
        if durable.durable(&self.broker.classic.storage().wal).await.is_err() {
            std::future::pending::<()>().await;
        }
        if queue.is_deleted() {
            return Err(UndoRefused::NoQueue("the queue is deleted".to_owned()));
        }
        Ok(taken)
    }

    /// Notes that messages of a portion are back: those at these positions, or all. The caller waits for the
    /// disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn note(&self, number: u32, positions: Option<&[u64]>) -> Result<(), LogError> {
        self.entry.leave_out(&*self.file, number, positions)?;
        self.file.sync_data().context("sync", &name_of(self.entry.id))
    }

    /// Ends the work: the entry is removed if nothing is left of it. The caller waits for the disk.
    pub fn end(self) {
        let UndoEntry { id, n_messages, is_damaged, head, .. } = self.entry.shown();
        let broker = Arc::clone(&self.broker);
        drop(self);
        // A stream's messages are not in the part that is damaged.
        if n_messages == 0 && (!is_damaged || head.stream.is_some()) {
            let _was_there = broker.operations().undo().forget(id);
        }
    }
}

impl Drop for BringingBack {
    fn drop(&mut self) {
        self.entry.set_busy(Busy::No);
    }
}
