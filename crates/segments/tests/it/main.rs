//! Files of a data directory on a simulated disk.
#![expect(clippy::unwrap_used, reason = "a test's helpers may panic")]

mod cache;
mod reserve;
mod snapshots;
