//! A run's configuration: stream-perf-test's options with their meanings.

use std::num::NonZeroU64;

use streamproto::{Compression, OffsetSpec};

use crate::clock::SECOND;
use crate::config::values::{
    byte_capacity, choice, duration_ns, invalid, limit, list, moment_s, number, optional,
    server_name, truth,
};
use crate::config::{Run, run};
use crate::options::{Given, Usage};
use crate::run::Limits;
use client::Link;
use client::Uri;
use client::{Encryption, Trust};

/// The least body: a time stamp.
pub(super) const BODY_BYTES_MIN: usize = 8;
/// The largest body the tool makes.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// stream-perf-test's offer for the largest frame.
const FRAME_MAX_BYTES: u32 = 5_242_880;
/// The most publishers or subscriptions of a connection: their numbers have one byte.
const PER_CONNECTION_MAX: usize = 255;
/// Messages after which consumers that take turns store their offset, if nothing else is said.
const SINGLE_ACTIVE_STORE_EVERY: u64 = 10_000;
/// The most streams a run has.
const STREAMS_MAX: u64 = 100_000;

/// A run.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) brokers: Vec<Uri>,
    pub(super) link: Link,
    pub(super) streams: Streams,
    pub(super) producing: Producing,
    pub(super) consuming: Consuming,
    pub(super) run: Run,
}

/// The streams, and how they are made.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) names: Vec<String>,
    /// Partitions of each, if they are super streams.
    pub(super) partitions: Option<usize>,
    /// Arguments of those that are missing.
    pub(super) arguments: Vec<(&'static str, String)>,
    /// Some of these were asked for: what has others will not do.
    pub(super) are_asked_for: bool,
    pub(super) delete: bool,
}

/// Producers.
#[derive(Clone, Debug, Default)]
pub(super) struct Producing {
    pub(super) n: usize,
    pub(super) per_connection: usize,
    /// Messages per second and producer.
    pub(super) rate: Option<f64>,
    /// Messages per producer.
    pub(super) limit: Option<u64>,
    pub(super) size: usize,
    pub(super) batch: usize,
    pub(super) sub_entry: usize,
    /// Of entries of several messages.
    pub(super) compression: Compression,
    /// Unconfirmed messages per producer, at most.
    pub(super) window: u64,
    pub(super) names: Option<Naming>,
    pub(super) filter_values: Vec<String>,
    pub(super) measures_confirms: bool,
}

/// Consumers.
#[derive(Clone, Debug)]
pub(super) struct Consuming {
    pub(super) n: usize,
    pub(super) per_connection: usize,
    /// Nanoseconds per message.
    pub(super) hold_ns: Option<f64>,
    /// Messages per consumer.
    pub(super) limit: Option<u64>,
    pub(super) offset: OffsetSpec,
    pub(super) credits: Credits,
    /// Name, and messages after which the offset is stored.
    pub(super) stores: Option<(Naming, NonZeroU64)>,
    pub(super) single_active: bool,
    pub(super) filter_values: Vec<String>,
    pub(super) measures_latency: bool,
}

/// How chunks are asked for: so many ahead, and `every` more whenever as many have come. Every 1 is the
/// strategy that the Java client has by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Credits {
    pub(super) initial: u16,
    pub(super) every: u16,
}

/// Names of producers or consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// With the stream for `%s` and the number for `%d`.
    Pattern(String),
    /// A random one each.
    Random,
}

impl Config {
    /// Gives the options their meaning.
    ///
    /// # Errors
    /// Values outside their domain, and options that contradict each other.
    pub(super) fn new(given: &Given) -> Result<Self, Usage> {
        let config = Self {
            brokers: brokers(given)?,
            link: link(given)?,
            streams: streams(given)?,
            producing: producing(given)?,
            consuming: consuming(given)?,
            // Lost connections are not made again, and no bar is drawn.
            run: Run { recovery_ns: None, progress: Some(false), ..run(given, false)? },
        };
        if config.producing.n + config.consuming.n == 0 {
            return Err(Usage("there is neither a producer nor a consumer".to_owned()));
        }
        Ok(config)
    }
}

