//! Changes that were planned on a view, and are made together.

use super::effects::Before;
use super::new_streams::NewStreams;
use super::{Changed, ControlPlane, Definitions, LeaderEffects, Made};
use crate::slices::Slices;
use meta::{Command, MetaError, State};
use std::borrow::Cow;
use std::sync::MutexGuard;

/// Why changes that were planned together are not made.
#[derive(Debug)]
pub enum PlanError {
    /// The definitions have changed since: the caller plans again.
    Moved,
    /// The definitions refuse one of the changes.
    Refused(MetaError),
}

/// Changes that are to be made together.
pub struct Planned<'p> {
    /// The changes in order.
    pub commands: Vec<Command>,
    streams: NewStreams<'p>,
}

impl<'p> Planned<'p> {
    /// Prepares changes that are to be made together: streams that they declare get their files in slices.
    ///
    /// # Errors
    /// The disk's.
    pub async fn prepare(
        plane: &'p ControlPlane,
        commands: Vec<Command>,
        slices: &mut Slices,
    ) -> Result<Self, MetaError> {
        let mut streams = NewStreams::of(plane, &commands);
        while streams.make_next()? {
            slices.give_way().await;
        }
        Ok(Self { commands, streams })
    }
}

/// The definitions while nobody else changes them: for a plan that others have made void again and again.
#[derive(Debug)]
pub struct HeldDefinitions<'p> {
    plane: &'p ControlPlane,
    definitions: MutexGuard<'p, Definitions>,
}

impl ControlPlane {
    /// Makes changes as one: all of them or, after a crash too, none. `basis` is the epoch that they were
    /// planned on, none if they are right whatever the definitions are.
    ///
    /// # Errors
    /// The definitions have changed since, or refuse one of the changes; nothing has changed then.
    pub fn submit_together(
        &self,
        basis: Option<u64>,
        planned: &mut Planned<'_>,
    ) -> Result<Changed<'static>, PlanError> {
        let held = HeldDefinitions::of(self);
        if basis.is_some_and(|basis| basis != self.view().epoch) {
            return Err(PlanError::Moved);
        }
        held.submit_together(planned).map_err(PlanError::Refused)
    }
}

impl<'p> HeldDefinitions<'p> {
    /// Keeps others from changing the definitions as long as this is there.
    pub fn of(plane: &'p ControlPlane) -> Self {
        Self { plane, definitions: stdx::lock(&plane.definitions) }
    }

    /// The definitions as they are.
    pub fn meta(&self) -> &State {
        &self.definitions.meta
    }

    /// Makes changes as one, as [`ControlPlane::submit_together`].
    ///
    /// # Errors
    /// The definitions refuse one of the changes; nothing has changed then.
    pub fn submit_together(
        mut self,
        planned: &mut Planned<'_>,
    ) -> Result<Changed<'static>, MetaError> {
        let (plane, definitions) = (self.plane, &mut *self.definitions);
        let before = definitions.meta.clone();
        definitions.premade = planned.streams.take_made();
        let commands = std::mem::take(&mut planned.commands);
        let before_commands = Before::of(&before, commands.iter());
        let mut made = Made::with_capacity(commands.len());
        let applied = commands.into_iter().try_for_each(|command| {
            let outcome = plane.apply(definitions, &command)?;
            made.push((Cow::Owned(command), outcome));
            Ok(())
        });
        // No command has declared these.
        let unused = std::mem::take(&mut definitions.premade);
        unused.values().for_each(|stream| plane.parts.streams.unmake(stream));
        if let Err(error) = applied {
            definitions.meta = before;
            let made = std::mem::take(&mut definitions.new_streams);
            made.values().for_each(|stream| plane.parts.streams.unmake(stream));
            return Err(error);
        }
        Ok(plane.complete(definitions, made, before_commands, LeaderEffects::default()))
    }
}
