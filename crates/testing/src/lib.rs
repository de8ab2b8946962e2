//! Parts of tests and of the simulator, built once for several crates: a disk in memory that loses power.
//! Never part of the product.
//! Start reading at [`MemoryDisk`].

mod memory_disk;

pub use memory_disk::{CrashOutcome, Fault, MemoryDisk};
