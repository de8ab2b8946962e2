//! The nodes of a world, with their disks, clocks and network.

use super::{SimulatedNode, WorldOptions};
use crate::memory_disk::{CrashOutcome, Fault as DiskFault, MemoryDisk};
use crate::net::{Address, ConnectionNo, Death, End, Net};
use crate::node_clock::NodeClock;
use crate::random::Random;
use crate::run::{Trace, fail};
use std::sync::Arc;
use stdx::Now;

/// The simulated time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Disk operations of a start within which that happens.
const START_FAULT_WITHIN: usize = 12;

/// The place of a node that starts.
#[derive(Debug)]
pub struct Seat<'a> {
    /// The node's address.
    pub node: Address,
    /// The node's disk, as the last life has left it.
    pub disk: &'a MemoryDisk,
    /// The node's time.
    pub now: Now,
    /// Random numbers of the node's own.
    pub seed: u64,
}

/// A node's way to the outside, while it works.
#[derive(Debug)]
pub struct Port<'a> {
    /// The node.
    pub node: Address,
    /// The node's time.
    pub now: Now,
    net: &'a mut Net,
    now_ms: u64,
}

impl Port<'_> {
    /// Dials another node: as [`Net::dial`].
    pub fn dial(&mut self, to: Address) -> ConnectionNo {
        self.net.dial(self.now_ms, self.node, to)
    }

    /// Writes to a connection: as [`Net::write`].
    pub fn write(&mut self, connection: ConnectionNo, bytes: &[u8]) -> usize {
        self.net.write(self.now_ms, End { node: self.node, connection }, bytes)
    }

    /// Closes a connection: as [`Net::close`].
    pub fn close(&mut self, connection: ConnectionNo) {
        self.net.close(self.now_ms, End { node: self.node, connection });
    }
}

#[derive(Debug)]
pub(super) struct Host<N> {
    pub(super) disk: MemoryDisk,
    pub(super) clock: NodeClock,
    node: Option<N>,
    /// Until when the node is down, or stands still.
    until_ms: Option<u64>,
}

/// The nodes of a world and all around them.
#[derive(Debug)]
pub struct Hosts<N> {
    /// Random numbers of the run.
    pub random: Random,
    trace: Trace,
    /// The network.
    pub net: Net,
    pub(super) hosts: Vec<Host<N>>,
    now_ms: u64,
    options: Arc<WorldOptions>,
}

impl<N> Hosts<N> {
    pub(super) fn new(mut random: Random, options: WorldOptions, trace: Trace) -> Self {
        let net = Net::new(random.fork(), options.net);
        let (hosts, now_ms) = (Vec::new(), BEGINS_MS);
        let options = Arc::new(options);
        let mut hosts = Self { random, trace, net, hosts, now_ms, options };
        for _ in 0..hosts.options.n_nodes {
            let clock = NodeClock::skewed(hosts.some_skew_ms());
            let (disk, until_ms) = (MemoryDisk::new(), Some(BEGINS_MS));
            hosts.hosts.push(Host { disk, clock, node: None, until_ms });
        }
        hosts
    }

    pub(super) fn into_trace(self) -> Trace {
        self.trace
    }

    /// Adds a line to the trace.
    pub fn note(&mut self, line: impl Into<String>) {
        self.trace.note(line.into());
    }

