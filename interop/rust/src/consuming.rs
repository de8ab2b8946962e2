//! Deliveries, acknowledgements, and consumers.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Consumer};
use std::sync::Arc;
use tokio::time::timeout;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";

pub fn register(suite: &mut Suite) {
    suite.add("consume-prefetch", prefetch);
    suite.add("qos-per-consumer", qos_per_consumer);
    suite.add("ack-multiple", ack_multiple);
    suite.add("nack-requeue-order", nack_requeue_order);
    suite.add("nack-discard", nack_discard);
    suite.add("reject-requeue", reject_requeue);
    suite.add("reject-discard", reject_discard);
    suite.add("basic-get", basic_get);
    suite.add("basic-get-empty", basic_get_empty);
    suite.add("basic-recover", basic_recover);
    suite.add("unknown-delivery-tag-406", unknown_delivery_tag);
    suite.add("consumer-cancel", cancel);
    suite.add("consumer-cancel-notify", cancel_notify);
    suite.add("consumer-exclusive-403", exclusive_consumer);
    suite.add("consumer-priority", priority);
    suite.add("consumer-tag-server-made", server_made_tag);
    suite.add("direct-reply-to", direct_reply_to);
}

async fn qos(channel: &Channel, count: u16) -> Outcome {
    Ok(channel.basic_qos(count, BasicQosOptions::default()).await?)
}

async fn prefetch(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 20).await?;
    let consuming = peer.channel().await?;
    qos(&consuming, 5).await?;
    let mut consumer = consume(&consuming, &queue).await?;
    for i in 0..20_u64 {
        if i == 5 {
            ready(&channel, &queue, 15).await?;
            check::that(!has_more(&mut consumer).await, "a delivery beyond the prefetch")?;
        }
        if i >= 5 {
            consuming.basic_ack(i - 4, BasicAckOptions::default()).await?;
        }
        let got = take(&mut consumer).await?;
        check::equal(i.to_string(), body(&got), "body")?;
        check::equal(i + 1, got.delivery_tag, "delivery tag")?;
        check::that(!got.redelivered, format!("redelivered is set on {i}"))?;
    }
    Ok(())
}

async fn qos_per_consumer(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let first = lab.queue(&channel, "qa").await?;
    let second = lab.queue(&channel, "qb").await?;
    publish_numbers(&channel, &first, 10).await?;
    publish_numbers(&channel, &second, 10).await?;
    let consuming = peer.channel().await?;
    qos(&consuming, 2).await?;
    let mut a = consume(&consuming, &first).await?;
    qos(&consuming, 3).await?;
    let mut b = consume(&consuming, &second).await?;
    take_bodies(&mut a, &["0", "1"]).await?;
    take_bodies(&mut b, &["0", "1", "2"]).await?;
    ready(&channel, &first, 8).await?;
    ready(&channel, &second, 7).await?;
    let more = has_more(&mut a).await || has_more(&mut b).await;
    check::that(!more, "a delivery beyond the prefetch")
}

async fn ack_multiple(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 10).await?;
    let consuming = peer.channel().await?;
    let mut consumer = consume(&consuming, &queue).await?;
    for _ in 0..10 {
        take(&mut consumer).await?;
    }
    consuming.basic_ack(7, BasicAckOptions { multiple: true }).await?;
    consuming.close(200, "OK".into()).await?;
    ready(&channel, &queue, 3).await?;
    get_all(&channel, &queue, &["7", "8", "9"], true).await
}

async fn nack_requeue_order(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 5).await?;
    let mut consumer = consume(&channel, &queue).await?;
    take_bodies(&mut consumer, &["0", "1", "2", "3", "4"]).await?;
    channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    channel.basic_nack(2, BasicNackOptions { multiple: false, requeue: true }).await?;
    channel.basic_nack(0, BasicNackOptions { multiple: true, requeue: true }).await?;
    ready(&channel, &queue, 5).await?;
    get_all(&channel, &queue, &["0", "1", "2", "3", "4"], true).await
}

