//! The walk of one message through the node: each step is marked where it is done, so that a test can hold
//! the table in ARCHITECTURE.md against what happens. A release build has nothing of it.

use crate::lock;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_RECORDED: AtomicBool = AtomicBool::new(false);
static STEPS: Mutex<Vec<WalkStep>> = Mutex::new(Vec::new());

/// A step that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// The name in the table.
    pub name: &'static str,
    /// The file with the mark, as the compiler was given it.
    pub file: &'static str,
}

/// Marks the place where a step is done.
#[inline]
#[track_caller]
pub fn step(name: &'static str) {
    if cfg!(debug_assertions) && IS_RECORDED.load(Ordering::Relaxed) {
        let mut steps = lock(&STEPS);
        if !steps.iter().any(|step| step.name == name) {
            steps.push(WalkStep { name, file: Location::caller().file() });
        }
    }
}

/// Notes the steps done from now on in the whole process, in a debug build.
pub fn record() {
    IS_RECORDED.store(true, Ordering::Relaxed);
}

/// The steps done since [`record`], each where it was done first. No more are noted.
pub fn take() -> Vec<WalkStep> {
    IS_RECORDED.store(false, Ordering::Relaxed);
    std::mem::take(&mut lock(&STEPS))
}
