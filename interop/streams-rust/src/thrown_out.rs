//! What a program is told when an operator, or the end of the node, ends its connections.

use crate::check::{self, Failure, Outcome};
use crate::lab::*;
use crate::suite::Suite;
use futures_lite::StreamExt;
use rabbitmq_stream_client::types::{Message, OffsetSpecification};
use rabbitmq_stream_client::{Consumer, Environment, NoDedup, OnClosed, Producer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

const PASSWORD: &str = "ears";

pub fn register(suite: &mut Suite) {
    suite.add("stream-thrown-out", by_operator);
    suite.add("restart-stream-thrown-out", by_the_end_of_the_node);
}

/// A publisher and a consumer with a user and a virtual host of their own.
struct Guests {
    user: String,
    vhost: String,
    _environment: Environment,
    _producer: Producer<NoDedup>,
    consumer: Consumer,
    told: Arc<Notify>,
}

struct Told(Arc<Notify>);

#[async_trait::async_trait]
impl OnClosed for Told {
    async fn on_closed(&self, _unconfirmed: Vec<Message>) {
        self.0.notify_one();
    }
}

impl Guests {
    async fn new(lab: &Lab, suffix: &str) -> Outcome<Self> {
        let (user, vhost) =
            (lab.name(&format!("hare{suffix}")), lab.name(&format!("burrow{suffix}")));
        lab.node.ctl(&["await_startup"]).await?;
        lab.node.ctl(&["add_user", &user, PASSWORD]).await?;
        lab.node.ctl(&["add_vhost", &vhost]).await?;
        lab.node.ctl(&["set_permissions", "-p", &vhost, &user, ".*", ".*", ".*"]).await?;
        let environment = lab.environment_of(&user, PASSWORD, &vhost).await?;
        environment.stream_creator().create("s").await?;
        let told = Arc::new(Notify::new());
        let on_closed = Box::new(Told(Arc::clone(&told)));
        let producer = environment.producer().on_closed(on_closed).build("s").await?;
        confirmed(&producer, &["0".into()]).await?;
        let mut consumer =
            environment.consumer().offset(OffsetSpecification::First).build("s").await?;
        check::equal(1, take(&mut consumer, 1).await?.len(), "messages")?;
        Ok(Self { user, vhost, _environment: environment, _producer: producer, consumer, told })
    }

    /// Both are told within a second, or what `INTEROP_TOLD_MS` says.
    async fn are_told(&mut self, how: &str) -> Outcome {
        let limit = std::env::var("INTEROP_TOLD_MS").ok().and_then(|named| named.parse().ok());
        let both = async {
            self.told.notified().await;
            while let Some(Ok(_)) = self.consumer.next().await {}
        };
        timeout(Duration::from_millis(limit.unwrap_or(1000)), both)
            .await
            .map_err(|_late| Failure::new(format!("{how} is not told in time")))
    }
}

async fn by_operator(lab: Arc<Lab>) -> Outcome {
    for way in ["close_all_connections", "delete_user", "delete_vhost"] {
        let mut guests = Guests::new(&lab, &format!("-{way}")).await?;
        match way {
            "close_all_connections" => lab.node.ctl(&[way, "-p", &guests.vhost, "enough"]).await?,
            "delete_user" => lab.node.ctl(&[way, &guests.user]).await?,
            _ => lab.node.ctl(&[way, &guests.vhost]).await?,
        }
        guests.are_told(way).await?;
        // One of them is gone already.
        let _gone = lab.node.ctl(&["delete_user", &guests.user]).await;
        let _gone_too = lab.node.ctl(&["delete_vhost", &guests.vhost]).await;
    }
    Ok(())
}

async fn by_the_end_of_the_node(lab: Arc<Lab>) -> Outcome {
    if !lab.node.restartable() {
        return Err(Failure::Skipped("ends need a node of our own"));
    }
    let mut guests = Guests::new(&lab, "").await?;
    let node = Arc::clone(&lab.node);
    let ending = tokio::spawn(async move { node.stop().await });
    guests.are_told("the end of the node").await?;
    ending.await??;
    lab.node.start().await
}
