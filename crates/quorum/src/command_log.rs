//! The place of a queue's machine in the log: its last written form, and the commands since.

use classic::{QueueContext, append_machine};
use log::{Appended, Owner, SegmentCounts, SegmentId};
use queue::machine::Machine;

/// A machine is written anew when the commands since, with their messages, take more than this in the log ...
const COMMAND_BYTES_MIN: u64 = 1 << 20;
/// ... and more than so many times what its written form takes.
const FORM_FACTOR: u64 = 4;

/// The place of a queue's machine in the log.
#[derive(Debug, Default)]
pub(crate) struct CommandLog {
    /// Where the last written form lies, and its bytes.
    form: Option<(SegmentId, u64)>,
    /// Where the commands since lie.
    commands: SegmentCounts,
    command_bytes: u64,
}

impl CommandLog {
    /// As it was found.
    pub(crate) const fn recovered(
        form: Option<(SegmentId, u64)>,
        commands: SegmentCounts,
        command_bytes: u64,
    ) -> Self {
        Self { form, commands, command_bytes }
    }

    /// Whether the log has nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.form.is_none() && self.commands.is_empty()
    }

    /// Commands were appended. The log is told once for each segment that they are needed.
    pub(crate) fn note(&mut self, queue: &QueueContext, appended: &Appended) {
        let segment = appended.at.segment;
        if !self.commands.has(segment) {
            self.commands.add(segment);
            queue.services().storage().wal().retain(segment, Owner(queue.id().0), 1);
        }
        self.command_bytes += appended.bytes as u64;
    }

    /// Whether the machine is to be written anew.
    pub(crate) fn is_form_due(&self) -> bool {
        let form_bytes = self.form.map_or(0, |(_, bytes)| bytes);
        self.command_bytes > COMMAND_BYTES_MIN.max(FORM_FACTOR * form_bytes)
    }

    /// Whether something of it lies in that segment.
    pub(crate) fn lies_in(&self, segment: SegmentId) -> bool {
        self.form.is_some_and(|(of_form, _)| of_form == segment) || self.commands.has(segment)
    }

    /// Writes the machine, and lets go of what stood for it before.
    pub(crate) fn write_form(&mut self, queue: &QueueContext, machine: &Machine) {
        let wal = queue.services().storage().wal();
        let mut form = Vec::new();
        machine.write(&mut form);
        let appended = append_machine(wal, queue.id().0, &form);
        self.release(queue);
        self.form = Some((appended.at.segment, form.len() as u64));
    }

    /// The log need not have any of it.
    pub(crate) fn release(&mut self, queue: &QueueContext) {
        let wal = queue.services().storage().wal();
        self.commands.release(wal);
        self.command_bytes = 0;
        if let Some((segment, _)) = self.form.take() {
            wal.release(segment, 1);
        }
    }
}
