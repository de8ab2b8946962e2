//! The world of AMQP 1.0: clients in frames beside clients of AMQP 0-9-1 on classic and quorum queues, with
//! credit, windows, outcomes, and crashes at any write. Accepted messages are kept or settled, none comes
//! twice but marked, none is another, links get them in order ([`ledger`]).

mod frame_client;
mod ledger;
mod lives;
mod plain_client;
mod transactions;
mod wire;
mod work;

use crate::harness::{Harness, expect_ok, fail};
use crate::node::{Node, NodeOptions, journal_operations_max, some_durability};
use broker::{Clock, StreamDurability};
use frame_client::{FrameClient, FrameLink, Heard};
use ledger::{DEAD, Ledger, Queue, Settled, Violation};
use meta::QueueVersion;
use plain_client::PlainClient;
use std::collections::BTreeMap;
use stdx::Now;
use testing::Random;
use work::sections_of;

/// The time at the beginning.
const BEGINS_MS: u64 = 1_000_000;
/// Steps after which nothing may be left to do.
const DRY_STEPS_MAX: usize = 5_000;

/// One run.
pub(crate) struct Amqp10World {
    pub(crate) harness: Harness,
    clients: BTreeMap<usize, FrameClient>,
    plain: Option<PlainClient>,
    ledger: Ledger,
    n_clients: usize,
    n_messages: u64,
}

impl Amqp10World {
    pub(crate) fn new(seed: u64, echo: bool) -> Self {
        let mut random = Random::new(seed);
        let options = NodeOptions {
            segment_bytes: random.choose(&[2048, 8192, 65_536]).unwrap_or(65_536),
            durability: some_durability(&mut random),
            allowance_bytes: random.choose(&[0, 500, 4_000, 4 << 20]).unwrap_or(0),
            embed_below_bytes: random.choose(&[0, 2_000, 1 << 20]).unwrap_or(0),
            journal_operations_max: journal_operations_max(seed),
            default_version: QueueVersion::V2,
            clock: Clock::TicksFrom(Now::at_ms(BEGINS_MS)),
            stream_durability: StreamDurability::Write,
        };
        let mut some = |has_letters| Queue {
            is_quorum: random.percent(50),
            version: if random.percent(40) { 1 } else { 2 },
            has_letters,
        };
        let queues =
            [("q0", some(true)), ("q1", some(true)), ("q2", some(false)), (DEAD, some(false))];
        let queues = BTreeMap::from(queues);
        Self {
            harness: Harness::new(random, options, echo),
            clients: BTreeMap::new(),
            plain: None,
            ledger: Ledger::new(queues, BEGINS_MS),
            n_clients: 0,
            n_messages: 0,
        }
    }

    fn is_over(&self) -> bool {
        self.harness.has_failed()
    }

    /// Everything is done that there is to do.
    fn dry(&mut self) {
        for _ in 0..DRY_STEPS_MAX {
            let stepped = self.harness.node.as_mut().is_some_and(Node::step);
            let heard = self.take_in();
            if self.is_over() {
                return;
            }
            if !stepped && !heard {
                return self.check_dry();
            }
        }
        fail("there is no end to what there is to do");
    }

    /// Checks what holds of a node that has nothing left to do by itself.
    fn check_dry(&self) {
        for (number, client) in &self.clients {
            if client.is_wide() && client.is_draining() {
                fail(format!("a drain of client {number} does not end"));
            }
            if let Some((_, id)) = client.unanswered.values().next() {
                fail(format!("m{id} is not answered"));
            }
        }
        if self.plain.as_ref().is_some_and(PlainClient::has_unconfirmed) {
            fail("a publish is not confirmed");
        }
    }

    /// Takes in what clients were told; false if that is nothing.
    fn take_in(&mut self) -> bool {
        let numbers: Vec<usize> = self.clients.keys().copied().collect();
        let mut heard_any = self.take_in_plain();
        for number in numbers {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            for heard in client.hear(&mut self.harness) {
                heard_any = true;
                self.take_heard(number, heard);
            }
        }
        heard_any
    }

    fn take_heard(&mut self, number: usize, heard: Heard) {
        let is_over = self.is_over();
        let Some(client) = self.clients.get_mut(&number) else { return };
        match heard {
            Heard::Ended(_) if is_over => {}
            Heard::Ended(what) => fail(format!("a client is thrown out: {what}")),
            Heard::Answered { delivery_id, answer } => {
                let Some((_, id)) = client.unanswered.remove(&delivery_id) else {
                    fail(format!("delivery {delivery_id} is answered twice, or after its link"));
                };
                self.harness.note(format!("  {number}: {answer:?} m{id}"));
                // A disk that has failed makes for refusals, but accepted messages are kept.
                if !is_over || answer == frame_client::Answer::Accepted {
                    expect_ok(self.ledger.answer(id, answer));
                }
            }
            Heard::Delivered { handle, delivery_id, is_settled, sections } => {
                let link = client.links.get_mut(&handle).expect("the link is attached");
                let (queue, given) = (link.queue, expect_ok(sections_of(&sections)));
                self.harness
                    .note(format!("  {number}: delivery {delivery_id}, {queue}: {given:?}"));
                if !is_over {
                    expect_ok(self.ledger.give(queue, &given, &mut link.newest));
                }
                if is_settled {
                    self.ledger.settle((given.id, queue), Settled::Done);
                } else {
                    client.held.insert(delivery_id, (handle, given.id));
                }
            }
        }
    }
}
