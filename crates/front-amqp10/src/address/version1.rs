//! Addresses of nodes as RabbitMQ's version 1 has them. Of all characters the slash alone is encoded, as
//! `%2F`.

use std::borrow::Cow;

/// The exchange of topics' addresses.
const TOPICS: &str = "amq.topic";

/// An address of version 1; its names are as they stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressV1<'a> {
    /// A queue that is declared unless it is there.
    Declared(&'a str),
    /// A queue that must be there.
    Queue(&'a str),
    /// An exchange and a key; without an exchange the default one, without a key each message's subject.
    Exchange(&'a str, Option<&'a str>),
}

impl<'a> AddressV1<'a> {
    pub(crate) fn parse(address: &'a str) -> Option<Self> {
        let mut parts = address.splitn(6, '/');
        let parts: [Option<&str>; 6] = std::array::from_fn(|_| parts.next());
        let is_named = |name: &&str| !name.is_empty();
        match parts {
            [Some(queue), None, ..] => Some(queue).filter(is_named).map(Self::Declared),
            [Some(""), Some("queue"), None, ..] => Some(Self::Exchange("", None)),
            [Some(""), Some("queue"), queue, None, ..] => {
                queue.filter(is_named).map(Self::Declared)
            }
            [Some(""), Some("amq"), Some("queue"), queue, None, _] => {
                queue.filter(is_named).map(Self::Queue)
            }
            [Some(""), Some("topic"), key, None, ..] => {
                key.filter(is_named).map(|key| Self::Exchange(TOPICS, Some(key)))
            }
            [Some(""), Some("exchange"), exchange, key, None, _] => exchange
                .filter(is_named)
                .map(|exchange| Self::Exchange(exchange, key.filter(is_named))),
            _ => None,
        }
    }
}

/// The name that stands in an address of version 1.
pub(crate) fn name_of(quoted: &str) -> Cow<'_, [u8]> {
    if quoted.contains("%2F") {
        Cow::Owned(quoted.replace("%2F", "/").into_bytes())
    } else {
        Cow::Borrowed(quoted.as_bytes())
    }
}
