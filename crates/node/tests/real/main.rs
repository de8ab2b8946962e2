//! The real binary under real sockets, real signals and clients that mean no good.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    reason = "tests"
)]

mod access;
mod backup;
mod blame;
mod crowd;
mod definitions;
mod delays;
mod descriptors;
mod disk;
mod durability;
mod frames;
mod full;
mod guessing;
mod hostile;
mod manners;
mod many;
mod missing;
mod nonsense;
mod repair;
mod samples;
mod semantics;
mod short;
mod slow;
mod support;
mod told;
mod transcript;
mod wide;
