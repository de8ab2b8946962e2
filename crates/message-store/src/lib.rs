//! Bodies that several queues hold: one store for each virtual host, one copy however many name it.
//! Knows which virtual host's store a body is in. Never which queues or log entries name it. Large properties
//! of such messages are stored in front of their bodies.
//!
//! A body is appended before the log entries that name it, and the log has the stores synced before
//! each commit: what a durable entry names is durable. References are counted in memory and counted
//! anew by every start.

use bytes::Bytes;
use log::{LogError, Lsn, Stamper};
use message::{MessageRef, Properties};
use routing::Name;
use segments::{Disk, IoContext, list_if_there, sync_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use stdx::lock;
use store::backlog::{SharedBody, SharedProperties};
use store::blob::{BlobId, BlobOptions, BlobStore, BodyFiles};
use store::{StoreError, StoredBody};

/// The directory that has a directory for each virtual host that has files of its own.
pub const VHOSTS_DIR: &str = "vhosts";
/// Bodies of at least this size are kept in shared memory rather than copied into a page.
pub const SHARED_BODY_MIN_BYTES: usize = 8 * 1024;
/// Properties of at least this length that go to several queues are stored once for all of them.
pub const SHARED_PROPERTIES_MIN_BYTES: usize = 4 * 1024;
/// The longest part of a virtual host's name in its directory's name, in bytes; a number stands for the rest.
const DIR_NAME_BYTES_MAX: usize = 100;

/// The stores of a node.
#[derive(Debug)]
pub struct MessageStores {
    disk: Arc<dyn Disk>,
    file_bytes: u32,
    embed_below: usize,
    stamper: Arc<Stamper>,
    /// The table that is told which files there are, once they are opened.
    told: OnceLock<Arc<BodyFiles>>,
    stores: Mutex<Stores>,
    unsynced: Unsynced,
}

/// Stores in which something may wait for a sync.
type Unsynced = Arc<Mutex<Vec<Arc<BodyStore>>>>;

#[derive(Debug, Default)]
struct Stores {
    by_vhost: BTreeMap<Name, Arc<BodyStore>>,
    /// Whether everything that names a body is counted.
    is_counted: bool,
    /// Stores of virtual hosts that are gone: to be removed once the log is durable up to this entry.
    leaving: BTreeMap<Name, Lsn>,
    /// Names of directories of virtual hosts that the node knows nothing of.
    leftovers: BTreeSet<String>,
}

/// A virtual host's bodies.
#[derive(Debug)]
pub struct BodyStore {
    /// The files.
    pub blobs: BlobStore,
    unsynced: Unsynced,
    /// Whether the store is in `unsynced`.
    is_unsynced: AtomicBool,
}

impl MessageStores {
    /// No stores yet. A body of `embed_below` bytes or more is worth being stored once; files take no more
    /// from `file_bytes` on, 0 for the usual length.
    pub fn new(
        disk: Arc<dyn Disk>,
        embed_below: usize,
        file_bytes: u32,
        stamper: Arc<Stamper>,
    ) -> Self {
        Self {
            disk,
            file_bytes,
            embed_below,
            stamper,
            told: OnceLock::new(),
            stores: Mutex::default(),
            unsynced: Unsynced::default(),
        }
    }

    /// Opens the stores of the virtual hosts there are, and removes those of `deleted` ones. Others stay.
    ///
    /// # Errors
    /// The disk's.
    pub fn open_all<'a>(
        &self,
        vhosts: impl Iterator<Item = &'a Name>,
        deleted: impl Iterator<Item = &'a Name>,
    ) -> Result<(), StoreError> {
        self.told.set(Arc::new(BodyFiles::open(Arc::clone(&self.disk))?)).ok();
        let found = list_if_there(self.disk.as_ref(), VHOSTS_DIR)?;
        let mut found: BTreeSet<String> = found.into_iter().flatten().collect();
        let mut stores = lock(&self.stores);
        for vhost in vhosts {
            if found.remove(&dir_name(vhost)) {
                let options = self.options(bodies_dir_of(vhost));
                let blobs = BlobStore::open(Arc::clone(&self.disk), options)?;
                stores.by_vhost.insert(vhost.clone(), Arc::new(self.store(blobs)));
            }
        }
        for dir in deleted.map(|vhost| dir_name(vhost)).filter(|dir| found.remove(dir)) {
            self.remove(&format!("{VHOSTS_DIR}/{dir}"))?;
        }
        stores.leftovers = found;
        Ok(())
    }

    /// Gives the directory of an unknown virtual host another name if it has that of one which is about to be
    /// made: that one begins without bodies. Durable when it returns.
    ///
    /// # Errors
    /// The disk's.
    pub fn set_leftover_aside(&self, vhost: &str) -> Result<(), StoreError> {
        let (mut stores, dir) = (lock(&self.stores), dir_name(vhost));
        if !stores.leftovers.contains(&dir) {
            return Ok(());
        }
        self.told.get().map_or(Ok(()), |told| told.forget(&bodies_dir_of(vhost), |_| true))?;
        // No virtual host's own directory has a dot in its name.
        let mut names = (1_u64..).map(|n| format!("{dir}.{n}"));
        let aside = names.find(|name| !stores.leftovers.contains(name)).unwrap_or_default();
        let [from, to] = [&dir, &aside].map(|dir| format!("{VHOSTS_DIR}/{dir}"));
        self.disk.rename(&from, &to).context("rename", &from)?;
        sync_dir(self.disk.as_ref(), VHOSTS_DIR)?;
        stores.leftovers.remove(&dir);
        stores.leftovers.insert(aside);
        Ok(())
    }

    /// Directories of virtual hosts that are neither there nor known to have been deleted.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let stores = lock(&self.stores);
        stores.leftovers.iter().map(|dir| format!("{VHOSTS_DIR}/{dir}")).collect()
    }

    fn options(&self, dir: String) -> BlobOptions {
        let stamper = Arc::clone(&self.stamper);
        let told = self.told.get().cloned();
        let mut options = BlobOptions { stamper, told, ..BlobOptions::new(dir) };
        if self.file_bytes > 0 {
            options.file_bytes = self.file_bytes;
        }
        options
    }

    fn store(&self, blobs: BlobStore) -> BodyStore {
        let unsynced = Arc::clone(&self.unsynced);
        BodyStore { blobs, unsynced, is_unsynced: AtomicBool::new(false) }
    }

    fn remove(&self, vhost_dir: &str) -> Result<(), StoreError> {
        let bodies = format!("{vhost_dir}/bodies");
        self.told.get().map_or(Ok(()), |told| told.forget(&bodies, |_| true))?;
        store::blob::remove_all(self.disk.as_ref(), &bodies)?;
        Ok(self.disk.remove_dir(vhost_dir).context("remove", vhost_dir)?)
    }

    /// The store of a virtual host. Touches no disk.
    pub fn of(&self, vhost: &Name) -> Arc<BodyStore> {
        let mut stores = lock(&self.stores);
        if let Some(store) = stores.by_vhost.get(vhost) {
            return Arc::clone(store);
        }
        let options = self.options(bodies_dir_of(vhost));
        let blobs = BlobStore::create(Arc::clone(&self.disk), options);
        if stores.is_counted {
            blobs.start_reclaiming();
        }
        let store = Arc::new(self.store(blobs));
        stores.by_vhost.insert(vhost.clone(), Arc::clone(&store));
        store
    }

    /// All stores there are.
    pub fn all(&self) -> Vec<(Name, Arc<BodyStore>)> {
        let stores = lock(&self.stores);
        let named = |(vhost, store): (&Name, &Arc<BodyStore>)| (vhost.clone(), Arc::clone(store));
        stores.by_vhost.iter().map(named).collect()
    }

    /// Whether a body is worth being stored once when several queues log it.
    pub const fn is_stored(&self, body_bytes: usize) -> bool {
        body_bytes >= self.embed_below
    }

    /// Makes durable what was appended before the call.
    ///
    /// # Errors
    /// The disk's; nothing that names a body may be reported durable any more.
    pub fn sync(&self) -> Result<(), LogError> {
        let stores = std::mem::take(&mut *lock(&self.unsynced));
        let poisoned = |error: StoreError| LogError::Poisoned { reason: error.to_string() };
        for store in stores {
            // A body appended from now on may be in this sync or not: it marks the store unsynced again.
            store.is_unsynced.store(false, Ordering::SeqCst);
            store.blobs.sync().map_err(poisoned)?;
        }
        Ok(())
    }

    /// Writes what was appended before the call, whether log entries are to name it or not.
    ///
    /// # Errors
    /// The disk's.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.all().iter().try_for_each(|(_, store)| store.blobs.sync())
    }

    /// Starts reclaiming once everything that names a body is counted: bodies that nothing names may go.
    pub fn start_reclaiming(&self) {
        let mut stores = lock(&self.stores);
        stores.is_counted = true;
        stores.by_vhost.values().for_each(|store| store.blobs.start_reclaiming());
    }

    /// Removes the stores of virtual hosts that are no more, once nobody uses them and that is
    /// durable. `appended` and `durable`: how far the log has come.
    pub fn leave(&self, is_there: impl Fn(&str) -> bool, appended: Lsn, durable: Lsn) {
        let mut stores = lock(&self.stores);
        let Stores { by_vhost, leaving, .. } = &mut *stores;
        leaving.retain(|vhost, _| !is_there(vhost));
        for vhost in by_vhost.keys().filter(|vhost| !is_there(vhost)) {
            leaving.entry(vhost.clone()).or_insert(appended);
        }
        let mut left = Vec::new();
        for (vhost, upto) in leaving.iter().filter(|(_, upto)| **upto <= durable) {
            let is_unused = |store: &mut Arc<BodyStore>| Arc::get_mut(store).is_some();
            if by_vhost.get_mut(vhost).is_none_or(is_unused) {
                by_vhost.remove(vhost);
                left.push(vhost.clone());
            }
            debug_assert!(*upto <= durable);
        }
        for vhost in left {
            leaving.remove(&vhost);
            if let Err(error) = self.remove(&format!("{VHOSTS_DIR}/{}", dir_name(&vhost))) {
                tracing::warn!("cannot remove the files of virtual host {vhost}: {error}");
            }
        }
    }
}

