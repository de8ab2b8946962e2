//! Owned message properties: for making and changing them.

use super::view;
use crate::table::{ShortString, Table};
use crate::wire;

/// The properties of a message; `None` is absent. See [`super::PropertiesRef`] for their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of PropertiesRef")]
pub struct Properties {
    pub content_type: Option<ShortString>,
    pub content_encoding: Option<ShortString>,
    pub headers: Option<Table>,
    pub delivery_mode: Option<u8>,
    pub priority: Option<u8>,
    pub correlation_id: Option<ShortString>,
    pub reply_to: Option<ShortString>,
    pub expiration: Option<ShortString>,
    pub message_id: Option<ShortString>,
    pub timestamp: Option<u64>,
    pub kind: Option<ShortString>,
    pub user_id: Option<ShortString>,
    pub app_id: Option<ShortString>,
    pub cluster_id: Option<ShortString>,
}

impl Properties {
    /// Appends flags and values.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.flags().to_be_bytes());
        put_short(out, self.content_type.as_ref());
        put_short(out, self.content_encoding.as_ref());
        if let Some(headers) = &self.headers {
            headers.encode(out);
        }
        out.extend(self.delivery_mode);
        out.extend(self.priority);
        put_short(out, self.correlation_id.as_ref());
        put_short(out, self.reply_to.as_ref());
        put_short(out, self.expiration.as_ref());
        put_short(out, self.message_id.as_ref());
        if let Some(seconds) = self.timestamp {
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        put_short(out, self.kind.as_ref());
        put_short(out, self.user_id.as_ref());
        put_short(out, self.app_id.as_ref());
        put_short(out, self.cluster_id.as_ref());
    }

    /// Flags and values: what [`super::PropertiesRef`] looks into.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    fn flags(&self) -> u16 {
        [
            (self.content_type.is_some(), view::CONTENT_TYPE),
            (self.content_encoding.is_some(), view::CONTENT_ENCODING),
            (self.headers.is_some(), view::HEADERS),
            (self.delivery_mode.is_some(), view::DELIVERY_MODE),
            (self.priority.is_some(), view::PRIORITY),
            (self.correlation_id.is_some(), view::CORRELATION_ID),
            (self.reply_to.is_some(), view::REPLY_TO),
            (self.expiration.is_some(), view::EXPIRATION),
            (self.message_id.is_some(), view::MESSAGE_ID),
            (self.timestamp.is_some(), view::TIMESTAMP),
            (self.kind.is_some(), view::KIND),
            (self.user_id.is_some(), view::USER_ID),
            (self.app_id.is_some(), view::APP_ID),
            (self.cluster_id.is_some(), view::CLUSTER_ID),
        ]
        .into_iter()
        .fold(0, |flags, (is_present, flag)| if is_present { flags | flag } else { flags })
    }
}

fn put_short(out: &mut Vec<u8>, text: Option<&ShortString>) {
    if let Some(text) = text {
        wire::put_short_string(out, text);
    }
}