impl Config {
    /// The numbers of agents and of the messages after which they end.
    pub(super) fn limits(&self) -> Limits {
        let Self { producing, consuming, run, .. } = self;
        Limits {
            n_publishers: producing.n,
            sent: producing.limit,
            n_consumers: consuming.n,
            received: consuming.limit,
            idle_ns: run.idle_ns.filter(|_| producing.n == 0),
            is_brief: true,
        }
    }
}

impl Naming {
    /// The name of the agent with this number, from 1, on a stream.
    pub(super) fn name(&self, stream: &str, number: usize, random: u64) -> String {
        match self {
            Self::Pattern(pattern) => {
                pattern.replace("%s", stream).replace("%d", &number.to_string())
            }
            Self::Random => format!("{random:016x}-{number}"),
        }
    }
}

/// The brokers of `--uris`.
pub(super) fn brokers(given: &Given) -> Result<Vec<Uri>, Usage> {
    let text = given.last("uris").unwrap_or("rabbitmq-stream://localhost:5552");
    text.split(',').map(|uri| Uri::parse_stream(uri.trim()).map_err(Usage)).collect()
}

fn link(given: &Given) -> Result<Link, Usage> {
    let frame_max = bytes(given, "requested-max-frame-size")?;
    let frame_max = frame_max.unwrap_or_else(|| FRAME_MAX_BYTES.into());
    let buffer = |long| Ok::<_, Usage>(bytes(given, long)?.and_then(|n| usize::try_from(n).ok()));
    Ok(Link {
        heartbeat_s: number(given, "heartbeat", 60)?,
        frame_max: u32::try_from(frame_max)
            .map_err(|_| invalid("requested-max-frame-size", &frame_max.to_string()))?,
        no_delay: truth(given, "tcp-no-delay", true)?,
        receive_buffer_bytes: buffer("tcp-receive-buffer-size")?.filter(|n| *n > 0),
        send_buffer_bytes: buffer("tcp-send-buffer-size")?.filter(|n| *n > 0),
        // COMPAT: stream-perf-test takes any certificate for good.
        // Test: `the_printed_command_line_is_understood`.
        encryption: Encryption::new(Trust::Everyone, server_name(given)?),
        ..Link::default()
    })
}

fn streams(given: &Given) -> Result<Streams, Usage> {
    let partitions = number(given, "super-stream-partitions", 3)?;
    let is_super = truth(given, "super-streams", false)?;
    Ok(Streams {
        names: stream_names(given)?,
        partitions: is_super.then_some(partitions).filter(|n| *n > 0),
        arguments: arguments(given, Some("20gb"))?,
        are_asked_for: ARGUMENTS.iter().any(|long| given.has(long)),
        delete: truth(given, "delete-streams", false)?,
    })
}

/// Options that are arguments of streams.
const ARGUMENTS: [&str; 6] = [
    "max-length-bytes",
    "stream-max-segment-size-bytes",
    "max-age",
    "leader-locator",
    "initial-member-count",
    "filter-size",
];

/// Arguments of streams that are made; `length` is the default of `--max-length-bytes`.
pub(super) fn arguments(
    given: &Given,
    length: Option<&str>,
) -> Result<Vec<(&'static str, String)>, Usage> {
    let mut arguments = Vec::new();
    let lengths = [("max-length-bytes", length), ("stream-max-segment-size-bytes", Some("500mb"))];
    for (long, default) in lengths {
        let text = given.last(long).or(default).unwrap_or("0");
        match byte_capacity(text).ok_or_else(|| invalid(long, text))? {
            0 => {}
            bytes => arguments.push((long, bytes.to_string())),
        }
    }
    if let Some(text) = given.last("max-age") {
        let age_s = stdx::duration_s(text).or_else(|| Some(duration_ns(text)? / SECOND));
        let age_s = age_s.filter(|s| *s > 0).ok_or_else(|| invalid("max-age", text))?;
        arguments.push(("max-age", format!("{age_s}s")));
    }
    let locators = ["client-local", "balanced", "least-leaders", "random"].map(|name| (name, name));
    let locator = choice(given, "leader-locator", "balanced", &locators)?;
    arguments.push(("queue-leader-locator", locator.to_owned()));
    if let Some(n) = optional::<u32>(given, "initial-member-count")? {
        arguments.push(("initial-cluster-size", n.to_string()));
    }
    if given.has("filter-size") {
        let size: u32 = number(given, "filter-size", 16)?;
        arguments.push(("stream-filter-size-bytes", size.to_string()));
    }
    Ok(arguments)
}

