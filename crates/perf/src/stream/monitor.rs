//! A run from the first connection to the last line.

use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;

use super::config::Config;
use super::connection::Connection;
use super::setup::{self, Part};
use super::worker::{News, Shared, Worker};
use super::{options, topology};
use crate::clock;
use crate::config::Format;
use crate::options::{help_of, parse_from};
use crate::process;
use crate::report::{Interval, Printer, RunError, Shown, Summary};
use crate::run::meter::Meter;
use crate::run::{generated_id, say};
use crate::stats::Sample;

/// Time that threads have to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which conditions are looked at that nobody reports.
const POLL: Duration = Duration::from_millis(10);
/// Files that are open besides those of connections and threads.
const FILES_BESIDES: usize = 32;

/// `perf stream`. `words` are the options.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let given = match parse_from(options::OPTIONS, words) {
        Ok(given) => given,
        Err(usage) => return crate::refuse(&usage),
    };
    if given.has("help") {
        return crate::show(&help_of("leveret perf stream", options::OPTIONS));
    }
    if given.has("version") {
        return crate::show(concat!("leveret perf ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    match Config::new(&given) {
        Err(usage) => crate::refuse(&usage),
        Ok(config) => match measure(&config) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(crate::EXIT_FAILED),
            Err(error) => crate::fail(&error, config.run.format),
        },
    }
}

/// Does the run; gives back whether it came to its end.
fn measure(config: &Config) -> anyhow::Result<bool> {
    let id = config.run.id.clone().unwrap_or_else(generated_id);
    let n_connections = config.producing.n + config.consuming.n;
    process::allow_files(u64::try_from(n_connections + config.run.n_threads + FILES_BESIDES)?)?;
    let mut client = setup::dial(config, 0, &format!("{id} configuration"))?;
    topology::create(&mut client, &config.streams)?;
    let port = config.brokers.first().context("no broker")?.port;
    let found = || client.is_local().then(|| process::listening_on(port)).flatten();
    let broker_pid = config.run.broker_pid.or_else(found);
    let printer = Printer {
        id: id.clone(),
        format: config.run.format,
        shown: shown(config),
        in_millis: false,
    };
    if printer.format == Format::Json {
        say(&printer.start_json(&client.product, &client.version, broker_pid).to_string())?;
    }
    let (summary, is_complete) = load(config, &printer, broker_pid)?;
    if config.streams.delete {
        topology::delete(&mut client, &config.streams)?;
    }
    client.close();
    say(&printer.summary(&summary))?;
    if !is_complete {
        crate::complain(&summary.reason);
    }
    Ok(is_complete)
}

fn shown(config: &Config) -> Shown {
    Shown {
        publishes: config.producing.n > 0,
        consumes: config.consuming.n > 0,
        confirms: config.producing.n > 0,
        consumer_latency: config.consuming.n > 0 && config.consuming.measures_latency,
        confirm_latency: config.producing.n > 0 && config.producing.measures_confirms,
        resends: false,
        returns: false,
    }
}

fn load(
    config: &Config,
    printer: &Printer,
    broker_pid: Option<u32>,
) -> anyhow::Result<(Summary, bool)> {
    let parts = setup::parts(config);
    let shared = Shared::default();
    let (tell, news) = channel();
    let gate = Barrier::new(parts.len() + 1);
    std::thread::scope(|scope| {
        for parts in &parts {
            let (tell, shared, gate) = (tell.clone(), &shared, &gate);
            scope.spawn(move || {
                if let Err(error) = work(config, &printer.id, parts, (shared, gate), &tell) {
                    drop(tell.send(News::Failed(error)));
                }
            });
        }
        drop(tell);
        let monitored =
            Monitor::new(config, printer, &shared, parts.len()).run(&gate, &news, broker_pid);
        shared.is_over.store(true, Ordering::Release);
        monitored
    })
}

