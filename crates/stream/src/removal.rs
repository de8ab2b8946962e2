//! The files of deleted streams, until they may go.

use crate::stream::Stream;
use crate::writing::Writing;
use log::{CommitListener, Lsn, Wal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A deleted stream whose files go when the log is durable up to there.
struct Removal {
    stream: Arc<Stream>,
    upto: Lsn,
}

/// Has the files of a deleted stream removed once its deletion, logged up to `upto`, is durable: a crash
/// before leaves the stream with all that it had.
pub fn remove_files_after(stream: Arc<Stream>, wal: &Wal, upto: Lsn) {
    let removal = Removal { stream, upto };
    if removal.durable(wal.durable_upto()) {
        wal.watch(Arc::new(removal));
    }
}

/// Ends the writing of a deleted stream whose files stay, so that they can be opened anew; false while
/// somebody writes. It waits for the disk.
#[must_use]
pub fn end_writing(stream: &Stream) -> bool {
    if stream.lack().is_some() {
        return true;
    }
    Writing(stream).write_on_thread();
    let Some(mut log) = stdx::lock(&stream.writer).log.take() else {
        // Nobody has the log any more if it has failed.
        return stream.n_committed.load(Ordering::Acquire) == u64::MAX;
    };
    if let Err(error) = log.checkpoint() {
        tracing::warn!("cannot sync a deleted stream: {error}");
    }
    true
}

impl CommitListener for Removal {
    fn durable(&self, upto: Lsn) -> bool {
        if upto < self.upto {
            return true;
        }
        let (stream, services) = (Arc::clone(&self.stream), &self.stream.services);
        services.ask(Box::new(move || stream.services.remove_files(stream.id().0)));
        false
    }
}
