//! The memory that a backlog's pages take, and the jobs that are under way.

use super::PageKey;
use super::slot::Busy;

/// A page is closed when it would exceed this; a larger message gets a page of its own.
pub(super) const PAGE_BYTES_MAX: usize = 64 * 1024;
/// However little memory the queue is allowed, pages are filled to this, or to all it is allowed.
const PAGE_BYTES_MIN: usize = 8 * 1024;

const _: () = assert!(PAGE_BYTES_MIN <= PAGE_BYTES_MAX);

/// An image as it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenImage {
    pub(super) page: PageKey,
    pub(super) live_bytes: u64,
    pub(super) load_bytes: u32,
    pub(super) n_entries: u16,
    pub(super) is_durable: bool,
}

/// Which pages are in memory, and what is under way.
#[derive(Debug)]
pub(super) struct Paging {
    /// The size pages are filled to.
    pub(super) page_bytes: usize,
    pub(super) resident_bytes: usize,
    /// Of the resident bytes, those of pages whose images are under way to disk.
    pub(super) writing_bytes: usize,
    /// Bytes of pages that are not yet resident, but being loaded.
    pub(super) loading_bytes: usize,
    /// Images under way to disk: few.
    pub(super) writing: Vec<WrittenImage>,
    /// The position from which on consumers were given none, as far as is known.
    pub(super) reach: u64,
    /// Whether pages may be in memory without their stored bodies.
    pub(super) may_lack_bodies: bool,
    /// Whether nothing is written to make room: see `PageJobs::only_read`.
    pub(super) only_reads: bool,
}

impl Default for Paging {
    fn default() -> Self {
        Self {
            page_bytes: PAGE_BYTES_MAX,
            resident_bytes: 0,
            writing_bytes: 0,
            loading_bytes: 0,
            writing: Vec::new(),
            reach: 0,
            may_lack_bodies: false,
            only_reads: false,
        }
    }
}

impl Paging {
    /// Ends a job on this page: it is done, or nobody cares for it any more.
    pub(super) fn end_job(
        &mut self,
        page: PageKey,
        busy: Busy,
        cost_bytes: usize,
    ) -> Option<WrittenImage> {
        match busy {
            Busy::Idle => None,
            Busy::Loading => {
                assert!(self.loading_bytes >= cost_bytes, "a page is counted while it is read");
                self.loading_bytes -= cost_bytes;
                None
            }
            Busy::Writing => {
                assert!(self.writing_bytes >= cost_bytes, "a page is counted while it is written");
                self.writing_bytes -= cost_bytes;
                let at = self.writing.iter().position(|writing| writing.page == page)?;
                Some(self.writing.swap_remove(at))
            }
        }
    }
}

/// The size pages are filled to in a queue that is allowed so much.
pub(super) fn page_bytes(allowance_bytes: usize) -> usize {
    (allowance_bytes / 4).clamp(PAGE_BYTES_MIN.min(allowance_bytes), PAGE_BYTES_MAX)
}