impl Drop for MessageStores {
    /// Clears the list of unsynced stores: the stores in it hold the list in turn.
    fn drop(&mut self) {
        lock(&self.unsynced).clear();
    }
}

impl BodyStore {
    /// Takes a body, with one reference.
    fn append(self: &Arc<Self>, parts: &[&[u8]]) -> BlobId {
        let blob = self.blobs.append(parts);
        if !self.is_unsynced.swap(true, Ordering::SeqCst) {
            lock(&self.unsynced).push(Arc::clone(self));
        }
        blob
    }

    /// Takes the body of a message that is about to be kept; its reference is the caller's.
    pub fn store(self: &Arc<Self>, body: &[u8]) -> StoredBody {
        let bytes = u32::try_from(body.len()).expect("bodies are < 4 GiB");
        StoredBody { blob: self.append(&[body]), bytes, properties_bytes: 0 }
    }

    /// Adds a reference; false if there is no such body.
    pub fn retain(&self, blob: BlobId) -> bool {
        self.blobs.retain(blob, 1)
    }

    /// Gives references back, after the log was told what they were for.
    pub fn release(&self, blobs: impl IntoIterator<Item = BlobId>) {
        for blob in blobs {
            if !self.blobs.release(blob, 1) {
                tracing::error!("released {blob:?} in {}, which does not exist", self.blobs.dir());
            }
        }
    }
}

