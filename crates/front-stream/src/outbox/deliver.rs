//! Chunks on their way out.
//!
//! ```text
//! prefix: size u32, key, version, subscription u8, [committed chunk id u64] | header: 48 bytes | data
//! ```

use edge::{Closing, Outgoing};
use session::{
    CHUNK_HEADER_BYTES, ChunkData, ChunkDelivery, LinkId, Room, StreamCounter, SubscriptionId,
};
use streamproto::{ChunkType, deliver_prefix, deliver_v2_prefix};

/// Shared data from this size on is spliced into the output instead of copied.
const SPLICE_BYTES_MIN: usize = 8 * 1024;

/// The subscriptions of a connection, 256 at most, by link; and how chunks are delivered.
#[derive(Debug, Default)]
pub(super) struct Links {
    list: Vec<Link>,
    /// Whether deliveries tell the last committed chunk too.
    tells_committed: bool,
}

/// A subscription that chunks come for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    subscription: SubscriptionId,
    /// Whether the link is noted as one to be resumed.
    pub(super) is_paused: bool,
}

impl Links {
    #[inline]
    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let index = self.list.binary_search_by_key(&id, |link| link.id).ok()?;
        self.list.get_mut(index)
    }

    pub(super) fn add(&mut self, id: LinkId, subscription: SubscriptionId) {
        let at = self.list.partition_point(|link| link.id < id);
        self.list.insert(at, Link { id, subscription, is_paused: false });
    }

    pub(super) fn remove(&mut self, id: LinkId) {
        self.list.retain(|link| link.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    /// Notes that no link waits for room any more.
    pub(super) fn resume(&mut self) {
        for link in &mut self.list {
            link.is_paused = false;
        }
    }

    pub(super) const fn set_version(&mut self, version: u16) {
        self.tells_committed = version >= 2;
    }

    pub(super) fn deliver(
        &mut self,
        out: &mut Outgoing,
        id: LinkId,
        chunk: &ChunkDelivery<'_>,
        counter: &StreamCounter,
    ) -> Room {
        let tells_committed = self.tells_committed;
        // A link that is not found is that of a subscription which is gone.
        let Some(link) = self.get_mut(id).filter(|_| out.closing() == Closing::No) else {
            return Room::Full;
        };
        let SubscriptionId(subscription) = link.subscription;
        let [_, chunk_type, n0, n1, ..] = *chunk.header;
        if ChunkType(chunk_type) == ChunkType::USER {
            counter.note_delivered(u64::from(u16::from_be_bytes([n0, n1])));
        }
        let n_bytes = u32::try_from(CHUNK_HEADER_BYTES + chunk.data.len()).unwrap_or(u32::MAX);
        let rope = out.rope();
        let bytes = rope.bytes();
        if tells_committed {
            let prefix = deliver_v2_prefix(subscription, chunk.committed_chunk_id, n_bytes);
            bytes.extend_from_slice(&prefix);
        } else {
            bytes.extend_from_slice(&deliver_prefix(subscription, n_bytes));
        }
        bytes.extend_from_slice(chunk.header);
        match &chunk.data {
            ChunkData::File(part) => rope.splice_file(part.clone()),
            ChunkData::Shared(data) if data.len() >= SPLICE_BYTES_MIN => rope.splice(data.clone()),
            ChunkData::Shared(data) => bytes.extend_from_slice(data),
            ChunkData::Borrowed(data) => bytes.extend_from_slice(data),
        }
        out.room_after(id, &mut link.is_paused)
    }
}