/// The life of a thread. Consumers subscribe before the start where somebody publishes, and with it
/// where nobody does: what is received before it would raise the rate.
fn work(
    config: &Config,
    id: &str,
    parts: &[Part],
    (shared, gate): (&Shared, &Barrier),
    tell: &Sender<News>,
) -> anyhow::Result<()> {
    let prepared: anyhow::Result<Vec<_>> =
        parts.iter().map(|&part| setup::prepare(config, id, part)).collect();
    let begin = |all: Vec<_>| all.into_iter().map(|one| setup::begin(config, one)).collect();
    let (mut connections, mut waiting) = (Ok(Vec::new()), Vec::new());
    match prepared {
        Ok(prepared) if config.producing.n > 0 => connections = begin(prepared),
        Ok(prepared) => waiting = prepared,
        Err(error) => connections = Err(error),
    }
    match &connections {
        Ok(_) => drop(tell.send(News::Ready)),
        Err(error) => drop(tell.send(News::Failed(anyhow::anyhow!("{error:#}")))),
    }
    gate.wait();
    let mut connections: Vec<Connection> = connections?;
    if shared.is_over.load(Ordering::Acquire) {
        return Ok(());
    }
    connections.extend(begin(waiting)?);
    Worker::new(shared, tell, connections, config.run.interval_ns)?.run()
}

/// A run in progress, as the thread sees it that prints.
struct Monitor<'a> {
    config: &'a Config,
    printer: &'a Printer,
    shared: &'a Shared,
    n_threads: usize,
    n_producers_left: usize,
    n_consumers_left: usize,
    total: Sample,
    /// The sum of the threads' samples of one interval, how many have come, and when it began.
    pending: (Sample, usize, u64),
    meter: Option<Meter>,
    n_received: u64,
    received_at: u64,
    stopped_at: u64,
    n_stopped: usize,
    failure: Option<RunError>,
}

impl<'a> Monitor<'a> {
    fn new(config: &'a Config, printer: &'a Printer, shared: &'a Shared, n_threads: usize) -> Self {
        let count = |limit: Option<u64>, n: usize| if limit.is_some() { n } else { 0 };
        Self {
            config,
            printer,
            shared,
            n_threads,
            n_producers_left: count(config.producing.limit, config.producing.n),
            n_consumers_left: count(config.consuming.limit, config.consuming.n),
            total: Sample::new(),
            pending: (Sample::new(), 0, 0),
            meter: None,
            n_received: 0,
            received_at: 0,
            stopped_at: 0,
            n_stopped: 0,
            failure: None,
        }
    }

    fn run(
        mut self,
        gate: &Barrier,
        news: &Receiver<News>,
        broker_pid: Option<u32>,
    ) -> anyhow::Result<(Summary, bool)> {
        for _ in 0..self.n_threads {
            if let News::Failed(error) = news.recv()? {
                self.shared.is_over.store(true, Ordering::Release);
                gate.wait();
                return Err(error);
            }
        }
        if let Some(heading) = self.printer.heading() {
            say(&heading)?;
        }
        self.meter = broker_pid.and_then(Meter::start);
        let own_before = clock::own_cpu();
        let start = clock::now();
        self.shared.start.store(start, Ordering::Release);
        (self.pending.2, self.received_at) = (start, start);
        gate.wait();
        let reason = self.intervals(start, news)?;
        self.shared.is_over.store(true, Ordering::Release);
        self.last_samples(news)?;
        self.finish(start, own_before, reason)
    }

    fn finish(
        mut self,
        start: u64,
        own_before: u64,
        reason: String,
    ) -> anyhow::Result<(Summary, bool)> {
        self.total.add(&self.pending.0);
        self.meter.as_mut().map(Meter::interval);
        if self.printer.format != Format::Json {
            say(&format!("test stopped ({reason})"))?;
        }
        let is_complete = self.failure.is_none();
        let summary = Summary {
            total: self.total,
            elapsed_ns: self.stopped_at.saturating_sub(start),
            broker: self.meter.as_ref().map(Meter::total),
            own_cpu_ns: clock::own_cpu() - own_before,
            verdict: None,
            reason,
            run_errors: self.failure.into_iter().collect(),
            n_connections_lost: 0,
            n_connections_recovered: 0,
        };
        Ok((summary, is_complete))
    }