/// Where the bodies of a virtual host are.
pub fn bodies_dir_of(vhost: &str) -> String {
    format!("{VHOSTS_DIR}/{}/bodies", dir_name(vhost))
}

/// Where the body of one message is stored that goes to several queues: nowhere until the first of
/// them logs it, or has it written with a page. Keeps a reference until it is dropped.
#[derive(Debug)]
pub struct BodyHome {
    store: Arc<BodyStore>,
    stored: OnceLock<StoredBody>,
    /// The properties that are stored in front of the body.
    properties: Option<SharedProperties>,
    /// Whether log entries name the body. One queue alone logs it with the message: one write and one sync.
    pub is_logged_apart: bool,
}

impl BodyHome {
    /// A home in this store for the body of a message with these properties that so many queues log.
    pub fn new(store: &Arc<BodyStore>, properties: &[u8], n_logging: usize) -> Arc<Self> {
        let is_large = properties.len() >= SHARED_PROPERTIES_MIN_BYTES;
        Arc::new(Self {
            store: Arc::clone(store),
            stored: OnceLock::new(),
            properties: is_large.then(|| shared(properties)),
            is_logged_apart: n_logging > 1,
        })
    }

    /// Puts `body` in the store unless it is there; returns how many bytes were added.
    pub fn settle(&self, body: &[u8]) -> usize {
        let mut added_bytes = 0;
        self.stored.get_or_init(|| {
            let properties = self.properties.as_ref().map_or(&[][..], |shared| &shared.whole);
            added_bytes = properties.len() + body.len();
            let blob = self.store.append(&[properties, body]);
            let bytes = u32::try_from(body.len()).expect("bodies are < 4 GiB");
            let properties_bytes = u32::try_from(properties.len()).expect("properties are < 4 GiB");
            StoredBody { blob, bytes, properties_bytes }
        });
        added_bytes
    }

