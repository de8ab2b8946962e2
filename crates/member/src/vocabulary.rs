//! The frames of Raft groups between two nodes, on connections of kind `raft`.
//!
//! ```text
//! kind  32 message            group u64, the bytes of cluster::Message
//!       33 heartbeats         records of 40 bytes: group u64, from u64, to u64, term u64, commit u64
//!       34 heartbeat answers  as 33
//!       35 commits            as 33
//! ```
//!
//! Records are coalesced: they go out with the link's next batch, of each kind and group the latest.

use bytes::Bytes;
use cluster::{MESSAGE_BYTES_MAX, Message, MessageBody, PeerId};
use log::{NodeNumber, Owner};
use peer::{
    ConnectionKind, FrameKind, KindRow, LinkClass, LinkOut, NODE_ROWS, NodeMessage, PULSE_ROWS,
    PeerRefusal, SESSION_ROWS, SessionFrame, Vocabulary,
};
use stdx::record::{Reader, RecordError, put_u64};

const MESSAGE: FrameKind = FrameKind(32);
const HEARTBEATS: FrameKind = FrameKind(33);
const HEARTBEAT_ANSWERS: FrameKind = FrameKind(34);
const COMMITS: FrameKind = FrameKind(35);

/// Bytes of a coalesced record.
const RECORD_BYTES: usize = 40;
/// The bytes of a frame of coalesced records at most.
const RECORDS_BYTES_MAX: u32 = 64 * 1024;
/// The bytes of a frame with a message at most.
const MESSAGE_FRAME_BYTES_MAX: u32 = (516 << 20) + 8;

const _: () =
    assert!(MESSAGE_FRAME_BYTES_MAX as usize == MESSAGE_BYTES_MAX + 8, "the group is in front");

/// The frames of groups.
pub const GROUP_ROWS: &[KindRow] = &[
    KindRow { kind: MESSAGE, level: 0, bytes_max: MESSAGE_FRAME_BYTES_MAX },
    KindRow { kind: HEARTBEATS, level: 0, bytes_max: RECORDS_BYTES_MAX },
    KindRow { kind: HEARTBEAT_ANSWERS, level: 0, bytes_max: RECORDS_BYTES_MAX },
    KindRow { kind: COMMITS, level: 0, bytes_max: RECORDS_BYTES_MAX },
];

/// The frames that a connection of a kind carries at its level; of `ctl`, none.
#[must_use]
pub fn vocabulary(kind: ConnectionKind, level: u16) -> Vocabulary {
    let rows: &[&[KindRow]] = match kind {
        ConnectionKind::Pulse => &[PULSE_ROWS],
        ConnectionKind::Raft => &[GROUP_ROWS],
        ConnectionKind::Work => &[NODE_ROWS, SESSION_ROWS],
        ConnectionKind::Ctl => &[],
    };
    Vocabulary::new(level, rows)
}

/// Something that a peer has sent, for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerInput {
    /// A message for a replica of a group: [`GroupStep::Peer`](cluster::GroupStep::Peer).
    Group(Owner, Message),
    /// A message of the node.
    Node(NodeMessage),
    /// A frame of sessions, and its body.
    Session(SessionFrame, Bytes),
}

/// The error of a frame that a peer must not have sent, or that ends its connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerInputError {
    /// The body is not one of its kind.
    #[error("a frame of kind {kind} cannot be read: {error}")]
    Damaged {
        /// The kind.
        kind: u8,
        /// The error.
        error: RecordError,
    },
    /// A message from or for a replica on another node.
    #[error("a message of group {0} is from or for a replica on another node", group.0)]
    OtherNode {
        /// The group.
        group: Owner,
    },
    /// The peer does not go on, and says why.
    #[error(transparent)]
    Refused(#[from] PeerRefusal),
}

