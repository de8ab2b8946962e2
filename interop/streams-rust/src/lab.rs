//! What one scenario works with: its names, its environment, and the cleaning up after it.

use crate::LIBRARY;
use crate::check::{self, Failure, Outcome, WAIT};
use crate::node::Node;
use futures_lite::StreamExt;
use rabbitmq_stream_client::types::{Delivery, Message, OffsetSpecification};
use rabbitmq_stream_client::{Consumer, Environment, NoDedup, Producer};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::timeout;

pub const N_MESSAGES: u64 = 1000;

pub struct Lab {
    pub node: Arc<Node>,
    prefix: String,
    leftovers: Mutex<Vec<String>>,
}

impl Lab {
    pub fn new(node: Arc<Node>, id: &str) -> Arc<Self> {
        let nonce = RandomState::new().hash_one(id) >> 32;
        let prefix = format!("interop.{LIBRARY}.{id}.{nonce:08x}");
        Arc::new(Self { node, prefix, leftovers: Mutex::default() })
    }

    /// A name nobody else uses; the stream of it goes when the scenario ends.
    pub fn name(&self, what: &str) -> String {
        let name = format!("{}.{what}", self.prefix);
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        name
    }

    pub async fn environment(&self) -> Outcome<Environment> {
        let password = self.node.credentials().split(':').nth(1).unwrap_or_default();
        self.environment_of(self.node.user(), password, "/").await
    }

    pub async fn environment_of(
        &self,
        user: &str,
        password: &str,
        vhost: &str,
    ) -> Outcome<Environment> {
        let building = Environment::builder()
            .host(self.node.address().0)
            .port(self.node.stream_port)
            .username(user)
            .password(password)
            .virtual_host(vhost);
        Ok(timeout(WAIT, building.build()).await??)
    }

    /// A new stream.
    pub async fn stream(&self, environment: &Environment) -> Outcome<String> {
        let stream = self.name("s");
        environment.stream_creator().create(&stream).await?;
        Ok(stream)
    }

    /// A new stream with the texts "0", "1", ...
    pub async fn filled(&self, environment: &Environment) -> Outcome<String> {
        let stream = self.stream(environment).await?;
        publish(environment, &stream, &numbers(0..N_MESSAGES)).await?;
        Ok(stream)
    }

    /// Deletes what is left; that it was deleted already is no matter.
    pub async fn clean_up(&self) {
        let Ok(environment) = self.environment().await else { return };
        let leftovers =
            std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        for name in leftovers {
            let _gone = timeout(WAIT, environment.delete_stream(&name)).await;
            let _gone_too = timeout(WAIT, environment.delete_super_stream(&name)).await;
        }
    }
}

pub fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

pub fn message(text: &str) -> Message {
    Message::builder().body(text).build()
}

pub fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.data().unwrap_or_default()).into_owned()
}

/// Publishes the texts by a producer of their own; each must be confirmed.
pub async fn publish(environment: &Environment, stream: &str, texts: &[String]) -> Outcome {
    let producer = timeout(WAIT, environment.producer().build(stream)).await??;
    publish_by(producer, texts).await
}

pub async fn publish_by(producer: Producer<NoDedup>, texts: &[String]) -> Outcome {
    confirmed(&producer, texts).await?;
    Ok(timeout(WAIT, producer.close()).await??)
}

pub async fn confirmed(producer: &Producer<NoDedup>, texts: &[String]) -> Outcome {
    let messages = texts.iter().map(|text| message(text)).collect();
    let statuses = timeout(WAIT, producer.batch_send_with_confirm(messages)).await??;
    let n_confirmed = statuses.iter().filter(|status| status.confirmed()).count();
    check::equal(texts.len(), n_confirmed, "confirms")
}

pub async fn next(consumer: &mut Consumer) -> Outcome<Delivery> {
    let delivery = timeout(WAIT, consumer.next()).await?;
    Ok(delivery.ok_or_else(|| Failure::new("the consumer was closed"))??)
}

/// The next texts of a consumer.
pub async fn take(consumer: &mut Consumer, n: usize) -> Outcome<Vec<String>> {
    let mut texts = Vec::with_capacity(n);
    for _ in 0..n {
        texts.push(text(next(consumer).await?.message()));
    }
    Ok(texts)
}

/// The first texts from the offset on.
pub async fn read(
    environment: &Environment,
    stream: &str,
    offset: OffsetSpecification,
    n: usize,
) -> Outcome<Vec<String>> {
    let mut consumer = environment.consumer().offset(offset).build(stream).await?;
    let texts = take(&mut consumer, n).await?;
    consumer.handle().close().await?;
    Ok(texts)
}
