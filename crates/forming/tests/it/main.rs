//! Tests of how nodes become a cluster.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod fuzz;
mod joining;
mod rules;
mod simulation;
mod world;
