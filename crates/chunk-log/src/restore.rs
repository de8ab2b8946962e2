//! The tracking of a log that was opened: from the last snapshot of its last segment on.

use streamproto::ChunkType;
use streamproto::chunk::{Chunk, DataCrc};

use crate::error::Result;
use crate::index::{Index, IndexRecord};
use crate::lookup::Lookup;
use crate::scan::Scan;
use crate::seal::{Seal, seal_of};
use crate::shared::LogView;
use crate::tracking::Tracking;

/// The tracking at the end of what is written, and how many chunks it took since the snapshot.
pub(crate) fn restore(view: &LogView) -> Result<(Tracking, u64)> {
    let end = view.written();
    let lookup = Lookup::new(view, end);
    let index = lookup.index(end.segment)?;
    let is_snapshot = |record: &IndexRecord| record.chunk_type == ChunkType::TRACKING_SNAPSHOT.0;
    let from = index.rfind(is_snapshot)?.map_or(0, |(n, _)| n);
    let Some(slot) = view.0.chunks(end.segment) else { return Ok(Default::default()) };
    let mut scan = Scan::new(slot.file()?, end.position);
    let mut tracking = Tracking::default();
    let mut n_taken = 0;
    for position in tracked(&index, from)? {
        apply(&mut tracking, &mut scan, position)?;
        n_taken += 1;
    }
    Ok((tracking, n_taken))
}

/// Where the chunks with tracking records are.
fn tracked(index: &Index, mut from: u64) -> Result<Vec<u64>> {
    let mut positions = Vec::new();
    while from < index.len() {
        let block = index.block(from)?;
        if block.is_empty() {
            break;
        }
        from += block.len() as u64;
        let is_tracked = |record: &&IndexRecord| {
            let kind = ChunkType(record.chunk_type);
            record.has_trailer
                || matches!(kind, ChunkType::TRACKING_DELTA | ChunkType::TRACKING_SNAPSHOT)
        };
        positions.extend(block.iter().filter(is_tracked).map(|record| record.position));
    }
    Ok(positions)
}

/// Takes the records of the chunk at a position, whose data is read only if they are in there. A damaged
/// chunk's are left out, as readers pass over it: what they would say is not known.
fn apply(tracking: &mut Tracking, scan: &mut Scan, position: u64) -> Result<()> {
    let Some(header) = scan.header(position)? else { return Ok(()) };
    let front = scan.bytes(position, header.data_at())?.to_vec();
    let data_at = position + header.data_at();
    let trailer_at = data_at + u64::from(header.data_bytes);
    let is_data_read = header.chunk_type != ChunkType::USER;
    let data_bytes = if is_data_read { u64::from(header.data_bytes) } else { 0 };
    let data = scan.bytes(data_at, data_bytes)?.to_vec();
    let trailer = scan.bytes(trailer_at, u64::from(header.trailer_bytes))?;
    let mut seal = Seal::new(&front);
    seal.0.update(trailer);
    let mut crc = DataCrc::default();
    crc.update(&data);
    let is_data_whole = !is_data_read || crc.finish() == header.crc;
    if seal_of(&front) != Some(seal.finish()) || !is_data_whole {
        return Ok(());
    }
    let chunk = Chunk { header, filter: &[], data: &data, trailer };
    let applied = tracking.apply(&chunk);
    let what = "the chunk's tracking records are malformed";
    applied.map_err(|_| scan.file().corrupt(position, what).into())
}
