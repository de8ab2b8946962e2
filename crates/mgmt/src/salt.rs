//! Randomness.

use crate::api_error::ApiError;
use api::ErrorCode;
use meta::Salt;
use std::io::Read as _;

/// Fresh random bytes. Reading them never waits once the machine is up.
///
/// # Errors
/// The system has none to give.
pub fn random<const N: usize>() -> Result<[u8; N], ApiError> {
    let mut bytes = [0; N];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|error| {
        ApiError::new(ErrorCode::Invalid, format!("cannot get random numbers: {error}"))
    })
}

/// A fresh salt.
///
/// # Errors
/// The system's source of randomness fails, as with [`random`].
pub fn salt() -> Result<Salt, ApiError> {
    random()
}
