//! A queue that is filled after a start: its machine made anew of its last written form and the commands
//! since, its content of what the log has of it.

use super::QuorumQueue;
use super::state::QueueState;
use crate::command_log::{CommandLog, FormEntry};
use crate::lazy_machine::LazyMachine;
use crate::settings::confirm_on;
use content::{Restoring, Services};
use log::{Owner, SegmentCounts, SegmentId};
use meta::{QueueDef, QueueSettings};
use queue::machine::{Command, Effects, Machine};
use queue::{PositionRange, Return};
use std::sync::{Arc, MutexGuard};
use stdx::record::{Reader, RecordError};
use store::Queued;
use store::backlog::PageNote;
use store::blob::BlobId;

/// A machine as it was found in the log.
#[derive(Debug, Default)]
pub struct LoggedMachine {
    form: Option<(SegmentId, Vec<u8>)>,
    commands: Vec<u8>,
    segments: SegmentCounts,
    machine: Option<Machine>,
}

impl LoggedMachine {
    /// Takes commands.
    pub fn take_commands(&mut self, segment: SegmentId, commands: &[u8]) {
        self.commands.extend_from_slice(commands);
        if !self.segments.has(segment) {
            self.segments.add(segment);
        }
    }

    /// Takes the written form of the machine, after all commands before.
    pub fn take_form(&mut self, segment: SegmentId, form: &[u8]) {
        *self = Self { form: Some((segment, form.to_vec())), ..Self::default() };
    }

    /// Makes the machine, once the log is read. Returns the positions whose messages are gone.
    ///
    /// # Errors
    /// The machine or its commands cannot be read: they are of a newer version.
    pub fn restore(&mut self) -> Result<Vec<PositionRange>, RecordError> {
        // A queue's first command comes behind its machine.
        let (_, form) = self.form.as_ref().ok_or(RecordError::Invalid)?;
        let mut machine = Machine::restore(form)?;
        let (mut reader, mut effects) = (Reader::new(&self.commands), Effects::default());
        while !reader.is_empty() {
            let (now_ms, command) = Command::read(&mut reader)?;
            machine.apply(now_ms, &command, &mut effects);
            effects.clear();
        }
        let (mut gone, mut start) = (Vec::new(), 0);
        let end = PositionRange { start: u64::MAX, end: u64::MAX };
        for live in machine.facts().live().into_iter().chain([end]) {
            assert!(start <= live.start && live.start <= live.end, "positions rise");
            if start < live.start {
                gone.push(PositionRange { start, end: live.start });
            }
            start = live.end;
        }
        self.machine = Some(machine);
        Ok(gone)
    }

    /// Has the log keep what it has. Returns the machine, if the log has one.
    fn retain(self, queue: &QuorumQueue) -> Option<(Machine, CommandLog)> {
        let (wal, owner) = (queue.context.wal(), Owner(queue.def().id.0));
        self.segments.clone().retain(wal, owner);
        let form = self.form.and_then(|(segment, form)| FormEntry::of(segment, &form));
        if let Some(form) = form {
            wal.retain(form.segment, owner, 1);
        }
        let n_bytes = self.commands.len() as u64;
        Some((self.machine?, CommandLog::recovered(form, self.segments, n_bytes)))
    }
}

/// A queue that is being filled after a start.
pub struct QuorumRecovery<'q> {
    queue: &'q QuorumQueue,
    state: MutexGuard<'q, QueueState>,
}

impl QuorumQueue {
    /// The queue as the log has it, without its messages. Those below `seen_below` may have been delivered,
    /// whatever the machine knows; all, if that is not known.
    #[must_use]
    pub fn recovered(
        def: Arc<QueueDef>,
        settings: &QueueSettings,
        services: Arc<Services>,
        logged: LoggedMachine,
        seen_below: Option<u64>,
    ) -> Arc<Self> {
        let state = QueueState::new(settings, &services);
        let queue = Self::of(def, services, state);
        queue.counters.set_confirm_on(confirm_on(settings));
        if let Some((machine, log)) = logged.retain(&queue) {
            let next = machine.facts().next_position();
            let machine = LazyMachine::of(machine);
            let mut state =
                QueueState::of(machine, log, settings, queue.context.services.number_base);
            state.seen_below = seen_below.unwrap_or(next);
            *stdx::lock(&queue.state) = state;
        }
        queue
    }

    /// Puts its messages back in; nobody else may use the queue meanwhile.
    #[must_use]
    pub fn restoring(&self) -> QuorumRecovery<'_> {
        QuorumRecovery { queue: self, state: stdx::lock(&self.state) }
    }
}

impl QuorumRecovery<'_> {
    /// Ends the restoring: the consumers of the life before are gone.
    pub fn end(self) {
        let Self { queue, mut state } = self;
        state.content.upkeep(&queue.context).count_named();
        drop(state);
        queue.with(|turn| {
            let consumers: Vec<u64> =
                turn.state.machine.facts().consumers().map(|it| it.terms.consumer).collect();
            // None of them is given what another gives back.
            for consumer in &consumers {
                turn.apply(&Command::Cancel { consumer: *consumer });
            }
            for consumer in consumers {
                turn.apply(&Command::Detach { consumer, how: Return::Failed });
            }
            if turn.state.machine.facts().is_closed() {
                turn.apply(&Command::Reopen);
            }
            let settings = turn.state.terms.settings;
            if !turn.state.machine.is_made() && settings.expires_ms.is_some() {
                // The log has its declaration, and not that it was used by that.
                turn.apply(&Command::Declared);
            } else if turn.state.machine.is_made()
                && *turn.state.machine.facts().settings() != settings
            {
                turn.apply(&Command::Settings(settings));
            }
            if turn.state.machine.get().deadline_ms().is_some() {
                turn.apply(&Command::Tick);
            }
        });
    }
}

impl Restoring for QuorumRecovery<'_> {
    fn message(&mut self, queued: &Queued<'_>, segment: SegmentId) {
        self.state.content.upkeep(&self.queue.context).restore(queued, segment);
    }

    fn page(&mut self, note: &PageNote, segment: SegmentId) -> bool {
        self.state.content.upkeep(&self.queue.context).restore_page(note, segment).unwrap_or(false)
    }

    fn retain_body(&self, blob: BlobId) -> bool {
        self.queue.context.retain_body(blob)
    }
}
