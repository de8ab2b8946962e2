//! A run in progress, as the thread sees it that prints: what the others tell, until it ends.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::meter::Meter;
use super::progress::Bar;
use super::say;
use super::stop_reason::{IDLE_NS, Idle, Limits, StopReason};
use crate::clock::{self, MILLISECOND, SECOND};
use crate::config::{self, ExitWhen, Format};
use crate::connection::Phase;
use crate::report::{self, Printer, RunError, Summary};
use crate::setup::{self, Recipe};
use crate::shared::{News, Shared};
use crate::stats::Sample;
use crate::topology::{self, Routes};
use crate::verify::{Ledger, Verdict};
use client::Client;

/// Time that threads have for the next connection, and for all their consumers to begin.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest wait for what is on its way at the end of a verified run.
const DRAIN_NS_MAX: u64 = 60 * SECOND;
/// Interval at which conditions are looked at that nobody reports.
const POLL: Duration = Duration::from_millis(20);
/// The number of different errors kept; further ones count as the last.
const RUN_ERRORS_MAX: usize = 20;

/// A run in progress, seen from the thread that prints.
pub(crate) struct Run<'a> {
    config: &'a config::Run,
    limits: Limits,
    queues: Option<Queues<'a>>,
    shared: &'a Shared,
    printer: &'a Printer,
    news: Receiver<News>,
    n_threads: usize,
    output: Option<File>,
    total: Sample,
    pending: Pending,
    meter: Option<Meter>,
    bar: Option<Bar>,
    stop_reason: StopReason,
    run_errors: Vec<RunError>,
    n_lost: u64,
    n_recovered: u64,
}

/// The queues of a run, and the connection to ask about them.
pub(crate) struct Queues<'a> {
    pub(crate) recipe: &'a Recipe<'a>,
    pub(crate) client: &'a mut Client,
}

/// The sum of the threads' samples of one interval, as far as they have come.
struct Pending {
    sample: Sample,
    n_threads: usize,
    began_at: u64,
}

impl Pending {
    fn new(began_at: u64) -> Self {
        Self { sample: Sample::new(), n_threads: 0, began_at }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        config: &'a config::Run,
        limits: Limits,
        shared: &'a Shared,
        printer: &'a Printer,
        news: Receiver<News>,
    ) -> Self {
        Self {
            config,
            limits,
            queues: None,
            shared,
            printer,
            news,
            n_threads: shared.n_threads(),
            output: None,
            total: Sample::new(),
            pending: Pending::new(0),
            meter: None,
            bar: Bar::new(config, &limits),
            stop_reason: StopReason::new(&limits),
            run_errors: Vec::new(),
            n_lost: 0,
            n_recovered: 0,
        }
    }

    /// The run has queues, which are asked about, and which verification looks into.
    pub(super) fn with_queues(self, queues: Queues<'a>) -> Self {
        Self { queues: Some(queues), ..self }
    }

    /// Waits until all threads are ready, lets them run until there is a reason to stop, and sums
    /// up. Gives back whether the run came to its end.
    pub(crate) fn monitor(mut self, broker_pid: Option<u32>) -> anyhow::Result<(Summary, bool)> {
        self.await_ready()?;
        self.output = self.open_output()?;
        if let Some(heading) = self.printer.heading() {
            say(&heading)?;
        }
        self.meter = broker_pid.and_then(Meter::start);
        let own_before = clock::own_cpu();
        let start = self.shared.start();
        self.pending.began_at = start;
        self.intervals(start)?;
        self.shared.enter(Phase::Drain);
        let stopped = clock::now();
        let own_cpu_ns = clock::own_cpu() - own_before;
        self.last_samples(start, stopped)?;
        self.clear_bar();
        let reason = self.stop_reason.reason();
        if self.printer.format != Format::Json {
            say(&format!("test stopped ({reason})"))?;
        }
        let verdict = self.verdict();
        let is_complete = !self.stop_reason.is_failure();
        let summary = Summary {
            total: self.total,
            elapsed_ns: stopped.saturating_sub(start),
            broker: self.meter.as_ref().map(Meter::total),
            own_cpu_ns,
            verdict,
            reason,
            run_errors: self.run_errors,
            n_connections_lost: self.n_lost,
            n_connections_recovered: self.n_recovered,
        };
        Ok((summary, is_complete))
    }

    fn verdict(&mut self) -> Option<Verdict> {
        let ledger = self.shared.ledger.as_ref()?;
        let Recipe { routes, config, .. } = self.queues.as_ref()?.recipe;
        let expected = routes.expected(config);
        self.drain(ledger, expected.as_deref());
        let owed = expected.map(|expected| owed(routes, config.consuming.limit, ledger, expected));
        Some(ledger.verdict(owed.as_deref()))
    }

