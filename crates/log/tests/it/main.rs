//! The log through its public interface, most of it on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]
#![expect(clippy::wildcard_enum_match_arm, reason = "another error fails the test")]

mod missing;
mod simulation;
mod threads;
mod wal;
