//! The versions of queues' files, as a start or a repair reads them.

use log::SegmentId;
use meta::{QueueId, QueueVersion};
use std::collections::HashMap;

/// The versions that are told; a queue that nothing is said about has version 2.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// With the segment of the log entry that counts; definitions of format 5 and before said it too.
    told: HashMap<u64, (QueueVersion, Option<SegmentId>)>,
}

impl Versions {
    /// An entry of the log says so.
    pub(crate) fn take(&mut self, queue: u64, version: QueueVersion, segment: SegmentId) {
        self.told.insert(queue, (version, Some(segment)));
    }

    /// Definitions say so: that counts where no entry of the log does, which would be newer.
    pub(crate) fn take_of_definitions(&mut self, QueueId(queue): QueueId, version: QueueVersion) {
        let told = self.told.entry(queue).or_insert((version, None));
        if told.1.is_none() {
            told.0 = version;
        }
    }

    /// The version a queue has.
    pub(crate) fn of(&self, QueueId(queue): QueueId) -> QueueVersion {
        self.told.get(&queue).map_or(QueueVersion::V2, |(version, _)| *version)
    }

    /// Where the log says so, if it does.
    pub(crate) fn segment_of(&self, QueueId(queue): QueueId) -> Option<SegmentId> {
        self.told.get(&queue).and_then(|(_, segment)| *segment)
    }

    /// Whether anything is said about the queue.
    pub(crate) fn knows(&self, queue: u64) -> bool {
        self.told.contains_key(&queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_of_the_log_counts_and_definitions_where_there_is_none() {
        let (mut versions, queue) = (Versions::default(), QueueId(7));
        assert_eq!((versions.of(queue), versions.knows(7)), (QueueVersion::V2, false));
        versions.take_of_definitions(queue, QueueVersion::V1);
        assert_eq!((versions.of(queue), versions.segment_of(queue)), (QueueVersion::V1, None));
        versions.take(7, QueueVersion::V1, SegmentId(3));
        versions.take(7, QueueVersion::V2, SegmentId(4));
        versions.take_of_definitions(queue, QueueVersion::V1);
        assert_eq!(versions.of(queue), QueueVersion::V2);
        assert_eq!((versions.segment_of(queue), versions.knows(7)), (Some(SegmentId(4)), true));
    }
}
