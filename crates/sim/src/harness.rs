//! The harness of every world: a node over a simulated disk, random numbers, the trace and the events
//! that clients got; start, crash and connections of the node. Never what a world is about, and never
//! what must hold in it.

use crate::client::Read;
use crate::node::{Node, NodeOptions, SingleClient, block_on, open_session, set_policy};
use crate::trace::Trace;
use broker::{Clock, Departed, Departure, QueueRef, Session, Stop};
use log::Durability;
use meta::Command;
use session::{Outcome, ProtocolKind};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use stdx::Now;
use testing::Random;
use testing::outbox::{Recorder, Space, Transcript};
use testing::{CrashOutcome, Fault, MemoryDisk};

/// Disk operations within which a planned loss of power comes that a start meets.
const START_FAULT_WITHIN: usize = 12;

/// Something is wrong: the run ends here.
#[expect(clippy::panic, reason = "caught by the caller of the run, who shows the trace")]
pub(crate) fn fail(violation: impl std::fmt::Display) -> ! {
    panic!("{violation}")
}

/// The value of a check that found no violation.
pub(crate) fn expect_ok<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|violation| fail(violation))
}

/// The node and everything around it that worlds have in common.
pub(crate) struct Harness {
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) disk: MemoryDisk,
    pub(crate) options: NodeOptions,
    pub(crate) node: Option<Node>,
    pub(crate) transcript: Transcript,
    n_connected: usize,
}

/// A connection that has just been made.
pub(crate) struct Connected {
    pub(crate) client: usize,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) session: Session,
    /// Deliveries the client's outbox takes before it is full.
    pub(crate) limit: usize,
}

/// Losses of power that starts of a node meet.
#[derive(Clone, Copy)]
pub(crate) struct StartFaults {
    pub(crate) in_a_row_max: usize,
    pub(crate) percent: usize,
    pub(crate) are_noted: bool,
}

/// A start that went through in the end.
pub(crate) struct Started {
    /// The disk as it was before.
    pub(crate) copy: MemoryDisk,
    /// Starts before it were cut off.
    pub(crate) was_cut_off: bool,
}

/// The outcome of a client's request; to be looked at unless the storage has failed.
#[must_use]
pub(crate) enum Said {
    WorkedOff,
    ThrownOut,
    /// The request would have waited for ever.
    Stuck,
}

impl Said {
    const fn of(done: Option<Result<(), Stop>>) -> Self {
        match done {
            None => Self::Stuck,
            Some(Err(_)) => Self::ThrownOut,
            Some(Ok(())) => Self::WorkedOff,
        }
    }

    pub(crate) fn check(self) {
        match self {
            Self::WorkedOff => {}
            Self::ThrownOut => fail("a client is thrown out"),
            Self::Stuck => fail("a client waits for ever"),
        }
    }
}

impl Harness {
    pub(crate) fn new(random: Random, options: NodeOptions, echo: bool) -> Self {
        Self {
            random,
            trace: Trace::new(echo),
            disk: MemoryDisk::new(),
            options,
            node: None,
            transcript: Transcript::default(),
            n_connected: 0,
        }
    }

    pub(crate) fn note(&mut self, line: impl Into<String>) {
        self.trace.note(line.into());
    }

    /// The first start.
    pub(crate) fn begin(&mut self) {
        let mut node = expect_ok(Node::open(&self.disk, &self.options));
        node.add_first_user();
        self.node = Some(node);
    }

    /// Whether nothing more is to be had of the node's storage, or there is no node.
    pub(crate) fn has_failed(&self) -> bool {
        self.node.as_ref().is_none_or(|node| node.has_failed() || node.steppers.v1.has_failed())
    }

    /// Has the disk fail now and then, within so many of its operations; at which of them.
    pub(crate) fn plan_fault(&mut self, within: usize) -> Option<u64> {
        let fault = match self.random.below(10) {
            0..4 => Fault::PowerLoss,
            4 => Fault::Io,
            5 => Fault::NoSpace,
            _ => return None,
        };
        let at = self.disk.operations() + self.random.below(within) as u64;
        self.disk.inject(at, fault);
        self.note(format!("planned: {fault:?} at disk operation {at}"));
        Some(at)
    }

