//! The PROXY protocol's header, versions 1 and 2, from bytes. Pure: never a socket, never a clock, and
//! nothing is allocated. (<https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>)
//!
//! ```text
//! v1  "PROXY" SP ("TCP4" | "TCP6") SP source SP destination SP source port SP destination port CR LF
//!     "PROXY" SP "UNKNOWN" anything CR LF
//! v2  signature (12) | version and command (1) | family and transport (1) | length (2) |
//!     source | destination | source port (2) | destination port (2) | TLVs up to length
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest header of version 1, with the end of its line (section 2.1).
pub(super) const V1_BYTES_MAX: usize = 107;
/// The longest header of version 2 that is taken. Bytes beyond its addresses are skipped, and may be longer
/// than the 536 bytes that every receiver has to take: certificates of clients, for example.
pub(super) const V2_BYTES_MAX: usize = 16 * 1024;

const V1_START: &[u8] = b"PROXY ";
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED_BYTES: usize = 16;

/// Whom a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    /// A client that connected to the proxy.
    Client {
        /// The client's address.
        source: SocketAddr,
        /// The address the client connected to.
        destination: SocketAddr,
    },
    /// A client of which the proxy does not say where it is.
    Unknown,
    /// The proxy itself, which looks whether the node is there.
    Local,
}

/// The outcome of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The bytes belong to a header that is not whole yet.
    More,
    /// The header says this, and is over after `n_bytes`: perhaps more than were looked at.
    Header {
        /// Whom the connection is for.
        forwarded: Forwarded,
        /// The header's length.
        n_bytes: usize,
    },
}

stdx::named! {
    /// An error in a header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Invalid {
        /// The bytes begin otherwise.
        NotProxyProtocol = "it does not begin like one",
        /// The line of version 1 has no end.
        TooLong = "the line does not end",
        /// The line of version 1 says something else than it may.
        Line = "the line is malformed",
        /// Another version than 2, or another command than LOCAL and PROXY.
        VersionOrCommand = "its version or command is not known",
        /// An address family or transport that there is not, or no stream.
        FamilyOrTransport = "its address family or transport is not supported",
        /// The length is less than the addresses take, or beyond [`V2_BYTES_MAX`].
        Length = "its length is out of range",
    }
}

/// Looks at the first bytes of a connection. [`V1_BYTES_MAX`] of them are always enough.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, Invalid> {
    let is_start_of = |whole: &[u8]| whole.starts_with(bytes) || bytes.starts_with(whole);
    if is_start_of(V1_START) {
        parse_line(bytes)
    } else if is_start_of(SIGNATURE) {
        parse_binary(bytes)
    } else {
        Err(Invalid::NotProxyProtocol)
    }
}

fn parse_line(bytes: &[u8]) -> Result<Parsed, Invalid> {
    let within = bytes.get(..V1_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return if within.len() < V1_BYTES_MAX { Ok(Parsed::More) } else { Err(Invalid::TooLong) };
    };
    let line = within.get(V1_START.len()..end).ok_or(Invalid::Line)?;
    Ok(Parsed::Header { forwarded: line_says(line)?, n_bytes: end + 2 })
}

/// Parses the text between `PROXY` and the end of the line.
fn line_says(line: &[u8]) -> Result<Forwarded, Invalid> {
    if let Some(rest) = line.strip_prefix(b"UNKNOWN")
        && matches!(rest.first(), None | Some(b' '))
    {
        return Ok(Forwarded::Unknown);
    }
    let line = std::str::from_utf8(line).map_err(|_| Invalid::Line)?;
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or(Invalid::Line);
    let (family, source, destination) = (word()?, word()?, word()?);
    let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
    if words.next().is_some() {
        return Err(Invalid::Line);
    }
    let (source, destination) = match family {
        "TCP4" => (address::<Ipv4Addr>(source)?, address::<Ipv4Addr>(destination)?),
        "TCP6" => (address::<Ipv6Addr>(source)?, address::<Ipv6Addr>(destination)?),
        _ => return Err(Invalid::Line),
    };
    Ok(Forwarded::Client {
        source: (source, source_port).into(),
        destination: (destination, destination_port).into(),
    })
}

fn address<A: FromStr + Into<IpAddr>>(word: &str) -> Result<IpAddr, Invalid> {
    word.parse::<A>().map(Into::into).map_err(|_| Invalid::Line)
}

/// Decimal, without a sign or leading zeros.
fn port(word: &str) -> Result<u16, Invalid> {
    let is_plain = word == "0" || word.starts_with(|first: char| matches!(first, '1'..='9'));
    word.parse().ok().filter(|_| is_plain).ok_or(Invalid::Line)
}

fn parse_binary(bytes: &[u8]) -> Result<Parsed, Invalid> {
    let Some((fixed, addresses)) = bytes.split_first_chunk::<V2_FIXED_BYTES>() else {
        return Ok(Parsed::More);
    };
    let [.., version_and_command, family_and_transport, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    let n_bytes = V2_FIXED_BYTES + len;
    if n_bytes > V2_BYTES_MAX {
        return Err(Invalid::Length);
    }
    let forwarded = match (version_and_command, family_and_transport) {
        (0x20, _) => Forwarded::Local,
        (0x21, 0x11) => return forwarded_from::<12, 4>(addresses, len),
        (0x21, 0x21) => return forwarded_from::<36, 16>(addresses, len),
        // UNSPEC, and a client of the proxy's machine (a Unix socket).
        (0x21, 0x00 | 0x31) => Forwarded::Unknown,
        (0x21, _) => return Err(Invalid::FamilyOrTransport),
        _ => return Err(Invalid::VersionOrCommand),
    };
    Ok(Parsed::Header { forwarded, n_bytes })
}

/// `N` bytes of addresses and ports: two addresses of `A` bytes, two ports.
fn forwarded_from<const N: usize, const A: usize>(
    bytes: &[u8],
    len: usize,
) -> Result<Parsed, Invalid>
where
    IpAddr: From<[u8; A]>,
{
    if len < N {
        return Err(Invalid::Length);
    }
    let end = |bytes: &[u8]| {
        let (source, rest) = bytes.split_first_chunk::<A>()?;
        let (destination, rest) = rest.split_first_chunk::<A>()?;
        let (source_port, rest) = rest.split_first_chunk::<2>()?;
        let destination_port = rest.first_chunk::<2>()?;
        let at = |address: &[u8; A], port: &[u8; 2]| {
            SocketAddr::new(IpAddr::from(*address), u16::from_be_bytes(*port))
        };
        Some((at(source, source_port), at(destination, destination_port)))
    };
    let Some((source, destination)) = end(bytes) else { return Ok(Parsed::More) };
    let forwarded = Forwarded::Client { source, destination };
    Ok(Parsed::Header { forwarded, n_bytes: V2_FIXED_BYTES + len })
}

#[cfg(test)]
mod tests;
