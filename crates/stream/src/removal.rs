//! The files of deleted streams, until they may go.

use crate::stream::Stream;
use log::{CommitListener, Lsn, Wal};
use std::sync::Arc;

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
