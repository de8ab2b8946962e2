//! Confirms, returns, properties, sizes and transactions.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use lapin::options::*;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Channel};
use std::sync::Arc;
use tokio::time::timeout;

const BODY_ACCEPTED: usize = 15_000_000;
const BODY_REFUSED: usize = 20 * 1024 * 1024;

pub fn register(suite: &mut Suite) {
    suite.add("confirm-single", confirm_single);
    suite.add("confirm-batch", confirm_batch);
    suite.add("confirm-mixed", confirm_mixed);
    suite.add("confirm-multiple", confirm_multiple);
    suite.add("mandatory-return-before-ack", return_before_ack);
    suite.add("publish-missing-exchange-404", missing_exchange);
    suite.add("properties-intact", properties_intact);
    suite.add("body-15mb-intact", large_body);
    suite.add("body-20mb-refused", too_large_body);
    suite.add("tx-commit", tx_commit);
    suite.add("tx-rollback", tx_rollback);
}

async fn confirm_single(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    confirm_mode(&channel).await?;
    acked(publish(&channel, "", &queue, "routed").await?).await?;
    acked(publish(&channel, "", &lab.name("missing"), "unroutable").await?).await?;
    ready(&channel, &queue, 1).await
}

async fn confirm_batch(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    for _ in 0..10 {
        publish_numbers(&channel, &queue, 100).await?;
    }
    ready(&channel, &queue, 1000).await
}

async fn confirm_mixed(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let durable = lab.queue(&channel, "durable").await?;
    let exclusive = lab.name("exclusive");
    let options = QueueDeclareOptions::exclusive();
    channel.queue_declare(exclusive.as_str().into(), options, FieldTable::default()).await?;
    confirm_mode(&channel).await?;
    let mut confirms = Vec::new();
    for i in 0..500 {
        let queue = if i % 2 == 0 { &durable } else { &exclusive };
        let mode = if i / 2 % 2 == 0 { 1 } else { 2 };
        let properties = BasicProperties::default().with_delivery_mode(mode);
        confirms.push(
            channel
                .basic_publish(
                    "".into(),
                    queue.as_str().into(),
                    BasicPublishOptions::default(),
                    i.to_string().as_bytes(),
                    properties,
                )
                .await?,
        );
    }
    for confirm in confirms {
        acked(confirm).await?;
    }
    let numbers = |first: usize| (first..500).step_by(2).map(|i| i.to_string()).collect();
    let even: Vec<String> = numbers(0);
    let odd: Vec<String> = numbers(1);
    check::equal(even, drain(&channel, &durable).await?, "order in the durable queue")?;
    check::equal(odd, drain(&channel, &exclusive).await?, "order in the exclusive queue")
}

/// lapin keeps the raw acks to itself, but complains when a tag is settled twice or never.
async fn confirm_multiple(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    publish_numbers(&channel, &queue, 2000).await?;
    ready(&channel, &queue, 2000).await?;
    check::that(peer.connection.status().connected(), "the connection closed")
}

/// lapin pairs a return with the ack that follows it, so a late return shows as none.
async fn return_before_ack(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    confirm_mode(&channel).await?;
    let key = lab.name("missing");
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_correlation_id("c-1".into())
        .with_headers(table([("k", AMQPValue::LongInt(7))]));
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let confirm = channel
        .basic_publish("".into(), key.as_str().into(), options, b"back", properties.clone())
        .await?;
    let confirmation = timeout(WAIT, confirm).await??;
    check::that(confirmation.is_ack(), format!("expected an ack, got {confirmation:?}"))?;
    let returned =
        confirmation.take_message().ok_or_else(|| Failure::new("no return before the ack"))?;
    reply(312, "NO_ROUTE", returned.reply_code, returned.reply_text.as_str())?;
    check::equal("", returned.exchange.as_str(), "exchange")?;
    check::equal(key.as_str(), returned.routing_key.as_str(), "key")?;
    check::equal("back", body(&returned), "body")?;
    check::equal(properties, returned.delivery.properties, "properties")
}

async fn missing_exchange(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let exchange = lab.name("missing");
    let text = format!("NOT_FOUND - no exchange '{exchange}' in vhost '/'");
    peer.channel_closes(404, &text, publish(&channel, &exchange, "k", "lost")).await
}

