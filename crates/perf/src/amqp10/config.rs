//! A run's configuration: omq's options with their meanings, as the load tool's of AMQP 0-9-1 where those
//! are the same.

use amqp10::percent_decoded;
use amqp091::Value;

use super::links::{Filter, Links, Receiving, Sources};
use crate::config::values::{
    byte_capacity, choice, duration_ns, invalid, number, optional, stream_offset, truth, value_of,
};
use crate::config::{Config, Queues, Settle};
use crate::options::{Given, Usage};

/// Options that the load tool for AMQP 0-9-1 has by the same names.
const SAME: &str = "uri consumers pmessages cmessages rate queue-args multi-ack-every json verify threads \
                    broker-pid idle-timeout interval id";
/// omq's names of others, and those of that tool.
const RENAMED: [(&str, &str); 3] = [
    ("publishers", "producers"),
    ("stream-offset", "stream-consumer-offset"),
    ("binding-key", "routing-key"),
];
/// Addresses, if nothing else is said.
const ADDRESS: &str = "/queues/omq-%d";
/// Values of a property, at most.
const VALUES_MAX: i64 = 10_000;

/// Gives the options their meaning.
///
/// # Errors
/// Values outside their domain, and options that contradict each other.
pub(super) fn config(given: &Given) -> Result<Config, Usage> {
    let target = Target::parse(given.last("publish-to").unwrap_or(ADDRESS))?;
    let mut config = Config::new(&translated(given, &target)?)?;
    let protocols = [("amqp10", true), ("amqp091", false)];
    let publishes = choice(given, "publisher-protocol", true, &protocols)?;
    let consumes = choice(given, "consumer-protocol", true, &protocols)?;
    let from = given.last("consume-from").unwrap_or(ADDRESS);
    let queue = from.strip_prefix("/queues/").ok_or_else(|| invalid("consume-from", from))?;
    let n_publishers = config.publishing.n_connections;
    let n_consumers = config.consuming.n_connections;
    let names = |pattern: &str, n: usize| {
        let name = |text: String| String::from_utf8(percent_decoded(&text)?.into_owned()).ok();
        numbered(pattern, n).into_iter().map(name).collect::<Option<Vec<_>>>()
    };
    let published =
        names(&target.key, n_publishers).ok_or_else(|| invalid("publish-to", &target.key))?;
    let consumed = names(queue, n_consumers).ok_or_else(|| invalid("consume-from", from))?;
    config.topology.queues = Queues::Addressed { published, consumed };
    config.links = Links {
        targets: publishes.then(|| numbered(&target.address, n_publishers)),
        sources: match consumes {
            true => Some(sources(given, numbered(from, n_consumers))?),
            false => None,
        },
        properties: properties(given)?,
    };
    check(given, &config)?;
    Ok(config)
}

fn check(given: &Given, config: &Config) -> Result<(), Usage> {
    let refuse = |what: &str| Err(Usage(what.to_owned()));
    let only_here = ["amqp-app-property-filter", "sql-filter", "amqp-sql-filter"];
    let rates = ["amqp-reject-rate", "amqp-release-rate"];
    let has = |words: &[&str]| words.iter().any(|word| given.has(word));
    if config.links.sources.is_none() && (has(&only_here) || has(&rates)) {
        return refuse("filters and rates need --consumer-protocol amqp10");
    }
    if has(&rates) && config.consuming.settle == Settle::Automatic {
        return refuse("settled deliveries are not rejected or released");
    }
    if config.run.verify && (has(&only_here) || given.has("amqp-reject-rate")) {
        return refuse("--verify does not go with messages that are filtered or thrown away");
    }
    Ok(())
}