    /// The simulated time.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(super) const fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    pub(super) fn options(&self) -> Arc<WorldOptions> {
        Arc::clone(&self.options)
    }

    pub(super) fn some_skew_ms(&mut self) -> i64 {
        let span_ms = i64::from(self.options.skew_ms_max);
        let ms = self.random.below(2 * self.options.skew_ms_max as usize + 1);
        i64::try_from(ms).unwrap_or(span_ms) - span_ms
    }

    /// The addresses of all nodes.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + use<N> {
        (0..self.hosts.len()).map(Address)
    }

    /// A random node's address.
    pub fn any_address(&mut self) -> Address {
        Address(self.random.below(self.hosts.len()))
    }

    /// A node, unless it is down.
    #[must_use]
    pub fn node(&self, at: Address) -> Option<&N> {
        self.hosts.get(at.0)?.node.as_ref()
    }

    /// The nodes that are not down.
    pub fn nodes(&self) -> impl Iterator<Item = (Address, &N)> {
        self.addresses().filter_map(|at| Some((at, self.node(at)?)))
    }

    pub(super) fn host_mut(&mut self, at: Address) -> &mut Host<N> {
        self.hosts.get_mut(at.0).expect("the world has this node")
    }

    /// Has a node do something, unless it is down or stands still.
    pub fn with<T>(
        &mut self,
        at: Address,
        work: impl FnOnce(&mut N, &mut Port<'_>) -> T,
    ) -> Option<T> {
        let host = self.hosts.get_mut(at.0).filter(|host| host.until_ms.is_none())?;
        let now = host.clock.read(self.now_ms);
        let mut port = Port { node: at, now, net: &mut self.net, now_ms: self.now_ms };
        Some(work(host.node.as_mut()?, &mut port))
    }

    /// Has a node stand still for a while.
    pub fn freeze(&mut self, at: Address) {
        let until_ms = self.some_downtime_ms();
        let host = self.host_mut(at);
        if host.until_ms.is_none() {
            host.until_ms = Some(until_ms);
            self.net.freeze(at, true);
            self.note(format!("{at} stands still"));
        }
    }

    /// Ends a node's life; with its machine's, only a part of what is not synced stays on the disk.
    pub fn crash(&mut self, at: Address, death: Death) {
        let (until_ms, now_ms) = (self.some_downtime_ms(), self.now_ms);
        let outcome = match death {
            Death::Process => CrashOutcome::Everything,
            Death::Machine if self.random.percent(30) => CrashOutcome::OnlySynced,
            Death::Machine => CrashOutcome::Torn(self.random.next()),
        };
        let host = self.host_mut(at);
        if host.node.take().is_none() {
            return;
        }
        host.disk = host.disk.survive(outcome);
        host.until_ms = Some(until_ms);
        if death == Death::Machine {
            host.clock.reboot(now_ms);
        }
        self.net.kill(now_ms, at, death);
        self.note(format!("{at} crashes, {outcome:?}"));
    }

    /// Ends a node's life, and all that its disk has.
    pub fn lose_disk(&mut self, at: Address) {
        self.crash(at, Death::Machine);
        self.host_mut(at).disk = MemoryDisk::new();
    }

    fn some_downtime_ms(&mut self) -> u64 {
        self.now_ms + self.random.below(self.options.down_ms_max + 1) as u64
    }

    /// Ends the harm: from now on only faults happen that were planned before.
    pub fn heal(&mut self) {
        self.net.heal(self.now_ms);
        let now_ms = self.now_ms;
        for host in &mut self.hosts {
            host.until_ms = host.until_ms.map(|_| now_ms);
        }
    }

    /// Nodes that have been down, or have stood still, for long enough.
    pub(super) fn due_addresses(&self) -> Vec<Address> {
        let is_due = |at: &Address| {
            let until_ms = self.hosts.get(at.0).and_then(|host| host.until_ms);
            until_ms.is_some_and(|until_ms| until_ms <= self.now_ms)
        };
        self.addresses().filter(is_due).collect()
    }

    /// Starts a node, perhaps not at the first attempt, or has it go on.
    pub(super) fn start(
        &mut self,
        at: Address,
        mut start: impl FnMut(&Seat<'_>) -> Result<N, String>,
    ) {
        self.net.freeze(at, false);
        self.host_mut(at).until_ms = None;
        while self.node(at).is_none() {
            let (seed, now_ms) = (self.random.next(), self.now_ms);
            let fault_after = self.random.below(START_FAULT_WITHIN) as u64;
            let has_fault = self.random.percent(self.options.start_faults_percent);
            let host = self.host_mut(at);
            let (disk, now) = (&host.disk, host.clock.read(now_ms));
            if has_fault {
                disk.inject(disk.operations() + fault_after, DiskFault::PowerLoss);
            }
            match start(&Seat { node: at, disk, now, seed }) {
                Ok(node) => {
                    host.node = Some(node);
                    self.net.listen(at);
                    self.note(format!("{at} starts"));
                }
                Err(_) if disk.has_lost_power() => {
                    host.disk = disk.survive(CrashOutcome::Torn(seed));
                }
                Err(error) => fail(format!("{at} does not start: {error}")),
            }
        }
    }
}

impl<N: SimulatedNode> Hosts<N> {
    /// Delivers the network's next event; false if none is due.
    pub(super) fn deliver(&mut self) -> bool {
        let Some((end, event)) = self.net.next(self.now_ms) else { return false };
        self.with(end.node, |node, port| node.deliver(end.connection, event, port));
        true
    }

    /// Has a node work; false if there is nothing to do.
    pub(super) fn step(&mut self, at: Address) -> bool {
        self.with(at, N::step).unwrap_or(false)
    }

    /// Ends the lives of nodes that have failed, or whose power is lost.
    pub(super) fn crash_failed(&mut self) {
        for at in self.addresses() {
            let is_off = self.host_mut(at).disk.has_lost_power();
            let has_failed = self.node(at).is_some_and(N::has_failed);
            match (is_off, has_failed) {
                (true, _) => self.crash(at, Death::Machine),
                (false, true) => self.crash(at, Death::Process),
                (false, false) => {}
            }
        }
    }
}
