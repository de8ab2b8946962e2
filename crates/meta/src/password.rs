//! Password hashes in RabbitMQ's format: base64(salt || hash(salt || password)), salt of 4 bytes.

use std::fmt;

use base64::Engine as _;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

use crate::error::MetaError;

/// Fresh random bytes; made by the caller, since nothing here is random.
pub type Salt = [u8; 4];

/// Base64 with padding. COMPAT: bits beyond the last byte are passed over, as with RabbitMQ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The longest hash with its salt, in bytes.
const HASH_BYTES_MAX: usize = 4 + 64;

stdx::named! {
    /// The algorithms of password hashes. COMPAT: fast hashes, so that definitions can be exchanged with
    /// RabbitMQ.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum HashAlgorithm {
        /// SHA-256, the default.
        #[default]
        Sha256 = "rabbit_password_hashing_sha256",
        /// SHA-512, the stronger alternative.
        Sha512 = "rabbit_password_hashing_sha512",
        /// MD5, of users from before RabbitMQ 3.6, and of nodes that are told to go on with it.
        Md5 = "rabbit_password_hashing_md5",
    }
}

impl HashAlgorithm {
    fn digest(self, salt: &[u8], password: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => digest::<Sha256>(salt, password),
            Self::Sha512 => digest::<Sha512>(salt, password),
            Self::Md5 => digest::<Md5>(salt, password),
        }
    }
}

fn digest<D: Digest>(salt: &[u8], password: &[u8]) -> Vec<u8> {
    D::new().chain_update(salt).chain_update(password).finalize().to_vec()
}

/// A salted hash, or none: then nobody can log in with a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PasswordHash {
    /// The hash's algorithm.
    pub algorithm: HashAlgorithm,
    pub(crate) salted: Vec<u8>,
}

impl PasswordHash {
    /// The hash of a password by the default algorithm. A blank one gives no hash.
    #[must_use]
    pub fn new(salt: Salt, password: &str) -> Self {
        Self::by(HashAlgorithm::default(), salt, password)
    }

    /// As [`Self::new`], by this algorithm.
    #[must_use]
    pub fn by(algorithm: HashAlgorithm, salt: Salt, password: &str) -> Self {
        if password.is_empty() {
            return Self::default();
        }
        let mut salted = salt.to_vec();
        salted.extend(algorithm.digest(&salt, password.as_bytes()));
        Self { algorithm, salted }
    }

    /// A hash made elsewhere; an empty text means no password.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] for what is not base64 or too long.
    pub fn from_base64(algorithm: HashAlgorithm, text: &str) -> Result<Self, MetaError> {
        let salted = BASE64.decode(text).ok().filter(|salted| salted.len() <= HASH_BYTES_MAX);
        let salted = salted.ok_or_else(|| MetaError::Invalid("not_base64".to_owned()))?;
        Ok(Self { algorithm, salted })
    }

    pub(crate) fn from_parts(algorithm: HashAlgorithm, salted: &[u8]) -> Self {
        Self { algorithm, salted: salted.to_vec() }
    }

    /// The text for definitions.
    pub fn to_base64(&self) -> String {
        BASE64.encode(&self.salted)
    }

    /// Whether there is no password.
    pub const fn is_empty(&self) -> bool {
        self.salted.is_empty()
    }

    /// Whether this is the password, in a time that does not depend on where a wrong one differs.
    /// Blank passwords are never right.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        let Some((salt, hash)) = self.salted.split_first_chunk::<4>() else { return false };
        if password.is_empty() || hash.is_empty() {
            return false;
        }
        let given = self.algorithm.digest(salt, password);
        let difference = given.iter().zip(hash).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == hash.len() && std::hint::black_box(difference) == 0
    }
}

impl fmt::Debug for PasswordHash {
    /// Hashes do not belong into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = if self.is_empty() { "none" } else { "..." };
        write!(f, "PasswordHash({:?}, {hash})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rabbitmqs_published_example() {
        // From RabbitMQ's documentation on passwords: salt 908DC60A, password "test12".
        let hash = PasswordHash::new([0x90, 0x8d, 0xc6, 0x0a], "test12");
        assert_eq!(hash.to_base64(), "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        assert!(hash.verify(b"test12"));
        assert!(!hash.verify(b"test13"));
        assert!(!hash.verify(b""));
    }

    #[test]
    fn every_algorithm_verifies() {
        for algorithm in HashAlgorithm::ALL {
            let made = PasswordHash::by(algorithm, [1, 2, 3, 4], "secret");
            assert_eq!(made.algorithm, algorithm);
            let text = made.to_base64();
            let hash = PasswordHash::from_base64(algorithm, &text).unwrap();
            assert_eq!(hash, made);
            assert!(hash.verify(b"secret"));
            assert!(!hash.verify(b"Secret"));
            assert_eq!(hash.to_base64(), text);
            assert_eq!(HashAlgorithm::of_name(algorithm.as_str()), Some(algorithm));
        }
    }

    #[test]
    fn blank_passwords_never_fit() {
        assert!(PasswordHash::new([1; 4], "").is_empty());
        assert!(!PasswordHash::default().verify(b""));
        assert!(!PasswordHash::default().verify(b"x"));
        let salt_only = PasswordHash::from_base64(HashAlgorithm::Sha256, "AAAAAA==").unwrap();
        assert!(!salt_only.verify(b"x"));
        for bad in ["not base64", "Z", "Zg=", "Zg", "Z===", "Z g=", "Zm9v=Zg=", "Zm9\u{e9}"] {
            assert!(PasswordHash::from_base64(HashAlgorithm::Sha256, bad).is_err(), "{bad}");
        }
        assert!(PasswordHash::from_base64(HashAlgorithm::Sha256, "Zh==").is_ok());
        assert!(PasswordHash::from_base64(HashAlgorithm::Sha256, &"AAAA".repeat(23)).is_err());
    }
}
