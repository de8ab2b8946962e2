//! Transactions: a client publishes and accepts in one, which it commits or rolls back.

use super::Amqp10World;
use super::frame_client::{Answer, FrameClient};
use super::ledger::{At, Sent, Settled};
use super::work::{NOWHERE, message};
use crate::harness::{Harness, expect_ok, fail};
use amqp10::{
    Accepted, DeliveryOutcome, DeliveryState, Disposition, PassingState, Performative, Transfer,
};
use testing::amqp10_client::{controller, declare, discharge, transactional};
use testing::outbox::Content;

const PUBLISHES_MAX: usize = 4;
const SETTLES_MAX: usize = 3;
/// Bodies that fit into the smallest frames.
const SIZES: &[usize] = &[0, 200];
/// Accepted in a transaction that is rolled back: it comes again, as failed.
const LOST: Settled = Settled::Back { has_failed: true, note: None, until_ms: 0 };

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

impl Amqp10World {
    /// Publishes in a transaction; the messages that are in it.
    fn publish_in(&mut self, (number, handle): (usize, u32), txn_id: &[u8]) -> Vec<(At, Sent)> {
        let mut published = Vec::new();
        for _ in 0..self.harness.random.below(PUBLISHES_MAX) {
            let id = self.n_messages + 1;
            let size = self.harness.random.choose(SIZES).unwrap_or(0);
            let payload = Content::numbered_body(id, size);
            let is_durable = self.harness.random.percent(75);
            let (sections, bare) = message(id, &payload, is_durable);
            let Some(client) = self.clients.get_mut(&number) else { break };
            let Some(link) = client.links.get(&handle) else { break };
            if !client.can_publish(handle, sections.len()) {
                break;
            }
            let (bare, at) = (Some(bare), (id, link.queue));
            let sent = Sent { payload, bare, is_durable, is_routed: true, answer: None };
            published.push((at, sent));
            self.n_messages = id;
            let state = Some(transactional(txn_id, None));
            client.transfer(
                &mut self.harness,
                Transfer { state, ..Transfer::on(handle) },
                &sections,
            );
        }
        published
    }

    /// Accepts some deliveries in a transaction.
    fn accept_in(&mut self, number: usize, txn_id: &[u8], settled: Settled) {
        for _ in 0..self.harness.random.below(SETTLES_MAX) {
            let Some(client) = self.clients.get_mut(&number) else { return };
            let Some(delivery_id) = self.harness.random.choose_key(&client.held) else { return };
            let Some((handle, id)) = client.held.remove(&delivery_id) else { return };
            if let Some(link) = client.links.get(&handle) {
                self.harness.note(format!("client {number}: m{id} of {} in it", link.queue));
                self.ledger.settle((id, link.queue), settled);
            }
            let state = transactional(txn_id, Some(DeliveryOutcome::Accepted(Accepted {})));
            client.settle(&mut self.harness, (delivery_id, delivery_id), state, true);
        }
    }

    pub(super) fn transact(&mut self) {
        let is_wanted = |link: &super::FrameLink| {
            link.is_publisher() && !link.is_settled && link.queue != NOWHERE
        };
        let Some((number, handle)) = self.some_link(is_wanted) else { return };
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.begin_transaction(&mut self.harness);
        self.take_in();
        let Some(client) = self.clients.get_mut(&number) else { return };
        let txn_id = client.coordination.txn_id.clone();
        let Some(txn_id) = txn_id else {
            if !self.is_over() {
                fail("no transaction is declared");
            }
            return;
        };
        let published = self.publish_in((number, handle), &txn_id);
        let commits = self.harness.random.percent(70);
        let settled = if commits { Settled::Done } else { LOST };
        self.accept_in(number, &txn_id, settled);
        let ids: Vec<u64> = published.iter().map(|((id, _), _)| *id).collect();
        self.harness.note(format!("client {number}: transaction of {ids:?}, commits {commits}"));
        for (at, sent) in published.into_iter().filter(|_| commits) {
            self.ledger.publish(at, sent);
        }
        if let Some(client) = self.clients.get_mut(&number) {
            client.end_transaction(&mut self.harness, commits);
        }
        self.dry();
        let client = self.clients.get(&number);
        match client.and_then(|client| client.coordination.is_done) {
            Some(true) if commits => {
                ids.iter().for_each(|id| expect_ok(self.ledger.answer(*id, Answer::Accepted)));
            }
            Some(true) => {}
            Some(false) | None if self.is_over() => {}
            other => fail(format!("a transaction ends as {other:?}")),
        }
    }
}
