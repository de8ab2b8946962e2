//! Which command a frame is: key, version, request or response.

use std::fmt;

use crate::key::Key;
use crate::spec::RESPONSE_BIT;

/// Key and version in front of a command's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandId {
    /// The key with the bit of responses, known or not.
    pub key: u16,
    /// The version, from 1 on.
    pub version: u16,
}

impl CommandId {
    /// A request, or a command without answer.
    #[must_use]
    pub const fn request(key: Key, version: u16) -> Self {
        Self { key: key.code(), version }
    }

    /// An answer.
    #[must_use]
    pub const fn response(key: Key, version: u16) -> Self {
        Self { key: key.code() | RESPONSE_BIT, version }
    }

    /// Whether the key has the bit of responses.
    pub const fn is_response(self) -> bool {
        self.key & RESPONSE_BIT != 0
    }

    /// The key without that bit, if it is known.
    pub const fn known_key(self) -> Option<Key> {
        Key::from_code(self.key & !RESPONSE_BIT)
    }

    pub(crate) const fn to_bytes(self) -> [u8; 4] {
        let ([k0, k1], [v0, v1]) = (self.key.to_be_bytes(), self.version.to_be_bytes());
        [k0, k1, v0, v1]
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, version } = self;
        match self.known_key() {
            Some(key) if self.is_response() => {
                write!(f, "{} response, version {version}", key.name())
            }
            Some(key) => write!(f, "{}, version {version}", key.name()),
            None => write!(f, "{key:#06x}, version {version}"),
        }
    }
}
