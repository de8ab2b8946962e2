//! The header of a message that was held back, when that is over.

use crate::sender_selected::{self, BCC, CC};
use amqp091::{ShortString, Table, Value};
use classic::{DELAY, delay_ms_of};

/// A message that is held back no more.
#[derive(Debug)]
pub struct Released {
    /// The encoded properties, with the negated delay and without BCC.
    pub properties: Vec<u8>,
    /// Its routing key, then those of CC and BCC.
    pub keys: Vec<Vec<u8>>,
}

impl Released {
    /// COMPAT: the delay is negative now, so that nobody holds the message back again and everybody
    /// can see that it was.
    pub fn new(properties: &[u8], routing_key: &[u8]) -> Self {
        let delay_ms = delay_ms_of(message::View::of(properties).headers());
        let mut keys = vec![routing_key.to_vec()];
        let properties = message::View::of(properties).with_changed_headers(|headers| {
            sender_selected::add_keys(headers, &[CC, BCC], &mut keys);
            headers.remove(BCC.as_bytes());
            negate(headers, delay_ms);
        });
        Self { properties, keys }
    }
}

/// The header stays where it is among the others.
fn negate(headers: &mut Table, delay_ms: Option<u64>) {
    let delay_ms = delay_ms.and_then(|delay_ms| i64::try_from(delay_ms).ok());
    if let Some(delay_ms) = delay_ms {
        headers.insert(ShortString::from_static(DELAY), Value::I64(-delay_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Properties;

    #[test]
    fn a_released_message_says_that_it_was_held_back() {
        let text = |text: &str| Value::LongString(text.as_bytes().to_vec());
        let mut headers = Table::new();
        headers.push(ShortString::from_static(DELAY), "700");
        headers.push(ShortString::from_static("CC"), Value::Array(vec![text("copy")]));
        headers.push(ShortString::from_static("BCC"), Value::Array(vec![text("hidden")]));
        let expiration = Some(ShortString::from_static("60"));
        let source = Properties { headers: Some(headers), expiration, ..Properties::default() };
        let released = Released::new(&source.to_bytes(), b"key");
        assert_eq!(released.keys, [b"key".to_vec(), b"copy".to_vec(), b"hidden".to_vec()]);
        let properties = amqp091::PropertiesRef::parse(&released.properties).unwrap();
        assert_eq!(properties.expiration(), Some(b"60".as_slice()));
        let headers = properties.headers().unwrap().to_owned().unwrap();
        assert_eq!(headers.get(b"x-delay"), Some(&Value::I64(-700)));
        assert!(headers.get(b"CC").is_some() && headers.get(b"BCC").is_none());
        let again = headers.to_bytes();
        assert_eq!(delay_ms_of(Some(amqp091::TableRef::parse(&again).unwrap())), None);
    }
}
