//! Settlements: by clients, and by writing to consumers without acknowledgements.

use super::ledger::Copy;
use super::{ConfirmOn, Saying};
use crate::client::{Read, control, settle, short};
use crate::trace::join;
use crate::world::{Peer, World};
use session::{ErrorKind, Op, Outcome, Position, QueueDeclaration, Request, Settle, Table};

/// A delivery, by link and position, and which message it is.
type HeldCopy = ((u64, Position), Copy);

impl ConfirmOn {
    /// Some of the messages that a channel of the client holds, with the channel.
    fn some_held(&mut self) -> Option<(usize, u16, Vec<HeldCopy>)> {
        let (peer, channel) = self.some_channel()?;
        let percent = self.harness.random.choose(&[20, 60, 100]).unwrap_or(100);
        let Peer { links, held, .. } = self.crowd.peers.get(&peer)?;
        let is_of = |link: u64| links.get(&link).is_some_and(|link| link.channel == channel);
        let held = held.iter().filter(|((link, _), _)| is_of(*link));
        let held: Vec<_> = held.map(|(key, copy)| (*key, *copy)).collect();
        let some: Vec<_> =
            held.into_iter().filter(|_| self.harness.random.percent(percent)).collect();
        (!some.is_empty()).then_some((peer, channel, some))
    }

    pub(super) fn settle(&mut self) {
        let Some((peer, channel, mut held)) = self.some_held() else { return };
        let outcome = self.harness.some_outcome();
        if outcome != Outcome::Accepted {
            held.truncate(1 + self.harness.random.below(2));
        }
        // Where a queue may have no record of it, a refusal concerns all that is said at once.
        let may_fail = |(_, copy): &(_, Copy)| !self.ledger.always_records(copy.queue);
        if outcome != Outcome::Accepted && held.iter().any(may_fail) {
            held.truncate(1);
        }
        let is_rolled_back = self.changes_its_mind(peer, channel);
        self.settle_copies((peer, channel), held, outcome, is_rolled_back);
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
        let is_tx = self.is_transactional(peer, channel);
        let settle = |(key, _): &HeldCopy| Request::Settle(settle(channel, *key, outcome));
        let mut requests: Vec<Request> = held.iter().map(settle).collect();
        if is_tx {
            self.submit(peer, Read::of(std::mem::take(&mut requests)));
        }
        if is_rolled_back {
            return self.control(peer, channel, Op::RollBack);
        }
        let copies: Vec<Copy> = held.iter().map(|(_, copy)| *copy).collect();
        match outcome {
            Outcome::Accepted => self.ledger.life.accepted.extend(copies),
            Outcome::Rejected | Outcome::Modified | Outcome::Released => {
                self.saying = Some(Saying { peer, channel, copies, outcome });
            }
        }
        let state = self.peer(peer);
        for (key, _) in held {
            state.held.remove(&key);
            state.recorder.forget(key.0, key.1);
        }
        if is_tx {
            return self.control(peer, channel, Op::Commit);
        }
        self.submit(peer, Read::of(requests));
    }

    /// Writes some of the deliveries that are settled by being written.
    pub(super) fn write(&mut self) {
        let Some(peer) = self.some_peer() else { return };
        let n = self.peer(peer).unwritten.len();
        let n = if self.harness.random.percent(60) { n } else { self.harness.random.below(n + 1) };
        self.write_out(peer, n);
    }

    pub(super) fn write_out(&mut self, peer: usize, n: usize) {
        let state = self.peer(peer);
        let written: Vec<_> = state.unwritten.drain(..n).collect();
        if written.is_empty() {
            return;
        }
        let channel_of = |link| state.links.get(&link).map_or(0, |link| link.channel);
        let settle = |(link, position, _): &(u64, Position, Copy)| {
            settle(channel_of(*link), (*link, *position), Outcome::Accepted)
        };
        let mut settles: Vec<Settle> = written.iter().map(settle).collect();
        let copies: Vec<Copy> = written.iter().map(|(_, _, copy)| *copy).collect();
        if let Some(session) = &mut state.session {
            session.settle_written(&mut settles);
            session.wake();
        }
        let shown = join(copies.iter().map(|copy| format!("m{}@{}", copy.id, copy.queue)));
        self.harness.note(format!("client {peer} is written {shown}"));
        self.ledger.life.accepted.extend(copies);
        self.check_events();
    }

    pub(super) fn accept_all(&mut self, peer: usize) {
        let channels: Vec<u16> = self.peer(peer).channels.keys().copied().collect();
        for channel in channels {
            let Peer { links, held, .. } = self.peer(peer);
            let is_of = |link: u64| links.get(&link).is_some_and(|link| link.channel == channel);
            let held = held.iter().filter(|((link, _), _)| is_of(*link));
            let held: Vec<_> = held.map(|(key, copy)| (*key, *copy)).collect();
            self.settle_copies((peer, channel), held, Outcome::Accepted, false);
        }
    }

    pub(super) fn recover(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let state = self.peer(peer);
        let of_channel = state.links.iter().filter(|(_, link)| link.channel == channel);
        let links: Vec<u64> = of_channel.map(|(link, _)| *link).collect();
        state.held.retain(|(link, _), _| !links.contains(link));
        state.recorder.recover(&links);
        self.control(peer, channel, Op::ReleaseUnsettled);
        self.peer(peer).recorder.end_recovering();
    }

    /// A channel fails, and what is acknowledged behind that is not heard.
    pub(super) fn fail(&mut self) {
        let Some((peer, channel)) = self.some_channel() else { return };
        let held: Vec<(u64, Position)> = match self.some_held() {
            Some((of, at, held)) if (of, at) == (peer, channel) => {
                held.into_iter().map(|(key, _)| key).collect()
            }
            Some(_) | None => Vec::new(),
        };
        self.harness
            .note(format!("client {peer}, channel {channel} fails, and acknowledges {held:?}"));
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
        for key in held {
            self.peer(peer).recorder.forget(key.0, key.1);
            requests.push(Request::Settle(settle(channel, key, Outcome::Accepted)));
        }
        self.release(peer, channel);
        self.submit(peer, Read::of(requests));
    }
}
