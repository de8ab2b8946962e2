//! A thread that drives many connections: waits for any of them, gives each that is ready a turn.
//!
//! Few threads with many connections each, since a thousand threads would measure the scheduler;
//! and one thread suffices to outrun a broker, since a turn moves a whole batch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::bail;
use rustix::event::{Timespec, epoll};

use crate::clock::{self, SECOND};
use crate::connection::{Phase, Turn, TurnContext};
use crate::losses::is_loss;
use crate::publisher::TurnTime;
use crate::shared::{Broken, News, Reconnected, Shared};
use crate::socket::Socket;
use crate::stats::{Counts, Sample};
use crate::timerfd::TimerFd;

/// Room for the largest frame the tool agrees to and more deliveries behind it.
const INPUT_BYTES: usize = 512 * 1024;
/// The token of the event that wakes the thread.
const WAKE: u64 = u64::MAX;
/// The token of the event that ends a sleep.
const TIMER: u64 = u64::MAX - 1;
/// The number of events taken at once.
const EVENTS_MAX: usize = 256;
/// The longest sleep, after which clocks are looked at again.
const SLEEP_NS_MAX: u64 = SECOND;
/// Sleeps that short are not worth their system call.
const SLEEP_NS_MIN: u64 = 2_000;

/// A connection under load, of whatever protocol.
pub(crate) trait Driven {
    fn socket(&mut self) -> &mut Socket;

    /// Does what can be done now.
    ///
    /// # Errors
    /// The connection is lost, or the broker says something unexpected.
    fn turn(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn>;

    fn progress(&self) -> Progress;

    /// The number of publishes that wait for their confirms, if somebody is to know.
    fn n_outstanding(&self) -> usize {
        0
    }

    /// Whether confirms are overdue, and nothing is done about it.
    fn is_stuck(&self, _now: u64, _timeout_ns: u64) -> bool {
        false
    }

    /// The connection is lost; until [`Self::resume`] it does nothing.
    fn disconnect(&mut self) {}

    /// Goes on with another socket, whose channels are open.
    ///
    /// # Errors
    /// The protocol's connections are not made again, or this one differs from the one before.
    fn resume(&mut self, _reconnected: Reconnected) -> anyhow::Result<()> {
        bail!("a connection that is lost is not made again")
    }
}

/// The progress of a connection's publishers or consumers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Publishers or consumers that have reached their limit.
    pub(crate) n_done: usize,
    pub(crate) is_publishing: bool,
    /// Every consumer that begins before the clock has begun.
    pub(crate) is_consuming: bool,
}

/// A thread's state.
#[derive(Debug)]
pub(crate) struct Worker<C> {
    number: usize,
    shared: Arc<Shared>,
    news: Sender<News>,
    /// The thread that makes lost connections again; without it, a lost connection ends the run.
    reconnect: Option<Sender<Broken>>,
    n_down: usize,
    phase: Phase,
    poll: OwnedFd,
    timer: TimerFd,
    connections: Vec<C>,
    /// Agents per connection that are done and told.
    n_done: Vec<usize>,
    /// Connections that want a turn at once.
    ready: Vec<usize>,
    is_ready: Vec<bool>,
    /// Connections that want a turn at a time.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    due_at: Vec<u64>,
    sample: Sample,
    next_sample: u64,
}

