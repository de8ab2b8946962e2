//! Randomness for passwords.

use crate::api_error::{ApiError, Kind};
use meta::Salt;
use std::io::Read as _;

/// Fresh random bytes. Reading them never waits once the machine is up.
///
/// # Errors
/// The system has none to give.
pub fn salt() -> Result<Salt, ApiError> {
    let mut salt = Salt::default();
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt));
    read.map(|()| salt)
        .map_err(|error| ApiError::new(Kind::Invalid, format!("no randomness for a salt: {error}")))
}
