//! The properties section of a message (part 3, 3.2.4).

use crate::encode::Items;
use crate::error::DecodeError;
use crate::value::{ListRef, ValueRef};

/// The standard properties. A field that is not there is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Properties<'a> {
    /// A number, UUID, binary or string. COMPAT: Go's clients send numbers with a sign, as RabbitMQ takes.
    /// Test: `ids_of_every_kind_become_text_or_headers`.
    pub message_id: Option<ValueRef<'a>>,
    /// The user who made the message.
    pub user_id: Option<&'a [u8]>,
    /// The address of the node that the message is destined to.
    pub to: Option<ValueRef<'a>>,
    /// A summary of content and purpose.
    pub subject: Option<&'a str>,
    /// The address that replies go to.
    pub reply_to: Option<ValueRef<'a>>,
    /// Like the id, that of the message which this one is about.
    pub correlation_id: Option<ValueRef<'a>>,
    /// A MIME type.
    pub content_type: Option<&'a str>,
    /// A MIME content encoding.
    pub content_encoding: Option<&'a str>,
    /// Milliseconds since 1970 from which on the message is considered expired.
    pub absolute_expiry_time_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub creation_time_ms: Option<i64>,
    /// The group that the message belongs to.
    pub group: Group<'a>,
}

/// A message's place in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group<'a> {
    /// The group's name.
    pub id: Option<&'a str>,
    /// The relative position within it.
    pub sequence: Option<u32>,
    /// The group that replies belong to.
    pub reply_to_id: Option<&'a str>,
}

impl<'a> Properties<'a> {
    /// Reads the section's list; fields that are cut off at its end are not there, surplus ones are passed
    /// over. Ids and addresses may be of any type that containers understand.
    ///
    /// # Errors
    /// [`DecodeError::FieldType`] if a field has another type than it is defined with.
    pub fn from_list(list: ListRef<'a>) -> Result<Self, DecodeError> {
        let mut fields = list.iter();
        let mut next = || fields.next().filter(|value| !matches!(value, ValueRef::Null));
        Ok(Self {
            message_id: next(),
            user_id: next().map(binary).transpose()?,
            to: next(),
            subject: next().map(text).transpose()?,
            reply_to: next(),
            correlation_id: next(),
            content_type: next().map(text).transpose()?,
            content_encoding: next().map(text).transpose()?,
            absolute_expiry_time_ms: next().map(timestamp_ms).transpose()?,
            creation_time_ms: next().map(timestamp_ms).transpose()?,
            group: Group {
                id: next().map(text).transpose()?,
                sequence: next().map(sequence).transpose()?,
                reply_to_id: next().map(text).transpose()?,
            },
        })
    }

    /// Puts the fields into the section's list, up to the last one that is there.
    pub fn put(&self, items: &mut Items<'_>) {
        let fields = [
            self.message_id,
            self.user_id.map(ValueRef::Binary),
            self.to,
            self.subject.map(ValueRef::Str),
            self.reply_to,
            self.correlation_id,
            self.content_type.map(ValueRef::Symbol),
            self.content_encoding.map(ValueRef::Symbol),
            self.absolute_expiry_time_ms.map(ValueRef::Timestamp),
            self.creation_time_ms.map(ValueRef::Timestamp),
            self.group.id.map(ValueRef::Str),
            self.group.sequence.map(ValueRef::U32),
            self.group.reply_to_id.map(ValueRef::Str),
        ];
        let n_fields = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        fields.into_iter().take(n_fields).for_each(|field| items.put_option(field));
    }
}

fn binary(value: ValueRef<'_>) -> Result<&[u8], DecodeError> {
    if let ValueRef::Binary(bytes) = value { Ok(bytes) } else { Err(DecodeError::FieldType) }
}

/// A string, or a symbol: peers differ in which of them they use for MIME types.
fn text(value: ValueRef<'_>) -> Result<&str, DecodeError> {
    if let ValueRef::Str(text) | ValueRef::Symbol(text) = value {
        Ok(text)
    } else {
        Err(DecodeError::FieldType)
    }
}

fn timestamp_ms(value: ValueRef<'_>) -> Result<i64, DecodeError> {
    if let ValueRef::Timestamp(ms) = value { Ok(ms) } else { Err(DecodeError::FieldType) }
}

fn sequence(value: ValueRef<'_>) -> Result<u32, DecodeError> {
    if let ValueRef::U32(n) = value { Ok(n) } else { Err(DecodeError::FieldType) }
}
