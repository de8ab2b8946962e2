//! The entries of the definitions.
//!
//! ```text
//! kind  entry      payload (integers little-endian)
//! 16    meta       serial u64, an encoded definition command (see crate `meta`)
//! ```

use super::DEFINITIONS;
use log::{Appended, Batch, Wal};
use stdx::record::{Reader, RecordError};

const KIND_META: u8 = 16;

/// A definition command as recovery reads it.
#[derive(Debug)]
pub struct DefinitionEntry<'a> {
    /// The command's number; the first one has 1.
    pub serial: u64,
    /// The encoded command.
    pub command: &'a [u8],
}

/// Appends definition commands as one unit, each needed until a snapshot of the definitions covers
/// it, with what `beside` adds about others. The first has the number `serial`, the next one more, and so on.
pub fn append(
    wal: &Wal,
    serial: u64,
    commands: &[Vec<u8>],
    beside: impl FnOnce(&mut Batch<'_>),
) -> Appended {
    wal.append(|batch| {
        for (command, serial) in commands.iter().zip(serial..) {
            batch.entry(DEFINITIONS, KIND_META, &[&serial.to_le_bytes(), command]);
            batch.retain(DEFINITIONS, 1);
        }
        beside(batch);
    })
}

/// Reads an entry of the definitions.
pub(super) fn parse(kind: u8, payload: &[u8]) -> Result<DefinitionEntry<'_>, RecordError> {
    let mut reader = Reader::new(payload);
    match kind {
        KIND_META => Ok(DefinitionEntry { serial: reader.u64()?, command: reader.rest() }),
        _ => Err(RecordError::Invalid),
    }
}

/// Whether an entry without an owner is one of the definitions.
pub(super) const fn has_kind(kind: u8) -> bool {
    kind == KIND_META
}
