//! Another broker that messages go to, over AMQP 0-9-1, where each is confirmed. Publishing blocks the
//! thread.

use client::{Answer, Link, Outgoing, Publisher, Trust, Uri};
use message::MessageRef;
use std::collections::BTreeMap;

const CONNECTION_NAME: &str = "leveret redrive";
const NO_EXCHANGE: &str = "the exchange does not exist on the other broker";
const NOT_ROUTED: &str = "unroutable on the other broker";
const REFUSED: &str = "rejected by the other broker";
const UNCONFIRMED: &str = "not confirmed by the other broker: the message may be on both brokers";
const UNSENT: &str = "not sent";
const OTHER_USER: &str = "property user_id differs from the URI's user";
const DAMAGED: &str = "unreadable properties";

/// Another broker.
pub(super) struct Elsewhere {
    uri: Uri,
    /// The connection; `None` before the first message.
    publisher: Option<Publisher>,
    /// Whether the broker has exchanges of these names.
    exchanges: BTreeMap<String, bool>,
}

/// The reason for which a message stays; none if it has arrived.
pub(super) type Stays = Option<&'static str>;

impl Elsewhere {
    pub(super) const fn of(uri: Uri) -> Self {
        Self { uri, publisher: None, exchanges: BTreeMap::new() }
    }

    /// Publishes messages there. Tells of each whether it stays, and what has gone wrong with the connection.
    pub(super) fn take(&mut self, messages: &[MessageRef<'_>]) -> (Vec<Stays>, Result<(), String>) {
        let mut stays = vec![Some(UNSENT); messages.len()];
        let taken = self.try_to_take(messages, &mut stays);
        (stays, taken)
    }

    fn try_to_take(
        &mut self,
        messages: &[MessageRef<'_>],
        stays: &mut [Stays],
    ) -> Result<(), String> {
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            none => {
                let link = Link::trusting(Trust::System);
                let connected = Publisher::connect(&self.uri, &link, CONNECTION_NAME);
                none.insert(connected.map_err(worded)?)
            }
        };
        let (mut outgoing, mut places) = (Vec::new(), Vec::new());
        for (message, stays) in messages.iter().zip(stays) {
            let exchange = String::from_utf8_lossy(message.exchange);
            let is_there = match self.exchanges.get(&*exchange) {
                _ if exchange.is_empty() => true,
                Some(known) => *known,
                None => {
                    let is_there = publisher.has_exchange(&exchange).map_err(worded)?;
                    self.exchanges.insert(exchange.into_owned(), is_there);
                    is_there
                }
            };
            match outgoing_of(message, &self.uri.user) {
                _ if !is_there => *stays = Some(NO_EXCHANGE),
                Err(reason) => *stays = Some(reason),
                Ok(message) => {
                    outgoing.push(message);
                    places.push(stays);
                }
            }
        }
        let (answers, published) = publisher.publish(&outgoing);
        for (place, answer) in places.into_iter().zip(answers) {
            *place = match answer {
                Answer::Confirmed => None,
                Answer::Returned => Some(NOT_ROUTED),
                Answer::Refused => Some(REFUSED),
                Answer::None => Some(UNCONFIRMED),
                Answer::Unsent => Some(UNSENT),
            };
        }
        published.map_err(worded)
    }

    /// Closes the connection, if it was opened.
    pub(super) fn close(self) {
        if let Some(publisher) = self.publisher {
            publisher.close();
        }
    }
}

fn worded(error: impl std::fmt::Display) -> String {
    format!("{error:#}")
}

fn outgoing_of<'m>(message: &MessageRef<'m>, user: &str) -> Result<Outgoing<'m>, &'static str> {
    let said = message::View::of(message.properties).user_id();
    if said.is_some_and(|said| said != user.as_bytes()) {
        return Err(OTHER_USER);
    }
    Ok(Outgoing {
        exchange: std::str::from_utf8(message.exchange).map_err(|_| DAMAGED)?,
        routing_key: message.routing_key,
        properties: message.properties,
        body: message.body.bytes(),
    })
}