    /// A client connects, with an outbox of some size; to a node there must be.
    pub(crate) fn connect(&mut self) -> Connected {
        let client = self.n_connected;
        self.n_connected += 1;
        let limit = self.random.choose(&[2, 10, 10_000, 10_000]).unwrap_or(10_000);
        let recorder = Recorder::new(client, &self.transcript, Space::Deliveries(limit));
        let broker = &self.node.as_ref().expect("the node runs").broker;
        let outbox = Arc::<Recorder>::clone(&recorder);
        let session = expect_ok(open_session(broker, outbox, ProtocolKind::Amqp091));
        Connected { client, recorder, session, limit }
    }

    /// A client says something; everything has turns while it waits.
    pub(crate) fn say(&mut self, session: &mut Session, mut read: Read) -> Said {
        let mut requests = std::mem::take(&mut read.requests);
        Said::of(self.block_on(session.submit(&read.source(), &mut requests)))
    }

    /// Resumes the publishes of a client that an alarm had blocked.
    pub(crate) fn go_on(&mut self, session: &mut Session) -> Said {
        Said::of(self.block_on(session.release_hold()))
    }

    /// A connection ends; false if it would take for ever.
    pub(crate) fn close(&mut self, session: Session) -> bool {
        self.block_on(session.close()).is_some()
    }

    /// Changes definitions; false if they stay as they were, or that would take for ever.
    pub(crate) fn apply_definition(&mut self, command: Command) -> bool {
        let Some(node) = &self.node else { return false };
        let broker = Arc::clone(&node.broker);
        self.block_on(broker.apply_definition(command)).is_some_and(|done| done.is_ok())
    }

    /// Sends messages of a queue on; none if the log fails.
    pub(crate) fn send_on(
        &mut self,
        from: &QueueRef,
        departures: &[Departure],
    ) -> Option<Departed> {
        let broker = Arc::clone(&self.node.as_ref()?.broker);
        self.block_on(broker.operations().send_on(from, departures))?.ok()
    }

