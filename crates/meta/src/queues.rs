//! The queues of all virtual hosts by id.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use routing::{Binding, Destination, QueueId};

use crate::command::DestinationName;
use crate::error::MetaError;
use crate::queue::{QueueDef, QueueIds};
use crate::queue_type::ConnectionId;
use crate::vhost::BindingView;

/// The queues of all virtual hosts by id, and the exclusive ones by owner. A clone is O(1).
#[derive(Clone, Debug, Default)]
pub struct Queues {
    by_id: OrdMap<QueueId, Arc<QueueDef>>,
    exclusive: OrdSet<(ConnectionId, QueueId)>,
    ids: QueueIds,
}

impl Queues {
    /// A queue.
    pub fn get(&self, id: QueueId) -> Option<&Arc<QueueDef>> {
        self.by_id.get(&id)
    }

    /// All queues by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<QueueDef>> {
        self.by_id.values()
    }

    /// The number of queues.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the id has been given to a queue, which may be gone.
    #[must_use]
    pub const fn has_given(&self, id: QueueId) -> bool {
        self.ids.has_given(id)
    }

    /// Whether no queue exists.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The exclusive queues of a connection by id.
    pub fn exclusive_of(&self, owner: ConnectionId) -> impl Iterator<Item = &Arc<QueueDef>> {
        (self.exclusive.range((owner, QueueId(0))..=(owner, QueueId(u64::MAX))))
            .filter_map(|(_, id)| self.by_id.get(id))
    }

    /// A binding as it is listed; nothing if its queue is gone.
    #[must_use]
    pub fn view(&self, binding: &Binding) -> Option<BindingView> {
        let destination = match &binding.destination {
            Destination::Queue(id) => DestinationName::Queue(self.get(*id)?.name.clone()),
            Destination::Exchange(name) => DestinationName::Exchange(name.clone()),
        };
        Some(BindingView {
            source: binding.source.clone(),
            destination,
            key: binding.key.clone(),
            arguments: binding.arguments.clone(),
        })
    }

    pub(crate) const fn ids(&self) -> &QueueIds {
        &self.ids
    }

    /// Takes note of ids that a snapshot says were given out.
    pub(crate) fn restore_ids(&mut self, next_durable: u64, next_transient: u64) {
        self.ids.restore(next_durable, next_transient);
    }

    pub(crate) fn begin_term(&mut self, term: u32) {
        self.ids.begin_term(term);
    }

    /// Refuses an id that is another queue's, or that no queue of this durability may have.
    pub(crate) fn check_id(&self, known: Option<QueueId>, durable: bool) -> Result<(), MetaError> {
        let is_wrong = |id: &QueueId| self.get(*id).is_some() || !QueueIds::may_be(*id, durable);
        let wrong = known.filter(is_wrong);
        wrong.map_or(Ok(()), |QueueId(id)| Err(MetaError::Invalid(format!("no new queue is {id}"))))
    }

    /// The id of a queue that is declared, or is there again with the id `known`.
    pub(crate) fn take_id(&mut self, durable: bool, known: Option<QueueId>) -> QueueId {
        let id = known.unwrap_or_else(|| self.ids.next(durable));
        self.ids.take(id);
        id
    }

    pub(crate) fn insert(&mut self, queue: Arc<QueueDef>) {
        debug_assert!(
            !queue.durable || queue.exclusive_owner.is_none(),
            "the exclusive do not last"
        );
        if let Some(owner) = queue.exclusive_owner {
            self.exclusive.insert((owner, queue.id));
        }
        self.by_id.insert(queue.id, queue);
    }

    pub(crate) fn remove(&mut self, id: QueueId) -> Option<Arc<QueueDef>> {
        let queue = self.by_id.remove(&id)?;
        if let Some(owner) = queue.exclusive_owner {
            self.exclusive.remove(&(owner, id));
        }
        Some(queue)
    }
}
