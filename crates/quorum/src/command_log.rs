//! The log's entries of a queue's machine: its last written form, and the commands since.

use content::QueueContext;
use content::records::append_machine;
use log::{Appended, Lsn, Owner, SegmentCounts, SegmentId};
use queue::machine::Machine;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in the log that commands and their messages exceed before the machine is written anew.
const COMMAND_BYTES_MIN: u64 = 1 << 20;
/// Multiple of the last written form's bytes that commands exceed, too, before the machine is written anew.
const FORM_FACTOR: u64 = 4;

/// Counts of a queue's entries in the log since its node started, for figures. Written under the queue's
/// lock, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct LogEntries {
    n_appended: AtomicU64,
    /// Entries before the last written form.
    n_in_form: AtomicU64,
    /// Entries that were durable at the last look.
    n_durable: AtomicU64,
    /// End of the last entry.
    last: AtomicU64,
    /// An entry that was not durable at the last look: its end, and the number of entries up to it.
    mark: [AtomicU64; 2],
}

/// Figures of a queue's entries in the log since its node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Queues, each of which has one term: its member leads since the queue was declared or the node started.
    pub n_terms: u64,
    /// Entries that were appended.
    pub n_appended: u64,
    /// Entries that are durable; some of the last ones may be missing.
    pub n_durable: u64,
    /// Entries that the queue's last written form stands for.
    pub n_in_form: u64,
}

impl LogFigures {
    /// Adds the figures of another queue.
    pub const fn add(&mut self, other: &Self) {
        self.n_terms += other.n_terms;
        self.n_appended += other.n_appended;
        self.n_durable += other.n_durable;
        self.n_in_form += other.n_in_form;
    }
}

impl LogEntries {
    /// Counts an entry that ends at `upto`, while the log is durable up to `durable`.
    pub(crate) fn note(&self, upto: Lsn, durable: Lsn) {
        let n_appended = self.n_appended.load(Ordering::Relaxed);
        let [mark, n_marked] = &self.mark;
        let is_mark_durable = mark.load(Ordering::Relaxed) <= durable.0;
        if self.last.load(Ordering::Relaxed) <= durable.0 {
            self.n_durable.store(n_appended, Ordering::Release);
        } else if is_mark_durable {
            self.n_durable.store(n_marked.load(Ordering::Relaxed), Ordering::Release);
        }
        if is_mark_durable {
            mark.store(upto.0, Ordering::Relaxed);
            n_marked.store(n_appended + 1, Ordering::Relaxed);
        }
        // Readers look at these two in the opposite order, so that entries which they count as durable are.
        self.last.store(upto.0, Ordering::Release);
        self.n_appended.store(n_appended + 1, Ordering::Release);
    }

    pub(crate) fn figures(&self, durable: Lsn) -> LogFigures {
        let n_appended = self.n_appended.load(Ordering::Acquire);
        let is_all_durable = self.last.load(Ordering::Acquire) <= durable.0;
        let n_durable = self.n_durable.load(Ordering::Acquire);
        LogFigures {
            n_terms: 1,
            n_appended,
            n_durable: if is_all_durable { n_appended } else { n_durable },
            n_in_form: self.n_in_form.load(Ordering::Relaxed),
        }
    }
}

/// The log's entry of a machine's written form, which is never empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormEntry {
    pub(crate) segment: SegmentId,
    bytes: NonZeroU64,
}

impl FormEntry {
    pub(crate) fn of(segment: SegmentId, form: &[u8]) -> Option<Self> {
        NonZeroU64::new(form.len() as u64).map(|bytes| Self { segment, bytes })
    }
}

/// The log's entries of a queue's machine.
#[derive(Debug, Default)]
pub(crate) struct CommandLog {
    /// The last written form.
    form: Option<FormEntry>,
    /// Segments of the commands since.
    commands: SegmentCounts,
    command_bytes: u64,
}

impl CommandLog {
    /// Entries that recovery found.
    pub(crate) const fn recovered(
        form: Option<FormEntry>,
        commands: SegmentCounts,
        command_bytes: u64,
    ) -> Self {
        Self { form, commands, command_bytes }
    }

    /// Whether the log has no entry of the machine.
    pub(crate) fn is_empty(&self) -> bool {
        self.form.is_none() && self.commands.is_empty()
    }

    /// Notes commands that were appended. The log is told once for each segment that it is needed.
    pub(crate) fn note(&mut self, queue: &QueueContext, appended: &Appended) {
        let segment = appended.at.segment;
        if !self.commands.has(segment) {
            self.commands.add(segment);
            queue.wal().retain(segment, Owner(queue.id().0), 1);
        }
        self.command_bytes += appended.bytes as u64;
    }

    /// Whether the machine is to be written anew.
    pub(crate) fn is_form_due(&self) -> bool {
        let form_bytes = self.form.map_or(0, |form| form.bytes.get());
        self.command_bytes > COMMAND_BYTES_MIN.max(FORM_FACTOR * form_bytes)
    }

    /// Whether the written form or a command lies in that segment.
    pub(crate) fn lies_in(&self, segment: SegmentId) -> bool {
        self.form.is_some_and(|form| form.segment == segment) || self.commands.has(segment)
    }

    /// Writes the machine, and releases the entries that stood for it before.
    pub(crate) fn write_form(
        &mut self,
        queue: &QueueContext,
        machine: &Machine,
        entries: &LogEntries,
    ) {
        let wal = queue.wal();
        let mut form = Vec::new();
        machine.write(&mut form);
        let appended = append_machine(wal, queue.id().0, &form);
        assert!(!form.is_empty(), "a machine has a written form");
        self.release(queue);
        self.form = FormEntry::of(appended.at.segment, &form);
        entries.n_in_form.store(entries.n_appended.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Releases all entries in the log.
    pub(crate) fn release(&mut self, queue: &QueueContext) {
        let wal = queue.wal();
        self.commands.release(wal);
        self.command_bytes = 0;
        if let Some(form) = self.form.take() {
            wal.release(form.segment, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_count_as_durable_once_the_log_is_and_never_less() {
        let entries = LogEntries::default();
        let durable = |upto| entries.figures(Lsn(upto)).n_durable;
        entries.note(Lsn(10), Lsn(5));
        assert_eq!((durable(9), durable(10)), (0, 1));
        entries.note(Lsn(20), Lsn(10));
        assert_eq!((durable(10), durable(20)), (1, 2));
        // Entries that are appended meanwhile do not hide durable ones for long.
        (3..=9).for_each(|n| entries.note(Lsn(n * 10), Lsn((n - 2) * 10)));
        assert!((6..=7).contains(&durable(70)), "{}", durable(70));
        assert_eq!(entries.figures(Lsn(90)).n_durable, 9);
    }
}
