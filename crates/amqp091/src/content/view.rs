//! Message properties looked at in the bytes they came in.

use super::Properties;
use crate::error::FieldError;
use crate::table::{ShortString, TableRef};
use crate::wire::WireCursor;
use std::borrow::Cow;

/// The layout of a property's value.
#[derive(Clone, Copy)]
enum Layout {
    ShortStr,
    Table,
    Octet,
    Timestamp,
}

/// The properties in the order of their flags, the first in bit 15.
const LAYOUTS: [Layout; 14] = [
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::Table,
    Layout::Octet,
    Layout::Octet,
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::Timestamp,
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::ShortStr,
    Layout::ShortStr,
];

pub(super) const CONTENT_TYPE: u16 = 1 << 15;
pub(super) const CONTENT_ENCODING: u16 = 1 << 14;
pub(super) const HEADERS: u16 = 1 << 13;
pub(super) const DELIVERY_MODE: u16 = 1 << 12;
pub(super) const PRIORITY: u16 = 1 << 11;
pub(super) const CORRELATION_ID: u16 = 1 << 10;
pub(super) const REPLY_TO: u16 = 1 << 9;
pub(super) const EXPIRATION: u16 = 1 << 8;
pub(super) const MESSAGE_ID: u16 = 1 << 7;
pub(super) const TIMESTAMP: u16 = 1 << 6;
pub(super) const KIND: u16 = 1 << 5;
pub(super) const USER_ID: u16 = 1 << 4;
pub(super) const APP_ID: u16 = 1 << 3;
pub(super) const CLUSTER_ID: u16 = 1 << 2;

/// COMPAT: RabbitMQ ignores bit 1, which means nothing. Test:
/// `the_unused_flag_is_kept_and_ignored`.
const PROPERTY_FLAGS: u16 = 0xFFFC;
const CONTINUED_FLAG: u16 = 1;
/// The headers are not as this crate encodes them: flags that are continued are refused, so that the bit is
/// free.
const OTHER_FORM: u16 = CONTINUED_FLAG;

/// The properties of a message in wire form: kept exactly as they came in, checked once, and read
/// one by one as they are asked for. Reading one costs a skip over those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertiesRef<'a> {
    raw: &'a [u8],
    /// The flags of the properties, and [`OTHER_FORM`]. They fill a word: a copy of the view just after a
    /// narrower field was stored stalls the processor.
    flags: u64,
}

macro_rules! short_string_properties {
    ($($(#[$doc:meta])* $name:ident = $flag:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<&'a [u8]> {
            self.at($flag)?.short_str().ok()
        }
    )*};
}

