//! A replica of the definitions, under its host's lock.

use bytes::Bytes;
use cluster::{
    Committed, Context, FoundMachine, GroupEffects, GroupRequest, GroupStep, Health, ImageStore,
    ImageWritten, PeerId, ProposalOutcome, RaftGroup, Role, Ticket,
};
use log::{Lsn, Owner, SegmentId, Wal};
use meta::State;

use crate::ask::{AnswerBody, Ask, AskAnswer};
use crate::asker::KnownLeader;
use crate::effects::{DefinitionsChange, DefinitionsEffects, StopReason};
use crate::leadership::{Leadership, Verdict};
use crate::machine::ReplicatedState;

/// The group of the definitions.
pub const DEFINITIONS_GROUP: Owner = Owner(0);

/// The definitions that a start finds in the log, before other nodes are heard.
#[derive(Debug)]
pub struct FoundDefinitions {
    /// The definitions.
    pub definitions: State,
    /// The index of the last change in them.
    pub index: u64,
    /// The changes that they have had since the image.
    pub changes: Vec<DefinitionsChange>,
}

impl FoundDefinitions {
    /// Makes the definitions of what was found of their group.
    ///
    /// # Errors
    /// The image or an entry is damaged, of a later version, or does not fit.
    pub fn of(found: &FoundMachine) -> Result<Self, StopReason> {
        let (state, changes) = ReplicatedState::found(found)?;
        Ok(Self { definitions: state.definitions, index: state.index, changes })
    }
}

/// A replica of the definitions.
#[derive(Debug)]
pub struct DefinitionsGroup {
    group: RaftGroup,
    machine: ReplicatedState,
    /// The leader's part, once all entries of earlier terms are applied.
    leadership: Option<Leadership>,
    last_ticket: u64,
    stopped: Option<StopReason>,
}

impl DefinitionsGroup {
    /// Makes the replica of definitions that are as they were in an image, and have no image at first.
    ///
    /// # Errors
    /// An image that is damaged, or of a later version.
    pub fn new(group: RaftGroup, image: &[u8]) -> Result<Self, StopReason> {
        let machine = ReplicatedState::restore(image)?;
        Ok(Self { group, machine, leadership: None, last_ticket: 0, stopped: None })
    }

    /// Makes the first replica, of definitions that a node had alone. **Blocks** if they are too many for an
    /// image in the log.
    ///
    /// # Errors
    /// The disk's.
    pub fn found(
        me: PeerId,
        definitions: State,
        wal: &Wal,
        images: &ImageStore,
    ) -> segments::Result<Self> {
        let mut machine = ReplicatedState::first(definitions);
        let group = cluster::found_group(wal, DEFINITIONS_GROUP, me, machine.take_image(), images)?;
        Ok(Self { group, machine, leadership: None, last_ticket: 0, stopped: None })
    }

    /// The definitions that are committed.
    #[must_use]
    pub const fn definitions(&self) -> &State {
        &self.machine.definitions
    }

