//! Exchanges, queues and bindings.

use std::sync::Arc;

use amqp091::ShortString;
use routing::{Binding, Destination, Name, QueueId};

use super::Mode;
use crate::checks::check_name;
use crate::command::{
    BindingSpec, Command, DestinationName, ExchangeDeclare, NamedBy, QueueDeclare,
};
use crate::error::MetaError;
use crate::exchange::{self, ExchangeDef, is_reserved};
use crate::outcome::{Done, Fact, Outcome, Removed};
use crate::queue::QueueDef;
use crate::queue_arguments;
use crate::queue_home::QueueHome;
use crate::queue_name::{delayed_queue_of, is_internal_name};
use crate::queue_type::{ConnectionId, QueueKind};
use crate::queues::Queues;
use crate::resource::{Resource, ResourceKind};
use crate::setting::QUEUE_TYPE_ARGUMENT;
use crate::vhost::Vhost;
use crate::vhosts::Vhosts;

/// The virtual hosts with their exchanges, queues and bindings, and all queues by id: a queue is in both.
#[derive(Clone, Debug, Default)]
pub(super) struct Resources {
    pub(super) vhosts: Vhosts,
    pub(super) queues: Queues,
}

impl Resources {
    pub(super) fn vhost(&self, name: &str) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    pub(super) fn require_vhost(&self, name: &Name) -> Result<&Vhost, MetaError> {
        self.vhosts.require(name)
    }

    pub(super) fn vhost_mut(&mut self, name: &Name) -> Result<&mut Vhost, MetaError> {
        self.vhosts.get_mut(name)
    }

    /// Takes everything in it along. Bindings go unlisted: both their ends are gone.
    pub(super) fn delete_vhost(
        &mut self,
        name: &Name,
        mode: Mode,
    ) -> Result<Vec<Removed>, MetaError> {
        if mode == Mode::Apply && self.require_vhost(name)?.metadata.protected_from_deletion {
            return Err(MetaError::VhostProtected(name.clone()));
        }
        let vhost = self.vhosts.remove(name)?;
        let mut removed = Vec::new();
        for queue in vhost.queues() {
            self.queues.remove(queue.id);
            removed.push(Removed::Queue(Arc::clone(queue)));
        }
        for exchange in vhost.exchanges() {
            let exchange = Arc::clone(exchange);
            removed.push(Removed::Exchange { vhost: name.clone(), exchange });
        }
        removed.push(Removed::Vhost(name.clone()));
        Ok(removed)
    }

    pub(super) fn declare_exchange(
        &mut self,
        declare: &ExchangeDeclare,
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        let vhost = self.require_vhost(&declare.vhost)?;
        if declare.name.is_empty() {
            return Err(MetaError::DefaultExchange);
        }
        if let Some(existing) = vhost.exchange(&declare.name) {
            existing.check_equivalent(&declare.vhost, declare)?;
            return Ok(Outcome::of(Done::ExchangeExists(Arc::clone(existing))));
        }
        if mode == Mode::Apply {
            check_new_exchange(declare)?;
        }
        let exchange = Arc::new(ExchangeDef {
            name: declare.name.clone(),
            kind: declare.kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: declare.arguments.clone(),
        });
        self.vhost_mut(&declare.vhost)?.insert_exchange(Arc::clone(&exchange));
        let fact = Fact::about(declare.durable, Command::DeclareExchange(declare.clone()));
        Ok(Outcome { facts: vec![fact], ..Outcome::of(Done::ExchangeCreated(exchange)) })
    }

    pub(super) fn delete_exchange(
        &mut self,
        vhost: &Name,
        name: &Name,
        if_unused: bool,
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        if !self.check_exchange_goes(vhost, name, if_unused)? {
            return Ok(Outcome::nothing());
        }
        let mut removal = Removal::new(self.vhost_mut(vhost)?, mode);
        removal.exchange(name);
        let outcome = removal.finish();
        Ok(self.without_delayed_queues(outcome, mode))
    }

    /// Whether there is an exchange to be deleted; why it may not be.
    pub(super) fn check_exchange_goes(
        &self,
        vhost: &Name,
        name: &Name,
        if_unused: bool,
    ) -> Result<bool, MetaError> {
        let found = self.require_vhost(vhost)?;
        if name.is_empty() {
            return Err(MetaError::DefaultExchange);
        }
        if is_reserved(name) {
            return Err(MetaError::SystemExchange(Resource::exchange(vhost, name)));
        }
        if if_unused && found.routes.n_bindings_from(name) > 0 {
            return Err(MetaError::InUse(Resource::exchange(vhost, name)));
        }
        Ok(found.exchange(name).is_some())
    }

