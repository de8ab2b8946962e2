//! Reads of a blob at the moment its file is replaced: a disk that does something else on the way.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use segments::{Disk, DiskFile, DiskLock, OpenMode, Space};
use store::blob::{BlobId, BlobOptions, BlobStore};
use testing::MemoryDisk;

type Hook = Box<dyn FnOnce() + Send>;

/// Runs a hook once, before a file is opened or after one was renamed.
#[derive(Default)]
struct HookDisk {
    disk: MemoryDisk,
    before_open: Mutex<Option<Hook>>,
    after_rename: Mutex<Option<Hook>>,
}

impl fmt::Debug for HookDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.disk.fmt(f)
    }
}

fn run(hook: &Mutex<Option<Hook>>) {
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

impl Disk for HookDisk {
    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.create_dir(dir)
    }
    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        run(&self.before_open);
        self.disk.open(name, mode)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)?;
        run(&self.after_rename);
        Ok(())
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn sync_all(&self) -> io::Result<()> {
        self.disk.sync_all()
    }
    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(name)
    }
    fn root(&self) -> String {
        self.disk.root()
    }
    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }
    fn set_aside(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.disk.set_aside(name, bytes)
    }
}

/// A store of files of which the first is sparse, with one live blob; the last is kept open.
struct SparseStore {
    disk: Arc<HookDisk>,
    store: Arc<BlobStore>,
    /// A blob of the first file.
    live: BlobId,
    /// Blobs of that file that were released.
    dead: Vec<BlobId>,
    /// Live blobs of later files.
    others: Vec<BlobId>,
}

impl SparseStore {
    fn new() -> Self {
        let disk = Arc::new(HookDisk::default());
        let options =
            BlobOptions { file_bytes: 400, open_files_max: 1, ..BlobOptions::new("blobs") };
        let store = BlobStore::open(Arc::clone(&disk) as _, options).unwrap();
        store.start_reclaiming();
        let dead: Vec<BlobId> = (0..4).map(|_| store.append(&[&[0; 60]])).collect();
        let live = store.append(&[b"live"]);
        // The file that is filled last stays open.
        let others = (0..12).map(|_| store.append(&[&[1; 60]]));
        let (first, others): (Vec<BlobId>, Vec<_>) = others.partition(|id| id.file == live.file);
        assert!(others.iter().any(|other| other.file > live.file));
        store.sync().unwrap();
        let dead: Vec<BlobId> = dead.into_iter().chain(first).collect();
        dead.iter().for_each(|id| assert!(store.release(*id, 1)));
        Self { disk, store: Arc::new(store), live, dead, others }
    }
}

fn reclaim(store: &BlobStore) {
    assert!(store.plan_reclaiming(|_| true));
    while store.reclaim_step(1000).unwrap().has_more {}
    assert!(store.stats().reclaimed_bytes > 0);
}

fn read(store: &BlobStore, id: BlobId) -> Vec<u8> {
    let mut into = Vec::new();
    store.read(id, &mut into).unwrap();
    into
}

#[test]
fn a_file_replaced_while_it_is_being_opened_is_looked_up_again() {
    let SparseStore { disk, store, live, dead, others } = SparseStore::new();
    assert!(store.retain(dead[0], 1));
    assert!(store.plan_reclaiming(|_| true));
    assert!(store.reclaim_step(1).unwrap().has_more, "one of two blobs is copied");
    read(&store, others[0]);
    let other = Arc::clone(&store);
    *disk.before_open.lock().unwrap() = Some(Box::new(move || finish(&other)));
    assert_eq!(read(&store, live), b"live");
    assert!(disk.before_open.lock().unwrap().is_none(), "it was opened");
    assert!(store.stats().reclaimed_bytes > 0);
    assert_eq!(read(&store, live), b"live");
}

#[test]
fn a_read_between_the_new_name_and_the_new_places_finds_the_old_file() {
    let SparseStore { disk, store, live, .. } = SparseStore::new();
    let (other, found) = (Arc::clone(&store), Arc::new(OnceLock::new()));
    let told = Arc::clone(&found);
    *disk.after_rename.lock().unwrap() = Some(Box::new(move || {
        told.set(read(&other, live)).unwrap();
    }));
    reclaim(&store);
    assert_eq!(found.get().unwrap(), b"live");
    assert_eq!(read(&store, live), b"live");
}

fn finish(store: &BlobStore) {
    while store.reclaim_step(1000).unwrap().has_more {}
}

#[test]
fn retain_refuses_blobs_that_the_planned_rewriting_drops() {
    let SparseStore { store, live, dead, .. } = SparseStore::new();
    assert!(store.plan_reclaiming(|_| true));
    assert!(dead.iter().all(|id| !store.retain(*id, 1)), "planned to go");
    assert!(store.retain(live, 1));
    finish(&store);
    assert!(dead.iter().all(|id| store.blob_bytes(*id).is_none()));
    assert_eq!(read(&store, live), b"live");
}

#[test]
fn retain_refuses_blobs_of_a_file_that_is_planned_to_go() {
    let SparseStore { store, live, others, .. } = SparseStore::new();
    assert!(store.release(live, 1));
    assert!(store.plan_reclaiming(|_| true));
    assert!(!store.retain(live, 1), "planned to go");
    finish(&store);
    assert!(store.stats().reclaimed_bytes > 0);
    assert_eq!(read(&store, others[0]), [1; 60]);
}

#[test]
fn a_blob_released_after_the_plan_may_be_retained_until_the_next() {
    let SparseStore { store, live, .. } = SparseStore::new();
    assert!(store.plan_reclaiming(|_| true));
    assert!(store.release(live, 1));
    assert!(store.retain(live, 1), "referred to when it was planned");
    finish(&store);
    assert_eq!(read(&store, live), b"live");
    assert!(store.release(live, 1));
    reclaim(&store);
    assert!(!store.retain(live, 1));
}

#[test]
fn a_file_that_may_not_be_copied_keeps_what_nothing_refers_to() {
    let SparseStore { store, live, dead, .. } = SparseStore::new();
    assert!(!store.plan_reclaiming(|_| false));
    assert!(store.retain(dead[0], 1), "nothing is planned");
    store.plan_reclaiming(|_| true);
    finish(&store);
    assert_eq!(read(&store, dead[0]), [0; 60]);
    assert_eq!(read(&store, live), b"live");
}