impl<C: Driven> Worker<C> {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        news: Sender<News>,
        reconnect: Option<Sender<Broken>>,
        mut connections: Vec<C>,
    ) -> anyhow::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (at, connection) in connections.iter_mut().enumerate() {
            watch(&poll, at, connection)?;
        }
        if let Some(wake) = shared.wake_event(number) {
            epoll::add(&poll, wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        }
        let timer = TimerFd::new()?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, timer.descriptor(), epoll::EventData::new_u64(TIMER), flags)?;
        let n = connections.len();
        Ok(Self {
            number,
            shared,
            news,
            reconnect,
            n_down: 0,
            phase: Phase::Consume,
            poll,
            timer,
            connections,
            n_done: vec![0; n],
            ready: (0..n).collect(),
            is_ready: vec![true; n],
            due: BinaryHeap::new(),
            due_at: vec![u64::MAX; n],
            sample: Sample::new(),
            next_sample: u64::MAX,
        })
    }

    /// Works until the run is over. Failures are told, not given back.
    pub(crate) fn run(mut self) {
        // Timers of this thread are to be exact. Without the right to ask for it they are not.
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).unwrap_or_default();
        if let Err(error) = self.work() {
            self.tell(News::Failed(error));
            if self.phase <= Phase::Run {
                self.tell_stopped();
            }
        }
    }

    fn tell(&self, news: News) {
        // Nobody listens any more when the run has failed elsewhere.
        drop(self.news.send(news));
    }

    fn work(&mut self) -> anyhow::Result<()> {
        let mut input = vec![0; INPUT_BYTES];
        let mut is_told_ready = false;
        let mut stops_at = u64::MAX;
        loop {
            let now = clock::now();
            let entered = self.shared.phase();
            if entered != self.phase {
                self.on_phase(entered, now);
                if entered == Phase::Stop {
                    stops_at = now.saturating_add(self.shared.shutdown_timeout_ns);
                }
            }
            if self.n_down > 0 {
                self.take_reconnected()?;
            }
            self.turns(now, &mut input)?;
            if !is_told_ready && self.is_consuming() {
                is_told_ready = true;
                self.tell(News::Ready);
            }
            if self.phase == Phase::Run {
                self.end_intervals(now)?;
            }
            if now >= stops_at || self.connections.iter_mut().all(|one| one.socket().is_closed()) {
                return Ok(());
            }
            self.wait(now)?;
        }
    }

    fn on_phase(&mut self, to: Phase, now: u64) {
        if to == Phase::Run {
            self.next_sample = now + self.shared.interval_ns;
        }
        // A thread that did not wake in time has never seen the run: it was short.
        if self.phase <= Phase::Run && to > Phase::Run {
            self.tell_stopped();
        }
        self.phase = to;
        for at in 0..self.connections.len() {
            self.make_ready(at);
        }
    }

    fn tell_stopped(&mut self) {
        let sample = std::mem::replace(&mut self.sample, Sample::new());
        self.tell(News::Stopped(Box::new(sample)));
    }

    fn make_ready(&mut self, at: usize) {
        if let Some(is_ready) = self.is_ready.get_mut(at)
            && !std::mem::replace(is_ready, true)
        {
            self.ready.push(at);
        }
    }

    /// Gives every connection that is ready a turn.
    fn turns(&mut self, now: u64, input: &mut [u8]) -> anyhow::Result<()> {
        while let Some(&Reverse((at_time, at))) = self.due.peek().filter(|due| due.0.0 <= now) {
            self.due.pop();
            if let Some(due_at) = self.due_at.get_mut(at).filter(|due_at| **due_at == at_time) {
                *due_at = u64::MAX;
                self.make_ready(at);
            }
        }
        let before = self.sample.counts;
        for at in std::mem::take(&mut self.ready) {
            if let Some(is_ready) = self.is_ready.get_mut(at) {
                *is_ready = false;
            }
            match self.turn(at, input)? {
                Turn::Again => self.make_ready(at),
                Turn::At(time) => self.make_due(at, time),
                Turn::Idle => {}
            }
        }
        self.tell_progress(before);
        Ok(())
    }

    fn turn(&mut self, at: usize, input: &mut [u8]) -> anyhow::Result<Turn> {
        let Some(connection) = self.connections.get_mut(at) else { return Ok(Turn::Idle) };
        let time = TurnTime { now: clock::now(), start: self.shared.started_at() };
        let mut context = TurnContext {
            time,
            phase: self.phase,
            sample: &mut self.sample,
            ledger: self.shared.ledger.as_ref(),
            input,
            owes_unconfirmed: self.shared.owes_unconfirmed,
        };
        let turn = match connection.turn(&mut context) {
            Err(error)
                if is_loss(&error) && self.phase != Phase::Stop && self.reconnect.is_some() =>
            {
                return self.lose(at, error);
            }
            turn => turn?,
        };
        let Progress { n_done, is_publishing, .. } = connection.progress();
        if let Some(told) = self.n_done.get_mut(at) {
            let n_new = n_done.saturating_sub(std::mem::replace(told, n_done));
            for _ in 0..n_new {
                let news = if is_publishing { News::PublisherDone } else { News::ConsumerDone };
                self.tell(news);
            }
        }
        Ok(turn)
    }

    fn lose(&mut self, at: usize, error: anyhow::Error) -> anyhow::Result<Turn> {
        if let Some(connection) = self.connections.get_mut(at) {
            connection.disconnect();
            epoll::delete(&self.poll, connection.socket().tcp())?;
        }
        self.n_down += 1;
        self.tell(News::Lost(error));
        let broken = Broken { worker: self.number, at };
        let is_sent =
            self.reconnect.as_ref().is_some_and(|reconnect| reconnect.send(broken).is_ok());
        if is_sent { Ok(Turn::Idle) } else { bail!("nobody makes connections again") }
    }

    fn take_reconnected(&mut self) -> anyhow::Result<()> {
        for reconnected in self.shared.take_reconnected(self.number) {
            let at = reconnected.at;
            let Some(connection) = self.connections.get_mut(at) else { continue };
            connection.resume(reconnected)?;
            watch(&self.poll, at, connection)?;
            self.n_down -= 1;
            self.make_ready(at);
            self.tell(News::Recovered);
        }
        Ok(())
    }

    /// Notes a connection's next turn, which may come too early: the connection then says when to call
    /// again.
    fn make_due(&mut self, at: usize, time: u64) {
        if let Some(due_at) = self.due_at.get_mut(at)
            && time < *due_at
        {
            *due_at = time;
            self.due.push(Reverse((time, at)));
        }
    }

    fn tell_progress(&self, before: Counts) {
        let Counts { sent, resent, received, .. } = self.sample.counts;
        let n_new = (sent - before.sent) - (resent - before.resent);
        self.shared.tell_progress(n_new, received - before.received);
    }

    fn is_consuming(&self) -> bool {
        self.connections.iter().all(|connection| connection.progress().is_consuming)
    }

    fn end_intervals(&mut self, now: u64) -> anyhow::Result<()> {
        let Counts { sent, received, .. } = self.sample.counts;
        if now >= self.next_sample {
            self.interval(now)?;
        } else if sent + received >= self.shared.interval_messages {
            // Latencies wait for the interval of time: to hand them over costs more than the messages.
            let part = Sample { counts: std::mem::take(&mut self.sample.counts), ..Sample::new() };
            self.tell(News::Sampled(Box::new(part)));
        }
        Ok(())
    }

    fn interval(&mut self, now: u64) -> anyhow::Result<()> {
        self.next_sample += self.shared.interval_ns;
        let sample = std::mem::replace(&mut self.sample, Sample::new());
        self.tell(News::Sampled(Box::new(sample)));
        let timeout = self.shared.confirm_timeout_ns;
        if self.connections.iter().any(|one| one.is_stuck(now, timeout)) {
            bail!("no confirm came for {} s", timeout / SECOND);
        }
        Ok(())
    }

    fn wait(&mut self, now: u64) -> anyhow::Result<()> {
        let due = self.due.peek().map_or(u64::MAX, |&Reverse((time, _))| time);
        let until = due.min(self.next_sample).min(now + SLEEP_NS_MAX);
        let sleep = self.ready.is_empty() && until > now + SLEEP_NS_MIN;
        if sleep {
            let n: usize = self.connections.iter().map(Driven::n_outstanding).sum();
            self.shared.tell_outstanding(self.number, n);
        }
        let time = match until.saturating_sub(now) {
            _ if !sleep => Some(Timespec::default()),
            _ if self.timer.covers(now, until)? => None,
            ns => Some(Timespec { tv_sec: 0, tv_nsec: i64::try_from(ns)? }),
        };
        let mut events = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            self.on_event(event);
        }
        Ok(())
    }

    fn on_event(&mut self, event: epoll::Event) {
        let flags = event.flags;
        let token = event.data.u64();
        if token == WAKE {
            let mut count = [0; 8];
            if let Some(wake) = self.shared.wake_event(self.number) {
                rustix::io::read(wake, &mut count).unwrap_or_default();
            }
            return;
        }
        if token == TIMER {
            return;
        }
        let at = usize::try_from(token).unwrap_or(usize::MAX);
        if let Some(connection) = self.connections.get_mut(at) {
            connection.socket().on_events(flags);
            self.make_ready(at);
        }
    }
}

fn watch(poll: &OwnedFd, at: usize, connection: &mut impl Driven) -> anyhow::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
    let data = epoll::EventData::new_u64(u64::try_from(at)?);
    Ok(epoll::add(poll, connection.socket().tcp(), data, flags | epoll::EventFlags::ET)?)
}
