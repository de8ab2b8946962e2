//! Lives of a node whose queues confirm late, and what is there after each.

use super::Late;
use super::ledger::Copy;
use crate::node::{Node, NodeOptions, Solo, plan_fault, some_survival};
use broker::Clock;
use log::{Fault, MemoryDisk, Survival};
use std::collections::BTreeMap;
use std::sync::Weak;

const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 120;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
/// Rounds over all queues without a message after which there is none.
const EMPTY_ROUNDS: usize = 3;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;

impl Late {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        let specs: Vec<String> =
            self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect();
        specs.into_iter().for_each(|spec| self.note(spec));
        self.options.clock = Clock::TicksFrom(self.now_ms);
        let mut node = self.hold(Node::open(&self.disk, &self.options));
        node.add_first_user();
        self.node = Some(node);
        self.begin();
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
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.connect();
        self.declare_missing();
        self.bind_all();
        self.ledger.life.ever_missing.clear();
        self.dry();
    }

    fn plan_fault(&mut self) {
        if let Some(planned) = plan_fault(&mut self.random, &self.disk, FAULT_WITHIN) {
            self.note(planned);
        }
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            if !self.has_failed() {
                self.disconnect(peer);
            }
        }
        self.dry();
        !self.has_failed()
    }

    fn stop(&mut self) -> bool {
        self.note("stop");
        if !self.leave_all() {
            return false;
        }
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
        (self.asking, self.saying, self.failing) = (None, None, None);
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            self.object("something of the node is left in memory");
        }
        stdx::lock(&self.transcript).clear();
        let mut disk = self.lose_power(&self.disk.clone());
        self.options.clock = Clock::TicksFrom(self.now_ms);
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
        let found = self.peek(copy);
        let shown = found.keys().map(|copy| format!("m{}@{}", copy.id, copy.queue));
        let line = format!("there is {}", crate::trace::join(shown));
        self.note(line);
        let restarted = self.ledger.restart(is_clean, &found);
        self.hold(restarted);
    }

    /// What the queues hold, and how it is marked, found out on a copy on which no time goes by.
    fn peek(&self, copy: &MemoryDisk) -> BTreeMap<Copy, bool> {
        let options = NodeOptions { clock: Clock::TicksFrom(0), ..self.options.clone() };
        let mut solo = self.hold(Node::open_loaded(copy, &options).and_then(Solo::new));
        let mut found = BTreeMap::new();
        for queue in self.queues() {
            while let Some(given) = self.hold(solo.get(queue)) {
                let copy = self.hold(self.ledger.copy_of(queue, &given));
                if found.insert(copy, given.redelivered).is_some() && !copy.is_letter {
                    self.object(format!("m{} is twice in {queue}", copy.id));
                }
            }
        }
        found
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn end(&mut self) -> bool {
        self.note("drain");
        let mut n_empty = 0;
        for _ in 0..ROUNDS_MAX {
            if n_empty == EMPTY_ROUNDS || self.has_failed() {
                break;
            }
            let before = self.n_got;
            self.take_all();
            self.dry();
            n_empty = if self.n_got > before { 0 } else { n_empty + 1 };
        }
        if self.has_failed() {
            return false;
        }
        self.check();
        let channels = self.peers.values().flat_map(|peer| peer.channels.values());
        if let Some(id) = channels.flat_map(|channel| channel.unconfirmed.values()).next() {
            self.object(format!("m{id} has no answer at the end"));
        }
        if let Some(Copy { id, queue, .. }) = self.ledger.left() {
            self.object(format!("m{id} has not come out of {queue}"));
        }
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
                if self.has_failed() || self.n_got == before {
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
