//! Directories of queues that the node knows nothing of: neither are they defined, nor has it logged their
//! deletion. They stay until somebody looks at them.

use chunk_log::STREAMS_DIR;
use content::QUEUES_DIR;
use meta::{QueueDef, QueueId, State};
use segments::Disk;

/// The ids of queues with files of their own, by directory.
pub(super) struct QueueDirs(Vec<(&'static str, QueueId)>);

impl QueueDirs {
    pub(super) fn list(disk: &dyn Disk) -> Self {
        let ids = |dir: &'static str| {
            let names = disk.list(dir).unwrap_or_default();
            let ids: Vec<_> = names.iter().filter_map(|name| name.parse().ok()).collect();
            ids.into_iter().map(move |id| (dir, QueueId(id)))
        };
        Self([STREAMS_DIR, QUEUES_DIR].into_iter().flat_map(ids).collect())
    }

    /// Has no new queue get the id of one that there are files of, or that was given files.
    pub(super) fn pass_ids(&self, state: &mut State, given: QueueId) {
        let ids = self.0.iter().map(|(_, id)| *id).filter(|id| QueueDef::is_durable_id(*id));
        meta::pass_queue_ids(state, ids.chain([given]).max().unwrap_or(given));
    }

    /// The directories of queues that are not known.
    pub(super) fn unknown(&self, is_known: impl Fn(QueueId) -> bool) -> Vec<String> {
        let unknown = self.0.iter().filter(|(_, id)| !is_known(*id));
        unknown.map(|(dir, id)| format!("{dir}/{}", id.0)).collect()
    }
}
