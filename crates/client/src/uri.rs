//! A broker's URI: `amqp://user:password@host:port/vhost`, or `amqps://` with TLS.

use amqp091::spec::{PORT, PORT_TLS};

/// A broker and how to log in to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether TLS is spoken there.
    pub is_encrypted: bool,
    /// Decoded.
    pub user: String,
    /// Decoded.
    pub password: String,
    /// Decoded.
    pub vhost: String,
}

/// A scheme of URIs, and the port where it names none.
struct Scheme {
    name: &'static str,
    port: u16,
}

impl Uri {
    /// Reads a URI.
    ///
    /// # Errors
    /// Anything that is not an AMQP URI.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = Scheme { name: "amqp", port: PORT };
        Self::parse_schemes(text, &plain, &Scheme { name: "amqps", port: PORT_TLS })
    }

    /// Reads a URI of the stream protocol: `rabbitmq-stream://`, or with TLS `rabbitmq-stream+tls://`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse_stream(text: &str) -> Result<Self, String> {
        let plain = Scheme { name: "rabbitmq-stream", port: streamproto::spec::PORT };
        let port = streamproto::spec::PORT_TLS;
        Self::parse_schemes(text, &plain, &Scheme { name: "rabbitmq-stream+tls", port })
    }

    fn parse_schemes(text: &str, plain: &Scheme, encrypted: &Scheme) -> Result<Self, String> {
        let wrong = |why: &str| format!("invalid URI '{text}': {why}");
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme == plain.name => (plain, rest),
            Some((scheme, rest)) if scheme == encrypted.name => (encrypted, rest),
            Some(_) | None => {
                let (plain, encrypted) = (plain.name, encrypted.name);
                return Err(wrong(&format!("it has to begin with {plain}:// or {encrypted}://")));
            }
        };
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        let (authority, vhost) = match rest.split_once('/') {
            Some((authority, vhost)) => (authority, Some(vhost)),
            None => (rest, None),
        };
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (login, address),
            None => ("guest:guest", authority),
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = split_port(address).ok_or_else(|| wrong("the port is not a number"))?;
        let decode = |text: &str| decode(text).ok_or_else(|| wrong("a % is not followed by hex"));
        Ok(Self {
            host: if host.is_empty() { "localhost".to_owned() } else { host.to_owned() },
            port: port.unwrap_or(scheme.port),
            is_encrypted: scheme.name == encrypted.name,
            user: decode(user)?,
            password: decode(password)?,
            // A URI that ends in "/" names the vhost with the empty name.
            vhost: decode(vhost.unwrap_or("/"))?,
        })
    }
}

/// The host, and the port if there is one; `None` if it is no number.
fn split_port(address: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    Some((host, port.map(str::parse).transpose().ok()?))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (hex, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(host: &str, port: u16, user: &str, password: &str, vhost: &str) -> Uri {
        let [host, user, password, vhost] = [host, user, password, vhost].map(str::to_owned);
        Uri { host, port, is_encrypted: false, user, password, vhost }
    }

    #[test]
    fn parts_have_defaults_and_are_decoded() {
        let cases = [
            ("amqp://localhost", uri("localhost", 5672, "guest", "guest", "/")),
            ("amqp://", uri("localhost", 5672, "guest", "guest", "/")),
            ("amqp://a:b%2f@h:1/%2f", uri("h", 1, "a", "b/", "/")),
            ("amqp://h:1/v?heartbeat=3", uri("h", 1, "guest", "guest", "v")),
            ("amqp://h/", uri("h", 5672, "guest", "guest", "")),
            ("amqp://[::1]:7", uri("::1", 7, "guest", "guest", "/")),
            ("amqp://[::1]", uri("::1", 5672, "guest", "guest", "/")),
        ];
        for (text, expected) in cases {
            assert_eq!(Uri::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn tls_has_a_port_of_its_own() {
        let plain = uri("h", 5671, "guest", "guest", "/");
        assert_eq!(Uri::parse("amqps://h").unwrap(), Uri { is_encrypted: true, ..plain.clone() });
        let other = Uri { is_encrypted: true, port: 1, ..plain };
        assert_eq!(Uri::parse("amqps://h:1").unwrap(), other);
    }

    #[test]
    fn streams_have_schemes_and_ports_of_their_own() {
        let plain = uri("h", 5552, "guest", "guest", "v");
        assert_eq!(Uri::parse_stream("rabbitmq-stream://h/v").unwrap(), plain);
        let tls = Uri { is_encrypted: true, port: 5551, ..plain };
        assert_eq!(Uri::parse_stream("rabbitmq-stream+tls://h/v").unwrap(), tls);
        assert!(
            Uri::parse_stream("amqp://h").is_err() && Uri::parse("rabbitmq-stream://h").is_err()
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["localhost", "http://h", "amqpss://h", "amqp://h:x", "amqp://a%zz@h"] {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }
}
