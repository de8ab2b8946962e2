//! Transactions: a client publishes and accepts in one, which it commits or rolls back.

use super::World;
use super::frame_client::{FrameClient, FrameLink};
use super::ledger::Sent;
use super::rules::Rules;
use crate::harness::Harness;
use amqp10::{
    Accepted, DeliveryOutcome, DeliveryState, Disposition, PassingState, Performative, Transfer,
};
use session::Outcome;
use testing::amqp10_client::{controller, declare, discharge, transactional};
use testing::run::fail;

const PUBLISHES_MAX: usize = 4;
const SETTLES_MAX: usize = 3;
/// Bodies that fit into the smallest frames.
const SIZES: &[usize] = &[0, 200];

/// A client's link to the coordinator.
#[derive(Default)]
pub(super) struct Coordination {
    handle: Option<u32>,
    /// The transaction that is open.
    txn_id: Option<Vec<u8>>,
    /// The delivery that ends it, and whether that was done.
    ended_by: Option<u32>,
    is_done: Option<bool>,
}

impl Coordination {
    /// Takes an answer that concerns transactions; false if this is none.
    pub(super) fn take(&mut self, told: &Disposition<'_>) -> bool {
        match told.state {
            Some(DeliveryState::Passing(PassingState::Declared(declared))) => {
                self.txn_id = Some(declared.txn_id.to_vec());
            }
            Some(DeliveryState::Passing(PassingState::Transactional(_))) => {}
            Some(DeliveryState::Outcome(outcome)) if self.ended_by == Some(told.first.bits()) => {
                self.is_done = Some(matches!(outcome, DeliveryOutcome::Accepted(_)));
            }
            Some(_) | None => return false,
        }
        true
    }
}

impl FrameClient {
    fn begin_transaction(&mut self, harness: &mut Harness) {
        self.coordination.txn_id = None;
        let handle = self.coordination.handle.unwrap_or_else(|| {
            let handle = self.take_handle();
            let attach = Box::new(controller(handle));
            self.say(harness, &Performative::Attach(attach));
            handle
        });
        self.coordination.handle = Some(handle);
        self.transfer(harness, Transfer::on(handle), &declare());
    }

    /// Ends the transaction that is open.
    fn end_transaction(&mut self, harness: &mut Harness, commits: bool) {
        let Some(handle) = self.coordination.handle else { return };
        let Some(txn_id) = self.coordination.txn_id.take() else { return };
        self.coordination.is_done = None;
        self.coordination.ended_by = Some(self.next_delivery_id());
        self.transfer(harness, Transfer::on(handle), &discharge(&txn_id, !commits));
    }
}

impl World {
    /// Publishes in a transaction; the messages that are in it.
    fn publish_in(&mut self, (number, handle): (usize, u32), txn_id: &[u8]) -> Vec<(u64, Sent)> {
        let mut published = Vec::new();
        for _ in 0..self.harness.random.below(PUBLISHES_MAX) {
            let size = self.harness.random.choose(SIZES).unwrap_or(0);
            let Some(client) = self.frames.clients.get(&number) else { break };
            let Some(link) = client.links.get(&handle) else { break };
            let sent = self.framed_message(link.link.queue, size);
            let (id, sections) = (self.n_messages + 1, sent.content.body.clone());
            let Some(client) = self.frames.clients.get_mut(&number) else { break };
            if !client.can_publish(handle, sections.len()) {
                break;
            }
            published.push((id, Sent { expected: None, ..sent }));
            self.n_messages = id;
            let state = Some(transactional(txn_id, None));
            let transfer = Transfer { state, ..Transfer::on(handle) };
            client.transfer(&mut self.harness, transfer, &sections);
        }
        published
    }

    /// Accepts some deliveries in a transaction; they come again, as failed, if it is rolled back.
    fn accept_in(&mut self, number: usize, txn_id: &[u8], commits: bool) {
        for _ in 0..self.harness.random.below(SETTLES_MAX) {
            let Some(client) = self.frames.clients.get_mut(&number) else { return };
            let Some(delivery_id) = self.harness.random.choose_key(&client.held) else { return };
            let Some((_, copy)) = client.held.remove(&delivery_id) else { return };
            let state = transactional(txn_id, Some(DeliveryOutcome::Accepted(Accepted {})));
            client.settle(&mut self.harness, (delivery_id, delivery_id), state, true);
            self.harness.note(format!("client {number}: m{} of {} in it", copy.id, copy.queue));
            self.settle_copy(copy, if commits { Outcome::Accepted } else { Outcome::Modified });
        }
    }

    /// A client does several things in one transaction.
    pub(super) fn transact(&mut self) {
        // No message of a transaction may be refused, or be without a queue.
        let queues = self.queues().into_iter().filter(|queue| self.is_usable(queue));
        let may_refuse = |queue: &str| self.ledger.ever(queue).any(Rules::may_refuse);
        // A commit waits for no consumers.
        let queues = queues.filter(|queue| !may_refuse(queue) && !self.is_late(queue));
        let queues: Vec<&'static str> = queues.collect();
        let is_wanted = |link: &FrameLink| {
            link.is_publisher() && !link.link.no_ack && queues.contains(&link.link.queue)
        };
        let Some((number, handle)) = self.some_frame_link(is_wanted) else { return };
        let Some(client) = self.frames.clients.get_mut(&number) else { return };
        if client.is_shut_out() {
            return;
        }
        client.begin_transaction(&mut self.harness);
        self.take_in();
        let client = self.frames.clients.get(&number);
        let Some(txn_id) = client.and_then(|client| client.coordination.txn_id.clone()) else {
            if !self.is_over() {
                fail("no transaction is declared");
            }
            return;
        };
        let published = self.publish_in((number, handle), &txn_id);
        let commits = self.harness.random.percent(70);
        self.accept_in(number, &txn_id, commits);
        let ids: Vec<u64> = published.iter().map(|(id, _)| *id).collect();
        self.harness.note(format!("client {number}: transaction of {ids:?}, commits {commits}"));
        for (id, sent) in published.into_iter().filter(|_| commits) {
            self.ledger.publish(id, sent);
        }
        if let Some(client) = self.frames.clients.get_mut(&number) {
            client.end_transaction(&mut self.harness, commits);
        }
        self.dry();
        let client = self.frames.clients.get(&number);
        match client.and_then(|client| client.coordination.is_done) {
            Some(true) if commits => ids.into_iter().for_each(|id| self.take_answer(id, true)),
            Some(true) => {}
            Some(false) | None if self.is_over() => {}
            other => fail(format!("a transaction ends as {other:?}")),
        }
    }
}
