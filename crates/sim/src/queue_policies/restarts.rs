//! Lives of a node whose queues have rules, and what is there after each.

use super::QueuePolicies;
use super::ledger::Found;
use crate::harness::{StartFaults, Started, expect_ok, fail};
use crate::seen::Seen;
use broker::Clock;
use testing::MemoryDisk;

const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 100;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// Rounds without a message after which there is none: the first look may set letters off.
const EMPTY_ROUNDS: usize = 3;

impl QueuePolicies {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        let specs: Vec<String> =
            self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect();
        specs.into_iter().for_each(|spec| self.harness.note(spec));
        self.harness.options.clock = Clock::TicksFrom(self.ledger.now_ms);
        self.harness.begin();
        self.connect();
        self.declare_missing();
        self.dry();
        let mut lives = 1 + self.harness.random.below(LIVES_MAX);
        loop {
            lives -= 1;
            self.harness.plan_fault(FAULT_WITHIN);
            for _ in 0..self.harness.random.below(WORK_MAX) {
                if self.harness.has_failed() {
                    break;
                }
                self.act();
            }
            if lives == 0 && self.end() {
                return;
            }
            lives = lives.max(1);
            let is_clean = self.harness.random.percent(30) && self.stop();
            self.restart(is_clean);
            self.connect();
            self.declare_missing();
        }
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        self.dry();
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            if !self.harness.has_failed() {
                self.disconnect(peer);
            }
        }
        !self.harness.has_failed()
    }

    fn stop(&mut self) -> bool {
        self.harness.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.dry();
        let stopped = self.harness.stop();
        self.dry();
        stopped && !self.harness.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, is_clean: bool) {
        self.peers.clear();
        self.asking = None;
        let disk = self.harness.crash();
        self.harness.options.clock = Clock::TicksFrom(self.ledger.now_ms);
        let Started { copy, was_cut_off } = self.harness.start(disk, START_FAULTS);
        self.compare(is_clean && !was_cut_off, &copy);
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
                fail(format!("{name} is back"));
            } else if is_durable && !is_unused {
                fail(format!("{name} is lost"));
            } else {
                self.ledger.ever_gone.insert(name);
            }
        }
        let found = self.peek(copy);
        for (queue, found) in &found {
            let shown = found.iter().map(|seen| format!("m{}", seen.id));
            let line = format!("{queue} has {}", crate::trace::join(shown));
            self.harness.note(line);
        }
        expect_ok(self.ledger.check_order(&found));
        expect_ok(self.ledger.restart(is_clean, &found));
    }

    /// The queues' messages, read from a copy on which no time passes.
    fn peek(&self, copy: &MemoryDisk) -> Found {
        let mut client = self.harness.look_into(copy);
        let (mut found, mut n_empty) = (Found::new(), 0);
        for _ in 0..ROUNDS_MAX {
            if !client.node.step_all() {
                fail("there is no end to what there is to do");
            }
            let mut any_found = false;
            for queue in self.queues() {
                while let Some(given) = expect_ok(client.get(queue)) {
                    let seen = expect_ok(Seen::of(&given));
                    expect_ok(self.ledger.check_seen(queue, &given, &seen));
                    found.entry(queue).or_default().push(seen);
                    any_found = true;
                }
            }
            n_empty = if any_found { 0 } else { n_empty + 1 };
            if n_empty == EMPTY_ROUNDS {
                return found;
            }
        }
        fail("there is no end to what comes out of the queues")
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn end(&mut self) -> bool {
        self.harness.note("drain");
        if !self.leave_all() {
            return false;
        }
        self.dry();
        let before = self.ledger.consumed.clone();
        self.connect();
        let mut n_empty = 0;
        while n_empty < EMPTY_ROUNDS && !self.harness.has_failed() {
            self.dry();
            n_empty = if self.drain_once() > 0 { 0 } else { n_empty + 1 };
        }
        if self.harness.has_failed() {
            return false;
        }
        self.check();
        let mut found = Found::new();
        for (id, queue) in self.ledger.consumed.difference(&before) {
            found.entry(queue).or_default().push(Seen { id: *id, ..Seen::default() });
        }
        expect_ok(self.ledger.check_all(&found));
        if !self.leave_all() {
            return false;
        }
        self.harness.check_empty()
    }

    /// Takes out what is there. How much it was.
    fn drain_once(&mut self) -> usize {
        let Some(peer) = self.peers.keys().next().copied() else { return 0 };
        let mut n_taken = 0;
        for queue in self.queues() {
            loop {
                let before = self.n_got;
                self.get_from(peer, queue, true);
                if self.harness.has_failed() || self.n_got == before {
                    break;
                }
                n_taken += 1;
            }
        }
        n_taken
    }
}