    /// The message as the log is to have it, and where the rest of it is.
    pub fn logged<'m>(&'m self, message: &MessageRef<'m>) -> (MessageRef<'m>, Option<StoredBody>) {
        if self.is_logged_apart { self.named(message) } else { (*message, None) }
    }

    /// The message without what is in the store, and where that is: as a journal is to have it.
    pub fn named<'m>(&'m self, message: &MessageRef<'m>) -> (MessageRef<'m>, Option<StoredBody>) {
        let stored = self.stored();
        let brief = self.properties.as_ref().filter(|_| stored.is_some());
        let properties = brief.map_or(message.properties, |shared| &shared.brief);
        (MessageRef { properties, ..*message }, stored)
    }

    /// The stored body, if it is stored.
    pub fn stored(&self) -> Option<StoredBody> {
        self.stored.get().copied()
    }

    /// A reference for the caller.
    pub fn retain(&self) -> Option<BlobId> {
        let blob = self.stored.get()?.blob;
        self.store.retain(blob);
        Some(blob)
    }
}

impl SharedBody for BodyHome {
    fn name(&self, body: &[u8]) -> (Option<BlobId>, usize) {
        let added_bytes = self.settle(body);
        (self.retain(), added_bytes)
    }

    fn properties(&self) -> Option<&SharedProperties> {
        self.properties.as_ref()
    }
}

/// Properties to be shared. Their priority is known before they are read, for queues go by it.
#[cold]
fn shared(properties: &[u8]) -> SharedProperties {
    let priority = message::View::of(properties).priority();
    let brief = Properties { priority, ..Properties::default() }.to_bytes();
    SharedProperties { whole: Bytes::copy_from_slice(properties), brief }
}

impl Drop for BodyHome {
    fn drop(&mut self) {
        self.store.release(self.stored().map(|stored| stored.blob));
    }
}

