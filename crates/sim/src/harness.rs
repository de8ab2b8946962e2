//! The harness of every world: nodes over simulated disks, random numbers, the trace and the events
//! that clients got; start, crash and connections of the nodes. Never what a world is about, and never
//! what must hold in it.

use crate::client::Read;
use crate::node::{Node, NodeOptions, block_on, open_session, set_policy};
use crate::node_host::NodeHost;
use broker::{Departed, Departure, QueueRef, Session, Stop};
use meta::Command;
use session::{Outcome, ProtocolKind};
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use testing::Random;
use testing::net::Address;
use testing::outbox::{Recorder, Space, Transcript};
use testing::run::{Trace, expect_ok, fail};
use testing::{CrashOutcome, Fault, MemoryDisk};

/// Disk operations within which a planned loss of power comes that a start meets.
const START_FAULT_WITHIN: usize = 12;

/// The node of worlds that have one.
pub(crate) const FIRST: Address = Address(0);

/// The nodes and everything around them that worlds have in common.
pub(crate) struct Harness {
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) transcript: Transcript,
    hosts: Vec<NodeHost>,
    /// The node of each connection that there ever was.
    connections: Vec<Address>,
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
    /// Nodes with these options, at the addresses 0, 1 and so on.
    pub(crate) fn new(random: Random, options: Vec<NodeOptions>, trace: Trace) -> Self {
        let hosts = options.into_iter().map(NodeHost::new).collect();
        Self { random, trace, transcript: Transcript::default(), hosts, connections: Vec::new() }
    }

    pub(crate) fn host(&self, at: Address) -> &NodeHost {
        self.hosts.get(at.0).expect("the world has this node")
    }

    pub(crate) fn host_mut(&mut self, at: Address) -> &mut NodeHost {
        self.hosts.get_mut(at.0).expect("the world has this node")
    }

    pub(crate) fn note(&mut self, line: impl Into<String>) {
        self.trace.note(line.into());
    }

    /// Notes what becomes of a node, with its name where there are several.
    fn note_of(&mut self, at: Address, line: impl Display) {
        let line = if self.hosts.len() == 1 { line.to_string() } else { format!("{at}: {line}") };
        self.trace.note(line);
    }

    /// The first start of all nodes.
    pub(crate) fn begin(&mut self) {
        self.hosts.iter_mut().for_each(NodeHost::begin);
    }

    /// Has a node's disk fail now and then, within so many of its operations; at which of them.
    pub(crate) fn plan_fault(&mut self, of: Address, within: usize) -> Option<u64> {
        let fault = match self.random.below(10) {
            0..4 => Fault::PowerLoss,
            4 => Fault::Io,
            5 => Fault::NoSpace,
            _ => return None,
        };
        let disk = self.host(of).disk.clone();
        let at = disk.operations() + self.random.below(within) as u64;
        disk.inject(at, fault);
        self.note_of(of, format!("planned: {fault:?} at disk operation {at}"));
        Some(at)
    }

    /// A client connects to a node that there must be, with an outbox of some size.
    pub(crate) fn connect(&mut self, to: Address) -> Connected {
        let client = self.connections.len();
        self.connections.push(to);
        let limit = self.random.choose(&[2, 10, 10_000, 10_000]).unwrap_or(10_000);
        let recorder = Recorder::new(client, &self.transcript, Space::Deliveries(limit));
        let broker = &self.host(to).running().broker;
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

    /// Changes definitions at a node; false if they stay as they were, or that would take for ever.
    pub(crate) fn apply_definition(&mut self, at: Address, command: Command) -> bool {
        let Some(node) = &self.host(at).node else { return false };
        let broker = Arc::clone(&node.broker);
        self.block_on(broker.apply_definition(command)).is_some_and(|done| done.is_ok())
    }

    /// Sends messages of a node's queue on; none if the log fails.
    pub(crate) fn send_on(
        &mut self,
        at: Address,
        from: &QueueRef,
        departures: &[Departure],
    ) -> Option<Departed> {
        let broker = Arc::clone(&self.host(at).node.as_ref()?.broker);
        self.block_on(broker.operations().send_on(from, departures))?.ok()
    }

    /// Works a future off while everything has turns; none if it would take for ever.
    pub(crate) fn block_on<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let hosts = &mut self.hosts;
        block_on(future, || {
            for node in hosts.iter_mut().filter_map(|host| host.node.as_mut()) {
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

    /// One part of a node has a turn.
    pub(crate) fn step_part(&mut self, of: Address) {
        let what = self.random.below(6);
        let Some(node) = &mut self.host_mut(of).node else { return };
        let steppers = &mut node.steppers;
        let (name, stepped) = match what {
            0 | 1 => ("rules", steppers.rules.step()),
            2 => ("commit", steppers.log.step()),
            3 => ("older form", steppers.v1.step()),
            4 => ("page jobs", steppers.pager.step_jobs()),
            _ => ("page sync", steppers.pager.step_sync()),
        };
        if stepped {
            self.note_of(of, name);
        }
    }

    /// Sets the clocks of all nodes by the simulated time.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.note(format!("it is {now_ms}"));
        self.hosts.iter().for_each(|host| host.tick(now_ms));
    }

    /// A policy says which form some queues are to have; when that is durable is nobody's concern.
    pub(crate) fn change_versions(&mut self, at: Address) {
        let Some(node) = &self.host(at).node else { return };
        let broker = Arc::clone(&node.broker);
        let pattern = self.random.choose(&["q0", "q[12]", ".*"]).unwrap_or(".*");
        let version = self.random.choose(&[1, 1, 2]).unwrap_or(2);
        let policy = set_policy("form", pattern, &format!("{{\"queue-version\":{version}}}"));
        let mut change = pin!(broker.apply_definition(policy));
        if let Poll::Ready(Err(error)) =
            change.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            fail(format!("the policy is refused: {error}"));
        }
        self.note_of(at, format!("policy: {pattern} has version {version}"));
    }

    /// A node is gone, and with it all that was not on its disk. Its clients are gone already.
    pub(crate) fn crash(&mut self, at: Address) -> MemoryDisk {
        self.host_mut(at).drop_whole();
        self.lose_node(at)
    }

    /// As [`Self::crash`], where publishes that a stream will never confirm may keep it in memory.
    pub(crate) fn lose_node(&mut self, at: Address) -> MemoryDisk {
        self.host_mut(at).node = None;
        let connections = &self.connections;
        let is_elsewhere = |client: usize| connections.get(client).is_some_and(|node| *node != at);
        stdx::lock(&self.transcript).retain(|(client, _)| is_elsewhere(*client));
        self.lose_power(at, &self.host(at).disk.clone())
    }

    fn lose_power(&mut self, at: Address, disk: &MemoryDisk) -> MemoryDisk {
        let Self { random, hosts, .. } = self;
        let host = hosts.get(at.0).expect("the world has this node");
        let survival = host.some_survival(random);
        self.note_of(at, format!("restart, {survival:?}"));
        disk.survive(survival)
    }

    /// A node comes back from a disk, perhaps not at the first attempt.
    pub(crate) fn start(
        &mut self,
        at: Address,
        mut disk: MemoryDisk,
        faults: StartFaults,
    ) -> Started {
        let mut n_faults = 0;
        loop {
            let copy = disk.survive(CrashOutcome::Everything);
            if n_faults < faults.in_a_row_max && self.random.percent(faults.percent) {
                self.plan_start_fault(at, &disk, faults);
            }
            let host = self.host_mut(at);
            match Node::open_loaded(&disk, &host.options) {
                Ok(node) => {
                    (host.disk, host.node) = (disk, Some(node));
                    return Started { copy, was_cut_off: n_faults > 0 };
                }
                Err(error) if error.contains("simulated power loss") => {
                    self.note_of(at, "power is lost during the start");
                    disk = self.lose_power(at, &disk);
                    n_faults += 1;
                }
                Err(error) => fail(format!("the node does not start: {error}")),
            }
        }
    }

    fn plan_start_fault(&mut self, of: Address, disk: &MemoryDisk, faults: StartFaults) {
        let at = self.random.below(START_FAULT_WITHIN) as u64;
        if faults.are_noted {
            self.note_of(of, format!("planned: power loss at disk operation {at} of the start"));
        }
        disk.inject(disk.operations() + at, Fault::PowerLoss);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::control;
    use broker::{Clock, StreamDurability};
    use log::Durability;
    use meta::QueueVersion;
    use session::Op;
    use testing::run::Show;

    fn options() -> NodeOptions {
        NodeOptions {
            segment_bytes: 8192,
            durability: Durability::Sync,
            allowance_bytes: 4000,
            embed_below_bytes: 2000,
            journal_operations_max: 12,
            default_version: QueueVersion::V2,
            clock: Clock::Ticks,
            stream_durability: StreamDurability::Fsync,
        }
    }

    #[test]
    fn a_node_crashes_alone() {
        let nodes = [FIRST, Address(1)];
        let mut harness = Harness::new(Random::new(1), vec![options(); 2], Trace::new(Show::Kept));
        harness.begin();
        let [crashed, mut staying] = nodes.map(|node| {
            let mut session = harness.connect(node).session;
            harness.say(&mut session, Read::of(vec![control(1, Op::OpenChannel)])).check();
            session
        });
        assert!(harness.close(crashed));
        let disk = harness.crash(FIRST);
        assert!(harness.host(FIRST).has_failed() && !harness.host(Address(1)).has_failed());
        let clients: Vec<usize> =
            stdx::lock(&harness.transcript).iter().map(|(client, _)| *client).collect();
        assert_eq!(clients, [1]);
        let no_faults = StartFaults { in_a_row_max: 0, percent: 0, are_noted: false };
        harness.start(FIRST, disk, no_faults);
        assert!(!harness.host(FIRST).has_failed());
        harness.say(&mut staying, Read::of(vec![control(2, Op::OpenChannel)])).check();
        assert!(harness.trace.lines.iter().any(|line| line.starts_with("node 0: restart")));
    }
}
