//! Messages that are published one window after the other, each with the broker's answer.

use crate::connection::{Client, Closed, Link, closed};
use crate::uri::Uri;
use amqp091::content::encode_content;
use amqp091::method::{
    BasicPublish, ConfirmSelect, ConfirmSelectOk, ExchangeDeclare, ExchangeDeclareOk,
};
use amqp091::{Method, PropertiesRef};

/// The most messages that are unanswered together.
const WINDOW_MAX: usize = 256;
/// The most bytes of unanswered messages, but for the last: what comes back of them has room in a socket.
const WINDOW_BYTES: usize = 64 << 10;
/// The channel of publishes, and that of questions, which the broker closes where the answer is no.
const PUBLISHES: u16 = 1;
const QUESTIONS: u16 = 2;
/// The reply code for what is not there.
const NOT_FOUND: u16 = 404;

/// A message that is to be published.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'m> {
    /// The exchange; empty is the default one.
    pub exchange: &'m str,
    /// The routing key.
    pub routing_key: &'m [u8],
    /// The properties, encoded.
    pub properties: &'m [u8],
    /// The body.
    pub body: &'m [u8],
}

/// The broker's answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The broker has the message.
    Confirmed,
    /// No queue is bound for the message, or for another one of that exchange and key.
    Returned,
    /// A queue has refused the message.
    Refused,
    /// No answer came: the broker may have the message or not.
    None,
    /// The message was not sent.
    Unsent,
}

/// A connection whose publishes are confirmed.
#[derive(Debug)]
pub struct Publisher {
    client: Client,
    n_published: u64,
}

impl Publisher {
    /// Connects and logs in. `name` is what the broker's lists show.
    ///
    /// # Errors
    /// There is no broker, it does not let us in, or confirms nothing.
    pub fn connect(uri: &Uri, link: &Link, name: &str) -> anyhow::Result<Self> {
        let mut client = Client::connect(uri, link, name)?;
        client.open_channel(PUBLISHES)?;
        let select = ConfirmSelect { no_wait: false };
        client.call(PUBLISHES, select.into(), ConfirmSelectOk::ID)?;
        Ok(Self { client, n_published: 0 })
    }

