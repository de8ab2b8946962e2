//! What one scenario works with: its names, its connections, and the cleaning up after it.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::node::Node;
use futures_lite::{Stream, StreamExt, future};
use lapin::message::{BasicGetMessage, Delivery};
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, Event,
    ExchangeKind, PublisherConfirm,
};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{sleep, timeout};

const POLL: Duration = Duration::from_millis(5);

pub struct Lab {
    pub node: Arc<Node>,
    prefix: String,
    leftovers: Mutex<Vec<Leftover>>,
}

enum Leftover {
    Queue(String),
    Exchange(String),
}

/// A connection together with what the server says on it.
pub struct Peer {
    pub connection: Connection,
    events: AsyncMutex<Pin<Box<dyn Stream<Item = Event> + Send>>>,
}

impl Lab {
    pub fn new(node: Arc<Node>, id: &str) -> Arc<Self> {
        let nonce = RandomState::new().hash_one(id) >> 32;
        Arc::new(Self {
            node,
            prefix: format!("interop.rust.{id}.{nonce:08x}"),
            leftovers: Mutex::default(),
        })
    }

    /// A name nobody else uses.
    pub fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.prefix)
    }

    /// The broker's address with a vhost and query after it.
    pub fn uri(&self, rest: &str) -> String {
        let (host, port) = self.node.address();
        format!("amqp://{}@{host}:{port}/{rest}", self.node.credentials())
    }

    pub async fn peer(&self) -> Outcome<Peer> {
        Peer::connect(&self.uri("%2f")).await
    }

    /// A durable queue that goes when the scenario ends.
    pub async fn queue(&self, channel: &Channel, what: &str) -> Outcome<String> {
        self.queue_with(channel, what, FieldTable::default()).await
    }

    pub async fn queue_with(
        &self,
        channel: &Channel,
        what: &str,
        arguments: FieldTable,
    ) -> Outcome<String> {
        let queue = self.name(what);
        channel
            .queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), arguments)
            .await?;
        self.delete_later(Leftover::Queue(queue.clone()));
        Ok(queue)
    }

    pub fn delete_queue_later(&self, queue: &str) {
        self.delete_later(Leftover::Queue(queue.into()));
    }

    /// A durable exchange that goes when the scenario ends.
    pub async fn exchange(
        &self,
        channel: &Channel,
        what: &str,
        kind: ExchangeKind,
    ) -> Outcome<String> {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        self.exchange_with(channel, what, kind, options, FieldTable::default()).await
    }

    pub async fn exchange_with(
        &self,
        channel: &Channel,
        what: &str,
        kind: ExchangeKind,
        options: ExchangeDeclareOptions,
        arguments: FieldTable,
    ) -> Outcome<String> {
        let exchange = self.name(what);
        channel.exchange_declare(exchange.as_str().into(), kind, options, arguments).await?;
        self.delete_later(Leftover::Exchange(exchange.clone()));
        Ok(exchange)
    }

    fn delete_later(&self, leftover: Leftover) {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(leftover);
    }

    pub async fn clean_up(&self) {
        let leftovers =
            std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        if leftovers.is_empty() || !self.node.running().await {
            return;
        }
        if let Err(failure) = timeout(WAIT, self.delete(leftovers)).await {
            println!("# not cleaned up: {failure}");
        }
    }

    async fn delete(&self, leftovers: Vec<Leftover>) -> Outcome {
        let peer = self.peer().await?;
        let channel = peer.channel().await?;
        for leftover in leftovers {
            match leftover {
                Leftover::Queue(name) => {
                    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await?;
                }
                Leftover::Exchange(name) => {
                    channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await?;
                }
            }
        }
        Ok(())
    }
}

impl Peer {
    pub async fn connect(uri: &str) -> Outcome<Self> {
        Self::connect_with(uri, ConnectionProperties::default()).await
    }

    pub async fn connect_with(uri: &str, properties: ConnectionProperties) -> Outcome<Self> {
        let connection = timeout(WAIT, Connection::connect(uri, properties)).await??;
        let events = AsyncMutex::new(Box::pin(connection.events_listener()) as Pin<Box<_>>);
        Ok(Self { connection, events })
    }

    pub async fn channel(&self) -> Outcome<Channel> {
        Ok(self.connection.create_channel().await?)
    }

    /// The action must make the server close its channel, and only that, with the code and text.
    pub async fn channel_closes<T>(
        &self,
        code: u16,
        text: &str,
        action: impl Future<Output = lapin::Result<T>>,
    ) -> Outcome {
        // The method may fail with the same error, or be one without an answer.
        let _reported_by_event = timeout(WAIT, action).await?;
        let mut events = self.events.lock().await;
        loop {
            match timeout(WAIT, events.next()).await? {
                Some(Event::Error(error)) => {
                    server_said(&error, code, text)?;
                    break;
                }
                Some(_) => {}
                None => return Err(Failure::new("the connection ended without an error")),
            }
        }
        check::that(self.connection.status().connected(), "the connection closed as well")?;
        self.channel().await?.close(200, "OK".into()).await?;
        Ok(())
    }

    pub async fn close(&self) -> Outcome {
        Ok(self.connection.close(200, "OK".into()).await?)
    }
}

pub fn table<const N: usize>(entries: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert(key.into(), value);
    }
    table
}

pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}

