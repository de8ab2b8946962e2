//! The events that clients are told, held against the ledgers.

use super::ledger::Copy;
use super::{ALLOWANCE_BYTES_MAX, Link, Saying, World};
use crate::harness::FIRST;
use crate::seen::Seen;
use session::{ErrorKind, Outcome};
use std::cmp::Reverse;
use testing::outbox::{Given, What};
use testing::run::{expect_ok, fail};

impl World {
    /// Takes in what clients were told since the last time.
    pub(super) fn take_in(&mut self) {
        self.note_modes();
        let heard = std::mem::take(&mut *stdx::lock(&self.harness.transcript));
        self.end_saying(&heard);
        for (peer, what) in heard {
            self.harness.note(format!("  {peer}: {what}"));
            if self.peers.contains_key(&peer) {
                self.hear(peer, what);
            }
        }
        self.take_in_frames();
    }

    /// A settlement is done, unless it was refused.
    fn end_saying(&mut self, heard: &[(usize, What)]) {
        let Some(Saying { peer, channel, copies, outcome }) = self.saying.take() else { return };
        let is_it = |of: usize, at: u16| (of, at) == (peer, channel);
        let is_refused = heard.iter().any(|(of, what)| {
            matches!(what, What::ChannelFailed { channel, .. } if is_it(*of, *channel))
        });
        let is_late = self.features.confirms_late;
        let always = |copy: &Copy| self.ledger.rules(copy.queue).always_records(is_late);
        if is_refused && !copies.iter().all(always) {
            self.failing = Some((peer, channel, ErrorKind::NotImplementedByMode));
            self.release(peer, channel);
            return copies.into_iter().for_each(|copy| self.come_back(copy, true));
        }
        copies.into_iter().for_each(|copy| self.end_copy(copy, outcome));
    }

    fn hear(&mut self, peer: usize, what: What) {
        match what {
            What::Deliver { given, .. } => self.take_given(peer, &given),
            What::Got { given, no_ack, .. } => {
                let link = self.take_asked(false);
                self.n_got += 1;
                self.peer(peer).links.entry(given.link).or_insert(link).no_ack = no_ack;
                self.take_given(peer, &given);
            }
            What::GetEmpty => drop(self.take_asked(false)),
            What::Consuming { link: number, tag, no_ack } => {
                let link = self.take_asked(true);
                if (&tag, no_ack) != (&link.tag, link.no_ack) {
                    fail("consuming as somebody else");
                }
                self.peer(peer).links.insert(number, link);
            }
            What::Cancelled { tag, .. } => self.end_consumer(peer, &tag),
            What::ConsumerCancelled { tag, .. } => {
                let mut links = self.peer(peer).links.values();
                let queue = links.find(|link| link.tag == tag).map(|link| link.queue);
                if !self.is_over() && queue.is_some_and(|queue| self.is_there(queue)) {
                    fail(format!("{tag} is lost"));
                }
                self.end_consumer(peer, &tag);
            }
            What::Confirm { channel, first, last, answer } => {
                let is_ack = answer.is_ack();
                (first..=last).for_each(|number| self.take_confirm(peer, channel, number, is_ack));
            }
            What::ChannelFailed { channel, kind, text } => {
                if self.failing.take() != Some((peer, channel, kind)) {
                    self.refuse(&text);
                }
                self.end_channel(peer, channel);
            }
            What::ConnectionFailed { text, .. } => self.refuse(&text),
            What::ChannelClosed(channel) => self.end_channel(peer, channel),
            What::Done
            | What::Declared { .. }
            | What::Purged(_)
            | What::Deleted(_)
            | What::Returned(..)
            | What::Flowed { .. }
            | What::TimedOut { .. }
            | What::Link(_)
            | What::Refused { .. }
            | What::Management(_)
            | What::ChannelOpened
            | What::ConnectionClosed
            | What::Blocked(_)
            | What::Unblocked
            | What::Stream(_) => {}
        }
    }

    /// The consumer, or else the gets, that a client has asked for.
    fn take_asked(&mut self, is_consumer: bool) -> Link {
        let asked = self.asking.take().filter(|link| link.is_consumer == is_consumer);
        asked.unwrap_or_else(|| fail("an answer to nothing asked"))
    }

    fn refuse(&self, text: &str) {
        if !self.is_over() {
            fail(format!("a client is refused: {text}"));
        }
    }

    fn end_channel(&mut self, peer: usize, channel: u16) {
        let peer = self.peer(peer);
        peer.channels.remove(&channel);
        peer.links.retain(|_, link| link.channel != channel);
    }