    /// Prints interval by interval until there is a reason to stop, which it gives back.
    fn intervals(&mut self, start: u64, news: &Receiver<News>) -> anyhow::Result<String> {
        let run = &self.config.run;
        let ends_at = run.time_ns.map_or(u64::MAX, |time| start.saturating_add(time));
        let has_limit = self.n_producers_left + self.n_consumers_left > 0;
        loop {
            let now = clock::now();
            self.stopped_at = now;
            if now >= ends_at {
                return Ok("Reached time limit".to_owned());
            }
            if let Some(why) = self.gives_up(now) {
                self.failure = Some(RunError { code: None, reason: why.clone(), n: 1 });
                return Ok(why);
            }
            match news.recv_timeout(Duration::from_nanos(ends_at - now).min(POLL)) {
                Ok(news) => self.on_news(news, start)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("all threads ended"),
            }
            if let Some(failure) = &self.failure {
                return Ok(failure.to_string());
            }
            if has_limit && self.n_producers_left + self.n_consumers_left == 0 {
                return Ok(self.limit_reason());
            }
        }
    }

    fn limit_reason(&self) -> String {
        let Config { producing, consuming, .. } = self.config;
        let reasons = [
            (producing.limit.is_some() && producing.n > 0, "Producer reached message limit"),
            (consuming.limit.is_some() && consuming.n > 0, "Consumer reached message limit"),
        ];
        let reasons = reasons.into_iter().filter(|(is_one, _)| *is_one).map(|(_, reason)| reason);
        reasons.collect::<Vec<_>>().join(", ")
    }

    /// Why consumers need not wait any longer for their number of messages: nobody publishes here, and
    /// nothing has come for a while.
    fn gives_up(&mut self, now: u64) -> Option<String> {
        let n_received = self.total.counts.received + self.pending.0.counts.received;
        if n_received != self.n_received {
            (self.n_received, self.received_at) = (n_received, now);
        }
        let idle_ns = self.config.run.idle_ns?;
        let limit = self.config.consuming.limit.filter(|_| self.config.producing.n == 0)?;
        if now - self.received_at < idle_ns + self.config.run.interval_ns {
            return None;
        }
        let n_consumers = u64::try_from(self.config.consuming.n).unwrap_or(u64::MAX);
        Some(format!(
            "nothing was received for {} s: {n_received} of {} messages came, and nobody publishes here",
            idle_ns / clock::SECOND,
            limit.saturating_mul(n_consumers)
        ))
    }

    fn on_news(&mut self, news: News, start: u64) -> anyhow::Result<()> {
        match news {
            News::ProducerDone(at) => {
                self.n_producers_left = self.n_producers_left.saturating_sub(1);
                self.stopped_at = at;
            }
            News::ConsumerDone(at) => {
                self.n_consumers_left = self.n_consumers_left.saturating_sub(1);
                self.stopped_at = at;
            }
            News::Sampled(sample) => {
                self.pending.0.add(&sample);
                self.pending.1 += 1;
                if self.pending.1 == self.n_threads {
                    self.end_interval(start)?;
                }
            }
            News::Stopped(sample) => {
                self.pending.0.add(&sample);
                self.n_stopped += 1;
            }
            News::Failed(error) => {
                self.failure.get_or_insert_with(|| RunError::from(&error));
            }
            News::Ready => {}
        }
        Ok(())
    }

    fn end_interval(&mut self, start: u64) -> anyhow::Result<()> {
        let now = clock::now();
        let (sample, _, began_at) = std::mem::replace(&mut self.pending, (Sample::new(), 0, now));
        self.total.add(&sample);
        let interval = Interval {
            sample: &sample,
            elapsed_ns: now - start,
            length_ns: now - began_at,
            broker: self.meter.as_mut().map(Meter::interval),
            wall_ms: clock::wall_ms(),
        };
        self.printer.interval(&interval).map_or(Ok(()), |line| say(&line))
    }

    /// Collects what the threads measured since their last interval.
    fn last_samples(&mut self, news: &Receiver<News>) -> anyhow::Result<()> {
        while self.n_stopped < self.n_threads {
            match news.recv_timeout(STOP_TIMEOUT) {
                Ok(News::Stopped(sample)) => {
                    self.pending.0.add(&sample);
                    self.n_stopped += 1;
                }
                Ok(News::Sampled(sample)) => self.pending.0.add(&sample),
                Ok(News::Failed(error)) => {
                    self.failure.get_or_insert_with(|| RunError::from(&error));
                }
                Ok(News::ProducerDone(_) | News::ConsumerDone(_) | News::Ready) => {}
                // Threads end without a sample if they failed before they began.
                Err(_) => break,
            }
        }
        Ok(())
    }
}
