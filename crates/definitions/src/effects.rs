//! The work that a step gives the host of the definitions, as data.

use cluster::GroupEffects;
use meta::{Fact, Misfit, Name, Removed, RestoreError};
use stdx::record::RecordError;
use thiserror::Error;

use crate::ask::{AskAnswer, RequestId};

/// A change that this replica has applied.
#[derive(Clone, Debug)]
pub struct DefinitionsChange {
    /// The index of its entry; several changes may have one.
    pub index: u64,
    /// The ask it was made for.
    pub request: RequestId,
    /// The user on whose behalf it was made.
    pub user: Name,
    /// The facts, in order.
    pub facts: Vec<Fact>,
    /// The objects that they removed, in order.
    pub removed: Vec<Removed>,
}

/// The reason why a replica takes no part any more. The other replicas go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StopReason {
    /// A fact does not fit the definitions here.
    #[error("entry {index}: {misfit}")]
    Misfit {
        /// The index of its entry.
        index: u64,
        /// The fact and why it does not fit.
        misfit: Misfit,
    },
    /// An entry is damaged, or of a later version.
    #[error("entry {index}: {error}")]
    Entry {
        /// The index of the entry.
        index: u64,
        /// The error.
        error: RecordError,
    },
    /// An image is damaged, or of a later version.
    #[error(transparent)]
    Image(#[from] RestoreError),
}

/// The outcome of a step, in the order in which the host works it off.
#[derive(Debug, Default)]
pub struct DefinitionsEffects {
    /// An image has replaced the definitions: what the host derives from them is to be derived anew.
    pub is_restored: bool,
    /// The changes behind that.
    pub changes: Vec<DefinitionsChange>,
    /// Answers to asks, for the nodes that they name.
    pub answers: Vec<AskAnswer>,
    /// The reason why the replica stops, if it does now.
    pub stopped: Option<StopReason>,
    /// The group's own effects, without entries, images and answers.
    pub group: GroupEffects,
}
