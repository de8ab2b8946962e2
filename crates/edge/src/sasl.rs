//! SASL mechanisms: the client's responses, taken apart.

use session::TableRef;

stdx::named! {
    /// The login mechanisms.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mechanism {
        /// `NUL user NUL password` (RFC 4616).
        Plain = "PLAIN",
        /// A field table with `LOGIN` and `PASSWORD`, without its length.
        AmqPlain = "AMQPLAIN",
        /// A login without a user (RFC 4505).
        Anonymous = "ANONYMOUS",
        /// The user, then the password in answer to a challenge.
        CrDemo = "RABBIT-CR-DEMO",
        /// The user that the client's certificate names (RFC 4422, appendix A).
        External = "EXTERNAL",
    }
}

impl Mechanism {
    /// The mechanism of this name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| name.eq_ignore_ascii_case(mechanism.as_str()))
    }

    /// Whether there is a password to be checked.
    pub const fn takes_password(self) -> bool {
        match self {
            Self::Plain | Self::AmqPlain | Self::CrDemo => true,
            Self::Anonymous | Self::External => false,
        }
    }

    /// The challenge after the client's first response, for mechanisms that have one.
    pub const fn challenge(self) -> Option<&'static [u8]> {
        match self {
            Self::Plain | Self::AmqPlain | Self::Anonymous | Self::External => None,
            // COMPAT: clients look for these words.
            Self::CrDemo => Some(b"Please tell me your password"),
        }
    }

    /// User and password of a response, the password empty if it is asked for; `None` when it is malformed.
    #[must_use]
    pub fn parse(self, response: &[u8]) -> Option<(String, Vec<u8>)> {
        match self {
            Self::Plain => parse_plain(response),
            Self::AmqPlain => {
                let table = TableRef::parse(response).ok()?;
                let user = table.get(b"LOGIN")?.as_bytes()?;
                let password = table.get(b"PASSWORD")?.as_bytes()?;
                Some((String::from_utf8(user.to_vec()).ok()?, password.to_vec()))
            }
            // COMPAT: who the client would like to be is not looked at.
            Self::Anonymous | Self::External => Some((String::new(), Vec::new())),
            Self::CrDemo => Some((String::from_utf8(response.to_vec()).ok()?, Vec::new())),
        }
    }
}

/// The password in the answer to a challenge; `None` when it is malformed.
#[must_use]
pub fn parse_answer(response: &[u8]) -> Option<Vec<u8>> {
    Some(response.strip_prefix(b"My password is ")?.to_vec())
}

fn parse_plain(response: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut parts = response.splitn(3, |&byte| byte == 0);
    let _authorization = parts.next()?;
    let user = String::from_utf8(parts.next()?.to_vec()).ok()?;
    Some((user, parts.next()?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{ShortString, Table};

    #[test]
    fn responses_are_taken_apart() {
        let guest = Some(("guest".to_owned(), b"se\0cret".to_vec()));
        assert_eq!(Mechanism::Plain.parse(b"\0guest\0se\0cret"), guest);
        assert_eq!(Mechanism::Plain.parse(b"other\0guest\0se\0cret"), guest);
        assert_eq!(Mechanism::Plain.parse(b"\0guest"), None);
        assert_eq!(Mechanism::Plain.parse(b""), None);
        let mut table = Table::new();
        table.push(ShortString::from_static("LOGIN"), "guest");
        assert_eq!(Mechanism::AmqPlain.parse(&table.to_bytes()), None);
        table.push(ShortString::from_static("PASSWORD"), "pw");
        let login = Some(("guest".to_owned(), b"pw".to_vec()));
        assert_eq!(Mechanism::AmqPlain.parse(&table.to_bytes()), login);
        assert_eq!(Mechanism::CrDemo.parse(b"guest"), Some(("guest".to_owned(), Vec::new())));
        assert_eq!(parse_answer(b"My password is pw"), Some(b"pw".to_vec()));
        assert_eq!(parse_answer(b"pw"), None);
        assert_eq!(Mechanism::from_name("plain"), Some(Mechanism::Plain));
        assert_eq!(Mechanism::from_name("CRAM-MD5"), None);
    }
}
