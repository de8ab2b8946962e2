//! A message as a client sees it: its number, its deaths, and how often it came back.

use amqp091::{Table, Value};
use testing::outbox::Given;

/// A death as the broker notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub(crate) queue: String,
    pub(crate) reason: String,
    pub(crate) n: u64,
}

/// A message as a client sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    /// Newest first.
    pub(crate) deaths: Vec<Death>,
    pub(crate) n_failed: u64,
    pub(crate) n_acquired: u64,
    pub(crate) redelivered: bool,
}

impl Seen {
    pub(crate) fn of(given: &Given) -> Result<Self, String> {
        let id = given.content.id().ok_or("a delivery without a number")?;
        let properties = message::View::of(&given.content.properties);
        let headers = properties.headers().and_then(|headers| headers.to_owned().ok());
        let headers = headers.unwrap_or_default();
        let deaths = headers.get(b"x-death").and_then(Value::as_array).unwrap_or_default();
        let deaths = deaths.iter().filter_map(Value::as_table).map(death_of).collect();
        let n_failed = number(&headers, b"x-delivery-count");
        let n_acquired = number(&headers, b"x-acquired-count");
        Ok(Self { id, deaths, n_failed, n_acquired, redelivered: given.redelivered })
    }

    /// The number of times it was dead-lettered.
    pub(crate) fn n_deaths(&self) -> u64 {
        self.deaths.iter().map(|death| death.n).sum()
    }

    /// Whether the message's headers count how often it came back.
    pub(crate) const fn is_counted(&self) -> bool {
        self.n_failed > 0 || self.n_acquired > 0
    }

    /// Whether it was in that queue since a consumer has refused it.
    pub(crate) fn has_been_in(&self, queue: &str) -> bool {
        let since_refused = self.deaths.iter().take_while(|death| death.reason != "rejected");
        since_refused.into_iter().any(|death| death.queue == queue)
    }
}

fn number(headers: &Table, name: &[u8]) -> u64 {
    let number = headers.get(name).and_then(Value::as_i64).unwrap_or(0);
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn death_of(table: &Table) -> Death {
    let text = |name: &[u8]| table.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
    Death { queue: text(b"queue"), reason: text(b"reason"), n: number(table, b"count") }
}
