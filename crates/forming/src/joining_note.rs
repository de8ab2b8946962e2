//! The note of a node that joins or leaves a cluster.
//!
//! ```text
//! 0 | token u64    asks
//! 1                wipes, then is fresh
//! 2 | cluster      wipes, then is a member
//! 3 | cluster      learns
//! 4 | epoch u32    discards
//! ```

use crate::joining_message::JoinedCluster;
use stdx::record::{Reader, RecordError, put_u8, put_u32, put_u64};

const ASKS: u8 = 0;
const WIPES: u8 = 1;
const WIPES_TO_JOIN: u8 = 2;
const LEARNS: u8 = 3;
const DISCARDS: u8 = 4;

/// A node's progress in joining or leaving a cluster, as it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoiningNote {
    /// The node asks to be added.
    Asks {
        /// The token of all asks until the node is a member.
        token: u64,
    },
    /// The node's data is condemned. Afterwards the node is fresh, or a member of the cluster.
    Wipes(Option<JoinedCluster>),
    /// The node is a member that has no definitions yet.
    Learns(JoinedCluster),
    /// The node goes on without the other members of its cluster.
    Discards {
        /// The epoch in which it does: members of earlier ones are refused.
        epoch: u32,
    },
}

impl JoiningNote {
    /// The bytes of the note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (tag, cluster) = match self {
            Self::Asks { token } => {
                put_u8(&mut out, ASKS);
                put_u64(&mut out, *token);
                return out;
            }
            Self::Discards { epoch } => {
                put_u8(&mut out, DISCARDS);
                put_u32(&mut out, *epoch);
                return out;
            }
            Self::Wipes(None) => (WIPES, None),
            Self::Wipes(Some(cluster)) => (WIPES_TO_JOIN, Some(cluster)),
            Self::Learns(cluster) => (LEARNS, Some(cluster)),
        };
        put_u8(&mut out, tag);
        cluster.iter().for_each(|cluster| cluster.put(&mut out));
        out
    }

    /// Reads a note.
    ///
    /// # Errors
    /// The bytes are no note.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        Ok(match reader.u8()? {
            ASKS => Self::Asks { token: reader.u64()? },
            WIPES => Self::Wipes(None),
            WIPES_TO_JOIN => Self::Wipes(Some(JoinedCluster::read(&mut reader)?)),
            DISCARDS => Self::Discards { epoch: reader.u32()? },
            LEARNS => Self::Learns(JoinedCluster::read(&mut reader)?),
            _ => return Err(RecordError::Invalid),
        })
    }
}
