//! The writing half of a turn: which bytes come next, and one write of them.

use std::io;

use amqp091::frame::HEARTBEAT;

use super::{Connection, Phase, Role, Turn, TurnContext, lost};
use crate::publisher::{Publisher, Staged};
use client::Sent;

impl Connection {
    /// Makes bytes ready and writes once.
    pub(super) fn write(&mut self, context: &mut TurnContext<'_>) -> anyhow::Result<Turn> {
        let now = context.time.now;
        if self.heartbeat_ns > 0 && now >= self.wrote_at + self.heartbeat_ns {
            self.output.extend_from_slice(&HEARTBEAT);
            self.wrote_at = now;
        }
        let next = self.stage(context);
        let has_bytes = !self.pending().is_empty() || self.transport.owes_bytes();
        if !self.ready.is_writable || !has_bytes {
            return Ok(next);
        }
        match self.send() {
            Ok(Sent { n, is_blocked }) => {
                self.ready.is_writable = !is_blocked;
                self.written(n);
                self.wrote_at = now;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.ready.is_writable = false;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if self.is_closing => self.is_closed = true,
            Err(error) => return Err(lost(&error)),
        }
        if !self.ready.is_writable {
            if let Role::Publishing(publishers) = &mut self.role {
                publishers.iter_mut().for_each(Publisher::hold);
            }
            return Ok(Turn::Idle);
        }
        Ok(Turn::Again)
    }

    fn send(&mut self) -> io::Result<Sent> {
        let Self { transport, role, publisher_at, output, output_at, .. } = self;
        transport.send(pending(role, *publisher_at, output.get(*output_at..).unwrap_or_default()))
    }

    fn pending(&self) -> &[u8] {
        let methods = self.output.get(self.output_at..).unwrap_or_default();
        pending(&self.role, self.publisher_at, methods)
    }

    fn written(&mut self, n: usize) {
        if let Role::Publishing(publishers) = &mut self.role
            && let Some(publisher) = publishers.get_mut(self.publisher_at)
            && !publisher.pending().is_empty()
        {
            return publisher.written(n);
        }
        self.output_at += n;
        if self.output_at == self.output.len() {
            self.output.clear();
            self.output_at = 0;
        }
    }

    /// Lets the next publisher that may publish fill its batch, if nothing is left to write.
    fn stage(&mut self, context: &mut TurnContext<'_>) -> Turn {
        if !self.pending().is_empty() || context.phase != Phase::Run || !self.ready.is_writable {
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
        if due == u64::MAX { Turn::Idle } else { Turn::At(context.time.start + due) }
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