async fn nack_discard(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 3).await?;
    let consuming = peer.channel().await?;
    let mut consumer = consume(&consuming, &queue).await?;
    take_bodies(&mut consumer, &["0", "1", "2"]).await?;
    consuming.basic_nack(3, BasicNackOptions { multiple: true, requeue: false }).await?;
    consuming.close(200, "OK".into()).await?;
    get_all(&channel, &queue, &[], false).await
}

async fn reject_requeue(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 2).await?;
    let first = get(&channel, &queue, "0", false).await?;
    get(&channel, &queue, "1", false).await?;
    first.reject(BasicRejectOptions { requeue: true }).await?;
    ready(&channel, &queue, 1).await?;
    get(&channel, &queue, "0", true).await?;
    Ok(())
}

async fn reject_discard(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 1).await?;
    let getting = peer.channel().await?;
    let got = get(&getting, &queue, "0", false).await?;
    got.reject(BasicRejectOptions { requeue: false }).await?;
    getting.close(200, "OK".into()).await?;
    get_all(&channel, &queue, &[], false).await
}

async fn basic_get(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 3).await?;
    let getting = peer.channel().await?;
    let first = get(&getting, &queue, "0", false).await?;
    check::equal(2, first.message_count, "message-count of the first get-ok")?;
    check::equal(1, first.delivery_tag, "first delivery tag")?;
    let second = getting.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await?;
    let second = second.ok_or_else(|| Failure::new("nothing to get"))?;
    check::equal(1, second.message_count, "message-count of the second get-ok")?;
    check::equal("1", body(&second), "second body")?;
    getting.close(200, "OK".into()).await?;
    ready(&channel, &queue, 2).await?;
    get(&channel, &queue, "0", true).await?;
    get(&channel, &queue, "2", false).await?;
    Ok(())
}

async fn basic_get_empty(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    get_all(&channel, &queue, &[], false).await
}

async fn basic_recover(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 3).await?;
    for expected in ["0", "1", "2"] {
        get(&channel, &queue, expected, false).await?;
    }
    channel.basic_recover(BasicRecoverOptions { requeue: true }).await?;
    ready(&channel, &queue, 3).await?;
    get_all(&channel, &queue, &["0", "1", "2"], true).await
}

async fn unknown_delivery_tag(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let fresh = peer.channel().await?;
    let ack = fresh.basic_ack(99, BasicAckOptions::default());
    peer.channel_closes(406, "PRECONDITION_FAILED - unknown delivery tag 99", ack).await?;
    let twice = peer.channel().await?;
    let queue = lab.queue(&twice, "q").await?;
    publish_numbers(&twice, &queue, 1).await?;
    get(&twice, &queue, "0", false).await?;
    twice.basic_ack(1, BasicAckOptions::default()).await?;
    let again = twice.basic_ack(1, BasicAckOptions::default());
    peer.channel_closes(406, "PRECONDITION_FAILED - unknown delivery tag 1", again).await
}

async fn cancel(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 4).await?;
    let consuming = peer.channel().await?;
    qos(&consuming, 2).await?;
    let mut consumer = consume(&consuming, &queue).await?;
    take_bodies(&mut consumer, &["0", "1"]).await?;
    consuming.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    consuming.basic_ack(1, BasicAckOptions::default()).await?;
    consuming.basic_ack(2, BasicAckOptions::default()).await?;
    // The answer on the same channel shows that both acks were read and accepted.
    check::equal(2, passive(&consuming, &queue).await?.message_count(), "ready")?;
    // After its cancellation the consumer ends, and no delivery comes before that.
    let end = timeout(WAIT, consumer.next()).await?;
    check::that(end.is_none(), "a delivery after cancel-ok")
}