pub async fn confirm_mode(channel: &Channel) -> Outcome {
    Ok(channel.confirm_select(ConfirmSelectOptions::default()).await?)
}

/// Publishes a persistent text.
pub async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &str,
) -> lapin::Result<PublisherConfirm> {
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), persistent()).await
}

/// Waits for the ack of one publish; nothing may have been returned.
pub async fn acked(confirm: PublisherConfirm) -> Outcome {
    let confirmation = timeout(WAIT, confirm).await??;
    check::that(
        matches!(confirmation, Confirmation::Ack(None)),
        format!("expected an ack, got {confirmation:?}"),
    )
}

/// Publishes the texts "0", "1", ... and waits for the acks; puts the channel in confirm mode.
pub async fn publish_numbers(channel: &Channel, queue: &str, n: usize) -> Outcome {
    confirm_mode(channel).await?;
    let mut confirms = Vec::with_capacity(n);
    for i in 0..n {
        confirms.push(publish(channel, "", queue, &i.to_string()).await?);
    }
    for confirm in confirms {
        acked(confirm).await?;
    }
    Ok(())
}

pub async fn consume(channel: &Channel, queue: &str) -> Outcome<Consumer> {
    consume_with(channel, queue, BasicConsumeOptions::default(), FieldTable::default()).await
}

pub async fn consume_with(
    channel: &Channel,
    queue: &str,
    options: BasicConsumeOptions,
    arguments: FieldTable,
) -> Outcome<Consumer> {
    Ok(channel.basic_consume(queue.into(), "".into(), options, arguments).await?)
}

/// The next delivery; fails when none comes in time.
pub async fn take(consumer: &mut Consumer) -> Outcome<Delivery> {
    match timeout(WAIT, consumer.next()).await {
        Ok(Some(delivery)) => Ok(delivery?),
        Ok(None) => Err(Failure::new("the consumer was cancelled")),
        Err(_) => Err(Failure::new("no delivery in time")),
    }
}

/// The next deliveries must have these bodies.
pub async fn take_bodies(consumer: &mut Consumer, bodies: &[&str]) -> Outcome<Vec<Delivery>> {
    let mut all = Vec::with_capacity(bodies.len());
    for expected in bodies {
        let delivery = take(consumer).await?;
        check::equal(*expected, body(&delivery), "body")?;
        all.push(delivery);
    }
    Ok(all)
}

/// True when a delivery is here already.
pub async fn has_more(consumer: &mut Consumer) -> bool {
    future::poll_once(consumer.next()).await.is_some()
}

pub fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.data).into_owned()
}

/// Gets one message without acknowledging it.
pub async fn get(
    channel: &Channel,
    queue: &str,
    expected: &str,
    redelivered: bool,
) -> Outcome<BasicGetMessage> {
    let got = channel.basic_get(queue.into(), BasicGetOptions::default()).await?;
    let got = got.ok_or_else(|| Failure::new(format!("nothing to get, expected {expected}")))?;
    check::equal(expected, body(&got), "got")?;
    check::equal(redelivered, got.redelivered, &format!("redelivered of {expected}"))?;
    Ok(got)
}

/// Gets exactly these messages, then nothing.
pub async fn get_all(
    channel: &Channel,
    queue: &str,
    bodies: &[&str],
    redelivered: bool,
) -> Outcome {
    for expected in bodies {
        get(channel, queue, expected, redelivered).await?;
    }
    let more = channel.basic_get(queue.into(), BasicGetOptions::default()).await?;
    check::that(more.is_none(), format!("more than {} messages", bodies.len()))
}

/// Gets everything that is ready; complete when the publishes before it were confirmed.
pub async fn drain(channel: &Channel, queue: &str) -> Outcome<Vec<String>> {
    let mut bodies = Vec::new();
    while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
        bodies.push(body(&got));
    }
    Ok(bodies)
}

pub async fn passive(channel: &Channel, queue: &str) -> lapin::Result<lapin::Queue> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    channel.queue_declare(queue.into(), options, FieldTable::default()).await
}

/// Polls the ready count of a queue (a passive declare may run ahead of publishes).
pub async fn ready(channel: &Channel, queue: &str, expected: u32) -> Outcome {
    let started = Instant::now();
    loop {
        let count = passive(channel, queue).await?.message_count();
        if count == expected || started.elapsed() > WAIT {
            return check::equal(expected, count, &format!("ready in {queue}"));
        }
        sleep(POLL).await;
    }
}

/// Compares a reply; a text that ends in "..." is a prefix.
#[track_caller]
pub fn reply(code: u16, text: &str, actual_code: u16, actual_text: &str) -> Outcome {
    if code != actual_code {
        return Err(Failure::new(format!("expected {code}, got {actual_code} {actual_text}")));
    }
    match text.strip_suffix("...") {
        Some(prefix) => check::that(
            actual_text.starts_with(prefix),
            format!("expected {text}, got {actual_text}"),
        ),
        None => check::equal(text, actual_text, "reply text"),
    }
}

/// The error must carry a reply of the server with this code and text.
#[track_caller]
pub fn server_said(error: &lapin::Error, code: u16, text: &str) -> Outcome {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(said) => {
            reply(code, text, said.get_id(), said.get_message().as_str())
        }
        other => Err(Failure::new(format!("expected a reply {code}, got {other:?}"))),
    }
}