    /// Exchanges that go take the queues with them that held messages back for them.
    fn without_delayed_queues(&mut self, mut outcome: Outcome, mode: Mode) -> Outcome {
        if mode == Mode::Replay {
            return outcome;
        }
        let queue_of = |removed: &Removed| match removed {
            Removed::Exchange { vhost, exchange } => {
                Some(self.vhost(vhost)?.queue(&delayed_queue_of(&exchange.name))?.id)
            }
            Removed::Binding { .. } | Removed::Queue(_) | Removed::Vhost(_) | Removed::User(_) => {
                None
            }
        };
        let ids: Vec<QueueId> = outcome.removed.iter().filter_map(queue_of).collect();
        if let Ok(Outcome { removed, facts, .. }) = self.delete_queues(&ids, mode) {
            outcome.removed.extend(removed);
            outcome.facts.extend(facts);
        }
        outcome
    }

    pub(super) fn declare_queue(
        &mut self,
        declare: &QueueDeclare,
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        let vhost = self.require_vhost(&declare.vhost)?;
        if mode == Mode::Apply {
            check_new_queue_name(declare)?;
        }
        let mut queue = QueueDef {
            id: QueueId(0),
            // Thousands of queues have one text.
            vhost: vhost.name.clone(),
            name: declare.name.clone(),
            kind: QueueKind::Classic,
            // COMPAT: an exclusive queue is stored as not durable, whatever was asked for.
            durable: declare.durable && declare.exclusive_owner.is_none(),
            auto_delete: declare.auto_delete,
            exclusive_owner: declare.exclusive_owner,
            arguments: declare.arguments.clone(),
            home: declare.home,
        };
        if queue.durable {
            queue.home.boot = QueueHome::default().boot;
        }
        queue_arguments::normalize_type(&mut queue.arguments);
        let is_replayed = mode == Mode::Replay;
        if is_replayed {
            // A newer version may have made a queue of a type that this one does not know.
            queue_arguments::check_type(&queue)?;
        } else {
            add_default_type(vhost, &mut queue);
        }
        queue.kind = queue_arguments::kind_of(&queue.arguments).unwrap_or(queue.kind);
        if let Some(existing) = vhost.queue(&declare.name) {
            existing.check_equivalent(&queue)?;
            return Ok(Outcome::of(Done::QueueExists(Arc::clone(existing))));
        }
        // A replayed declaration was checked when it was made.
        if !is_replayed {
            let is_made_name = declare.named_by == NamedBy::Server && is_reserved(&queue.name);
            queue_arguments::check_name_of(&queue, is_made_name)?;
            queue_arguments::check(&queue)?;
            check_queue_limit(vhost, declare)?;
        }
        self.queues.check_id(declare.id, queue.durable)?;
        queue.id = self.queues.take_id(queue.durable, declare.id);
        let queue = Arc::new(queue);
        self.vhost_mut(&queue.vhost)?.insert_queue(Arc::clone(&queue));
        self.queues.insert(Arc::clone(&queue));
        let facts = vec![Fact::about(queue.durable, redeclaration(&queue))];
        Ok(Outcome { facts, ..Outcome::of(Done::QueueCreated(queue)) })
    }

    pub(super) fn take_queue_id(&mut self) -> QueueId {
        self.queues.take_id(true, None)
    }

    pub(super) fn delete_queue(
        &mut self,
        vhost: &Name,
        name: &Name,
        by: Option<ConnectionId>,
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        let Some(queue) = self.require_vhost(vhost)?.queue(name) else {
            return Ok(Outcome::nothing());
        };
        queue.check_access(by)?;
        let id = queue.id;
        self.delete_queues(&[id], mode)
    }

    pub(super) fn delete_queues(
        &mut self,
        ids: &[QueueId],
        mode: Mode,
    ) -> Result<Outcome, MetaError> {
        let mut outcome = Outcome::nothing();
        for id in ids {
            let Some(queue) = self.queues.remove(*id) else { continue };
            let mut removal = Removal::new(self.vhost_mut(&queue.vhost)?, mode);
            removal.queue(queue);
            let Outcome { done, removed, facts } = removal.finish();
            outcome.done = done;
            outcome.removed.extend(removed);
            outcome.facts.extend(facts);
        }
        if outcome.removed.iter().any(|removed| matches!(removed, Removed::Exchange { .. })) {
            outcome = self.without_delayed_queues(outcome, mode);
        }
        Ok(outcome)
    }

