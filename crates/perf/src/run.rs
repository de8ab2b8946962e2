//! A run from the first connection to the last line.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::client::Client;
use crate::clock::{self, MILLISECOND, SECOND};
use crate::config::{Config, ExitWhen, Format};
use crate::connection::Phase;
use crate::message::Random;
use crate::process;
use crate::report::{Broker, Printer, Shown, Summary};
use crate::setup::{Part, Recipe, parts};
use crate::stats::Sample;
use crate::topology::{self, Routes};
use crate::verify::Ledger;
use crate::worker::{News, Shared, Worker};

/// How long consumers may take to begin.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long nothing may arrive before the rest counts as lost, or consumers as idle.
const IDLE_NS: u64 = SECOND;
/// The longest wait for what is on its way at the end of a verified run.
const DRAIN_NS_MAX: u64 = 60 * SECOND;
/// How often conditions are looked at that nobody tells of.
const POLL: Duration = Duration::from_millis(20);

/// Does the run. Gives back whether it was good: `false` if verification found something.
///
/// # Errors
/// `Unreachable` without a broker, otherwise whatever ended the run early.
pub(crate) fn run(config: &Config) -> anyhow::Result<bool> {
    let id = config.run.id.clone().unwrap_or_else(generated_id);
    let uri = config.brokers.first().context("no broker")?;
    let link = crate::config::Link { heartbeat_s: 0, ..config.link.clone() };
    let mut client = Client::connect(uri, &link, &format!("{id} configuration"))?;
    let seed = clock::now() ^ u64::from(std::process::id()) << 40;
    let mut routes = Routes::new(config, &mut Random(seed));
    topology::declare(&mut client, &config.topology, &mut routes)?;
    let broker_pid = config.run.broker_pid.or_else(|| {
        let is_local = matches!(uri.host.as_str(), "localhost" | "127.0.0.1" | "::1");
        is_local.then(|| process::listening_on(uri.port)).flatten()
    });
    let recipe = Recipe::new(config, &routes, &id, seed)?;
    let printer = Printer { id: id.clone(), format: config.run.format, shown: shown(config) };
    let summary = load(&recipe, &mut client, &printer, broker_pid)?;
    client.close();
    say(&printer.summary(&summary))?;
    Ok(summary.verdict.is_none_or(|verdict| verdict.is_good()))
}

fn shown(config: &Config) -> Shown {
    Shown {
        publishes: config.publishing.n_connections > 0,
        consumes: config.consuming.n_connections > 0,
        confirms: config.publishing.n_connections > 0 && config.publishing.confirm_window.is_some(),
        returns: config.publishing.n_connections > 0 && config.publishing.mandatory,
    }
}

/// PerfTest's form: the time of day.
fn generated_id() -> String {
    let ms = clock::wall_ms();
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("test-{:02}{:02}{:02}-{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Starts the threads, follows the run, and waits for the threads to end.
fn load(
    recipe: &Recipe<'_>,
    client: &mut Client,
    printer: &Printer,
    broker_pid: Option<u32>,
) -> anyhow::Result<Summary> {
    let config = recipe.config;
    let parts = parts(config);
    let n_publishers = config.publishing.n_connections * usize::from(config.publishing.n_channels);
    let ledger = config.run.verify.then(|| Ledger::new(n_publishers, recipe.routes.queues.len()));
    let shared = Arc::new(Shared::new(parts.len(), ledger, config)?);
    let (tell, news) = channel();
    std::thread::scope(|scope| {
        for (number, parts) in parts.iter().enumerate() {
            let (shared, tell) = (Arc::clone(&shared), tell.clone());
            scope.spawn(move || work(number, recipe, parts, shared, tell));
        }
        drop(tell);
        let mut run = Run {
            recipe,
            shared: &shared,
            printer,
            news,
            n_threads: parts.len(),
            total: Sample::new(),
            interval: Interval::new(0),
        };
        let summary = run.follow(client, broker_pid);
        shared.enter(Phase::Stop);
        summary
    })
}

/// The life of a thread.
fn work(
    number: usize,
    recipe: &Recipe<'_>,
    parts: &[Part],
    shared: Arc<Shared>,
    tell: Sender<News>,
) {
    let failed = tell.clone();
    let connections: anyhow::Result<Vec<_>> =
        parts.iter().map(|&part| recipe.connect(part)).collect();
    let worker = connections.and_then(|all| Worker::new(number, shared, tell, all));
    match worker {
        Ok(worker) => worker.run(),
        // Nobody listens any more when the run has failed elsewhere.
        Err(error) => drop(failed.send(News::Failed(error))),
    }
}

/// A run in progress, seen from the thread that prints.
struct Run<'a> {
    recipe: &'a Recipe<'a>,
    shared: &'a Shared,
    printer: &'a Printer,
    news: Receiver<News>,
    n_threads: usize,
    total: Sample,
    interval: Interval,
}

/// What the intervals of all threads amount to so far.
struct Interval {
    sample: Sample,
    n_threads: usize,
    began_at: u64,
}

impl Interval {
    fn new(began_at: u64) -> Self {
        Self { sample: Sample::new(), n_threads: 0, began_at }
    }
}

/// Producers and consumers with a limit that have not reached it.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    publishers: usize,
    consumers: usize,
    has_limit: bool,
}

