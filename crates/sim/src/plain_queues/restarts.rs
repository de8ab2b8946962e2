//! Lives of the node: starts, stops, crashes, and what is there afterwards.

use super::{PATIENCE, PlainQueues, facts};
use crate::client::{self, Client, Expect};
use crate::harness::{FIRST, StartFaults, Started};
use crate::model::Found;
use meta::QueueVersion;
use session::Op;
use std::collections::BTreeMap;
use testing::MemoryDisk;
use testing::run::expect_ok;

const LIVES_MAX: usize = 5;
const WORK_MAX: usize = 120;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 60;
/// Restarts that are looked at with a bit flipped.
const DAMAGED_PERCENT: usize = 30;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 3, percent: 30, are_noted: true };

impl PlainQueues {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.harness.begin();
        let mut lives = 1 + self.harness.random.below(LIVES_MAX);
        while lives > 0 {
            lives -= 1;
            self.harness.plan_fault(FIRST, FAULT_WITHIN);
            for _ in 0..self.harness.random.below(WORK_MAX) {
                self.act();
                if self.has_failed() {
                    self.after_failure();
                    break;
                }
            }
            if lives == 0 && self.harness.random.percent(50) && self.leave_all() {
                // The last life goes on to the end.
                break;
            }
            let clean = self.harness.random.percent(40) && self.stop();
            self.restart(clean);
        }
        // A planned fault may still come.
        if self.harness.random.percent(DAMAGED_PERCENT) {
            return self.damage_end();
        }
        while !self.drain() {
            self.restart(false);
        }
    }

    /// The log has failed: nobody is told that anything is durable from now on.
    fn after_failure(&mut self) {
        self.harness.note("the log has failed");
        let ids: Vec<usize> = self.clients.keys().copied().collect();
        for id in ids {
            self.poll(id);
            for _ in 0..3 {
                let Some(state) = self.clients.get(&id).filter(|state| state.is_idle()) else {
                    break;
                };
                let Some(channel) = state.channels.keys().next().copied() else { break };
                match self.harness.random.below(2) {
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
        self.harness.note("stop");
        if !self.leave_all() {
            return false;
        }
        self.check();
        let stopped = self.harness.host(FIRST).stop();
        self.step();
        stopped && !self.has_failed()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, clean: bool) {
        // What was being closed may have got as far as it likes.
        let before = self.model.facts(true);
        for (client, channel) in self.model.closing.clone() {
            self.model.end_channel(client, channel);
        }
        self.touch(&before);
        self.model.closing.clear();
        self.model.to_be_told.clear();
        self.replies.restart();
        self.v1_lately.clear();
        self.alarm = false;
        self.clients.clear();
        let disk = self.harness.crash(FIRST);
        let versions = [QueueVersion::V1, QueueVersion::V2, QueueVersion::V2];
        self.harness.host_mut(FIRST).options.default_version =
            self.harness.random.choose(&versions).unwrap_or_default();
        let Started { copy, was_cut_off } = self.harness.start(FIRST, disk, START_FAULTS);
        let found = self.peek(&copy);
        if self.harness.random.percent(DAMAGED_PERCENT) {
            self.damage_start(&copy, &found);
        }
        self.compare(clean && !was_cut_off, &found);
    }

    /// The queues' messages, read from a copy so that no client gets anything.
    fn peek(&self, disk: &MemoryDisk) -> BTreeMap<String, Found> {
        let mut client = self.harness.host(FIRST).look_into(disk);
        let view = client.node.broker.view();
        let mut found = BTreeMap::new();
        for queue in view.meta.queues().iter() {
            let name = queue.name.to_string();
            let mut messages = Found::new();
            while let Some(given) = expect_ok(client.get(&name)) {
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
            let line = format!("{name} has {}", testing::run::join(shown));
            self.harness.note(line);
        }
        let facts = facts(self.broker());
        expect_ok(self.model.restart(clean, &facts, found));
        self.check();
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn drain(&mut self) -> bool {
        self.harness.note("drain");
        let client = self.connect();
        self.control(client, 1, Op::OpenChannel, Expect::ChannelOpened);
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
        self.harness.host_mut(FIRST).check_empty()
    }
}
