//! Tests of how nodes become a cluster.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test's helpers may panic")]

mod fuzz;
mod joining;
mod rules;
mod simulation;
mod world;
