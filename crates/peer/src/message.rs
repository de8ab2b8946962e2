//! Messages of nodes that belong to no Raft group and no session, on connections of kind `work`.

use crate::connection::LinkClass;
use crate::kinds::{FrameKind, KindRow};
use crate::link::LinkOut;
use bytes::Bytes;
use log::Owner;
use stdx::record::{Reader, RecordError, put_bool, put_u64};

const ASK: FrameKind = FrameKind(17);
const ANSWER: FrameKind = FrameKind(18);
const QUESTION: FrameKind = FrameKind(19);
const REPLY: FrameKind = FrameKind(20);
const GONE: FrameKind = FrameKind(21);
const APPLIED: FrameKind = FrameKind(22);

/// The bytes of a change of definitions at most.
const ASK_BYTES_MAX: u32 = 64 << 20;
/// The bytes of a [`NodeMessage::Question`] at most, its number among them.
pub const QUESTION_BYTES_MAX: u32 = 64 * 1024;
/// The bytes of a part of a reply at most, its head among them: long replies have many parts.
pub const REPLY_BYTES_MAX: u32 = 1 << 20;

/// The frames of these messages.
pub const NODE_ROWS: &[KindRow] = &[
    KindRow { kind: ASK, level: 0, bytes_max: ASK_BYTES_MAX },
    KindRow { kind: ANSWER, level: 0, bytes_max: ASK_BYTES_MAX },
    KindRow { kind: QUESTION, level: 0, bytes_max: QUESTION_BYTES_MAX },
    KindRow { kind: REPLY, level: 0, bytes_max: REPLY_BYTES_MAX },
    KindRow { kind: GONE, level: 0, bytes_max: 8 },
    KindRow { kind: APPLIED, level: 0, bytes_max: 8 },
];

/// A message between nodes; questions and answers are opaque here. The number of a request is its sender's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMessage {
    /// A request, and its command: a change of definitions, for the leader of the definitions.
    Ask(u64, Bytes),
    /// The request of an [`NodeMessage::Ask`], and its outcome.
    Answer(u64, Bytes),
    /// A request, and its question about what a node has, such as a listing.
    Question(u64, Bytes),
    /// The request of a [`NodeMessage::Question`], and a part of the reply.
    Reply {
        /// The number of the request.
        request: u64,
        /// Whether the reply ends with this part.
        is_last: bool,
        /// The part.
        part: Bytes,
    },
    /// A group or queue that is not on the sender's node any more.
    Gone(Owner),
    /// The index up to which the sender has applied the changes of definitions.
    Applied(u64),
}

impl NodeMessage {
    /// Puts the message into a link.
    pub fn put(&self, out: &mut LinkOut) {
        match self {
            Self::Ask(request, body) => put(out, ASK, *request, body),
            Self::Answer(request, body) => put(out, ANSWER, *request, body),
            Self::Question(request, body) => put(out, QUESTION, *request, body),
            Self::Gone(group) => put(out, GONE, group.0, &Bytes::new()),
            Self::Applied(index) => put(out, APPLIED, *index, &Bytes::new()),
            Self::Reply { request, is_last, part } => {
                let fill = |out: &mut Vec<u8>| {
                    put_u64(out, *request);
                    put_bool(out, *is_last);
                };
                out.push(LinkClass::Bulk, REPLY, fill, std::slice::from_ref(part));
            }
        }
    }

    /// Reads the body of a frame; none if the kind is of others.
    ///
    /// # Errors
    /// The body is not one of its kind.
    pub fn decode(kind: FrameKind, body: &Bytes) -> Result<Option<Self>, RecordError> {
        if !NODE_ROWS.iter().any(|row| row.kind == kind) {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        let request = reader.u64()?;
        let is_last = kind == REPLY && reader.bool()?;
        let rest = body.slice_ref(reader.rest());
        Ok(Some(match kind {
            ASK => Self::Ask(request, rest),
            ANSWER => Self::Answer(request, rest),
            QUESTION => Self::Question(request, rest),
            REPLY => Self::Reply { request, is_last, part: rest },
            APPLIED => Self::Applied(request),
            _ => Self::Gone(Owner(request)),
        }))
    }
}

fn put(out: &mut LinkOut, kind: FrameKind, number: u64, body: &Bytes) {
    out.push(LinkClass::Ordinary, kind, |out| put_u64(out, number), std::slice::from_ref(body));
}
