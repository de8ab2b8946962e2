//! Tests of what nodes say to each other.
#![expect(clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod frames;
mod fuzz;
mod handshakes;
mod links;
mod messages;
mod peers;
mod scenarios;
mod world;
