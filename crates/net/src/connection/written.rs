//! The broker's part in what is written to a client.

use super::Disconnect;
use super::writer::{Flushed, Writer};
use broker::Session;
use session::{Error, LinkId, Settle};

/// Batches written in one turn, however fast the peer reads: after that it is listened to again.
const N_BATCHES_MAX: usize = 16;

/// News for the broker that come of bytes being written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Links that found room again.
    resume: Vec<LinkId>,
    /// Deliveries that were settled by being written.
    settles: Vec<Settle>,
    /// The refusal of something that the client cannot be sent.
    refused: Option<Box<Error>>,
    /// Whether other tasks are to have their turn before links are resumed.
    is_turn_over: bool,
}

impl Written {
    /// Writes what can be written without waiting.
    pub(super) fn flush(
        &mut self,
        writer: &Writer,
        session: &mut Option<Session>,
    ) -> Result<(), Disconnect> {
        for _ in 0..N_BATCHES_MAX {
            match writer.flush(N_BATCHES_MAX, &mut self.resume)? {
                Flushed::Done => return Ok(()),
                Flushed::TaskNeeded => {
                    self.is_turn_over =
                        session.as_ref().is_some_and(|session| !session.resume(&self.resume));
                    self.resume.clear();
                    self.settle(writer, session);
                    self.refused = self.refused.take().or_else(|| writer.take_refusal());
                    if self.is_turn_over {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether other tasks are to have their turn, which is asked once each time.
    pub(super) const fn gives_way(&mut self) -> bool {
        std::mem::replace(&mut self.is_turn_over, false)
    }

    /// Deliveries that nobody acknowledges were written: the broker hears of it.
    fn settle(&mut self, writer: &Writer, session: &mut Option<Session>) {
        while writer.outbox.take_settled(&mut self.settles) {
            match session {
                Some(session) => session.settle_written(&mut self.settles),
                None => self.settles.clear(),
            }
        }
        if let Some(session) = session {
            session.wake();
        }
    }

    /// The error with which the connection is to be failed.
    pub(super) const fn take_refused(&mut self) -> Option<Box<Error>> {
        self.refused.take()
    }

    /// Gives back memory: the connection has nothing to do.
    pub(super) fn trim(&mut self) {
        self.resume = Vec::new();
        self.settles = Vec::new();
    }
}
