//! A run's configuration: the options with their meanings, checked against each other.

mod load;
mod topology;
pub(crate) mod values;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use amqp091::{Table, Value};

use crate::amqp10::links::Links;
use crate::clock::SECOND;
use crate::options::{Given, Usage};
use crate::process;
use crate::rate::Schedule;
use crate::run::Limits;
use client::{Encryption, Link, Trust, Uri};
pub(crate) use values::moment_s;
use values::{choice, number, optional, seconds, seconds_range, server_name, truth};

/// PerfTest's smallest body: a number and a time stamp.
pub(crate) const STAMPED_BYTES: usize = 12;
/// The smallest body that `--verify` can check.
pub(crate) const VERIFIED_BYTES: usize = 32;

/// Wait of PerfTest's client before it connects again, seconds.
const RECOVERY_INTERVAL_S: f64 = 5.0;

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
    pub(crate) links: Links,
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

/// The queues of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Queues {
    /// One per consuming channel, named by the broker.
    Unnamed,
    /// Named queues, with every consumer at all of them.
    Named(Vec<String>),
    /// Producers and consumers are dealt out to these in turn.
    Sequence(Vec<String>),
    /// A routing key for each producer, and a queue for each consumer.
    Addressed { published: Vec<String>, consumed: Vec<String> },
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
    /// Whether messages are kept, and published again until they are confirmed.
    pub(crate) resend: bool,
    pub(crate) mandatory: bool,
    /// COMPAT: RabbitMQ refuses it since 3.0; measurements of older brokers have it.
    pub(crate) immediate: bool,
    pub(crate) random_start_ns: u64,
}

impl Publishing {
    /// Channels that publish, of all connections.
    pub(crate) fn n_publishers(&self) -> usize {
        self.n_connections * usize::from(self.n_channels)
    }
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

impl Consuming {
    /// Channels that consume, of all connections.
    pub(crate) fn n_consumers(&self) -> usize {
        self.n_connections * usize::from(self.n_channels)
    }
}

/// A consumer's way to settle a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    /// Nothing: the broker forgets it when it is sent.
    Automatic,
    /// Acknowledge, every n-th message all up to it.
    Ack { every: u64 },
    /// Refuse, every n-th message all up to it.
    Nack { every: u64, requeue: bool },
}

/// The messages that publishers send.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) body: Body,
    pub(crate) persistent: bool,
    pub(crate) content_type: Option<String>,
    /// Names and values as given.
    pub(crate) properties: Vec<(String, Value)>,
    pub(crate) random_key: bool,
    /// The number of different random keys.
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
    /// Messages that end an interval before its time.
    pub(crate) interval_messages: Option<NonZeroU64>,
    pub(crate) exit_when: Option<ExitWhen>,
    /// Time without a message after which consumers with a limit give up, where nobody publishes.
    pub(crate) idle_ns: Option<u64>,
    pub(crate) format: Format,
    /// The file for comma-separated values, besides what is printed.
    pub(crate) output_file: Option<PathBuf>,
    pub(crate) verify: bool,
    pub(crate) n_threads: usize,
    pub(crate) broker_pid: Option<u32>,
    pub(crate) shutdown_timeout_ns: u64,
    /// The least and longest wait before a lost connection is made again. `None`: the run ends.
    pub(crate) recovery_ns: Option<(u64, u64)>,
    /// Whether to draw a bar; `None`: on a terminal.
    pub(crate) progress: Option<bool>,
    /// Connections go to brokers at random instead of in turn.
    pub(crate) random_allocation: bool,
}

/// A reason to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitWhen {
    Empty,
    Idle,
}