/// The names of `--streams`, or those that `--stream-count` makes of the only one.
fn stream_names(given: &Given) -> Result<Vec<String>, Usage> {
    let mut names = list(given, "streams");
    if names.is_empty() {
        names.push("stream".to_owned());
    }
    let text = given.last("stream-count").unwrap_or("1");
    let wrong = || invalid("stream-count", text);
    let range = text.replace("..", "-");
    let (from, to) = range.split_once('-').unwrap_or(("1", &range));
    let from: u64 = from.parse().map_err(|_| wrong())?;
    let to: u64 = to.parse().map_err(|_| wrong())?;
    if from == 0 || to < from || to - from >= STREAMS_MAX {
        return Err(wrong());
    }
    match names.as_slice() {
        _ if (from, to) == (1, 1) => Ok(names),
        [pattern] => Ok((from..=to).map(|n| numbered(pattern, n, to)).collect()),
        _ => Err(Usage("--stream-count needs one name in --streams".to_owned())),
    }
}

/// The name of a stream with its number for `%d` or `%05d`, or behind it with as many digits as the
/// last one has.
fn numbered(pattern: &str, n: u64, last: u64) -> String {
    let width = last.to_string().len();
    let Some((before, rest)) = pattern.split_once('%') else {
        return format!("{pattern}-{n:0width$}");
    };
    let Some((digits, after)) = rest.split_once('d') else { return format!("{pattern}{n}") };
    let width: usize = digits.parse().unwrap_or(0);
    format!("{before}{n:0width$}{after}")
}

fn producing(given: &Given) -> Result<Producing, Usage> {
    let size = number(given, "size", 10)?.max(BODY_BYTES_MIN);
    let window = number(given, "confirms", 10_000_u64)?;
    let sub_entry = number(given, "sub-entry-size", 1)?;
    let batch = number(given, "batch-size", 100)?;
    for (long, n) in [("sub-entry-size", sub_entry), ("batch-size", batch)] {
        if n == 0 || n > usize::from(u16::MAX) {
            return Err(invalid(long, &n.to_string()));
        }
    }
    if size > BODY_BYTES_MAX {
        return Err(invalid("size", &size.to_string()));
    }
    let filter_values = filter_value_set(given)?;
    if sub_entry > 1 && !filter_values.is_empty() {
        return Err(Usage("--sub-entry-size does not go with --filter-value-set".to_owned()));
    }
    Ok(Producing {
        n: number(given, "producers", 1)?,
        per_connection: per_connection(given, "producers-by-connection")?,
        rate: optional::<f64>(given, "rate")?.filter(|rate| *rate > 0.0),
        limit: limit(given, "pmessages")?,
        size,
        batch,
        sub_entry,
        compression: compression(given)?,
        window: if window == 0 { u64::MAX } else { window },
        names: given.last("producer-names").filter(|text| !text.is_empty()).map(naming),
        filter_values,
        measures_confirms: truth(given, "confirm-latency", false)?,
    })
}

/// COMPAT: stream-perf-test takes names in any case. Test: `compressions_have_names`.
fn compression(given: &Given) -> Result<Compression, Usage> {
    let name = given.last("compression").unwrap_or("none");
    match name.to_ascii_lowercase().as_str() {
        "none" => Ok(Compression::NONE),
        "gzip" => Ok(Compression::GZIP),
        "snappy" => Ok(Compression::SNAPPY),
        "lz4" => Ok(Compression::LZ4),
        "zstd" => Ok(Compression::ZSTD),
        _ => Err(invalid("compression", name)),
    }
}

