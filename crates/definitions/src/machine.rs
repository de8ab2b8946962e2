//! The replicated state: definitions, and the requests that have made them what they are.
//!
//! ```text
//! image = version:u8 index:u64 term:u64 window definitions
//! ```

use bytes::Bytes;
use cluster::{Committed, FoundMachine};
use meta::{Misfit, RestoreError, SnapshotOf, State};
use stdx::record::{Reader, RecordError, put_u8, put_u64};

use crate::effects::{DefinitionsChange, StopReason};
use crate::entry::DefinitionsEntry;
use crate::window::{RequestStatus, RequestWindow};

/// Facts after which an image is due.
pub const IMAGE_AFTER_FACTS: usize = 20_000;
/// Bytes of entries after which an image is due.
pub const IMAGE_AFTER_BYTES: usize = 16 << 20;

const VERSION: u8 = 1;

/// The replicated state.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicatedState {
    pub(crate) definitions: State,
    /// The index of the last entry that has changed something; 0 before the first.
    pub(crate) index: u64,
    term: u64,
    pub(crate) window: RequestWindow,
    /// Facts since the last image.
    n_facts: usize,
    /// Bytes of entries since the last image.
    n_bytes: usize,
}

impl ReplicatedState {
    /// Applies an entry of the group: all changes in it, or none.
    pub(crate) fn apply(
        &mut self,
        committed: &Committed,
    ) -> Result<Vec<DefinitionsChange>, StopReason> {
        let index = committed.index;
        let (mut next, mut changes) = (self.clone(), Vec::new());
        let mut entries = Reader::new(&committed.commands);
        while !entries.is_empty() {
            let entry = DefinitionsEntry::read(&mut entries);
            let entry = entry.map_err(|error| StopReason::Entry { index, error })?;
            // Without facts it only shows that its leader led.
            if !entry.facts.is_empty() {
                let change = next.replay(index, entry);
                changes.push(change.map_err(|misfit| StopReason::Misfit { index, misfit })?);
            }
        }
        next.n_bytes += committed.commands.len();
        if !changes.is_empty() {
            (next.index, next.term) = (index, committed.term);
        }
        *self = next;
        Ok(changes)
    }

    fn replay(&mut self, index: u64, entry: DefinitionsEntry) -> Result<DefinitionsChange, Misfit> {
        let DefinitionsEntry { request, user, facts } = entry;
        debug_assert_eq!(self.window.status(request), RequestStatus::New, "{request:?} is new");
        let mut removed = Vec::new();
        for fact in &facts {
            removed.extend(self.definitions.replay(&fact.command)?);
        }
        self.window.insert(request);
        self.n_facts += facts.len();
        Ok(DefinitionsChange { index, request, user, facts, removed })
    }

    /// Whether enough has changed since the last image.
    pub(crate) const fn is_image_due(&self) -> bool {
        self.n_facts >= IMAGE_AFTER_FACTS || self.n_bytes >= IMAGE_AFTER_BYTES
    }

    /// The state of a new group, whose first image has definitions that were there before.
    pub(crate) fn first(definitions: State) -> Self {
        Self { definitions, index: 1, term: 1, ..Self::default() }
    }

    /// The state that a start finds, and what has made it of the image.
    pub(crate) fn found(
        found: &FoundMachine,
    ) -> Result<(Self, Vec<DefinitionsChange>), StopReason> {
        let (mut state, mut changes) = (Self::restore(&found.machine)?, Vec::new());
        for committed in &found.committed {
            changes.extend(state.apply(committed)?);
        }
        Ok((state, changes))
    }

    pub(crate) fn take_image(&mut self) -> Bytes {
        (self.n_facts, self.n_bytes) = (0, 0);
        let mut out = Vec::new();
        put_u8(&mut out, VERSION);
        put_u64(&mut out, self.index);
        put_u64(&mut out, self.term);
        self.window.encode(&mut out);
        self.definitions.snapshot(SnapshotOf::Everything, &mut out);
        out.into()
    }

    /// The state that an image was taken of; that of a new group has no bytes.
    pub(crate) fn restore(image: &[u8]) -> Result<Self, RestoreError> {
        if image.is_empty() {
            return Ok(Self::default());
        }
        let mut r = Reader::new(image);
        if r.u8()? != VERSION {
            return Err(RecordError::Invalid.into());
        }
        let (index, term) = (r.u64()?, r.u64()?);
        let window = RequestWindow::read(&mut r)?;
        let definitions = State::restore(r.rest())?;
        Ok(Self { definitions, index, term, window, n_facts: 0, n_bytes: 0 })
    }
}
