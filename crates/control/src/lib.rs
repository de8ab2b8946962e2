//! The control plane: the definitions of a node, the queues they name, and the log of both. Never
//! connections, sessions or events: what follows elsewhere from a change is returned as [`Effects`].
//! Start reading at [`ControlPlane::submit`]; the data plane reads a [`View`].

mod churn;
mod control_plane;
mod gone;
pub mod log_records;
mod queue_homes;
pub mod slices;
mod view;

pub use churn::QueueChurn;
pub use control_plane::{
    ASK_TIMEOUT_MS, Asking, Changed, CommandLog, ControlParts, ControlPlane, DEFINITIONS_FILE,
    Definitions, DefinitionsLinks, Effects, FoundReplica, FoundingError, HeldDefinitions,
    LeaderEffects, Made, NodeEffect, NodeWork, NodeWorkDue, PlanError, Planned, ReplicaParts,
    Replication, Unbinding, accept_stream_loss, awaits_cluster, discard_others, found_cluster,
    join_cluster, other_homes, resume_cluster, take_queue_id,
};
pub use gone::{Gone, encode_definitions, read_before_state};
pub use queue_homes::QueueHomes;
pub use remote::{HomeLinks, Homes};
pub use view::View;
