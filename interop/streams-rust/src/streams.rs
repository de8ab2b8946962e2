//! Streams as they are declared, and what is published to them.

use crate::check::{self, Failure, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use rabbitmq_stream_client::error::{StreamCreateError, StreamDeleteError};
use rabbitmq_stream_client::types::{Message, OffsetSpecification, ResponseCode};
use rabbitmq_stream_client::{Environment, FilterConfiguration};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

pub fn register(suite: &mut Suite) {
    suite.add("stream-declare-delete", declare_delete);
    suite.add("stream-publish-confirm", publish_confirm);
    suite.add("stream-deduplication", deduplication);
    suite.add("stream-filter", filter);
}

async fn declare_delete(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    let again = environment.stream_creator().create(&stream).await;
    refused(again, ResponseCode::StreamAlreadyExists)?;
    let other = environment.stream_creator().max_age(Duration::from_secs(60));
    refused(other.create(&stream).await, ResponseCode::PreconditionFailed)?;
    environment.delete_stream(&stream).await?;
    match environment.delete_stream(&stream).await {
        Err(StreamDeleteError::Delete { status: ResponseCode::StreamDoesNotExist, .. }) => Ok(()),
        other => Err(Failure::new(format!("a second delete: {other:?}"))),
    }
}

fn refused(declared: Result<(), StreamCreateError>, code: ResponseCode) -> Outcome {
    match declared {
        Err(StreamCreateError::Create { status, .. }) if status == code => Ok(()),
        other => Err(Failure::new(format!("expected {code:?}, got {other:?}"))),
    }
}

async fn publish_confirm(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    let texts = numbers(0..10_000);
    publish(&environment, &stream, &texts).await?;
    let seen = read(&environment, &stream, OffsetSpecification::First, texts.len()).await?;
    check::equal(texts, seen, "messages")
}

async fn deduplication(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    for begin in [0, 50] {
        let mut producer = environment.producer().name("writer").build(&stream).await?;
        let messages: Vec<Message> = (begin..begin + 100)
            .map(|id| Message::builder().body(id.to_string()).publishing_id(id).build())
            .collect();
        let statuses = timeout(WAIT, producer.batch_send_with_confirm(messages)).await??;
        check::equal(100, statuses.len(), "confirms")?;
        producer.close().await?;
    }
    publish(&environment, &stream, &["marker".into()]).await?;
    let mut expected = numbers(0..150);
    expected.push("marker".into());
    let seen = read(&environment, &stream, OffsetSpecification::First, expected.len()).await?;
    check::equal(expected, seen, "messages")
}

/// Each wave is a chunk or several of one filter value: those of another are passed over.
async fn filter(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.stream(&environment).await?;
    for region in ["north", "south", "none", "north"] {
        let mut building = environment.producer();
        if region != "none" {
            building = building.filter_value_extractor(text);
        }
        publish_by(building.build(&stream).await?, &vec![region.into(); 200]).await?;
    }
    let north = vec!["north".to_owned(); 200];
    let none = vec!["none".to_owned(); 200];
    let alone = filtered(&environment, &stream, false, 400).await?;
    check::equal([&north[..], &north[..]].concat(), alone, "north alone")?;
    let both = filtered(&environment, &stream, true, 600).await?;
    let expected = [&north[..], &none[..], &north[..]].concat();
    check::equal(expected, both, "north, and what has no value")
}

/// Without a filter of the client's own: what is left out, the broker left out.
async fn filtered(
    environment: &Environment,
    stream: &str,
    unfiltered: bool,
    n: usize,
) -> Outcome<Vec<String>> {
    let mut consumer = environment
        .consumer()
        .offset(OffsetSpecification::First)
        .filter_input(Some(FilterConfiguration::new(vec!["north".into()], unfiltered)))
        .build(stream)
        .await?;
    let texts = take(&mut consumer, n).await?;
    consumer.handle().close().await?;
    Ok(texts)
}
