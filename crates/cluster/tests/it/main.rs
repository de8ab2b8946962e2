//! Groups of replicas, each over a log on a simulated disk.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod groups;
mod hostile;
mod large_images;
mod parsing;
mod simulation;
mod world;
