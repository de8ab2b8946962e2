//! Turns a configuration into connections with producers and consumers on them.

use anyhow::Context as _;
use streamproto::command::{
    Command as _, DeclarePublisher, Property, QueryOffset, QueryPublisherSequence, Subscribe,
};
use streamproto::list::Trailing;
use streamproto::{List, OffsetSpec, ResponseCode, ToClient};

use super::client::{Refused, StreamClient};
use super::config::{Config, Consuming, Producing};
use super::connection::{Connection, Opening, Role};
use super::consumer::{Consumer, Subscription};
use super::producer::Producer;
use super::topology;
use crate::clock;
use crate::connection::Phase;
use crate::message::Random;
use crate::rate::{RateLimiter, Schedule};

/// Size of a read, and the memory of the reads of all connections together, bytes.
const INPUT_BYTES: usize = 512 * 1024;
const INPUT_BYTES_MIN: usize = 16 * 1024;
const INPUTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection to make: its first producer or consumer, and how many there are on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Produce { first: usize, n: usize },
    Consume { first: usize, n: usize },
}

/// All parts, dealt out to threads in turn.
pub(super) fn parts(config: &Config) -> Vec<Vec<Part>> {
    let chunks =
        |n: usize, per: usize| (0..n).step_by(per).map(move |first| (first, per.min(n - first)));
    let Config { producing, consuming, .. } = config;
    let consume = chunks(consuming.n, consuming.per_connection);
    let produce = chunks(producing.n, producing.per_connection);
    let all: Vec<Part> = consume
        .map(|(first, n)| Part::Consume { first, n })
        .chain(produce.map(|(first, n)| Part::Produce { first, n }))
        .collect();
    let n_threads = config.run.n_threads.clamp(1, all.len().max(1));
    (0..n_threads).map(|at| all.iter().copied().skip(at).step_by(n_threads).collect()).collect()
}

/// Connects to the broker whose turn it is.
pub(super) fn dial(config: &Config, at: usize, name: &str) -> anyhow::Result<StreamClient> {
    let at = at.checked_rem(config.brokers.len()).unwrap_or(0);
    let uri = config.brokers.get(at).context("no broker")?;
    StreamClient::connect(uri, &config.link, name)
}

/// Connects, declares publishers, looks up where consumers begin. Consumers subscribe before the start
/// where somebody publishes, and with it where nobody does: what is received before it would raise the
/// rate.
pub(super) fn connect(config: &Config, id: &str, part: Part) -> anyhow::Result<Connection> {
    let (Part::Produce { first, n } | Part::Consume { first, n }) = part;
    let (agents, mut numbers) = (first..first + n, 0..=u8::MAX);
    let (client, role, subscribe) = match part {
        Part::Produce { .. } => {
            let mut client = dial(config, first, &format!("{id} producer {first}"))?;
            let producers = agents.map(|at| producer(config, &mut client, at, &mut numbers));
            let role = Role::Producing(producers.collect::<anyhow::Result<_>>()?);
            (client, role, Vec::new())
        }
        Part::Consume { .. } => {
            let mut client = dial(config, first, &format!("{id} consumer {first}"))?;
            let consumers = agents.map(|at| consumer(config, &mut client, at, &mut numbers));
            let consumers: Vec<Consumer> = consumers.collect::<anyhow::Result<_>>()?;
            let mut subscribe = Vec::new();
            for subscription in consumers.iter().flat_map(Consumer::subscriptions) {
                put_subscribe(config, subscription, &mut subscribe);
            }
            (client, Role::Consuming(consumers), subscribe)
        }
    };
    let n_connections = config.producing.n + config.consuming.n;
    let input_bytes = (INPUTS_BYTES_MAX / n_connections.max(1)).clamp(INPUT_BYTES_MIN, INPUT_BYTES);
    let begins_in = if config.producing.n > 0 { Phase::Consume } else { Phase::Run };
    Connection::new(client, role, Opening { subscribe, begins_in }, input_bytes)
}

fn stream_of(config: &Config, at: usize) -> anyhow::Result<&str> {
    let names = &config.streams.names;
    let name = names.get(at.checked_rem(names.len()).unwrap_or(0));
    name.map(String::as_str).context("no stream")
}

fn random(at: usize) -> u64 {
    Random(clock::now() ^ u64::try_from(at).unwrap_or_default() << 32).next()
}

