//! The files of classic queues through their public interface, on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]
#![expect(clippy::disallowed_methods, reason = "samples are files")]

mod blob;
mod blob_races;
mod formats;
mod v1;
