//! Definitions of several nodes, each over a log on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod commands;
mod scenes;
mod simulation;
mod wire;
mod world;