fn producer(
    config: &Config,
    client: &mut StreamClient,
    at: usize,
    numbers: &mut impl Iterator<Item = u8>,
) -> anyhow::Result<Producer> {
    let Producing { names, .. } = &config.producing;
    let stream = stream_of(config, at)?;
    let reference = names.as_ref().map(|names| names.name(stream, at + 1, random(at)));
    let mut links = Vec::new();
    for part in topology::parts_of(client, &config.streams, stream)? {
        let publisher_id = numbers.next().context("too many publishers on a connection")?;
        let reference = reference.as_deref().unwrap_or_default();
        let what = format!("publisher on stream '{part}'");
        client.call(&what, |correlation_id| DeclarePublisher {
            correlation_id,
            publisher_id,
            reference,
            stream: &part,
        })?;
        let next_id = if reference.is_empty() { 0 } else { next_id(client, reference, &part)? };
        links.push((publisher_id, next_id));
    }
    // Producers of the same rate take turns, evenly spaced.
    let limiter = |rate: f64| {
        let turn_s = (at as f64) / (config.producing.n.max(1) as f64) / rate;
        RateLimiter::new(Schedule::constant(rate), clock::from_seconds(turn_s))
    };
    let rate = config.producing.rate.map(limiter);
    Producer::new(config.producing.clone(), rate, client.frame_max, &links)
}

/// The publishing id behind the last one that the broker knows of a named producer.
fn next_id(client: &mut StreamClient, reference: &str, stream: &str) -> anyhow::Result<u64> {
    let what = format!("sequence of producer '{reference}'");
    let frame = client.call(&what, |correlation_id| QueryPublisherSequence {
        correlation_id,
        reference,
        stream,
    })?;
    let answer = ToClient::decode(&frame)?;
    let ToClient::QueryPublisherSequenceResponse(answer) = answer else { return Ok(0) };
    Ok(if answer.sequence > 0 { answer.sequence + 1 } else { 0 })
}

fn consumer(
    config: &Config,
    client: &mut StreamClient,
    at: usize,
    numbers: &mut impl Iterator<Item = u8>,
) -> anyhow::Result<Consumer> {
    let Consuming { stores, single_active, offset, .. } = &config.consuming;
    let stream = stream_of(config, at)?;
    // Consumers that take turns have one name.
    let number = if *single_active { 1 } else { at + 1 };
    let reference = stores.as_ref().map(|(names, _)| names.name(stream, number, random(at)));
    let mut subscriptions = Vec::new();
    for part in topology::parts_of(client, &config.streams, stream)? {
        let id = numbers.next().context("too many subscriptions on a connection")?;
        let stored = match reference.as_deref().filter(|_| !single_active) {
            Some(reference) => stored_offset(client, reference, &part)?,
            None => None,
        };
        let offset = stored.map_or(*offset, |stored| OffsetSpec::Offset(stored.saturating_add(1)));
        subscriptions.push(Subscription::new(id, part, reference.clone(), offset));
    }
    Ok(Consumer::new(config.consuming.clone(), subscriptions))
}

fn stored_offset(
    client: &mut StreamClient,
    reference: &str,
    stream: &str,
) -> anyhow::Result<Option<u64>> {
    let what = format!("offset of consumer '{reference}'");
    let asked =
        client.call(&what, |correlation_id| QueryOffset { correlation_id, reference, stream });
    match asked {
        Ok(frame) => {
            let answer = ToClient::decode(&frame)?;
            let ToClient::QueryOffsetResponse(answer) = answer else { return Ok(None) };
            Ok(Some(answer.offset))
        }
        Err(error) => match error.downcast::<Refused>() {
            Ok(refused) if refused.code == ResponseCode::NO_OFFSET => Ok(None),
            Ok(refused) => Err(refused.into()),
            Err(error) => Err(error),
        },
    }
}

/// Adds the request for a subscription, which its answer names by the subscription's number.
fn put_subscribe(config: &Config, subscription: &Subscription, out: &mut Vec<u8>) {
    let Consuming { credits, single_active, filter_values, .. } = &config.consuming;
    let mut texts = Vec::new();
    if let Some(reference) = &subscription.reference {
        texts.push(("name".to_owned(), reference.clone()));
    }
    if *single_active {
        texts.push(("single-active-consumer".to_owned(), "true".to_owned()));
        if config.streams.partitions.is_some() {
            let name = subscription.stream.rsplit_once('-').map_or("", |(name, _)| name);
            texts.push(("super-stream".to_owned(), name.to_owned()));
        }
    }
    let filters = filter_values.iter().enumerate();
    texts.extend(filters.map(|(at, value)| (format!("filter.{at}"), value.clone())));
    let properties: Vec<Property<'_>> =
        texts.iter().map(|(key, value)| Property { key, value }).collect();
    Subscribe {
        correlation_id: subscription.id.into(),
        subscription_id: subscription.id,
        stream: &subscription.stream,
        offset: subscription.offset,
        credit: credits.initial,
        properties: Trailing(List::of(&properties)),
    }
    .encode_frame(out);
}
