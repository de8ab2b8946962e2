//! What a run is asked to do: the options with their meanings, checked against each other.

mod values;

use std::num::NonZeroU32;

use amqp091::{ShortString, Table, Value};

use crate::clock::{SECOND, from_seconds};
use crate::options::{Given, Usage};
use crate::pace::Schedule;
use crate::uri::Uri;
use values::{invalid, list, number, optional, schedule, table, value_of};

/// PerfTest's smallest body: a number and a time stamp.
pub(crate) const STAMPED_BYTES: usize = 12;
/// The smallest body that `--verify` can check.
pub(crate) const VERIFIED_BYTES: usize = 32;

/// A run.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) brokers: Vec<Uri>,
    pub(crate) link: Link,
    pub(crate) topology: Topology,
    pub(crate) publishing: Publishing,
    pub(crate) consuming: Consuming,
    pub(crate) message: Message,
    pub(crate) run: Run,
}

/// Each connection.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) heartbeat_s: u16,
    /// 0: what the broker offers.
    pub(crate) frame_max: u32,
    pub(crate) no_delay: bool,
    pub(crate) receive_buffer_bytes: Option<usize>,
    pub(crate) send_buffer_bytes: Option<usize>,
    /// How long to wait for a broker that does not listen yet.
    pub(crate) startup_timeout_ns: u64,
}

impl Default for Link {
    /// No heartbeats, the broker's frame size, no waiting for the broker.
    fn default() -> Self {
        Self {
            heartbeat_s: 0,
            frame_max: 0,
            no_delay: true,
            receive_buffer_bytes: None,
            send_buffer_bytes: None,
            startup_timeout_ns: 0,
        }
    }
}

/// Exchange and queues.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(crate) struct Topology {
    pub(crate) predeclared: bool,
    pub(crate) exchange: String,
    pub(crate) exchange_type: String,
    pub(crate) queues: Queues,
    pub(crate) queue_arguments: Table,
    pub(crate) auto_delete: bool,
    pub(crate) durable: bool,
    pub(crate) bind: bool,
    pub(crate) routing_key: Option<String>,
}

/// Which queues there are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Queues {
    /// These, with every consumer at all of them; an empty name stands for one the broker makes up.
    Named(Vec<String>),
    /// Producers and consumers are dealt out to these in turn.
    Sequence(Vec<String>),
}

/// Publishing channels.
#[derive(Debug)]
pub(crate) struct Publishing {
    pub(crate) n_connections: usize,
    pub(crate) n_channels: u16,
    /// Messages per second and channel.
    pub(crate) rate: Option<Schedule>,
    /// Messages per channel.
    pub(crate) limit: Option<u64>,
    /// Confirms, and how many may be outstanding per channel.
    pub(crate) confirm_window: Option<NonZeroU32>,
    pub(crate) confirm_timeout_ns: u64,
    pub(crate) mandatory: bool,
    pub(crate) random_start_ns: u64,
}

/// Consuming channels.
#[derive(Debug)]
pub(crate) struct Consuming {
    pub(crate) n_connections: usize,
    pub(crate) n_channels: u16,
    pub(crate) settle: Settle,
    pub(crate) prefetch: u16,
    pub(crate) prefetch_channel: u16,
    pub(crate) limit: Option<u64>,
    /// Nanoseconds per message.
    pub(crate) hold: Option<Schedule>,
    pub(crate) arguments: Table,
    pub(crate) start_delay_ns: u64,
    pub(crate) slow_start: bool,
}

/// What a consumer does about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    /// Nothing: the broker forgets it when it is sent.
    Automatic,
    /// Acknowledge, every n-th message all up to it.
    Ack { every: u64 },
    /// Refuse, every n-th message all up to it.
    Nack { every: u64, requeue: bool },
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) body: Body,
    pub(crate) persistent: bool,
    pub(crate) content_type: Option<String>,
    /// Names and values as given.
    pub(crate) properties: Vec<(String, Value)>,
    pub(crate) random_key: bool,
    /// How many different random keys.
    pub(crate) random_keys_max: usize,
    /// Time stamps are wall clock milliseconds instead of this machine's nanoseconds.
    pub(crate) use_millis: bool,
}

