//! The readable part of a damaged log, for repair: every whole block, wherever it lies.
//!
//! Blocks say themselves where they belong, so one that cannot be read, or a segment that is gone,
//! costs its own entries alone. Nothing is touched.

use std::sync::Arc;

use super::extent::{LOG_FILE, Told};
use super::recovery::{SegmentReader, Visit, check_presence};
use super::segment::FileName;
use super::{Lsn, NodeId, SegmentId, WalOptions};
use crate::block::{BLOCK_ALIGN, BlockHeader, BlockType, next_block_at};
use crate::error::Result;
use segments::{Disk, list_if_there};

/// The findings of a look at a damaged log.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The identity of the log, if anything readable tells it.
    pub identity: Option<u64>,
    /// The node the log belongs to, if that can be read.
    pub node: Option<NodeId>,
    /// The last entry that is known to have been synced.
    pub synced: Lsn,
    /// The newest segment there was.
    pub newest: SegmentId,
    /// The last entry that can be read.
    pub upto: Lsn,
    /// The unreadable places, in words.
    pub damage: Vec<String>,
}

impl Salvaged {
    /// Shows `visit` every entry that can be read, oldest first.
    ///
    /// # Errors
    /// The disk's, and an entry that `visit` refuses.
    pub fn read(disk: &Arc<dyn Disk>, options: &WalOptions, visit: Visit<'_>) -> Result<Self> {
        let mut salvaged = Self::default();
        let told = Told::read(disk.as_ref()).unwrap_or_else(|error| {
            salvaged.damage.push(error.to_string());
            None
        });
        salvaged.node = told.map(|told| told.extent.node).filter(|node| *node != NodeId(0));
        let mut salt = told.map(|told| told.extent.identity);
        let names = list_if_there(disk.as_ref(), &options.dir)?.unwrap_or_default();
        let files = names.iter().filter_map(|name| FileName::parse(name));
        if let Err(error) = check_presence(files, told, &options.dir) {
            salvaged.damage.push(error.to_string());
        }
        for name in names.iter().filter_map(|name| FileName::parse(name)) {
            let (FileName::Segment(id) | FileName::Spare(id)) = name;
            salvaged.newest = salvaged.newest.max(id);
            if let FileName::Segment(id) = name {
                let mut file = SegmentReader::open(disk.as_ref(), id, &options.dir)?;
                salvaged.segment(&mut file, &mut salt, visit)?;
            }
        }
        salvaged.end(told, salt);
        Ok(salvaged)
    }

    fn segment(
        &mut self,
        file: &mut SegmentReader,
        salt: &mut Option<u64>,
        visit: Visit<'_>,
    ) -> Result<()> {
        let mut at = 0;
        while at < file.length() {
            let header = file.block_at(at)?;
            let ours = |header: &BlockHeader| salt.is_none_or(|salt| salt == header.salt);
            let Some(header) = header.filter(ours) else {
                at += BLOCK_ALIGN;
                continue;
            };
            let expected = file.end;
            if at > expected {
                let (name, n) = (file.file().name(), at - expected);
                self.damage
                    .push(format!("{name}: {n} bytes from byte {expected} on cannot be read"));
            }
            *salt = Some(header.salt);
            file.end = at;
            if header.first > self.upto.0 + 1 && self.upto.0 > 0 {
                self.miss(Lsn(header.first - 1), file.file().name());
            }
            if header.block_type == BlockType::Entries && header.first > self.upto.0 {
                file.visit_entries(&header, visit)?;
            }
            let last = (header.first + u64::from(header.entries)).saturating_sub(1);
            self.upto = self.upto.max(Lsn(last));
            at = next_block_at(at + header.block_bytes());
            file.end = at;
        }
        Ok(())
    }

    /// Notes that the entries up to `last` are missing.
    fn miss(&mut self, last: Lsn, before: &str) {
        let (first, n) = (self.upto.0 + 1, last.0 - self.upto.0);
        self.damage.push(format!(
            "entries {first} to {} of the log are missing before {before}: {n}",
            last.0
        ));
    }

    fn end(&mut self, told: Option<Told>, identity: Option<u64>) {
        let synced = told.map_or(Lsn(0), |told| told.extent.synced);
        (self.identity, self.synced) = (identity, synced.max(self.upto));
        let newest = told.map_or(SegmentId(0), |told| told.extent.newest);
        self.newest = self.newest.max(newest);
        if synced > self.upto {
            let (first, n) = (self.upto.0 + 1, synced.0 - self.upto.0);
            self.damage.push(format!(
                "the log ends with entry {}; entries {first} to {} had been synced, as {LOG_FILE} says: {n}",
                self.upto.0, synced.0
            ));
        }
    }
}
