//! The directory of a store on its disk.

use std::sync::Arc;

use segments::{Digits, Disk, FileCache, NameForm, Poison};

use super::BlobOptions;
use crate::error::{Result, StoreError};

pub(super) const BLOBS: NameForm = NameForm::new(Digits::Hexadecimal(8), ".blob");
/// The form of names of files that are to take another's place; a crash leaves such a file behind.
pub(super) const DRAFTS: NameForm = NameForm { suffix: ".blob.tmp", ..BLOBS };

pub(super) fn file_name(dir: &str, number: u32) -> String {
    BLOBS.path(dir, number.into())
}

pub(super) fn draft_name(dir: &str, number: u32) -> String {
    DRAFTS.path(dir, number.into())
}

/// A store's directory. A failure that leaves it unknown what is durable is for good.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) cache: Arc<FileCache>,
    pub(super) options: BlobOptions,
    poison: Poison,
}

impl Dir {
    pub(super) fn new(disk: Arc<dyn Disk>, options: BlobOptions) -> Self {
        let cache = FileCache::new(disk, options.open_files_max);
        Self { cache, options, poison: Poison::default() }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.cache.disk()
    }

    /// Whether anything in it survives a restart.
    pub(super) const fn is_durable(&self) -> bool {
        !self.options.is_volatile
    }

    pub(super) fn file_name(&self, number: u32) -> String {
        file_name(&self.options.dir, number)
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
