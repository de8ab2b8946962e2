//! The routing keys that a message names besides its own, in its headers CC and BCC
//! (<https://www.rabbitmq.com/docs/sender-selected>).

use amqp091::{Table, Value};

/// Keys everybody may see.
pub const CC: &str = "CC";
/// Keys that are taken out of the message before anybody gets it.
pub const BCC: &str = "BCC";

/// The keys that one of the two headers names; none where it is no list. COMPAT: what is no text in the
/// list is passed over.
fn keys_in(header: &Value) -> Option<impl Iterator<Item = &[u8]>> {
    header.as_array().map(|keys| keys.iter().filter_map(text))
}

/// Adds the keys of those headers to `keys`.
pub fn add_keys(headers: &Table, names: &[&str], keys: &mut Vec<Vec<u8>>) {
    for header in names.iter().filter_map(|name| headers.get(name.as_bytes())) {
        keys.extend(keys_in(header).into_iter().flatten().map(<[u8]>::to_vec));
    }
}

const fn text(value: &Value) -> Option<&[u8]> {
    if let Value::LongString(text) = value { Some(text.as_slice()) } else { None }
}
