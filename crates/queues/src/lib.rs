//! The queue seam: a queue of any type, as sessions, publishing and listings see it, with the consumers of
//! sessions. Queue types are told apart here and nowhere else; a new type is an arm of `each!` and of the
//! matches. Never sessions, definitions that change, or what a type does.

/// Asks the queue, consumer or release of whatever type. Where a type has an answer of its own, the match is
/// written out; there is never an arm for all others.
macro_rules! each {
    ($of:expr, $one:ident => $answer:expr) => {
        match $of {
            Self::Classic($one) => $answer,
            Self::Quorum($one) => $answer,
            Self::Stream($one) => $answer,
        }
    };
}

/// As `each!` for what only classic queues do, and an answer for the others.
macro_rules! classic {
    ($of:expr, $one:ident => $answer:expr, $other:expr) => {
        match $of {
            Self::Classic($one) => $answer,
            Self::Quorum(_) | Self::Stream(_) => $other,
        }
    };
}

mod queue_ref;
mod release;

pub use queue_ref::{Browsable, Diagnosis, LinkRef, QueueContents, QueueRef, ReturningRef};
pub use release::ReleaseRef;
