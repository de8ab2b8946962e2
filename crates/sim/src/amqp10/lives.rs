//! Lives of a node: starts, stops and crashes, and what is there after each.

use super::Amqp10World;
use super::frame_client::FrameClient;
use super::ledger::DEAD;
use super::plain_client::{PlainClient, given_of};
use crate::declare::Arguments;
use crate::harness::{StartFaults, Started, expect_ok, fail};
use amqp10::{DeliveryState, Role};
use std::collections::BTreeMap;
use stdx::Now;
use testing::MemoryDisk;

const LIVES_MAX: usize = 4;
const WORK_MAX: usize = 150;
/// Disk operations within which a planned fault comes.
const FAULT_WITHIN: usize = 80;
const START_FAULTS: StartFaults = StartFaults { in_a_row_max: 2, percent: 20, are_noted: false };
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;
/// No message waits longer to come again.
const WAIT_MAX_MS: u64 = 10_000;
/// The credit of who takes everything.
const ALL: u32 = 100_000;

impl Amqp10World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        self.harness.note(format!("{:?}", self.ledger.queues));
        self.harness.begin();
        let mut lives = 1 + self.harness.random.below(LIVES_MAX);
        loop {
            self.begin();
            lives -= 1;
            self.harness.plan_fault(FAULT_WITHIN);
            for _ in 0..self.harness.random.below(WORK_MAX) {
                if self.is_over() {
                    break;
                }
                self.act();
            }
            if lives == 0 && self.drain() {
                return;
            }
            let is_clean = self.harness.random.percent(30) && self.stop();
            self.restart(is_clean);
            lives = lives.max(1);
        }
    }

    /// Clients come to a node that has started.
    fn begin(&mut self) {
        let mut plain = PlainClient::connect(&mut self.harness);
        for (name, queue) in self.ledger.queues.clone() {
            let mut arguments = Arguments::default();
            arguments.text("x-queue-type", queue.is_quorum.then_some("quorum"));
            arguments.number("x-queue-version", (!queue.is_quorum).then_some(queue.version));
            arguments.signed("x-delivery-limit", queue.is_quorum.then_some(-1));
            arguments.text("x-dead-letter-exchange", queue.has_letters.then_some(""));
            arguments.text("x-dead-letter-routing-key", queue.has_letters.then_some(DEAD));
            plain.ask(&mut self.harness, arguments.declare(name, true));
        }
        self.plain = Some(plain);
        self.take_in();
        self.dry();
    }

    /// Ends all connections; false when the disk is against it.
    fn leave_all(&mut self) -> bool {
        self.dry();
        let numbers: Vec<usize> = self.clients.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.disconnect(number));
        self.end_plain();
        self.dry();
        !self.is_over()
    }

    /// Stops the node in good order; false when the disk is against it.
    fn stop(&mut self) -> bool {
        self.harness.note("stop");
        if !self.leave_all() {
            return false;
        }
        let stopped = self.harness.stop();
        self.dry();
        stopped && !self.is_over()
    }

    /// The node is gone, and comes back from what is on its disk.
    fn restart(&mut self, is_clean: bool) {
        self.take_in();
        self.clients.clear();
        self.plain = None;
        let disk = self.harness.crash();
        let Started { copy, was_cut_off } = self.harness.start(disk, START_FAULTS);
        self.harness.tick(self.ledger.now_ms);
        let found = self.peek(&copy);
        self.harness.note(format!("{found:?}"));
        expect_ok(self.ledger.restart(&found, is_clean && !was_cut_off));
    }

    /// The messages of queues, read from a copy until nothing waits any more.
    fn peek(&self, copy: &MemoryDisk) -> BTreeMap<&'static str, Vec<u64>> {
        let mut client = self.harness.look_into(copy);
        let mut found = BTreeMap::<&'static str, Vec<u64>>::new();
        let mut n_empty = 0;
        for round in 1..ROUNDS_MAX {
            if !client.node.step_all() {
                fail("there is no end to what there is to do");
            }
            let mut is_empty = true;
            for queue in self.ledger.queues.keys().copied() {
                if client.node.broker.view().queue("/", queue).is_none() {
                    fail(format!("{queue} is not there"));
                }
                while let Some(given) = expect_ok(client.get(queue)) {
                    let seen = expect_ok(given_of(&given));
                    expect_ok(self.ledger.check_payload(queue, &seen));
                    found.entry(queue).or_default().push(seen.id);
                    is_empty = false;
                }
            }
            n_empty = if is_empty { n_empty + 1 } else { 0 };
            if n_empty == 3 {
                return found;
            }
            let waited_ms = WAIT_MAX_MS * u64::try_from(round).unwrap_or(1);
            client.node.broker.tick(Now::at_ms(self.ledger.now_ms + waited_ms));
        }
        fail("there is no end to what comes out of the queues")
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    fn drain(&mut self) -> bool {
        if !self.leave_all() {
            return false;
        }
        self.harness.note("drain");
        self.ledger.now_ms += WAIT_MAX_MS;
        self.harness.tick(self.ledger.now_ms);
        self.begin();
        let client = FrameClient::connect_wide(&mut self.harness, Now::at_ms(self.ledger.now_ms));
        self.clients.insert(self.n_clients, client);
        for queue in self.ledger.queues.keys().copied().collect::<Vec<_>>() {
            let Some(client) = self.clients.get_mut(&self.n_clients) else { return false };
            let target = self.ledger.target(queue);
            let handle = client.attach(&mut self.harness, &target, Role::Receiver, false);
            client.give_credit(&mut self.harness, (handle, ALL), false);
        }
        for _ in 0..ROUNDS_MAX {
            self.dry();
            if self.is_over() {
                return false;
            }
            let Some(client) = self.clients.get_mut(&self.n_clients) else { return false };
            let held = std::mem::take(&mut client.held);
            let (Some(first), Some(last)) = (held.keys().next(), held.keys().last()) else { break };
            client.settle(&mut self.harness, (*first, *last), DeliveryState::ACCEPTED, true);
            for (handle, id) in held.values() {
                if let Some(link) = client.links.get(handle) {
                    self.ledger.settle((*id, link.queue), super::Settled::Done);
                }
            }
        }
        self.n_clients += 1;
        expect_ok(self.ledger.check_taken());
        // The log keeps entries of quorum queues that are empty.
        let has_quorum = self.ledger.queues.values().any(|queue| queue.is_quorum);
        self.leave_all() && (has_quorum || self.harness.check_empty())
    }
}
