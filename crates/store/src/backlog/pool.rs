use super::page::{ENTRY_BYTES, Page};
use std::sync::Mutex;

/// Pages of up to this capacity are kept apart, for queues that are allowed little memory.
const SMALL_BYTES: usize = 32 * 1024;
/// A page with more is not kept.
const LARGE_BYTES_MAX: usize = 256 * 1024;
/// The most bytes of memory of all pages kept.
const SPARE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most pages that are kept.
const SPARE_PAGES_MAX: usize = 256;

/// Emptied pages waiting for reuse, shared by all queues of a node.
#[derive(Debug, Default)]
pub struct PagePool {
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "pages are boxed in their slots and go in and out as they are")]
struct Spare {
    small: Vec<Box<Page>>,
    large: Vec<Box<Page>>,
    bytes: usize,
}

const _: () = assert!(SMALL_BYTES < LARGE_BYTES_MAX && LARGE_BYTES_MAX <= SPARE_BYTES_MAX);

const fn capacity_bytes(page: &Page) -> usize {
    page.bytes.capacity() + page.entries.capacity() * ENTRY_BYTES
}

impl PagePool {
    /// An empty page, for about `bytes` of content.
    pub(super) fn take(&self, bytes: usize) -> Box<Page> {
        let mut spare = stdx::lock(&self.spare);
        let page = if bytes > SMALL_BYTES / 2 {
            spare.large.pop().or_else(|| spare.small.pop())
        } else {
            spare.small.pop()
        };
        if let Some(page) = &page {
            spare.bytes -= capacity_bytes(page);
        }
        drop(spare);
        page.unwrap_or_default()
    }

    pub(super) fn give(&self, mut page: Box<Page>) {
        let capacity = capacity_bytes(&page);
        if capacity > LARGE_BYTES_MAX {
            return;
        }
        page.clear();
        let mut spare = stdx::lock(&self.spare);
        if spare.bytes + capacity > SPARE_BYTES_MAX
            || spare.small.len() + spare.large.len() >= SPARE_PAGES_MAX
        {
            return;
        }
        spare.bytes += capacity;
        if capacity > SMALL_BYTES {
            spare.large.push(page);
        } else {
            spare.small.push(page);
        }
    }
}
