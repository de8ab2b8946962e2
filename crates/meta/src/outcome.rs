//! The outcome of a command.

use std::sync::Arc;

use routing::{Binding, Name};

use crate::command::Command;
use crate::exchange::ExchangeDef;
use crate::queue::QueueDef;

/// The outcome of a command.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command's own effect.
    pub done: Done,
    /// The removed objects, in order: the bindings of an object before the object, causes before
    /// consequences.
    pub removed: Vec<Removed>,
    /// The commands to log so that the change survives a restart: replaying these with
    /// [`State::replay`](crate::State::replay) on the durable part of the state before gives the
    /// durable part of the state after. Empty when nothing durable changed.
    pub log: Vec<Command>,
}

/// A command's own effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The state was already as the command asks.
    Nothing,
    /// Something was created, changed or removed.
    Changed,
    /// The exchange was created.
    ExchangeCreated(Arc<ExchangeDef>),
    /// The exchange was there, with equivalent properties.
    ExchangeExists(Arc<ExchangeDef>),
    /// The queue was created.
    QueueCreated(Arc<QueueDef>),
    /// The queue was there, with equivalent properties.
    QueueExists(Arc<QueueDef>),
}

/// An object that was removed.
#[derive(Clone, Debug)]
pub enum Removed {
    /// A binding.
    Binding {
        /// Its virtual host.
        vhost: Name,
        /// The binding.
        binding: Arc<Binding>,
    },
    /// A queue.
    Queue(Arc<QueueDef>),
    /// An exchange.
    Exchange {
        /// Its virtual host.
        vhost: Name,
        /// The exchange.
        exchange: Arc<ExchangeDef>,
    },
    /// A virtual host.
    Vhost(Name),
    /// A user.
    User(Name),
}

impl Outcome {
    pub(crate) const fn nothing() -> Self {
        Self::of(Done::Nothing)
    }

    pub(crate) const fn of(done: Done) -> Self {
        Self { done, removed: Vec::new(), log: Vec::new() }
    }

    /// A change that is always durable.
    pub(crate) fn logged(command: &Command) -> Self {
        Self { done: Done::Changed, removed: Vec::new(), log: vec![command.clone()] }
    }
}
