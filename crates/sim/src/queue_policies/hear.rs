//! The events that clients of queues with rules are told, and the course of such a world.

use super::QueuePolicies;
use super::ledger::At;
use super::spec::Spec;
use crate::harness::{Harness, expect_ok, fail};
use crate::seen::Seen;
use crate::world::{Crowd, Link, World};
use testing::MemoryDisk;
use testing::outbox::Given;

impl World for QueuePolicies {
    type Held = At;
    const WORK_MAX: usize = 100;
    const HAS_CHANNELS: bool = false;

    fn harness(&self) -> &Harness {
        &self.harness
    }

    fn parts(&mut self) -> (&mut Harness, &mut Crowd<At>) {
        (&mut self.harness, &mut self.crowd)
    }

    fn now_ms(&self) -> u64 {
        self.ledger.now_ms
    }

    fn shown_specs(&self) -> Vec<String> {
        self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect()
    }

    fn begin(&mut self, is_first: bool) {
        self.connect();
        self.declare_missing();
        if is_first {
            self.dry();
        }
    }

    fn act(&mut self) {
        self.do_something();
        self.check();
    }

    fn end(&mut self) -> bool {
        self.drain()
    }

    fn compare(&mut self, is_clean: bool, copy: &MemoryDisk) {
        self.compare_queues();
        self.compare_messages(is_clean, copy);
    }

    fn before_leaving(&mut self) {
        self.dry();
    }

    fn before_stopping(&mut self) {
        self.dry();
    }

    fn disconnect(&mut self, peer: usize) {
        self.harness.note(format!("client {peer} is lost"));
        let Some(state) = self.remove_peer(peer) else { return };
        for at in state.held.values() {
            self.ledger.note_failed(*at);
            self.returned_to.insert(at.1);
        }
        for link in state.links.values().filter(|link| link.is_consumer) {
            self.use_queue(link.queue);
        }
    }

    fn check_dry(&mut self) {
        self.is_dry = true;
        if self.harness.has_failed() {
            return;
        }
        if let Some(id) = self.crowd.peers.values().find_map(|peer| peer.unconfirmed().next()) {
            fail(format!("m{id} is not confirmed"));
        }
        for (queue, spec) in &self.ledger.specs {
            let is_used = self.crowd.n_consumers(queue) > 0;
            let Some(expires_ms) = spec.expires_ms.filter(|_| !is_used) else { continue };
            let used_ms = self.used_ms.get(queue).copied().unwrap_or(0);
            if self.is_there(queue) && self.ledger.now_ms >= used_ms + expires_ms {
                fail(format!("{queue} is unused and still there"));
            }
        }
    }

    fn count_link(&mut self, link: &mut Link) {
        self.crowd.n_links += 1;
        link.number = self.crowd.n_links;
    }

    fn take_cancelled(&mut self, peer: usize, tag: &str, is_by_client: bool) {
        if !is_by_client {
            fail(format!("{tag} is lost"));
        }
        let mut links = self.peer(peer).links.values_mut();
        if let Some(link) = links.find(|link| link.is_consumer && link.tag == tag) {
            link.is_consumer = false;
            let queue = link.queue;
            self.use_queue(queue);
        }
    }

    fn take_confirm(&mut self, peer: usize, channel: u16, number: u64, ack: bool) {
        let channel = self.peer(peer).channels.get_mut(&channel);
        let Some(id) = channel.and_then(|channel| channel.unconfirmed.remove(&number)) else {
            fail(format!("{number} is confirmed twice, or was never published"));
        };
        let Some(sent) = self.ledger.sent.get_mut(&id) else { return };
        sent.answer = Some(ack);
        let queue = sent.queue;
        let may_refuse = self.ledger.specs.get(queue).is_some_and(Spec::may_refuse);
        if !ack && !may_refuse {
            fail(format!("m{id} is refused by {queue}"));
        }
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(link) = self.peer(peer).links.get(&given.link) else {
            fail("a delivery on an unknown link")
        };
        let (queue, no_ack, is_consumer) = (link.queue, link.no_ack, link.is_consumer);
        let seen = expect_ok(Seen::of(given));
        if self.harness.has_failed() {
            // What a failed log leaves undone is not looked at.
            self.ledger.consumed.insert((seen.id, queue));
            return;
        }
        expect_ok(self.ledger.check_seen(queue, given, &seen));
        expect_ok(self.check_time(queue, &seen).and_then(|()| self.check_counts(queue, &seen)));
        if is_consumer {
            expect_ok(self.check_turn(peer, given.link, &seen));
        }
        self.delivered.insert((seen.id, queue, seen.n_deaths()));
        if no_ack {
            self.ledger.consumed.insert((seen.id, queue));
        } else {
            let peer = self.peer(peer);
            peer.held.insert((given.link, given.position), (seen.id, queue));
            let of_link = peer.held.keys().filter(|(link, _)| *link == given.link).count();
            if is_consumer && peer.prefetch > 0 && of_link > peer.prefetch {
                fail(format!("link {} holds {of_link}, over its limit", given.link));
            }
        }
    }
}
