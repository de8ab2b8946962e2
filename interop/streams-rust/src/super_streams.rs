//! Super streams, and single active consumers.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use futures_lite::StreamExt;
use rabbitmq_stream_client::types::{
    HashRoutingMurmurStrategy, OffsetSpecification, RoutingKeyRoutingStrategy, RoutingStrategy,
};
use rabbitmq_stream_client::{Consumer, Environment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

const REGIONS: [&str; 3] = ["emea", "amer", "apac"];

pub fn register(suite: &mut Suite) {
    suite.add("stream-super-hash", super_hash);
    suite.add("stream-super-key", super_key);
    suite.add("stream-single-active", single_active);
}

/// Every message comes once, a key always from the same partition, and all partitions have some.
async fn super_hash(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let name = lab.name("super");
    environment.stream_creator().create_super_stream(&name, 3, None).await?;
    let by_hash = HashRoutingMurmurStrategy { routing_extractor: &text };
    let twice = [numbers(0..300), numbers(0..300)].concat();
    publish_super(&environment, &name, RoutingStrategy::HashRoutingStrategy(by_hash), &twice)
        .await?;
    let seen = read_super(&environment, &name, twice.len()).await?;
    let keys: BTreeSet<_> = seen.keys().map(|(text, _)| text.clone()).collect();
    check::equal(300, keys.len(), "keys")?;
    check::equal(300, seen.len(), "keys and their partitions")?;
    check::that(seen.values().all(|n| *n == 2), "a key did not come twice")?;
    let partitions: BTreeSet<_> = seen.into_keys().map(|(_, partition)| partition).collect();
    check::equal(3, partitions.len(), "partitions that have messages")?;
    environment.delete_super_stream(&name).await?;
    let left = environment.consumer().build(&format!("{name}-0")).await;
    check::that(left.is_err(), "a partition is left")
}

async fn super_key(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let name = lab.name("super");
    let keys = REGIONS.map(str::to_owned).to_vec();
    environment.stream_creator().create_super_stream(&name, 3, Some(keys.clone())).await?;
    let by_key = RoutingKeyRoutingStrategy { routing_extractor: &text };
    let strategy = RoutingStrategy::RoutingKeyStrategy(by_key);
    publish_super(&environment, &name, strategy, &vec![keys.clone(); 100].concat()).await?;
    let expected: BTreeMap<_, _> =
        keys.into_iter().map(|key| ((key.clone(), format!("{name}-{key}")), 100)).collect();
    check::equal(expected, read_super(&environment, &name, 300).await?, "partition of each key")
}

async fn publish_super(
    environment: &Environment,
    name: &str,
    strategy: RoutingStrategy,
    texts: &[String],
) -> Outcome {
    let mut producer = environment.super_stream_producer(strategy).build(name).await?;
    let (confirm, mut confirms) = mpsc::unbounded_channel();
    for text in texts {
        let confirm = confirm.clone();
        let told = move |status| {
            // The receiver waits for all of them.
            let _waiting = confirm.send(status);
            std::future::ready(())
        };
        producer.send(message(text), told).await?;
    }
    for _ in texts {
        let status = timeout(WAIT, confirms.recv()).await?;
        let status = status.ok_or_else(|| Failure::new("no further confirms"))??;
        check::that(status.confirmed(), "a message that failed")?;
    }
    Ok(producer.close().await?)
}

/// How often each text came from each partition.
async fn read_super(
    environment: &Environment,
    name: &str,
    n: usize,
) -> Outcome<BTreeMap<(String, String), usize>> {
    let mut building = environment.super_stream_consumer().offset(OffsetSpecification::First);
    let mut consumer = building.build(name).await?;
    let mut seen = BTreeMap::new();
    for _ in 0..n {
        let delivery = timeout(WAIT, consumer.next()).await?;
        let delivery = delivery.ok_or_else(|| Failure::new("the consumer was closed"))??;
        *seen.entry((text(delivery.message()), delivery.stream().clone())).or_default() += 1;
    }
    consumer.handle().close().await?;
    Ok(seen)
}

/// The first alone is given messages; when it ends, the second goes on behind what is stored.
async fn single_active(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    let mut first = member(&environment, &stream).await?;
    let mut second = member(&environment, &stream).await?;
    publish(&environment, &stream, &numbers(0..100)).await?;
    check::equal(numbers(0..100), take(&mut first, 100).await?, "messages of the first")?;
    first.store_offset(99).await?;
    let early = timeout(Duration::from_millis(100), second.next()).await;
    check::that(early.is_err(), "the second was given one too early")?;
    first.handle().close().await?;
    publish(&environment, &stream, &numbers(100..200)).await?;
    check::equal(numbers(100..200), take(&mut second, 100).await?, "messages of the second")?;
    Ok(second.handle().close().await?)
}

async fn member(environment: &Environment, stream: &str) -> Outcome<Consumer> {
    let building = environment
        .consumer()
        .name("group")
        .enable_single_active_consumer(true)
        .offset(OffsetSpecification::First)
        .consumer_update(|_active, context| async move {
            match context.client().query_offset(context.name(), &context.stream()).await {
                Ok(stored) => OffsetSpecification::Offset(stored + 1),
                Err(_none) => OffsetSpecification::First,
            }
        });
    Ok(building.build(stream).await?)
}
