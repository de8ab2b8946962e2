//! One message at a time from a single thread: the time of a broker, and little of a client's own.

use std::time::{Duration, Instant};

use streamproto::command::{Credit, DeclarePublisher, Publish, PublishedMessage, Subscribe};
use streamproto::list::Trailing;
use streamproto::{Entry, Key, List, OffsetSpec};

use super::client::StreamClient;
use super::topology;
use client::Link;
use client::Uri;

/// Chunks on their way, at most; one is.
const CREDITS: u16 = 10;
/// An AMQP 1.0 message whose body has 12 bytes.
const MESSAGE: &[u8] = b"\0Su\xa0\x0c0123456789ab";

/// A publisher and a consumer of one stream.
#[derive(Debug)]
pub struct OneByOne {
    publisher: StreamClient,
    consumer: StreamClient,
    publishing_id: u64,
}

impl OneByOne {
    /// Makes a stream, and connects to it.
    ///
    /// # Errors
    /// A URI that is none; whatever goes wrong with the connections; what the broker refuses.
    pub fn start(uri: &str, stream: &str) -> anyhow::Result<Self> {
        let uri = Uri::parse_stream(uri).map_err(anyhow::Error::msg)?;
        let connect = |name| StreamClient::connect(&uri, &Link::default(), name);
        let mut publisher = connect("leveret one by one, publisher")?;
        let mut consumer = connect("leveret one by one, consumer")?;
        topology::create_stream(&mut publisher, stream, &[])?;
        publisher.call("publisher", |correlation_id| DeclarePublisher {
            correlation_id,
            publisher_id: 0,
            reference: "",
            stream,
        })?;
        consumer.call("subscription", |correlation_id| Subscribe {
            correlation_id,
            subscription_id: 0,
            stream,
            offset: OffsetSpec::First,
            credit: CREDITS,
            properties: Trailing(List::default()),
        })?;
        Ok(Self { publisher, consumer, publishing_id: 0 })
    }

    /// Publishes a message and waits until it is delivered: the time of both. It is confirmed when this
    /// returns.
    ///
    /// # Errors
    /// Whatever goes wrong with the connections.
    pub fn pass_one(&mut self) -> anyhow::Result<Duration> {
        self.publishing_id += 1;
        let message =
            PublishedMessage { publishing_id: self.publishing_id, entry: Entry::Message(MESSAGE) };
        let began = Instant::now();
        self.publisher.send(&Publish { publisher_id: 0, messages: List::of(&[message]) })?;
        self.consumer.await_frame(|id| id.known_key() == Some(Key::Deliver))?;
        let took = began.elapsed();
        self.consumer.send(&Credit { subscription_id: 0, credit: 1 })?;
        self.publisher.await_frame(|id| id.known_key() == Some(Key::PublishConfirm))?;
        Ok(took)
    }
}