/// Puts a message of a group into a link.
pub(crate) fn put_message(out: &mut LinkOut, group: Owner, message: &Message) {
    let class = match &message.body {
        MessageBody::Heartbeat { commit } => {
            return coalesce(out, HEARTBEATS, group, message, *commit);
        }
        MessageBody::HeartbeatAnswer { commit } => {
            return coalesce(out, HEARTBEAT_ANSWERS, group, message, *commit);
        }
        MessageBody::Commit { commit } => return coalesce(out, COMMITS, group, message, *commit),
        MessageBody::Vote { .. }
        | MessageBody::Voted { .. }
        | MessageBody::TimeoutNow
        | MessageBody::WhoLeads
        | MessageBody::NotLeader
        | MessageBody::Gone => LinkClass::Urgent,
        MessageBody::Append { .. }
        | MessageBody::Appended { .. }
        | MessageBody::Rejected { .. }
        | MessageBody::ImageOffer(_)
        | MessageBody::ImageWant { .. } => LinkClass::Ordinary,
        MessageBody::ImagePiece { .. } => LinkClass::Bulk,
    };
    let mut head = Vec::new();
    put_u64(&mut head, group.0);
    let payloads = message.encode(&mut head);
    out.push(class, MESSAGE, |out| out.extend_from_slice(&head), &payloads);
}

fn coalesce(out: &mut LinkOut, kind: FrameKind, group: Owner, message: &Message, commit: u64) {
    let mut record = Vec::with_capacity(RECORD_BYTES);
    let Message { from, to, term, .. } = message;
    [group.0, from.0, to.0, *term, commit].into_iter().for_each(|it| put_u64(&mut record, it));
    out.coalesce(kind, group.0, &record);
}

/// Bytes of a message while it waits, about.
pub(crate) fn message_bytes(message: &Message) -> usize {
    const HEAD_BYTES: usize = 128;
    let payload = if let MessageBody::Append { entries, .. } = &message.body {
        entries.iter().map(|entry| HEAD_BYTES + entry.payload.bytes.len()).sum()
    } else if let MessageBody::ImagePiece { bytes, .. } = &message.body {
        bytes.len()
    } else {
        0
    };
    HEAD_BYTES + payload
}

/// Reads a frame of groups that has come from `node` to `me`; none is left over.
pub(crate) fn read_messages(
    kind: FrameKind,
    body: Bytes,
    [from, to]: [NodeNumber; 2],
    inputs: &mut Vec<PeerInput>,
) -> Result<(), PeerInputError> {
    let first = inputs.len();
    let read = match kind {
        MESSAGE => read_message(&body, inputs),
        _ => read_records(kind, &body, inputs),
    };
    read.map_err(|error| PeerInputError::Damaged { kind: kind.0, error })?;
    for input in inputs.iter().skip(first) {
        if let PeerInput::Group(group, message) = input
            && [message.from.node(), message.to.node()] != [from.0, to.0]
        {
            return Err(PeerInputError::OtherNode { group: *group });
        }
    }
    Ok(())
}

fn read_message(body: &Bytes, inputs: &mut Vec<PeerInput>) -> Result<(), RecordError> {
    let mut reader = Reader::new(body);
    let group = Owner(reader.u64()?);
    let message = Message::decode(&body.slice_ref(reader.rest()))?;
    inputs.push(PeerInput::Group(group, message));
    Ok(())
}

fn read_records(
    kind: FrameKind,
    body: &[u8],
    inputs: &mut Vec<PeerInput>,
) -> Result<(), RecordError> {
    let mut reader = Reader::new(body);
    while !reader.is_empty() {
        let group = Owner(reader.u64()?);
        let (from, to) = (PeerId(reader.u64()?), PeerId(reader.u64()?));
        let (term, commit) = (cluster_number(&mut reader)?, cluster_number(&mut reader)?);
        let body = match kind {
            HEARTBEATS => MessageBody::Heartbeat { commit },
            HEARTBEAT_ANSWERS => MessageBody::HeartbeatAnswer { commit },
            COMMITS => MessageBody::Commit { commit },
            _ => return Err(RecordError::Invalid),
        };
        inputs.push(PeerInput::Group(group, Message { from, to, term, body }));
    }
    Ok(())
}

/// A term or an index.
fn cluster_number(reader: &mut Reader<'_>) -> Result<u64, RecordError> {
    let number = reader.u64()?;
    (number <= cluster::NUMBER_MAX).then_some(number).ok_or(RecordError::Invalid)
}
