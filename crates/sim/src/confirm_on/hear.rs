//! The events that clients of queues that confirm late are told, and the course of such a world.

use super::ledger::Copy;
use super::{ConfirmOn, Kind};
use crate::harness::{Harness, expect_ok, fail};
use crate::world::{Crowd, Link, World};
use broker::Session;
use session::{ChannelId, ErrorKind};
use testing::MemoryDisk;
use testing::outbox::{Given, What};

impl World for ConfirmOn {
    type Held = Copy;
    const WORK_MAX: usize = 120;
    const HAS_CHANNELS: bool = true;

    fn harness(&self) -> &Harness {
        &self.harness
    }

    fn parts(&mut self) -> (&mut Harness, &mut Crowd<Copy>) {
        (&mut self.harness, &mut self.crowd)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn shown_specs(&self) -> Vec<String> {
        self.ledger.specs.values().map(|spec| format!("{spec:?}")).collect()
    }

    fn begin(&mut self, _is_first: bool) {
        self.connect();
        self.declare_missing();
        self.bind_all();
        if self.kind == Kind::Timeouts && !self.harness.has_failed() {
            self.set_timeout();
        }
        self.ledger.life.ever_missing.clear();
        self.dry();
    }

    fn act(&mut self) {
        self.do_something();
        self.check();
    }

    fn end(&mut self) -> bool {
        self.drain()
    }

    fn end_life(&mut self) {
        (self.has_alarm, self.is_disk_short) = (false, false);
        (self.saying, self.failing) = (None, None);
    }

    fn compare(&mut self, is_clean: bool, copy: &MemoryDisk) {
        let found = self.peek(copy);
        let shown = found.keys().map(|copy| format!("m{}@{}", copy.id, copy.queue));
        let line = format!("there is {}", crate::trace::join(shown));
        self.harness.note(line);
        expect_ok(self.ledger.restart(is_clean, &found));
    }

    fn some_peer(&mut self) -> Option<usize> {
        let peers = self.crowd.peers.iter().filter(|(_, peer)| peer.kept.is_none());
        let peers: Vec<usize> = peers.map(|(number, _)| *number).collect();
        self.harness.random.choose(&peers)
    }

    fn some_channel(&mut self) -> Option<(usize, u16)> {
        let peer = self.some_peer()?;
        let channels = &self.crowd.peers.get(&peer)?.channels;
        Some((peer, self.harness.random.choose_key(channels)?))
    }

    /// Notes the confirm mode of each queue.
    fn note_state(&mut self) {
        for name in self.names() {
            let is_late =
                self.harness.queue(name).map(|queue| queue.confirm_on().waits_for_consumers());
            let life = &mut self.ledger.life;
            match is_late {
                None => drop(life.ever_missing.insert(name)),
                Some(true) => drop(life.ever_late.insert(name)),
                Some(false) => drop(life.ever_plain.insert(name)),
            }
        }
    }

    fn check_heard(&mut self, heard: &[(usize, What)]) {
        let Some(saying) = self.saying.take() else { return };
        let is_refused = heard.iter().any(|(peer, what)| {
            let is_it = |channel: u16| (*peer, channel) == (saying.peer, saying.channel);
            matches!(what, What::ChannelFailed { channel, .. } if is_it(*channel))
        });
        self.take_saying(saying, is_refused);
    }

    fn take_cancelled(&mut self, peer: usize, tag: &str, _is_by_client: bool) {
        let mut links = self.peer(peer).links.values_mut();
        if let Some(link) = links.find(|link| link.is_consumer && link.tag == tag) {
            link.is_consumer = false;
        }
    }

    fn take_failure(&mut self, peer: usize, channel: u16, kind: ErrorKind, text: &str) {
        if self.failing.take() != Some((peer, channel, kind)) {
            self.refuse(text);
        }
        self.end_channel(peer, channel);
    }

    fn end_channel(&mut self, peer: usize, channel: u16) {
        let peer = self.peer(peer);
        peer.channels.remove(&channel);
        peer.links.retain(|_, link| link.channel != channel);
    }

    fn after_leaving(&mut self) {
        self.dry();
    }

    fn after_request(session: &mut Session) {
        session.wake();
    }

    fn check_answered(&mut self) {
        if let Some((_, channel, kind)) = self.failing.take() {
            fail(format!("channel {channel} should have failed, {kind:?}"));
        }
    }

    fn disconnect(&mut self, peer: usize) {
        self.harness.note(format!("client {peer} is lost"));
        let channels: Vec<u16> = self.peer(peer).channels.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.release(peer, channel));
        drop(self.remove_peer(peer));
    }

