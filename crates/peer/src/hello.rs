//! Hellos: who a node says it is at the beginning of a connection.
//!
//! ```text
//! "LVPR" | head of a frame | versions u16 u16 | levels u16 u16 | connection kind u8 | epoch u32 | boot u32
//!        | node u16 | cluster u128 | nonce u128 | name u32, bytes | what newer versions add
//! ```

use crate::connection::ConnectionKind;
use log::{ClusterId, NodeIdentity, NodeNumber};
use stdx::record::{Reader, RecordError, put_str, put_u8, put_u16, put_u32};

/// The first bytes of each side.
pub(crate) const MAGIC: [u8; 4] = *b"LVPR";
/// The bytes of one side of a handshake at most.
pub const HANDSHAKE_BYTES_MAX: usize = 4 * 1024;
/// COMPAT: the bytes that a node's name may have, as in Erlang.
const NAME_BYTES_MAX: usize = 255;

/// Versions or levels that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpokenRange {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

impl SpokenRange {
    /// The highest that both speak.
    pub(crate) fn common(self, other: Self) -> Option<u16> {
        let highest = self.max.min(other.max);
        (highest >= self.min.max(other.min)).then_some(highest)
    }
}

impl std::fmt::Display for SpokenRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// The versions of the handshake and of frames that this code speaks.
pub const PEER_VERSIONS: SpokenRange = SpokenRange { min: 1, max: 1 };

/// A node's hello. The number is 0 for who is no member: the command line tool, a node that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHello {
    /// The versions of handshake and frames.
    pub versions: SpokenRange,
    /// The levels of the cluster's commands and formats.
    pub levels: SpokenRange,
    /// The purpose of the connection.
    pub kind: ConnectionKind,
    /// The node, in the life that it is in.
    pub identity: NodeIdentity,
    /// A random number, new for each connection and side.
    pub nonce: u128,
}

impl PeerHello {
    /// The body of the hello's frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let (versions, levels) = (self.versions, self.levels);
        for number in [versions.min, versions.max, levels.min, levels.max] {
            put_u16(&mut body, number);
        }
        let NodeIdentity { cluster, epoch, number, boot, name } = &self.identity;
        put_u8(&mut body, self.kind.code());
        put_u32(&mut body, *epoch);
        put_u32(&mut body, *boot);
        put_u16(&mut body, number.0);
        body.extend(cluster.0.to_le_bytes());
        body.extend(self.nonce.to_le_bytes());
        put_str(&mut body, name);
        body
    }

    /// Reads the body of a hello's frame. Fields that newer versions add at the end are left out.
    ///
    /// # Errors
    /// The body is no hello, or its kind or name cannot be.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body);
        let versions = read_range(&mut reader)?;
        let levels = read_range(&mut reader)?;
        let kind = ConnectionKind::of_code(reader.u8()?).ok_or(RecordError::Invalid)?;
        let (epoch, boot) = (reader.u32()?, reader.u32()?);
        let number = NodeNumber(reader.u16()?);
        let cluster = ClusterId(read_u128(&mut reader)?);
        let nonce = read_u128(&mut reader)?;
        let name = reader.str()?;
        let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        if !is_name || name.chars().any(char::is_control) {
            return Err(RecordError::Invalid);
        }
        let identity = NodeIdentity { cluster, epoch, number, boot, name: name.to_owned() };
        Ok(Self { versions, levels, kind, identity, nonce })
    }
}

fn read_range(reader: &mut Reader<'_>) -> Result<SpokenRange, RecordError> {
    Ok(SpokenRange { min: reader.u16()?, max: reader.u16()? })
}

fn read_u128(reader: &mut Reader<'_>) -> Result<u128, RecordError> {
    let [low, high] = [reader.u64()?, reader.u64()?];
    Ok(u128::from(high) << 64 | u128::from(low))
}
