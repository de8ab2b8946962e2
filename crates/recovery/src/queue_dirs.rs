//! Directories of queues with files of their own: listed once by a start, and from then on those that the
//! node knows nothing of. These stay until somebody looks at them: neither are their queues defined, nor has
//! the node logged their deletion.

use chunk_log::STREAMS_DIR;
use content::QUEUES_DIR;
use meta::{QueueDef, QueueId};
use segments::{Disk, list_if_there};

/// The ids of queues with directories of their own.
#[derive(Debug)]
pub struct QueueDirs {
    /// Ids in the directory of streams.
    pub streams: Vec<u64>,
    /// Ids in the directory of queues of version 1.
    pub journals: Vec<u64>,
}

impl QueueDirs {
    /// Lists the directories.
    ///
    /// # Errors
    /// The disk's.
    pub fn list(disk: &dyn Disk) -> segments::Result<Self> {
        let ids = |dir| {
            let names = list_if_there(disk, dir)?.unwrap_or_default();
            Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
        };
        Ok(Self { streams: ids(STREAMS_DIR)?, journals: ids(QUEUES_DIR)? })
    }

    /// The highest id of a durable queue that there are files of; `given` if that is higher.
    #[must_use]
    pub fn last_id(&self, given: QueueId) -> QueueId {
        let ids = self.streams.iter().chain(&self.journals).map(|id| QueueId(*id));
        ids.filter(|id| QueueDef::is_durable_id(*id)).fold(given, Ord::max)
    }

    /// The names of the directories.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let name = |(dir, id)| format!("{dir}/{id}");
        let streams = self.streams.iter().map(|id| (STREAMS_DIR, id));
        streams.chain(self.journals.iter().map(|id| (QUEUES_DIR, id))).map(name)
    }
}