async fn properties_intact(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let sent = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("gzip".into())
        .with_headers(every_header_type())
        .with_delivery_mode(2)
        .with_priority(7)
        .with_correlation_id("corr".into())
        .with_reply_to("reply".into())
        .with_expiration("600000".into())
        .with_message_id("m-1".into())
        .with_timestamp(1_700_000_000)
        .with_type("kind".into())
        .with_user_id(lab.node.user().into())
        .with_app_id("app".into());
    for (properties, payload) in [(sent, &b""[..]), (BasicProperties::default(), b"bare")] {
        let options = BasicPublishOptions::default();
        let key = queue.as_str().into();
        confirm_mode(&channel).await?;
        acked(channel.basic_publish("".into(), key, options, payload, properties.clone()).await?)
            .await?;
        let got =
            channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await?;
        let got = got.ok_or_else(|| Failure::new("nothing to get"))?;
        check::equal(payload, got.data.as_slice(), "body")?;
        check::equal(&properties, &got.properties, "properties")?;
    }
    Ok(())
}

fn every_header_type() -> FieldTable {
    let inner = table([("deep", text("value"))]);
    let list = vec![AMQPValue::LongInt(1), text("two"), AMQPValue::Void];
    table([
        ("bool", AMQPValue::Boolean(true)),
        ("i8", AMQPValue::ShortShortInt(-5)),
        ("u8", AMQPValue::ShortShortUInt(250)),
        ("i16", AMQPValue::ShortInt(-300)),
        ("u16", AMQPValue::ShortUInt(60_000)),
        ("i32", AMQPValue::LongInt(-70_000)),
        ("u32", AMQPValue::LongUInt(4_000_000_000)),
        ("i64", AMQPValue::LongLongInt(1 << 40)),
        ("f32", AMQPValue::Float(1.5)),
        ("f64", AMQPValue::Double(-2.25)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 1234 })),
        ("string", text("gr\u{fc}\u{df} dich")),
        ("bytes", AMQPValue::ByteArray(ByteArray::from(&[0, 1, 0xCE, 0xFF][..]))),
        ("time", AMQPValue::Timestamp(1_600_000_000)),
        ("null", AMQPValue::Void),
        ("list", AMQPValue::FieldArray(FieldArray::from(list))),
        ("table", AMQPValue::FieldTable(table([("inner", AMQPValue::FieldTable(inner))]))),
    ])
}

async fn publish_bytes(
    channel: &Channel,
    queue: &str,
    payload: &[u8],
) -> lapin::Result<lapin::PublisherConfirm> {
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), queue.into(), options, payload, persistent()).await
}

async fn large_body(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    // Octets without a pattern that would hide a swapped or repeated part.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let sent: Vec<u8> = (0..BODY_ACCEPTED)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect();
    confirm_mode(&channel).await?;
    acked(publish_bytes(&channel, &queue, &sent).await?).await?;
    let mut consumer = consume(&channel, &queue).await?;
    let got = take(&mut consumer).await?;
    check::that(got.data == sent, "the body has changed")
}

async fn too_large_body(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    let payload = vec![0; BODY_REFUSED];
    peer.channel_closes(
        406,
        "PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216",
        publish_bytes(&channel, &queue, &payload),
    )
    .await?;
    let next = peer.channel().await?;
    publish_numbers(&next, &queue, 1).await?;
    ready(&next, &queue, 1).await
}

async fn tx_commit(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let observer = peer.channel().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    channel.tx_select().await?;
    for i in 0..3 {
        publish(&channel, "", &queue, &i.to_string()).await?;
    }
    // The answer on the same channel shows that the server has read the publishes.
    passive(&channel, &queue).await?;
    let before = passive(&observer, &queue).await?.message_count();
    check::equal(0, before, "ready before commit")?;
    channel.tx_commit().await?;
    ready(&observer, &queue, 3).await?;
    let mut consumer = consume(&channel, &queue).await?;
    for delivery in take_bodies(&mut consumer, &["0", "1", "2"]).await? {
        delivery.ack(BasicAckOptions::default()).await?;
    }
    channel.tx_commit().await?;
    channel.close(200, "OK".into()).await?;
    get_all(&observer, &queue, &[], false).await
}

async fn tx_rollback(lab: Arc<Lab>) -> Outcome {
    let peer = lab.peer().await?;
    let observer = peer.channel().await?;
    let channel = peer.channel().await?;
    let queue = lab.queue(&channel, "q").await?;
    channel.tx_select().await?;
    publish(&channel, "", &queue, "no").await?;
    publish(&channel, "", &queue, "no").await?;
    channel.tx_rollback().await?;
    publish(&channel, "", &queue, "yes").await?;
    channel.tx_commit().await?;
    ready(&observer, &queue, 1).await?;
    get(&channel, &queue, "yes", false).await?.ack(BasicAckOptions::default()).await?;
    channel.tx_rollback().await?;
    let after = passive(&observer, &queue).await?.message_count();
    check::equal(0, after, "ready after rollback")?;
    channel.close(200, "OK".into()).await?;
    ready(&observer, &queue, 1).await?;
    get_all(&observer, &queue, &["yes"], true).await
}
