//! Randomness for passwords.

use crate::refusal::{Kind, Refusal};
use meta::Salt;
use std::io::Read as _;

/// Fresh random bytes. Reading them never waits once the machine is up.
pub(crate) fn salt() -> Result<Salt, Refusal> {
    let mut salt = Salt::default();
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt));
    read.map(|()| salt)
        .map_err(|error| Refusal::new(Kind::Invalid, format!("no randomness for a salt: {error}")))
}
