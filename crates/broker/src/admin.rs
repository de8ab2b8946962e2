//! Operators' requests to a running node, beyond definitions.

mod undoing;

use crate::broker::{BY_OPERATOR, Broker, ChangeError};
use chunk_log::ChunkLogError;
use classic::Delayed;
use confirm::LogFailed;
use control::accept_stream_loss;
use meta::{Command, ConnectionId, MetaError, Name, State, SuperStream, SuperStreamError, Vhost};
use queue_type::{DeleteConditions, QueueRefused};
use queues::QueueRef;
use std::sync::Arc;
use stream::{Lack, Stream};
use tokio::task::spawn_blocking;

impl Broker {
    /// A queue by name, unless it is the broker's own.
    #[must_use]
    pub fn queue(&self, vhost: &str, name: &str) -> Option<QueueRef> {
        self.view().queue(vhost, name).filter(|queue| !queue.def().is_internal())
    }
}

/// The broker as operators and tools use it, beyond definitions.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'b>(pub(crate) &'b Broker);

impl Broker {
    /// Requests of operators.
    pub const fn operations(&self) -> Operations<'_> {
        Operations(self)
    }
}

impl<'b> Operations<'b> {
    pub(crate) const fn broker(self) -> &'b Broker {
        self.0
    }
}