    fn take_confirm(&mut self, peer: usize, channel: u16, number: u64, ack: bool) {
        let channel = self.peer(peer).channels.get_mut(&channel);
        let Some(id) = channel.and_then(|channel| channel.unconfirmed.remove(&number)) else {
            fail(format!("{number} is answered twice, or was not asked"));
        };
        expect_ok(self.ledger.check_answer(id, ack));
        if let Some(sent) = self.ledger.sent.get_mut(&id) {
            sent.answer = Some(ack);
        }
        self.check_nobody_holds(id, ack);
    }

    /// Checks the invariants of a node that has nothing left to do by itself.
    fn check_dry(&mut self) {
        if self.harness.has_failed() {
            return;
        }
        let channels = self.crowd.peers.values().flat_map(|peer| peer.channels.values());
        let waiting: Vec<u64> =
            channels.flat_map(|channel| channel.unconfirmed.values().copied()).collect();
        let overdue = waiting.iter().find(|id| self.ledger.must_be_answered(**id));
        if let Some(id) = overdue.filter(|_| !self.is_disk_short) {
            fail(format!("m{id} is not answered"));
        }
        let queues = self.queues().into_iter().filter_map(|name| self.harness.queue(name));
        let n_pending: u64 = queues.map(|queue| queue.pending_confirms().n).sum();
        if n_pending < waiting.len() as u64 {
            fail(format!("{} wait, and {n_pending} in queues", waiting.len()));
        }
        for peer in self.crowd.peers.values() {
            let Some(session) = &peer.session else { continue };
            for (number, channel) in &peer.channels {
                let (n, wanted) = (
                    session.connection().n_unconfirmed(ChannelId(*number)),
                    channel.unconfirmed.len() as u64,
                );
                if n != wanted {
                    fail(format!("{wanted} publishes wait, listed are {n}"));
                }
            }
        }
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(Link { queue, channel, is_consumer, no_ack, prefetch, .. }) =
            self.peer(peer).links.get(&given.link)
        else {
            fail("a delivery on an unknown link")
        };
        let (queue, channel, no_ack) = (*queue, *channel, *no_ack);
        let prefetch = Some(*prefetch).filter(|limit| *is_consumer && !no_ack && *limit > 0);
        let copy = expect_ok(self.ledger.copy_of(queue, given));
        if !self.harness.has_failed() {
            expect_ok(self.ledger.check_given(copy, given));
            self.check_free(copy);
            self.check_by_write(queue, given, no_ack);
        }
        self.ledger.life.delivered.insert(copy);
        let is_closing = self.peer(peer).channels.get(&channel).is_none_or(|it| it.is_closing);
        let state = self.peer(peer);
        match (no_ack, given.by_write) {
            (true, false) => drop(self.ledger.life.accepted.insert(copy)),
            _ if is_closing => {}
            (true, true) => state.unwritten.push((given.link, given.position, copy)),
            (false, _) => {
                state.held.insert((given.link, given.position), copy);
                let of_link = state.held.keys().filter(|(link, _)| *link == given.link).count();
                if prefetch.is_some_and(|limit| of_link > limit) {
                    fail(format!("link {} holds {of_link}, over its limit", given.link));
                }
            }
        }
    }
}
