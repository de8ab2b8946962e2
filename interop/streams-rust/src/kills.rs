//! The node is killed under a publisher and a consumer, whose programs connect anew.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use rabbitmq_stream_client::types::OffsetSpecification;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const CONFIRMED_BEFORE_KILL: usize = 5_000;
const CONFIRMED_WANTED: usize = 10_000;
const BATCH: usize = 100;
const RECONNECT: Duration = Duration::from_secs(20);
const STALLED: Duration = Duration::from_secs(5);

pub fn register(suite: &mut Suite) {
    suite.add("restart-stream-kill-9", kill);
}

async fn kill(lab: Arc<Lab>) -> Outcome {
    if !lab.node.restartable() {
        return Err(Failure::Skipped("restarts need a node of our own"));
    }
    let stream = lab.stream(&lab.environment().await?).await?;
    let consumed = tokio::spawn(consume_until(Arc::clone(&lab), stream.clone()));
    let mut confirmed = HashSet::new();
    while confirmed.len() < CONFIRMED_WANTED {
        if let Err(lost) = publish_until_lost(&lab, &stream, &mut confirmed).await {
            check::that(confirmed.len() >= CONFIRMED_BEFORE_KILL, format!("{lost:?}"))?;
        }
    }
    publish_when_there(&lab, &stream, &["end".into()]).await?;
    let seen = timeout(RECONNECT, consumed).await???;
    let missing = confirmed.difference(&seen).count();
    check::equal(0, missing, "confirmed messages never seen")
}

/// Publishes to the wanted number; kills the node on the way, once.
async fn publish_until_lost(lab: &Lab, stream: &str, confirmed: &mut HashSet<String>) -> Outcome {
    let environment = when_there(lab).await?;
    let producer = timeout(STALLED, environment.producer().build(stream)).await??;
    let before = confirmed.len();
    while confirmed.len() < CONFIRMED_WANTED {
        let from = confirmed.len() as u64;
        let batch = numbers(from..from + BATCH as u64);
        timeout(STALLED, crate::lab::confirmed(&producer, &batch)).await??;
        confirmed.extend(batch);
        if before == 0 && confirmed.len() == CONFIRMED_BEFORE_KILL {
            lab.node.kill9().await?;
            lab.node.start().await?;
        }
    }
    Ok(())
}

async fn publish_when_there(lab: &Lab, stream: &str, texts: &[String]) -> Outcome {
    publish(&when_there(lab).await?, stream, texts).await
}

async fn when_there(lab: &Lab) -> Outcome<rabbitmq_stream_client::Environment> {
    let started = Instant::now();
    loop {
        match lab.environment().await {
            Ok(environment) => return Ok(environment),
            Err(failure) if started.elapsed() > RECONNECT => return Err(failure),
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// All texts up to "end", across connections: each consumer begins behind the last message seen.
async fn consume_until(lab: Arc<Lab>, stream: String) -> Outcome<HashSet<String>> {
    let (mut seen, mut next_offset) = (HashSet::new(), 0);
    loop {
        let environment = when_there(&lab).await?;
        let offset = OffsetSpecification::Offset(next_offset);
        let building = environment.consumer().offset(offset);
        let Ok(Ok(mut consumer)) = timeout(STALLED, building.build(&stream)).await else {
            continue;
        };
        while let Ok(Ok(delivery)) = timeout(WAIT, next(&mut consumer)).await {
            next_offset = delivery.offset() + 1;
            if text(delivery.message()) == "end" {
                return Ok(seen);
            }
            seen.insert(text(delivery.message()));
        }
    }
}
