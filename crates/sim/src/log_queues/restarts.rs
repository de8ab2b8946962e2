//! Lives of a node with quorum queues and streams, and what is there after each.

use super::accounts::Peeked;
use super::ledger::Found;
use super::rules::RETRY_MAX_MS;
use super::{LogQueues, QUORUM_QUEUES};
use crate::harness::{StartFaults, Started, expect_ok, fail};
use crate::node::SingleClient;
use crate::seen::Seen;
use broker::{Clock, StreamDurability};
use log::Durability;
use stdx::Now;
use testing::outbox::Given;
use testing::{CrashOutcome, Fault, MemoryDisk};

const LIVES_MAX: usize = 5;
const WORK_MAX: usize = 80;
/// Disk operations within which the planned fault comes.
const FAULT_WITHIN: usize = 120;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Copies of the disk that are looked at with a bit of a stream flipped.
const DAMAGED_PERCENT: usize = 20;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// Rounds without a message after which there is none: the first look may set letters off.
const EMPTY_ROUNDS: usize = 3;

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
        // Of one that was being changed it is not known which came to be.
        if let Some((of, policy)) = self.quorum.policy() {
            self.set_policy(of, policy);
        }
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
            peer.session.map(|session| self.harness.close(session));
        }
        while self.harness.node.as_ref().is_some_and(|node| node.steppers.streams.step()) {}
        (self.asking, self.fault_at) = (None, None);
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
        self.harness.options.clock = Clock::TicksFrom(Now::at_ms(self.now_ms()));
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
        self.streams.begin();
        self.quorum.past.n_starts += 1;
        for queue in self.queues() {
            let (was_there, is_there) = (self.declared.contains(queue), self.is_there(queue));
            // When it was used last is not durable before something else is.
            let expires_ms = self.quorum.rules(queue).expires_ms;
            if was_there && !is_there && expires_ms.is_none() {
                fail(format!("{queue} is lost"));
            }
            if is_there {
                self.declared.insert(queue);
                // One that was due at the start has as long again.
                let used_ms = (self.now_ms() + 1).saturating_sub(expires_ms.unwrap_or(0));
                self.used_ms.insert(queue, (used_ms, self.now_ms()));
            } else if QUORUM_QUEUES.contains(&queue) {
                self.remove(queue);
            }
        }
        let mut client = self.harness.look_into(copy);
        for stream in self.streams.streams() {
            if self.is_there(stream) {
                let given = expect_ok(client.read_stream(stream));
                let found: Result<Vec<Found>, _> =
                    given.iter().map(|given| self.streams.look_at(stream, given)).collect();
                let found = expect_ok(found);
                self.harness.note(format!("{stream} has {found:?}"));
                expect_ok(self.streams.restart(stream, &found, streams_are_sure));
            }
        }
        let peeked = self.peek(&mut client);
        self.harness.note(format!("{peeked:?}"));
        expect_ok(self.quorum.restart(&peeked));
        self.names.restart(&self.quorum.sent);
    }

    /// The messages of quorum queues, and what comes of them once nothing waits to be tried again.
    fn peek(&self, client: &mut SingleClient) -> Peeked {
        let mut peeked = Peeked { now_ms: self.now_ms(), ..Peeked::default() };
        let (mut n_empty, mut has_waited) = (0, false);
        for _ in 0..ROUNDS_MAX {
            if !client.node.step_all() {
                fail("there is no end to what there is to do");
            }
            let mut is_empty = true;
            for queue in QUORUM_QUEUES {
                for given in self.given_of(client, queue) {
                    let seen = expect_ok(Seen::of(&given));
                    expect_ok(self.quorum.check_content(queue, (&given, &seen), peeked.now_ms));
                    peeked.found.entry(queue).or_default().push(seen);
                    is_empty = false;
                }
            }
            n_empty = if is_empty { n_empty + 1 } else { 0 };
            if n_empty == EMPTY_ROUNDS && has_waited {
                self.note_departing(client, &mut peeked);
                return peeked;
            }
            if n_empty == EMPTY_ROUNDS {
                (n_empty, has_waited) = (0, true);
                peeked.now_ms += RETRY_MAX_MS;
                let now_ms = peeked.now_ms;
                client.node.broker.tick(Now::at_ms(now_ms));
            }
        }
        fail("there is no end to what comes out of the queues")
    }

    /// Looks at what is left of queues once they are empty.
    fn note_departing(&self, client: &SingleClient, peeked: &mut Peeked) {
        let view = client.node.broker.view();
        for queue in QUORUM_QUEUES.iter().filter(|queue| self.is_there(queue)) {
            if let Some(there) = view.queue("/", queue) {
                peeked.departing.insert(queue, there.stat().n_departing);
            } else {
                peeked.expired.insert(queue);
            }
        }
    }

    /// The messages that a quorum queue gives out now.
    fn given_of(&self, client: &mut SingleClient, queue: &str) -> Vec<Given> {
        let mut given = Vec::new();
        if client.node.broker.view().queue("/", queue).is_none() {
            return given;
        }
        if self.quorum.rules(queue).is_single_active {
            return expect_ok(client.read_queue(queue));
        }
        while let Some(next) = expect_ok(client.get(queue)) {
            given.push(next);
        }
        given
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
        for stream in self.streams.streams() {
            if self.is_there(stream) {
                for given in client.read_stream(stream).unwrap_or_default() {
                    expect_ok(self.streams.look_at(stream, &given));
                }
            }
        }
    }
}
