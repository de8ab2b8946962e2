use crate::Properties;
use amqp091::{PropertiesRef, Table, TableRef};

/// Room for headers that are longer than those before.
const SPARE_BYTES: usize = 64;

/// The publisher's statements about a message, read one by one from its properties as they are asked for,
/// however the properties are encoded.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(PropertiesRef<'a>);

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(&self) -> Option<&'a [u8]> {
            self.0.$name()
        }
    )*};
}

impl<'a> View<'a> {
    /// A view of the properties of a [`MessageRef`](crate::MessageRef), which its front has checked.
    #[must_use]
    #[inline]
    pub fn of(properties: &'a [u8]) -> Self {
        Self(PropertiesRef::trusted(properties))
    }

    /// Reads properties that nobody has checked; none if they are malformed.
    #[must_use]
    pub fn parse(properties: &'a [u8]) -> Option<Self> {
        PropertiesRef::parse(properties).ok().map(Self)
    }

    /// All headers.
    #[must_use]
    pub fn headers(&self) -> Option<TableRef<'a>> {
        self.0.headers()
    }

    /// Whether the publisher wants the message to survive a restart.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.0.is_persistent()
    }

    /// The priority.
    #[must_use]
    #[inline]
    pub fn priority(&self) -> Option<u8> {
        self.0.priority()
    }

    /// Seconds since 1970, as the publisher says.
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.0.timestamp()
    }

    /// 1 transient, 2 persistent; other values come too.
    #[must_use]
    pub fn delivery_mode(&self) -> Option<u8> {
        self.0.delivery_mode()
    }

    texts! {
        /// MIME type of the body.
        content_type;
        /// MIME encoding of the body.
        content_encoding;
        /// The request that the message answers, or the mark its answer is to have.
        correlation_id;
        /// The queue for an answer.
        reply_to;
        /// The time to live in milliseconds, as decimal text.
        expiration;
        /// The publisher's name for the message.
        message_id;
        /// The kind of message, as its applications call it.
        kind;
        /// The publishing user.
        user_id;
        /// The publishing application.
        app_id;
        /// Unused.
        cluster_id;
    }

    /// A copy that owns its data and can be changed; none of properties that no front has checked.
    pub fn to_properties(&self) -> Option<Properties> {
        self.0.to_owned().ok()
    }

    /// The properties, encoded as they are, with headers that `change` has changed. Headers that cannot be
    /// read, which a client's never are, go.
    #[must_use]
    pub fn with_changed_headers(&self, change: impl FnOnce(&mut Table)) -> Vec<u8> {
        let headers = self.headers().and_then(|headers| headers.to_owned().ok());
        let mut headers = headers.unwrap_or_default();
        change(&mut headers);
        self.with_headers(Some(TableRef::trusted(&headers.to_bytes())))
    }

    /// The properties, encoded as they are, with these headers; `None` removes the headers.
    #[must_use]
    pub fn with_headers(&self, headers: Option<TableRef<'_>>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.as_bytes().len() + SPARE_BYTES);
        self.0.encode_with_headers(headers, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::{ShortString, Value};

    #[test]
    fn headers_change_and_all_else_stays() {
        let properties = Properties { priority: Some(3), ..Properties::default() };
        let plain = properties.to_bytes();
        let put = |headers: &mut Table| headers.insert(ShortString::from_static("h"), Value::Void);
        let changed = View::of(&plain).with_changed_headers(|headers| drop(put(headers)));
        let view = View::of(&changed);
        assert_eq!(view.headers().unwrap().get(b"h"), Some(amqp091::ValueRef::Void));
        assert_eq!((view.priority(), view.expiration()), (Some(3), None));
        assert_eq!(view.with_headers(None), plain);
        assert_eq!(view.to_properties().unwrap().priority, Some(3));
    }
}
