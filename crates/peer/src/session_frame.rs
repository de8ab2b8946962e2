//! Frames of sessions at queues of the other node, on connections of kind `work`; their bodies are opaque.

use crate::kinds::{FrameKind, KindRow};

/// The bytes of a frame with messages at most: the longest message, and others in front of it.
const MESSAGES_BYTES_MAX: u32 = 516 << 20;
/// The bytes of any other frame at most.
const OTHERS_BYTES_MAX: u32 = 16 << 20;

stdx::named! {
    /// A frame of sessions. The first four go to the node that has a queue, the others come from it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SessionFrame {
        /// Messages for a queue.
        Put = "put",
        /// Settlements, credit, and other commands without an answer.
        Command = "command",
        /// A request that is answered by [`SessionFrame::Response`].
        Request = "request",
        /// The answer to a request.
        Response = "response",
        /// The answers to messages that were put.
        Answers = "answers",
        /// Deliveries to a consumer.
        Deliver = "deliver",
        /// Anything else that a consumer is told.
        Event = "event",
    }
}

/// The kind of the first frame; the others follow in their order.
const FIRST: u8 = 64;

/// The frames of sessions.
pub const SESSION_ROWS: &[KindRow] = &[
    SessionFrame::Put.row(),
    SessionFrame::Command.row(),
    SessionFrame::Request.row(),
    SessionFrame::Response.row(),
    SessionFrame::Answers.row(),
    SessionFrame::Deliver.row(),
    SessionFrame::Event.row(),
];

impl SessionFrame {
    /// The kind of the frame.
    #[must_use]
    pub const fn kind(self) -> FrameKind {
        FrameKind(FIRST + self as u8)
    }

    /// The frame of a kind; none if the kind is of others.
    #[must_use]
    pub fn of_kind(kind: FrameKind) -> Option<Self> {
        Self::ALL.into_iter().find(|frame| frame.kind() == kind)
    }

    const fn row(self) -> KindRow {
        let bytes_max = match self {
            Self::Put | Self::Response | Self::Deliver => MESSAGES_BYTES_MAX,
            Self::Command | Self::Request | Self::Answers | Self::Event => OTHERS_BYTES_MAX,
        };
        KindRow { kind: self.kind(), level: 0, bytes_max }
    }
}
