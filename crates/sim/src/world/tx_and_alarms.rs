//! Transactions, each in one go, and alarms, during which publishes wait; only some runs have them.

use super::World;
use super::peers::Published;
use crate::client::Read;
use crate::harness::FIRST;
use broker::Alarm;
use session::Op;
use std::collections::BTreeMap;
use testing::run::fail;

/// The share of transactions that are rolled back.
const ROLLED_BACK_PERCENT: usize = 25;

impl World {
    pub(super) fn is_transactional(&self, (peer, channel): (usize, u16)) -> bool {
        let channel = self.peers.get(&peer).and_then(|peer| peer.channels.get(&channel));
        channel.is_some_and(|channel| channel.is_transactional)
    }

    /// Whether a transaction is rolled back.
    pub(super) fn changes_its_mind(&mut self, at: (usize, u16)) -> bool {
        self.is_transactional(at) && self.harness.random.percent(ROLLED_BACK_PERCENT)
    }

    /// Ends publishing on a channel: a transaction's messages go into queues now, or nowhere. Whether it is
    /// rolled back.
    pub(super) fn end_publishing(&mut self, at: (usize, u16), published: &[Published]) -> bool {
        let is_rolled_back = self.changes_its_mind(at);
        if is_rolled_back {
            self.forget_routes(published);
            self.control(at.0, at.1, Op::RollBack);
            return true;
        }
        self.control(at.0, at.1, Op::Commit);
        if self.is_over() {
            return false;
        }
        for (id, _) in published {
            if let Some(sent) = self.ledger.sent.get_mut(id) {
                sent.is_committed = true;
            }
        }
        false
    }

    /// Notes that these publishes are in no queue.
    fn forget_routes(&mut self, published: &[Published]) {
        published.iter().for_each(|(id, _)| self.ledger.reroute(*id, BTreeMap::new()));
    }

    /// Publishes during an alarm: nothing of it happens before it is over.
    pub(super) fn publish_later(
        &mut self,
        (peer, channel): (usize, u16),
        published: Vec<Published>,
        read: Read,
    ) {
        self.forget_routes(&published);
        self.streams.are_reordered = true;
        if self.is_transactional((peer, channel)) {
            return;
        }
        self.submit(peer, read);
        let session = self.peer(peer).session.as_ref();
        if session.is_none_or(|session| session.hold() == broker::Hold::None) && !self.is_over() {
            fail("a client publishes during an alarm");
        }
        self.peer(peer).kept = Some((channel, published));
    }

    /// An alarm comes, or goes, and what it held is published.
    pub(super) fn set_alarm(&mut self, is_on: bool) {
        // Under the one of the disk dead letters and pages wait as well.
        let is_disk = self.harness.random.percent(50);
        let Some(node) = &self.harness.host(FIRST).node else { return };
        node.broker.set_alarm(Alarm::Disk, is_on && is_disk);
        node.broker.set_alarm(Alarm::Memory, is_on && !is_disk);
        (self.has_alarm, self.is_disk_short) = (is_on, is_on && is_disk);
        self.harness.note(format!("alarm {is_on}"));
        self.take_in();
        self.check_windows();
        let held: Vec<usize> = self.peers.keys().copied().collect();
        for peer in held.into_iter().filter(|_| !is_on) {
            if !self.is_over() {
                self.release_held(peer);
            }
        }
    }

    fn release_held(&mut self, peer: usize) {
        let Some((channel, published)) = self.peer(peer).kept.take() else { return };
        for (id, one) in published {
            let expiration_ms = self.ledger.sent.get(&id).and_then(|sent| sent.expiration_ms);
            let to = self.route(one, expiration_ms);
            self.ledger.reroute(id, to);
            self.peer(peer).number(channel, id);
        }
        self.harness.note(format!("client {peer} goes on"));
        let session = self.peers.get_mut(&peer).and_then(|state| state.session.as_mut());
        let Some(session) = session else { return };
        let said = self.harness.go_on(session);
        session.wake();
        self.check_said(said);
    }
}
