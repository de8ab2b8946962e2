//! Deletion of bindings in pieces: an object with very many bindings loses them piece by piece before
//! it is deleted, so that nobody waits for all of it.

use std::sync::Arc;

use routing::{Binding, Destination, Name, QueueId};

use super::State;
use super::resources::Resources;
use crate::command::Command;
use crate::outcome::Removed;
use crate::queue_type::ConnectionId;

/// Queues and bindings that one [`Command::DeleteExclusiveQueues`] deletes.
const EXCLUSIVE_AT_ONCE: usize = 64;

impl State {
    /// Takes `n` bindings out of the object that a command is about to delete, if it has so many and is
    /// going to be deleted; the command takes out the rest.
    ///
    /// The deletion is logged, and stands for this too: until it has been carried out, the state is
    /// not to be written down. An auto-delete exchange is not made to go by this.
    pub fn unbind_some(&mut self, command: &Command, n: usize) -> Vec<Removed> {
        self.resources.unbind_some(command, n)
    }
}

impl Resources {
    fn unbind_some(&mut self, command: &Command, n: usize) -> Vec<Removed> {
        let Some((vhost, goes)) = self.about_to_go(command) else { return Vec::new() };
        let gone = self.some_bindings(&vhost, &goes, n);
        if gone.len() < n {
            return Vec::new();
        }
        let Ok(found) = self.vhost_mut(&vhost) else { return Vec::new() };
        for binding in &gone {
            found.routes.remove_binding(binding);
        }
        let removed = |binding| Removed::Binding { vhost: vhost.clone(), binding };
        gone.into_iter().map(removed).collect()
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others delete nothing that has bindings"
    )]
    fn about_to_go(&self, command: &Command) -> Option<(Name, Destination)> {
        let queue = match command {
            Command::DeleteExchange { vhost, name, if_unused } => {
                let goes = self.check_exchange_goes(vhost, name, *if_unused).ok()?;
                return goes.then(|| (vhost.clone(), Destination::Exchange(name.clone())));
            }
            Command::DeleteQueue { vhost, name, by } => {
                let queue = self.vhost(vhost)?.queue(name)?;
                queue.check_access(*by).ok()?;
                queue
            }
            Command::DeleteQueueById { id } => self.queues.get(*id)?,
            Command::DeleteExclusiveQueues { owner } => self.queues.exclusive_of(*owner).next()?,
            _ => return None,
        };
        Some((queue.vhost.clone(), Destination::Queue(queue.id)))
    }

    /// Up to `n` bindings from or to what goes.
    fn some_bindings(&self, vhost: &Name, goes: &Destination, n: usize) -> Vec<Arc<Binding>> {
        let Some(vhost) = self.vhost(vhost) else { return Vec::new() };
        let name = match goes {
            Destination::Exchange(name) => Some(name),
            Destination::Queue(_) => None,
        };
        let may_lose = |source: &Name| {
            let goes_with_its_last = vhost.exchange(source).is_some_and(|it| it.auto_delete);
            Some(source) == name || !goes_with_its_last || vhost.routes.n_bindings_from(source) > n
        };
        let from = name.into_iter().flat_map(|name| vhost.routes.bindings_from(name));
        let to = vhost.routes.bindings_to(goes);
        // Of those that lead from it to itself there is one for each key at most.
        let to = to.filter(|binding| Some(&binding.source) != name);
        from.chain(to).filter(|binding| may_lose(&binding.source)).take(n).cloned().collect()
    }

    /// The first exclusive queues of a connection: one, or as many as have few bindings together.
    pub(super) fn some_exclusive_queues(&self, owner: ConnectionId) -> Vec<QueueId> {
        let mut n = 0;
        let some = self.queues.exclusive_of(owner).take_while(|queue| {
            let (is_first, to_it) = (n == 0, Destination::Queue(queue.id));
            let routes = self.vhost(&queue.vhost).map(|vhost| &vhost.routes).into_iter();
            n += 1 + routes.flat_map(|it| it.bindings_to(&to_it)).take(EXCLUSIVE_AT_ONCE).count();
            is_first || n <= EXCLUSIVE_AT_ONCE
        });
        some.map(|queue| queue.id).collect()
    }
}