/// Bodies.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    /// Number, time stamp and zeros.
    Stamped(Schedule),
    /// Contents of files.
    Files(Vec<String>),
    /// Random JSON.
    Json { size: usize, n_bodies: usize, n_fields: usize },
}

/// The run as a whole.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: Option<String>,
    pub(crate) time_ns: Option<u64>,
    pub(crate) interval_ns: u64,
    pub(crate) exit_when: Option<ExitWhen>,
    pub(crate) format: Format,
    pub(crate) verify: bool,
    pub(crate) n_threads: usize,
    pub(crate) broker_pid: Option<u32>,
    pub(crate) shutdown_timeout_ns: u64,
}

/// A reason to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitWhen {
    Empty,
    Idle,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Default,
    Compact,
    Json,
}

impl Config {
    /// Gives the options their meaning.
    ///
    /// # Errors
    /// Values outside their domain, and options that contradict each other.
    pub(crate) fn new(given: &Given) -> Result<Self, Usage> {
        let verify = given.has("verify");
        let config = Self {
            brokers: brokers(given)?,
            link: link(given)?,
            topology: topology(given)?,
            publishing: publishing(given)?,
            consuming: consuming(given)?,
            message: message(given, verify)?,
            run: run(given, verify)?,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Usage> {
        let refuse = |what: &str| Err(Usage(what.to_owned()));
        if self.publishing.n_connections + self.consuming.n_connections == 0 {
            return refuse("there is neither a producer nor a consumer");
        }
        if self.run.verify {
            if !matches!(self.message.body, Body::Stamped(_)) {
                return refuse("--verify needs bodies of its own: no --body, no --json-body");
            }
            if matches!(self.consuming.settle, Settle::Nack { requeue: false, .. }) {
                return refuse("--verify does not go with messages that are thrown away");
            }
        }
        Ok(())
    }
}

fn brokers(given: &Given) -> Result<Vec<Uri>, Usage> {
    let mut brokers = Vec::new();
    for text in ["uri", "uris"].iter().filter_map(|long| given.last(long)) {
        for uri in text.split(',') {
            brokers.push(Uri::parse(uri.trim()).map_err(Usage)?);
        }
    }
    if brokers.is_empty() {
        brokers.push(Uri::parse("amqp://localhost").map_err(Usage)?);
    }
    Ok(brokers)
}

fn link(given: &Given) -> Result<Link, Usage> {
    Ok(Link {
        heartbeat_s: number(given, "heartbeat", 0)?,
        frame_max: number(given, "framemax", 0)?,
        no_delay: number(given, "tcp-no-delay", true)?,
        receive_buffer_bytes: optional(given, "tcp-receive-buffer-size")?,
        send_buffer_bytes: optional(given, "tcp-send-buffer-size")?,
        startup_timeout_ns: seconds(given, "servers-startup-timeout", 0.0)?,
    })
}

fn topology(given: &Given) -> Result<Topology, Usage> {
    let queue_type = match (given.has("stream-queue"), given.has("quorum-queue")) {
        (true, _) => Some("stream"),
        (false, true) => Some("quorum"),
        (false, false) => None,
    };
    let typed = queue_type.is_some();
    let durable = typed || given.all("flag").any(|flag| flag == "persistent");
    Ok(Topology {
        predeclared: given.has("predeclared"),
        exchange: given.last("exchange").unwrap_or("direct").to_owned(),
        exchange_type: given.last("type").unwrap_or("direct").to_owned(),
        queues: queues(given)?,
        queue_arguments: queue_arguments(given, queue_type)?,
        auto_delete: !typed && number(given, "auto-delete", true)?,
        durable,
        bind: !given.has("skip-binding-queues"),
        routing_key: given.last("routing-key").map(str::to_owned),
    })
}

fn queues(given: &Given) -> Result<Queues, Usage> {
    if let Some(file) = given.last("queue-file") {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Usage(format!("--queue-file {file}: {error}")))?;
        let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
        return Ok(Queues::Sequence(names.map(str::to_owned).collect()));
    }
    let Some(pattern) = given.last("queue-pattern") else {
        let mut names = list(given, "queue");
        if names.is_empty() {
            names.push(String::new());
        }
        return Ok(Queues::Named(names));
    };
    let (Some(from), Some(to)) = (
        optional::<u32>(given, "queue-pattern-from")?,
        optional::<u32>(given, "queue-pattern-to")?,
    ) else {
        return Err(Usage("--queue-pattern needs its --queue-pattern-from and -to".to_owned()));
    };
    if from > to {
        return Err(Usage("--queue-pattern-from is above --queue-pattern-to".to_owned()));
    }
    let name = |n| numbered(pattern, n).ok_or_else(|| invalid("queue-pattern", pattern));
    Ok(Queues::Sequence((from..=to).map(name).collect::<Result<_, _>>()?))
}

/// Puts a number where the pattern has `%d`, or `%04d` for one with zeros in front.
fn numbered(pattern: &str, n: u32) -> Option<String> {
    let (before, rest) = pattern.split_once('%')?;
    let (width, after) = rest.split_once('d')?;
    if width.is_empty() {
        return Some(format!("{before}{n}{after}"));
    }
    let zeros = width.strip_prefix('0')?;
    let width: usize = zeros.parse().ok().filter(|&width| width <= 20)?;
    Some(format!("{before}{n:0width$}{after}"))
}

fn queue_arguments(given: &Given, queue_type: Option<&str>) -> Result<Table, Usage> {
    let mut arguments = table(given, "queue-args")?;
    let mut set = |name: &'static str, value: Value| {
        arguments.insert(ShortString::from_static(name), value);
    };
    if let Some(queue_type) = queue_type {
        set("x-queue-type", Value::from(queue_type));
    }
    for (long, name) in [
        ("leader-locator", "x-queue-leader-locator"),
        ("max-length-bytes", "x-max-length-bytes"),
        ("stream-max-segment-size-bytes", "x-stream-max-segment-size-bytes"),
        ("max-age", "x-max-age"),
    ] {
        if let Some(text) = given.last(long) {
            let value = if long == "max-age" { max_age(text) } else { Some(value_of(text)) };
            set(name, value.ok_or_else(|| invalid(long, text))?);
        }
    }
    Ok(arguments)
}