/// The name of a virtual host's directory: its own, with other characters than letters, digits, `-`
/// and `_` as `%` and their number. Of a long one only the beginning, with a number of the whole.
fn dir_name(vhost: &str) -> String {
    let mut name = String::new();
    for byte in vhost.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ok = write!(name, "%{byte:02X}").is_ok();
        }
    }
    if name.len() > DIR_NAME_BYTES_MAX {
        let number =
            |number: u64, byte: u8| (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let number = vhost.bytes().fold(0xcbf2_9ce4_8422_2325, number);
        name.truncate(DIR_NAME_BYTES_MAX);
        let _ok = write!(name, "~{number:016x}").is_ok();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::{CrashOutcome, MemoryDisk};

    #[test]
    fn names_of_directories_are_plain_and_differ() {
        assert_eq!(dir_name("/"), "%2F");
        assert_eq!(dir_name("a-b_c.d/é"), "a-b_c%2Ed%2F%C3%A9");
        let long = [dir_name(&"/".repeat(255)), dir_name(&"/".repeat(254))];
        assert!(long.iter().all(|name| name.len() < 255 && name.is_ascii()) && long[0] != long[1]);
    }

    fn bodies(disk: &MemoryDisk) -> MessageStores {
        MessageStores::new(Arc::new(disk.clone()), 10, 0, Arc::default())
    }

    fn keep(bodies: &MessageStores, vhost: &Name, body: &[u8]) -> BlobId {
        let home = BodyHome::new(&bodies.of(vhost), &[], 2);
        assert_eq!(home.settle(body), body.len());
        assert_eq!(home.settle(body), 0, "it is there");
        let blob = home.retain().unwrap();
        bodies.sync().unwrap();
        blob
    }

    #[test]
    fn a_body_is_stored_once_and_goes_with_its_last_reference() {
        let disk = MemoryDisk::new();
        let bodies = bodies(&disk);
        let vhost = Name::from("a");
        bodies.start_reclaiming();
        let blob = keep(&bodies, &vhost, b"ten or more");
        let store = bodies.of(&vhost);
        assert_eq!(store.blobs.stats().live_blobs, 1);
        store.release([blob]);
        assert_eq!(store.blobs.stats().live_blobs, 0);
    }

    #[test]
    fn files_go_with_their_virtual_host_when_that_is_durable() {
        let disk = MemoryDisk::new();
        let bodies = bodies(&disk);
        let [stays, goes] = ["stays", "goes"].map(Name::from);
        keep(&bodies, &stays, b"a body");
        keep(&bodies, &goes, b"another");
        let is_there = |vhost: &str| vhost == "stays";
        bodies.leave(is_there, Lsn(5), Lsn(4));
        bodies.leave(is_there, Lsn(7), Lsn(4));
        assert_eq!(disk.list(VHOSTS_DIR).unwrap(), ["goes", "stays"]);
        let user = bodies.of(&goes);
        bodies.leave(is_there, Lsn(7), Lsn(5));
        assert_eq!(disk.list(VHOSTS_DIR).unwrap(), ["goes", "stays"], "somebody uses it");
        drop(user);
        bodies.leave(is_there, Lsn(7), Lsn(5));
        assert_eq!(disk.list(VHOSTS_DIR).unwrap(), ["stays"]);
    }

    #[test]
    fn a_start_removes_files_of_deleted_virtual_hosts_and_keeps_those_of_unknown_ones() {
        let disk = MemoryDisk::new();
        let [stays, goes, unknown] = ["stays", "goes", "unknown"].map(Name::from);
        let before = bodies(&disk);
        let blob = keep(&before, &stays, b"a body");
        keep(&before, &goes, b"another");
        keep(&before, &unknown, b"nobody's");
        for _ in 0..2 {
            let after = bodies(&disk);
            after.open_all([&stays].into_iter(), [&goes].into_iter()).unwrap();
            after.start_reclaiming();
            assert_eq!(disk.list(VHOSTS_DIR).unwrap(), ["stays", "unknown"]);
            assert_eq!(after.leftovers(), ["vhosts/unknown"]);
            let mut found = Vec::new();
            after.of(&stays).blobs.read(blob, &mut found).unwrap();
            assert_eq!(found, b"a body");
        }
    }

    #[test]
    fn a_new_virtual_host_begins_without_the_bodies_of_an_unknown_one_of_its_name() {
        let mut disk = MemoryDisk::new();
        let vhost = Name::from("x");
        keep(&bodies(&disk), &vhost, b"nobody's");
        let left = disk.files();
        let open = |disk: &MemoryDisk, vhosts: &[Name]| {
            let bodies = bodies(disk);
            bodies.open_all(vhosts.iter(), [].into_iter()).unwrap();
            bodies.start_reclaiming();
            bodies
        };
        for n in 1..4 {
            let after = open(&disk, &[]);
            after.set_leftover_aside("another").unwrap();
            after.set_leftover_aside("x").unwrap();
            let names: Vec<_> = (1..=n).map(|n| format!("vhosts/x.{n}")).collect();
            assert_eq!(after.leftovers(), names);
            disk = disk.survive(CrashOutcome::OnlySynced);
            let after = open(&disk, &[]);
            assert_eq!(after.leftovers(), names);
            let blob = keep(&after, &vhost, b"a body of its own");
            drop(after);
            let after = open(&disk, std::slice::from_ref(&vhost));
            assert_eq!(after.leftovers(), names);
            let mut found = Vec::new();
            after.of(&vhost).blobs.read(blob, &mut found).unwrap();
            assert_eq!(found, b"a body of its own");
            let kept = disk.files().into_iter().find(|(name, _)| name.contains("x.1/bodies"));
            assert_eq!(kept.unwrap().1, left.last().unwrap().1);
        }
    }
}
