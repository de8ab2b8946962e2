//! Names as parts of addresses (RFC 3986, 2.1).

use std::borrow::Cow;

/// The bytes that a part of an address stands for; `None` for a `%` without two digits behind it, and for a
/// character that is to be encoded.
#[must_use]
pub fn percent_decoded(quoted: &str) -> Option<Cow<'_, [u8]>> {
    if quoted.bytes().all(is_plain) {
        return Some(Cow::Borrowed(quoted.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(quoted.len());
    put_percent_decoded(quoted, &mut decoded)?;
    Some(Cow::Owned(decoded))
}

/// Appends the bytes that a part of an address stands for; `None` where [`percent_decoded`] has none, before
/// which some may have been appended.
#[must_use]
pub fn put_percent_decoded(quoted: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut rest = quoted.as_bytes();
    let digit = |of: u8| char::from(of).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let ([high, low], behind) = rest.split_first_chunk()?;
            out.push(digit(*high)? << 4 | digit(*low)?);
            rest = behind;
        } else if is_plain(first) {
            out.push(first);
        } else {
            return None;
        }
    }
    Some(())
}

/// Whether a character of a path's part stands for itself (RFC 3986, 3.3: `pchar`). Characters beyond ASCII
/// do so too: there are clients that encode none of these.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

/// Appends a name as a part of an address: all but letters, digits and `-._~` is encoded.
pub fn put_percent_encoded(name: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |of: u8| DIGITS.get(usize::from(of)).map_or('0', |digit| char::from(*digit));
    for byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.extend(['%', digit(byte >> 4), digit(byte & 0xF)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_encoded_well_has_no_name() {
        for quoted in ["%", "%4", "a%", "%zz", "%+1", "a b", "a/b", "a?b", "a%20 b", "[", "\0"] {
            assert_eq!(percent_decoded(quoted), None, "{quoted}");
        }
        assert_eq!(percent_decoded("a%2Fb%c3%BC+").as_deref(), Some("a/bü+".as_bytes()));
        let plain = "Az09-._~!$&'()*+,;=:@ü";
        assert_eq!(percent_decoded(plain).as_deref(), Some(plain.as_bytes()));
    }

    proptest! {
        #[test]
        fn an_encoded_name_is_itself_again(name: Vec<u8>) {
            let mut quoted = String::new();
            put_percent_encoded(&name, &mut quoted);
            prop_assert!(quoted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
            let decoded = percent_decoded(&quoted).unwrap();
            prop_assert_eq!(&*decoded, &name[..]);
        }
    }
}