/// The options as the load tool for AMQP 0-9-1 has them.
fn translated(given: &Given, target: &Target) -> Result<Given, Usage> {
    let mut pairs = Vec::new();
    let mut set = |long: &'static str, value: &str| pairs.push((long, value.to_owned()));
    for (from, to) in SAME.split(' ').map(|name| (name, name)).chain(RENAMED) {
        given.all(from).for_each(|value| set(to, value));
    }
    let is_settled = |long| given.has(long) || given.has("settled");
    let window = given.last("max-in-flight").unwrap_or("1");
    set("confirm", if is_settled("amqp-send-settled") { "-1" } else { window });
    if is_settled("amqp-consume-settled") {
        set("autoack", "");
    }
    let credits: u32 = number(given, "consumer-credits", 1)?;
    set("qos", &credits.min(u16::MAX.into()).to_string());
    if truth(given, "message-durability", true)? {
        set("flag", "persistent");
    }
    let types = ["predeclared", "classic", "quorum-queue", "stream-queue"];
    let words = ["predeclared", "classic", "quorum", "stream"];
    let known: Vec<_> = words.into_iter().zip(types).collect();
    match choice(given, "queues", "predeclared", &known)? {
        "classic" => set("queue-args", "x-queue-type=classic"),
        other => set(other, ""),
    }
    set("exchange", target.exchange.as_deref().unwrap_or("amq.default"));
    set("auto-delete", "false");
    if target.exchange.is_some() && !given.has("binding-key") {
        set("skip-binding-queues", "");
    }
    for (long, unit_ns) in [("time", 1e9), ("consumer-latency", 1e3)] {
        let Some(text) = given.last(long) else { continue };
        let plain = text.parse::<f64>().ok().map(|seconds| seconds * 1e9);
        let ns = plain.or_else(|| Some(duration_ns(text)? as f64));
        set(long, &(ns.ok_or_else(|| invalid(long, text))? / unit_ns).to_string());
    }
    if let Some(text) = given.last("size") {
        set("size", &byte_capacity(text).ok_or_else(|| invalid("size", text))?.to_string());
    }
    Ok(pairs.into_iter().collect())
}

/// Where publishers publish.
struct Target {
    address: String,
    /// Encoded names: none is the default exchange, whose keys are queues' names.
    exchange: Option<String>,
    key: String,
}

impl Target {
    fn parse(address: &str) -> Result<Self, Usage> {
        let wrong = || invalid("publish-to", address);
        let (exchange, key) = if let Some(queue) = address.strip_prefix("/queues/") {
            (None, queue)
        } else {
            let rest = address.strip_prefix("/exchanges/").ok_or_else(wrong)?;
            let (exchange, key) = rest.split_once('/').unwrap_or((rest, ""));
            let exchange = percent_decoded(exchange).ok_or_else(wrong)?;
            (Some(String::from_utf8(exchange.into_owned()).map_err(|_| wrong())?), key)
        };
        Ok(Self { address: address.to_owned(), exchange, key: key.to_owned() })
    }
}

/// A pattern with the numbers from 1 to `n`.
fn numbered(pattern: &str, n: usize) -> Vec<String> {
    (1..=n).map(|number| pattern.replace("%d", &number.to_string())).collect()
}

fn sources(given: &Given, addresses: Vec<String>) -> Result<Sources, Usage> {
    let mut filters = Vec::new();
    if let Some(text) = given.last("stream-offset") {
        let offset = stream_offset(text).ok_or_else(|| invalid("stream-offset", text))?;
        filters.push(Filter::offset(&offset));
    }
    let long = "amqp-app-property-filter";
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').ok_or_else(|| invalid(long, text))?;
        Ok((name.to_owned(), value_of(value)))
    };
    let values: Vec<(String, Value)> = given.all(long).map(pair).collect::<Result<_, _>>()?;
    if !values.is_empty() {
        filters.push(Filter::properties(&values));
    }
    let condition = given.last("sql-filter").or_else(|| given.last("amqp-sql-filter"));
    filters.extend(condition.map(Filter::sql));
    let percent = |long| match number(given, long, 0)? {
        n @ 0..=100 => Ok(n),
        n => Err(invalid(long, &n.to_string())),
    };
    Ok(Sources {
        addresses,
        filters,
        priority: optional(given, "consumer-priority")?,
        receiving: Receiving {
            credits: number(given, "consumer-credits", 1)?,
            every: number(given, "multi-ack-every", 0)?,
            rejected: percent("amqp-reject-rate")?,
            released: percent("amqp-release-rate")?,
        },
    })
}

/// Properties of messages in turn: as many sets as the longest list has values.
fn properties(given: &Given) -> Result<Vec<Vec<(String, Value)>>, Usage> {
    let long = "amqp-app-property";
    let mut lists = Vec::new();
    for text in given.all(long) {
        let (name, values) = text.split_once('=').ok_or_else(|| invalid(long, text))?;
        let range = values.split_once("..").and_then(|(from, to)| {
            let (from, to): (i64, i64) = (from.parse().ok()?, to.parse().ok()?);
            (to.checked_sub(from)? < VALUES_MAX).then(|| (from..=to).map(Value::I64).collect())
        });
        let list: Vec<Value> = range.unwrap_or_else(|| values.split(',').map(value_of).collect());
        lists.push((name.to_owned(), list));
    }
    let n = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
    let at = |at: usize| {
        let value = |(name, list): &(String, Vec<Value>)| {
            list.iter().cycle().nth(at).map(|value| (name.clone(), value.clone()))
        };
        lists.iter().filter_map(value).collect()
    };
    Ok((0..n).map(at).collect())
}
