//! What survives the end of the node's process, and how an application with lapin gets over it.
//!
//! With a reconnect loop and deadlines: lapin 4.12's own recovery may read the end of a killed
//! node's connection for ever instead of connecting again, and without it a delivery or an ack that
//! is waited for when the connection ends may never be answered.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::exchanges::{bind, bind_exchange, passive_exchange};
use crate::lab::*;
use crate::suite::Suite;
use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, ExchangeKind};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const PERSISTENT: usize = 1000;
const TRANSIENT: usize = 200;
const BATCH: usize = 20;
const CONFIRMS_BEFORE_KILL: usize = 300;
const CONFIRMS_WANTED: usize = 1000;
const RECONNECT: Duration = Duration::from_secs(30);
/// After so long without news a connection is given up.
const STALLED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

pub fn register(suite: &mut Suite) {
    suite.add("restart-durable-survives", |lab| survives(lab, Ending::Kill));
    suite.add("restart-clean-stop-survives", |lab| survives(lab, Ending::Stop));
    suite.add("restart-client-recovery", client_recovery);
}

enum Ending {
    Kill,
    Stop,
}

/// The definitions the restart scenarios look for afterwards.
struct Topology {
    source: String,
    exchange: String,
    queue: String,
    transient_queue: String,
}

fn needs_own_node(lab: &Lab) -> Outcome {
    if lab.node.restartable() {
        return Ok(());
    }
    Err(Failure::Skipped("the broker is not ours to restart"))
}

fn arguments() -> FieldTable {
    table([
        ("x-message-ttl", AMQPValue::LongInt(3_600_000)),
        ("x-max-length", AMQPValue::LongInt(100_000)),
    ])
}

async fn survives(lab: Arc<Lab>, ending: Ending) -> Outcome {
    needs_own_node(&lab)?;
    let topology = declare_and_fill(&lab).await?;
    match ending {
        Ending::Kill => lab.node.kill9().await?,
        Ending::Stop => lab.node.stop().await?,
    }
    lab.node.start().await?;
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    passive_exchange(&channel, &topology.source).await?;
    passive_exchange(&channel, &topology.exchange).await?;
    passive(&channel, &topology.queue).await?;
    lab.exchange(&channel, "source", ExchangeKind::Topic).await?;
    lab.queue_with(&channel, "q", arguments()).await?;
    check_contents(&channel, &topology.queue).await?;
    confirm_mode(&channel).await?;
    acked(publish(&channel, &topology.source, "a.b", "routed").await?).await?;
    check::equal(vec!["routed"], drain(&channel, &topology.queue).await?, "by the bindings")?;
    let gone = format!("NOT_FOUND - no queue '{}' in vhost '/'", topology.transient_queue);
    peer.channel_closes(404, &gone, passive(&channel, &topology.transient_queue)).await
}

async fn declare_and_fill(lab: &Lab) -> Outcome<Topology> {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let source = lab.exchange(&channel, "source", ExchangeKind::Topic).await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Direct).await?;
    bind_exchange(&channel, &exchange, &source, "a.#").await?;
    let queue = lab.queue_with(&channel, "q", arguments()).await?;
    bind(&channel, &queue, &exchange, "a.b").await?;
    let transient_queue = lab.name("transient");
    let options = QueueDeclareOptions::default();
    let name = transient_queue.as_str().into();
    channel.queue_declare(name, options, FieldTable::default()).await?;
    fill(&channel, &queue).await?;
    Ok(Topology { source, exchange, queue, transient_queue })
}

async fn fill(channel: &Channel, queue: &str) -> Outcome {
    confirm_mode(channel).await?;
    let mut confirms = Vec::new();
    for i in 0..PERSISTENT {
        let headers = table([("n", AMQPValue::LongInt(i32::try_from(i)?))]);
        let properties = persistent().with_headers(headers);
        confirms.push(send(channel, queue, &format!("persistent {i}"), properties).await?);
        if i % (PERSISTENT / TRANSIENT) == 0 {
            let properties = BasicProperties::default();
            confirms.push(send(channel, queue, "transient", properties).await?);
        }
    }
    for confirm in confirms {
        acked(confirm).await?;
    }
    Ok(())
}

async fn send(
    channel: &Channel,
    queue: &str,
    body: &str,
    properties: BasicProperties,
) -> lapin::Result<lapin::PublisherConfirm> {
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await
}

/// Every persistent message, in order, with its header; transient ones may be among them.
async fn check_contents(channel: &Channel, queue: &str) -> Outcome {
    let mut next = 0;
    while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
        if body(&got) == "transient" {
            continue;
        }
        check::equal(format!("persistent {next}"), body(&got), "message after the restart")?;
        let headers = table([("n", AMQPValue::LongInt(i32::try_from(next)?))]);
        check::equal(&Some(headers), got.properties.headers(), "headers")?;
        next += 1;
    }
    check::equal(PERSISTENT, next, "persistent messages after the restart")
}

