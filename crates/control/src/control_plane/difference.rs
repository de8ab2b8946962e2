//! The difference between two states of definitions, in the form of a change: what a node follows that has
//! got a later state as a whole.

use meta::{
    ChangeFacts, Command, Fact, FactClass, NamedBy, QueueDeclare, QueueDef, Removed, State,
};
use std::sync::Arc;

/// The queues that are new, and all that is gone.
#[derive(Debug, Default)]
pub(super) struct Difference {
    facts: Vec<Fact>,
    removed: Vec<Removed>,
}

impl Difference {
    /// Compares the definitions that a replica had with later ones of its group. A later state that lacks
    /// something which was committed before says that it was deleted: ids are never used twice.
    pub(super) fn between(before: &State, after: &State) -> Self {
        let mut it = Self::default();
        let is_new = |def: &&Arc<QueueDef>| before.queue_by_id(def.id).is_none();
        it.facts.extend(after.queues().iter().filter(is_new).map(|def| declaration(def)));
        let gone = before.queues().iter().filter(|def| after.queue_by_id(def.id).is_none());
        it.removed.extend(gone.map(|def| Removed::Queue(Arc::clone(def))));
        for vhost in before.vhosts() {
            let name = &vhost.name;
            for exchange in vhost.exchanges().filter(|it| after.exchange(name, &it.name).is_none())
            {
                let (vhost, exchange) = (name.clone(), Arc::clone(exchange));
                it.removed.push(Removed::Exchange { vhost, exchange });
            }
            if after.vhost(name).is_none() {
                it.removed.push(Removed::Vhost(name.clone()));
            }
        }
        let gone = before.users().iter().filter(|user| after.user(&user.name).is_none());
        it.removed.extend(gone.map(|user| Removed::User(user.name.clone())));
        it
    }

    pub(super) fn change(&self) -> ChangeFacts<'_> {
        ChangeFacts { facts: &self.facts, removed: &self.removed }
    }
}

fn declaration(queue: &QueueDef) -> Fact {
    let class = if queue.durable { FactClass::Durable } else { FactClass::Transient };
    let command = Command::DeclareQueue(QueueDeclare {
        vhost: queue.vhost.clone(),
        name: queue.name.clone(),
        named_by: NamedBy::Server,
        durable: queue.durable,
        auto_delete: queue.auto_delete,
        exclusive_owner: queue.exclusive_owner,
        arguments: queue.arguments.clone(),
        id: Some(queue.id),
        home: queue.home,
    });
    Fact { class, command }
}
