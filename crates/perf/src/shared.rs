//! State that the threads of a run share, and the messages they send each other.

use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::clock;
use crate::connection::Phase;
use crate::stats::Sample;
use crate::verify::Ledger;
use client::Client;

/// State shared by all threads of a run.
#[derive(Debug)]
pub(crate) struct Shared {
    phase: AtomicU8,
    /// Time of the clock the run started at; set before the phase is.
    start: AtomicU64,
    /// Messages published by all, each counted once, for the progress bar.
    n_sent: AtomicU64,
    /// Messages received by all, for those who wait until no more come.
    n_received: AtomicU64,
    /// Publishes that wait for their confirms, kept by each thread for itself.
    n_outstanding: Vec<AtomicU64>,
    wakes: Vec<OwnedFd>,
    /// Connections that were made again, for each thread.
    reconnected: Vec<Mutex<Vec<Reconnected>>>,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) interval_ns: u64,
    /// Messages that end an interval before its time; `u64::MAX` for no such number.
    pub(crate) interval_messages: u64,
    pub(crate) confirm_timeout_ns: u64,
    pub(crate) shutdown_timeout_ns: u64,
    pub(crate) owes_unconfirmed: bool,
}

impl Shared {
    /// For `n_threads` threads.
    pub(crate) fn new(n_threads: usize, run: &crate::config::Run) -> anyhow::Result<Self> {
        let wake = |_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Ok(Self {
            phase: AtomicU8::new(0),
            start: AtomicU64::new(0),
            n_sent: AtomicU64::new(0),
            n_received: AtomicU64::new(0),
            n_outstanding: (0..n_threads).map(|_| AtomicU64::new(0)).collect(),
            wakes: (0..n_threads).map(wake).collect::<Result<_, _>>()?,
            reconnected: (0..n_threads).map(|_| Mutex::default()).collect(),
            ledger: None,
            owes_unconfirmed: false,
            confirm_timeout_ns: u64::MAX,
            interval_ns: run.interval_ns,
            interval_messages: run.interval_messages.map_or(u64::MAX, NonZeroU64::get),
            shutdown_timeout_ns: run.shutdown_timeout_ns,
        })
    }

    /// Starts the clock and everything else.
    pub(crate) fn start(&self) -> u64 {
        let now = clock::now();
        self.start.store(now, Ordering::Release);
        self.enter(Phase::Run);
        now
    }

    /// Goes on to a phase and tells all threads.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
        (0..self.wakes.len()).for_each(|number| self.wake(number));
    }

    fn wake(&self, number: usize) {
        if let Some(wake) = self.wakes.get(number) {
            // It only fails when the thread is about to be woken anyway.
            rustix::io::write(wake, &1_u64.to_ne_bytes()).unwrap_or_default();
        }
    }

    /// Hands a connection that was made again to its thread.
    pub(crate) fn hand_back(&self, broken: Broken, reconnected: Reconnected) {
        if let Some(all) = self.reconnected.get(broken.worker) {
            stdx::lock(all).push(reconnected);
            self.wake(broken.worker);
        }
    }

    /// The number of threads.
    pub(crate) fn n_threads(&self) -> usize {
        self.wakes.len()
    }

    /// Whether connections close.
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase() == Phase::Stop
    }

    /// Messages published by all threads so far.
    pub(crate) fn n_sent(&self) -> u64 {
        self.n_sent.load(Ordering::Relaxed)
    }

    /// Messages received by all threads so far.
    pub(crate) fn n_received(&self) -> u64 {
        self.n_received.load(Ordering::Relaxed)
    }

    /// Publishes that wait for their confirms, as of each thread's last pause.
    pub(crate) fn n_outstanding(&self) -> u64 {
        self.n_outstanding.iter().map(|one| one.load(Ordering::Relaxed)).sum()
    }

    /// The start of the run, on the clock that never goes back; 0 before.
    pub(crate) fn started_at(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    /// The event descriptor that wakes a thread.
    pub(crate) fn wake_event(&self, number: usize) -> Option<&OwnedFd> {
        self.wakes.get(number)
    }

    /// A thread's connections that were made again since the last call.
    pub(crate) fn take_reconnected(&self, number: usize) -> Vec<Reconnected> {
        self.reconnected
            .get(number)
            .map(|all| std::mem::take(&mut *stdx::lock(all)))
            .unwrap_or_default()
    }

    /// A thread published and received that many more.
    pub(crate) fn tell_progress(&self, n_sent: u64, n_received: u64) {
        for (n, told) in [(n_sent, &self.n_sent), (n_received, &self.n_received)] {
            if n > 0 {
                told.fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// Notes how many publishes of a thread wait for their confirms.
    pub(crate) fn tell_outstanding(&self, number: usize, n: usize) {
        if let Some(outstanding) = self.n_outstanding.get(number) {
            outstanding.store(u64::try_from(n).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// The phase of the run.
    pub(crate) fn phase(&self) -> Phase {
        let phase = Phase::ALL.get(usize::from(self.phase.load(Ordering::Acquire)));
        phase.copied().unwrap_or(Phase::Stop)
    }
}

/// A connection that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Broken {
    /// The number of its thread.
    pub(crate) worker: usize,
    /// Its number in the thread.
    pub(crate) at: usize,
}

/// A connection that was made again.
#[derive(Debug)]
pub(crate) struct Reconnected {
    /// Its number in the thread.
    pub(crate) at: usize,
    pub(crate) client: Client,
    /// The names of its queues, by number.
    pub(crate) names: Vec<(usize, String)>,
}

/// A thread's message to the monitor.
#[derive(Debug)]
pub(crate) enum News {
    /// One of its connections is there.
    Connected,
    /// Its consumers are consuming.
    Ready,
    /// An interval is over.
    Sampled(Box<Sample>),
    /// The run is over; what it measured since the last interval.
    Stopped(Box<Sample>),
    /// A publisher has sent all it was to send.
    PublisherDone,
    /// A consumer has received all it was to receive.
    ConsumerDone,
    /// A connection is lost and will be made again.
    Lost(anyhow::Error),
    /// A connection was made again.
    Recovered,
    /// A connection could not be made again yet.
    NotRecovered(anyhow::Error),
    /// The thread cannot go on.
    Failed(anyhow::Error),
}
