//! Deleting queues that are over, and what has very many bindings, so that nobody waits for the control
//! plane's lock meanwhile.

use super::{BY_ITSELF, Broker};
use crate::slices::Slices;
use meta::{Command, ConnectionId, Done, QueueId};

impl Broker {
    /// Deletes a queue, unless it is gone already.
    pub(crate) async fn drop_queue(&self, id: QueueId) {
        self.drop_definition(Command::DeleteQueueById { id }).await;
    }

    /// Deletes the exclusive queues of a connection.
    pub(crate) async fn drop_exclusive_queues(&self, owner: ConnectionId) {
        while self.drop_definition(Command::DeleteExclusiveQueues { owner }).await {
            tokio::task::yield_now().await;
        }
    }

    /// Whether there was something to be deleted.
    async fn drop_definition(&self, command: Command) -> bool {
        match self.change_durably(&command, BY_ITSELF).await {
            Ok(done) => done != Done::Nothing,
            Err(error) => {
                tracing::debug!("not deleted: {error:?}");
                false
            }
        }
    }

    /// Takes the bindings of what a command is about to delete out in slices, until there are few.
    /// True if there were many: until the command has been carried out, definitions are not written
    /// down. A node that ends before that finds all of them in its log.
    pub(super) async fn unbind_in_slices(
        &self,
        command: &Command,
        by: &str,
        slices: &mut Slices,
    ) -> bool {
        let mut is_unbinding = false;
        loop {
            let removed = self.control_plane.unbind_slice(command, !is_unbinding);
            if removed.is_empty() {
                return is_unbinding;
            }
            is_unbinding = true;
            self.events().unbound(&removed, by);
            slices.did(removed.len()).await;
        }
    }
}