impl<'a> PropertiesRef<'a> {
    /// Whether there is no property, but perhaps a delivery mode.
    #[inline]
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.flags & !u64::from(DELIVERY_MODE) == 0
    }

    /// No property at all.
    pub const EMPTY: PropertiesRef<'static> = PropertiesRef { raw: &[0, 0], flags: 0 };

    /// Looks into flags and values after checking every length and the table of headers.
    ///
    /// # Errors
    /// Values that are cut short, bytes left over, malformed headers.
    #[inline]
    pub fn parse(raw: &'a [u8]) -> Result<Self, FieldError> {
        // Nearly all messages have no properties, or a delivery mode alone.
        match *raw {
            [0, 0] => return Ok(Self { raw, flags: 0 }),
            [0x10, 0, _] => return Ok(Self { raw, flags: DELIVERY_MODE.into() }),
            _ => {}
        }
        Self::parse_all(raw)
    }

    fn parse_all(raw: &'a [u8]) -> Result<Self, FieldError> {
        let mut reader = WireCursor::new(raw);
        let flags = reader.u16()?;
        if flags & CONTINUED_FLAG != 0 {
            return Err(FieldError::FlagsContinued);
        }
        let before_headers = flags & (CONTENT_TYPE | CONTENT_ENCODING);
        skip(&mut reader, before_headers.into())?;
        let is_canonical = flags & HEADERS == 0 || TableRef::is_canonical(reader.long_str()?)?;
        let form = if is_canonical { 0 } else { OTHER_FORM };
        skip(&mut reader, (flags & PROPERTY_FLAGS & (HEADERS - 1)).into())?;
        if reader.is_empty() {
            Ok(Self { raw, flags: (flags | form).into() })
        } else {
            Err(FieldError::TrailingBytes)
        }
    }

    /// Looks into bytes that were checked before or encoded by this crate. Of other bytes, properties may
    /// seem to be absent.
    #[must_use]
    #[inline]
    pub fn trusted(raw: &'a [u8]) -> Self {
        Self { raw, flags: flags_of(raw).into() }
    }

    /// Flags and values as they came in.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether every header has the form that clients are sent: see [`PropertiesRef::to_canonical`].
    #[inline]
    pub fn is_canonical(&self) -> bool {
        !self.has(OTHER_FORM)
    }

    /// Flags and values as clients are sent them. COMPAT: long integers have the type `l`, also those that
    /// came as `L`, which not all clients can read, and truth values are 0 or 1. Test:
    /// `header_types_go_out_as_rabbitmq_has_them`.
    #[must_use]
    pub fn to_canonical(&self) -> Cow<'a, [u8]> {
        let headers = self.headers().filter(|_| !self.is_canonical());
        let Some(Ok(headers)) = headers.map(|headers| headers.to_owned()) else {
            return Cow::Borrowed(self.raw);
        };
        let mut out = Vec::with_capacity(self.raw.len());
        self.encode_with_headers(Some(TableRef::trusted(&headers.to_bytes())), &mut out);
        Cow::Owned(out)
    }

    /// Whether there is no property.
    pub fn is_empty(&self) -> bool {
        !self.has(PROPERTY_FLAGS)
    }

    /// Whether one of these flags is set.
    #[inline]
    fn has(&self, flags: u16) -> bool {
        self.flags & u64::from(flags) != 0
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> Option<TableRef<'a>> {
        self.at(HEADERS)?.long_str().ok().map(TableRef::trusted)
    }

    /// 1 transient, 2 persistent; other values come too.
    #[must_use]
    #[inline]
    pub fn delivery_mode(&self) -> Option<u8> {
        self.at(DELIVERY_MODE)?.u8().ok()
    }

    /// Whether the message is to survive a restart.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.delivery_mode() == Some(crate::spec::DELIVERY_MODE_PERSISTENT)
    }

    /// The priority.
    #[must_use]
    #[inline]
    pub fn priority(&self) -> Option<u8> {
        self.at(PRIORITY)?.u8().ok()
    }

    /// Seconds since 1970, as the publisher says.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.at(TIMESTAMP)?.u64().ok()
    }

    short_string_properties! {
        /// MIME type of the body.
        content_type = CONTENT_TYPE;
        /// MIME encoding of the body.
        content_encoding = CONTENT_ENCODING;
        /// The request that this message answers, or the mark its answer is to have.
        correlation_id = CORRELATION_ID;
        /// The queue for an answer.
        reply_to = REPLY_TO;
        /// The time to live in milliseconds, as decimal text.
        expiration = EXPIRATION;
        /// The publisher's name for the message.
        message_id = MESSAGE_ID;
        /// The property `type`.
        kind = KIND;
        /// The publishing user.
        user_id = USER_ID;
        /// The publishing application.
        app_id = APP_ID;
        /// Unused.
        cluster_id = CLUSTER_ID;
    }

    /// A copy that owns its data and can be changed.
    ///
    /// # Errors
    /// Only for bytes that were never checked.
    pub fn to_owned(&self) -> Result<Properties, FieldError> {
        let short = |bytes: Option<&[u8]>| bytes.map(ShortString::new).transpose();
        Ok(Properties {
            content_type: short(self.content_type())?,
            content_encoding: short(self.content_encoding())?,
            headers: self.headers().map(|headers| headers.to_owned()).transpose()?,
            delivery_mode: self.delivery_mode(),
            priority: self.priority(),
            correlation_id: short(self.correlation_id())?,
            reply_to: short(self.reply_to())?,
            expiration: short(self.expiration())?,
            message_id: short(self.message_id())?,
            timestamp: self.timestamp(),
            kind: short(self.kind())?,
            user_id: short(self.user_id())?,
            app_id: short(self.app_id())?,
            cluster_id: short(self.cluster_id())?,
        })
    }

    /// Appends these properties with other headers; all other values keep their bytes.
    /// `None` removes the headers.
    pub fn encode_with_headers(&self, headers: Option<TableRef<'_>>, out: &mut Vec<u8>) {
        let flags = flags_of(self.raw) & !(HEADERS | OTHER_FORM);
        let flags = if headers.is_some() { flags | HEADERS } else { flags };
        out.extend_from_slice(&flags.to_be_bytes());
        let values = self.raw.get(2..).unwrap_or_default();
        let mut after = WireCursor::new(values);
        // Reading cannot fail once the bytes were checked; of other bytes a part is dropped.
        let before = skip(&mut after, self.flags & u64::from(CONTENT_TYPE | CONTENT_ENCODING))
            .map_or(0, |()| values.len() - after.rest().len());
        out.extend_from_slice(values.get(..before).unwrap_or_default());
        if let Some(headers) = headers {
            headers.encode(out);
        }
        let is_whole = !self.has(HEADERS) || after.long_str().is_ok();
        out.extend_from_slice(if is_whole { after.rest() } else { &[] });
    }

    /// A reader at the value of the property with this flag, if it is present.
    #[inline]
    fn at(&self, flag: u16) -> Option<WireCursor<'a>> {
        if !self.has(flag) {
            return None;
        }
        let mut reader = WireCursor::new(self.raw.get(2..)?);
        // The flags above this one belong to the values before it.
        let before = !(u64::from(flag) | (u64::from(flag) - 1));
        skip(&mut reader, self.flags & before).ok()?;
        Some(reader)
    }
}

