//! Messages of the tool: AMQP 1.0 with one data section, whose body begins with a time stamp, and properties
//! where somebody looks at them: the number among the publisher's as message-id, the filter value as `to`.

use amqp10::{MessageHead, Properties, Section, ValueRef, head_bytes, sole_data};

/// Appends a message with a body of `size` bytes, which begins with `stamp`; gives back where the stamp
/// is.
pub(super) fn put(out: &mut Vec<u8>, properties: Properties<'_>, size: usize, stamp: u64) -> usize {
    if properties != Properties::default() {
        Section::Properties(properties).encode(out);
    }
    let mut body = vec![0; size];
    if let Some(slot) = body.first_chunk_mut() {
        *slot = stamp.to_be_bytes();
    }
    Section::Data(&body).encode(out);
    out.len() - size
}

/// The stamp at the start of a message's body, if it is long enough to have one.
pub(super) fn stamp_of(message: &[u8]) -> Option<u64> {
    let body = sole_data(message.get(head_bytes(message)..)?)?;
    body.first_chunk().copied().map(u64::from_be_bytes)
}

/// The filter value of a message.
pub(super) fn to_of(message: &[u8]) -> Option<&str> {
    match MessageHead::read(message).properties.iter().nth(2) {
        Some(ValueRef::Str(to)) => Some(to),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for size in [8, 12, 255, 256, 70_000] {
            for (id, to) in [(None, None), (Some(7), None), (None, Some("x")), (Some(1), Some("y"))]
            {
                let (message_id, of) = (id.map(ValueRef::U64), to.map(ValueRef::Str));
                let properties = Properties { message_id, to: of, ..Properties::default() };
                let mut message = Vec::new();
                let at = put(&mut message, properties, size, 99);
                assert_eq!(message.len(), at + size);
                assert_eq!((stamp_of(&message), to_of(&message)), (Some(99), to), "{size} {to:?}");
            }
        }
        let mut plain = Vec::new();
        put(&mut plain, Properties::default(), 12, 0);
        assert_eq!(plain.len(), 17);
        for foreign in [&b""[..], b"abc", b"\0Ss\xc0", b"\0Su\xa0\x01a"] {
            assert_eq!((stamp_of(foreign), to_of(foreign)), (None, None));
        }
    }
}
