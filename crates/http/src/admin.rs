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

use mgmt::ApiError;
use serde_json::Value;

/// The JSON that answers a request; null where there is nothing to tell.
pub(crate) type Reply = Result<Value, ApiError>;
