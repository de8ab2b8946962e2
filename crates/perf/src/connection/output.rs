//! The writing half of a turn: which bytes come next, and one write of them.

use std::io::{self, Write as _};

use amqp091::frame::HEARTBEAT;

use super::{Connection, Phase, Role, Scene, Turn, lost};
use crate::publisher::{Publisher, Staged};

impl Connection {
    /// Makes bytes ready and writes once.
    pub(super) fn write(&mut self, scene: &mut Scene<'_>) -> anyhow::Result<Turn> {
        let now = scene.moment.now;
        if self.heartbeat_ns > 0 && now >= self.wrote_at + self.heartbeat_ns {
            self.output.extend_from_slice(&HEARTBEAT);
            self.wrote_at = now;
        }
        let next = self.stage(scene);
        if !self.ready.is_writable || self.pending().is_empty() {
            return Ok(next);
        }
        match (&self.socket).write(self.pending()) {
            Ok(n) => {
                self.ready.is_writable = n == self.pending().len();
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

    /// What to write next. A batch that was begun is finished first: its messages must not be torn
    /// apart by other frames.
    fn pending(&self) -> &[u8] {
        if let Role::Publishing(publishers) = &self.role
            && let Some(publisher) = publishers.get(self.publisher_at)
            && !publisher.pending().is_empty()
        {
            return publisher.pending();
        }
        self.output.get(self.output_at..).unwrap_or_default()
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
    fn stage(&mut self, scene: &mut Scene<'_>) -> Turn {
        if !self.pending().is_empty() || scene.phase != Phase::Run || !self.ready.is_writable {
            return Turn::Idle;
        }
        let Role::Publishing(publishers) = &mut self.role else { return Turn::Idle };
        let mut due = u64::MAX;
        for _ in 0..publishers.len() {
            self.publisher_at = (self.publisher_at + 1) % publishers.len();
            let Some(publisher) = publishers.get_mut(self.publisher_at) else { break };
            let before = publisher.sent();
            match publisher.stage(scene.moment, scene.sample) {
                Staged::Bytes => {
                    if let Some(ledger) = scene.ledger.filter(|_| scene.owes_unconfirmed) {
                        (before..publisher.sent()).for_each(|n| ledger.confirmed(publisher.id, n));
                    }
                    return Turn::Again;
                }
                Staged::NotBefore(elapsed) => due = due.min(elapsed),
                Staged::Full | Staged::Done => {}
            }
        }
        if due == u64::MAX { Turn::Idle } else { Turn::At(scene.moment.start + due) }
    }
}