    fn end_consumer(&mut self, peer: usize, tag: &str) {
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
            fail(format!("{number} is answered twice, or was not asked"));
        };
        self.take_answer(id, ack);
    }

    /// The publish of a message is answered.
    pub(super) fn take_answer(&mut self, id: u64, ack: bool) {
        let Some(sent) = self.ledger.sent.get(&id) else {
            let is_there = self.streams.stream_of(id).is_some_and(|it| self.declared.contains(it));
            return self.streams.confirm(id, is_there);
        };
        let queues: Vec<&'static str> = sent.to.keys().copied().collect();
        let late = queues.into_iter().filter(|queue| sent.is_late_in(queue));
        let first = late.map(|queue| Copy { id, queue, n_deaths: 0 }).collect::<Vec<_>>();
        let checked = self.ledger.answer(id, ack);
        // What a failed disk leaves undone is not looked at.
        if !self.is_over() {
            expect_ok(checked);
            // Nobody has a message any more of which a consumer is done.
            first.into_iter().filter(|_| ack).for_each(|copy| self.check_free(copy));
        }
    }

    fn take_given(&mut self, peer: usize, given: &Given) {
        let Some(link) = self.peer(peer).links.get(&given.link) else {
            fail("a delivery on an unknown link")
        };
        let (queue, channel, is_consumer, no_ack, prefetch) =
            (link.queue, link.channel, link.is_consumer, link.no_ack, link.prefetch);
        let place = (given.link, given.position);
        if self.is_stream(queue) {
            let id = expect_ok(self.streams.take_given(queue, (peer, given.link), given));
            self.peer(peer).held.insert(place, Copy { id, queue, n_deaths: 0 });
            return;
        }
        let seen = expect_ok(Seen::of(given));
        let copy = Copy { id: seen.id, queue, n_deaths: seen.n_deaths() };
        let is_over = self.is_over();
        if !is_over {
            let is_timely = self.is_timely(peer, copy, is_consumer);
            expect_ok(self.ledger.check_given(copy, (given, &seen), is_timely));
            self.check_free(copy);
            self.check_by_write(queue, given, no_ack);
            if is_consumer {
                self.check_turn(peer, given.link, &seen);
            }
        } else if !self.ledger.rules(queue).is_quorum {
            // What a failed log leaves undone is not looked at.
            self.ledger.past.consumed.insert(copy.at());
        }
        self.ledger.note_given(copy);
        let state = self.peer(peer);
        let is_closing = state.session.is_none()
            || state.channels.get(&channel).is_none_or(|channel| channel.is_closing);
        if no_ack && !given.by_write {
            self.ledger.settle(copy, Outcome::Accepted);
        } else if is_closing {
            self.come_back(copy, true);
        } else if no_ack {
            state.unwritten.push((place, copy));
        } else {
            state.held.insert(place, copy);
            let n_held = state.held.keys().filter(|(link, _)| *link == given.link).count();
            if is_consumer && prefetch > 0 && n_held > prefetch && !is_over {
                fail(format!("link {} holds {n_held}, over its limit", given.link));
            }
        }
    }

    /// Whether a client is given a message at its time: all that the clock asks for is done.
    fn is_timely(&self, peer: usize, copy: Copy, is_consumer: bool) -> bool {
        let is_quorum = self.ledger.rules(copy.queue).is_quorum;
        if is_quorum { !is_consumer || self.is_prompt(peer) } else { self.is_dry }
    }

    /// Whether a client is given everything as soon as it is assigned: nothing was ever on disk only.
    fn is_prompt(&self, peer: usize) -> bool {
        let has_room = self.peers.get(&peer).is_some_and(|peer| peer.has_room);
        let is_in_memory = self.harness.host(FIRST).options.allowance_bytes == ALLOWANCE_BYTES_MAX;
        has_room && is_in_memory && self.ledger.past.n_starts == 0
    }

    /// Checks that no client holds the message.
    pub(super) fn check_free(&self, copy: Copy) {
        let is_moved = self.ledger.sent.get(&copy.id).is_some_and(|sent| sent.is_moved);
        let is_one = !is_moved && (copy.n_deaths == 0 || !self.ledger.is_loose(copy));
        if is_one && self.copies().any(|held| held == copy) {
            fail(format!("m{} of {} is given, and held", copy.id, copy.queue));
        }
    }

    /// Checks that a message is settled by being written where its confirm waits for that, and only there.
    fn check_by_write(&self, queue: &str, given: &Given, no_ack: bool) {
        let life = &self.ledger.life;
        let must = no_ack && !life.ever_plain.contains(queue);
        let may = no_ack && life.ever_late.contains(queue);
        let is_classic = !self.ledger.rules(queue).is_quorum;
        if is_classic && ((must && !given.by_write) || (given.by_write && !may)) {
            fail(format!("a message of {queue} is settled by its write: {}", given.by_write));
        }
    }

    /// Checks that a consumer gets messages in order, and, of those of which one is active, only that one.
    pub(super) fn check_turn(&mut self, peer: usize, number: u64, seen: &Seen) {
        let is_prompt = self.is_prompt(peer);
        let sent = self.ledger.sent.get(&seen.id).filter(|sent| sent.is_in_order);
        let sent = sent.filter(|_| !seen.redelivered && seen.deaths.is_empty());
        let priority = sent.map(|sent| sent.priority);
        let rank = |link: &Link| (Reverse(link.priority), link.number);
        // Those of a client that leaves go one after the other.
        let links = self.peers.values().filter(|peer| peer.session.is_some());
        let links = links.flat_map(|peer| peer.links.values());
        let links = links.chain(self.frame_links().map(|link| &link.link));
        let ranks: Vec<_> =
            links.filter(|link| link.is_consumer).map(|link| (link.queue, rank(link))).collect();
        let Some(link) = self.link_mut(peer, number) else { return };
        let (queue, own) = (link.queue, rank(link));
        let rules = self.ledger.rules(queue);
        let first = ranks.into_iter().filter(|(of, _)| *of == queue).map(|(_, rank)| rank).min();
        let is_sure = is_prompt || !rules.is_quorum;
        if rules.is_single_active && is_sure && first.is_some_and(|first| first < own) {
            fail(format!("link {number} gets m{} and is not active", seen.id));
        }
        let Some(priority) = priority else { return };
        let Some(link) = self.link_mut(peer, number) else { return };
        let before = link.newest.insert(rules.priority(priority), seen.id).unwrap_or(0);
        if before > seen.id {
            fail(format!("m{} comes behind m{before}", seen.id));
        }
    }
}
