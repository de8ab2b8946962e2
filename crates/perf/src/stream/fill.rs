//! `perf stream-fill`: streams whose chunks hold exactly so many messages.
//!
//! A broker makes a chunk of what has come since it wrote the last one. So a stream has one publish
//! frame on its way at a time, which holds the messages of one chunk, and the next one follows its
//! confirm; streams that are filled together do not wait for each other. Brokers that take the messages
//! of a frame one by one may still part them, which the read-back shows.

mod read_back;

use std::str::FromStr;

use anyhow::{Context as _, bail};
use serde_json::json;
use streamproto::command::DeclarePublisher;
use streamproto::{Key, ResponseCode, ToClient};

use super::client::{Refused, StreamClient};
use super::config::{BODY_BYTES_MIN, Producing, arguments, brokers};
use super::connection::refusal;
use super::producer::Producer;
use super::topology;
use crate::clock;
use crate::config::Format;
use crate::config::values::{invalid, list, number};
use crate::options::{Given, Usage};
use crate::publisher::Staged;
use crate::run::{End, say};
use crate::stats::Sample;
use client::Link;
use client::Uri;
use read_back::Chunks;

/// Streams that are filled together, at most: publishers have a number of one byte.
const STREAMS_MAX: usize = 255;

/// A run of the filler.
#[derive(Debug)]
pub(super) struct Fill {
    broker: Uri,
    streams: Vec<Target>,
    n_messages: u64,
    arguments: Vec<(&'static str, String)>,
    replaces: bool,
    publishes: bool,
    verifies: bool,
    pub(super) format: Format,
}

/// A stream to fill.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    name: String,
    size: usize,
    chunk: usize,
}

/// Values separated by commas, one for each of `n`, or one for all.
fn each<T: FromStr + Copy>(
    given: &Given,
    long: &str,
    default: T,
    n: usize,
) -> Result<Vec<T>, Usage> {
    let texts = list(given, long);
    let values = texts.iter().map(|text| text.parse().map_err(|_| invalid(long, text)));
    let values: Vec<T> = values.collect::<Result<_, _>>()?;
    match values.as_slice() {
        [] => Ok(vec![default; n]),
        [one] => Ok(vec![*one; n]),
        all if all.len() == n => Ok(values),
        _ => Err(Usage(format!("--{long} has one value, or one for each stream"))),
    }
}

impl Fill {
    pub(super) fn new(given: &Given) -> Result<Self, Usage> {
        let mut names = list(given, "stream");
        if names.is_empty() {
            names.push("stream".to_owned());
        }
        if names.len() > STREAMS_MAX {
            return Err(Usage(format!("at most {STREAMS_MAX} streams are filled together")));
        }
        let sizes = each(given, "size", 12, names.len())?;
        let chunks = each(given, "chunk", 1, names.len())?;
        if let Some(chunk) = chunks.iter().find(|n| !(1..=usize::from(u16::MAX)).contains(*n)) {
            return Err(invalid("chunk", &chunk.to_string()));
        }
        let target = |((name, size), chunk): ((String, usize), usize)| Target {
            name,
            size: size.max(BODY_BYTES_MIN),
            chunk,
        };
        let streams = names.into_iter().zip(sizes).zip(chunks).map(target).collect();
        let broker = brokers(given)?.into_iter().next();
        Ok(Self {
            broker: broker.ok_or_else(|| invalid("uris", ""))?,
            streams,
            n_messages: number(given, "messages", 3_000_000)?,
            arguments: arguments(given, None)?,
            replaces: given.has("replace"),
            publishes: !given.has("read-only"),
            verifies: !given.has("no-verify"),
            format: if given.has("json") { Format::Json } else { Format::Default },
        })
    }

    /// Fills and reads back, which is good if all messages came.
    pub(super) fn run(&self) -> anyhow::Result<End> {
        let began_at = clock::now();
        if self.publishes {
            let mut client = self.connect()?;
            for target in &self.streams {
                self.create(&mut client, target)?;
            }
            Filling::new(client, &self.streams, self.n_messages)?.run()?;
        }
        let seconds = (clock::now() - began_at) as f64 / 1e9;
        if self.format != Format::Json && self.publishes {
            let n = self.streams.len();
            say(&format!(
                "{n} streams, {} messages each, filled in {seconds:.2} s",
                self.n_messages
            ))?;
        }
        let n_expected = if self.publishes { self.n_messages } else { u64::MAX };
        let mut told = Vec::new();
        let mut is_good = true;
        for target in self.streams.iter().filter(|_| self.verifies) {
            let chunks = read_back::read(self.connect()?, &target.name, n_expected)?;
            is_good &= !self.publishes || chunks.n_messages() == self.n_messages;
            told.push(self.tell(target, &chunks)?);
        }
        if self.format == Format::Json {
            let line = json!({
                "type": "stream_fill", "schema": 1, "seconds": seconds, "streams": told,
            });
            say(&line.to_string())?;
        }
        Ok(if is_good { End::Good } else { End::Bad })
    }

    fn connect(&self) -> anyhow::Result<StreamClient> {
        StreamClient::connect(&self.broker, &Link::default(), "stream-fill")
    }

