//! Lives of the node: starts, stops, crashes, and what is there afterwards.

use super::{PATIENCE, World, facts};
use crate::client::{self, Client, Expect};
use crate::model::Found;
use crate::node::{Node, NodeOptions, Solo, plan_fault, some_survival};
use broker::Clock;
use log::{Fault, MemoryDisk, Survival};
use meta::QueueVersion;
use session::Op;
use std::collections::BTreeMap;
use std::sync::Weak;

const LIVES_MAX: usize = 5;
const WORK_MAX: usize = 120;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 60;
/// Restarts that are looked at with a bit flipped.
const DAMAGED_PERCENT: usize = 30;
/// Faults in a row that starts may meet.
const FAULTY_STARTS_MAX: usize = 3;

impl World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.node = Some(self.hold(self.open(&self.disk.clone())));
        self.bootstrap();
        let mut lives = 1 + self.random.below(LIVES_MAX);
        while lives > 0 {
            lives -= 1;
            self.plan_fault();
            for _ in 0..self.random.below(WORK_MAX) {
                self.act();
                if self.has_failed() {
                    self.after_failure();
                    break;
                }
            }
            if lives == 0 && self.random.percent(50) && self.leave_all() {
                // The last life goes on to the end.
                break;
            }
            let clean = self.random.percent(40) && self.stop();
            self.restart(clean);
        }
        // A planned fault may still come.
        if self.random.percent(DAMAGED_PERCENT) {
            return self.damage_end();
        }
        while !self.drain() {
            self.restart(false);
        }
    }

    fn options(&self) -> NodeOptions {
        NodeOptions {
            segment_bytes: self.segment_bytes,
            durability: self.durability,
            allowance_bytes: self.allowance_bytes,
            embed_below_bytes: self.embed_below_bytes,
            default_version: self.default_version,
            clock: Clock::Ticks,
        }
    }

    fn open(&self, disk: &MemoryDisk) -> Result<Node, String> {
        Node::open(disk, &self.options())
    }

    /// As [`World::open`], and has it load the queues in the older form.
    pub(super) fn open_loaded(&self, disk: &MemoryDisk) -> Result<Node, String> {
        Node::open_loaded(disk, &self.options())
    }

    fn bootstrap(&mut self) {
        let node = self.node.as_mut().expect("the node runs");
        node.add_first_user();
    }

    fn plan_fault(&mut self) {
        if let Some(planned) = plan_fault(&mut self.random, &self.disk, FAULT_WITHIN) {
            self.note(planned);
        }
    }

    /// The log has failed: nobody is told that anything is durable from now on.
    fn after_failure(&mut self) {
        self.note("the log has failed");
        let ids: Vec<usize> = self.clients.keys().copied().collect();
        for id in ids {
            self.poll(id);
            for _ in 0..3 {
                let Some(state) = self.clients.get(&id).filter(|state| state.is_idle()) else {
                    break;
                };
                let Some(channel) = state.channels.keys().next().copied() else { break };
                match self.random.below(2) {
                    0 => self.publish(id),
                    _ => self.declare_queue(id, channel),
                }
                self.step();
            }
        }
    }

    /// Ends all connections; false when the disk is against it.
    pub(super) fn leave_all(&mut self) -> bool {
        if self.alarm {
            self.set_alarm(false);
        }
        self.step();
        let ids: Vec<usize> = self.clients.keys().copied().collect();
        for id in ids {
            for _ in 0..PATIENCE {
                if self.has_failed() || self.clients.get(&id).is_none_or(|c| c.task.is_none()) {
                    break;
                }
                self.step();
            }
            if !self.has_failed() && self.clients.get(&id).is_some_and(Client::is_idle) {
                self.end_connection(id);
            }
        }
        !self.has_failed() && self.clients.is_empty()
    }

    /// Stops the node in good order; false when the disk is against it.
    fn stop(&mut self) -> bool {
        self.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.check();
        let stopped = self.broker().stop();
        self.step();
        stopped.is_ok() && !self.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, mut clean: bool) {
        // What was being closed may have got as far as it likes.
        let before = self.model.facts(true);
        for (client, channel) in self.model.closing.clone() {
            self.model.end_channel(client, channel);
        }
        self.touch(&before);
        self.model.closing.clear();
        self.model.to_be_told.clear();
        self.replies.restart();
        let mut disk = self.lose_power(&self.disk.clone());
        self.older.clear();
        let versions = [QueueVersion::V1, QueueVersion::V2, QueueVersion::V2];
        self.default_version = self.random.choose(&versions).unwrap_or_default();
        self.clients.clear();
        let left = self.node.take().map(|node| Weak::clone(&node.disk));
        if left.is_some_and(|disk| disk.strong_count() > 0) {
            self.object("something of the node is left in memory");
        }
        self.alarm = false;
        stdx::lock(&self.transcript).clear();
        for n_faults in 0.. {
            let copy = disk.survive(Survival::Everything);
            if n_faults < FAULTY_STARTS_MAX && self.random.percent(30) {
                let at = self.random.below(12) as u64;
                self.note(format!("planned: power loss at disk operation {at} of the start"));
                disk.inject(disk.operations() + at, Fault::PowerLoss);
            }
            match self.open_loaded(&disk) {
                Ok(node) => {
                    self.disk = disk;
                    self.node = Some(node);
                    let found = self.peek(&copy);
                    if self.random.percent(DAMAGED_PERCENT) {
                        self.damage_start(&copy, &found);
                    }
                    self.compare(clean, &found);
                    return;
                }
                Err(error) if error.contains("simulated power loss") => {
                    self.note("power is lost during the start");
                    disk = self.lose_power(&disk);
                    clean = false;
                }
                Err(error) => self.object(format!("the node does not start: {error}")),
            }
        }
    }

    fn lose_power(&mut self, disk: &MemoryDisk) -> MemoryDisk {
        let survival = some_survival(&mut self.random, self.durability);
        self.note(format!("restart, {survival:?}"));
        disk.survive(survival)
    }

    /// What the queues hold, found out on a copy so that nobody is given anything.
    fn peek(&self, disk: &MemoryDisk) -> BTreeMap<String, Found> {
        let node = self.hold(self.open_loaded(disk));
        let mut solo = self.hold(Solo::new(node));
        let view = solo.node.broker.view();
        let mut found = BTreeMap::new();
        for queue in view.meta.queues() {
            let name = queue.name.to_string();
            let mut messages = Found::new();
            while let Some(given) = self.hold(solo.get(&name)) {
                let id = given.content.id().unwrap_or(u64::MAX);
                messages.push((id, given.redelivered));
            }
            found.insert(name, messages);
        }
        found
    }

    fn compare(&mut self, clean: bool, found: &BTreeMap<String, Found>) {
        for (name, found) in found {
            let shown =
                found.iter().map(|(id, again)| format!("m{id}{}", if *again { "*" } else { "" }));
            let line = format!("{name} has {}", crate::trace::join(shown));
            self.note(line);
        }
        let facts = facts(self.broker());
        let result = self.model.restart(clean, &facts, found);
        self.hold(result);
        self.check();
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn drain(&mut self) -> bool {
        self.note("drain");
        let client = self.connect();
        self.control(client, 1, Op::ChannelOpen, Expect::ChannelOpened);
        self.client(client).channels.insert(1, client::Channel::default());
        let queues: Vec<String> = self.model.queues.keys().cloned().collect();
        for queue in queues {
            while self.model.first_ready(&queue).is_some() && !self.has_failed() {
                self.get_from(client, 1, &queue, true);
                self.check();
            }
        }
        self.step();
        if self.has_failed() {
            return false;
        }
        self.lose(client);
        if self.broker().message_bytes() != 0 {
            self.object("bytes are left after the drain");
        }
        let Some(node) = &mut self.node else { return false };
        let freed = node.frees_all();
        self.hold(freed)
    }
}
