//! The way back over the connection that frames came by.

use peer::{ConnectionNumber, LinkClass, PeerLink, SessionFrame};
use std::sync::Arc;
use std::task::Waker;

/// A connection of another node. Frames for a connection that has ended are dropped.
#[derive(Clone, Debug)]
pub(super) struct PeerConnection {
    link: Arc<PeerLink>,
    pub(super) number: ConnectionNumber,
}

impl PeerConnection {
    pub(super) const fn new(link: Arc<PeerLink>, number: ConnectionNumber) -> Self {
        Self { link, number }
    }

    /// Sends frames, in order; returns the waker of the connection's writer, to be called without a lock.
    /// All go in one class, so that nothing passes a delivery.
    #[must_use]
    pub(super) fn send(
        &self,
        frames: impl IntoIterator<Item = (SessionFrame, Vec<u8>)>,
    ) -> Option<Waker> {
        self.link.answer(self.number, |out| {
            for (frame, body) in frames {
                out.push(LinkClass::Ordinary, frame.kind(), |_| {}, &[body.into()]);
            }
        })
    }
}
