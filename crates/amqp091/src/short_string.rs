//! Names, routing keys and table keys: up to 255 bytes of anything, as a rule UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use crate::error::FieldError;

/// An owned short string: at most 255 bytes, not necessarily UTF-8.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShortString(Box<[u8]>);

impl ShortString {
    /// The longest short string in bytes.
    pub const LEN_MAX: usize = 255;

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// `StringTooLong` above 255 bytes.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, FieldError> {
        let bytes = bytes.as_ref();
        if bytes.len() > Self::LEN_MAX {
            return Err(FieldError::StringTooLong);
        }
        Ok(Self(bytes.into()))
    }

    /// A short string from a constant of the program.
    ///
    /// # Panics
    /// If the constant is longer than 255 bytes.
    #[must_use]
    pub fn from_static(text: &'static str) -> Self {
        assert!(text.len() <= Self::LEN_MAX, "a short string constant is longer than 255 bytes");
        Self(text.as_bytes().into())
    }

    /// The first 255 bytes of `text`, cut at a character boundary: for texts made by the program.
    #[must_use]
    pub fn truncated(text: &str) -> Self {
        let cut = text.floor_char_boundary(Self::LEN_MAX);
        Self(text.get(..cut).unwrap_or_default().as_bytes().into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text, with U+FFFD for what is not UTF-8.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl TryFrom<&str> for ShortString {
    type Error = FieldError;

    fn try_from(text: &str) -> Result<Self, FieldError> {
        Self::new(text)
    }
}

impl TryFrom<&[u8]> for ShortString {
    type Error = FieldError;

    fn try_from(bytes: &[u8]) -> Result<Self, FieldError> {
        Self::new(bytes)
    }
}

impl Deref for ShortString {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ShortString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ShortString {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for ShortString {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for ShortString {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == other.as_bytes()
    }
}

impl fmt::Display for ShortString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl fmt::Debug for ShortString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_text(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_checked_and_text_is_cut_between_characters() {
        assert_eq!(ShortString::new([b'a'; 256]), Err(FieldError::StringTooLong));
        assert_eq!(ShortString::new([b'a'; 255]).unwrap().len(), 255);
        assert_eq!(ShortString::truncated(&"é".repeat(200)).len(), 254);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept_and_shown_with_a_replacement() {
        let s = ShortString::new([b'a', 0xff]).unwrap();
        assert_eq!(s.as_bytes(), [b'a', 0xff]);
        assert_eq!(s.as_str(), None);
        assert_eq!(s.to_string(), "a\u{fffd}");
    }
}
