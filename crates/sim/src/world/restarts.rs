//! Lives of a node: starts, stops and crashes, and what is there after each.

use super::World;
use super::accounts::Peeked;
use super::rules::RETRY_MAX_MS;
use super::streams::Found;
use crate::harness::{FIRST, StartFaults, Started};
use crate::node::SingleClient;
use crate::seen::Seen;
use broker::StreamDurability;
use log::Durability;
use stdx::Now;
use testing::outbox::Given;
use testing::run::{expect_ok, fail};
use testing::{CrashOutcome, Fault, MemoryDisk};

const LIVES_MAX: usize = 5;
/// Operations of clients in a life of the node, at most.
const WORK_MAX: usize = 110;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 100;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Copies of the disk that are looked at with a bit of a stream flipped.
const DAMAGED_PERCENT: usize = 20;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// Rounds without a message after which there is none: the first look may set letters off.
const EMPTY_ROUNDS: usize = 3;

impl World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        for (queue, rules) in self.ledger.rules.clone() {
            self.harness.note(format!("{queue}: {rules:?}"));
        }
        self.harness.begin();
        let mut lives = 1 + self.harness.random.below(LIVES_MAX);
        loop {
            self.begin();
            lives -= 1;
            self.fault_at = self.harness.plan_fault(FIRST, FAULT_WITHIN);
            for _ in 0..self.harness.random.below(WORK_MAX) {
                if self.is_over() {
                    break;
                }
                self.act();
                self.check();
            }
            if lives == 0 && !self.features.has_logs && self.drain() {
                return;
            }
            let is_clean = self.harness.random.percent(30) && self.stop();
            self.restart(is_clean);
            if lives == 0 && self.features.has_logs {
                return;
            }
            lives = lives.max(1);
        }
    }

    /// Clients come to a node that has started.
    fn begin(&mut self) {
        self.connect();
        self.declare_missing();
        // Of one that was being changed it is not known which came to be.
        if let Some((of, policy)) = self.ledger.policy() {
            self.set_rules(of, policy);
        }
        if self.features.has_frames {
            self.bind_all();
        }
        if !self.features.confirms_late {
            return;
        }
        self.bind_all();
        if self.features.has_timeouts && !self.is_over() {
            self.set_timeout();
        }
        self.ledger.life.ever_missing.clear();
        self.dry();
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        if self.has_alarm {
            self.set_alarm(false);
        }
        self.dry();
        self.disconnect_all_framed();
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            if !self.is_over() {
                self.disconnect(peer);
            }
        }
        self.dry();
        !self.is_over()
    }

    /// Stops the node in good order; false when the disk is against it.
    fn stop(&mut self) -> bool {
        self.harness.note("stop");
        if !self.leave_all() {
            return false;
        }
        let stopped = self.harness.host(FIRST).stop();
        self.dry();
        stopped && !self.is_over()
    }

    /// Ends the work of streams with their consumers, which hold each other in memory until then; nothing
    /// of it gets to the disk.
    fn end_streams(&mut self) {
        self.harness
            .host(FIRST)
            .disk
            .inject(self.harness.host(FIRST).disk.operations(), Fault::PowerLoss);
        for (_, peer) in std::mem::take(&mut self.peers) {
            peer.session.map(|session| self.harness.close(session));
        }
        for (_, client) in std::mem::take(&mut self.frames.clients) {
            client.end(&mut self.harness);
        }
        while self
            .harness
            .host(FIRST)
            .node
            .as_ref()
            .is_some_and(|node| node.steppers.streams.step())
        {}
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, is_clean: bool) {
        // Streams that confirm what is written lose it with the power, as they say; and never to a crash of
        // the process, of which each such node meets one kind or the other.
        let has_logs = self.features.has_logs;
        let is_fsync =
            self.harness.host(FIRST).options.stream_durability == StreamDurability::Fsync;
        let durability = self.harness.host(FIRST).options.durability;
        let is_process = has_logs && !is_fsync && self.harness.random.percent(50);
        if is_process {
            self.harness.host_mut(FIRST).options.durability = Durability::Write;
        }
        if self.features.sends_on && !self.is_over() {
            self.check_single();
        }
        if has_logs {
            self.end_streams();
        }
        self.peers.clear();
        self.frames.clients.clear();
        let disk = if has_logs { self.harness.lose_node(FIRST) } else { self.harness.crash(FIRST) };
        self.harness.host_mut(FIRST).options.durability = durability;
        let now_ms = self.now_ms();
        self.harness.host_mut(FIRST).set_start_time(now_ms);
        let Started { copy, was_cut_off } = self.harness.start(FIRST, disk, START_FAULTS);
        (self.asking, self.saying, self.failing, self.fault_at) = (None, None, None, None);
        (self.has_alarm, self.is_disk_short, self.is_dry) = (false, false, false);
        self.enforced.clear();
        self.ledger.past.n_starts += 1;
        self.compare_queues();
        self.compare_streams(&copy, is_fsync || (is_process && !was_cut_off));
        self.compare_messages(&copy, is_clean && !was_cut_off);
        if has_logs && self.harness.random.percent(DAMAGED_PERCENT) {
            self.damage(&copy);
        }
    }

    fn compare_queues(&mut self) {
        for queue in [self.names(), self.streams.names()].concat() {
            let (was_there, is_there) = (self.declared.contains(queue), self.is_there(queue));
            let rules = self.ledger.rules(queue);
            let is_durable = !rules.is_transient || self.is_stream(queue);
            // When a quorum queue was used last is not durable before something else is.
            let may_expire =
                if rules.is_quorum { rules.expires_ms.is_some() } else { self.may_expire(queue) };
            if was_there && !is_there && is_durable && !may_expire {
                fail(format!("{queue} is lost"));
            }
            if is_there && !is_durable {
                fail(format!("{queue} is back"));
            }
            if is_there {
                self.declared.insert(queue);
                self.use_queue(queue);
                // One that was due at the start has as long again.
                if let Some(expires_ms) = rules.expires_ms.filter(|_| rules.is_quorum) {
                    let used_ms = (self.now_ms() + 1).saturating_sub(expires_ms);
                    self.used_ms.insert(queue, (used_ms, self.now_ms()));
                }
            } else if !self.is_stream(queue) {
                self.remove(queue);
            }
        }
    }

    fn compare_streams(&mut self, copy: &MemoryDisk, is_sure: bool) {
        self.streams.begin();
        if self.streams.names().is_empty() {
            return;
        }
        let mut client = self.harness.host(FIRST).look_into(copy);
        for stream in self.streams.names() {
            if self.is_there(stream) {
                let given = expect_ok(client.read_stream(stream));
                let found: Result<Vec<Found>, _> =
                    given.iter().map(|given| self.streams.look_at(stream, given)).collect();
                let found = expect_ok(found);
                self.harness.note(format!("{stream} has {found:?}"));
                expect_ok(self.streams.restart(stream, &found, is_sure));
            }
        }
    }

    fn compare_messages(&mut self, copy: &MemoryDisk, is_clean: bool) {
        let mut client = self.harness.host(FIRST).look_into(copy);
        let peeked = self.peek(&mut client);
        self.harness.note(format!("{peeked:?}"));
        expect_ok(self.ledger.restart(is_clean, &peeked));
        self.names.restart(&self.ledger.sent);
    }

    /// The messages of queues, read from a copy on which no time passes; of quorum queues also what comes of
    /// them once nothing waits to be tried again.
    fn peek(&self, client: &mut SingleClient) -> Peeked {
        let mut peeked = Peeked { now_ms: self.now_ms(), is_start: true, ..Peeked::default() };
        let (mut n_empty, mut has_waited) = (0, !self.features.has_logs);
        for _ in 0..ROUNDS_MAX {
            if !client.node.step_all() {
                fail("there is no end to what there is to do");
            }
            let mut is_empty = true;
            for queue in self.queues() {
                for given in self.given_of(client, queue) {
                    let seen = expect_ok(Seen::of(&given));
                    let checked = self.ledger.check_content(queue, (&given, &seen), peeked.now_ms);
                    expect_ok(checked);
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
                client.node.broker.tick(Now::at_ms(peeked.now_ms));
            }
        }
        fail("there is no end to what comes out of the queues")
    }

    /// Looks at what is left of queues once they are empty.
    fn note_departing(&self, client: &SingleClient, peeked: &mut Peeked) {
        let view = client.node.broker.view();
        for queue in self.queues() {
            if let Some(there) = view.queue("/", queue) {
                peeked.departing.insert(queue, there.local_stat().n_departing);
            } else {
                peeked.expired.insert(queue);
            }
        }
    }

    /// The messages that a queue gives out now.
    fn given_of(&self, client: &mut SingleClient, queue: &str) -> Vec<Given> {
        let mut given = Vec::new();
        if client.node.broker.view().queue("/", queue).is_none() {
            return given;
        }
        let rules = self.ledger.rules(queue);
        if rules.is_quorum && rules.is_single_active {
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
        if self.harness.flip_some_bit(&copy, |name| name.starts_with("streams/")).is_none() {
            return;
        }
        let Ok(mut client) = self.harness.host(FIRST).try_to_look_into(&copy) else { return };
        for stream in self.streams.names() {
            if self.is_there(stream) {
                for given in client.read_stream(stream).unwrap_or_default() {
                    expect_ok(self.streams.look_at(stream, &given));
                }
            }
        }
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn drain(&mut self) -> bool {
        self.harness.note("drain");
        if self.has_alarm {
            self.set_alarm(false);
        }
        self.dry();
        self.disconnect_all_framed();
        let mut n_empty = 0;
        for _ in 0..ROUNDS_MAX {
            if n_empty == EMPTY_ROUNDS || self.is_over() {
                break;
            }
            let before = self.n_got;
            self.take_all();
            self.dry();
            n_empty = if self.n_got > before { 0 } else { n_empty + 1 };
        }
        if self.is_over() {
            return false;
        }
        self.check();
        let channels = self.peers.values().flat_map(|peer| peer.channels.values());
        if let Some(id) = channels.flat_map(|channel| channel.unconfirmed.values()).next() {
            fail(format!("m{id} has no answer at the end"));
        }
        expect_ok(self.ledger.check_all(&Peeked { now_ms: self.now_ms(), ..Peeked::default() }));
        self.leave_all() && self.harness.host_mut(FIRST).check_empty()
    }

    /// Clients acknowledge what they hold, and what is ready is taken.
    fn take_all(&mut self) {
        let peers: Vec<usize> = self.peers.keys().copied().collect();
        for peer in peers {
            self.accept_all(peer);
        }
        for queue in self.queues() {
            loop {
                let (Some(at), before) = (self.any_open(), self.n_got) else { return };
                self.get_from(at, queue, true);
                self.write_all(at.0);
                if self.is_over() || self.n_got == before {
                    break;
                }
            }
        }
    }
}
