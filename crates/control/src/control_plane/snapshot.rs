//! The file of definitions: all of them as of some moment, so that the log need not keep the commands that
//! led to them.

use super::ControlPlane;
use crate::gone::encode_definitions;
use log::SegmentState;
use meta::State;
use segments::IoContext as _;

/// The file that holds the definitions as of some moment, in the data directory.
pub const DEFINITIONS_FILE: &str = "definitions.snapshot";

impl ControlPlane {
    /// Whether many commands are logged, or some stand in the way of freeing the log's oldest segment.
    pub fn is_snapshot_due(&self, oldest: Option<SegmentState>) -> bool {
        let definitions = stdx::lock(&self.definitions);
        if definitions.replica.is_some() {
            return !definitions.log.is_left() || definitions.gone.are_many();
        }
        definitions.log.is_snapshot_due(oldest)
    }

    /// Writes the definitions as of now; the commands that led to them are no longer needed.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_snapshot(&self) -> segments::Result<()> {
        let _one_at_a_time = stdx::lock(&self.snapshotting);
        if self.replication().is_some() || awaits_cluster(self) {
            forget_deletions(self);
            return leave_old_form(self);
        }
        let (state, serial, mut gone, covered) = {
            let mut definitions = stdx::lock(&self.definitions);
            if definitions.n_unbinding > 0 {
                // Half of a deletion: the log knows what was before, and soon what is after it.
                return Ok(());
            }
            let covered = definitions.log.take_uncovered();
            let serial = definitions.log.serial();
            (definitions.meta.clone(), serial, definitions.gone.clone(), covered)
        };
        let (disk, stamp) = (self.storage().disk(), self.storage().wal.stamp());
        // Facts that cannot be looked at stay.
        let done = gone.without_files(disk).unwrap_or_default();
        gone.forget(&done);
        let bytes = encode_definitions(serial, &gone, &state);
        let written = if self.storage().may_move(bytes.len() as u64) {
            segments::write_stamped(disk, DEFINITIONS_FILE, stamp, &bytes)
        } else {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
                .context("write", DEFINITIONS_FILE)
        };
        if written.is_ok() {
            covered.release(&self.storage().wal);
            stdx::lock(&self.definitions).gone.forget(&done);
        } else {
            stdx::lock(&self.definitions).log.put_back(covered);
        }
        written
    }
}

/// Whether a start has found a replica that has not gone on yet.
pub fn awaits_cluster(plane: &ControlPlane) -> bool {
    stdx::lock(&plane.definitions).found.is_some()
}

/// Forgets deletions that no files have to follow.
fn forget_deletions(plane: &ControlPlane) {
    let gone = stdx::lock(&plane.definitions).gone.clone();
    // Facts that cannot be looked at stay.
    let done = gone.without_files(plane.storage().disk()).unwrap_or_default();
    stdx::lock(&plane.definitions).gone.forget(&done);
}

/// Drops the form that a lone node's definitions had in the log and in their file, once the log has the group
/// durably: the file says that nothing before the group counts.
fn leave_old_form(plane: &ControlPlane) -> segments::Result<()> {
    let wal = &plane.storage().wal;
    let mut definitions = stdx::lock(&plane.definitions);
    let Some(replica) = &definitions.replica else { return Ok(()) };
    let has_image = replica.group.group().progress().image > 0;
    if definitions.log.is_left() || !has_image || wal.durable_upto() < replica.upto {
        return Ok(());
    }
    let covered = definitions.log.take_uncovered();
    let (serial, gone) = (definitions.log.serial(), definitions.gone.clone());
    definitions.log.set_left(true);
    drop(definitions);
    let nothing = encode_definitions(serial, &gone, &State::new());
    let disk = plane.storage().disk();
    let written = segments::write_stamped(disk, DEFINITIONS_FILE, wal.stamp(), &nothing);
    if written.is_ok() {
        covered.release(wal);
    } else {
        let mut definitions = stdx::lock(&plane.definitions);
        definitions.log.put_back(covered);
        definitions.log.set_left(false);
    }
    written
}
