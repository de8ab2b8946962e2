//! Transactions, each in one go, and alarms, during which publishes wait; only some worlds have them.

use super::ConfirmOn;
use crate::client::Read;
use crate::harness::fail;
use crate::world::{Published, World};
use broker::Alarm;
use session::Op;
use std::collections::{BTreeMap, BTreeSet};

/// The share of transactions that are rolled back.
const ROLLED_BACK_PERCENT: usize = 25;

impl ConfirmOn {
    pub(super) fn open_tx(&mut self, peer: usize, channel: u16) {
        self.control(peer, channel, Op::EnableTransactions);
        let state = self.peer(peer).channels.get_mut(&channel);
        state.into_iter().for_each(|channel| channel.is_transactional = true);
    }

    pub(super) fn is_transactional(&self, peer: usize, channel: u16) -> bool {
        let channel = self.crowd.peers.get(&peer).and_then(|peer| peer.channels.get(&channel));
        channel.is_some_and(|channel| channel.is_transactional)
    }

    /// Whether a transaction is rolled back.
    pub(super) fn changes_its_mind(&mut self, peer: usize, channel: u16) -> bool {
        self.is_transactional(peer, channel) && self.harness.random.percent(ROLLED_BACK_PERCENT)
    }

    /// Ends publishing on a channel: a transaction's messages go into queues now, or nowhere.
    pub(super) fn end_publishing(&mut self, peer: usize, channel: u16, published: &[Published]) {
        let is_rolled_back = self.changes_its_mind(peer, channel);
        if is_rolled_back {
            self.forget_routes(published);
            return self.control(peer, channel, Op::RollBack);
        }
        self.control(peer, channel, Op::Commit);
        if self.harness.has_failed() {
            return;
        }
        for (id, _) in published {
            if let Some(sent) = self.ledger.sent.get_mut(id) {
                sent.is_committed = true;
            }
        }
    }

    /// Notes that these publishes are in no queue.
    fn forget_routes(&mut self, published: &[Published]) {
        for (id, _) in published {
            if let Some(sent) = self.ledger.sent.get_mut(id) {
                (sent.queues, sent.refusable) = (BTreeMap::new(), BTreeSet::new());
            }
        }
    }

    /// Publishes during an alarm: nothing of it happens before it is over.
    pub(super) fn publish_later(
        &mut self,
        peer: usize,
        channel: u16,
        published: Vec<Published>,
        read: Read,
    ) {
        self.forget_routes(&published);
        if self.is_transactional(peer, channel) {
            return;
        }
        self.submit(peer, read);
        let session = self.peer(peer).session.as_ref();
        if session.is_none_or(|session| session.hold() == broker::Hold::None)
            && !self.harness.has_failed()
        {
            fail("a client publishes during an alarm");
        }
        self.peer(peer).kept = Some((channel, published));
    }

    /// An alarm comes, or goes, and what it held is published.
    pub(super) fn set_alarm(&mut self, is_on: bool) {
        // Under the one of the disk dead letters and pages wait as well.
        let is_disk = self.harness.random.percent(50);
        let Some(node) = &self.harness.node else { return };
        node.broker.set_alarm(Alarm::Disk, is_on && is_disk);
        node.broker.set_alarm(Alarm::Memory, is_on && !is_disk);
        self.has_alarm = is_on;
        self.is_disk_short = is_on && is_disk;
        self.harness.note(format!("alarm {is_on}"));
        self.check_events();
        let held: Vec<usize> = self.crowd.peers.keys().copied().collect();
        for peer in held.into_iter().filter(|_| !is_on) {
            if !self.harness.has_failed() {
                self.release_held(peer);
            }
        }
    }

    fn release_held(&mut self, peer: usize) {
        let Some((channel, published)) = self.peer(peer).kept.take() else { return };
        for (id, one) in published {
            let (queues, refusable) = self.route(one);
            if let Some(sent) = self.ledger.sent.get_mut(&id) {
                (sent.queues, sent.refusable) = (queues, refusable);
            }
            self.peer(peer).number(channel, id);
        }
        self.harness.note(format!("client {peer} goes on"));
        let session = self.crowd.peers.get_mut(&peer).and_then(|state| state.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.go_on(session);
        session.wake();
        self.check_events();
        if !self.harness.has_failed() {
            said.check();
        }
    }
}