    /// Whether there is such an exchange.
    ///
    /// # Errors
    /// The broker says something else, or nothing.
    pub fn has_exchange(&mut self, exchange: &str) -> anyhow::Result<bool> {
        self.client.open_channel(QUESTIONS)?;
        let declare = ExchangeDeclare {
            exchange: exchange.as_bytes(),
            passive: true,
            ..ExchangeDeclare::default()
        };
        match self.client.call(QUESTIONS, declare.into(), ExchangeDeclareOk::ID) {
            Ok(_) => self.client.close_channel(QUESTIONS).map(|()| true),
            Err(error) => match error.downcast_ref::<Closed>() {
                Some(Closed { code: NOT_FOUND, .. }) => {
                    self.client.send(QUESTIONS, amqp091::method::ChannelCloseOk {}.into())?;
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    /// Publishes messages, and waits for the answers. After an error nothing more may be published; those
    /// on their way have [`Answer::None`] then, those behind [`Answer::Unsent`].
    pub fn publish(&mut self, messages: &[Outgoing<'_>]) -> (Vec<Answer>, anyhow::Result<()>) {
        let mut answers = Vec::with_capacity(messages.len());
        let mut rest = messages;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |message: &&Outgoing<'_>| {
                let is_first_or_fits = bytes < WINDOW_BYTES;
                bytes += message.body.len() + message.properties.len();
                is_first_or_fits
            };
            let n = rest.iter().take(WINDOW_MAX).take_while(fits).count();
            let (window, others) = rest.split_at(n.min(rest.len()));
            rest = others;
            let mut waiting = Window::of(window, self.n_published);
            let published = self.publish_window(window, &mut waiting);
            answers.extend(waiting.answers);
            if published.is_err() {
                answers.resize(messages.len(), Answer::Unsent);
                return (answers, published);
            }
        }
        (answers, Ok(()))
    }

    fn publish_window(
        &mut self,
        window: &[Outgoing<'_>],
        waiting: &mut Window<'_>,
    ) -> anyhow::Result<()> {
        let mut output = Vec::new();
        for message in window {
            let publish = BasicPublish {
                exchange: message.exchange.as_bytes(),
                routing_key: message.routing_key,
                mandatory: true,
                ..BasicPublish::default()
            };
            publish.encode_frame(PUBLISHES, &mut output);
            let frame_max = self.client.frame_max;
            let properties = PropertiesRef::parse(message.properties)?;
            encode_content(PUBLISHES, properties, message.body, frame_max, &mut output);
        }
        self.client.send_bytes(&output)?;
        self.n_published += window.len() as u64;
        while waiting.n_left > 0 {
            self.client.next_method(|channel, method, _| {
                if let Some(closed) = closed(method) {
                    return Err(closed.into());
                }
                if channel == PUBLISHES {
                    waiting.note(method);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Says goodbye. Errors do not matter any more.
    pub fn close(self) {
        self.client.close();
    }
}

/// Messages that wait for their answers.
struct Window<'m> {
    messages: &'m [Outgoing<'m>],
    answers: Vec<Answer>,
    is_returned: Vec<bool>,
    /// Publishes before.
    n_before: u64,
    n_left: usize,
}

impl<'m> Window<'m> {
    fn of(messages: &'m [Outgoing<'m>], n_before: u64) -> Self {
        let (answers, is_returned) =
            (vec![Answer::None; messages.len()], vec![false; messages.len()]);
        Self { messages, answers, is_returned, n_before, n_left: messages.len() }
    }

    fn note(&mut self, method: &Method<'_>) {
        if let Method::BasicReturn(back) = method {
            self.note_returned(back.exchange, back.routing_key);
        } else if let Method::BasicAck(ack) = method {
            self.note_answer(ack.delivery_tag, ack.multiple, Answer::Confirmed);
        } else if let Method::BasicNack(nack) = method {
            self.note_answer(nack.delivery_tag, nack.multiple, Answer::Refused);
        }
    }

    /// Notes that a message with that exchange and key came back. Which one is not said: none counts as sent.
    fn note_returned(&mut self, exchange: &[u8], routing_key: &[u8]) {
        for ((message, answer), is_returned) in
            self.messages.iter().zip(&self.answers).zip(&mut self.is_returned)
        {
            let is_it =
                message.exchange.as_bytes() == exchange && message.routing_key == routing_key;
            *is_returned |= is_it && *answer == Answer::None;
        }
    }

    fn note_answer(&mut self, tag: u64, is_multiple: bool, answer: Answer) {
        let Some(last) = tag.checked_sub(self.n_before + 1) else { return };
        let Ok(last) = usize::try_from(last) else { return };
        let first = if is_multiple { 0 } else { last };
        let answers = self.answers.iter_mut().zip(&self.is_returned);
        for (place, is_returned) in answers.take(last.saturating_add(1)).skip(first) {
            if *place == Answer::None {
                *place = if *is_returned { Answer::Returned } else { answer };
                self.n_left -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amqp091::method::{BasicAck, BasicNack, BasicReturn};

    fn outgoing(routing_key: &[u8]) -> Outgoing<'_> {
        Outgoing { exchange: "x", routing_key, properties: &[0, 0], body: b"" }
    }

    #[test]
    fn each_message_has_its_answer() {
        let messages = [b"a", b"b", b"a", b"c", b"d"].map(|key| outgoing(key));
        let mut window = Window::of(&messages, 10);
        let returned = BasicReturn { exchange: b"x", routing_key: b"a", ..BasicReturn::default() };
        window.note(&returned.into());
        window.note(&BasicAck { delivery_tag: 11, multiple: false }.into());
        // Of messages before nothing is to be said.
        window.note(&BasicAck { delivery_tag: 10, multiple: true }.into());
        let nack = BasicNack { delivery_tag: 14, ..BasicNack::default() };
        window.note(&nack.into());
        assert_eq!(window.n_left, 3);
        window.note(&BasicAck { delivery_tag: 15, multiple: true }.into());
        assert_eq!(window.n_left, 0);
        let (confirmed, returned, refused) = (Answer::Confirmed, Answer::Returned, Answer::Refused);
        assert_eq!(window.answers, [returned, confirmed, returned, refused, confirmed]);
    }
}