fn consuming(given: &Given) -> Result<Consuming, Usage> {
    let single_active = truth(given, "single-active-consumer", false)?;
    let every = NonZeroU64::new(number(given, "store-every", 0)?);
    let every =
        every.or_else(|| NonZeroU64::new(SINGLE_ACTIVE_STORE_EVERY).filter(|_| single_active));
    let names = naming(given.last("consumer-names").unwrap_or("%s-%d"));
    Ok(Consuming {
        n: number(given, "consumers", 1)?,
        per_connection: per_connection(given, "consumers-by-connection")?,
        hold_ns: hold_ns(given)?,
        limit: limit(given, "cmessages")?,
        offset: offset(given)?,
        credits: credits(given)?,
        stores: every.map(|every| (names, every)),
        single_active,
        filter_values: list(given, "filter-values"),
        measures_latency: !truth(given, "no-latency", false)?,
    })
}

fn per_connection(given: &Given, long: &str) -> Result<usize, Usage> {
    let n = number(given, long, 1)?;
    if (1..=PER_CONNECTION_MAX).contains(&n) { Ok(n) } else { Err(invalid(long, &n.to_string())) }
}

fn naming(text: &str) -> Naming {
    if text == "uuid" { Naming::Random } else { Naming::Pattern(text.to_owned()) }
}

/// `1..15`, or values separated by commas.
fn filter_value_set(given: &Given) -> Result<Vec<String>, Usage> {
    let text = given.last("filter-value-set").unwrap_or_default();
    let Some((from, to)) = text.split_once("..") else {
        return Ok(list(given, "filter-value-set"));
    };
    let number = |text: &str| text.parse::<u16>().map_err(|_| invalid("filter-value-set", text));
    Ok((number(from)?..=number(to)?).map(|n| n.to_string()).collect())
}

fn credits(given: &Given) -> Result<Credits, Usage> {
    let initial = number(given, "initial-credits", 10)?;
    let Some(text) = given.last("credits").filter(|text| *text != "0") else {
        return Ok(Credits { initial, every: 1 });
    };
    let wrong = || invalid("credits", text);
    let (initial, every) = text.split_once('-').unwrap_or((text, ""));
    let initial: u16 = initial.parse().map_err(|_| wrong())?;
    let every = if every.is_empty() { Ok(initial / 2) } else { every.parse() };
    let every = every.map_err(|_| wrong())?.max(1);
    if every > initial { Err(wrong()) } else { Ok(Credits { initial, every }) }
}

fn offset(given: &Given) -> Result<OffsetSpec, Usage> {
    let text = given.last("offset").unwrap_or("next");
    let spec = match text.to_ascii_lowercase().as_str() {
        "first" => Some(OffsetSpec::First),
        "last" => Some(OffsetSpec::Last),
        "next" => Some(OffsetSpec::Next),
        other => other.parse().ok().map(OffsetSpec::Offset).or_else(|| {
            let ms = i64::try_from(moment_s(text)?.checked_mul(1000)?).ok()?;
            Some(OffsetSpec::Timestamp(ms))
        }),
    };
    spec.ok_or_else(|| invalid("offset", text))
}

/// A consumer's time per message: its latency, but no less than the rate leaves.
fn hold_ns(given: &Given) -> Result<Option<f64>, Usage> {
    let rate = optional::<f64>(given, "consumer-rate")?.filter(|rate| *rate > 0.0);
    let latency = given.last("consumer-latency").unwrap_or("0");
    let ns = duration_ns(latency).ok_or_else(|| invalid("consumer-latency", latency))?;
    let ns = (ns as f64).max(rate.map_or(0.0, |rate| 1e9 / rate));
    Ok(Some(ns).filter(|ns| *ns > 0.0))
}

fn bytes(given: &Given, long: &str) -> Result<Option<u64>, Usage> {
    let Some(text) = given.last(long) else { return Ok(None) };
    let bytes = byte_capacity(text).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.map(Some).ok_or_else(|| invalid(long, text))
}

#[cfg(test)]
mod tests;