    /// The index of the last change in them.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.machine.index
    }

    /// The group.
    #[must_use]
    pub const fn group(&self) -> &RaftGroup {
        &self.group
    }

    /// The leader that this replica knows, once it decides asks, as far as is known here.
    #[must_use]
    pub fn leader(&self) -> Option<KnownLeader> {
        let decides = self.stopped.is_none() && self.has_applied_terms_before();
        let leader = self.group.leader().filter(|_| decides)?;
        Some(KnownLeader { node: leader.node(), term: self.group.term() })
    }

    /// Steps the group. A replica that has stopped does nothing.
    pub fn step(&mut self, step: GroupStep, cx: Context<'_>) -> DefinitionsEffects {
        let mut fx = DefinitionsEffects::default();
        if self.stopped.is_none() {
            let group = self.group.step(step, cx);
            self.absorb(group, &mut fx);
        }
        fx
    }

    /// Takes an image of the definitions as they are now, when [`GroupRequest::Image`] asks for it, with what
    /// this node alone needs beside them.
    pub fn take_image(&mut self, local: Bytes, cx: Context<'_>) -> DefinitionsEffects {
        let mut fx = DefinitionsEffects::default();
        if self.stopped.is_none() {
            let (index, image) = (self.group.progress().applied, self.machine.take_image());
            let group = self.group.take_image(index, image, local, cx);
            self.absorb(group, &mut fx);
        }
        fx
    }

    /// Notes in the log that the definitions as they are now are committed: a start goes on from there.
    pub fn note_applied(&mut self, cx: Context<'_>) -> Option<Lsn> {
        cluster::note_applied(&mut self.group, cx.wal)
    }

    /// Moves what the replica needs of a segment of the log to the log's end; an image may be taken for that.
    pub fn relocate(&mut self, segment: SegmentId, cx: Context<'_>) -> DefinitionsEffects {
        let (mut fx, mut group) = (DefinitionsEffects::default(), GroupEffects::default());
        if self.stopped.is_none() {
            // Entries that cannot be read yet are moved another time.
            let _is_moved = self.group.relocate(cx.wal, segment, &mut group);
            self.absorb(group, &mut fx);
        }
        fx
    }

    /// Goes on with an image that [`GroupEffects::write`] had the host write.
    pub fn image_written(&mut self, written: ImageWritten, cx: Context<'_>) -> DefinitionsEffects {
        let mut fx = DefinitionsEffects::default();
        let group = self.group.image_written(written, cx);
        if self.stopped.is_none() {
            self.absorb(group, &mut fx);
        }
        fx
    }

    /// Decides an ask of the node that its request names. The answer comes now or with a later step, or never
    /// if this replica stops to lead.
    pub fn ask(&mut self, ask: &Ask, cx: Context<'_>) -> DefinitionsEffects {
        let mut fx = DefinitionsEffects::default();
        let (request, attempt) = (ask.request, ask.attempt);
        let mut answer = |body| fx.answers.push(AskAnswer { request, attempt, body });
        let leadership = self.leadership.as_mut().filter(|it| it.term == ask.term);
        let Some(leadership) = leadership else {
            answer(AnswerBody::Declined);
            return fx;
        };
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        match leadership.decide(ask, ticket, &self.machine) {
            Verdict::Later => {}
            Verdict::Answer(body) => answer(body),
            Verdict::Propose(entry) => {
                let group = self.group.step(GroupStep::Propose(ticket, entry), cx);
                self.absorb(group, &mut fx);
            }
        }
        fx
    }

    fn absorb(&mut self, mut group: GroupEffects, fx: &mut DefinitionsEffects) {
        if let Some(image) = group.restored.take() {
            match ReplicatedState::restore(&image.machine) {
                Ok(machine) => (self.machine, fx.is_restored) = (machine, true),
                Err(error) => return self.stop(error.into(), fx),
            }
        }
        for committed in std::mem::take(&mut group.committed) {
            if let Err(reason) = self.apply(&committed, fx) {
                return self.stop(reason, fx);
            }
        }
        for (ticket, outcome) in std::mem::take(&mut group.answers) {
            let Some(leadership) = &mut self.leadership else { continue };
            match outcome {
                ProposalOutcome::Committed(index) => {
                    leadership.committed(ticket, index, &self.machine, &mut fx.answers);
                }
                ProposalOutcome::Refused(_) => {
                    leadership.refused(ticket, &self.machine, &mut fx.answers);
                }
                ProposalOutcome::Lost => self.leadership = None,
            }
        }
        self.follow_role();
        if self.machine.is_image_due() {
            group.requests.push(GroupRequest::Image);
        }
        fx.group = group;
    }

    fn apply(
        &mut self,
        committed: &Committed,
        fx: &mut DefinitionsEffects,
    ) -> Result<(), StopReason> {
        fx.changes.extend(self.machine.apply(committed)?);
        Ok(())
    }

    /// Begins to decide asks once all entries of earlier terms are applied, and ends it with the term.
    fn follow_role(&mut self) {
        let term = self.group.term();
        if self.group.role() != Role::Leader || self.group.health() != Health::Sound {
            self.leadership = None;
            return;
        }
        if self.leadership.is_none() && self.has_applied_terms_before() {
            self.leadership = Some(Leadership::new(term, &self.machine));
        }
        if let Some(leadership) = &mut self.leadership {
            let has_rivals = self.group.members().voters.len() > 1;
            (leadership.term, leadership.has_rivals) = (term, has_rivals);
        }
    }

    /// Whether all entries of earlier terms are applied, as a leader must have it.
    fn has_applied_terms_before(&self) -> bool {
        let progress = self.group.progress();
        // A replica alone, which has no entry of its own term at first, begins another one with company.
        progress.applied == progress.last
            || self.group.term_at(progress.applied) == Some(self.group.term())
    }

    fn stop(&mut self, reason: StopReason, fx: &mut DefinitionsEffects) {
        self.leadership = None;
        self.stopped = Some(reason.clone());
        fx.stopped = Some(reason);
        fx.group.requests.push(GroupRequest::Stopped);
    }
}