impl Operations<'_> {
    /// The first `n_max` messages that an exchange holds back, in the order in which they go on; `None`
    /// if it holds nothing back. Reads those from the disk that are not in memory: not for a thread that
    /// others wait for.
    #[must_use]
    pub fn held_back(&self, vhost: &str, exchange: &str, n_max: usize) -> Option<Vec<Delayed>> {
        Some(self.delayed_queue(vhost, exchange)?.as_classic()?.held_back().first(n_max))
    }

    /// Resolves when it is known what an exchange holds back: after a start that may take a while.
    pub async fn held_back_is_known(&self, vhost: &str, exchange: &str) {
        if let Some(queue) = self.delayed_queue(vhost, exchange) {
            queue.loaded().await;
        }
    }

    /// Opens a stream that is closed without what is missing of it: what that is; none if nothing is.
    ///
    /// # Errors
    /// The disk's.
    pub async fn accept_stream_loss(
        &self,
        stream: &Arc<Stream>,
    ) -> Result<Option<Lack>, ChunkLogError> {
        let (control_plane, stream) = (Arc::clone(&self.0.control_plane), Arc::clone(stream));
        let accepted = spawn_blocking(move || accept_stream_loss(&control_plane, &stream)).await;
        accepted.unwrap_or(Ok(None))
    }

    /// Drops a message that an exchange holds back, for good; false if there is none of that id.
    pub async fn cancel_held_back(&self, vhost: &str, exchange: &str, id: u64) -> bool {
        let Some(queue) = self.delayed_queue(vhost, exchange) else { return false };
        queue.loaded().await;
        let is_cancelled = queue.as_classic().is_some_and(|queue| queue.held_back().cancel(id));
        if is_cancelled {
            self.durable().await;
        }
        is_cancelled
    }

    /// The queue of an exchange that delays messages, where it holds them back.
    #[must_use]
    pub fn delayed_queue(&self, vhost: &str, exchange: &str) -> Option<QueueRef> {
        self.0.view().queue(vhost, &meta::delayed_queue_of(exchange))
    }

    /// Drops a queue's ready messages; returns how many.
    ///
    /// # Errors
    /// It does not exist, or is of a type that keeps its messages.
    pub async fn purge_queue(&self, vhost: &str, name: &str) -> Result<u64, QueueRefused> {
        loaded_queue(self.0, vhost, name).await?.purge().await
    }

    /// Resolves when what was changed until now survives a crash.
    pub async fn durable(&self) {
        let upto = self.0.classic.storage().wal.stats().appended_upto;
        self.0.changes().durable(upto).await;
    }

    /// Deletes a queue; returns how many ready messages went with it.
    ///
    /// # Errors
    /// It does not exist, or a condition does not hold.
    pub async fn delete_queue(
        &self,
        vhost: &str,
        name: &str,
        conditions: DeleteConditions,
    ) -> Result<u64, QueueRefused> {
        let queue = loaded_queue(self.0, vhost, name).await?;
        let n_ready = queue.begin_delete(conditions).await?;
        self.end_delete(&queue, BY_OPERATOR).await;
        Ok(n_ready)
    }

    /// Has a queue take nothing from now on, if it can be deleted; returns how many messages are ready.
    ///
    /// # Errors
    /// A condition does not hold.
    pub async fn begin_delete(
        &self,
        queue: &QueueRef,
        conditions: DeleteConditions,
    ) -> Result<u64, QueueRefused> {
        queue.begin_delete(conditions).await
    }

    /// Deletes a queue that takes nothing any more, in the name of a user; that of an operator is empty.
    pub async fn end_delete(&self, queue: &QueueRef, by: &str) {
        let command = Command::DeleteQueueById { id: queue.id() };
        let by = if by.is_empty() { BY_OPERATOR } else { by };
        if let Err(ChangeError::LogFailed) = self.0.changes().apply_durably(&command, by).await {
            std::future::pending::<()>().await;
        }
    }

    /// Makes a super stream: all of it, or nothing.
    ///
    /// # Errors
    /// Those of [`SuperStream::create`]; the definitions refuse a part of it.
    pub async fn create_super_stream(
        &self,
        vhost: &Name,
        wanted: &SuperStream,
    ) -> Result<(), SuperStreamError> {
        let most = self.0.limits().super_stream_partitions;
        self.change_together(vhost, |_, vhost| wanted.create(vhost, most)).await
    }

    /// Deletes a super stream with its partitions, or nothing.
    ///
    /// # Errors
    /// Those of [`meta::delete_super_stream`].
    pub async fn delete_super_stream(
        &self,
        vhost: &Name,
        name: &str,
    ) -> Result<(), SuperStreamError> {
        let plan =
            |state: &State, vhost: &Vhost| meta::delete_super_stream(vhost, state.queues(), name);
        self.change_together(vhost, plan).await
    }

    async fn change_together(
        &self,
        vhost: &Name,
        plan: impl Fn(&State, &Vhost) -> Result<Vec<Command>, SuperStreamError>,
    ) -> Result<(), SuperStreamError> {
        let plan = |state: &State| match state.vhost(vhost) {
            Some(vhost) => plan(state, vhost),
            None => Err(MetaError::VhostNotFound(vhost.clone()).into()),
        };
        match self.0.changes().apply_together(BY_OPERATOR, plan).await {
            Ok(changed) => changed,
            // The node is on its way down.
            Err(LogFailed) => std::future::pending().await,
        }
    }

    /// Bytes that a connection may hold beside queues, and all together.
    #[must_use]
    pub fn held_bytes_max(&self) -> (u64, u64) {
        let holdings = &self.0.holdings;
        (holdings.connection_bytes_max(), holdings.all_bytes_max())
    }

    /// Requests that belong to no connection hold so much now: it counts beside what connections hold.
    pub fn note_requests_hold(&self, n_bytes: u64) {
        self.0.holdings.note_requests(n_bytes);
    }

    /// Asks a connection to close with 320; false when there is none of that id.
    pub fn close_connection(&self, id: ConnectionId, reason: &str) -> bool {
        let found = self.0.connections.get(id);
        if let Some(connection) = &found {
            connection.kick(reason);
        }
        found.is_some()
    }
}

/// Finds a queue, and waits while it is being read after a start.
async fn loaded_queue(broker: &Broker, vhost: &str, name: &str) -> Result<QueueRef, QueueRefused> {
    let queue = broker.queue(vhost, name).ok_or(QueueRefused::NotFound)?;
    queue.loaded().await;
    if queue.is_deleted() { Err(QueueRefused::NotFound) } else { Ok(queue) }
}