/// An ISO 8601 duration of days, hours, minutes and seconds, in seconds with RabbitMQ's unit.
fn max_age(text: &str) -> Option<Value> {
    let (mut total, mut digits, mut is_time) = (0_u64, String::new(), false);
    for letter in text.strip_prefix('P')?.chars() {
        let unit = match (letter, is_time) {
            ('0'..='9', _) => {
                digits.push(letter);
                continue;
            }
            ('T', false) => {
                is_time = true;
                continue;
            }
            ('D', false) => 86_400,
            ('H', true) => 3_600,
            ('M', true) => 60,
            ('S', true) => 1,
            (_, _) => return None,
        };
        total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    digits.is_empty().then(|| Value::from(format!("{total}s")))
}

fn publishing(given: &Given) -> Result<Publishing, Usage> {
    let flags = given.all("flag").map(|flag| match flag {
        "persistent" | "mandatory" => Ok(flag),
        other => Err(invalid("flag", other)),
    });
    let mandatory = flags.collect::<Result<Vec<_>, _>>()?.contains(&"mandatory");
    let interval: Option<f64> = optional(given, "publishing-interval")?;
    if interval.is_some_and(|interval| interval.is_nan() || interval <= 0.0) {
        return Err(Usage("--publishing-interval has to be positive".to_owned()));
    }
    let window: i64 = number(given, "confirm", -1)?;
    let window = u32::try_from(window.max(0)).map_err(|_| invalid("confirm", "it"))?;
    let rate: Option<f64> = optional::<f64>(given, "rate")?.filter(|rate| *rate >= 0.0);
    let rate = rate.or_else(|| interval.map(f64::recip)).map(Schedule::constant);
    Ok(Publishing {
        n_connections: number(given, "producers", 1)?,
        n_channels: number(given, "producer-channel-count", 1)?,
        rate: schedule(given, "variable-rate")?.or(rate),
        limit: Some(number(given, "pmessages", 0)?).filter(|limit| *limit > 0),
        confirm_window: NonZeroU32::new(window),
        confirm_timeout_ns: seconds(given, "confirm-timeout", 30.0)?,
        mandatory,
        random_start_ns: seconds(given, "producer-random-start-delay", 0.0)?,
    })
}

fn consuming(given: &Given) -> Result<Consuming, Usage> {
    let every: u64 = number(given, "multi-ack-every", 0)?;
    let every = every.max(1);
    let settle = match (given.has("autoack"), given.has("nack")) {
        (true, _) => Settle::Automatic,
        (false, false) => Settle::Ack { every },
        (false, true) => Settle::Nack { every, requeue: number(given, "requeue", true)? },
    };
    let us_to_ns = |us: f64| us * 1e3;
    let rate = optional::<f64>(given, "consumer-rate")?.filter(|rate| *rate > 0.0);
    let latency = optional::<f64>(given, "consumer-latency")?.filter(|us| *us > 0.0);
    let fixed = rate.map(|rate| 1e9 / rate).or_else(|| latency.map(us_to_ns));
    let variable = schedule(given, "variable-latency")?.map(|steps| steps.map(us_to_ns));
    let mut arguments = table(given, "consumer-args")?;
    if let Some(offset) = given.last("stream-consumer-offset") {
        arguments.insert(ShortString::from_static("x-stream-offset"), value_of(offset));
    }
    Ok(Consuming {
        n_connections: number(given, "consumers", 1)?,
        n_channels: number(given, "consumer-channel-count", 1)?,
        settle,
        prefetch: number(given, "qos", 0)?,
        prefetch_channel: number(given, "global-qos", 0)?,
        limit: Some(number(given, "cmessages", 0)?).filter(|limit| *limit > 0),
        hold: variable.or_else(|| fixed.map(Schedule::constant)),
        arguments,
        start_delay_ns: seconds(given, "consumer-start-delay", 0.0)?,
        slow_start: given.has("slow-start"),
    })
}

fn message(given: &Given, verify: bool) -> Result<Message, Usage> {
    let properties = table(given, "message-properties")?.into_iter();
    Ok(Message {
        body: body(given, verify)?,
        persistent: given.all("flag").any(|flag| flag == "persistent"),
        content_type: given.last("body-content-type").map(str::to_owned),
        properties: properties.map(|(name, value)| (name.to_text().into_owned(), value)).collect(),
        random_key: given.has("random-routing-key"),
        random_keys_max: number(given, "routing-key-cache-size", 0)?,
        use_millis: given.has("use-millis"),
    })
}

fn body(given: &Given, verify: bool) -> Result<Body, Usage> {
    let least = if verify { VERIFIED_BYTES } else { STAMPED_BYTES };
    let size = number(given, "size", least)?.max(least);
    if given.has("body") {
        return Ok(Body::Files(list(given, "body")));
    }
    if given.has("json-body") {
        let n_bodies = number(given, "body-count", 100)?.max(1);
        let n_fields = number(given, "body-field-count", 1000)?.max(1);
        return Ok(Body::Json { size, n_bodies, n_fields });
    }
    let (size, least) = (size as f64, least as f64);
    let steps = schedule(given, "variable-size")?;
    let steps = steps.map(|steps| steps.map(|size| size.max(least)));
    Ok(Body::Stamped(steps.unwrap_or_else(|| Schedule::constant(size))))
}

fn run(given: &Given, verify: bool) -> Result<Run, Usage> {
    let format = match (given.has("json"), given.last("metrics-format")) {
        (true, _) => Format::Json,
        (false, None | Some("default")) => Format::Default,
        (false, Some("compact")) => Format::Compact,
        (false, Some(other)) => return Err(invalid("metrics-format", other)),
    };
    let exit_when = match given.last("exit-when") {
        None => None,
        Some("empty") => Some(ExitWhen::Empty),
        Some("idle") => Some(ExitWhen::Idle),
        Some(other) => return Err(invalid("exit-when", other)),
    };
    let time = seconds(given, "time", 0.0)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Run {
        id: given.last("id").map(str::to_owned),
        time_ns: Some(time).filter(|time| *time > 0),
        interval_ns: seconds(given, "interval", 1.0)?.max(SECOND / 100),
        exit_when,
        format,
        verify,
        n_threads: number(given, "threads", cores)?.max(1),
        broker_pid: optional(given, "broker-pid")?,
        shutdown_timeout_ns: seconds(given, "shutdown-timeout", 5.0)?,
    })
}

fn seconds(given: &Given, long: &str, default: f64) -> Result<u64, Usage> {
    Ok(from_seconds(number(given, long, default)?))
}

#[cfg(test)]
mod tests;
