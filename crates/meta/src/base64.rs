//! Base64 with padding, as RabbitMQ writes password hashes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            if n > chunk.len() {
                out.push('=');
            } else {
                out.push(digit(group >> (18 - 6 * n)));
            }
        }
    }
    out
}

fn digit(bits: u32) -> char {
    let at = usize::try_from(bits & 63).unwrap_or(0);
    ALPHABET.get(at).map_or('=', |byte| char::from(*byte))
}

/// The bytes, or nothing for what is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for chunk in digits.chunks(4) {
        let mut group = 0_u32;
        for n in 0..4 {
            let value = chunk.get(n).map_or(Some(0), |digit| {
                let at = ALPHABET.iter().position(|known| known == digit)?;
                u32::try_from(at).ok()
            })?;
            group = group << 6 | value;
        }
        let [_, bytes @ ..] = group.to_be_bytes();
        out.extend_from_slice(bytes.get(..chunk.len().saturating_sub(1))?);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        for bad in ["Z", "Zg=", "Zg", "Z===", "Z g=", "Zm9v=Zg=", "Zm9\u{e9}"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