/// What the consumer has been given.
#[derive(Default)]
struct Seen {
    bodies: HashSet<String>,
    unmarked: Vec<String>,
}

async fn client_recovery(lab: Arc<Lab>) -> Outcome {
    needs_own_node(&lab)?;
    let declaring = lab.peer().await?;
    let queue = lab.queue(&declaring.channel().await?, "q").await?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let consumed = tokio::spawn(keep_consuming(Arc::clone(&lab), queue.clone(), Arc::clone(&seen)));
    let outcome = publish_and_compare(&lab, &queue, &seen).await;
    consumed.abort();
    outcome
}

async fn publish_and_compare(lab: &Arc<Lab>, queue: &str, seen: &Mutex<Seen>) -> Outcome {
    let confirmed = publish_across_restart(lab, queue).await?;
    let started = Instant::now();
    loop {
        let missing = {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            confirmed.iter().filter(|body| !seen.bodies.contains(*body)).count()
        };
        if missing == 0 || started.elapsed() > WAIT {
            check::equal(0, missing, "confirmed messages never consumed")?;
            break;
        }
        sleep(POLL).await;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    check::that(
        seen.unmarked.is_empty(),
        format!("repeated without redelivered=true: {:?}", seen.unmarked),
    )
}

/// A connection to the node, as soon as it accepts one again.
async fn reconnected(lab: &Lab) -> Outcome<Peer> {
    let started = Instant::now();
    loop {
        match lab.peer().await {
            Ok(peer) => return Ok(peer),
            Err(failure) if started.elapsed() > RECONNECT => return Err(failure),
            Err(_) => sleep(POLL).await,
        }
    }
}

/// Acks everything and remembers it, with a new connection after each loss of one.
async fn keep_consuming(lab: Arc<Lab>, queue: String, seen: Arc<Mutex<Seen>>) -> Outcome {
    loop {
        let peer = reconnected(&lab).await?;
        // The node may be killed at any point of this; then the next connection goes on.
        let _lost = consume_until_lost(&peer, &queue, &seen).await;
        let _lost_too = timeout(STALLED, peer.close()).await;
    }
}

async fn consume_until_lost(peer: &Peer, queue: &str, seen: &Mutex<Seen>) -> Outcome {
    let channel = peer.channel().await?;
    channel.basic_qos(50, BasicQosOptions::default()).await?;
    let mut consumer = consume(&channel, queue).await?;
    while let Some(delivery) = timeout(STALLED, consumer.next()).await? {
        let delivery = delivery?;
        {
            let text = body(&delivery);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.bodies.insert(text.clone()) && !delivery.redelivered {
                seen.unmarked.push(text);
            }
        }
        // An ack that is lost with the connection means that the message comes again.
        timeout(STALLED, delivery.ack(BasicAckOptions::default())).await??;
    }
    Ok(())
}

/// Publishes until enough is confirmed; the restart begins in between.
async fn publish_across_restart(lab: &Arc<Lab>, queue: &str) -> Outcome<Vec<String>> {
    let mut peer = lab.peer().await?;
    let mut channel = peer.channel().await?;
    confirm_mode(&channel).await?;
    let mut confirmed: Vec<String> = Vec::new();
    let mut lost = 0;
    let mut restart: Option<JoinHandle<Outcome>> = None;
    while confirmed.len() < CONFIRMS_WANTED || lost == 0 {
        if confirmed.len() >= CONFIRMS_BEFORE_KILL && restart.is_none() {
            let node = Arc::clone(&lab.node);
            restart = Some(tokio::spawn(async move {
                node.kill9().await?;
                node.start().await
            }));
        }
        // A batch sent again carries other texts, so that a text seen twice was delivered twice.
        let batch: Vec<String> =
            (0..BATCH).map(|i| format!("{} after {lost}", confirmed.len() + i)).collect();
        match timeout(STALLED, publish_batch(&channel, queue, &batch)).await {
            Ok(Ok(())) => confirmed.extend(batch),
            Ok(Err(_)) | Err(_) => {
                lost += 1;
                peer = reconnected(lab).await?;
                channel = peer.channel().await?;
                confirm_mode(&channel).await?;
            }
        }
    }
    if let Some(restart) = restart {
        restart.await??;
    }
    Ok(confirmed)
}

async fn publish_batch(channel: &Channel, queue: &str, batch: &[String]) -> lapin::Result<()> {
    let mut confirms = Vec::with_capacity(batch.len());
    for text in batch {
        confirms.push(publish(channel, "", queue, text).await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    Ok(())
}
