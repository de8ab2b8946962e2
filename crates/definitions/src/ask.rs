//! Asks of nodes to the leader, and its answers.

use std::sync::Arc;

use meta::{Command, Done, MetaError, Name};
use thiserror::Error;

/// Most commands of one ask.
pub const ASK_COMMANDS_MAX: usize = 100_000;

/// The name of a change that a node asks for: the same each time the node asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The node that asks.
    pub node: u16,
    /// The number of its start.
    pub boot: u32,
    /// The number of the change since then, from 1.
    pub n: u64,
}

/// The content of an ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The commands: either all are done or none.
    pub commands: Vec<Command>,
    /// The index of the definitions that the commands were planned on, if they fit no others.
    pub basis: Option<u64>,
    /// The user on whose behalf the node asks.
    pub user: Name,
}

/// An ask, sent to the node that is thought to lead.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Its name.
    pub request: RequestId,
    /// The number of this attempt among all that the node has sent since its start.
    pub attempt: u64,
    /// The term of the leader it is for: no later one takes it.
    pub term: u64,
    /// The content.
    pub question: Arc<Question>,
}

/// The answer to an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AskAnswer {
    /// The ask.
    pub request: RequestId,
    /// The attempt.
    pub attempt: u64,
    /// The content.
    pub body: AnswerBody,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerBody {
    /// The ask was decided, for definitions as of `index`.
    Decided {
        /// The index.
        index: u64,
        /// The decision.
        decision: Decision,
    },
    /// The attempt had and will have no effect: the node does not lead in that term, or has no room.
    Declined,
}

/// The decision about an ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The commands' effects, one by one.
    Done(Vec<Done>),
    /// The ask was done at an earlier attempt.
    WasDone,
    /// The ask is refused: none of its commands was carried out.
    Refused(Refusal),
}

/// The reason why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The definitions have changed since those that the commands were planned on.
    #[error("the definitions have changed meanwhile")]
    Moved,
    /// A command was refused.
    #[error(transparent)]
    Command(#[from] MetaError),
    /// The commands or their facts are too many for one entry.
    #[error("too large a change for one step")]
    TooLarge,
}
