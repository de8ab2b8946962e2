//! A queue of any type at a start and a clean stop.

use log::SegmentId;
use store::Queued;
use store::backlog::PageNote;
use store::blob::BlobId;

/// A queue of any type that is being filled after a start.
pub trait Restoring {
    /// Puts a message back in. Positions rise from call to call.
    fn message(&mut self, queued: &Queued<'_>, segment: SegmentId);

    /// Puts a page back in: what is left of it. Positions rise from call to call. False if its image is not
    /// there, or the note cannot be true.
    #[must_use]
    fn page(&mut self, note: &PageNote, segment: SegmentId) -> bool;

    /// Adds a reference of a stored body; false if there is no such body.
    fn retain_body(&self, blob: BlobId) -> bool;
}

/// The note of a clean stop about a queue that survives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopNote {
    /// The first position that no consumer was given; none while the queue is still being read.
    pub first_undelivered: Option<u64>,
    /// For how long nobody has used it, if it goes when that is too long.
    pub unused_ms: Option<u64>,
}
