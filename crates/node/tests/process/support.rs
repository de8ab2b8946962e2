//! A node as a process.

pub(crate) mod bystander;
pub(crate) mod faults;
pub(crate) mod node;
pub(crate) mod stopwatch;
pub(crate) mod stream_client;
pub(crate) mod volume;

use std::path::Path;
use std::time::{Duration, Instant};
pub(crate) use testing::client::DEADLINE;

/// Waits until the condition holds; fails with `what` when it never does.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "in vain waited for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Copies the files of a directory and those below; sockets are left out.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_dir(&entry.path(), &to);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
