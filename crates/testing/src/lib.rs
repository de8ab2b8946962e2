//! Parts of tests and of the simulator, built once for several crates: a disk in memory that loses power, a
//! client of AMQP 0-9-1, one of AMQP 1.0 and its performatives, an outbox that writes everything down, random
//! numbers from a seed, a network between nodes, a world of several nodes, samples of files.
//! Never part of the product.
//! Start reading at [`MemoryDisk`], [`client::Client`], [`outbox::Recorder`] and [`cluster_world::simulate`].

pub mod amqp10_client;
pub mod amqp10_peer;
pub mod client;
pub mod cluster_world;
mod first_user;
mod memory_disk;
pub mod net;
mod node_clock;
pub mod outbox;
mod random;
pub mod run;
mod samples;

pub use first_user::first_user;
pub use memory_disk::{CrashOutcome, Fault, MemoryDisk};
pub use node_clock::NodeClock;
pub use random::Random;
pub use samples::{compare_with_sample, disk_with_sample};
