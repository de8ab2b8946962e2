//! Messages from publishers to consumers, and their outcomes.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use fe2o3_amqp::Sendable;
use fe2o3_amqp::types::definitions::{Fields, SenderSettleMode};
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Message, MessageAnnotations, MessageId, Modified, Outcome as Told,
    Properties,
};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Receiver, Sender};
use lapin::BasicProperties;
use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use std::sync::Arc;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("publish-consume", |lab| goes_through(lab, "classic"));
    suite.add("publish-consume-quorum", |lab| goes_through(lab, "quorum"));
    suite.add("settled-both-ways", settled);
    suite.add("bare-message-is-kept", bare_message);
    suite.add("from-amqp091", from_amqp091);
    suite.add("to-amqp091", to_amqp091);
    suite.add("outcomes", outcomes);
    suite.add("batch-outcomes", batch);
    suite.add("rejected-is-dead-lettered", dead_letters);
    suite.add("modified-annotations", modified_annotations);
    suite.add("unroutable-is-released", unroutable);
    suite.add("full-queue-rejects", full_queue);
    suite.add("topic-exchange", topic);
    suite.add("large-messages", large);
}

async fn goes_through(lab: Arc<Lab>, kind: &str) -> Outcome {
    let queue = lab.queue_of(kind).await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..N_MESSAGES)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let texts = take(&mut receiver, N_MESSAGES).await?;
    check::equal(numbers(0..N_MESSAGES), texts, "bodies")?;
    timeout(WAIT, receiver.close()).await??;
    lab.ready(&queue, 0).await?;
    peer.end().await
}

async fn settled(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    let name = peer.link_name();
    let builder = Sender::builder().name(name).target(address(&queue));
    let builder = builder.sender_settle_mode(SenderSettleMode::Settled);
    let mut sender = timeout(WAIT, builder.attach(&mut peer.session)).await??;
    for text in numbers(0..100) {
        let sendable = Sendable::builder().message(message(&text)).settled(true).build();
        timeout(WAIT, sender.send(sendable)).await??;
    }
    let name = peer.link_name();
    let builder = Receiver::builder().name(name).source(address(&queue));
    let builder = builder.sender_settle_mode(SenderSettleMode::Settled);
    let mut receiver = timeout(WAIT, builder.attach(&mut peer.session)).await??;
    let mut texts = Vec::new();
    for _ in 0..100 {
        texts.push(body(&next(&mut receiver).await?));
    }
    check::equal(numbers(0..100), texts, "bodies")?;
    peer.end().await?;
    lab.ready(&queue, 0).await
}

async fn bare_message(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("quorum").await?;
    let mut peer = lab.peer().await?;
    let properties = Properties {
        message_id: Some(MessageId::Ulong(7)),
        subject: Some("hares".into()),
        to: Some("somewhere".into()),
        content_type: Some(Symbol::from("text/plain")),
        group_id: Some("warren".into()),
        ..Properties::default()
    };
    let application = ApplicationProperties::builder().insert("ears", 2i32).insert("soft", true);
    let value = Value::List(vec![Value::Int(1), Value::String("two".into())]);
    let sent = Message::builder()
        .message_annotations(MessageAnnotations::builder().insert("x-mine", "yes").build())
        .properties(properties.clone())
        .application_properties(application.build())
        .value(value.clone())
        .build();
    let mut sender = peer.sender(&address(&queue)).await?;
    let outcome = timeout(WAIT, sender.send(sent)).await??;
    check::that(outcome.is_accepted(), format!("{outcome:?}"))?;
    let mut receiver = peer.receiver(&queue).await?;
    let given = next(&mut receiver).await?;
    check::equal(Some(&properties), given.message().properties.as_ref(), "properties")?;
    let ears = given.message().application_properties.as_ref().and_then(|it| it.0.get("ears"));
    check::equal("Some(Int(2))", format!("{ears:?}").as_str(), "a property")?;
    let told = format!("{:?}", given.body());
    check::that(told.contains("Int(1)") && told.contains("two"), &told)?;
    check::that(annotation(&given, "x-mine").contains("yes"), "the publisher's annotation")?;
    check::that(annotation(&given, "x-routing-key").contains(&queue), "the node's annotation")?;
    receiver.accept(&given).await?;
    peer.end().await
}

async fn from_amqp091(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut headers = FieldTable::default();
    headers.insert("ears".into(), AMQPValue::LongLongInt(2));
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_message_id("m".into())
        .with_reply_to("r".into())
        .with_delivery_mode(2);
    let channel = lab.channel().await?;
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), queue.as_str().into(), options, b"hello", properties).await?;
    let mut peer = lab.peer().await?;
    let mut receiver = peer.receiver(&queue).await?;
    let given = next(&mut receiver).await?;
    let properties = given.message().properties.clone().unwrap_or_default();
    let ears = given.message().application_properties.as_ref().and_then(|it| it.0.get("ears"));
    let found = format!("{} {ears:?} {:?}", body(&given), properties.reply_to);
    check::equal("hello Some(Long(2)) Some(\"/queues/r\")", found.as_str(), "message")?;
    check::equal(Some(MessageId::String("m".into())), properties.message_id, "id")?;
    receiver.accept(&given).await?;
    peer.end().await
}

