//! What one scenario works with: its names, its connections, and the cleaning up after it.

use crate::LIBRARY;
use crate::check::{self, Failure, Outcome, WAIT};
use crate::node::Node;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{self, Body, Header, Message, Source};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ConnectionProperties};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub const N_MESSAGES: usize = 200;

pub type Given = Delivery<Body<Value>>;

pub struct Lab {
    pub node: Arc<Node>,
    prefix: String,
    leftovers: Mutex<Vec<String>>,
}

/// A connection with one session.
pub struct Peer {
    pub connection: ConnectionHandle<()>,
    pub session: SessionHandle<()>,
    n_links: usize,
}

impl Lab {
    pub fn new(node: Arc<Node>, id: &str) -> Arc<Self> {
        let nonce = RandomState::new().hash_one(id) >> 32;
        let prefix = format!("interop.{LIBRARY}.{id}.{nonce:08x}");
        Arc::new(Self { node, prefix, leftovers: Mutex::default() })
    }

    /// A name nobody else uses; the queue of it goes when the scenario ends.
    pub fn name(&self, what: &str) -> String {
        let name = format!("{}.{what}", self.prefix);
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        name
    }

    pub async fn peer(&self) -> Outcome<Peer> {
        let password = self.node.credentials().split(':').nth(1).unwrap_or_default();
        self.peer_of(password, "vhost:/").await
    }

    pub async fn peer_of(&self, password: &str, hostname: &str) -> Outcome<Peer> {
        let (host, port) = self.node.address();
        let username = self.node.user().to_owned();
        let profile = SaslProfile::Plain { username, password: password.to_owned() };
        let builder = Connection::builder().container_id(LIBRARY).hostname(hostname);
        let opening = builder.sasl_profile(profile);
        let url = format!("amqp://{host}:{port}");
        let mut connection = timeout(WAIT, opening.open(&url[..])).await??;
        let session = timeout(WAIT, Session::begin(&mut connection)).await??;
        Ok(Peer { connection, session, n_links: 0 })
    }

    /// A channel of AMQP 0-9-1.
    pub async fn channel(&self) -> Outcome<Channel> {
        let (host, port) = self.node.address();
        let uri = format!("amqp://{}@{host}:{port}/%2f", self.node.credentials());
        let connection = lapin::Connection::connect(&uri, ConnectionProperties::default()).await?;
        Ok(connection.create_channel().await?)
    }

    /// A durable queue with these arguments.
    pub async fn queue(&self, what: &str, arguments: &[(&str, AMQPValue)]) -> Outcome<String> {
        let name = self.name(what);
        let mut table = FieldTable::default();
        for (key, value) in arguments {
            table.insert((*key).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let channel = self.channel().await?;
        channel.queue_declare(name.as_str().into(), options, table).await?;
        Ok(name)
    }

    /// A queue of this type.
    pub async fn queue_of(&self, kind: &str) -> Outcome<String> {
        self.queue("q", &[("x-queue-type", text(kind))]).await
    }

    /// Waits for so many ready messages.
    pub async fn ready(&self, queue: &str, expected: u32) -> Outcome {
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, durable: true, ..Default::default() };
        for _ in 0..100 {
            let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
            if found.message_count() == expected {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(Failure::new(format!("{queue} never has {expected} ready messages")))
    }

    /// Deletes what is left; that it was deleted already is no matter.
    pub async fn clean_up(&self) {
        let Ok(channel) = self.channel().await else { return };
        let leftovers =
            std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        for name in leftovers {
            let _gone =
                channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await;
        }
    }
}

impl Peer {
    pub fn link_name(&mut self) -> String {
        self.n_links += 1;
        format!("link-{}", self.n_links)
    }

    pub async fn sender(&mut self, address: &str) -> Outcome<Sender> {
        let name = self.link_name();
        Ok(timeout(WAIT, Sender::attach(&mut self.session, name, address)).await??)
    }

    pub async fn receiver(&mut self, queue: &str) -> Outcome<Receiver> {
        self.receiver_of(Source::builder().address(address(queue)).build()).await
    }

    pub async fn receiver_of(&mut self, source: Source) -> Outcome<Receiver> {
        let name = self.link_name();
        let builder = Receiver::builder().name(name).source(source);
        Ok(timeout(WAIT, builder.attach(&mut self.session)).await??)
    }

    /// Publishes the texts by a link of their own; each must be accepted.
    pub async fn publish(&mut self, address: &str, texts: &[String]) -> Outcome {
        let mut sender = self.sender(address).await?;
        let mut waiting = Vec::new();
        for text in texts {
            waiting.push(timeout(WAIT, sender.send_batchable(message(text))).await??);
        }
        for outcome in waiting {
            let outcome = timeout(WAIT, outcome).await??;
            check::that(outcome.is_accepted(), format!("{outcome:?}"))?;
        }
        Ok(timeout(WAIT, sender.close()).await??)
    }

    pub async fn end(mut self) -> Outcome {
        timeout(WAIT, self.session.end()).await??;
        Ok(timeout(WAIT, self.connection.close()).await??)
    }
}

pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub fn address(queue: &str) -> String {
    format!("/queues/{queue}")
}

pub fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub fn message(text: &str) -> Message<messaging::Data> {
    let header = Header { durable: true, ..Header::default() };
    let data = Binary::from(text.as_bytes().to_vec());
    Message::builder().header(header).data(data).build()
}

pub async fn next(receiver: &mut Receiver) -> Outcome<Given> {
    let given = timeout(WAIT, receiver.recv::<Body<Value>>()).await?;
    given.map_err(|error| Failure::new(format!("{error:?}")))
}

/// Whether nothing comes for a while.
pub async fn is_silent(receiver: &mut Receiver) -> bool {
    timeout(Duration::from_millis(300), receiver.recv::<Body<Value>>()).await.is_err()
}

/// Accepts the next texts.
pub async fn take(receiver: &mut Receiver, n: usize) -> Outcome<Vec<String>> {
    let mut texts = Vec::with_capacity(n);
    for _ in 0..n {
        let given = next(receiver).await?;
        texts.push(body(&given));
        receiver.accept(&given).await?;
    }
    Ok(texts)
}

pub fn body(given: &Given) -> String {
    match given.body() {
        Body::Data(parts) => {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.0.iter().copied()).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
        other => format!("{other:?}"),
    }
}

/// `first-acquirer` and `delivery-count`.
pub fn counts(given: &Given) -> (bool, u32) {
    let header = given.message().header.clone().unwrap_or_default();
    (header.first_acquirer, header.delivery_count)
}

/// An annotation, as it is debugged.
pub fn annotation(given: &Given, key: &str) -> String {
    let annotations = given.message().message_annotations.iter().flat_map(|it| it.0.iter());
    let mut named =
        annotations.filter(|(name, _)| format!("{name:?}").contains(&format!("\"{key}\"")));
    named.next().map_or("none".to_owned(), |(_, value)| format!("{value:?}"))
}
