//! Where consumers begin.

use crate::check::{self, Outcome};
use crate::lab::*;
use crate::suite::Suite;
use rabbitmq_stream_client::Environment;
use rabbitmq_stream_client::types::OffsetSpecification;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn register(suite: &mut Suite) {
    suite.add("stream-offset-first", first);
    suite.add("stream-offset-number", number);
    suite.add("stream-offset-last", last);
    suite.add("stream-offset-next", next_ones);
    suite.add("stream-offset-timestamp", timestamp);
    suite.add("stream-offset-stored", stored);
}

async fn first(lab: Arc<Lab>) -> Outcome {
    from(lab, OffsetSpecification::First, 0).await
}

async fn number(lab: Arc<Lab>) -> Outcome {
    from(lab, OffsetSpecification::Offset(777), 777).await
}

/// What is read from the offset on begins with the message of this number.
async fn from(lab: Arc<Lab>, offset: OffsetSpecification, begin: u64) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.filled(&environment).await?;
    let expected = numbers(begin..N_MESSAGES);
    let seen = read(&environment, &stream, offset, expected.len()).await?;
    check::equal(expected, seen, "messages")
}

async fn last(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.filled(&environment).await?;
    publish(&environment, &stream, &["last".into()]).await?;
    let seen = read(&environment, &stream, OffsetSpecification::Last, 1).await?;
    check::equal(vec!["last"], seen, "messages")
}

fn ten_more() -> Vec<String> {
    numbers(N_MESSAGES..N_MESSAGES + 10)
}

async fn next_ones(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.filled(&environment).await?;
    let building = environment.consumer().offset(OffsetSpecification::Next);
    let mut consumer = building.build(&stream).await?;
    publish(&environment, &stream, &ten_more()).await?;
    check::equal(ten_more(), take(&mut consumer, 10).await?, "messages")?;
    Ok(consumer.handle().close().await?)
}

async fn timestamp(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.filled(&environment).await?;
    let since = later_ms()?;
    publish(&environment, &stream, &ten_more()).await?;
    let offset = OffsetSpecification::Timestamp(since);
    check::equal(ten_more(), read(&environment, &stream, offset, 10).await?, "messages")
}

/// The time once the clock has passed what it says now.
fn later_ms() -> Outcome<i64> {
    let now_ms = || -> Outcome<i64> {
        Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
    };
    let begun = now_ms()?;
    loop {
        let now = now_ms()?;
        if now > begun + 1 {
            return Ok(now);
        }
    }
}

/// A consumer stores an offset and ends; another of its name goes on behind it.
async fn stored(lab: Arc<Lab>) -> Outcome {
    let environment = lab.environment().await?;
    let stream = lab.filled(&environment).await?;
    let storing = named(&environment).build(&stream).await?;
    storing.store_offset(499).await?;
    storing.handle().close().await?;
    let asking = named(&environment).build(&stream).await?;
    let offset = asking.query_offset().await?;
    asking.handle().close().await?;
    check::equal(499, offset, "stored offset")?;
    let going_on = named(&environment).offset(OffsetSpecification::Offset(offset + 1));
    let mut consumer = going_on.build(&stream).await?;
    let expected = numbers(500..N_MESSAGES);
    check::equal(expected.clone(), take(&mut consumer, expected.len()).await?, "messages")?;
    Ok(consumer.handle().close().await?)
}

fn named(environment: &Environment) -> rabbitmq_stream_client::ConsumerBuilder {
    environment.consumer().name("reader")
}
