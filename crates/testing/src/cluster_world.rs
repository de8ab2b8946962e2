//! A world of several nodes, their disks, clocks and network, all from one seed: random steps, work of
//! clients, and faults; at the end everything heals, and the nodes have a bounded time to settle. What the
//! nodes are, what clients do and what must hold is a [`Scenario`].
//! Start reading at [`simulate`]; `hosts.rs` keeps the nodes, `faults.rs` does them harm.

mod faults;
mod hosts;
#[cfg(test)]
mod tests;

pub use faults::Fault;
pub use hosts::{Hosts, Port, Seat};

use crate::net::{ConnectionNo, NetEvent, NetOptions};
use crate::random::Random;
use crate::run::{Report, Show, Trace, expect_ok, fail};

/// The longest simulated time between two steps at the end.
const SETTLE_TICK_MS: u64 = 10;
/// Pieces of work without a step of time, at the end: more have no end.
const QUIET_STEPS_MAX: usize = 100_000;

/// A node that is stepped.
pub trait SimulatedNode {
    /// Does a piece of work; false if there is none at this time.
    fn step(&mut self, port: &mut Port<'_>) -> bool;

    /// Takes an event of one of the node's connections.
    fn deliver(&mut self, connection: ConnectionNo, event: NetEvent, port: &mut Port<'_>);

    /// Whether the node has ended itself, as after a failure of its disk.
    fn has_failed(&self) -> bool;
}

/// A scenario: the nodes, the work of clients, and what must hold.
pub trait Scenario {
    /// The nodes.
    type Node: SimulatedNode;

    /// Starts a node from its disk.
    ///
    /// # Errors
    /// The node does not start; a violation, unless power was lost meanwhile.
    fn start(&mut self, seat: &Seat<'_>) -> Result<Self::Node, String>;

    /// Does something that a client may do.
    fn act(&mut self, hosts: &mut Hosts<Self::Node>);

    /// Checks what holds after each step; the violation, if there is one.
    ///
    /// # Errors
    /// The violation.
    fn check(&mut self, hosts: &Hosts<Self::Node>) -> Result<(), String>;

    /// Checks whether the nodes have settled, once nothing happens to them any more.
    ///
    /// # Errors
    /// The condition that does not hold yet: a violation when the time for it is over.
    fn check_settled(&mut self, hosts: &Hosts<Self::Node>) -> Result<(), String>;
}

/// The size and the dangers of a world.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Nodes, at the addresses 0, 1 and so on.
    pub n_nodes: usize,
    /// Steps before everything heals.
    pub n_steps: usize,
    /// Simulated time in which the nodes settle.
    pub settle_ms_max: u64,
    /// The longest time for which a node is down, or stands still.
    pub down_ms_max: usize,
    /// Skews of clocks and jumps of the time of day, at most, either way.
    pub skew_ms_max: u32,
    /// Steps of a thousand that are a fault.
    pub faults_permille: usize,
    /// Starts of a hundred in the middle of which power is lost.
    pub start_faults_percent: usize,
    /// The longest simulated time of a step: one of these, for all steps of a run.
    pub ticks_ms: Vec<usize>,
    /// The faults that happen; those that are listed twice more often.
    pub faults: Vec<Fault>,
    /// The network.
    pub net: NetOptions,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            n_nodes: 3,
            n_steps: 2000,
            settle_ms_max: 60_000,
            down_ms_max: 5000,
            skew_ms_max: 500,
            faults_permille: 20,
            start_faults_percent: 15,
            // Some runs are about what happens within milliseconds, others about seconds.
            ticks_ms: vec![3, 30, 300],
            faults: Fault::ALL.to_vec(),
            net: NetOptions::default(),
        }
    }
}

/// Runs a scenario. The same seed does the same.
#[must_use]
pub fn simulate<S: Scenario>(seed: u64, options: WorldOptions, scenario: S, show: Show) -> Report {
    Report::of(World::new(seed, options, scenario, show), World::run, |world| {
        world.hosts.into_trace()
    })
}

