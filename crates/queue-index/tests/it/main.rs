//! The files of queues of version 1 through their public interface, on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod formats;
mod queue;
