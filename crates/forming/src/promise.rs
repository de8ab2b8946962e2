//! The promise of a fresh node: which node it lets make the cluster.

use crate::names::read_name;
use stdx::record::{Reader, RecordError, put_bool, put_str, put_u64};

/// The promise of a fresh node to one maker, itself or another. The maker alone ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MakerPromise {
    /// The name of the node that makes the cluster once a majority has promised so.
    pub maker: String,
    /// The number of the maker's attempt: random, never used again.
    pub attempt: u64,
}

impl MakerPromise {
    /// The bytes that are written durably; those of none too: a removed file could come back.
    #[must_use]
    pub fn encode(promise: Option<&Self>) -> Vec<u8> {
        let mut out = Vec::new();
        Self::put(promise, &mut out);
        out
    }

    /// Reads what [`MakerPromise::encode`] wrote.
    ///
    /// # Errors
    /// The bytes are no promise.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, RecordError> {
        Self::read(&mut Reader::new(bytes))
    }

    pub(crate) fn put(promise: Option<&Self>, out: &mut Vec<u8>) {
        put_bool(out, promise.is_some());
        if let Some(Self { maker, attempt }) = promise {
            put_str(out, maker);
            put_u64(out, *attempt);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, RecordError> {
        if !reader.bool()? {
            return Ok(None);
        }
        Ok(Some(Self { maker: read_name(reader)?, attempt: reader.u64()? }))
    }
}
