//! Lives of a node whose queues confirm late, and what is there after each.

use super::ConfirmOn;
use super::ledger::Copy;
use crate::harness::{expect_ok, fail};
use crate::world::World;
use std::collections::BTreeMap;
use testing::MemoryDisk;

/// Rounds over all queues without a message after which there is none.
const EMPTY_ROUNDS: usize = 3;
/// Rounds over all queues after which nothing comes out any more.
const ROUNDS_MAX: usize = 100;

impl ConfirmOn {
    /// The queues' messages and their marks, read from a copy on which no time passes.
    pub(super) fn peek(&self, copy: &MemoryDisk) -> BTreeMap<Copy, bool> {
        let mut client = self.harness.look_into(copy);
        let mut found = BTreeMap::new();
        for queue in self.queues() {
            while let Some(given) = expect_ok(client.get(queue)) {
                let copy = expect_ok(self.ledger.copy_of(queue, &given));
                if found.insert(copy, given.redelivered).is_some() && !copy.is_letter {
                    fail(format!("m{} is twice in {queue}", copy.id));
                }
            }
        }
        found
    }

    /// Takes everything out and looks at what is left; false when the disk failed meanwhile.
    pub(super) fn drain(&mut self) -> bool {
        self.harness.note("drain");
        if self.has_alarm {
            self.set_alarm(false);
        }
        let mut n_empty = 0;
        for _ in 0..ROUNDS_MAX {
            if n_empty == EMPTY_ROUNDS || self.harness.has_failed() {
                break;
            }
            let before = self.crowd.n_got;
            self.take_all();
            self.dry();
            n_empty = if self.crowd.n_got > before { 0 } else { n_empty + 1 };
        }
        if self.harness.has_failed() {
            return false;
        }
        self.check();
        if let Some(id) = self.crowd.peers.values().find_map(|peer| peer.unconfirmed().next()) {
            fail(format!("m{id} has no answer at the end"));
        }
        if let Some(Copy { id, queue, .. }) = self.ledger.left() {
            fail(format!("m{id} has not come out of {queue}"));
        }
        if !self.leave_all() {
            return false;
        }
        self.harness.check_empty()
    }

    /// Clients acknowledge what they hold, and what is ready is taken.
    fn take_all(&mut self) {
        let peers: Vec<usize> = self.crowd.peers.keys().copied().collect();
        for peer in peers {
            self.cancel_all(peer);
            self.accept_all(peer);
            let n = self.peer(peer).unwritten.len();
            self.write_out(peer, n);
        }
        let Some(peer) = self.any_open() else { return };
        for queue in self.queues() {
            let Some(channel) = self.peer(peer).channels.keys().next().copied() else { return };
            self.get_all(peer, channel, queue);
        }
        let n = self.peer(peer).unwritten.len();
        self.write_out(peer, n);
    }

    /// A client with a channel.
    fn any_open(&mut self) -> Option<usize> {
        let has_channel = |at: &Self| {
            let mut peers = at.crowd.peers.iter();
            peers.find(|(_, peer)| !peer.channels.is_empty()).map(|(number, _)| *number)
        };
        if has_channel(self).is_none() {
            let peer = self.crowd.peers.keys().next().copied();
            peer.into_iter().for_each(|peer| self.disconnect(peer));
            self.connect();
        }
        has_channel(self)
    }
}