impl Run<'_> {
    fn follow(&mut self, client: &mut Client, broker_pid: Option<u32>) -> anyhow::Result<Summary> {
        let config = self.recipe.config;
        self.await_ready()?;
        if let Some(heading) = self.printer.heading() {
            say(&heading)?;
        }
        let before = broker_pid.and_then(process::usage);
        let own_before = process::own_cpu_s();
        let start = self.shared.start();
        let reason = self.intervals(start, client)?;
        self.shared.enter(Phase::Drain);
        let stopped = clock::now();
        let elapsed_ns = stopped.saturating_sub(start);
        let after = broker_pid.and_then(process::usage);
        let own_cpu_s = process::own_cpu_s() - own_before;
        self.last_samples(start, stopped)?;
        if config.run.format != Format::Json {
            say(&format!("test stopped ({reason})"))?;
        }
        let expected = self.expected();
        if let Some(ledger) = &self.shared.ledger {
            self.drain(ledger, expected.as_deref())?;
        }
        let verdict = self.shared.ledger.as_ref().map(|one| one.verdict(expected.as_deref()));
        let broker = broker_pid.zip(before).zip(after).map(|((pid, before), after)| Broker {
            pid,
            usage: process::Usage { cpu_s: after.cpu_s - before.cpu_s, ..after },
        });
        let total = std::mem::replace(&mut self.total, Sample::new());
        Ok(Summary { total, elapsed_ns, broker, own_cpu_s, verdict })
    }

    fn await_ready(&self) -> anyhow::Result<()> {
        for _ in 0..self.n_threads {
            match self.news.recv_timeout(READY_TIMEOUT) {
                Ok(News::Ready) => {}
                Ok(News::Failed(error)) => return Err(error),
                Ok(
                    News::Sampled(_) | News::Stopped(_) | News::PublisherDone | News::ConsumerDone,
                ) => {}
                Err(_) => bail!("consumers do not begin"),
            }
        }
        Ok(())
    }

    /// Prints interval by interval until there is a reason to stop, which is given back.
    fn intervals(&mut self, start: u64, client: &mut Client) -> anyhow::Result<String> {
        let config = self.recipe.config;
        let ends_at = config.run.time_ns.map_or(u64::MAX, |time| start.saturating_add(time));
        let mut unfinished = unfinished(config);
        let mut idle = Idle { n_received: 0, since: start };
        self.interval.began_at = start;
        let mut looked_at = start;
        loop {
            let now = clock::now();
            if now >= ends_at {
                return Ok("Reached time limit".to_owned());
            }
            if let Some(exit_when) = config.run.exit_when
                && now - looked_at > IDLE_NS / 10
            {
                looked_at = now;
                if self.is_over(exit_when, &mut idle, client, now)? {
                    return Ok(match exit_when {
                        ExitWhen::Empty => "Queue(s) empty".to_owned(),
                        ExitWhen::Idle => "Consumer(s) idle for more than 1 second".to_owned(),
                    });
                }
            }
            let wait = Duration::from_nanos(ends_at - now).min(POLL);
            match self.news.recv_timeout(wait) {
                Ok(News::Sampled(sample)) => self.on_sample(&sample, start)?,
                Ok(News::PublisherDone) => {
                    unfinished.publishers = unfinished.publishers.saturating_sub(1)
                }
                Ok(News::ConsumerDone) => {
                    unfinished.consumers = unfinished.consumers.saturating_sub(1)
                }
                Ok(News::Failed(error)) => return Err(error),
                Ok(News::Ready | News::Stopped(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("all threads ended"),
            }
            if unfinished.has_limit && unfinished.publishers + unfinished.consumers == 0 {
                return Ok(reached(config));
            }
        }
    }

    fn on_sample(&mut self, sample: &Sample, start: u64) -> anyhow::Result<()> {
        self.interval.sample.add(sample);
        self.interval.n_threads += 1;
        if self.interval.n_threads == self.n_threads {
            self.end_interval(start, clock::now())?;
        }
        Ok(())
    }

    fn end_interval(&mut self, start: u64, now: u64) -> anyhow::Result<()> {
        let ended = std::mem::replace(&mut self.interval, Interval::new(now));
        self.total.add(&ended.sample);
        say(&self.printer.interval(&ended.sample, now - start, now - ended.began_at))
    }

    fn is_over(
        &self,
        exit_when: ExitWhen,
        idle: &mut Idle,
        client: &mut Client,
        now: u64,
    ) -> anyhow::Result<bool> {
        let is_idle = idle.look(self.shared, now) > IDLE_NS;
        Ok(match exit_when {
            ExitWhen::Idle => is_idle,
            ExitWhen::Empty => {
                now > idle.since + IDLE_NS / 5
                    && topology::n_ready(client, self.recipe.routes)? == 0
            }
        })
    }

    /// Collects what the threads measured since their last interval, and prints it unless it is
    /// only the rest of one.
    fn last_samples(&mut self, start: u64, stopped: u64) -> anyhow::Result<()> {
        let mut n_stopped = 0;
        while n_stopped < self.n_threads {
            match self.news.recv_timeout(READY_TIMEOUT)? {
                News::Stopped(sample) => {
                    self.interval.sample.add(&sample);
                    n_stopped += 1;
                }
                News::Sampled(sample) => self.interval.sample.add(&sample),
                News::Failed(error) => return Err(error),
                News::Ready | News::PublisherDone | News::ConsumerDone => {}
            }
        }
        if stopped - self.interval.began_at >= self.recipe.config.run.interval_ns / 2 {
            return self.end_interval(start, stopped);
        }
        self.total.add(&self.interval.sample);
        Ok(())
    }

    /// Which publisher's messages have to come out of which queue: pairs of queue and publisher.
    fn expected(&self) -> Option<Vec<(usize, usize)>> {
        let config = self.recipe.config;
        let n_channels = usize::from(config.publishing.n_channels);
        let pairs = self.recipe.routes.expected(config)?;
        let all = pairs.into_iter().flat_map(|(queue, connection)| {
            (0..n_channels).map(move |channel| (queue, connection * n_channels + channel))
        });
        Some(all.collect())
    }

    /// Waits until everything that was promised has come, or nothing comes any more.
    fn drain(&self, ledger: &Ledger, expected: Option<&[(usize, usize)]>) -> anyhow::Result<()> {
        let began_at = clock::now();
        let mut idle = Idle { n_received: 0, since: began_at };
        loop {
            let now = clock::now();
            let is_idle = idle.look(self.shared, now) > 2 * IDLE_NS;
            let outstanding = self.shared.n_outstanding();
            let is_complete = expected.is_some_and(|expected| ledger.n_missing(expected) == 0);
            let is_settled = outstanding == 0 && is_complete && now - began_at > 200 * MILLISECOND;
            if is_settled || is_idle || now - began_at > DRAIN_NS_MAX {
                return Ok(());
            }
            match self.news.recv_timeout(POLL) {
                Ok(News::Failed(error)) => return Err(error),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("all threads ended"),
            }
        }
    }
}

/// Since when nothing was received.
struct Idle {
    n_received: u64,
    since: u64,
}

impl Idle {
    /// How long, in nanoseconds.
    fn look(&mut self, shared: &Shared, now: u64) -> u64 {
        let n_received = shared.n_received();
        if n_received != self.n_received {
            *self = Self { n_received, since: now };
        }
        now.saturating_sub(self.since)
    }
}

fn unfinished(config: &Config) -> Unfinished {
    let count = |has_limit: bool, n_connections: usize, n_channels: u16| {
        if has_limit { n_connections * usize::from(n_channels) } else { 0 }
    };
    let (publishing, consuming) = (&config.publishing, &config.consuming);
    let publishers =
        count(publishing.limit.is_some(), publishing.n_connections, publishing.n_channels);
    let consumers = count(consuming.limit.is_some(), consuming.n_connections, consuming.n_channels);
    Unfinished { publishers, consumers, has_limit: publishers + consumers > 0 }
}

fn reached(config: &Config) -> String {
    let mut reasons = Vec::new();
    if config.publishing.limit.is_some() && config.publishing.n_connections > 0 {
        reasons.push("Producer reached message limit");
    }
    if config.consuming.limit.is_some() && config.consuming.n_connections > 0 {
        reasons.push("Consumer reached message limit");
    }
    reasons.join(", ")
}
