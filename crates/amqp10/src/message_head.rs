//! The sections in front of a message's body, looked at without being validated: for messages that were
//! validated before, and of which many are looked at.

use crate::code;
use crate::message::{goes_on, section_code};
use crate::reader::ValueCursor;
use crate::value::{DEPTH_MAX, ListRef, MapRef, ValueRef};

/// The sections in front of a body that say what a message is about. One that is not there, or cannot be
/// read, is empty.
#[derive(Clone, Copy, Debug)]
pub struct MessageHead<'a> {
    /// The fields of the header, in the specification's order.
    pub header: ListRef<'a>,
    /// The fields of the properties, in the specification's order.
    pub properties: ListRef<'a>,
    /// The application's properties.
    pub application_properties: MapRef<'a>,
}

impl<'a> MessageHead<'a> {
    /// Looks at the sections of a message up to its body.
    #[must_use]
    pub fn read(message: &'a [u8]) -> Self {
        let mut head = Self {
            header: ListRef::EMPTY,
            properties: ListRef::EMPTY,
            application_properties: MapRef::EMPTY,
        };
        let mut cursor = ValueCursor(message);
        loop {
            match read_usual(&mut cursor) {
                Some((0x70, items)) => head.header = items,
                Some((0x73, items)) => head.properties = items,
                Some((0x74, items)) => head.application_properties = MapRef(items),
                Some(_) => {}
                None if is_at_body(cursor) || !head.read_other(&mut cursor) => return head,
                None => {}
            }
        }
    }

    /// Reads a section in any form; returns whether another may follow.
    fn read_other(&mut self, cursor: &mut ValueCursor<'a>) -> bool {
        match read_section(cursor) {
            Some((0x70, ValueRef::List(list))) => self.header = list,
            Some((0x73, ValueRef::List(list))) => self.properties = list,
            Some((0x74, ValueRef::Map(map))) => self.application_properties = map,
            Some((0x71 | 0x72, _)) => {}
            _ => return false,
        }
        true
    }
}

/// The bytes of the sections in front of a message's body.
#[must_use]
pub fn head_bytes(message: &[u8]) -> usize {
    let mut cursor = ValueCursor(message);
    loop {
        let n_left = cursor.0.len();
        if is_at_body(cursor) || !matches!(read_section(&mut cursor), Some((0x70..=0x74, _))) {
            return message.len() - n_left;
        }
    }
}

/// Whether a body or what is behind it comes next, in the form that nearly all peers write.
#[inline]
const fn is_at_body(cursor: ValueCursor<'_>) -> bool {
    matches!(cursor.0, [code::DESCRIBED, code::U64_SMALL, 0x75..=0x78, ..])
}

/// The bytes of the header and the annotations in front of a message whose sections are of their types and in
/// order. Values inside the sections are not looked at.
#[inline]
#[must_use]
pub fn annotated_bytes(message: &[u8]) -> Option<usize> {
    let (mut cursor, mut last, mut n_bytes) = (ValueCursor(message), 0, 0);
    while !cursor.is_empty() {
        let section = read_section(&mut cursor)?;
        goes_on(section.0, &mut last).ok()?;
        match section {
            (0x70, ValueRef::List(_)) | (0x71 | 0x72, ValueRef::Map(_)) => {
                n_bytes = message.len() - cursor.0.len();
            }
            (0x73 | 0x76, ValueRef::List(_))
            | (0x74 | 0x78, ValueRef::Map(_))
            | (0x75, ValueRef::Binary(_))
            | (0x77, _) => {}
            _ => return None,
        }
    }
    Some(n_bytes)
}

/// The code and the items of the next section, which is in front of a body and in the form that nearly all
/// peers write.
#[expect(
    clippy::inline_always,
    reason = "a struct that is copied whole just after it was filled in stalls"
)]
#[inline(always)]
fn read_usual<'a>(cursor: &mut ValueCursor<'a>) -> Option<(u8, ListRef<'a>)> {
    let [code::DESCRIBED, code::U64_SMALL, section @ 0x70..=0x74, kind, size, n_items, rest @ ..] =
        cursor.0
    else {
        return None;
    };
    let (is_map, n_items) = (is_map(*section), usize::from(*n_items));
    let (items, rest) = rest.split_at_checked(usize::from(*size).checked_sub(1)?)?;
    let is_of_kind = if is_map { *kind == code::MAP8 } else { *kind == code::LIST8 };
    if !is_of_kind || n_items > items.len() || (is_map && n_items % 2 != 0) {
        return None;
    }
    *cursor = ValueCursor(rest);
    Some((*section, ListRef { n_items, items }))
}

