//! A queue's machine, which is made when the queue is used for the first time, as most of a crowd never are.

use queue::machine::{Facts, Machine, Settings};
use std::sync::LazyLock;
use stdx::UnixMs;

/// The machine of all queues that were never used.
static UNUSED: LazyLock<Machine> =
    LazyLock::new(|| Machine::new(Settings::default(), UnixMs::default()));

/// A queue's machine, perhaps yet to be made.
#[derive(Debug)]
pub(crate) struct LazyMachine {
    made: Option<Box<Machine>>,
    declared_ms: UnixMs,
}

impl LazyMachine {
    /// Makes the machine of a queue declared at `declared_ms`, which has not been used.
    pub(crate) const fn unused(declared_ms: UnixMs) -> Self {
        Self { made: None, declared_ms }
    }

    pub(crate) fn of(machine: Machine) -> Self {
        Self { made: Some(Box::new(machine)), declared_ms: UnixMs::default() }
    }

    pub(crate) const fn is_made(&self) -> bool {
        self.made.is_some()
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        self.get().facts()
    }

    pub(crate) fn get(&self) -> &Machine {
        self.made.as_deref().unwrap_or(&UNUSED)
    }

    /// The machine, which is made with these settings if it was not.
    pub(crate) fn make(&mut self, settings: &Settings) -> &mut Machine {
        self.made.get_or_insert_with(|| Box::new(Machine::new(*settings, self.declared_ms)))
    }
}
