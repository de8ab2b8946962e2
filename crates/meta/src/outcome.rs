//! The outcome of a command.

mod codec;

use std::sync::Arc;

use routing::{Binding, Name};
use thiserror::Error;

use crate::command::Command;
use crate::error::MetaError;
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
    /// The change as facts, in order: replaying all of them with [`State::replay`](crate::State::replay) on
    /// the state before gives the state after, and replaying the durable ones on its durable part gives the
    /// durable part of the state after. Empty when nothing changed.
    pub facts: Vec<Fact>,
}

/// A change as every node has it.
#[derive(Clone, Copy, Debug)]
pub struct ChangeFacts<'o> {
    /// The facts, in order.
    pub facts: &'o [Fact],
    /// The objects that they removed, in order.
    pub removed: &'o [Removed],
}

impl<'o> ChangeFacts<'o> {
    /// The commands of the facts.
    pub fn commands(self) -> impl Iterator<Item = &'o Command> {
        self.facts.iter().map(|fact| &fact.command)
    }
}

/// A part of a change that was decided: no replay of a fact checks, names or numbers anything anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Whether the fact outlives its node.
    pub class: FactClass,
    /// The change.
    pub command: Command,
}

/// Whether a fact outlives the node that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactClass {
    /// The fact is logged and survives a restart.
    Durable,
    /// The fact concerns what a restart ends: exclusive and transient objects.
    Transient,
}

/// The refusal of a fact that does not fit the state that is to replay it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fact} does not fit the definitions: {reason}")]
pub struct Misfit {
    /// The kind of its command.
    pub fact: &'static str,
    /// The object or value that the state lacks, has already, or does not know.
    pub reason: Box<MetaError>,
}

impl Fact {
    pub(crate) const fn durable(command: Command) -> Self {
        Self { class: FactClass::Durable, command }
    }

    /// A fact about an object that is durable or not.
    pub(crate) const fn about(is_durable: bool, command: Command) -> Self {
        let class = if is_durable { FactClass::Durable } else { FactClass::Transient };
        Self { class, command }
    }
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
    /// The node with this number has joined the cluster.
    NodeJoined(u16),
    /// The node was in the cluster, with this number.
    NodeExists(u16),
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

impl Done {
    /// Whether the state is another than before the command.
    pub const fn is_change(&self) -> bool {
        match self {
            Self::Changed
            | Self::ExchangeCreated(_)
            | Self::QueueCreated(_)
            | Self::NodeJoined(_) => true,
            Self::Nothing
            | Self::ExchangeExists(_)
            | Self::QueueExists(_)
            | Self::NodeExists(_) => false,
        }
    }
}

impl Outcome {
    /// The part of the outcome that every node has.
    #[must_use]
    pub fn change(&self) -> ChangeFacts<'_> {
        ChangeFacts { facts: &self.facts, removed: &self.removed }
    }

    /// The commands to log so that the change survives a restart; none if nothing durable changed.
    pub fn durable(&self) -> impl Iterator<Item = &Command> {
        let durable = self.facts.iter().filter(|fact| fact.class == FactClass::Durable);
        durable.map(|fact| &fact.command)
    }

    pub(crate) const fn nothing() -> Self {
        Self::of(Done::Nothing)
    }

    pub(crate) const fn of(done: Done) -> Self {
        Self { done, removed: Vec::new(), facts: Vec::new() }
    }

    /// A change that is always durable.
    pub(crate) fn logged(command: &Command) -> Self {
        Self {
            done: Done::Changed,
            removed: Vec::new(),
            facts: vec![Fact::durable(command.clone())],
        }
    }
}
