//! The state that the store's lock guards: its files, and numbers about them.

use std::collections::BTreeMap;

use super::file::{BlobFile, Stage};
use super::{BlobId, BlobStats};

#[derive(Debug)]
pub(super) struct BlobState {
    pub(super) files: BTreeMap<u32, BlobFile>,
    /// The file that takes blobs. Always in `files`.
    pub(super) filling: u32,
    /// Every file before this one is closed.
    pub(super) first_open: u32,
    /// The highest file whose name is durable.
    pub(super) highest_on_disk: Option<u32>,
    pub(super) is_reclaiming: bool,
    pub(super) counted: BlobStats,
}

impl BlobState {
    pub(super) fn new(
        files: BTreeMap<u32, BlobFile>,
        filling: u32,
        highest_on_disk: Option<u32>,
    ) -> Self {
        let counted = BlobStats::default();
        let first_open = filling;
        Self { files, filling, first_open, highest_on_disk, is_reclaiming: false, counted }
    }

    pub(super) fn append(&mut self, parts: &[&[u8]], bytes: u32, file_bytes: u32) -> BlobId {
        if self.filling_file().end >= file_bytes {
            self.filling_file().stage = Stage::Full;
            self.filling += 1;
        }
        let file = self.filling_file();
        let id = BlobId { file: file.number, index: file.append(parts, bytes) };
        self.counted.appended_bytes += u64::from(bytes);
        id
    }

    fn filling_file(&mut self) -> &mut BlobFile {
        let number = self.filling;
        self.files.entry(number).or_insert_with(|| BlobFile::new(number))
    }

    pub(super) fn add_refs(&mut self, id: BlobId, n: i32) -> bool {
        self.files.get_mut(&id.file).is_some_and(|file| file.add_refs(id.index, n))
    }

    /// Whether the file can be removed, or gives much back when rewritten.
    pub(super) fn is_garbage(&self, number: u32) -> bool {
        self.files.get(&number).is_some_and(|file| file.is_sparse() || self.is_dead(file))
    }

    /// Whether the file can be removed.
    pub(super) fn is_dead(&self, file: &BlobFile) -> bool {
        let is_highest = self.highest_on_disk == Some(file.number);
        file.n_live == 0 && file.stage == Stage::Closed && !is_highest
    }

    pub(super) fn stats(&self) -> BlobStats {
        let mut stats = self.counted;
        for file in self.files.values() {
            stats.files += u64::from(file.disk_bytes > 0);
            stats.file_bytes += file.disk_bytes;
            stats.live_blobs += u64::from(file.n_live);
            stats.live_bytes += file.live_bytes;
        }
        stats
    }
}
