//! Nodes of a cluster over a simulated network: the definitions' group and others, the links between nodes
//! with their real bytes, pulses, logs on simulated disks.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers may panic")]

mod cluster;
mod groups;
mod ledger;
mod named_faults;
mod node;
mod pair;
mod simulation;
mod sockets;
