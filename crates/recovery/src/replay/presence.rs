//! Whether everything is there that the definitions and the log name, and belongs to this log. Only
//! looked at: a start that refuses leaves everything as it is.

use super::Replay;
use crate::error::OpenError;
use content::PAGES_DIR;
use content::QUEUES_DIR;
use control::DEFINITIONS_FILE;
use log::{Lsn, Stamp, WalFound};
use message_store::VHOSTS_DIR;
use meta::{QueueDef, QueueVersion};
use queue_index::{JournalTable, missing_bodies};
use segments::{Disk, FileError};
use std::collections::BTreeMap;
use store::blob::{BODIES_FILE, BlobStore, ToldFiles};

/// The files of a store of blobs.
type Files = BTreeMap<u32, Option<Stamp>>;

/// `snapshot` is the stamp of the definitions, if there are definitions and they have one.
pub(super) fn check(
    disk: &dyn Disk,
    replay: &Replay,
    log: &WalFound,
    snapshot: Option<Option<Stamp>>,
) -> Result<(), OpenError> {
    if log.is_new() {
        return check_new(disk, snapshot.is_some());
    }
    match snapshot {
        Some(Some(stamp)) => log.check(DEFINITIONS_FILE, stamp)?,
        Some(None) => {}
        // The commands before the first entry are nowhere else.
        None if log.first() > Lsn(1) => {
            let first = log.first().0;
            let what =
                format!("the log begins with entry {first} and relies on it for what was before");
            return Err(missing(DEFINITIONS_FILE.to_owned(), what));
        }
        None => {}
    }
    let pages = files(disk, log, PAGES_DIR)?;
    let names = replay.meta.vhosts().map(|vhost| &vhost.name);
    let bodies =
        names.map(|name| Ok((name, files(disk, log, &message_store::bodies_dir_of(name))?)));
    let bodies = bodies.collect::<Result<BTreeMap<_, _>, OpenError>>()?;
    let promised = JournalTable::read(disk)?;
    let told = ToldFiles::read(disk)?;
    for def in replay.meta.queues().iter() {
        match replay.versions.of(def.id) {
            QueueVersion::V1 => {
                if let Some(promised) = promised.get(&def.id.0) {
                    let dir = content::journals_dir_of(def.id.0);
                    promised.check(disk, &dir)?;
                    if promised.names_bodies {
                        let is_there = |number| is_there(bodies.get(&def.vhost), number);
                        refuse_lack(def, missing_bodies(disk, &dir, &is_there)?)?;
                    }
                }
            }
            QueueVersion::V2 => {
                check_pages(replay, def, &pages)?;
                check_bodies(replay, def, bodies.get(&def.vhost))?;
            }
        }
    }
    bodies.iter().try_for_each(|(vhost, files)| check_told(&told, vhost, files))
}

/// Files of bodies that only pages name, or perhaps nobody.
fn check_told(told: &ToldFiles, vhost: &str, files: &Files) -> Result<(), OpenError> {
    let dir = message_store::bodies_dir_of(vhost);
    let lack = told.of(&dir).find(|number| !files.contains_key(number));
    lack.map_or(Ok(()), |number| {
        let what =
            format!("{BODIES_FILE} lists the file, with bodies of messages of vhost '{vhost}'");
        Err(missing(BlobStore::name_of(&dir, number), what))
    })
}

fn missing(file: String, what: String) -> OpenError {
    FileError::Missing { file, what }.into()
}

/// Without a log there is nothing else either.
fn check_new(disk: &dyn Disk, has_definitions: bool) -> Result<(), OpenError> {
    let has_files = |dir: &&str| disk.list(dir).is_ok_and(|names| !names.is_empty());
    let dir = [PAGES_DIR, VHOSTS_DIR, QUEUES_DIR].into_iter().find(has_files);
    let found = if has_definitions { Some(DEFINITIONS_FILE) } else { dir };
    found.map_or(Ok(()), |found| {
        let what = format!("{found} is there, and nothing of the log; is a volume not mounted?");
        Err(missing("wal".to_owned(), what))
    })
}

/// The files in a directory, which belong to this log.
fn files(disk: &dyn Disk, log: &WalFound, dir: &str) -> Result<Files, OpenError> {
    let files = store::blob::stamps(disk, dir)?;
    for (number, stamp) in &files {
        if let Some(stamp) = stamp {
            log.check(&BlobStore::name_of(dir, *number), *stamp)?;
        }
    }
    Ok(files)
}

fn check_pages(replay: &Replay, def: &QueueDef, files: &Files) -> Result<(), OpenError> {
    let mut pages = replay.contents.pages(def.id.0);
    pages.find(|note| !files.contains_key(&note.blob.file)).map_or(Ok(()), |note| {
        let what = format!("messages of queue '{}' in vhost '{}' are in it", def.name, def.vhost);
        Err(missing(BlobStore::name_of(PAGES_DIR, note.blob.file), what))
    })
}

fn check_bodies(replay: &Replay, def: &QueueDef, files: Option<&Files>) -> Result<(), OpenError> {
    let has_none = files.is_none_or(Files::is_empty);
    if has_none && replay.contents.any_page(def.id.0, |note| note.has_bodies) {
        let what =
            format!("pages of queue '{}' in vhost '{}' name bodies in it", def.name, def.vhost);
        return Err(missing(message_store::bodies_dir_of(&def.vhost), what));
    }
    let references = replay.contents.references(def.id.0);
    let stored = references.filter_map(|record| content::records::parse_reference(record).ok());
    let mut numbers = stored.map(|(_, stored)| stored.blob.file);
    refuse_lack(def, numbers.find(|number| !is_there(files, *number)))
}

fn is_there(files: Option<&Files>, number: u32) -> bool {
    files.is_some_and(|files| files.contains_key(&number))
}

/// An error if there is a file of the body store that is missing, and messages of a queue name it.
fn refuse_lack(def: &QueueDef, number: Option<u32>) -> Result<(), OpenError> {
    number.map_or(Ok(()), |number| {
        let what = format!(
            "bodies of messages of queue '{}' in vhost '{}' are in it",
            def.name, def.vhost
        );
        Err(missing(BlobStore::name_of(&message_store::bodies_dir_of(&def.vhost), number), what))
    })
}
