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

/// Compares a reply; a text that ends in "..." is a prefix.
#[track_caller]
pub fn reply(code: u16, text: &str, actual_code: u16, actual_text: &str) -> Outcome {
    if code != actual_code {
        return Err(Failure::new(format!("expected {code}, got {actual_code} {actual_text}")));
    }
    match text.strip_suffix("...") {
        Some(prefix) => {
            that(actual_text.starts_with(prefix), format!("expected {text}, got {actual_text}"))
        }
        None => equal(text, actual_text, "reply text"),
    }
}

/// The error must carry a reply of the server with this code and text.
#[track_caller]
pub fn server_said(error: &lapin::Error, code: u16, text: &str) -> Outcome {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => {
            reply(code, text, said.get_id(), said.get_message().as_str())
        }
        other => Err(Failure::new(format!("expected a reply {code}, got {other:?}"))),
    }
}
