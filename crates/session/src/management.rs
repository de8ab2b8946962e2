//! The words of clients that manage queues and bindings by requests which are answered in full.

use crate::{MethodTag, QueueDeclaration, ShortString, Table};

/// The operation that a client asks for, beside those that clients of all protocols have.
#[derive(Debug)]
pub enum ManagementOp {
    /// Create a queue, or check that it exists as described; answered by [`ManagementEvent::Queue`].
    DeclareQueue(QueueDeclaration),
    /// Describe a queue; answered by [`ManagementEvent::Queue`].
    DescribeQueue(ShortString),
    /// Find the bindings of a key, whatever their arguments; answered by [`ManagementEvent::Bindings`].
    FindBindings(BindingEnds),
    /// Remove a binding, if it is there.
    RemoveBinding {
        /// Source, destination and key of the binding.
        ends: BindingEnds,
        /// The hash of its arguments, as [`BindingReport`] tells it; empty for none.
        arguments_hash: String,
    },
}

/// Source, destination and key of bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingEnds {
    /// The exchange that routes.
    pub source: ShortString,
    /// The queue or exchange that receives.
    pub destination: BindingTarget,
    /// The binding key.
    pub routing_key: ShortString,
}

/// The end of a binding that receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingTarget {
    /// A queue.
    Queue(ShortString),
    /// An exchange.
    Exchange(ShortString),
}

/// The answer to a [`ManagementOp`].
#[derive(Debug)]
pub enum ManagementEvent<'a> {
    /// A queue is declared or described.
    Queue {
        /// The request.
        origin: MethodTag,
        /// Whether the request has created the queue.
        is_new: bool,
        /// The queue.
        queue: QueueReport<'a>,
    },
    /// The bindings found.
    Bindings {
        /// The request.
        origin: MethodTag,
        /// The bindings.
        bindings: &'a [BindingReport<'a>],
    },
}

/// A queue as its clients may know it.
#[derive(Clone, Copy, Debug)]
pub struct QueueReport<'a> {
    /// The queue's name.
    pub name: &'a str,
    /// The name of the queue's type.
    pub kind: &'a str,
    /// Whether the queue survives a restart.
    pub durable: bool,
    /// Whether the queue is deleted with its last consumer.
    pub auto_delete: bool,
    /// Whether the queue is for one connection only.
    pub exclusive: bool,
    /// Arguments.
    pub arguments: &'a Table,
    /// Ready messages.
    pub n_ready: u64,
    /// Consumers.
    pub n_consumers: u64,
}

/// A binding as clients may know it.
#[derive(Clone, Debug)]
pub struct BindingReport<'a> {
    /// Source, destination and key.
    pub ends: &'a BindingEnds,
    /// Arguments.
    pub arguments: &'a Table,
    /// A hash of the arguments, of letters, digits, `-` and `_`; empty for none.
    pub arguments_hash: String,
}
