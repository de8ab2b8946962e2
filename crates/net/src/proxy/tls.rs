//! The TLS that a proxy has ended, as its header of version 2 tells (section 2.2.6). Pure, as `header.rs`.

use std::str::from_utf8;
use tls::{Agreed, Certificate};

const SSL: u8 = 0x20;
const VERSION: u8 = 0x21;
const COMMON_NAME: u8 = 0x22;
const CIPHER: u8 = 0x23;
/// The bits that say that the client has shown a certificate, on this connection or in this session.
const SHOWN: u8 = 0x06;
/// The bytes before the addresses: signature, version, family, length.
const FIXED_BYTES: usize = 16;

/// The encryption between client and proxy, if the header says that there was any. The client's name is taken
/// only if the proxy has verified it.
pub(super) fn agreed(header: &[u8]) -> Option<Agreed> {
    // A line of version 1 says nothing of it.
    header.first().filter(|first| **first == b'\r')?;
    let n_addresses = match header.get(13)? {
        0x11 => 12,
        0x21 => 36,
        0x31 => 216,
        _ => 0,
    };
    let (_, ssl) =
        fields(header.get(FIXED_BYTES + n_addresses..)?).find(|(kind, _)| *kind == SSL)?;
    let (&[client, verify @ ..], fields_of_ssl) = ssl.split_first_chunk::<5>()?;
    let text = |wanted| {
        let (_, value) = fields(fields_of_ssl).find(|(kind, _)| *kind == wanted)?;
        from_utf8(value).ok().map(str::to_owned)
    };
    if client & 1 == 0 {
        return None;
    }
    let is_verified = client & SHOWN != 0 && verify == [0; 4];
    let name = text(COMMON_NAME).filter(|_| is_verified);
    Some(Agreed {
        version: text(VERSION).unwrap_or_default().to_lowercase(),
        key_exchange: String::new(),
        cipher: text(CIPHER).unwrap_or_default(),
        certificate: name.map(|name| Box::new(Certificate::of_common_name(name))),
    })
}

/// Fields of one byte for their kind, two for their length; one that is not whole ends them.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&[kind, high, low], rest) = bytes.split_first_chunk::<3>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        bytes = rest;
        Some((kind, value))
    })
}