    /// Works a future off while everything has turns; none if it would take for ever.
    pub(crate) fn block_on<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        block_on(future, || {
            if let Some(node) = &mut self.node {
                node.step();
            }
        })
    }

    /// A random outcome for messages a client holds.
    pub(crate) fn some_outcome(&mut self) -> Outcome {
        let outcomes = [
            Outcome::Accepted,
            Outcome::Accepted,
            Outcome::Accepted,
            Outcome::Rejected,
            Outcome::Modified,
            Outcome::Released,
        ];
        self.random.choose(&outcomes).unwrap_or(Outcome::Accepted)
    }

    /// The queue of this name, if it is there.
    pub(crate) fn queue(&self, name: &str) -> Option<QueueRef> {
        self.node.as_ref()?.broker.view().queue("/", name)
    }

    /// One part of the node has a turn.
    pub(crate) fn step_part(&mut self) {
        let what = self.random.below(6);
        let Some(node) = &mut self.node else { return };
        let steppers = &mut node.steppers;
        let (name, stepped) = match what {
            0 | 1 => ("rules", steppers.rules.step()),
            2 => ("commit", steppers.log.step()),
            3 => ("older form", steppers.v1.step()),
            4 => ("page jobs", steppers.pager.step_jobs()),
            _ => ("page sync", steppers.pager.step_sync()),
        };
        if stepped {
            self.note(name);
        }
    }

    /// Sets the node's clock.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.note(format!("it is {now_ms}"));
        if let Some(node) = &self.node {
            node.broker.tick(Now::at_ms(now_ms));
        }
    }

    /// A policy says which form some queues are to have; when that is durable is nobody's concern.
    pub(crate) fn change_versions(&mut self) {
        let Some(node) = &self.node else { return };
        let pattern = self.random.choose(&["q0", "q[12]", ".*"]).unwrap_or(".*");
        let version = self.random.choose(&[1, 1, 2]).unwrap_or(2);
        let policy = set_policy("form", pattern, &format!("{{\"queue-version\":{version}}}"));
        let broker = Arc::clone(&node.broker);
        let mut change = pin!(broker.apply_definition(policy));
        if let Poll::Ready(Err(error)) =
            change.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            fail(format!("the policy is refused: {error}"));
        }
        self.note(format!("policy: {pattern} has version {version}"));
    }

    /// Stops the node in good order, when nobody is connected; false if its disk is against it.
    pub(crate) fn stop(&self) -> bool {
        self.node.as_ref().is_some_and(|node| node.broker.stop().is_ok())
    }

    /// The node is gone, and with it all that was not on its disk. Clients are gone already.
    pub(crate) fn crash(&mut self) -> MemoryDisk {
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            fail("something of the node is left in memory");
        }
        self.lose_node()
    }

    /// As [`Self::crash`], where publishes that a stream will never confirm may keep it in memory.
    pub(crate) fn lose_node(&mut self) -> MemoryDisk {
        self.node = None;
        stdx::lock(&self.transcript).clear();
        self.lose_power(&self.disk.clone())
    }

    fn lose_power(&mut self, disk: &MemoryDisk) -> MemoryDisk {
        let survival = self.some_survival();
        self.note(format!("restart, {survival:?}"));
        disk.survive(survival)
    }

    /// The content of a disk after a loss of power; or after the end of the process, the only crash
    /// survived where nothing waits for syncs.
    fn some_survival(&mut self) -> CrashOutcome {
        match (self.random.below(4), self.options.durability) {
            (0, _) | (_, Durability::Write) => CrashOutcome::Everything,
            (1, Durability::Sync) => CrashOutcome::OnlySynced,
            (_, Durability::Sync) => CrashOutcome::Torn(self.random.next()),
        }
    }

    /// The node comes back from a disk, perhaps not at the first attempt.
    pub(crate) fn start(&mut self, mut disk: MemoryDisk, faults: StartFaults) -> Started {
        let mut n_faults = 0;
        loop {
            let copy = disk.survive(CrashOutcome::Everything);
            if n_faults < faults.in_a_row_max && self.random.percent(faults.percent) {
                self.plan_start_fault(&disk, faults);
            }
            match Node::open_loaded(&disk, &self.options) {
                Ok(node) => {
                    self.disk = disk;
                    self.node = Some(node);
                    return Started { copy, was_cut_off: n_faults > 0 };
                }
                Err(error) if error.contains("simulated power loss") => {
                    self.note("power is lost during the start");
                    disk = self.lose_power(&disk);
                    n_faults += 1;
                }
                Err(error) => fail(format!("the node does not start: {error}")),
            }
        }
    }

    fn plan_start_fault(&mut self, disk: &MemoryDisk, faults: StartFaults) {
        let at = self.random.below(START_FAULT_WITHIN) as u64;
        if faults.are_noted {
            self.note(format!("planned: power loss at disk operation {at} of the start"));
        }
        disk.inject(disk.operations() + at, Fault::PowerLoss);
    }

    /// A node on a copy of a disk, to be looked into while no time goes by.
    pub(crate) fn look_into(&self, copy: &MemoryDisk) -> SingleClient {
        expect_ok(self.try_to_look_into(copy))
    }

    /// As [`Self::look_into`], on a disk that may be damaged.
    pub(crate) fn try_to_look_into(&self, copy: &MemoryDisk) -> Result<SingleClient, String> {
        let options =
            NodeOptions { clock: Clock::TicksFrom(Now::default()), ..self.options.clone() };
        Node::open_loaded(copy, &options).and_then(SingleClient::new)
    }

    /// Flips a bit of one of some files that have something in them; returns the file.
    pub(crate) fn flip_some_bit(
        &mut self,
        disk: &MemoryDisk,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut files = disk.files();
        files.retain(|(name, bytes)| *bytes > 0 && is_wanted(name));
        let (file, bytes) = self.random.choose(&files)?;
        let (at, bit) = (self.random.below(bytes), self.random.below(8));
        let is_flipped = disk.flip_bit(&file, at, u8::try_from(bit).unwrap_or(0));
        assert!(is_flipped, "the file is as long as it was");
        self.note(format!("bit {bit} of byte {at} of {file} is another one"));
        Some(file)
    }

    /// Nothing is in any queue: looks at what is left all the same. False if the disk fails meanwhile.
    pub(crate) fn check_empty(&mut self) -> bool {
        let Some(node) = &mut self.node else { return false };
        if node.broker.figures().message_bytes() != 0 {
            fail("bytes are left after the drain");
        }
        expect_ok(node.frees_all())
    }
}
