//! Records that wait on a link for the next batch, the latest of each key.

use crate::frame::PIECE_BYTES_MAX;
use crate::kinds::FrameKind;
use std::collections::BTreeMap;

/// The length of a record at most.
pub(super) const COALESCED_BYTES_MAX: usize = 48;

/// Records by the kind of their frame, and key.
#[derive(Debug, Default)]
pub(super) struct CoalescedRecords {
    records: BTreeMap<(FrameKind, u64), CoalescedRecord>,
}

#[derive(Debug)]
struct CoalescedRecord {
    n_bytes: usize,
    bytes: [u8; COALESCED_BYTES_MAX],
}

impl CoalescedRecords {
    /// Notes a record in place of an earlier one.
    pub(super) fn put(&mut self, kind: FrameKind, key: u64, record: &[u8]) {
        debug_assert!(record.len() <= COALESCED_BYTES_MAX, "records are short");
        let mut bytes = [0; COALESCED_BYTES_MAX];
        bytes.iter_mut().zip(record).for_each(|(to, from)| *to = *from);
        self.records.insert((kind, key), CoalescedRecord { n_bytes: record.len(), bytes });
    }

    /// Bytes at most that wait.
    pub(super) fn n_bytes(&self) -> usize {
        self.records.len() * COALESCED_BYTES_MAX
    }

    /// Takes all, as bodies of frames of one kind each.
    pub(super) fn take(&mut self, mut push: impl FnMut(FrameKind, &[u8])) {
        let mut body: Vec<u8> = Vec::new();
        let mut kind = None;
        for ((next, _), record) in std::mem::take(&mut self.records) {
            let is_full = body.len() + record.n_bytes > PIECE_BYTES_MAX;
            if let Some(kind) = kind.filter(|kind| *kind != next || is_full) {
                push(kind, &body);
                body.clear();
            }
            kind = Some(next);
            body.extend_from_slice(record.bytes.get(..record.n_bytes).unwrap_or_default());
        }
        if let Some(kind) = kind {
            push(kind, &body);
        }
    }
}
