//! What survives the end of the node's process, and how lapin gets over it.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::exchanges::{bind, bind_exchange, passive_exchange};
use crate::lab::*;
use crate::suite::Suite;
use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, ConnectionProperties, Consumer, ExchangeKind};
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
const RECONNECT_MIN: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_millis(200);
const RECONNECT_TIMES: usize = 200;
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
    let consuming = recovering(&lab).await?;
    let channel = consuming.channel().await?;
    channel.basic_qos(50, BasicQosOptions::default()).await?;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let consumer = consume(&channel, &queue).await?;
    let consumed = tokio::spawn(keep_consuming(channel, consumer, Arc::clone(&seen)));
    let publishing = recovering(&lab).await?;
    let outcome = publish_and_compare(&lab, &publishing, &queue, &seen).await;
    consumed.abort();
    outcome
}

async fn publish_and_compare(
    lab: &Arc<Lab>,
    publishing: &Peer,
    queue: &str,
    seen: &Mutex<Seen>,
) -> Outcome {
    let confirmed = publish_across_restart(lab, publishing, queue).await?;
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

/// A connection with lapin's own recovery.
async fn recovering(lab: &Lab) -> Outcome<Peer> {
    let properties = ConnectionProperties::default().enable_auto_recover().configure_backoff(|b| {
        b.with_min_delay(RECONNECT_MIN)
            .with_max_delay(RECONNECT_MAX)
            .with_max_times(RECONNECT_TIMES)
    });
    Peer::connect_with(&lab.uri("%2f"), properties).await
}

/// Acks everything and remembers it, across the loss of the connection.
async fn keep_consuming(channel: Channel, mut consumer: Consumer, seen: Arc<Mutex<Seen>>) {
    while let Some(delivery) = consumer.next().await {
        match delivery {
            Ok(delivery) => {
                {
                    let text = body(&delivery);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    if !seen.bodies.insert(text.clone()) && !delivery.redelivered {
                        seen.unmarked.push(text);
                    }
                }
                // An ack that is lost with the connection means that the message comes again.
                let _lost_or_sent = delivery.ack(BasicAckOptions::default()).await;
            }
            Err(error) => {
                if channel.wait_for_recovery(error).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Publishes until enough is confirmed; the restart begins in between.
async fn publish_across_restart(
    lab: &Arc<Lab>,
    publishing: &Peer,
    queue: &str,
) -> Outcome<Vec<String>> {
    let channel = publishing.channel().await?;
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
        match publish_batch(&channel, queue, &batch).await {
            Ok(()) => confirmed.extend(batch),
            Err(error) => {
                lost += 1;
                timeout(3 * WAIT, channel.wait_for_recovery(error)).await??;
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
