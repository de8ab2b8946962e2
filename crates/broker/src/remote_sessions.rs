//! Sessions of other nodes' clients at queues of this node.
//!
//! ```text
//! reader of a connection --(put, command, request)--> PeerSession --verbs of QueueRef, LinkRef--> queues
//! writer of its link <--(response, answers, deliver, event)-- PeerConnection <-- outboxes <-------+
//! ```
//! A connection between two nodes has one [`PeerSession`], which carries out the frames for each queue in
//! order: at once, or, while one must wait, in a task. Its links have an outbox each, with the credit in
//! bytes that the client's node gives. At the end of a connection its links are detached. Must never know
//! channels, permissions or protocols.

mod answers;
mod commands;
mod input;
mod links;
mod peer_connection;
mod peer_session;
mod put;
mod requests;

use crate::broker::Broker;
use bytes::Bytes;
use input::SessionInput;
use log::NodeNumber;
use peer::{ConnectionNumber, PeerLink, SessionFrame};
use peer_connection::PeerConnection;
use peer_session::PeerSession;
use remote::commands::SessionCommand;
use remote::requests::SessionRequest;
use remote::wire::PutFrame;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use stdx::lock;
use stdx::record::RecordError;

/// The sessions of other nodes, each of the newest connection that its node has had.
#[derive(Debug)]
pub struct RemoteSessions {
    broker: Arc<Broker>,
    sessions: Mutex<BTreeMap<NodeNumber, Arc<PeerSession>>>,
}

impl RemoteSessions {
    /// No sessions yet.
    #[must_use]
    pub const fn new(broker: Arc<Broker>) -> Self {
        Self { broker, sessions: Mutex::new(BTreeMap::new()) }
    }

    /// Carries out the frames that one read of a node's connection has brought, in order. Those of an older
    /// connection are passed over; the first of a newer one ends the older. Called in a runtime, where what
    /// must wait goes on.
    ///
    /// # Errors
    /// A body is not one of its kind, or more frames wait than may: the caller closes the connection.
    pub fn receive(
        &self,
        node: NodeNumber,
        number: ConnectionNumber,
        link: &Arc<PeerLink>,
        frames: impl IntoIterator<Item = (SessionFrame, Bytes)>,
    ) -> Result<(), RecordError> {
        let Some(session) = self.session(node, number, link) else { return Ok(()) };
        let mut begun = Vec::new();
        let read = frames.into_iter().try_for_each(|(frame, body)| {
            begun.extend(session.submit(input(frame, &body)?)?);
            Ok(())
        });
        begun.into_iter().for_each(|queue| session.begin(&self.broker, queue));
        read
    }

    /// The session of a connection; none if there has been a newer one.
    fn session(
        &self,
        node: NodeNumber,
        number: ConnectionNumber,
        link: &Arc<PeerLink>,
    ) -> Option<Arc<PeerSession>> {
        let mut sessions = lock(&self.sessions);
        let known = sessions.get(&node);
        if known.is_some_and(|known| known.number() > number) {
            return None;
        }
        let known = known.filter(|known| known.number() == number).map(Arc::clone);
        let mut older = None;
        let session = known.unwrap_or_else(|| {
            let session = PeerSession::new(PeerConnection::new(Arc::clone(link), number));
            older = sessions.insert(node, Arc::clone(&session));
            session
        });
        drop(sessions);
        if let Some(older) = older {
            older.end(&self.broker);
        }
        Some(session)
    }

    /// Undoes what a connection has left, which has ended: its links are detached, and their messages come
    /// back to their queues. Called in a runtime, as [`RemoteSessions::receive`] is.
    pub fn ended(&self, node: NodeNumber, number: ConnectionNumber) {
        let session = lock(&self.sessions).get(&node).map(Arc::clone);
        if let Some(session) = session.filter(|session| session.number() == number) {
            session.end(&self.broker);
        }
    }
}

/// Reads a frame.
fn input(frame: SessionFrame, body: &Bytes) -> Result<SessionInput, RecordError> {
    Ok(match frame {
        SessionFrame::Put => SessionInput::Put(numbered(PutFrame::decode(body)?)?),
        SessionFrame::Command => SessionInput::Command(SessionCommand::decode(body)?),
        SessionFrame::Request => {
            let (number, request) = SessionRequest::decode(body)?;
            SessionInput::Request(number, Box::new(request))
        }
        SessionFrame::Response
        | SessionFrame::Answers
        | SessionFrame::Deliver
        | SessionFrame::Event => return Err(RecordError::Invalid),
    })
}

/// The frame, if its messages have numbers that there are: the first is 1.
fn numbered(frame: PutFrame) -> Result<PutFrame, RecordError> {
    let is_numbered = (1..u64::MAX / 2).contains(&frame.first);
    is_numbered.then_some(frame).ok_or(RecordError::Invalid)
}
