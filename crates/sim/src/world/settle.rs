//! Settlements: by clients, and by writing to consumers without acknowledgements.

use super::ledger::Copy;
use super::peers::{HeldCopy, Peer};
use super::{Saying, World};
use crate::client::{Read, control, settle, short};
use session::{ErrorKind, Op, Outcome, QueueDeclaration, Request, Settle, Table};
use testing::run::join;

impl World {
    /// Some of the messages that a channel of the client holds, with the channel.
    fn some_held(&mut self) -> Option<((usize, u16), Vec<HeldCopy>)> {
        let (peer, channel) = self.some_channel()?;
        let percent = self.harness.random.choose(&[20, 60, 100]).unwrap_or(100);
        let mut held = self.peer(peer).held_on(channel);
        held.retain(|_| self.harness.random.percent(percent));
        (!held.is_empty()).then_some(((peer, channel), held))
    }

    pub(super) fn settle(&mut self) {
        let Some((at, mut held)) = self.some_held() else { return };
        let outcome = self.harness.some_outcome();
        if self.features.confirms_late && outcome != Outcome::Accepted {
            held.truncate(1 + self.harness.random.below(2));
            // Where a queue may have no record of it, a refusal concerns all that is said at once.
            let records = |(_, copy): &HeldCopy| self.ledger.rules(copy.queue).always_records(true);
            if !held.iter().all(records) {
                held.truncate(1);
            }
        }
        let is_rolled_back = self.changes_its_mind(at);
        self.settle_copies(at, held, outcome, is_rolled_back);
    }

    /// A client says what becomes of what it holds.
    fn settle_copies(
        &mut self,
        (peer, channel): (usize, u16),
        held: Vec<HeldCopy>,
        outcome: Outcome,
        is_rolled_back: bool,
    ) {
        let shown = join(held.iter().map(|(_, copy)| format!("m{}@{}", copy.id, copy.queue)));
        self.harness.note(format!("client {peer}, channel {channel}: {outcome:?} {shown}"));
        let is_tx = self.is_transactional((peer, channel));
        let settle = |(key, _): &HeldCopy| Request::Settle(settle(channel, *key, outcome));
        let mut read = Read::of(held.iter().map(settle).collect());
        if is_tx {
            self.submit(peer, std::mem::take(&mut read));
        }
        if is_rolled_back {
            return self.control(peer, channel, Op::RollBack);
        }
        let state = self.peer(peer);
        for (key, _) in &held {
            state.held.remove(key);
            state.recorder.forget(key.0, key.1);
        }
        let copies = held.into_iter().map(|(_, copy)| copy);
        let copies: Vec<Copy> = copies.filter(|copy| !self.is_stream(copy.queue)).collect();
        copies.iter().for_each(|copy| self.use_by_hold(copy.queue));
        if outcome == Outcome::Accepted {
            copies.into_iter().for_each(|copy| self.ledger.settle(copy, outcome));
        } else {
            self.saying = Some(Saying { peer, channel, copies, outcome });
        }
        if is_tx {
            return self.control(peer, channel, Op::Commit);
        }
        self.submit(peer, read);
    }

    /// A client has settled a message.
    pub(super) fn end_copy(&mut self, copy: Copy, outcome: Outcome) {
        match outcome {
            Outcome::Accepted | Outcome::Rejected => self.ledger.settle(copy, outcome),
            Outcome::Modified => self.come_back(copy, true),
            Outcome::Released => self.come_back(copy, false),
        }
    }

    /// Writes some of the deliveries that are settled by being written.
    pub(super) fn write(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let n = self.peer(peer).unwritten.len();
        let n = if self.harness.random.percent(60) { n } else { self.harness.random.below(n + 1) };
        self.write_out(peer, n);
    }

    fn write_out(&mut self, peer: usize, n: usize) {
        let state = self.peer(peer);
        let written: Vec<HeldCopy> = state.unwritten.drain(..n).collect();
        if written.is_empty() {
            return;
        }
        let channel_of = |link| state.links.get(&link).map_or(0, |link| link.channel);
        let settle = |(place, _): &HeldCopy| settle(channel_of(place.0), *place, Outcome::Accepted);
        let mut settles: Vec<Settle> = written.iter().map(settle).collect();
        if let Some(session) = &mut state.session {
            session.settle_written(&mut settles);
            session.wake();
        }
        let shown = join(written.iter().map(|(_, copy)| format!("m{}@{}", copy.id, copy.queue)));
        self.harness.note(format!("client {peer} is written {shown}"));
        for (_, copy) in written {
            self.ledger.settle(copy, Outcome::Accepted);
        }
        self.take_in();
    }

    /// A client settles all it has, and gets nothing more.
    pub(super) fn accept_all(&mut self, peer: usize) {
        self.cancel_all(peer);
        let channels: Vec<u16> = self.peer(peer).channels.keys().copied().collect();
        for channel in channels {
            let held = self.peer(peer).held_on(channel);
            if !held.is_empty() {
                self.settle_copies((peer, channel), held, Outcome::Accepted, false);
            }
        }
        self.write_all(peer);
    }

    pub(super) fn write_all(&mut self, peer: usize) {
        let n = self.peer(peer).unwritten.len();
        self.write_out(peer, n);
    }

    pub(super) fn recover(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let state = self.peer(peer);
        let held = state.held_on(channel);
        let of_channel = state.links.iter().filter(|(_, link)| link.channel == channel);
        let links: Vec<u64> = of_channel.map(|(link, _)| *link).collect();
        state.recorder.recover(&links);
        for (key, copy) in held {
            self.peer(peer).held.remove(&key);
            self.come_back(copy, true);
        }
        self.control(peer, channel, Op::ReleaseUnsettled);
        self.peer(peer).recorder.end_recovering();
    }

    /// A channel fails, and what is acknowledged behind that is not heard.
    pub(super) fn fail(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let held = self.some_held().filter(|(at, _)| *at == (peer, channel));
        let held = held.map(|(_, held)| held).unwrap_or_default();
        self.harness.note(format!("client {peer}, channel {channel} fails, and acks {held:?}"));
        self.failing = Some((peer, channel, ErrorKind::NotFound));
        let declare = Op::DeclareQueue(QueueDeclaration {
            queue: short("none"),
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            arguments: Table::default(),
        });
        let mut requests = vec![control(channel, declare)];
        let Peer { recorder, .. } = self.peer(peer);
        for (key, _) in held {
            recorder.forget(key.0, key.1);
            requests.push(Request::Settle(settle(channel, key, Outcome::Accepted)));
        }
        self.release(peer, channel);
        self.submit(peer, Read::of(requests));
    }
}
