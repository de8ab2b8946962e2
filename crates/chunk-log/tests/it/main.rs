//! The log of chunks on a disk in memory.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test's helpers"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "other things are a failed test")]

mod basics;
mod crashes;
mod kept;
mod lacks;
mod parts;
mod readers;
mod real_disk;
