//! Lives of a node whose queues confirm late, and what is there after each.

use super::ledger::Copy;
use super::{ConfirmOn, Kind};
use crate::harness::{StartFaults, Started, expect_ok, fail};
use broker::Clock;
use std::collections::BTreeMap;
use testing::MemoryDisk;

const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 120;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Rounds over all queues without a message after which there is none.
const EMPTY_ROUNDS: usize = 3;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;

impl ConfirmOn {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        let specs: Vec<String> =
            self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect();
        specs.into_iter().for_each(|spec| self.harness.note(spec));
        self.harness.options.clock = Clock::TicksFrom(self.now_ms);
        self.harness.begin();
        self.begin();
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
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.connect();
        self.declare_missing();
        self.bind_all();
        if self.kind == Kind::Timeouts && !self.harness.has_failed() {
            self.set_timeout();
        }
        self.ledger.life.ever_missing.clear();
        self.dry();
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            if !self.harness.has_failed() {
                self.disconnect(peer);
            }
        }
        self.dry();
        !self.harness.has_failed()
    }

    fn stop(&mut self) -> bool {
        self.harness.note("stop");
        if !self.leave_all() {
            return false;
        }
        let stopped = self.harness.stop();
        self.dry();
        stopped && !self.harness.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, is_clean: bool) {
        self.peers.clear();
        self.has_alarm = false;
        self.is_disk_short = false;
        (self.asking, self.saying, self.failing) = (None, None, None);
        let disk = self.harness.crash();
        self.harness.options.clock = Clock::TicksFrom(self.now_ms);
        let Started { copy, was_cut_off } = self.harness.start(disk, START_FAULTS);
        self.compare(is_clean && !was_cut_off, &copy);
    }

    fn compare(&mut self, is_clean: bool, copy: &MemoryDisk) {
        let found = self.peek(copy);
        let shown = found.keys().map(|copy| format!("m{}@{}", copy.id, copy.queue));
        let line = format!("there is {}", crate::trace::join(shown));
        self.harness.note(line);
        expect_ok(self.ledger.restart(is_clean, &found));
    }

    /// The queues' messages and their marks, read from a copy on which no time passes.
    fn peek(&self, copy: &MemoryDisk) -> BTreeMap<Copy, bool> {
        let mut client = self.harness.look_into(copy);
        let mut found = BTreeMap::new();
        for queue in self.queues() {
            while let Some(given) = expect_ok(client.get(queue)) {
                let copy = expect_ok(self.ledger.copy_of(queue, &given));
                if found.insert(copy, given.redelivered).is_some() && !copy.is_letter {
                    fail(format!("m{} is twice in {queue}", copy.id));
                }
            }
        }
        found
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn end(&mut self) -> bool {
        self.harness.note("drain");
        if self.has_alarm {
            self.set_alarm(false);
        }
        let mut n_empty = 0;
        for _ in 0..ROUNDS_MAX {
            if n_empty == EMPTY_ROUNDS || self.harness.has_failed() {
                break;
            }
            let before = self.n_got;
            self.take_all();
            self.dry();
            n_empty = if self.n_got > before { 0 } else { n_empty + 1 };
        }
        if self.harness.has_failed() {
            return false;
        }
        self.check();
        let channels = self.peers.values().flat_map(|peer| peer.channels.values());
        if let Some(id) = channels.flat_map(|channel| channel.unconfirmed.values()).next() {
            fail(format!("m{id} has no answer at the end"));
        }
        if let Some(Copy { id, queue, .. }) = self.ledger.left() {
            fail(format!("m{id} has not come out of {queue}"));
        }
        if !self.leave_all() {
            return false;
        }
        self.harness.check_empty()
    }

    /// Clients acknowledge what they hold, and what is ready is taken.
    fn take_all(&mut self) {
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            self.cancel_all(peer);
            self.accept_all(peer);
            let n = self.peer(peer).unwritten.len();
            self.write_out(peer, n);
        }
        let Some(peer) = self.any_open() else { return };
        for queue in self.queues() {
            loop {
                let before = self.n_got;
                let Some(channel) = self.peer(peer).channels.keys().next().copied() else { return };
                self.get_from(peer, channel, queue, true);
                if self.harness.has_failed() || self.n_got == before {
                    break;
                }
            }
        }
        let n = self.peer(peer).unwritten.len();
        self.write_out(peer, n);
    }

    /// A client with a channel.
    fn any_open(&mut self) -> Option<usize> {
        let has_channel = |at: &Self| {
            let mut peers = at.peers.iter();
            peers.find(|(_, peer)| !peer.channels.is_empty()).map(|(number, _)| *number)
        };
        if has_channel(self).is_none() {
            let peer = self.peers.keys().next().copied();
            peer.into_iter().for_each(|peer| self.disconnect(peer));
            self.connect();
        }
        has_channel(self)
    }
}
