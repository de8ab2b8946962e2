//! A disk under the node that fails on demand: `faults.c`, loaded into its process.
//!
//! Whether a node has one is told by its home: the directory `faults` is there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The faults that can be switched on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A sync takes 100 ms.
    SlowSync,
    /// A sync fails with an input/output error.
    SyncFails,
    /// Half of a write gets in, then no space is left.
    NoSpace,
    /// A read fails with an input/output error.
    ReadFails,
    /// A read that may wait takes 100 ms.
    SlowRead,
}

impl Fault {
    const fn file(self) -> &'static str {
        match self {
            Self::SlowSync => "slow-sync",
            Self::SyncFails => "sync-fails",
            Self::NoSpace => "no-space",
            Self::ReadFails => "read-fails",
            Self::SlowRead => "slow-read",
        }
    }
}

fn dir(home: &Path) -> PathBuf {
    home.join("faults")
}

/// Makes the disk of nodes with this home one that can fail.
pub(crate) fn install(home: &Path) {
    std::fs::create_dir(dir(home)).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process/support/faults.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(dir(home).join("disk.so")).arg(source);
    assert!(compiler.status().unwrap().success(), "cc");
}

/// Gives the process that disk, if its home has one.
pub(crate) fn load(home: &Path, node: &mut Command) {
    let faults = dir(home);
    if faults.exists() {
        node.env("LD_PRELOAD", faults.join("disk.so")).env("LEVERET_FAULTS", faults);
    }
}

/// From now on, for everything whose path contains `place`.
pub(crate) fn switch_on(home: &Path, fault: Fault, place: &str) {
    let draft = dir(home).join("draft");
    std::fs::write(&draft, place).unwrap();
    std::fs::rename(draft, dir(home).join(fault.file())).unwrap();
}

/// No more.
pub(crate) fn switch_off(home: &Path, fault: Fault) {
    std::fs::remove_file(dir(home).join(fault.file())).unwrap();
}
