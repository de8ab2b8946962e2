//! Metadata of virtual hosts, given by operators.

use routing::Name;

/// An operator's metadata of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VhostMetadata {
    /// Free text.
    pub description: String,
    /// Free words.
    pub tags: Vec<Name>,
    /// The type of queues declared without one.
    pub default_queue_type: Option<Name>,
    /// Whether the virtual host cannot be deleted.
    pub protected_from_deletion: bool,
}

/// The limits of a virtual host. Negative or missing: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostLimits {
    /// `max-connections`.
    pub max_connections: Option<i64>,
    /// `max-queues`.
    pub max_queues: Option<i64>,
}
