//! Asks of fresh nodes and their answers, on connections of kind `ctl`: whoever has the cookie may ask.
//!
//! ```text
//! ask (96)     fresh node | wants back u8
//! answer (97)  0 | name | cluster u128                      a member of a cluster
//!              1 | fresh node | is over u8 | attempt u64    a fresh node
//! fresh node   name | hears majority u8 | promise | n u16 | n names
//! promise      0, or 1 | maker's name | attempt u64
//! name         length u32, bytes
//! ```

use crate::names::{NAMES_MAX, read_name};
use crate::promise::MakerPromise;
use log::ClusterId;
use peer::{FrameKind, KindRow};
use std::collections::BTreeSet;
use stdx::record::{Reader, RecordError, put_bool, put_str, put_u8, put_u16, put_u64};

/// The bytes of an ask or of an answer at most.
const FORMING_BYTES_MAX: u32 = 32 * 1024;

const ASK: FrameKind = FrameKind(96);
const ANSWER: FrameKind = FrameKind(97);

const OF_MEMBER: u8 = 0;
const OF_FRESH: u8 = 1;

/// The frames of asks and answers.
pub const FORMING_ROWS: &[KindRow] = &[
    KindRow { kind: ASK, level: 0, bytes_max: FORMING_BYTES_MAX },
    KindRow { kind: ANSWER, level: 0, bytes_max: FORMING_BYTES_MAX },
];

/// A node that belongs to no cluster, as it tells others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshNode {
    /// The node's name.
    pub name: String,
    /// Whether the node hears fresh nodes of a majority of its names.
    pub hears_majority: bool,
    /// The node's durable promise.
    pub promise: Option<MakerPromise>,
    /// The names that the node is configured with, and its own.
    pub names: BTreeSet<String>,
}

/// A fresh node's ask, which repeats what the node has promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormingAsk {
    /// The node that asks.
    pub node: FreshNode,
    /// Whether the node wants back its promise to the one that it asks.
    pub wants_back: bool,
}

/// The answer to a [`FormingAsk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormingAnswer {
    /// The node belongs to a cluster.
    Member {
        /// The node's name.
        name: String,
        /// Its cluster.
        cluster: ClusterId,
    },
    /// The node is fresh.
    Fresh {
        /// The node.
        node: FreshNode,
        /// The attempt that the asker has promised itself to, if the answering node has ended it.
        over: Option<u64>,
    },
}

impl FreshNode {
    fn put(&self, out: &mut Vec<u8>) {
        put_str(out, &self.name);
        put_bool(out, self.hears_majority);
        MakerPromise::put(self.promise.as_ref(), out);
        put_u16(out, u16::try_from(self.names.len()).unwrap_or(u16::MAX));
        self.names.iter().for_each(|name| put_str(out, name));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let (name, hears_majority) = (read_name(reader)?, reader.bool()?);
        let promise = MakerPromise::read(reader)?;
        let n = usize::from(reader.u16()?);
        if n > NAMES_MAX {
            return Err(RecordError::Invalid);
        }
        let names: BTreeSet<_> = (0..n).map(|_| read_name(reader)).collect::<Result<_, _>>()?;
        let is_listed = names.len() == n && names.contains(&name);
        is_listed
            .then_some(Self { name, hears_majority, promise, names })
            .ok_or(RecordError::Invalid)
    }
}

impl FormingAsk {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.node.put(&mut body);
        put_bool(&mut body, self.wants_back);
        peer::put_frame(out, ASK, &body);
    }

    /// Reads the body of a frame; none if the kind is of others.
    ///
    /// # Errors
    /// The body is no ask.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Option<Self>, RecordError> {
        if kind != ASK {
            return Ok(None);
        }
        let mut reader = Reader::new(body);
        let node = FreshNode::read(&mut reader)?;
        Ok(Some(Self { node, wants_back: reader.bool()? }))
    }
}

impl FormingAnswer {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        match self {
            Self::Member { name, cluster } => {
                put_u8(&mut body, OF_MEMBER);
                put_str(&mut body, name);
                cluster.halves().into_iter().for_each(|half| put_u64(&mut body, half));
            }
            Self::Fresh { node, over } => {
                put_u8(&mut body, OF_FRESH);
                node.put(&mut body);
                put_bool(&mut body, over.is_some());
                put_u64(&mut body, over.unwrap_or_default());
            }
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
            OF_MEMBER => {
                let name = read_name(&mut reader)?;
                let cluster = ClusterId::of_halves([reader.u64()?, reader.u64()?]);
                Self::Member { name, cluster }
            }
            OF_FRESH => {
                let node = FreshNode::read(&mut reader)?;
                let (is_over, attempt) = (reader.bool()?, reader.u64()?);
                Self::Fresh { node, over: is_over.then_some(attempt) }
            }
            _ => return Err(RecordError::Invalid),
        }))
    }
}