/// Whether a section in front of a body is a map rather than a list.
const fn is_map(section: u8) -> bool {
    matches!(section, 0x71 | 0x72 | 0x74)
}

/// The next section.
#[inline]
fn read_section<'a>(cursor: &mut ValueCursor<'a>) -> Option<(u64, ValueRef<'a>)> {
    if let Some((section, items)) = read_usual(cursor) {
        let value =
            if is_map(section) { ValueRef::Map(MapRef(items)) } else { ValueRef::List(items) };
        return Some((u64::from(section), value));
    }
    if let [code::DESCRIBED, code::U64_SMALL, section @ 0x70..=0x78, value @ ..] = cursor.0 {
        *cursor = ValueCursor(value);
        let value = ValueRef::read(cursor, DEPTH_MAX).ok()?;
        return Some((u64::from(*section), value));
    }
    let ValueRef::Described(described) = ValueRef::read(cursor, DEPTH_MAX).ok()? else {
        return None;
    };
    section_code(described.descriptor).map(|section| (section, described.value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Header, MessageRef, Properties, Section, put_application_properties,
        put_message_annotations,
    };
    use proptest::prelude::*;

    fn message(keys: &[String]) -> Vec<u8> {
        let mut message = Vec::new();
        Section::Header(Header { priority: Some(9), ..Header::default() }).encode(&mut message);
        put_message_annotations(&mut message, |items| items.put_symbol("x-a", ValueRef::Null));
        let properties = Properties { subject: Some("about"), ..Properties::default() };
        Section::Properties(properties).encode(&mut message);
        put_application_properties(&mut message, |items| {
            for (n, key) in (0..).zip(keys) {
                items.put(ValueRef::Str(key));
                items.put(if n % 2 == 0 { ValueRef::U64(n) } else { ValueRef::Str(key) });
            }
        });
        Section::Data(b"body").encode(&mut message);
        message
    }

    proptest! {
        #[test]
        fn the_head_is_that_of_the_whole_message(
            keys in prop::collection::vec("[a-cü]{0,2}|[a-c]{250,300}", 0..6), wanted in "[a-cü]{0,2}",
        ) {
            let message = message(&keys);
            let (whole, head) = (MessageRef::parse(&message).unwrap(), MessageHead::read(&message));
            prop_assert_eq!(head.header.iter().nth(1), Some(ValueRef::U8(9)));
            let annotated = annotated_bytes(&message).unwrap();
            prop_assert!(message[annotated..].starts_with(b"\x00\x53\x73"));
            prop_assert_eq!(annotated_bytes(&message[..message.len() - 1]), None);
            prop_assert_eq!(annotated_bytes(&[&message[annotated..], &message[..annotated]].concat()), None);
            prop_assert_eq!(head.properties.iter().nth(3), Some(ValueRef::Str("about")));
            let all = whole.application_properties;
            prop_assert_eq!(head.application_properties, all);
            for key in keys.iter().chain([&wanted]) {
                prop_assert_eq!(all.find(key.as_bytes()), all.get(key));
            }
        }

        #[test]
        fn any_bytes_have_a_head(
            cut in 0_usize..80, at in 0_usize..80, byte in any::<u8>(), key in "[a-c]{0,2}",
        ) {
            let mut message = message(&["a".to_owned(), "b".to_owned(), "c".to_owned()]);
            message.truncate(message.len().saturating_sub(cut));
            if let Some(place) = message.get_mut(at) {
                *place = byte;
            }
            let head = MessageHead::read(&message);
            let found = head.application_properties.find(key.as_bytes());
            let n_fields = head.header.iter().count() + head.properties.iter().count();
            prop_assert!(n_fields <= message.len() && (found.is_none() || !message.is_empty()));
        }
    }

    #[test]
    fn sections_may_be_described_by_name() {
        let mut message = vec![code::DESCRIBED];
        ValueRef::Symbol("amqp:application-properties:map").encode(&mut message);
        message.extend_from_slice(b"\xc1\x06\x02\xa1\x01a\xa1\x00");
        let head = MessageHead::read(&message);
        assert_eq!(head.application_properties.find(b"a"), Some(ValueRef::Str("")));
    }
}