async fn cancel_notify(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let consuming = lab.peer().await?;
    let notified = consuming.channel().await?;
    let mut consumer = consume(&notified, &queue).await?;
    channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    let end = timeout(WAIT, consumer.next()).await?;
    check::that(end.is_none(), "something else than a cancellation")?;
    lab.queue(&notified, "again").await?;
    Ok(())
}

async fn exclusive_consumer(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let taken = lab.queue(&channel, "q").await?;
    let owned = lab.queue(&channel, "q2").await?;
    let exclusive = BasicConsumeOptions { exclusive: true, ..Default::default() };
    let refusal =
        |queue: &str| format!("ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use");
    let _shared = consume(&channel, &taken).await?;
    let late = peer.channel().await?;
    let second =
        late.basic_consume(taken.as_str().into(), "".into(), exclusive, FieldTable::default());
    peer.channel_closes(403, &refusal(&taken), second).await?;
    let _owner = consume_with(&channel, &owned, exclusive, FieldTable::default()).await?;
    let late = peer.channel().await?;
    let options = BasicConsumeOptions::default();
    let second =
        late.basic_consume(owned.as_str().into(), "".into(), options, FieldTable::default());
    peer.channel_closes(403, &refusal(&owned), second).await
}

async fn priority(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let (low_channel, high_channel) = (peer.channel().await?, peer.channel().await?);
    let mut low = prioritized(&low_channel, &queue, 1).await?;
    let mut high = prioritized(&high_channel, &queue, 10).await?;
    publish_numbers(&channel, &queue, 6).await?;
    let first = take_bodies(&mut high, &["0", "1"]).await?;
    take_bodies(&mut low, &["2", "3"]).await?;
    ready(&channel, &queue, 2).await?;
    first[0].ack(BasicAckOptions::default()).await?;
    take_bodies(&mut high, &["4"]).await?;
    ready(&channel, &queue, 1).await?;
    let more = has_more(&mut low).await || has_more(&mut high).await;
    check::that(!more, "a delivery beyond the prefetch")
}

async fn prioritized(channel: &Channel, queue: &str, priority: i32) -> Outcome<Consumer> {
    qos(channel, 2).await?;
    let arguments = table([("x-priority", AMQPValue::LongInt(priority))]);
    consume_with(channel, queue, BasicConsumeOptions::default(), arguments).await
}

async fn server_made_tag(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let consumer = consume(&channel, &queue).await?;
    let tag = consumer.tag();
    check::that(tag.as_str().starts_with("amq.ctag-"), format!("consumer tag {tag}"))
}

async fn direct_reply_to(lab: Arc<Lab>) -> Outcome {
    let (server, client) = (lab.peer().await?, lab.peer().await?);
    let serving = server.channel().await?;
    let queue = lab.queue(&serving, "q").await?;
    let no_ack = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut requests = consume_with(&serving, &queue, no_ack, FieldTable::default()).await?;
    let asking = client.channel().await?;
    let mut replies = consume_with(&asking, REPLY_TO, no_ack, FieldTable::default()).await?;
    let ask =
        BasicProperties::default().with_reply_to(REPLY_TO.into()).with_correlation_id("c-7".into());
    let options = BasicPublishOptions::default();
    asking.basic_publish("".into(), queue.as_str().into(), options, b"ping", ask).await?;
    let asked = take(&mut requests).await?.properties;
    let reply_to =
        asked.reply_to().clone().ok_or_else(|| Failure::new("no reply-to in the request"))?;
    let prefix = format!("{REPLY_TO}.");
    check::that(reply_to.as_str().starts_with(&prefix), format!("reply-to {reply_to}"))?;
    let correlation =
        asked.correlation_id().clone().ok_or_else(|| Failure::new("no correlation-id"))?;
    let answer = BasicProperties::default().with_correlation_id(correlation);
    serving.basic_publish("".into(), reply_to, options, b"pong", answer).await?;
    let reply = take(&mut replies).await?;
    check::equal("pong", body(&reply), "reply")?;
    check::equal(&Some("c-7".into()), reply.properties.correlation_id(), "correlation-id")
}
