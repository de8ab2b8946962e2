//! The events that clients are told, held against the ledgers.

use super::quorum::Copy;
use super::{ALLOWANCE_BYTES_MAX, Asking, Link, LogQueues, Peer};
use crate::harness::{expect_ok, fail};
use crate::seen::Seen;
use session::Outcome;
use testing::outbox::{Given, What};

impl LogQueues {
    /// Takes in what clients were told since the last time.
    pub(super) fn take_in(&mut self) {
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        for (peer, what) in heard {
            self.harness.note(format!("  {peer}: {what}"));
            if self.peers.contains_key(&peer) {
                self.hear(peer, what);
            }
        }
    }

    fn peer(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(&peer).expect("the client is connected")
    }

    fn hear(&mut self, peer: usize, what: What) {
        let is_over = self.is_over();
        match what {
            What::Deliver { given, .. } => self.take_given(peer, &given),
            What::Got { given, .. } => {
                let Some(Asking::Get(link)) = self.asking.take() else { fail("got nothing asked") };
                let no_ack = link.no_ack;
                self.peer(peer).links.entry(given.link).or_insert(link).no_ack = no_ack;
                self.take_given(peer, &given);
            }
            What::GetEmpty => drop(self.asking.take()),
            What::Consuming { link: number, .. } => {
                let Some(Asking::Consume(link)) = self.asking.take() else {
                    fail("consuming without asking")
                };
                self.peer(peer).links.insert(number, link);
            }
            What::Cancelled { tag, .. } => self.end_consumer(peer, &tag),
            What::ConsumerCancelled { tag, .. } => {
                let mut links = self.peer(peer).links.values();
                let queue = links.find(|link| link.tag == tag).map(|link| link.queue);
                if !is_over && queue.is_some_and(|queue| self.is_there(queue)) {
                    fail(format!("{tag} is lost"));
                }
                self.end_consumer(peer, &tag);
            }
            What::Confirm { first, last, answer, .. } => {
                (first..=last).for_each(|number| self.take_confirm(peer, number, answer.is_ack()));
            }
            What::ChannelFailed { text, .. } | What::ConnectionFailed { text, .. } if !is_over => {
                fail(format!("a client is refused: {text}"));
            }
            What::Done
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::Returned(..)
            | What::ChannelOpened
            | What::ChannelClosed(_)
            | What::ChannelFailed { .. }
            | What::ConnectionClosed
            | What::ConnectionFailed { .. }
            | What::Blocked(_)
            | What::Unblocked
            | What::Flowed { .. }
            | What::Link(_)
            | What::Stream(_) => {}
        }
    }

    fn end_consumer(&mut self, peer: usize, tag: &str) {
        let mut links = self.peer(peer).links.values_mut();
        if let Some(link) = links.find(|link| link.is_consumer && link.tag == tag) {
            link.is_consumer = false;
            let queue = link.queue;
            self.use_queue(queue);
        }
    }

    fn take_confirm(&mut self, peer: usize, number: u64, ack: bool) {
        let Some(id) = self.peer(peer).unconfirmed.remove(&number) else {
            fail(format!("{number} is confirmed twice, or was never published"));
        };
        if !self.quorum.sent.contains_key(&id) {
            let is_there = self.streams.stream_of(id).is_some_and(|it| self.declared.contains(it));
            return self.streams.confirm(id, is_there);
        }
        let answered = self.quorum.answer(id, ack);
        // What a failed disk leaves undone is not looked at.
        if !self.is_over() {
            expect_ok(answered);
        }
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(link) = self.peer(peer).links.get(&given.link) else { fail("an unknown link") };
        let (queue, no_ack, is_consumer) = (link.queue, link.no_ack, link.is_consumer);
        if self.streams.retention(queue).is_some() {
            let id = expect_ok(self.streams.take_given(queue, (peer, given.link), given));
            let copy = Copy { id, queue, n_deaths: 0 };
            self.peer(peer).held.insert((given.link, given.position), copy);
            return;
        }
        let is_prompt = !is_consumer || self.is_prompt(peer);
        let (copy, seen) = match self.quorum.take_given(queue, given, is_prompt) {
            Ok(given) => given,
            Err(_) if self.is_over() => return,
            Err(violation) => fail(violation),
        };
        if !self.is_over() {
            self.check_free(copy);
            if is_consumer {
                self.check_turn(peer, given.link, &seen);
            }
        }
        if no_ack {
            return self.quorum.settle(copy, Outcome::Accepted);
        }
        let state = self.peer(peer);
        if state.session.is_none() {
            // It is leaving.
            return self.quorum.come_back(copy, true);
        }
        state.held.insert((given.link, given.position), copy);
        let n_held = state.held.keys().filter(|(link, _)| *link == given.link).count();
        let prefetch = state.links.get(&given.link).map_or(0, |link| link.prefetch);
        if is_consumer && prefetch > 0 && n_held > prefetch && !self.is_over() {
            fail(format!("link {} holds {n_held}, over its limit", given.link));
        }
    }

    /// Whether a client is given everything as soon as it is assigned: nothing was ever on disk only.
    fn is_prompt(&self, peer: usize) -> bool {
        let has_room = self.peers.get(&peer).is_some_and(|peer| peer.has_room);
        let is_in_memory = self.harness.options.allowance_bytes == ALLOWANCE_BYTES_MAX;
        has_room && is_in_memory && self.quorum.past.n_starts == 0
    }

    /// Checks that no other client holds the message.
    fn check_free(&self, copy: Copy) {
        let is_one = copy.n_deaths == 0 || !self.quorum.is_loose(copy);
        let mut held = self.peers.values().flat_map(|peer| peer.held.values());
        if is_one && held.any(|held| *held == copy) {
            fail(format!("m{} of {} is given twice", copy.id, copy.queue));
        }
    }

    /// Checks that a consumer gets messages in order, and, of those of which one is active, only that one.
    fn check_turn(&mut self, peer: usize, number: u64, seen: &Seen) {
        let is_prompt = self.is_prompt(peer);
        let sent = self.quorum.sent.get(&seen.id).filter(|sent| sent.n_attempts == 1);
        let priority = sent.filter(|_| !seen.redelivered && seen.deaths.is_empty());
        let priority = priority.map(|sent| sent.priority);
        let rank = |link: &Link| (std::cmp::Reverse(link.priority), link.number);
        let links = self.peers.values().filter(|peer| peer.session.is_some());
        let links = links.flat_map(|peer| peer.links.values()).filter(|link| link.is_consumer);
        let Some(link) = self.peers.get(&peer).and_then(|peer| peer.links.get(&number)) else {
            return;
        };
        let first = links.filter(|other| other.queue == link.queue).map(rank).min();
        let is_single = self.quorum.rules(link.queue).is_single_active;
        if is_single && is_prompt && first.is_some_and(|first| first < rank(link)) {
            fail(format!("link {number} gets m{} and is not active", seen.id));
        }
        let Some(priority) = priority else { return };
        let Some(link) = self.peer(peer).links.get_mut(&number) else { return };
        let before = link.newest.insert(priority, seen.id).unwrap_or(0);
        if before > seen.id {
            fail(format!("m{} comes behind m{before}", seen.id));
        }
    }
}