/// A world: [`simulate`] runs it, or a test has it do what it says.
#[derive(Debug)]
pub struct World<S: Scenario> {
    /// The nodes and all around them.
    pub hosts: Hosts<S::Node>,
    /// The scenario.
    pub scenario: S,
    /// The longest simulated time of a step.
    tick_ms_max: usize,
}

impl<S: Scenario> World<S> {
    /// Makes a world whose nodes start with the first step.
    #[must_use]
    pub fn new(seed: u64, options: WorldOptions, scenario: S, show: Show) -> Self {
        let mut random = Random::new(seed);
        let tick_ms_max = random.choose(&options.ticks_ms).unwrap_or(30);
        let hosts = Hosts::new(random, options, Trace::new(show));
        Self { hosts, scenario, tick_ms_max }
    }

    /// Has the nodes do all that there is to do for a while, without faults.
    pub fn run_ms(&mut self, span_ms: u64) {
        let end_ms = self.hosts.now_ms() + span_ms;
        loop {
            self.end_downtimes();
            self.rest();
            let left_ms = end_ms - self.hosts.now_ms();
            if left_ms == 0 {
                return;
            }
            self.pass_time(left_ms.min(SETTLE_TICK_MS));
        }
    }

    /// Has the nodes do so many pieces of work, in an order by chance, without faults.
    pub fn run_pieces(&mut self, n_pieces: usize) {
        for _ in 0..n_pieces {
            self.end_downtimes();
            let at = self.hosts.any_address();
            let is_delivered = self.hosts.random.percent(50) && self.hosts.deliver();
            if !is_delivered && !self.hosts.step(at) {
                self.pass_time(1);
            }
            self.check();
        }
    }

    fn run(&mut self) {
        let options = self.hosts.options();
        for _ in 0..options.n_steps {
            self.end_downtimes();
            self.act();
            self.check();
        }
        self.hosts.note("heal");
        self.hosts.heal();
        let end_ms = self.hosts.now_ms() + options.settle_ms_max;
        loop {
            self.end_downtimes();
            self.rest();
            match self.scenario.check_settled(&self.hosts) {
                Ok(()) => return,
                Err(lack) if self.hosts.now_ms() >= end_ms => {
                    fail(format!("nodes do not settle: {lack}"))
                }
                Err(_) => self.pass_time(SETTLE_TICK_MS),
            }
        }
    }

    fn act(&mut self) {
        if self.hosts.random.below(1000) < self.hosts.options().faults_permille {
            return faults::strike(&mut self.hosts);
        }
        match self.hosts.random.below(100) {
            0..40 => drop(self.hosts.deliver()),
            40..75 => {
                let node = self.hosts.any_address();
                self.hosts.step(node);
            }
            75..85 => self.scenario.act(&mut self.hosts),
            _ => {
                let span_ms = self.hosts.random.below(self.tick_ms_max + 1) as u64;
                self.pass_time(span_ms);
            }
        }
    }

    /// Lets time go by, not past the next event of the network.
    fn pass_time(&mut self, span_ms: u64) {
        let now_ms = self.hosts.now_ms();
        let next_ms = self.hosts.net.next_ms().filter(|next_ms| *next_ms > now_ms);
        self.hosts.set_time(next_ms.unwrap_or(u64::MAX).min(now_ms + span_ms));
    }

    /// Does all that there is to do at this time.
    fn rest(&mut self) {
        for _ in 0..QUIET_STEPS_MAX {
            let mut has_worked = self.hosts.deliver();
            for node in self.hosts.addresses() {
                has_worked |= self.hosts.step(node);
            }
            self.check();
            if !has_worked {
                return;
            }
        }
        fail("there is no end to what nodes have to do")
    }

    fn check(&mut self) {
        self.hosts.crash_failed();
        expect_ok(self.scenario.check(&self.hosts));
    }

    /// Starts nodes whose time it is, and has those go on that have stood still for long enough.
    fn end_downtimes(&mut self) {
        for node in self.hosts.due_addresses() {
            self.hosts.start(node, |seat| self.scenario.start(seat));
        }
    }
}