    fn create(&self, client: &mut StreamClient, target: &Target) -> anyhow::Result<()> {
        let name = &target.name;
        match topology::create_stream(client, name, &self.arguments) {
            Err(error) if is_there(&error) && self.replaces => {
                topology::delete_stream(client, name)?;
                topology::create_stream(client, name, &self.arguments)
            }
            Err(error) if is_there(&error) => {
                bail!("stream '{name}' exists; --replace deletes it first")
            }
            made => made,
        }
    }

    /// Tells the chunks of a stream; the same as JSON.
    fn tell(&self, target: &Target, chunks: &Chunks) -> anyhow::Result<serde_json::Value> {
        let Target { name, size, chunk } = target;
        if self.format != Format::Json {
            say(&format!("{name}: {}", chunks.summary()))?;
            chunks.lines().iter().try_for_each(|line| say(line))?;
        }
        let (size, chunk) = (self.publishes.then_some(size), self.publishes.then_some(chunk));
        Ok(json!({ "stream": name, "size": size, "chunk": chunk, "found": chunks.json() }))
    }
}

fn is_there(error: &anyhow::Error) -> bool {
    let codes = [ResponseCode::STREAM_ALREADY_EXISTS, ResponseCode::PRECONDITION_FAILED];
    error.downcast_ref::<Refused>().is_some_and(|refused| codes.contains(&refused.code))
}

/// The publishing of chunks: a producer per stream, whose window is its batch.
struct Filling {
    client: StreamClient,
    producers: Vec<Producer>,
    output: Vec<u8>,
    sample: Sample,
}

impl Filling {
    fn new(mut client: StreamClient, targets: &[Target], n_messages: u64) -> anyhow::Result<Self> {
        let mut producers = Vec::new();
        for (publisher_id, target) in (0..=u8::MAX).zip(targets) {
            let what = format!("publisher on stream '{}'", target.name);
            client.call(&what, |correlation_id| DeclarePublisher {
                correlation_id,
                publisher_id,
                reference: "",
                stream: &target.name,
            })?;
            let config = Producing {
                limit: Some(n_messages),
                window: u64::try_from(target.chunk)?,
                size: target.size,
                batch: target.chunk,
                ..Producing::default()
            };
            let producer = Producer::new(config, None, client.frame_max, &[(publisher_id, 0)])?;
            anyhow::ensure!(
                producer.batch() == target.chunk,
                "{} messages of {} bytes do not fit a frame: {} do",
                target.chunk,
                target.size,
                producer.batch()
            );
            producers.push(producer);
        }
        Ok(Self { client, producers, output: Vec::new(), sample: Sample::new() })
    }

    fn run(mut self) -> anyhow::Result<()> {
        let tells =
            |key| matches!(key, Key::PublishConfirm | Key::PublishError | Key::MetadataUpdate);
        for at in 0..self.producers.len() {
            self.stage(at);
        }
        while self.producers.iter().any(|one| !one.is_done()) {
            self.client.send_bytes(&self.output)?;
            self.output.clear();
            let frame = self.client.await_frame(|id| id.known_key().is_some_and(tells))?;
            self.on_frame(ToClient::decode(&frame)?)?;
        }
        Ok(())
    }

    /// Makes the next chunk ready if the last one is confirmed.
    fn stage(&mut self, at: usize) {
        let Self { producers, output, sample, .. } = self;
        if let Some(producer) = producers.get_mut(at).filter(|one| one.n_unconfirmed() == 0) {
            let staged = producer.stage(clock::now(), 0, output, sample);
            debug_assert!(staged != Staged::NotBefore(0), "there is no rate");
        }
    }

    fn on_frame(&mut self, command: ToClient<'_>) -> anyhow::Result<()> {
        if let ToClient::PublishConfirm(confirm) = command {
            let at = usize::from(confirm.publisher_id);
            let Self { producers, sample, .. } = self;
            let producer = producers.get_mut(at).context("an unknown publisher")?;
            let mut ids = confirm.publishing_ids.iter();
            producer.on_confirm(confirm.publisher_id, &mut ids, 0, sample);
            self.stage(at);
        }
        refusal(&command).map_or(Ok(()), |why| bail!(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{parse_from, table};

    fn streams(line: &str) -> Result<Vec<(String, usize, usize)>, Usage> {
        let given = parse_from(
            &table::read(crate::stream::FILL.options),
            line.split_whitespace().map(str::to_owned),
        )?;
        let fill = Fill::new(&given)?;
        Ok(fill.streams.into_iter().map(|one| (one.name, one.size, one.chunk)).collect())
    }

    #[test]
    fn streams_have_their_sizes_and_chunks() {
        assert_eq!(streams("").unwrap(), [("stream".to_owned(), 12, 1)]);
        let all = streams("--stream a,b --chunk 1,64 --size 48").unwrap();
        assert_eq!(all, [("a".to_owned(), 48, 1), ("b".to_owned(), 48, 64)]);
        for line in
            ["--chunk 0", "--chunk 1,2", "--chunk 70000", "--size x", "--stream a --size 1,2"]
        {
            assert!(streams(line).is_err(), "{line}");
        }
    }
}
