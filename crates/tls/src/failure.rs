//! The reasons why handshakes fail, in words.

use crate::verifier::take_refused;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello([u8; Self::BYTES]);

stdx::named! {
    /// The reasons that are counted apart.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Reason {
        /// The client speaks something else.
        NotTls = "not_tls",
        /// The client offers no version or cipher that is wanted.
        Incompatible = "incompatible",
        /// The client shows no certificate, and must.
        NoCertificate = "no_certificate",
        /// The client's certificate is not accepted.
        BadCertificate = "bad_certificate",
        /// The client does not accept the node's certificate, or gives up for another reason.
        RefusedByClient = "refused_by_client",
        /// The client did not finish in time.
        TooSlow = "too_slow",
        /// The client went away in the middle.
        Lost = "lost",
        /// The client breaks the rules of TLS.
        Malformed = "malformed",
    }
}

/// A handshake that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of reason.
    pub reason: Reason,
    /// The reason, for the log.
    pub text: String,
}

impl Hello {
    /// The number of bytes that are looked at.
    pub const BYTES: usize = 11;

    /// Takes the first bytes of what a client has sent so far.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut first = [0; Self::BYTES];
        first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self(first)
    }

    /// The protocol that this is instead of TLS.
    fn other_protocol(self) -> Option<&'static str> {
        let Self(bytes) = self;
        let starts = |start: &[u8]| bytes.starts_with(start);
        Some(match bytes {
            [0x16, 3, ..] => return None,
            _ if starts(b"AMQP") => "plain AMQP on a TLS port",
            _ if starts(b"PROXY ") || starts(b"\r\n\r\n\0\r\nQUIT") => {
                "a header of the PROXY protocol, which `proxy_protocol` does not say"
            }
            _ if starts(b"GET ") || starts(b"POST ") || starts(b"PUT ") || starts(b"HEAD ") => {
                "plain HTTP on a TLS port"
            }
            [0, 0, ..] => "the plain stream protocol on a TLS port",
            [first, _, 1, ..] if first >= 0x80 => "client offers SSL 2.0 only",
            _ => "it does not speak TLS",
        })
    }

    /// The newest version that a client from before TLS 1.3 offers (RFC 8446, 4.1.2).
    const fn offered(self) -> Option<&'static str> {
        match self.0 {
            [0x16, _, _, _, _, 1, _, _, _, 3, minor] => Some(match minor {
                0 => "SSL 3.0",
                1 => "TLS 1.0",
                2 => "TLS 1.1",
                _ => "TLS 1.2",
            }),
            _ => None,
        }
    }
}

impl Failure {
    /// A failure that is not rustls'.
    #[must_use]
    pub fn new(reason: Reason, text: &str) -> Self {
        Self { reason, text: text.to_owned() }
    }

    /// The meaning of an error of this thread's latest handshake, of a client that began so.
    #[must_use]
    #[expect(clippy::wildcard_enum_match_arm, reason = "rustls has many errors, all with a text")]
    pub fn explain(error: &Error, hello: Hello) -> Self {
        let client = take_refused();
        let of = client.map(|name| format!(" (certificate of {name})")).unwrap_or_default();
        match error {
            Error::PeerIncompatible(why) => {
                Self::new(Reason::Incompatible, &incompatible(why, hello))
            }
            Error::NoCertificatesPresented => {
                Self::new(Reason::NoCertificate, "client shows no certificate")
            }
            Error::InvalidCertificate(why) => {
                Self::new(Reason::BadCertificate, &format!("{}{of}", bad_certificate(why)))
            }
            Error::AlertReceived(alert) => Self::new(Reason::RefusedByClient, &refused(*alert)),
            other => match hello.other_protocol() {
                Some(protocol) => Self::new(Reason::NotTls, protocol),
                None => Self::new(Reason::Malformed, &other.to_string()),
            },
        }
    }
}

fn incompatible(why: &PeerIncompatible, hello: Hello) -> String {
    match (why, hello.offered()) {
        (_, Some(version)) if version != "TLS 1.2" => format!("client offers {version} only"),
        (
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::ServerDoesNotSupportTls12Or13,
            Some(version),
        ) => format!("client offers {version} only"),
        (PeerIncompatible::NoCipherSuitesInCommon, _) => {
            "client offers no cipher suite that is allowed here".to_owned()
        }
        (PeerIncompatible::NoKxGroupsInCommon, _) => {
            "client offers no way to agree on keys that is allowed here (ECDHE is)".to_owned()
        }
        (other, _) => format!("client offers nothing that is allowed here: {other:?}"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "rustls has many errors, all with a text")]
fn bad_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::ExpiredContext { time, not_after } => {
            let s = time.as_secs().saturating_sub(not_after.as_secs());
            format!("certificate expired {} ago", duration(s))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let s = not_before.as_secs().saturating_sub(time.as_secs());
            format!("certificate is not valid before {} from now", duration(s))
        }
        CertificateError::Revoked => "certificate is revoked".to_owned(),
        // With the other error an authority that is known has the name of its issuer, and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "unknown CA".to_owned(),
        CertificateError::UnknownRevocationStatus => {
            "no list of revoked certificates of its CA".to_owned()
        }
        CertificateError::ExpiredRevocationListContext { .. } => {
            "the list of revoked certificates is out of date".to_owned()
        }
        CertificateError::InvalidPurposeContext { .. } => {
            "certificate is not for clients".to_owned()
        }
        // webpki has no error of rustls' for it.
        CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            "certificate is of X.509 version 1, and has to be of version 3, as \
             'openssl x509 -req ... -extfile FILE' makes it with a file of extensions"
                .to_owned()
        }
        other => format!("certificate is not accepted: {other}"),
    }
}

fn duration(s: u64) -> String {
    let (n, unit) = match s {
        0..3_600 => (s / 60, "minute"),
        3_600..172_800 => (s / 3_600, "hour"),
        _ => (s / 86_400, "day"),
    };
    format!("{n} {unit}{}", if n == 1 { "" } else { "s" })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "there are many alerts, all with a name")]
fn refused(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => "unknown CA",
        AlertDescription::CertificateExpired => "it has expired",
        AlertDescription::CertificateRevoked => "it is revoked",
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "its name or its issuer is not as expected"
        }
        other => return format!("client gives up: {other:?}"),
    };
    format!("client does not accept this node's certificate: {why}")
}