async fn to_amqp091(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    let mut sent = message("hello");
    sent.properties = Some(Properties {
        message_id: Some(MessageId::String("m".into())),
        reply_to: Some("/queues/a%20b".into()),
        group_id: Some("warren".into()),
        ..Properties::default()
    });
    sent.application_properties =
        Some(ApplicationProperties::builder().insert("ears", 2i32).build());
    let mut sender = peer.sender(&address(&queue)).await?;
    timeout(WAIT, sender.send(sent)).await??;
    let channel = lab.channel().await?;
    let got = channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await?;
    let got = got.ok_or_else(|| Failure::new("no message"))?;
    check::equal(&b"hello"[..], &got.data[..], "body")?;
    let of = |text: &Option<lapin::types::ShortString>| text.as_ref().map(ToString::to_string);
    let found = [got.properties.message_id(), got.properties.reply_to()].map(of);
    check::equal([Some("m".to_owned()), Some("a b".to_owned())], found, "properties")?;
    check::equal(&Some(2), got.properties.delivery_mode(), "delivery mode")?;
    let ears = got.properties.headers().as_ref().and_then(|it| it.inner().get("ears"));
    check::equal(Some(&AMQPValue::LongInt(2)), ears, "header")?;
    peer.end().await
}

async fn outcomes(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("quorum").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..1)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let first = next(&mut receiver).await?;
    check::equal((true, 0), counts(&first), "the first time")?;
    receiver.release(&first).await?;
    let second = next(&mut receiver).await?;
    check::equal((false, 0), counts(&second), "the second time")?;
    receiver.modify(&second, modified(true, false)).await?;
    let third = next(&mut receiver).await?;
    check::equal((false, 1), counts(&third), "the third time")?;
    receiver.accept(&third).await?;
    timeout(WAIT, receiver.close()).await??;
    lab.ready(&queue, 0).await?;
    peer.end().await
}

fn modified(delivery_failed: bool, undeliverable_here: bool) -> Modified {
    Modified {
        delivery_failed: Some(delivery_failed),
        undeliverable_here: Some(undeliverable_here),
        message_annotations: None,
    }
}

async fn batch(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..60)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let mut given = Vec::new();
    for _ in 0..60 {
        given.push(next(&mut receiver).await?);
    }
    receiver.accept_all(given.iter().take(30)).await?;
    receiver.release_all(given.iter().skip(30)).await?;
    check::equal(numbers(30..60), take(&mut receiver, 30).await?, "the others")?;
    peer.end().await?;
    lab.ready(&queue, 0).await
}

async fn dead_letters(lab: Arc<Lab>) -> Outcome {
    let dead = lab.queue("dead", &[]).await?;
    let to = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dead))];
    let queue = lab.queue("q", &to).await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..2)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let first = next(&mut receiver).await?;
    receiver.reject(&first, None).await?;
    let second = next(&mut receiver).await?;
    receiver.modify(&second, modified(false, true)).await?;
    // The client reads no arrays of maps, which `x-opt-deaths` is.
    lab.ready(&dead, 2).await?;
    let (channel, options) = (lab.channel().await?, BasicGetOptions { no_ack: true });
    for (number, reason) in ["rejected", "rejected"].into_iter().enumerate() {
        let got = channel.basic_get(dead.as_str().into(), options).await?;
        let got = got.ok_or_else(|| Failure::new("no dead letter"))?;
        check::equal(number.to_string().as_bytes(), &got.data[..], "body")?;
        let headers = got.properties.headers().clone().unwrap_or_default();
        for (key, value) in [("x-first-death-reason", reason), ("x-first-death-queue", &queue)] {
            check::equal(Some(&text(value)), headers.inner().get(key), key)?;
        }
    }
    peer.end().await
}

async fn modified_annotations(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("quorum").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..1)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let mut annotations = Fields::new();
    annotations.insert(Symbol::from("x-by"), Value::String("rust".into()));
    let change = Modified { message_annotations: Some(annotations), ..modified(true, false) };
    let first = next(&mut receiver).await?;
    receiver.modify(&first, change).await?;
    let again = next(&mut receiver).await?;
    check::that(annotation(&again, "x-by").contains("rust"), "the annotation")?;
    receiver.accept(&again).await?;
    peer.end().await
}

async fn unroutable(lab: Arc<Lab>) -> Outcome {
    let mut peer = lab.peer().await?;
    let mut sender = peer.sender("/exchanges/amq.direct/nowhere").await?;
    let outcome = timeout(WAIT, sender.send(message("lost"))).await??;
    check::that(matches!(outcome, Told::Released(_)), format!("{outcome:?}"))?;
    peer.end().await
}

async fn full_queue(lab: Arc<Lab>) -> Outcome {
    let limits = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    let queue = lab.queue("q", &limits).await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&queue), &numbers(0..1)).await?;
    let mut sender = peer.sender(&address(&queue)).await?;
    let outcome = timeout(WAIT, sender.send(message("1"))).await??;
    let Told::Rejected(rejected) = outcome else {
        return Err(Failure::new(format!("{outcome:?}")));
    };
    check::that(format!("{rejected:?}").contains(&queue), format!("{rejected:?}"))?;
    peer.end().await
}

async fn topic(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let channel = lab.channel().await?;
    let options = QueueBindOptions::default();
    let key = format!("{queue}.*");
    let (from, table) = ("amq.topic".into(), FieldTable::default());
    channel.queue_bind(queue.as_str().into(), from, key.into(), options, table).await?;
    let mut peer = lab.peer().await?;
    peer.publish(&format!("/exchanges/amq.topic/{queue}.b%2Fc"), &numbers(0..1)).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let given = next(&mut receiver).await?;
    check::that(annotation(&given, "x-routing-key").contains(".b/c"), "key")?;
    receiver.accept(&given).await?;
    peer.end().await
}

async fn large(lab: Arc<Lab>) -> Outcome {
    let queue = lab.queue_of("classic").await?;
    let mut peer = lab.peer().await?;
    let texts = vec!["x".repeat(1_000_000); 3];
    peer.publish(&address(&queue), &texts).await?;
    let mut receiver = peer.receiver(&queue).await?;
    let found = take(&mut receiver, 3).await?;
    check::that(found == texts, "a body is another")?;
    peer.end().await
}
