//! The files of classic queues through their public interface, on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod blob;
mod blob_races;
mod formats;
