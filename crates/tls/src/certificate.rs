//! A client's certificate: who it says the client is, in RabbitMQ's words.

use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

stdx::named! {
    /// The kind of an alternative name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SanKind {
        /// A host's name.
        Dns = "dns",
        /// An IP address.
        Ip = "ip",
        /// A mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// Another name, such as a user's principal name.
        OtherName = "other_name",
    }
}

/// The part of a certificate that is the name of its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoginFrom {
    /// The whole subject.
    #[default]
    DistinguishedName,
    /// The subject's common names.
    CommonName,
    /// The alternative name of this kind that has this many before it.
    San(SanKind, usize),
}

/// A certificate, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The subject, as RFC 4514 writes it.
    pub subject: String,
    /// The issuer, as RFC 4514 writes it.
    pub issuer: String,
    /// The beginning and the end of the validity, for people.
    pub validity: String,
    /// The beginning of the validity, in seconds since 1970.
    pub not_before_s: i64,
    /// The end of the validity, in seconds since 1970.
    pub not_after_s: i64,
    /// The version of X.509: 3, or 1 if the certificate was issued without extensions.
    pub version: u32,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The subject's common names, with commas between them.
    pub common_name: Option<String>,
    names: Vec<(SanKind, String)>,
}

impl Certificate {
    /// Takes a certificate apart; `None` if it cannot be read.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let common_names: Vec<&str> =
            parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok()).collect();
        let names = parsed.subject_alternative_name().ok().flatten();
        let validity = parsed.validity();
        Some(Self {
            subject: distinguished_name(parsed.subject()),
            issuer: distinguished_name(parsed.issuer()),
            validity: format!("{} - {}", time(validity.not_before), time(validity.not_after)),
            not_before_s: validity.not_before.timestamp(),
            not_after_s: validity.not_after.timestamp(),
            version: parsed.version().0.saturating_add(1),
            serial: parsed.serial.to_str_radix(16),
            // COMPAT: several are joined, which is no better than any one of them.
            common_name: (!common_names.is_empty()).then(|| common_names.join(",")),
            names: names
                .map(|names| names.value.general_names.iter().filter_map(san).collect())
                .unwrap_or_default(),
        })
    }

    /// Creates a certificate of a client whose common name is all that is known.
    #[must_use]
    pub fn of_common_name(name: String) -> Self {
        let nothing = String::new;
        Self {
            subject: format!("CN={}", escaped(&name)),
            issuer: nothing(),
            validity: nothing(),
            not_before_s: 0,
            not_after_s: 0,
            version: 3,
            serial: nothing(),
            common_name: Some(name),
            names: Vec::new(),
        }
    }

    /// The name of its user, if it has such a name.
    pub fn login(&self, from: LoginFrom) -> Option<&str> {
        match from {
            LoginFrom::DistinguishedName => Some(&self.subject),
            LoginFrom::CommonName => self.common_name.as_deref(),
            LoginFrom::San(kind, index) => {
                let of_kind = self.names.iter().filter(|(it, _)| *it == kind);
                of_kind.map(|(_, name)| name.as_str()).nth(index)
            }
        }
    }

    /// Whether it is for this host's name or address.
    #[must_use]
    pub fn is_for_host(&self, host: &str) -> bool {
        let wildcard = host.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let is_for = |(kind, name): &(SanKind, String)| match kind {
            SanKind::Dns => {
                let is_wildcard = wildcard.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(name));
                is_wildcard || name.eq_ignore_ascii_case(host)
            }
            SanKind::Ip => name == host,
            SanKind::Email | SanKind::Uri | SanKind::OtherName => false,
        };
        self.names.iter().any(is_for)
    }

    /// The hosts' names that it is for.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = self.names.iter().filter(|(kind, _)| *kind == SanKind::Dns);
        hosts.map(|(_, name)| name.as_str())
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "RabbitMQ knows no other kinds")]
fn san(name: &GeneralName<'_>) -> Option<(SanKind, String)> {
    Some(match name {
        GeneralName::DNSName(name) => (SanKind::Dns, (*name).to_owned()),
        GeneralName::RFC822Name(name) => (SanKind::Email, (*name).to_owned()),
        GeneralName::URI(name) => (SanKind::Uri, (*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let ip = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let ip = ip.or_else(|_| <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from));
            (SanKind::Ip, ip.ok()?.to_string())
        }
        // A tagged string in a tag of its own: what is left of it without both.
        GeneralName::OtherName(_, value) => {
            let (_, inner) = x509_parser::asn1_rs::Any::from_der(value).ok()?;
            let (_, text) = x509_parser::asn1_rs::Any::from_der(inner.data).ok()?;
            (SanKind::OtherName, std::str::from_utf8(text.data).ok()?.to_owned())
        }
        _ => return None,
    })
}

/// Whether the key that a certificate is for is this one, in the form that certificates have keys in.
pub(crate) fn is_for_key(certificate: &[u8], key: &[u8]) -> bool {
    let parsed = X509Certificate::from_der(certificate).ok();
    parsed.is_some_and(|(_, parsed)| parsed.public_key().raw == key)
}

/// COMPAT: RabbitMQ has RFC 4514's form, the last part first, with names of its own for some attributes.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|rdn| {
        let attributes = rdn.iter().map(|attribute| {
            let oid = attribute.attr_type().to_id_string();
            let known = ATTRIBUTES.iter().find(|(known, _)| *known == oid);
            let value = attribute.as_str().map(str::to_owned);
            let value = value.unwrap_or_else(|_| {
                String::from_utf8_lossy(attribute.attr_value().data).into_owned()
            });
            format!("{}={}", known.map_or(oid.as_str(), |(_, name)| name), escaped(&value))
        });
        attributes.collect::<Vec<_>>().join("+")
    });
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

/// Identifiers of attributes, and what RabbitMQ calls them.
const ATTRIBUTES: [(&str, &str); 17] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// RFC 4514, 2.4; what is no printable ASCII is escaped byte by byte.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for (at, byte) in value.bytes().enumerate() {
        let is_first = at == 0 && matches!(byte, b' ' | b'#');
        let is_last = at > 0 && at + 1 == value.len() && byte == b' ';
        match byte {
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => escaped.push('\\'),
            _ if is_first || is_last => escaped.push('\\'),
            32..126 => {}
            _ => {
                escaped.push_str(&format!("\\{byte:02X}"));
                continue;
            }
        }
        escaped.push(char::from(byte));
    }
    escaped
}

fn time(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let (hour, minute, second) = time.to_hms();
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
