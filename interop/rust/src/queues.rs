//! Kinds of queues, purging and deleting.

use crate::check::{self, Outcome};
use crate::exchanges::bind;
use crate::lab::*;
use crate::suite::Suite;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{Channel, ExchangeKind};
use std::sync::Arc;

pub fn register(suite: &mut Suite) {
    suite.add("queue-exclusive-405", exclusive_locked);
    suite.add("queue-exclusive-gone", exclusive_gone);
    suite.add("queue-server-named", server_named);
    suite.add("queue-auto-delete", auto_delete);
    suite.add("queue-purge", purge);
    suite.add("queue-delete-if-unused", delete_if_unused);
    suite.add("queue-delete-if-empty", delete_if_empty);
}

async fn declare_exclusive(channel: &Channel, queue: &str) -> lapin::Result<lapin::Queue> {
    let options = QueueDeclareOptions::exclusive();
    channel.queue_declare(queue.into(), options, FieldTable::default()).await
}

async fn exclusive_locked(lab: Arc<Lab>) -> Outcome {
    let owner = lab.peer().await?;
    let owning = owner.channel().await?;
    let queue = lab.name("q");
    declare_exclusive(&owning, &queue).await?;
    let other = lab.peer().await?;
    let locked = format!(
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'..."
    );
    let q = queue.as_str();
    let channel = other.channel().await?;
    other.channel_closes(405, &locked, passive(&channel, q)).await?;
    let channel = other.channel().await?;
    let options = BasicConsumeOptions::default();
    let consume = channel.basic_consume(q.into(), "".into(), options, FieldTable::default());
    other.channel_closes(405, &locked, consume).await?;
    let channel = other.channel().await?;
    let get = channel.basic_get(q.into(), BasicGetOptions::default());
    other.channel_closes(405, &locked, get).await?;
    let channel = other.channel().await?;
    let purge = channel.queue_purge(q.into(), QueuePurgeOptions::default());
    other.channel_closes(405, &locked, purge).await?;
    let channel = other.channel().await?;
    let delete = channel.queue_delete(q.into(), QueueDeleteOptions::default());
    other.channel_closes(405, &locked, delete).await?;
    publish_numbers(&other.channel().await?, q, 1).await?;
    ready(&owning, q, 1).await
}

async fn exclusive_gone(lab: Arc<Lab>) -> Outcome {
    let queue = lab.name("q");
    let first = lab.peer().await?;
    let channel = first.channel().await?;
    declare_exclusive(&channel, &queue).await?;
    publish_numbers(&channel, &queue, 2).await?;
    first.close().await?;
    let second = lab.peer().await?;
    let channel = second.channel().await?;
    let declared = declare_exclusive(&channel, &queue).await?;
    check::equal(0, declared.message_count(), "messages in the queue declared again")?;
    second.close().await?;
    let third = lab.peer().await?;
    gone(&third, &queue).await
}

async fn gone(peer: &Peer, queue: &str) -> Outcome {
    let channel = peer.channel().await?;
    let text = format!("NOT_FOUND - no queue '{queue}' in vhost '/'");
    peer.channel_closes(404, &text, passive(&channel, queue)).await
}

async fn server_named(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.exchange(&channel, "x", ExchangeKind::Fanout).await?;
    let declared = declare_exclusive(&channel, "").await?;
    let queue = declared.name().to_string();
    check::that(queue.starts_with("amq.gen-"), format!("queue name {queue}"))?;
    bind(&channel, "", &exchange, "").await?;
    let mut consumer = consume(&channel, "").await?;
    publish(&channel, &exchange, "k", "hello").await?;
    take_bodies(&mut consumer, &["hello"]).await?;
    passive(&channel, &queue).await?;
    let next = peer.channel().await?;
    let refusal = format!("ACCESS_REFUSED - queue name '{queue}'...");
    peer.channel_closes(403, &refusal, declare_exclusive(&next, &queue)).await
}

async fn auto_delete(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.name("q");
    let options = QueueDeclareOptions { durable: true, auto_delete: true, ..Default::default() };
    channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await?;
    lab.delete_queue_later(&queue);
    let first = consume(&channel, &queue).await?;
    let second = consume(&channel, &queue).await?;
    channel.basic_cancel(first.tag(), BasicCancelOptions::default()).await?;
    check::equal(1, passive(&channel, &queue).await?.consumer_count(), "consumers")?;
    channel.basic_cancel(second.tag(), BasicCancelOptions::default()).await?;
    gone(&peer, &queue).await
}

async fn purge(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 5).await?;
    get(&channel, &queue, "0", false).await?;
    get(&channel, &queue, "1", false).await?;
    let purged = channel.queue_purge(queue.as_str().into(), QueuePurgeOptions::default()).await?;
    check::equal(3, purged, "purged")?;
    channel.basic_nack(2, BasicNackOptions { multiple: true, requeue: true }).await?;
    ready(&channel, &queue, 2).await
}

async fn delete(
    channel: &Channel,
    queue: &str,
    if_unused: bool,
    if_empty: bool,
) -> lapin::Result<u32> {
    let options = QueueDeleteOptions { if_unused, if_empty, nowait: false };
    channel.queue_delete(queue.into(), options).await
}

async fn delete_if_unused(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let consumer = consume(&channel, &queue).await?;
    let refused = peer.channel().await?;
    let text = format!("PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use");
    peer.channel_closes(406, &text, delete(&refused, &queue, true, false)).await?;
    channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    delete(&channel, &queue, true, false).await?;
    gone(&peer, &queue).await
}

async fn delete_if_empty(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 1).await?;
    let refused = peer.channel().await?;
    let text = format!("PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty");
    peer.channel_closes(406, &text, delete(&refused, &queue, false, true)).await?;
    channel.queue_purge(queue.as_str().into(), QueuePurgeOptions::default()).await?;
    delete(&channel, &queue, false, true).await?;
    check::equal(0, delete(&channel, &queue, false, false).await?, "deleting a missing queue")?;
    gone(&peer, &queue).await
}
