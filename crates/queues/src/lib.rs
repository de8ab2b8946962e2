//! The queue seam: a queue of any type, as sessions, publishing and listings see it, with the consumers of
//! sessions. Queue types are told apart here and nowhere else; a new type is an arm of the matches of one
//! file. Never sessions, definitions that change, or what a type does.

mod queue_ref;

pub use queue_ref::{
    Browsable, Diagnosis, LinkRef, QueueContents, QueueRef, ReleaseRef, ReturningRef, Upkeep,
};
