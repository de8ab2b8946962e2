//! Asks of nodes that join or leave a cluster and a member's answers, on connections of kind `ctl`.
//!
//! ```text
//! join (98)     name | host | port u16 | token u64
//! leave (99)    cluster u128 | number u16
//! answer (100)  0 | cluster u128 | epoch u32 | number u16 | n u16 | n members      joined
//!               1                                                                  left
//!               2 | text                                                           not now
//!               3 | text                                                           refused
//! member        number u16 | name | host | port u16
//! text          length u32, bytes, at most 1,024
//! ```

use crate::names::{NAMES_MAX, read_name};
use log::{ClusterId, NodeIdentity, NodeNumber};
use peer::{FrameKind, KindRow, PeerAddress};
use stdx::record::{Reader, RecordError, put_str, put_u8, put_u16, put_u32, put_u64};

/// The bytes of an ask at most.
const JOIN_BYTES_MAX: u32 = 1024;
/// The bytes of an answer at most.
const JOIN_ANSWER_BYTES_MAX: u32 = 64 * 1024;
/// The bytes of a text at most.
const JOIN_TEXT_BYTES_MAX: usize = 1024;

const JOIN: FrameKind = FrameKind(98);
const LEAVE: FrameKind = FrameKind(99);
const ANSWER: FrameKind = FrameKind(100);

const JOINED: u8 = 0;
const LEFT: u8 = 1;
const NOT_NOW: u8 = 2;
const REFUSED: u8 = 3;

/// The frames of asks and answers.
pub const JOINING_ROWS: &[KindRow] = &[
    KindRow { kind: JOIN, level: 0, bytes_max: JOIN_BYTES_MAX },
    KindRow { kind: LEAVE, level: 0, bytes_max: JOIN_BYTES_MAX },
    KindRow { kind: ANSWER, level: 0, bytes_max: JOIN_ANSWER_BYTES_MAX },
];

/// A node's ask to become a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinAsk {
    /// The node's name.
    pub name: String,
    /// The node's address for members.
    pub address: PeerAddress,
    /// The random number that tells this attempt from others by the same name. It is durable at the node.
    pub token: u64,
}

/// A member's ask to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveAsk {
    /// The member's cluster.
    pub cluster: ClusterId,
    /// The member's number.
    pub number: NodeNumber,
}

/// A member, as a node that joins is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// The member's number.
    pub number: NodeNumber,
    /// The member's name.
    pub name: String,
    /// The member's address.
    pub address: PeerAddress,
}

/// A cluster that a node has been added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// The epoch of the cluster.
    pub epoch: u32,
    /// The number of the node that joins.
    pub number: NodeNumber,
    /// The other members, at most [`NAMES_MAX`].
    pub members: Vec<JoinedMember>,
}

/// A member's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinAnswer {
    /// The node is a member.
    Joined(JoinedCluster),
    /// The node is no member, or is none any more.
    Left,
    /// The cluster cannot do it at the moment, for this reason.
    NotNow(String),
    /// The cluster does not do it, for this reason.
    Refused(String),
}

impl JoinedCluster {
    /// The identity of the node that joins, in its first life.
    pub(crate) fn identity(&self, name: &str) -> NodeIdentity {
        let Self { cluster, epoch, number, .. } = *self;
        NodeIdentity { cluster, epoch, number, boot: 1, name: name.to_owned() }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        self.cluster.halves().into_iter().for_each(|half| put_u64(out, half));
        put_u32(out, self.epoch);
        put_u16(out, self.number.0);
        put_u16(out, u16::try_from(self.members.len()).unwrap_or(u16::MAX));
        for member in &self.members {
            put_u16(out, member.number.0);
            put_str(out, &member.name);
            put_address(out, &member.address);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let cluster = ClusterId::of_halves([reader.u64()?, reader.u64()?]);
        let (epoch, number) = (reader.u32()?, NodeNumber(reader.u16()?));
        let n = usize::from(reader.u16()?);
        if n > NAMES_MAX {
            return Err(RecordError::Invalid);
        }
        let member = |_| {
            let (number, name) = (NodeNumber(reader.u16()?), read_name(reader)?);
            Ok(JoinedMember { number, name, address: read_address(reader)? })
        };
        let members = (0..n).map(member).collect::<Result<_, RecordError>>()?;
        Ok(Self { cluster, epoch, number, members })
    }
}

impl JoinAsk {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        put_str(&mut body, &self.name);
        put_address(&mut body, &self.address);
        put_u64(&mut body, self.token);
        peer::put_frame(out, JOIN, &body);
    }

    /// Reads the body of a frame; none if the kind is of others.
    ///
    /// # Errors
    /// The body is no ask.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Option<Self>, RecordError> {
        if kind != JOIN {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        let (name, address) = (read_name(&mut reader)?, read_address(&mut reader)?);
        Ok(Some(Self { name, address, token: reader.u64()? }))
    }
}

impl LeaveAsk {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.cluster.halves().into_iter().for_each(|half| put_u64(&mut body, half));
        put_u16(&mut body, self.number.0);
        peer::put_frame(out, LEAVE, &body);
    }

    /// Reads the body of a frame; none if the kind is of others.
    ///
    /// # Errors
    /// The body is no ask.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Option<Self>, RecordError> {
        if kind != LEAVE {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        let cluster = ClusterId::of_halves([reader.u64()?, reader.u64()?]);
        Ok(Some(Self { cluster, number: NodeNumber(reader.u16()?) }))
    }
}

impl JoinAnswer {
    /// Appends the frame. A text that is too long is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        match self {
            Self::Joined(cluster) => {
                put_u8(&mut body, JOINED);
                cluster.put(&mut body);
            }
            Self::Left => put_u8(&mut body, LEFT),
            Self::NotNow(text) => put_text(&mut body, NOT_NOW, text),
            Self::Refused(text) => put_text(&mut body, REFUSED, text),
        }
        peer::put_frame(out, ANSWER, &body);
    }

    /// Reads the body of a frame; none if the kind is of others.
    ///
    /// # Errors
    /// The body is no answer.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Option<Self>, RecordError> {
        if kind != ANSWER {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        Ok(Some(match reader.u8()? {
            JOINED => Self::Joined(JoinedCluster::read(&mut reader)?),
            LEFT => Self::Left,
            NOT_NOW => Self::NotNow(read_text(&mut reader)?),
            REFUSED => Self::Refused(read_text(&mut reader)?),
            _ => return Err(RecordError::Invalid),
        }))
    }
}

fn put_address(out: &mut Vec<u8>, address: &PeerAddress) {
    put_str(out, &address.host);
    put_u16(out, address.port);
}

fn read_address(reader: &mut Reader<'_>) -> Result<PeerAddress, RecordError> {
    Ok(PeerAddress { host: read_name(reader)?, port: reader.u16()? })
}

fn put_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    put_u8(out, tag);
    put_str(out, text.get(..text.floor_char_boundary(JOIN_TEXT_BYTES_MAX)).unwrap_or(""));
}

fn read_text(reader: &mut Reader<'_>) -> Result<String, RecordError> {
    let text = reader.str()?;
    let is_text = text.len() <= JOIN_TEXT_BYTES_MAX && !text.chars().any(char::is_control);
    is_text.then(|| text.to_owned()).ok_or(RecordError::Invalid)
}
