//! Lives of a node whose queues have rules, and what is there after each.

use super::QueuePolicies;
use super::ledger::Found;
use crate::harness::{expect_ok, fail};
use crate::seen::Seen;
use crate::world::World;
use testing::MemoryDisk;

/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// Rounds without a message after which there is none: the first look may set letters off.
const EMPTY_ROUNDS: usize = 3;

impl QueuePolicies {
    pub(super) fn compare_queues(&mut self) {
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
    }

    pub(super) fn compare_messages(&mut self, is_clean: bool, copy: &MemoryDisk) {
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
    pub(super) fn drain(&mut self) -> bool {
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
    fn drain_once(&mut self) -> u64 {
        let Some(peer) = self.crowd.peers.keys().next().copied() else { return 0 };
        let before = self.crowd.n_got;
        for queue in self.queues() {
            self.get_all(peer, 1, queue);
        }
        self.crowd.n_got - before
    }
}
