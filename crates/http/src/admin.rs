//! Administration of the node: queries and changes that the table of routes names by `ask`, `later` and
//! `define`, each a function of the fields of a request.

pub(crate) mod certificates;
pub(crate) mod definitions;
pub(crate) mod delayed;
pub(crate) mod deprecated;
pub(crate) mod events;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod operations;
pub(crate) mod quorum;
pub(crate) mod recent;
pub(crate) mod resource_limits;
pub(crate) mod streams;
pub(crate) mod tail;

use mgmt::{ApiError, Management};
use serde_json::{Value, json};

/// The JSON that answers a request; null where there is nothing to tell.
pub(crate) type Reply = Result<Value, ApiError>;

/// The row of a Raft group whose only member is this node, which has applied all that is logged.
fn sole_member(management: &Management, last_index: u64, machine_version: Option<u8>) -> Value {
    json!({
        "Node Name": management.node_info.name, "Raft State": "leader", "Membership": "voter",
        "Last Log Index": last_index, "Last Written": last_index, "Last Applied": last_index,
        "Commit Index": last_index, "Term": 1, "Machine Version": machine_version,
    })
}
