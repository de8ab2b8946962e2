//! The cache of open files: its limit, and files whose name becomes another's.

use std::sync::Arc;

use segments::{File, FileCache};
use testing::MemoryDisk;

fn cache(open_files_max: usize) -> Arc<FileCache> {
    let disk = MemoryDisk::new();
    for name in ["a", "b", "c"] {
        File::create(&disk, name).unwrap().write(0, name.as_bytes()).unwrap();
    }
    FileCache::new(Arc::new(disk), open_files_max)
}

#[test]
fn closes_the_file_that_was_not_used_for_longest() {
    let cache = cache(2);
    let [a, b, c] = ["a", "b", "c"].map(|name| cache.closed(name));
    assert!(a.file_at_hand().is_none());
    for file in [&a, &b, &c] {
        assert_eq!(file.file().unwrap().read_all().unwrap(), file.name().as_bytes());
    }
    assert_eq!(cache.n_open(), 2);
    assert!(a.file_at_hand().is_none() && c.file_at_hand().is_some());
    drop(c);
    assert_eq!(a.file().unwrap().read_all().unwrap(), b"a");
    assert!(cache.n_open() <= 2);
}

#[test]
fn a_pinned_file_stays_open_while_another_takes_its_name() {
    let cache = cache(1);
    let pinned = cache.pin(cache.closed("a").file().unwrap());
    let renamed = File::open(cache.disk(), "b").unwrap().rename(cache.disk(), "a").unwrap();
    assert_eq!(renamed.name(), "a");
    let others = ["a", "c", "a"].map(|name| cache.closed(name).file().unwrap());
    assert_eq!(others.map(|other| other.read_all().unwrap()), [b"b", b"c", b"b"]);
    assert_eq!(pinned.file_at_hand().unwrap().read_all().unwrap(), b"a");
}