/// The formats of results.
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
        // Messages that may come twice have to be told apart.
        let verify = given.has("verify") || given.has("resend");
        let config = Self {
            brokers: brokers(given)?,
            link: link(given)?,
            topology: topology::topology(given)?,
            publishing: load::publishing(given)?,
            consuming: load::consuming(given)?,
            message: load::message(given, verify)?,
            run: run(given, verify)?,
            links: Links::default(),
        };
        config.check()?;
        Ok(config)
    }

    /// Whether every message that counts outlives lost connections and even the broker's restart:
    /// it is confirmed when it is safe, kept until it is acknowledged, and so is its queue. Who
    /// publishes again asks for just that, so there it counts always.
    pub(crate) fn outlives_connections(&self) -> bool {
        self.publishing.resend
            || self.publishing.confirm_window.is_some()
                && self.consuming.settle != Settle::Automatic
                && self.message.persistent
                && self.topology.durable
                && !self.topology.auto_delete
    }

    /// The numbers of agents and of the messages after which they end.
    pub(crate) fn limits(&self) -> Limits {
        let Self { publishing, consuming, run, .. } = self;
        let can_wait = run.exit_when.is_none() && consuming.start_delay_ns == 0;
        Limits {
            n_publishers: publishing.n_publishers(),
            sent: publishing.limit,
            n_consumers: consuming.n_consumers(),
            received: consuming.limit,
            idle_ns: run.idle_ns.filter(|_| can_wait && publishing.n_connections == 0),
            is_brief: false,
        }
    }

    fn check(&self) -> Result<(), Usage> {
        let refuse = |what: &str| Err(Usage(what.to_owned()));
        if self.publishing.n_connections + self.consuming.n_connections == 0 {
            return refuse("there is neither a producer nor a consumer");
        }
        if self.run.interval_messages.is_some() && crate::setup::parts(self).len() > 1 {
            return refuse("--interval-messages counts one thread's: it needs --threads 1");
        }
        if self.run.verify {
            if !matches!(self.message.body, Body::Stamped(_)) {
                return refuse("--verify needs bodies of its own: no --body, no --json-body");
            }
            if matches!(self.consuming.settle, Settle::Nack { requeue: false, .. }) {
                return refuse("--verify does not go with messages that are thrown away");
            }
        }
        if self.publishing.resend { self.check_resend() } else { Ok(()) }
    }

    fn check_resend(&self) -> Result<(), Usage> {
        let Publishing { confirm_window, confirm_timeout_ns, .. } = self.publishing;
        let refuse = |what: &str| Err(Usage(format!("--resend {what}")));
        if confirm_window.is_none() {
            return refuse("needs --confirm: without it nothing is known to be lost");
        }
        if confirm_timeout_ns == 0 {
            return refuse("needs a --confirm-timeout above 0");
        }
        if self.run.recovery_ns.is_none() {
            return refuse("does not go with --disable-connection-recovery");
        }
        if self.consuming.limit.is_some() {
            return refuse(
                "does not go with --cmessages: consumers end when they have had all of --pmessages",
            );
        }
        if self.message.random_key {
            return refuse(
                "does not go with random routing keys: a message is published again with its own",
            );
        }
        Ok(())
    }
}

fn brokers(given: &Given) -> Result<Vec<Uri>, Usage> {
    let text = given.last("uris").or_else(|| given.last("uri")).unwrap_or("amqp://localhost");
    text.split(',').map(|uri| Uri::parse(uri.trim()).map_err(Usage)).collect()
}

fn link(given: &Given) -> Result<Link, Usage> {
    Ok(Link {
        heartbeat_s: number(given, "heartbeat", 0)?,
        frame_max: number(given, "framemax", 0)?,
        no_delay: truth(given, "tcp-no-delay", true)?,
        receive_buffer_bytes: optional(given, "tcp-receive-buffer-size")?,
        send_buffer_bytes: optional(given, "tcp-send-buffer-size")?,
        startup_timeout_ns: seconds(given, "servers-startup-timeout", 0.0)?,
        encryption: encryption(given)?,
    })
}

fn encryption(given: &Given) -> Result<Encryption, Usage> {
    // COMPAT: without the option PerfTest's client takes any certificate for good
    // (whom_tls_trusts_and_asks_for).
    let is_strict = given.has("use-default-ssl-context");
    let trust = if is_strict { Trust::System } else { Trust::Everyone };
    Ok(Encryption::new(trust, server_name(given)?))
}

/// The options of a run as a whole; `verify` is that of the load.
pub(crate) fn run(given: &Given, verify: bool) -> Result<Run, Usage> {
    let formats = [("default", Format::Default), ("compact", Format::Compact)];
    let format = match given.has("json") {
        true => Format::Json,
        false => choice(given, "metrics-format", Format::Default, &formats)?,
    };
    let conditions = [("empty", Some(ExitWhen::Empty)), ("idle", Some(ExitWhen::Idle))];
    let recovery = seconds_range(given, "connection-recovery-interval", RECOVERY_INTERVAL_S)?;
    let allocations = [("random", true), ("round-robin", false)];
    let broker_pid: Option<u32> = optional(given, "broker-pid")?;
    if let Some(pid) = broker_pid.filter(|pid| process::usage(*pid).is_none()) {
        return Err(Usage(format!("--broker-pid {pid}: no such process")));
    }
    let time = seconds(given, "time", 0.0)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Run {
        id: given.last("id").map(str::to_owned),
        time_ns: Some(time).filter(|time| *time > 0),
        interval_ns: seconds(given, "interval", 1.0)?.max(SECOND / 100),
        interval_messages: optional(given, "interval-messages")?,
        exit_when: choice(given, "exit-when", None, &conditions)?,
        idle_ns: Some(seconds(given, "idle-timeout", 30.0)?).filter(|ns| *ns > 0),
        format,
        output_file: given.last("output-file").map(PathBuf::from),
        verify,
        n_threads: number(given, "threads", cores)?.max(1),
        broker_pid,
        shutdown_timeout_ns: seconds(given, "shutdown-timeout", 5.0)?,
        recovery_ns: (!given.has("disable-connection-recovery")).then_some(recovery),
        progress: optional(given, "progress")?,
        random_allocation: choice(given, "connection-allocation", true, &allocations)?,
    })
}

/// Quorum queues and streams keep messages whatever they say, so PerfTest has them say it.
fn is_persistent(given: &Given) -> bool {
    let typed = given.has("stream-queue") || given.has("quorum-queue");
    typed || given.all("flag").any(|flag| flag == "persistent")
}

#[cfg(test)]
mod tests;
