//! SASL mechanisms: the client's responses, taken apart.

use crate::Proof;
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

    /// The challenge after the client's first response, for mechanisms that have one.
    pub const fn challenge(self) -> Option<&'static [u8]> {
        match self {
            Self::Plain | Self::AmqPlain | Self::Anonymous | Self::External => None,
            // COMPAT: clients look for these words.
            Self::CrDemo => Some(b"Please tell me your password"),
        }
    }

    /// User and proof of a response; no proof yet if there is a challenge.
    #[must_use]
    pub fn parse(self, response: &[u8]) -> (String, Proof) {
        let parsed = match self {
            Self::Plain => parse_plain(response),
            Self::AmqPlain => parse_amqplain(response),
            // COMPAT: who the client would like to be is not looked at.
            Self::Anonymous | Self::External => Some((&b""[..], Proof::Nothing)),
            Self::CrDemo => Some((response, Proof::Nothing)),
        };
        let named = parsed.and_then(|(user, proof)| Some((std::str::from_utf8(user).ok()?, proof)));
        named.map_or((String::new(), Proof::Malformed), |(user, proof)| (user.to_owned(), proof))
    }
}

/// The password in the answer to a challenge.
#[must_use]
pub fn parse_answer(response: &[u8]) -> Proof {
    let password = response.strip_prefix(b"My password is ");
    password.map_or(Proof::Malformed, |password| Proof::Password(password.to_vec()))
}

/// COMPAT: who the client would like to be must not be said, nor may the password hold a NUL.
fn parse_plain(response: &[u8]) -> Option<(&[u8], Proof)> {
    let parts: Vec<&[u8]> = response.splitn(4, |&byte| byte == 0).collect();
    let [b"", user, password] = parts[..] else { return None };
    Some((user, Proof::Password(password.to_vec())))
}

fn parse_amqplain(response: &[u8]) -> Option<(&[u8], Proof)> {
    let table = TableRef::parse(response).ok()?;
    let user = table.get(b"LOGIN")?.as_bytes()?;
    let password = table.get(b"PASSWORD")?.as_bytes()?;
    Some((user, Proof::Password(password.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{ShortString, Table};

    #[test]
    fn responses_are_taken_apart() {
        let parse = |mechanism: Mechanism, response: &[u8]| {
            let (user, proof) = mechanism.parse(response);
            proof.password().map(|password| (user, password.to_vec()))
        };
        let guest = Some(("guest".to_owned(), b"secret".to_vec()));
        assert_eq!(parse(Mechanism::Plain, b"\0guest\0secret"), guest);
        assert_eq!(parse(Mechanism::Plain, b"\0guest\0"), Some(("guest".to_owned(), vec![])));
        for malformed in [
            &b""[..],
            b"guest",
            b"\0guest",
            b"\0guest\0se\0cret",
            b"guest\0guest\0secret",
            b"other\0guest\0secret",
            b"\0\xff\0secret",
        ] {
            assert!(
                matches!(Mechanism::Plain.parse(malformed).1, Proof::Malformed),
                "{malformed:?}"
            );
        }
        let mut table = Table::new();
        table.push(ShortString::from_static("LOGIN"), "guest");
        assert!(matches!(Mechanism::AmqPlain.parse(&table.to_bytes()).1, Proof::Malformed));
        table.push(ShortString::from_static("PASSWORD"), "secret");
        assert_eq!(parse(Mechanism::AmqPlain, &table.to_bytes()), guest);
        let (user, proof) = Mechanism::CrDemo.parse(b"guest");
        assert!(user == "guest" && matches!(proof, Proof::Nothing));
        assert_eq!(parse_answer(b"My password is pw").password(), Some(&b"pw"[..]));
        assert!(matches!(parse_answer(b"pw"), Proof::Malformed));
        assert_eq!(Mechanism::from_name("plain"), Some(Mechanism::Plain));
        assert_eq!(Mechanism::from_name("CRAM-MD5"), None);
    }
}
