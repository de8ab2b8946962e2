//! Streams: offsets and filters.

use crate::check::{self, Outcome, WAIT};
use crate::lab::*;
use crate::suite::Suite;
use fe2o3_amqp::types::messaging::{Properties, Source};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use serde_amqp::described::Described;
use serde_amqp::descriptor::Descriptor;
use std::sync::Arc;
use tokio::time::timeout;

const OFFSET: &str = "rabbitmq:stream-offset-spec";

pub fn register(suite: &mut Suite) {
    suite.add("stream-offsets", offsets);
    suite.add("property-filters", properties);
    suite.add("sql-filters", sql);
}

fn described(name: &str, value: Value) -> Described<Value> {
    Described { descriptor: Descriptor::Name(Symbol::from(name)), value }
}

/// The texts that a link with these filters gets first.
async fn read(
    peer: &mut Peer,
    stream: &str,
    filters: &[(&str, Value)],
    n: usize,
) -> Outcome<Vec<String>> {
    let mut source = Source::builder().address(address(stream));
    for (name, value) in filters {
        source = source.add_to_filter(*name, described(name, value.clone()));
    }
    let mut receiver = peer.receiver_of(source.build()).await?;
    let in_place = receiver.source().as_ref().and_then(|source| source.filter.as_ref());
    check::equal(filters.len(), in_place.map_or(0, |it| it.len()), "filters in place")?;
    let texts = take(&mut receiver, n).await?;
    timeout(WAIT, receiver.close()).await??;
    Ok(texts)
}

async fn offsets(lab: Arc<Lab>) -> Outcome {
    let stream = lab.queue_of("stream").await?;
    let mut peer = lab.peer().await?;
    peer.publish(&address(&stream), &numbers(0..20)).await?;
    for (spec, from) in [
        (Value::String("first".into()), 0),
        (Value::Ulong(15), 15),
        (Value::String("1h".into()), 0),
    ] {
        let texts = read(&mut peer, &stream, &[(OFFSET, spec)], 20 - from).await?;
        check::equal(numbers(from..20), texts, "bodies")?;
    }
    peer.end().await
}

/// A stream with the texts 0 to 99, every second one with the subject `order.eu`.
async fn filled(lab: &Lab, peer: &mut Peer) -> Outcome<String> {
    let stream = lab.queue_of("stream").await?;
    let mut sender = peer.sender(&address(&stream)).await?;
    for (at, text) in numbers(0..100).iter().enumerate() {
        let subject = if at % 2 == 0 { "order.us" } else { "order.eu" };
        let mut sent = message(text);
        sent.properties =
            Some(Properties { subject: Some(subject.into()), ..Properties::default() });
        timeout(WAIT, sender.send(sent)).await??;
    }
    Ok(stream)
}

async fn properties(lab: Arc<Lab>) -> Outcome {
    let mut peer = lab.peer().await?;
    let stream = filled(&lab, &mut peer).await?;
    let mut wanted = fe2o3_amqp::types::primitives::OrderedMap::new();
    wanted.insert(Value::Symbol(Symbol::from("subject")), Value::String("&s:.eu".into()));
    let filters =
        [(OFFSET, Value::String("first".into())), ("amqp:properties-filter", Value::Map(wanted))];
    let texts = read(&mut peer, &stream, &filters, 3).await?;
    check::equal(["1", "3", "5"].map(str::to_owned).to_vec(), texts, "what passes")?;
    peer.end().await
}

async fn sql(lab: Arc<Lab>) -> Outcome {
    let mut peer = lab.peer().await?;
    let stream = filled(&lab, &mut peer).await?;
    let name = "amqp:sql-filter";
    let source = Source::builder().address(address(&stream));
    let source = source.add_to_filter(OFFSET, described(OFFSET, Value::String("first".into())));
    let text = Value::String("p.subject LIKE '%.us'".into());
    let source = source.add_to_filter("sql-filter", described(name, text)).build();
    let mut receiver = peer.receiver_of(source).await?;
    let texts = take(&mut receiver, 3).await?;
    check::equal(["0", "2", "4"].map(str::to_owned).to_vec(), texts, "what passes")?;
    peer.end().await
}
