//! The definitions as the log has them where nodes agree on them: the entries of a group.

use crate::error::OpenError;
use bytes::Bytes;
use cluster::{FoundMachine, GroupRecovery, IMAGE_IN_LOG_BYTES_MAX, ImageStore, RaftGroup};
use control::{FoundReplica, Gone};
use definitions::{DEFINITIONS_GROUP, FoundDefinitions};
use log::Wal;
use segments::Disk;
use std::sync::Arc;

/// The name of the definitions' group in errors.
const NAME: &str = "the log's group of definitions";

/// The groups that the log has.
#[derive(Debug)]
pub(super) struct FoundGroups {
    pub(super) found: GroupRecovery,
    definitions: Option<FoundGroupZero>,
}

/// The group of the definitions.
#[derive(Debug)]
struct FoundGroupZero {
    machine: FoundMachine,
    index: u64,
    images: ImageStore,
}

impl Default for FoundGroups {
    fn default() -> Self {
        Self { found: GroupRecovery::keeping(DEFINITIONS_GROUP), definitions: None }
    }
}

impl FoundGroups {
    pub(super) const fn has_definitions(&self) -> bool {
        self.definitions.is_some()
    }

    /// Reads the definitions, if the log has them: a replica that waits for its first image has none.
    ///
    /// # Errors
    /// The disk's, or they are damaged.
    pub(super) fn read(
        &mut self,
        disk: &Arc<dyn Disk>,
    ) -> Result<Option<FoundDefinitions>, OpenError> {
        let images = ImageStore::open(Arc::clone(disk), IMAGE_IN_LOG_BYTES_MAX)?;
        let machine = self.found.machine_of(DEFINITIONS_GROUP, &images).map_err(damaged)?;
        let Some(machine) = machine else {
            let (machine, index) = (FoundMachine::default(), 0);
            let is_found = self.found.has(DEFINITIONS_GROUP);
            self.definitions = is_found.then_some(FoundGroupZero { machine, index, images });
            return Ok(None);
        };
        let found = FoundDefinitions::of(&machine).map_err(damaged)?;
        self.definitions = Some(FoundGroupZero { machine, index: found.index, images });
        Ok(Some(found))
    }

    /// The deletions that this node keeps beside the image.
    ///
    /// # Errors
    /// They are damaged.
    pub(super) fn deletions(&self) -> Result<Gone, OpenError> {
        let local = self.definitions.as_ref().map(|it| &*it.machine.local).unwrap_or_default();
        Gone::decode(local).map_err(damaged)
    }

    /// Goes on with the definitions' group in the open log.
    pub(super) fn recover(self, wal: &Wal) -> Option<FoundReplica> {
        let FoundGroupZero { machine, index, images } = self.definitions?;
        let found = self.found.finish(wal, &images);
        let found = found.into_iter().find(|group| group.owner() == DEFINITIONS_GROUP)?;
        let (group, image) = (RaftGroup::recover(wal, found), Bytes::clone(&machine.machine));
        Some(FoundReplica { group, image, images, index })
    }
}

fn damaged(error: impl std::fmt::Display) -> OpenError {
    OpenError::Definitions { file: NAME, reason: error.to_string() }
}
