//! Lives of a node with quorum queues and streams, and what is there after each.

use super::LogQueues;
use super::ledger::Found;
use crate::harness::{StartFaults, Started, expect_ok, fail};
use crate::node::SingleClient;
use broker::{Clock, StreamDurability};
use log::Durability;
use testing::{CrashOutcome, Fault, MemoryDisk};

const LIVES_MAX: usize = 5;
const WORK_MAX: usize = 80;
/// Disk operations within which the planned fault comes.
const FAULT_WITHIN: usize = 120;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Copies of the disk that are looked at with a bit of a stream flipped.
const DAMAGED_PERCENT: usize = 20;

impl LogQueues {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.harness.begin();
        let lives = 1 + self.harness.random.below(LIVES_MAX);
        for _ in 0..lives {
            self.live();
            self.restart();
        }
    }

    fn live(&mut self) {
        self.connect();
        self.declare_missing();
        self.plan();
        for _ in 0..self.harness.random.below(WORK_MAX) {
            if self.is_over() {
                return;
            }
            self.act();
        }
    }

    /// Power is lost, or the disk fails, within so many of its operations.
    fn plan(&mut self) {
        let fault = self.harness.random.choose(&[Fault::PowerLoss, Fault::PowerLoss, Fault::Io]);
        let at = self.harness.disk.operations() + self.harness.random.below(FAULT_WITHIN) as u64;
        self.harness.disk.inject(at, fault.unwrap_or(Fault::PowerLoss));
        self.harness.note(format!("planned: {fault:?} at disk operation {at}"));
        self.fault_at = Some(at);
    }

    /// Nothing more gets to the disk. What streams still had to do goes with their consumers, which hold each
    /// other in memory until then.
    fn end_life(&mut self) {
        let at = self.harness.disk.operations();
        self.harness.disk.inject(at, Fault::PowerLoss);
        for (_, peer) in std::mem::take(&mut self.peers) {
            self.harness.close(peer.session);
        }
        while self.harness.node.as_ref().is_some_and(|node| node.steppers.streams.step()) {}
        (self.consuming, self.fault_at) = (None, None);
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self) {
        self.end_life();
        // Streams that confirm what is written lose it with the power, as they say; and never to a crash of
        // the process, of which each such node meets one kind or the other.
        let is_process = self.harness.options.stream_durability == StreamDurability::Write
            && self.harness.random.percent(50);
        if is_process {
            self.harness.options.durability = Durability::Write;
        }
        let disk = self.harness.lose_node();
        self.harness.options.durability = Durability::Sync;
        self.harness.options.clock = Clock::TicksFrom(self.ledger.now_ms);
        let n_operations = disk.operations();
        let Started { copy, was_cut_off } = self.harness.start(disk, START_FAULTS);
        self.harness.note(format!("{n_operations} disk operations before"));
        let is_sure = self.harness.options.stream_durability == StreamDurability::Fsync
            || (is_process && !was_cut_off);
        self.compare(&copy, is_sure);
        if self.harness.random.percent(DAMAGED_PERCENT) {
            self.damage(&copy);
        }
    }

    fn compare(&mut self, copy: &MemoryDisk, streams_are_sure: bool) {
        let mut client = self.harness.look_into(copy);
        self.ledger.begin();
        for (queue, kind) in self.ledger.queues() {
            let is_there = self.harness.queue(queue).is_some();
            if !is_there && self.ledger.is_declared(queue) {
                fail(format!("{queue} is lost"));
            }
            if is_there {
                self.ledger.declared(queue);
                let is_sure = streams_are_sure || !kind.is_stream();
                let found = self.found(&mut client, queue);
                self.harness.note(format!("{queue} has {found:?}"));
                expect_ok(self.ledger.restart(queue, &found, is_sure));
            }
        }
    }

    fn found(&self, client: &mut SingleClient, queue: &'static str) -> Vec<Found> {
        let given = if self.ledger.kind(queue).is_stream() {
            expect_ok(client.read_stream(queue))
        } else {
            let mut all = Vec::new();
            while let Some(given) = expect_ok(client.get(queue)) {
                all.push(given);
            }
            all
        };
        given.iter().map(|given| expect_ok(self.ledger.look_at(queue, given))).collect()
    }

    /// A bit of a stream's files is flipped on a copy: the start may refuse it and a reader may end there,
    /// but what is given is what was published.
    fn damage(&mut self, disk: &MemoryDisk) {
        let copy = disk.survive(CrashOutcome::Everything);
        let mut files = copy.files();
        files.retain(|(name, bytes)| *bytes > 0 && name.starts_with("streams/"));
        let Some((file, bytes)) = self.harness.random.choose(&files) else { return };
        let (at, bit) = (self.harness.random.below(bytes), self.harness.random.below(8));
        copy.flip_bit(&file, at, u8::try_from(bit).unwrap_or(0));
        self.harness.note(format!("bit {bit} of byte {at} of {file} is another one"));
        let Ok(mut client) = self.harness.try_to_look_into(&copy) else { return };
        for (queue, kind) in self.ledger.queues() {
            if kind.is_stream() && self.harness.queue(queue).is_some() {
                let given = client.read_stream(queue).unwrap_or_default();
                for given in given {
                    expect_ok(self.ledger.look_at(queue, &given));
                }
            }
        }
    }
}
