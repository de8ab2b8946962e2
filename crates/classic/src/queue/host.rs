//! The node as the workers of classic queues know it.

use super::Queue;
use content::PagerHost;
use meta::{QueueDef, QueueVersion};
use std::sync::Arc;

/// The node as the workers of classic queues know it.
pub trait WorkerHost: PagerHost {
    /// Queues whose version is not the one they should have.
    fn queues_to_convert(&self) -> Vec<Arc<Queue>>;

    /// The version a queue should have.
    fn wanted_version(&self, def: &QueueDef) -> QueueVersion;
}
