//! The definitions' entries in the node's log: the only place that appends any.

use crate::log_records::{self, definitions};
use log::{Appended, Batch, Lsn, SegmentCounts, SegmentId, SegmentState, Wal};
use meta::Command;

/// Definition commands in the log at which a snapshot of the definitions is written.
const SNAPSHOT_EVERY_COMMANDS: u64 = 20_000;

/// Where in the log the definitions are.
#[derive(Debug, Default)]
pub struct CommandLog {
    /// Number of the last logged command.
    serial: u64,
    /// The last logged command is durable when the log is so up to here.
    upto: Lsn,
    uncovered: Uncovered,
    /// Whether a group has the definitions, and nothing is kept of their form here.
    is_left: bool,
}

/// Logged commands that no snapshot covers.
#[derive(Debug, Default)]
pub(super) struct Uncovered {
    segments: SegmentCounts,
    n: u64,
}

impl CommandLog {
    /// Goes on behind what a start has read: the command `serial`, and where those lie that no snapshot
    /// covers, which the log is told to keep.
    pub fn recovered(serial: u64, uncovered: &[SegmentId], wal: &Wal) -> Self {
        let mut segments = SegmentCounts::default();
        uncovered.iter().for_each(|segment| segments.add(*segment));
        segments.clone().retain(wal, log_records::DEFINITIONS);
        let uncovered = Uncovered { segments, n: uncovered.len() as u64 };
        Self { serial, upto: Lsn(0), uncovered, is_left: false }
    }

    /// Logs what a change consists of as one unit, with what `beside` adds about others.
    pub(super) fn append<'c>(
        &mut self,
        wal: &Wal,
        commands: impl Iterator<Item = &'c Command>,
        beside: impl FnOnce(&mut Batch<'_>),
    ) -> Option<Appended> {
        let encode = |command: &Command| {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            bytes
        };
        let encoded: Vec<Vec<u8>> = commands.map(encode).collect();
        if encoded.is_empty() {
            return None;
        }
        let appended = definitions::append(wal, self.serial + 1, &encoded, beside);
        assert!(appended.upto > self.upto, "positions in the log rise");
        for _ in &encoded {
            self.uncovered.segments.add(appended.at.segment);
        }
        self.serial += encoded.len() as u64;
        self.uncovered.n += encoded.len() as u64;
        self.upto = appended.upto;
        Some(appended)
    }

    /// A group of the log has the definitions from now on, once it is durable up to there.
    pub(super) fn found(&mut self, upto: Lsn) {
        self.upto = self.upto.max(upto);
    }

    pub(super) const fn is_left(&self) -> bool {
        self.is_left
    }

    pub(super) const fn set_left(&mut self, is_left: bool) {
        self.is_left = is_left;
    }

    pub(super) const fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) const fn upto(&self) -> Lsn {
        self.upto
    }

    /// Whether many commands are logged, or some stand in the way of freeing the log's oldest segment.
    pub(super) fn is_snapshot_due(&self, oldest: Option<SegmentState>) -> bool {
        let Uncovered { segments, n } = &self.uncovered;
        *n >= SNAPSHOT_EVERY_COMMANDS || oldest.is_some_and(|oldest| segments.has(oldest.id))
    }

    /// Takes what a snapshot that is made now will cover.
    pub(super) fn take_uncovered(&mut self) -> Uncovered {
        std::mem::take(&mut self.uncovered)
    }

    /// The snapshot could not be written: they are still needed; the next one may cover them.
    pub(super) fn put_back(&mut self, Uncovered { segments, n }: Uncovered) {
        self.uncovered.n += n;
        self.uncovered.segments.add_all(segments);
    }
}

impl Uncovered {
    /// A snapshot covers them durably.
    pub(super) fn release(mut self, wal: &Wal) {
        self.segments.release(wal);
    }
}
