//! The cluster's definitions, agreed on by group 0: one node leads and decides commands, all nodes replay the
//! facts that come of them.
//! Knows asks, their answers and which were answered already. Never sockets, clocks, threads, files, queues,
//! what follows from a change.
//! Start reading at [`DefinitionsGroup`] and [`Asker`].

mod ask;
mod asker;
mod effects;
mod entry;
mod group;
mod leadership;
mod machine;
mod window;
mod wire;

pub use ask::{
    ASK_COMMANDS_MAX, AnswerBody, Ask, AskAnswer, Decision, Question, Refusal, RequestId,
};
pub use asker::{AskError, Asker, AskerEffects, KnownLeader, Reply, Surroundings};
pub use effects::{DefinitionsChange, DefinitionsEffects, StopReason};
pub use entry::{DefinitionsEntry, ENTRY_BYTES_MAX};
pub use group::{DEFINITIONS_GROUP, DefinitionsGroup, FoundDefinitions};
pub use leadership::OPEN_ASKS_MAX;
pub use machine::{IMAGE_AFTER_BYTES, IMAGE_AFTER_FACTS};
pub use window::REQUESTS_REMEMBERED;
pub use wire::ASK_BYTES_MAX;