    /// Makes the file of comma-separated values, if one is wanted.
    fn open_output(&self) -> anyhow::Result<Option<File>> {
        let Some(path) = &self.config.output_file else { return Ok(None) };
        let cannot = || format!("cannot write to {}", path.display());
        let mut file = File::create(path).with_context(cannot)?;
        writeln!(file, "{}", self.printer.csv_heading()).with_context(cannot)?;
        Ok(Some(file))
    }

    fn await_ready(&mut self) -> anyhow::Result<()> {
        let mut n_ready = 0;
        while n_ready < self.n_threads {
            match self.news.recv_timeout(READY_TIMEOUT) {
                Ok(News::Ready) => n_ready += 1,
                Ok(News::Failed(error) | News::Lost(error)) => return Err(error),
                // Consumers may have all they want before the last of them has begun.
                Ok(news) => self.on_news(news),
                Err(_) => bail!("consumers do not begin"),
            }
        }
        Ok(())
    }

    /// Prints interval by interval until there is a reason to stop.
    fn intervals(&mut self, start: u64) -> anyhow::Result<()> {
        let run = self.config;
        let ends_at = run.time_ns.map_or(u64::MAX, |time| start.saturating_add(time));
        let (mut idle, mut waited) = (Idle::new(start), Idle::new(start));
        let mut looked_at = start;
        while !self.stop_reason.is_over() {
            let now = clock::now();
            if now >= ends_at {
                self.stop_reason.time_is_up();
                break;
            }
            if let Some(exit_when) = run.exit_when
                && now - looked_at > IDLE_NS / 10
            {
                looked_at = now;
                if self.is_over(exit_when, &mut idle, now)? {
                    self.stop_reason.consumers_stopped(exit_when);
                }
            }
            if let Some(why) = self.gives_up(&mut waited, now) {
                self.stop_reason.failed(&why);
                self.note(RunError { code: None, reason: why, n: 1 });
                break;
            }
            self.draw_bar(now - start);
            let wait = Duration::from_nanos(ends_at - now).min(POLL);
            match self.news.recv_timeout(wait) {
                Ok(News::Sampled(sample)) => self.on_sample(&sample, start)?,
                Ok(news) => self.on_news(news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("all threads ended"),
            }
        }
        Ok(())
    }

    /// Why consumers need not wait any longer for their number of messages: nobody publishes here, and
    /// nothing has come for a while.
    fn gives_up(&self, waited: &mut Idle, now: u64) -> Option<String> {
        let (n_wanted, idle_ns) = (self.limits.n_received()?, self.limits.idle_ns?);
        if waited.look(self.shared, now) <= idle_ns {
            return None;
        }
        Some(format!(
            "nothing was received for {} s: {} of {n_wanted} messages came, and nobody publishes here",
            idle_ns / SECOND,
            self.shared.n_received()
        ))
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::PublisherDone => self.stop_reason.publisher_done(),
            News::ConsumerDone => self.stop_reason.consumer_done(),
            News::Failed(error) => {
                let run_error = RunError::from(&error);
                self.stop_reason.failed(&run_error.to_string());
                self.note(run_error);
            }
            News::Lost(error) => self.on_loss(&error),
            News::Recovered => self.n_recovered += 1,
            News::NotRecovered(error) => self.note(RunError::from(&error)),
            News::Connected | News::Ready | News::Sampled(_) | News::Stopped(_) => {}
        }
    }

    fn on_loss(&mut self, error: &anyhow::Error) {
        self.n_lost += 1;
        if let Some(ledger) = &self.shared.ledger
            && !self.queues.as_ref().is_some_and(|it| it.recipe.config.outlives_connections())
        {
            ledger.doubt_loss();
        }
        let run_error = RunError::from(error);
        if self.n_lost == 1 {
            self.clear_bar();
            crate::complain(&format!("{run_error}; lost connections are made again"));
        }
        self.note(run_error);
    }

    /// Counts what went wrong.
    fn note(&mut self, run_error: RunError) {
        let is_full = self.run_errors.len() >= RUN_ERRORS_MAX;
        let same = |one: &&mut RunError| is_full || one.is_like(&run_error);
        match self.run_errors.iter_mut().rev().find(same) {
            Some(known) => known.n += run_error.n,
            None => self.run_errors.push(run_error),
        }
    }

    fn draw_bar(&mut self, elapsed_ns: u64) {
        if let Some(bar) = &mut self.bar {
            bar.draw(elapsed_ns, self.shared.n_sent(), self.shared.n_received());
        }
    }

    fn clear_bar(&mut self) {
        if let Some(bar) = &mut self.bar {
            bar.clear();
        }
    }

