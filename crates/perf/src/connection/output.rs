//! The writing half of a turn: which bytes come next, and one write of them.

use amqp10::put_empty_frame;
use amqp091::frame::HEARTBEAT;

use super::{Connection, Phase, Role, Turn, TurnContext};
use crate::publisher::{Publisher, Staged};

impl Connection {
    /// Makes bytes ready and writes once.
    pub(super) fn write(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn> {
        let now = context.time.now;
        if self.socket.owes_heartbeat(now) {
            match self.session {
                None => self.output.bytes.extend_from_slice(&HEARTBEAT),
                Some(_) => put_empty_frame(&mut self.output.bytes),
            }
        }
        let next = self.stage(context);
        if !self.socket.is_writable() || !self.socket.has_bytes(self.pending()) {
            return Ok(next);
        }
        let Self { socket, role, publisher_at, output, .. } = self;
        let n = socket.send(pending(role, *publisher_at, output.pending()), now)?;
        self.written(n);
        if !self.socket.is_writable() {
            if let Role::Publishing(publishers) = &mut self.role {
                publishers.iter_mut().for_each(Publisher::hold);
            }
            return Ok(Turn::Idle);
        }
        Ok(Turn::Again)
    }

    fn pending(&self) -> &[u8] {
        pending(&self.role, self.publisher_at, self.output.pending())
    }

    fn written(&mut self, n: usize) {
        if let Role::Publishing(publishers) = &mut self.role
            && let Some(publisher) = publishers.get_mut(self.publisher_at)
            && !publisher.pending().is_empty()
        {
            return publisher.written(n);
        }
        self.output.written(n);
    }

    /// Lets the next publisher that may publish fill its batch, if nothing is left to write.
    fn stage(&mut self, context: &mut TurnContext<'_>) -> Turn {
        if !self.pending().is_empty() || context.phase != Phase::Run || !self.socket.is_writable() {
            return Turn::Idle;
        }
        let Role::Publishing(publishers) = &mut self.role else { return Turn::Idle };
        let mut due = u64::MAX;
        for _ in 0..publishers.len() {
            self.publisher_at = (self.publisher_at + 1) % publishers.len();
            let Some(publisher) = publishers.get_mut(self.publisher_at) else { break };
            let before = publisher.sent();
            match publisher.stage(context.time, context.sample) {
                Staged::Bytes => {
                    if let Some(ledger) = context.ledger.filter(|_| context.owes_unconfirmed) {
                        (before..publisher.sent()).for_each(|n| ledger.confirmed(publisher.id, n));
                    }
                    return Turn::Again;
                }
                Staged::NotBefore(elapsed) => due = due.min(elapsed),
                Staged::Full | Staged::Done => {}
            }
        }
        Turn::by(context.time.start.saturating_add(due))
    }
}

/// The bytes to write next. A batch that was begun is finished first: other frames must not come
/// between its messages.
fn pending<'a>(role: &'a Role, publisher_at: usize, methods: &'a [u8]) -> &'a [u8] {
    if let Role::Publishing(publishers) = role
        && let Some(publisher) = publishers.get(publisher_at)
        && !publisher.pending().is_empty()
    {
        return publisher.pending();
    }
    methods
}
