//! Reads of a blob at the moment its file is replaced: a disk that does something else on the way.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use log::{Disk, DiskFile, DiskLock, OpenMode, Space};
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

/// A store of files of which the first is sparse, its last blob being live; none is kept open.
fn sparse_store() -> (Arc<HookDisk>, Arc<BlobStore>, BlobId) {
    let disk = Arc::new(HookDisk::default());
    let options = BlobOptions { file_bytes: 400, open_files_max: 0, ..BlobOptions::new("blobs") };
    let store = BlobStore::open(Arc::clone(&disk) as _, options).unwrap();
    store.start_reclaiming();
    let dead: Vec<BlobId> = (0..4).map(|_| store.append(&[&[0; 60]])).collect();
    let live = store.append(&[b"live"]);
    // The file that is filled last stays open.
    let others: Vec<BlobId> = (0..12).map(|_| store.append(&[&[1; 60]])).collect();
    assert!(others.iter().any(|other| other.file > live.file));
    store.sync().unwrap();
    dead.iter().for_each(|id| assert!(store.release(*id, 1)));
    (disk, Arc::new(store), live)
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
    let (disk, store, live) = sparse_store();
    let other = Arc::clone(&store);
    *disk.before_open.lock().unwrap() = Some(Box::new(move || reclaim(&other)));
    assert_eq!(read(&store, live), b"live");
    assert!(disk.before_open.lock().unwrap().is_none(), "it was opened");
    assert_eq!(read(&store, live), b"live");
}

#[test]
fn a_read_between_the_new_name_and_the_new_places_finds_the_old_file() {
    let (disk, store, live) = sparse_store();
    let (other, found) = (Arc::clone(&store), Arc::new(OnceLock::new()));
    let told = Arc::clone(&found);
    *disk.after_rename.lock().unwrap() = Some(Box::new(move || {
        told.set(read(&other, live)).unwrap();
    }));
    reclaim(&store);
    assert_eq!(found.get().unwrap(), b"live");
    assert_eq!(read(&store, live), b"live");
}
