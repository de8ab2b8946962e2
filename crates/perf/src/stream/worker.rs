//! A thread that drives its connections: waits for any of them, gives each that is ready a turn.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use rustix::event::{Timespec, epoll};

use super::connection::{Connection, Role, TurnContext};
use crate::clock::{self, MILLISECOND};
use crate::stats::Sample;

/// The longest sleep, after which it is looked whether the run is over.
const SLEEP_NS_MAX: u64 = 20 * MILLISECOND;
/// The number of events taken at once.
const EVENTS_MAX: usize = 256;

/// State that all threads of a run share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// When the run started, nanoseconds of the clock.
    pub(super) start: AtomicU64,
    pub(super) is_over: AtomicBool,
}

/// A thread's message to the monitor.
#[derive(Debug)]
pub(super) enum News {
    /// All is set up.
    Ready,
    /// An interval is over.
    Sampled(Box<Sample>),
    /// A producer has everything confirmed, at this time of the clock.
    ProducerDone(u64),
    /// A consumer has all its messages.
    ConsumerDone(u64),
    /// The thread has ended; what it measured since the last interval.
    Stopped(Box<Sample>),
    /// The run cannot go on.
    Failed(anyhow::Error),
}

/// A thread's state.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    shared: &'a Shared,
    news: &'a Sender<News>,
    poll: OwnedFd,
    connections: Vec<Seat>,
    sample: Sample,
    interval_ns: u64,
    next_sample: u64,
}

/// A connection and when it is its turn.
#[derive(Debug)]
struct Seat {
    connection: Connection,
    interest: epoll::EventFlags,
    due: u64,
    n_done: usize,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        news: &'a Sender<News>,
        connections: Vec<Connection>,
        interval_ns: u64,
    ) -> anyhow::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let interest = epoll::EventFlags::IN;
        for (at, connection) in connections.iter().enumerate() {
            let data = epoll::EventData::new_u64(u64::try_from(at)?);
            epoll::add(&poll, connection.socket(), data, interest)?;
        }
        let seat = |connection| Seat { connection, interest, due: 0, n_done: 0 };
        let connections = connections.into_iter().map(seat).collect();
        let sample = Sample::new();
        Ok(Self { shared, news, poll, connections, sample, interval_ns, next_sample: 0 })
    }

    /// Works until the run is over.
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)).unwrap_or_default();
        let start = self.shared.start.load(Ordering::Acquire);
        self.next_sample = start + self.interval_ns;
        let worked = self.work(start);
        let sample = std::mem::replace(&mut self.sample, Sample::new());
        self.tell(News::Stopped(Box::new(sample)));
        worked?;
        self.connections.into_iter().for_each(|seat| seat.connection.close());
        Ok(())
    }

    fn tell(&self, news: News) {
        // Nobody listens any more when the run has failed elsewhere.
        drop(self.news.send(news));
    }

    fn work(&mut self, start: u64) -> anyhow::Result<()> {
        while !self.shared.is_over.load(Ordering::Acquire) {
            let now = clock::now();
            if now >= self.next_sample {
                self.next_sample += self.interval_ns;
                let sample = std::mem::replace(&mut self.sample, Sample::new());
                self.tell(News::Sampled(Box::new(sample)));
            }
            for at in 0..self.connections.len() {
                if self.connections.get(at).is_some_and(|seat| seat.due <= now) {
                    self.turn(at, start, false)?;
                }
            }
            self.wait(start)?;
        }
        Ok(())
    }

    fn turn(&mut self, at: usize, start: u64, is_readable: bool) -> anyhow::Result<()> {
        let Some(seat) = self.connections.get_mut(at) else { return Ok(()) };
        let now = clock::now();
        let mut context = TurnContext { now, start, is_readable, sample: &mut self.sample };
        seat.due = seat.connection.turn(&mut context)?;
        let now = context.now;
        let interest = seat.connection.interest(now);
        if interest != seat.interest {
            seat.interest = interest;
            let data = epoll::EventData::new_u64(u64::try_from(at)?);
            epoll::modify(&self.poll, seat.connection.socket(), data, interest)?;
        }
        let (n_done, is_producing) = match seat.connection.role() {
            Role::Producing(all) => (all.iter().filter(|one| one.is_done()).count(), true),
            Role::Consuming(all) => (all.iter().filter(|one| one.is_done()).count(), false),
        };
        let n_new = n_done.saturating_sub(std::mem::replace(&mut seat.n_done, n_done));
        for _ in 0..n_new {
            self.tell(if is_producing { News::ProducerDone(now) } else { News::ConsumerDone(now) });
        }
        Ok(())
    }

    fn wait(&mut self, start: u64) -> anyhow::Result<()> {
        let now = clock::now();
        let due = self.connections.iter().map(|seat| seat.due).min().unwrap_or(u64::MAX);
        let until = due.min(self.next_sample).min(now + SLEEP_NS_MAX);
        let ns = until.saturating_sub(now);
        let time = Timespec { tv_sec: 0, tv_nsec: i64::try_from(ns)? };
        let mut events = Vec::with_capacity(EVENTS_MAX);
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events {
            let flags = event.flags;
            let is_readable = flags.intersects(!epoll::EventFlags::OUT);
            self.turn(usize::try_from(event.data.u64())?, start, is_readable)?;
        }
        Ok(())
    }
}
