//! The broker's side of a connection of AMQP 1.0 as its task serves it: frames in, frames out, whatever the
//! sizes of reads.

use crate::client::poll_on;
use crate::harness::{FIRST, Harness};
use crate::node::open_session;
use broker::Session;
use edge::{Step, TaskOutbox as _, WriteBatch};
use front_amqp10::{ClientConnection, ClientOutbox, ConnectionSettings};
use session::{Outbox, ProtocolKind, ReadInput, Settle};
use std::io::IoSlice;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use stdx::Now;
use testing::run::fail;

/// Slices of output that are taken at a time.
const SLICES: usize = 8;

/// A connection's front and session.
pub(super) struct Wire {
    front: ClientConnection,
    outbox: Arc<ClientOutbox>,
    session: Option<Session>,
    batch: WriteBatch,
    input: Vec<u8>,
    /// Bytes that come in one read.
    read_bytes: usize,
    now: Now,
}

impl Wire {
    /// A connection that has just come, whose reads bring so many bytes.
    pub(super) fn new(now: Now, read_bytes: usize) -> Self {
        let front = ClientConnection::new(Arc::new(ConnectionSettings::default()), None, now);
        let (outbox, session) = (front.outbox(), None);
        let (batch, input) = (WriteBatch::default(), Vec::new());
        Self { front, outbox, session, batch, input, read_bytes, now }
    }

    /// The client sends bytes, and the broker works off what is whole; false if it ends the session for that.
    pub(super) fn send(&mut self, harness: &mut Harness, bytes: &[u8]) -> bool {
        bytes.chunks(self.read_bytes).all(|part| {
            self.input.extend_from_slice(part);
            self.work_off(harness)
        })
    }

    fn work_off(&mut self, harness: &mut Harness) -> bool {
        loop {
            let mut requests = Vec::new();
            let progress = self.front.read(self.now, &self.input, &mut requests);
            let read = ReadInput { bytes: &self.input, scratch: self.front.scratch() };
            if let Some(session) = &mut self.session {
                let said = harness.block_on(session.submit(&read, &mut requests));
                session.wake();
                match said {
                    Some(Ok(())) => {}
                    Some(Err(_)) => return false,
                    None if harness.host(FIRST).has_failed() => return false,
                    None => fail("a client waits for ever"),
                }
            }
            self.input.drain(..progress.consumed);
            match progress.step {
                Step::Authenticate(_) => self.front.authenticated(self.now, Ok(())),
                Step::Open { .. } => {
                    let outbox: Arc<dyn Outbox> = Arc::<ClientOutbox>::clone(&self.outbox);
                    let broker = &harness.host(FIRST).running().broker;
                    self.session = open_session(broker, outbox, ProtocolKind::Amqp10).ok();
                    self.front.opened(self.now, Ok(()));
                }
                Step::Again => {}
                Step::More => return true,
                Step::Close | Step::SpeaksOther => return false,
            }
        }
    }

    /// The client takes what it is sent, appended to `output`; links that found no room go on.
    pub(super) fn receive(&mut self, harness: &mut Harness, output: &mut Vec<u8>) {
        if let Some(session) = &mut self.session {
            let connection = Arc::clone(session.connection());
            let mut kicked = pin!(connection.kicked());
            if let Poll::Ready(interrupt) = poll_on(kicked.as_mut()) {
                harness.block_on(session.obey(interrupt));
            }
        }
        // The front's own requests that follow from what it was told.
        self.work_off(harness);
        while self.outbox.try_take(&mut self.batch) {
            while !self.batch.is_written() {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let n_slices = self.batch.fill(&mut slices);
                let before = output.len();
                slices.iter().take(n_slices).for_each(|slice| output.extend_from_slice(slice));
                self.batch.advance(output.len() - before);
            }
            let (links, mut settles) = (std::mem::take(self.batch.resume()), Vec::<Settle>::new());
            self.outbox.wrote(&self.batch);
            self.outbox.take_settled(&mut settles);
            if let Some(session) = &mut self.session {
                session.resume(&links);
                session.settle_written(&mut settles);
                session.wake();
            }
            if self.batch.close_mode.is_some() {
                break;
            }
        }
    }

    /// The connection ends; false if it would take for ever.
    pub(super) fn end(mut self, harness: &mut Harness) -> bool {
        self.session.take().is_none_or(|session| harness.close(session))
    }
}