    pub(super) fn bind(&mut self, spec: &BindingSpec) -> Result<Outcome, MetaError> {
        let vhost = self.require_vhost(&spec.vhost)?;
        check_not_default(spec)?;
        let source = vhost.require_exchange(&spec.source)?;
        let (destination, queue) = match &spec.destination {
            DestinationName::Queue(name) => {
                let queue = vhost.require_queue(name)?;
                (Destination::Queue(queue.id), Some(queue))
            }
            DestinationName::Exchange(name) => {
                vhost.require_exchange(name)?;
                (Destination::Exchange(name.clone()), None)
            }
        };
        let binding = Binding::new(
            spec.source.clone(),
            source.routes_as(),
            destination,
            spec.key.clone(),
            spec.arguments.clone(),
        )?;
        let binding = match &spec.destination {
            DestinationName::Queue(name) | DestinationName::Exchange(name) => {
                binding.to_destination_named(name)
            }
        };
        if let Some(queue) = queue {
            queue.check_access(spec.by)?;
        }
        let is_durable = vhost.is_durable(&binding, queue.is_some_and(|queue| queue.durable));
        if !self.vhost_mut(&spec.vhost)?.routes.bind(binding) {
            return Ok(Outcome::nothing());
        }
        let bind = Command::Bind(BindingSpec { by: None, ..spec.clone() });
        Ok(Outcome { facts: vec![Fact::about(is_durable, bind)], ..Outcome::of(Done::Changed) })
    }

    /// COMPAT: whatever is missing is no error here.
    pub(super) fn unbind(&mut self, spec: &BindingSpec, mode: Mode) -> Result<Outcome, MetaError> {
        let vhost = self.require_vhost(&spec.vhost)?;
        check_not_default(spec)?;
        let destination = match &spec.destination {
            DestinationName::Queue(name) => {
                let Some(queue) = vhost.queue(name) else { return Ok(Outcome::nothing()) };
                queue.check_access(spec.by)?;
                Destination::Queue(queue.id)
            }
            DestinationName::Exchange(name) => Destination::Exchange(name.clone()),
        };
        let is_durable_queue = match &spec.destination {
            DestinationName::Queue(name) => vhost.queue(name).is_some_and(|queue| queue.durable),
            DestinationName::Exchange(_) => false,
        };
        let vhost = self.vhost_mut(&spec.vhost)?;
        let unbound = vhost.routes.unbind(&spec.source, destination, &spec.key, &spec.arguments);
        let Some(binding) = unbound else { return Ok(Outcome::nothing()) };
        let mut removal = Removal::new(vhost, mode);
        let is_durable = removal.vhost.is_durable(&binding, is_durable_queue);
        let unbind = Command::Unbind(BindingSpec { by: None, ..spec.clone() });
        removal.facts.push(Fact::about(is_durable, unbind));
        removal.bindings(vec![binding], None);
        let outcome = removal.finish();
        Ok(self.without_delayed_queues(outcome, mode))
    }
}

fn check_new_exchange(declare: &ExchangeDeclare) -> Result<(), MetaError> {
    check_name("exchange", &declare.name)?;
    if is_reserved(&declare.name) && !exchange::is_the_nodes(declare) {
        let name = declare.name.clone();
        return Err(MetaError::ReservedName { kind: ResourceKind::Exchange, name });
    }
    exchange::check_arguments(&declare.vhost, declare)
}

fn check_new_queue_name(declare: &QueueDeclare) -> Result<(), MetaError> {
    check_name("queue", &declare.name)?;
    if declare.named_by == NamedBy::Client && is_reserved(&declare.name) {
        let name = declare.name.clone();
        return Err(MetaError::ReservedName { kind: ResourceKind::Queue, name });
    }
    Ok(())
}

fn check_queue_limit(vhost: &Vhost, declare: &QueueDeclare) -> Result<(), MetaError> {
    if is_internal_name(&declare.name) {
        return Ok(());
    }
    let Some(limit) = vhost.queue_limit_exceeded_by(1) else { return Ok(()) };
    let (name, vhost) = (declare.name.clone(), declare.vhost.clone());
    Err(MetaError::QueueLimit { name, vhost, limit })
}

