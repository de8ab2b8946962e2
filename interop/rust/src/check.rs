//! Assertions that end a scenario with a reason and the place in its source.

use std::fmt::{Debug, Display};
use std::panic::Location;
use std::time::Duration;

/// How long a scenario waits for the broker before it gives up.
pub const WAIT: Duration = Duration::from_secs(10);

/// Why a scenario did not hold.
#[derive(Debug)]
pub enum Failure {
    Failed(String),
    Skipped(&'static str),
}

pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    #[track_caller]
    pub fn new(reason: impl Display) -> Self {
        let place = Location::caller();
        Self::Failed(format!("{reason} at {}:{}", place.file(), place.line()))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

#[track_caller]
pub fn that(holds: bool, otherwise: impl Display) -> Outcome {
    if holds { Ok(()) } else { Err(Failure::new(otherwise)) }
}

#[track_caller]
pub fn equal<E: Debug + PartialEq<A>, A: Debug>(expected: E, actual: A, what: &str) -> Outcome {
    if expected == actual {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: expected {expected:?}, got {actual:?}")))
}
