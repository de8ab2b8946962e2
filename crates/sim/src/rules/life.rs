//! Lives of a node whose queues have rules, and what is there after each.

use super::Course;
use super::ledger::{Found, Seen};
use crate::node::{Node, NodeOptions, Solo, plan_fault, some_survival};
use broker::Clock;
use log::{Fault, MemoryDisk, Survival};
use std::sync::Weak;

const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 100;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// Rounds without a message after which there is none: the first look may set letters off.
const EMPTY_ROUNDS: usize = 3;

impl Course {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        let specs: Vec<String> =
            self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect();
        specs.into_iter().for_each(|spec| self.note(spec));
        self.options.clock = Clock::TicksFrom(self.ledger.now_ms);
        let mut node = self.hold(Node::open(&self.disk, &self.options));
        node.add_first_user();
        self.node = Some(node);
        self.connect();
        self.declare_missing();
        self.dry();
        let mut lives = 1 + self.random.below(LIVES_MAX);
        loop {
            lives -= 1;
            self.plan_fault();
            for _ in 0..self.random.below(WORK_MAX) {
                if self.has_failed() {
                    break;
                }
                self.act();
            }
            if lives == 0 && self.end() {
                return;
            }
            lives = lives.max(1);
            let is_clean = self.random.percent(30) && self.stop();
            self.restart(is_clean);
            self.connect();
            self.declare_missing();
        }
    }

    fn plan_fault(&mut self) {
        if let Some(planned) = plan_fault(&mut self.random, &self.disk, FAULT_WITHIN) {
            self.note(planned);
        }
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        self.dry();
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            if !self.has_failed() {
                self.disconnect(peer);
            }
        }
        !self.has_failed()
    }

    fn stop(&mut self) -> bool {
        self.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.dry();
        let stopped = self.node.as_ref().is_some_and(|node| node.broker.stop().is_ok());
        self.dry();
        stopped && !self.has_failed()
    }

    fn lose_power(&mut self, disk: &MemoryDisk) -> MemoryDisk {
        let survival = some_survival(&mut self.random, self.options.durability);
        self.note(format!("restart, {survival:?}"));
        disk.survive(survival)
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, mut is_clean: bool) {
        self.peers.clear();
        self.asking = None;
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            self.object("something of the node is left in memory");
        }
        stdx::lock(&self.transcript).clear();
        let mut disk = self.lose_power(&self.disk.clone());
        self.options.clock = Clock::TicksFrom(self.ledger.now_ms);
        for n_faults in 0.. {
            let copy = disk.survive(Survival::Everything);
            if n_faults < 2 && self.random.percent(20) {
                let at = self.random.below(12) as u64;
                disk.inject(disk.operations() + at, Fault::PowerLoss);
            }
            match Node::open_loaded(&disk, &self.options) {
                Ok(node) => {
                    self.disk = disk;
                    self.node = Some(node);
                    return self.compare(is_clean, &copy);
                }
                Err(error) if error.contains("simulated power loss") => {
                    self.note("power is lost during the start");
                    disk = self.lose_power(&disk);
                    is_clean = false;
                }
                Err(error) => self.object(format!("the node does not start: {error}")),
            }
        }
    }

    fn compare(&mut self, is_clean: bool, copy: &MemoryDisk) {
        self.is_dry = false;
        self.has_restarted = true;
        self.delivered.clear();
        self.enforced.clear();
        let used_ms = std::mem::take(&mut self.used_ms);
        let names: Vec<&'static str> = self.ledger.specs.keys().copied().collect();
        for name in names {
            let Some(spec) = self.ledger.specs.get(name).cloned() else { continue };
            let is_durable = spec.durable;
            let is_unused = used_ms.get(name).is_none_or(|used_ms| self.is_unused(&spec, *used_ms));
            if self.is_there(name) && is_durable {
                self.use_queue(name);
            } else if self.is_there(name) {
                self.object(format!("{name} is back"));
            } else if is_durable && !is_unused {
                self.object(format!("{name} is lost"));
            } else {
                self.ledger.ever_gone.insert(name);
            }
        }
        let found = self.peek(copy);
        for (queue, found) in &found {
            let shown = found.iter().map(|seen| format!("m{}", seen.id));
            let line = format!("{queue} has {}", crate::trace::join(shown));
            self.trace.note(line);
        }
        let ordered = self.ledger.check_order(&found);
        self.hold(ordered);
        let restarted = self.ledger.restart(is_clean, &found);
        self.hold(restarted);
    }

    /// What the queues hold, found out on a copy on which no time goes by.
    fn peek(&self, copy: &MemoryDisk) -> Found {
        let options = NodeOptions { clock: Clock::TicksFrom(0), ..self.options.clone() };
        let mut solo = self.hold(Node::open_loaded(copy, &options).and_then(Solo::new));
        let (mut found, mut n_empty) = (Found::new(), 0);
        for _ in 0..ROUNDS_MAX {
            if !solo.node.step_all() {
                self.object("there is no end to what there is to do");
            }
            let mut any_found = false;
            for queue in self.queues() {
                while let Some(given) = self.hold(solo.get(queue)) {
                    let seen = self.hold(Seen::of(&given));
                    let checked = self.ledger.check_seen(queue, &given, &seen);
                    self.hold(checked);
                    found.entry(queue).or_default().push(seen);
                    any_found = true;
                }
            }
            n_empty = if any_found { 0 } else { n_empty + 1 };
            if n_empty == EMPTY_ROUNDS {
                return found;
            }
        }
        self.object("there is no end to what comes out of the queues")
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn end(&mut self) -> bool {
        self.note("drain");
        if !self.leave_all() {
            return false;
        }
        self.dry();
        let before = self.ledger.consumed.clone();
        self.connect();
        let mut n_empty = 0;
        while n_empty < EMPTY_ROUNDS && !self.has_failed() {
            self.dry();
            n_empty = if self.drain_once() > 0 { 0 } else { n_empty + 1 };
        }
        if self.has_failed() {
            return false;
        }
        self.check();
        let mut found = Found::new();
        for (id, queue) in self.ledger.consumed.difference(&before) {
            found.entry(queue).or_default().push(Seen { id: *id, ..Seen::default() });
        }
        let checked = self.ledger.check_all(&found);
        self.hold(checked);
        if !self.leave_all() {
            return false;
        }
        let Some(node) = &mut self.node else { return false };
        if node.broker.message_bytes() != 0 {
            self.object("bytes are left after the drain");
        }
        let freed = node.frees_all();
        self.hold(freed)
    }

    /// Takes out what is there. How much it was.
    fn drain_once(&mut self) -> usize {
        let Some(peer) = self.peers.keys().next().copied() else { return 0 };
        let mut n_taken = 0;
        for queue in self.queues() {
            loop {
                let before = self.n_got;
                self.get_from(peer, queue, true);
                if self.has_failed() || self.n_got == before {
                    break;
                }
                n_taken += 1;
            }
        }
        n_taken
    }
}