    fn on_sample(&mut self, sample: &Sample, start: u64) -> anyhow::Result<()> {
        self.pending.sample.add(sample);
        self.pending.n_threads += 1;
        if self.pending.n_threads == self.n_threads {
            self.end_interval(start, clock::now())?;
        }
        Ok(())
    }

    fn end_interval(&mut self, start: u64, now: u64) -> anyhow::Result<()> {
        let ended = std::mem::replace(&mut self.pending, Pending::new(now));
        self.total.add(&ended.sample);
        let interval = report::Interval {
            sample: &ended.sample,
            elapsed_ns: now - start,
            length_ns: now - ended.began_at,
            broker: self.meter.as_mut().map(Meter::interval),
            wall_ms: clock::wall_ms(),
        };
        if let Some(output) = &mut self.output {
            writeln!(output, "{}", self.printer.csv_line(&interval))
                .context("cannot write to the output file")?;
        }
        let Some(line) = self.printer.interval(&interval) else { return Ok(()) };
        self.clear_bar();
        say(&line)
    }

    fn is_over(&mut self, exit_when: ExitWhen, idle: &mut Idle, now: u64) -> anyhow::Result<bool> {
        let is_idle = idle.look(self.shared, now) > IDLE_NS;
        Ok(match exit_when {
            ExitWhen::Idle => is_idle,
            ExitWhen::Empty => is_idle && self.n_ready()? == Some(0),
        })
    }

    /// The number of ready messages; `None` while no connection can ask.
    fn n_ready(&mut self) -> anyhow::Result<Option<u64>> {
        let Some(Queues { recipe, client }) = &mut self.queues else { return Ok(None) };
        match topology::n_ready(client, recipe.routes) {
            Ok(n) => Ok(Some(n)),
            Err(error) if self.config.recovery_ns.is_none() => Err(error),
            Err(_) => {
                if let Ok(again) = setup::dial_configuration(recipe.config, recipe.id) {
                    **client = again;
                }
                Ok(None)
            }
        }
    }

    /// Collects what the threads measured since their last interval, and prints it unless it is
    /// only the rest of one.
    fn last_samples(&mut self, start: u64, stopped: u64) -> anyhow::Result<()> {
        let mut n_stopped = 0;
        while n_stopped < self.n_threads {
            match self.news.recv_timeout(READY_TIMEOUT)? {
                News::Stopped(sample) => {
                    self.pending.sample.add(&sample);
                    n_stopped += 1;
                }
                News::Sampled(sample) => self.pending.sample.add(&sample),
                News::Connected | News::Ready => {}
                news @ (News::PublisherDone
                | News::ConsumerDone
                | News::Lost(_)
                | News::Recovered
                | News::NotRecovered(_)
                | News::Failed(_)) => self.on_news(news),
            }
        }
        if stopped - self.pending.began_at >= self.config.interval_ns / 2 {
            return self.end_interval(start, stopped);
        }
        self.total.add(&self.pending.sample);
        self.meter.as_mut().map(Meter::interval);
        Ok(())
    }

    /// Waits until everything that was promised has come, or nothing comes any more.
    fn drain(&mut self, ledger: &Ledger, expected: Option<&[(usize, usize)]>) {
        let began_at = clock::now();
        let mut idle = Idle::new(began_at);
        loop {
            let now = clock::now();
            let is_idle = idle.look(self.shared, now) > 2 * IDLE_NS;
            let outstanding = self.shared.n_outstanding();
            let is_complete = expected.is_some_and(|expected| ledger.n_missing(expected) == 0);
            let is_settled = outstanding == 0 && is_complete && now - began_at > 200 * MILLISECOND;
            if is_settled
                || is_idle
                || now - began_at > DRAIN_NS_MAX
                || self.stop_reason.is_failure()
            {
                return;
            }
            match self.news.recv_timeout(POLL) {
                Ok(news) => self.on_news(news),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// The expected messages that have to have arrived by now, by queue and publisher. Queues whose
/// consumers have reached their limit may have kept the rest: whether that is lost is not known
/// then.
fn owed(
    routes: &Routes,
    limit: Option<u64>,
    ledger: &Ledger,
    expected: Vec<(usize, usize)>,
) -> Vec<(usize, usize)> {
    let is_open = routes.open_queues(limit, |queue| ledger.n_received(queue));
    let is_open = |(queue, _): &(usize, usize)| is_open.get(*queue) == Some(&true);
    let (open, closed): (Vec<_>, Vec<_>) = expected.into_iter().partition(is_open);
    if ledger.n_missing(&open) == 0 && ledger.n_missing(&closed) > 0 {
        ledger.doubt_loss();
    }
    open
}
