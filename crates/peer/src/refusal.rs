//! Refusals: why a node has no connection with another, in words for the operators of both.

use crate::frame::put_frame;
use crate::kinds::FrameKind;
use stdx::record::{Reader, put_str, put_u8};

/// The bytes of a refusal's text at most.
const TEXT_BYTES_MAX: usize = 768;

stdx::named! {
    /// The reason of a refusal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PeerRefusalReason {
        /// A violation of the protocol, or a reason that newer versions have.
        Protocol = "protocol",
        /// The cookies differ.
        WrongCookie = "wrong_cookie",
        /// The nodes belong to different clusters.
        OtherCluster = "other_cluster",
        /// The nodes belong to different epochs of the cluster.
        OtherEpoch = "other_epoch",
        /// The node is no member.
        NotMember = "not_member",
        /// The node was a member and has been removed.
        Forgotten = "forgotten",
        /// The node has a member's name and has lost that member's data.
        Reset = "reset",
        /// Two nodes have one name.
        SameName = "same_name",
        /// The node has been started again since.
        OlderBoot = "older_boot",
        /// The nodes speak no common version.
        NoCommonVersion = "no_common_version",
        /// The nodes speak no common level.
        NoCommonLevel = "no_common_level",
        /// The node is another one than that which was dialled.
        OtherNode = "other_node",
        /// The node has connected to itself.
        ItSelf = "itself",
        /// The other side is to dial.
        WrongDialler = "wrong_dialler",
        /// The certificate is not for the node.
        WrongCertificate = "wrong_certificate",
    }
}

impl PeerRefusalReason {
    /// Whether only an operator can change it: the next attempt is made after a long time. A node that was
    /// just added has no data until it starts again, and others may not know of it yet.
    #[must_use]
    pub const fn is_lasting(self) -> bool {
        !matches!(self, Self::Protocol | Self::OlderBoot | Self::Reset | Self::NotMember)
    }
}

/// A refusal, on the side that refuses or on the one that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PeerRefusal {
    /// The reason.
    pub reason: PeerRefusalReason,
    /// The reason in words, with what to do. It names both nodes: it is for the logs of both.
    pub text: String,
}

impl PeerRefusal {
    /// Creates a refusal.
    #[must_use]
    pub fn new(reason: PeerRefusalReason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// Appends the frame that tells the peer, the last one of a connection.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.put_body(&mut body);
        put_frame(out, FrameKind::REFUSED, &body);
    }

    /// Appends the body of that frame, for a link.
    pub fn put_body(&self, body: &mut Vec<u8>) {
        put_u8(body, self.reason as u8);
        put_str(body, self.text.get(..self.text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(""));
    }

    /// Reads the body of a peer's frame. Whatever it holds is a refusal.
    #[must_use]
    pub fn decode(body: &[u8]) -> Self {
        let mut reader = Reader::new(body);
        let code = reader.u8().unwrap_or_default();
        let mut reasons = PeerRefusalReason::ALL.into_iter();
        let reason = reasons.find(|reason| *reason as u8 == code);
        let text = reader.str().unwrap_or("the peer gave no reason");
        let text = text.chars().filter(|it| !it.is_control()).take(TEXT_BYTES_MAX).collect();
        Self { reason: reason.unwrap_or(PeerRefusalReason::Protocol), text }
    }
}
