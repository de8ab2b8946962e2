//! Where a message came from before it died, and what is written on it when it is sent on.

use message::{MessageRef, Properties};
use session::{ShortString, Table, Value};

/// The header that counts how often a message was sent on.
const REDRIVEN: &str = "x-redriven";

/// An exchange and a routing key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) exchange: String,
    pub(super) key: Vec<u8>,
}

impl Origin {
    /// The exchange and key of a message when it died first; none if it has not.
    pub(super) fn of(message: &MessageRef<'_>) -> Option<Self> {
        let headers = message.index().to_properties()?.headers?;
        let Some(Value::Array(deaths)) = headers.get(b"x-death") else { return None };
        let queue = bytes(&headers, b"x-first-death-queue");
        let reason = bytes(&headers, b"x-first-death-reason");
        let is_first = |death: &&Table| {
            queue.is_some() && bytes(death, b"queue") == queue && bytes(death, b"reason") == reason
        };
        let deaths: Vec<&Table> = deaths.iter().filter_map(Value::as_table).collect();
        let first = deaths.iter().copied().find(|death| is_first(death));
        let first = first.or_else(|| deaths.last().copied())?;
        let Some(Value::Array(keys)) = first.get(b"routing-keys") else { return None };
        let exchange = String::from_utf8(bytes(first, b"exchange")?.to_vec()).ok()?;
        Some(Self { exchange, key: keys.first()?.as_bytes()?.to_vec() })
    }
}

fn bytes<'t>(table: &'t Table, name: &[u8]) -> Option<&'t [u8]> {
    table.get(name)?.as_bytes()
}

/// The properties of a message that is sent on, encoded.
pub(super) fn redriven(message: &MessageRef<'_>, clears_deaths: bool) -> Vec<u8> {
    let mut properties: Properties = message.index().to_properties().unwrap_or_default();
    let before = properties.headers.take().unwrap_or_default();
    let n = before.get(REDRIVEN.as_bytes()).and_then(Value::as_i64).unwrap_or(0);
    let is_death = |name: &[u8]| {
        name == b"x-death"
            || name.starts_with(b"x-first-death-")
            || name.starts_with(b"x-last-death-")
    };
    let kept = before.iter().filter(|(name, _)| {
        name.as_bytes() != REDRIVEN.as_bytes() && !(clears_deaths && is_death(name.as_bytes()))
    });
    let mut headers: Table = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    headers.push(ShortString::from_static(REDRIVEN), Value::I64(n.saturating_add(1)));
    properties.headers = Some(headers);
    properties.to_bytes()
}
