//! Messages of the tool: AMQP 1.0 with one data section, and properties where somebody looks at them.
//!
//! ```text
//! properties  00 53 73 c0 size count fields      message-id and to, if they are wanted
//! data        00 53 75 a0 size:u8 | b0 size:u32, a body that begins with a time stamp
//! ```

const PROPERTIES: [u8; 4] = [0x00, 0x53, 0x73, 0xc0];
const DATA: [u8; 3] = [0x00, 0x53, 0x75];
const SHORT_BINARY: u8 = 0xa0;
const LONG_BINARY: u8 = 0xb0;
const NULL: u8 = 0x40;
const ULONG: u8 = 0x80;
const SHORT_STRING: u8 = 0xa1;

/// Properties of a message: its number among the publisher's and its filter value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties<'a> {
    pub(super) message_id: Option<u64>,
    pub(super) to: Option<&'a str>,
}

/// Appends a message with a body of `size` bytes, which begins with `stamp`; gives back where the stamp
/// is.
pub(super) fn put(out: &mut Vec<u8>, properties: Properties<'_>, size: usize, stamp: u64) -> usize {
    put_properties(out, properties);
    out.extend_from_slice(&DATA);
    match u8::try_from(size) {
        Ok(short) => out.extend_from_slice(&[SHORT_BINARY, short]),
        Err(_) => {
            out.push(LONG_BINARY);
            out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    let at = out.len();
    out.resize(at + size, 0);
    if let Some(slot) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *slot = stamp.to_be_bytes();
    }
    at
}

fn put_properties(out: &mut Vec<u8>, Properties { message_id, to }: Properties<'_>) {
    if message_id.is_none() && to.is_none() {
        return;
    }
    let mut fields = Vec::new();
    match message_id {
        Some(number) => {
            fields.push(ULONG);
            fields.extend_from_slice(&number.to_be_bytes());
        }
        None => fields.push(NULL),
    }
    fields.push(NULL);
    // A value longer than that cannot be in a list of this form.
    let to = to.and_then(|to| Some((u8::try_from(to.len()).ok()?, to))).filter(|(n, _)| *n < 200);
    match to {
        Some((n, to)) => {
            fields.extend_from_slice(&[SHORT_STRING, n]);
            fields.extend_from_slice(to.as_bytes());
        }
        None => fields.push(NULL),
    }
    out.extend_from_slice(&PROPERTIES);
    let size = u8::try_from(fields.len() + 1).unwrap_or(u8::MAX);
    out.extend_from_slice(&[size, 3]);
    out.extend_from_slice(&fields);
}

/// The stamp at the start of a message's body and the value of `to`, if it is one of this tool's.
pub(super) fn read(message: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    let (to, rest) = match message.strip_prefix(&PROPERTIES) {
        None => (None, message),
        Some([size, list @ ..]) => {
            let (list, rest) = list.split_at_checked(usize::from(*size))?;
            (to_of(list), rest)
        }
        Some([]) => return None,
    };
    let ([SHORT_BINARY, _, body @ ..] | [LONG_BINARY, _, _, _, _, body @ ..]) =
        rest.strip_prefix(&DATA)?
    else {
        return None;
    };
    Some((u64::from_be_bytes(*body.first_chunk()?), to))
}

fn to_of(list: &[u8]) -> Option<&[u8]> {
    // Behind the number of fields: message-id, user-id.
    let ([_, NULL, NULL, rest @ ..] | [_, ULONG, _, _, _, _, _, _, _, _, NULL, rest @ ..]) = list
    else {
        return None;
    };
    match rest {
        [SHORT_STRING, n, text @ ..] => text.get(..usize::from(*n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for size in [8, 12, 255, 256, 70_000] {
            for (message_id, to) in
                [(None, None), (Some(7), None), (None, Some("x")), (Some(1), Some("y"))]
            {
                let mut message = Vec::new();
                let at = put(&mut message, Properties { message_id, to }, size, 99);
                assert_eq!(message.len(), at + size);
                assert_eq!(read(&message), Some((99, to.map(str::as_bytes))), "{size} {to:?}");
            }
        }
        let mut plain = Vec::new();
        put(&mut plain, Properties::default(), 12, 0);
        assert_eq!(plain.len(), 17);
        for foreign in [&b""[..], b"abc", b"\0Ss\xc0", b"\0Su\xa0\x01a"] {
            assert_eq!(read(foreign), None);
        }
    }
}
