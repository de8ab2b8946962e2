//! From files to a queue in memory, after a start; or the files of a new queue.

use crate::queue::{Filling, Queue, V1Content};
use content::{Fill, Journal, Storage};
use queue::PositionSet;
use queue_index::V1Queue;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use store::StoreError;
use store::blob::BlobStore;

/// A queue of version 1 that is to be loaded, or is being loaded. Nobody else uses it.
#[derive(Debug)]
pub struct V1Loading {
    queue: Arc<Queue>,
    /// Messages from this position on were not given to consumers before a clean stop.
    cursor: Option<u64>,
    /// The queue's files, once they were looked at.
    files: Option<LoadedFiles>,
}

/// The files of a queue that is being loaded.
#[derive(Debug)]
struct LoadedFiles {
    journal: Arc<Journal>,
    left: Range<u64>,
    found: PositionSet,
    n_lost: u64,
    /// Messages without their bodies, by the file those were in.
    bodiless: BTreeMap<u32, u64>,
}

impl V1Loading {
    /// The loading of a queue; `cursor` is the first position that was never delivered, if that is known.
    pub const fn new(queue: Arc<Queue>, cursor: Option<u64>) -> Self {
        Self { queue, cursor, files: None }
    }
}

impl LoadedFiles {
    /// Looks at a queue's files.
    fn open(storage: &Storage, queue: &Queue) -> Result<Self, StoreError> {
        let mut found = PositionSet::new();
        let options = storage.journal_options(queue.id().0);
        let (v1, recovered) = V1Queue::open(Arc::clone(&storage.disk), options, &mut |live| {
            found.push_back(live.position, 1);
        })?;
        let unreadable = recovered.damage.iter().chain(&recovered.torn);
        unreadable.for_each(|damage| storage.count_unreadable(damage));
        for torn in &recovered.torn {
            tracing::warn!(
                queue = %queue.def().name,
                vhost = %queue.def().vhost,
                "a write is incomplete or damaged, and may have been confirmed: {torn}"
            );
        }
        for damage in &recovered.damage {
            tracing::error!(
                queue = %queue.def().name,
                vhost = %queue.def().vhost,
                "confirmed messages may be lost, or acknowledged ones redelivered: {damage}"
            );
        }
        let left = found.first().unwrap_or(0)..recovered.next_position;
        let journal = Journal::new(v1, Arc::clone(&queue.bodies));
        Ok(Self { journal, left, found, n_lost: 0, bodiless: BTreeMap::new() })
    }

    /// Reads about `bytes_max` of messages.
    fn read(&mut self, storage: &Storage, queue: &Queue, bytes_max: u64) -> Result<(), StoreError> {
        let Self { journal, left, found, n_lost, bodiless: by_file } = self;
        let (mut failure, mut bodiless) = (None, Vec::new());
        left.start = journal.v1.read(left.clone(), bytes_max, &mut |position, queued| {
            match queued {
                Ok(queued) if Filling(queue).message(&queued) => {}
                Ok(queued) => {
                    found.remove(position);
                    *n_lost += 1;
                    bodiless.push(position);
                    let file = queued.stored.map_or(0, |stored| stored.blob.file);
                    *by_file.entry(file).or_default() += 1;
                }
                // An error of the disk may pass: no message is given up for it.
                Err(error) if error.is_of_disk() => failure = Some(error),
                Err(error) => {
                    found.remove(position);
                    *n_lost += 1;
                    storage.tell_lost(queue.def(), &error.to_string(), 1);
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        // Embedded bodies that were stored do not stay in memory.
        queue.bodies.blobs.sync()?;
        // A later start does not miss them again.
        journal.ack(bodiless.into_iter());
        queue.upkeep().look_at_pages();
        Ok(())
    }

    /// Ends the loading: the queue can be used.
    fn end(&self, storage: &Storage, queue: &Queue, cursor: Option<u64>) {
        for (file, n) in &self.bodiless {
            let file = BlobStore::name_of(queue.bodies.blobs.dir(), *file);
            let queue = queue.def().resource();
            tracing::error!("{queue}: bodies of {n} messages are missing from {file}");
        }
        if self.n_lost > 0 {
            stdx::lock(&storage.losses).n_messages += self.n_lost;
            tracing::error!(queue = %queue.def().name, "{} messages are lost", self.n_lost);
        }
        let next_position = self.left.end.max(cursor.unwrap_or(0));
        Filling(queue).end_with_journal(V1Content {
            journal: Arc::clone(&self.journal),
            next_position,
            // Without the note of a clean stop anything may have been delivered.
            seen_below: cursor.unwrap_or(next_position),
            log_upto: storage.wal.stats().appended_upto,
        });
    }
}

impl Fill for V1Loading {
    fn is_of_journal(&self) -> bool {
        true
    }

    fn step(&mut self, storage: &Storage, bytes_max: u64) -> Result<bool, StoreError> {
        if self.queue.is_deleted() {
            return Ok(true);
        }
        let files = match &mut self.files {
            Some(files) => files,
            none => none.insert(LoadedFiles::open(storage, &self.queue)?),
        };
        if !files.left.is_empty() {
            files.read(storage, &self.queue, bytes_max)?;
        }
        let is_read = files.left.is_empty();
        if is_read {
            files.end(storage, &self.queue, self.cursor);
        }
        Ok(is_read)
    }
}
