//! The directory of a store on its disk.

use std::sync::Arc;

use segments::{Disk, Poison};

use super::{BlobOptions, open};
use crate::error::{Result, StoreError};

/// A store's directory. A failure that leaves it unknown what is durable is for good.
#[derive(Debug)]
pub(super) struct Dir {
    disk: Arc<dyn Disk>,
    pub(super) options: BlobOptions,
    poison: Poison,
}

impl Dir {
    pub(super) fn new(disk: Arc<dyn Disk>, options: BlobOptions) -> Self {
        Self { disk, options, poison: Poison::default() }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Whether anything in it survives a restart.
    pub(super) const fn is_durable(&self) -> bool {
        !self.options.is_volatile
    }

    pub(super) fn file_name(&self, number: u32) -> String {
        open::file_name(&self.options.dir, number)
    }

    /// Fails after a failure for good.
    pub(super) fn alive(&self) -> Result<()> {
        self.poison.check(|reason| StoreError::poisoned(&self.options.dir, reason))
    }

    /// Makes the failure of an operation one for good.
    pub(super) fn poison<T>(&self, done: Result<T>) -> Result<T> {
        self.poison.of(done)
    }
}