fn check_not_default(spec: &BindingSpec) -> Result<(), MetaError> {
    let is_default = match &spec.destination {
        DestinationName::Queue(_) => false,
        DestinationName::Exchange(name) => name.is_empty(),
    };
    if is_default || spec.source.is_empty() { Err(MetaError::DefaultExchange) } else { Ok(()) }
}

/// Writes the default queue type of the virtual host into the arguments of a queue that names none; the
/// broker's own stay classic.
fn add_default_type(vhost: &Vhost, queue: &mut QueueDef) {
    let kind = vhost.metadata.default_queue_type.as_ref();
    let Some(kind) = kind.filter(|_| !queue.is_internal()) else { return };
    // Other types are for queues that last: a default must not break those that do not.
    let is_fit = QueueKind::of_name(kind).is_some_and(QueueKind::is_for_temporary)
        || (queue.durable && queue.exclusive_owner.is_none() && !queue.auto_delete);
    if is_fit && queue.arguments.get(QUEUE_TYPE_ARGUMENT.as_bytes()).is_none() {
        queue.arguments.push(ShortString::from_static(QUEUE_TYPE_ARGUMENT), kind.as_str());
    }
}

/// The command that makes this queue again, with its id.
pub(super) fn redeclaration(queue: &QueueDef) -> Command {
    Command::DeclareQueue(QueueDeclare {
        vhost: queue.vhost.clone(),
        name: queue.name.clone(),
        named_by: NamedBy::Server,
        durable: queue.durable,
        auto_delete: queue.auto_delete,
        exclusive_owner: queue.exclusive_owner,
        arguments: queue.arguments.clone(),
        id: Some(queue.id),
        home: queue.home,
    })
}

/// The command that makes this exchange again.
pub(super) fn exchange_redeclaration(vhost: &Name, exchange: &ExchangeDef) -> Command {
    Command::DeclareExchange(ExchangeDeclare {
        vhost: vhost.clone(),
        name: exchange.name.clone(),
        kind: exchange.kind,
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        internal: exchange.internal,
        arguments: exchange.arguments.clone(),
    })
}

/// The removal of something from a virtual host, with what follows from it.
struct Removal<'v> {
    vhost: &'v mut Vhost,
    mode: Mode,
    removed: Vec<Removed>,
    facts: Vec<Fact>,
    /// Exchanges that lost a binding as its source.
    lighter: Vec<Name>,
}

impl<'v> Removal<'v> {
    const fn new(vhost: &'v mut Vhost, mode: Mode) -> Self {
        Self { vhost, mode, removed: Vec::new(), facts: Vec::new(), lighter: Vec::new() }
    }

    fn queue(&mut self, queue: Arc<QueueDef>) {
        let bindings = self.vhost.take_queue(&queue.name);
        self.bindings(bindings, None);
        let deletion = Command::DeleteQueueById { id: queue.id };
        self.facts.push(Fact::about(queue.durable, deletion));
        self.removed.push(Removed::Queue(queue));
    }

    fn exchange(&mut self, name: &Name) {
        let Some((exchange, bindings)) = self.vhost.take_exchange(name) else { return };
        self.bindings(bindings, Some(name));
        let vhost = self.vhost.name.clone();
        let (name, if_unused) = (name.clone(), false);
        let deletion = Command::DeleteExchange { vhost: vhost.clone(), name, if_unused };
        self.facts.push(Fact::about(exchange.durable, deletion));
        self.removed.push(Removed::Exchange { vhost, exchange });
    }

    /// Takes note of bindings that are gone; `gone` is the exchange they went with.
    fn bindings(&mut self, bindings: Vec<Arc<Binding>>, gone: Option<&Name>) {
        for binding in bindings {
            if Some(&binding.source) != gone {
                self.lighter.push(binding.source.clone());
            }
            self.removed.push(Removed::Binding { vhost: self.vhost.name.clone(), binding });
        }
    }

    fn finish(mut self) -> Outcome {
        while let Some(name) = self.lighter.pop() {
            let is_unused = self.vhost.routes.n_bindings_from(&name) == 0;
            let goes = self.vhost.exchange(&name).is_some_and(|exchange| exchange.auto_delete);
            if is_unused && goes && self.mode == Mode::Apply {
                self.exchange(&name);
            }
        }
        Outcome { done: Done::Changed, removed: self.removed, facts: self.facts }
    }
}
