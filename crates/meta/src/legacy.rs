//! The part of encoded definitions in data directories up to format 5 that definitions no longer hold: which
//! version the files of a queue have. That is the log's of each node now.

use routing::QueueId;
use stdx::record::{Reader, RecordError};

use crate::queue_type::QueueVersion;

/// The version of the encoding and the tag of the command that said so.
const SET_QUEUE_VERSION: [u8; 2] = [1, 28];

/// Reads an encoded command that only says which version a queue has; none for any other.
#[must_use]
pub fn legacy_queue_version(command: &[u8]) -> Option<(QueueId, QueueVersion)> {
    let mut reader = Reader::new(command);
    if reader.take(2) != Ok(&SET_QUEUE_VERSION[..]) {
        return None;
    }
    let (id, version) = (QueueId(reader.u64().ok()?), reader.u8().ok()?);
    let version = QueueVersion::of_number(version.into())?;
    reader.is_empty().then_some((id, version))
}

/// The queues that a snapshot says to have version 1.
///
/// # Errors
/// A snapshot that is damaged.
pub fn legacy_v1_queues(snapshot: &[u8]) -> Result<Vec<QueueId>, RecordError> {
    let mut reader = Reader::new(snapshot);
    let _version_and_ids = (reader.u8()?, reader.u64()?, reader.u64()?);
    let mut queues = Vec::new();
    while !reader.is_empty() {
        match legacy_queue_version(reader.bytes()?) {
            Some((id, QueueVersion::V1)) => queues.push(id),
            Some((_, QueueVersion::V2)) | None => {}
        }
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_queue_is_read_out_of_older_definitions() {
        let command = |id: u8, version: u8| [1, 28, id, 0, 0, 0, 0, 0, 0, 0, version];
        assert_eq!(legacy_queue_version(&command(7, 1)), Some((QueueId(7), QueueVersion::V1)));
        assert_eq!(legacy_queue_version(&command(7, 2)), Some((QueueId(7), QueueVersion::V2)));
        assert_eq!(legacy_queue_version(&command(7, 3)), None);
        assert!((0..11).all(|end| legacy_queue_version(&command(7, 1)[..end]).is_none()));
        let mut snapshot = vec![0; 17];
        for (id, version) in [(7, 1), (8, 2), (9, 1)] {
            stdx::record::put_bytes(&mut snapshot, &command(id, version));
        }
        stdx::record::put_bytes(&mut snapshot, b"another command");
        assert_eq!(legacy_v1_queues(&snapshot), Ok(vec![QueueId(7), QueueId(9)]));
        assert!(legacy_v1_queues(&snapshot[..30]).is_err());
    }
}