impl Default for PropertiesRef<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The flags at the front of properties; none where they are cut off.
#[inline]
fn flags_of(raw: &[u8]) -> u16 {
    raw.first_chunk().copied().map_or(0, u16::from_be_bytes)
}

/// Skips the values of all properties in `flags`, which are those at the front of what is left.
#[inline]
fn skip(reader: &mut WireCursor<'_>, flags: u64) -> Result<(), FieldError> {
    // The first property's flag becomes the highest bit.
    let mut flags = flags << (u64::BITS - u16::BITS);
    while let Some(layout) =
        usize::try_from(flags.leading_zeros()).ok().and_then(|at| LAYOUTS.get(at))
    {
        match layout {
            Layout::ShortStr => reader.short_str().map(|_| ())?,
            Layout::Table => reader.long_str().map(|_| ())?,
            Layout::Octet => reader.u8().map(|_| ())?,
            Layout::Timestamp => reader.u64().map(|_| ())?,
        }
        flags &= (u64::MAX >> 1) >> flags.leading_zeros();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Table, Value};

    fn sample() -> Properties {
        let mut headers = Table::new();
        headers.insert(ShortString::from_static("h"), 1i32);
        Properties {
            content_type: Some(ShortString::from_static("text/plain")),
            headers: Some(headers),
            delivery_mode: Some(2),
            expiration: Some(ShortString::from_static("1000")),
            timestamp: Some(77),
            kind: Some(ShortString::from_static("k")),
            cluster_id: Some(ShortString::from_static("c")),
            ..Properties::default()
        }
    }

    #[test]
    fn values_are_found_behind_others() {
        let raw = sample().to_bytes();
        let view = PropertiesRef::parse(&raw).unwrap();
        assert_eq!(view.content_type(), Some(&b"text/plain"[..]));
        assert_eq!(view.content_encoding(), None);
        assert_eq!(view.headers().unwrap().get(b"h").unwrap().as_i64(), Some(1));
        assert!(view.is_persistent());
        assert_eq!(view.priority(), None);
        assert_eq!(view.expiration(), Some(&b"1000"[..]));
        assert_eq!(view.timestamp(), Some(77));
        assert_eq!(view.kind(), Some(&b"k"[..]));
        assert_eq!(view.cluster_id(), Some(&b"c"[..]));
        assert_eq!(view.to_owned().unwrap(), sample());
    }

    #[test]
    fn headers_are_replaced_added_and_removed_in_place() {
        let mut other = Table::new();
        other.insert(ShortString::from_static("new"), Value::Void);
        let wire = other.to_bytes();
        for mut properties in
            [sample(), Properties { headers: None, ..sample() }, Properties::default()]
        {
            let raw = properties.to_bytes();
            let view = PropertiesRef::parse(&raw).unwrap();
            for headers in [Some(other.clone()), None] {
                let mut out = Vec::new();
                let replacement = headers.as_ref().map(|_| TableRef::trusted(&wire));
                view.encode_with_headers(replacement, &mut out);
                properties.headers = headers;
                assert_eq!(out, properties.to_bytes());
            }
        }
    }

    #[test]
    fn long_integers_and_truth_values_have_one_form() {
        let sized = |bytes: &[u8]| [&[0, 0, 0, u8::try_from(bytes.len()).unwrap()], bytes].concat();
        let nested = |value: &[u8]| {
            let array = [b"\x01aA", &*sized(value)].concat();
            [b"F", &*sized(&array)].concat()
        };
        let raw = |value: &[u8]| [b"\x30\0", &*sized(&[b"\x01h", value].concat()), &[2]].concat();
        let long = |tag| [&[tag][..], &7_i64.to_be_bytes()].concat();
        for (came, goes) in [(long(b'L'), long(b'l')), (b"t\x05".to_vec(), b"t\x01".to_vec())] {
            for (came, goes) in
                [(raw(&came), raw(&goes)), (raw(&nested(&came)), raw(&nested(&goes)))]
            {
                let view = PropertiesRef::parse(&came).unwrap();
                assert!(!view.is_canonical() && view.is_persistent());
                assert_eq!(*view.to_canonical(), goes);
                let view = PropertiesRef::parse(&goes).unwrap();
                assert!(view.is_canonical());
                assert_eq!(*view.to_canonical(), goes);
            }
        }
    }

    #[test]
    fn the_unused_flag_is_kept_and_ignored() {
        let view = PropertiesRef::parse(b"\x10\x02\x02").unwrap();
        assert_eq!(view.delivery_mode(), Some(2));
        assert_eq!(view.as_bytes(), b"\x10\x02\x02");
        assert!(PropertiesRef::parse(b"\0\x02").unwrap().is_empty());
    }

    #[test]
    fn unchecked_garbage_reads_as_absent() {
        let view = PropertiesRef::trusted(b"\xff\xfc\xff");
        assert_eq!(view.content_type(), None);
        assert_eq!(view.delivery_mode(), None);
        assert_eq!(PropertiesRef::trusted(b"").priority(), None);
        let mut out = Vec::new();
        view.encode_with_headers(None, &mut out);
        assert_eq!(out.len(), 2);
    }
}
