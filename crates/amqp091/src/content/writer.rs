//! Properties to bytes, without being gathered in a value first.

use super::view;
use crate::wire;

/// Properties that are being written, in the order of their flags: that in which the methods stand here.
#[derive(Debug)]
pub struct PropertiesWriter<'o> {
    out: &'o mut Vec<u8>,
    flags_at: usize,
    flags: u16,
}

macro_rules! short_string_properties {
    ($($name:ident = $flag:ident;)*) => {$(
        /// Appends the property, if there is one; text of more than 255 bytes is cut.
        pub fn $name(&mut self, text: Option<&[u8]>) {
            if let Some(text) = text {
                wire::put_short_bytes(self.value(view::$flag), text);
            }
        }
    )*};
}

impl<'o> PropertiesWriter<'o> {
    /// Appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let flags_at = out.len();
        out.extend_from_slice(&[0; 2]);
        Self { out, flags_at, flags: 0 }
    }

    short_string_properties! {
        content_type = CONTENT_TYPE;
        content_encoding = CONTENT_ENCODING;
    }

    /// Appends headers: the names and values that `entries` appends; none if it appends nothing.
    pub fn headers(&mut self, entries: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        wire::put_with_len(self.value(view::HEADERS), entries);
        if self.out.len() == at + size_of::<u32>() {
            self.out.truncate(at);
            self.flags &= !view::HEADERS;
        }
    }

    /// Appends the delivery mode, if there is one.
    #[inline]
    pub fn delivery_mode(&mut self, mode: Option<u8>) {
        if let Some(mode) = mode {
            self.value(view::DELIVERY_MODE).push(mode);
        }
    }

    /// Appends the priority, if there is one.
    pub fn priority(&mut self, priority: Option<u8>) {
        if let Some(priority) = priority {
            self.value(view::PRIORITY).push(priority);
        }
    }

    short_string_properties! {
        correlation_id = CORRELATION_ID;
        reply_to = REPLY_TO;
        expiration = EXPIRATION;
        message_id = MESSAGE_ID;
    }

    /// Appends the timestamp in seconds since 1970, if there is one.
    pub fn timestamp(&mut self, seconds: Option<u64>) {
        if let Some(seconds) = seconds {
            self.value(view::TIMESTAMP).extend_from_slice(&seconds.to_be_bytes());
        }
    }

    short_string_properties! {
        kind = KIND;
        user_id = USER_ID;
        app_id = APP_ID;
    }

    /// Writes the flags.
    #[inline]
    pub fn finish(self) {
        if let Some(flags) = self.out.get_mut(self.flags_at..self.flags_at + 2) {
            flags.copy_from_slice(&self.flags.to_be_bytes());
        }
    }

    /// The place for the value of the property with this flag.
    fn value(&mut self, flag: u16) -> &mut Vec<u8> {
        debug_assert!(self.flags & (flag | (flag - 1)) == 0, "properties have an order");
        self.flags |= flag;
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ShortString, Table, ValueRef, put_name};
    use crate::{Properties, Value};

    #[test]
    fn properties_are_written_as_owned_ones_are() {
        let text = |text| Some(ShortString::from_static(text));
        let headers: Table =
            [(ShortString::from_static("k"), Value::from("v"))].into_iter().collect();
        let owned = Properties {
            content_type: text("type"),
            content_encoding: text("encoding"),
            headers: Some(headers),
            delivery_mode: Some(2),
            priority: Some(3),
            correlation_id: text("correlation"),
            reply_to: text("reply"),
            expiration: text("5"),
            message_id: text("id"),
            timestamp: Some(7),
            kind: text("kind"),
            user_id: text("user"),
            app_id: text("app"),
            cluster_id: None,
        };
        let mut out = Vec::new();
        let mut writer = PropertiesWriter::new(&mut out);
        writer.content_type(Some(b"type"));
        writer.content_encoding(Some(b"encoding"));
        writer.headers(|out| {
            put_name(out, b"k");
            ValueRef::LongString(b"v").encode(out);
        });
        writer.delivery_mode(Some(2));
        writer.priority(Some(3));
        writer.correlation_id(Some(b"correlation"));
        writer.reply_to(Some(b"reply"));
        writer.expiration(Some(b"5"));
        writer.message_id(Some(b"id"));
        writer.timestamp(Some(7));
        writer.kind(Some(b"kind"));
        writer.user_id(Some(b"user"));
        writer.app_id(Some(b"app"));
        writer.finish();
        assert_eq!(out, owned.to_bytes());
        out.clear();
        let mut writer = PropertiesWriter::new(&mut out);
        writer.headers(|_| ());
        writer.kind(None);
        writer.finish();
        assert_eq!(out, [0, 0]);
    }
}
