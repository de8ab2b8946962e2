//! The system's allocator with a tally: tests use it to show what allocates and how much.
//! Knows sizes. Never what the memory is for.
//! Start reading at [`Allocator`], then [`Tally`].
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: counting::Allocator = counting::Allocator;
//!
//! let before = counting::in_thread();
//! drop(vec![0_u8; 100]);
//! let allocated = counting::in_thread().since(before);
//! assert_eq!((allocated.n_allocations, allocated.n_bytes), (1, 100));
//! ```

#![expect(unsafe_code, reason = "counting allocations means being the allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting. To be made a test binary's `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator;

/// Allocations so far. Growing an allocation counts as a new one of the new size, since it may have to
/// be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of allocations.
    pub n_allocations: u64,
    /// The bytes of all allocations.
    pub n_bytes: u64,
}

static N_ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static N_BYTES: AtomicU64 = AtomicU64::new(0);
static N_FREED_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<Tally> = const { Cell::new(Tally { n_allocations: 0, n_bytes: 0 }) };
}

/// The allocations of all threads.
#[must_use]
pub fn in_process() -> Tally {
    Tally {
        n_allocations: N_ALLOCATIONS.load(Ordering::Relaxed),
        n_bytes: N_BYTES.load(Ordering::Relaxed),
    }
}

/// The bytes that all threads have allocated and not freed.
#[must_use]
pub fn live_bytes() -> u64 {
    // What is freed was allocated before: read in this order the difference is never negative.
    let n_freed_bytes = N_FREED_BYTES.load(Ordering::Relaxed);
    N_BYTES.load(Ordering::Relaxed).saturating_sub(n_freed_bytes)
}

/// The allocations of this thread.
#[must_use]
pub fn in_thread() -> Tally {
    OF_THREAD.get()
}

impl Tally {
    /// The allocations since an earlier tally of the same kind.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            n_allocations: self.n_allocations - earlier.n_allocations,
            n_bytes: self.n_bytes - earlier.n_bytes,
        }
    }
}

fn count(n_bytes: usize) {
    let n_bytes = n_bytes as u64;
    N_ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    N_BYTES.fetch_add(n_bytes, Ordering::Relaxed);
    let tally = OF_THREAD.get();
    OF_THREAD
        .set(Tally { n_allocations: tally.n_allocations + 1, n_bytes: tally.n_bytes + n_bytes });
}

fn count_freed(n_bytes: usize) {
    N_FREED_BYTES.fetch_add(n_bytes as u64, Ordering::Relaxed);
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those of the method called.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those of the method called.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: the caller's promises are those of the method called.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_freed(layout.size());
        count(new_size);
        // SAFETY: the caller's promises are those of the method called.
        unsafe { System.realloc(at, layout, new_size) }
    }
}
