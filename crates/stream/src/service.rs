//! The streams of a node: how they are opened and end, and the threads that write for those whose publishers
//! do not.

use crate::losses::StreamDamage;
use crate::scrubber::Scrubber;
use crate::services::{StreamLosses, StreamOptions, StreamServices};
use crate::stream::Stream;
use crate::writing::Writing;
use chunk_log::{ChunkLogError, Lack, ReadCounts, STREAMS_DIR, StreamTable};
use log::LogError;
use meta::{QueueDef, StreamSettings};
use segments::Disk;
use segments::Poison;
use session::ConversionTotals;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use stdx::{Clock, Now};

/// The streams of a node. Dropping it ends its threads.
#[derive(Debug)]
pub struct StreamService {
    services: Arc<StreamServices>,
    scrubber: Arc<Scrubber>,
}

impl StreamService {
    /// Streams on a disk. Failures of writing are noted in `failure`.
    ///
    /// # Errors
    /// The disk's.
    pub fn new(
        disk: Arc<dyn Disk>,
        options: StreamOptions,
        clock: Clock,
        failure: &Poison,
    ) -> Result<Self, ChunkLogError> {
        let services = StreamServices::new(disk, options, clock, failure)?;
        let scrubber = Arc::new(Scrubber::new(services.time.unix_ms()));
        Ok(Self { services, scrubber })
    }

    /// Losses of streams since the start.
    #[must_use]
    pub fn losses(&self) -> StreamLosses {
        *stdx::lock(&self.services.losses)
    }

    /// Messages since the start that were converted on their way into streams, and to AMQP 0-9-1 out of them.
    #[must_use]
    pub fn conversions(&self) -> &ConversionTotals {
        &self.services.conversions
    }

    /// Moves the time on to `now`, by about a second. No stream is scrubbed while the disk is short of space.
    pub fn tick<'a, S: Iterator<Item = &'a Arc<Stream>>>(
        &self,
        now: Now,
        is_disk_short: bool,
        streams: impl Fn() -> S,
    ) {
        self.services.time.tick(now);
        self.services.close_removed();
        if !is_disk_short {
            self.scrubber.tick(&self.services, streams());
        }
        // No stream is asked for a review while those asked for before are due.
        let may_review = self.services.is_reviewed();
        for stream in streams() {
            stream.tick();
            Writing(stream).tick(may_review);
        }
    }

    /// Figures of the readers of all streams since the start.
    #[must_use]
    pub fn read_counts(&self) -> ReadCounts {
        self.services.files.read_counts()
    }

    /// Whether publishers may go on: not too much waits for the disk.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.services.inbox.has_capacity()
    }

    /// Resolves when publishers may go on.
    pub async fn capacity(&self) {
        let inbox = &self.services.inbox;
        let is_there = |waker: &Waker| inbox.poll_capacity(waker);
        poll_fn(|context| if is_there(context.waker()) { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }

    /// Starts the threads that write and read.
    ///
    /// # Errors
    /// The system's.
    pub fn start_threads(&self) -> io::Result<()> {
        self.services.start_threads()
    }

    /// Does a piece of the threads' work; false if there is none. For simulation.
    #[must_use]
    pub fn step(&self) -> bool {
        self.services.step()
    }

    /// Makes a new stream.
    ///
    /// # Errors
    /// The disk's; nothing is left then.
    pub fn make(
        &self,
        def: &Arc<QueueDef>,
        settings: &StreamSettings,
    ) -> Result<Arc<Stream>, ChunkLogError> {
        let made = Stream::open(Arc::clone(def), settings, Arc::clone(&self.services));
        made.map(|(stream, _)| stream).inspect_err(|error| {
            tracing::error!("cannot create {}: {error}", def.resource());
            self.services.remove_files(def.id.0);
        })
    }

    /// Takes back a new stream that nobody knows of; its id may be another's at once.
    pub fn unmake(&self, stream: &Stream) {
        self.services.remove_files(stream.id().0);
    }

    /// Opens a stream that was defined before. It is closed if something is missing of its files.
    ///
    /// # Errors
    /// The disk's, and what is wrong with the files.
    pub fn open(
        &self,
        def: &Arc<QueueDef>,
        settings: &StreamSettings,
    ) -> Result<Arc<Stream>, ChunkLogError> {
        match Stream::open(Arc::clone(def), settings, Arc::clone(&self.services)) {
            Ok((stream, recovered)) => {
                StreamDamage(&stream).tell_recovered(&recovered);
                Ok(stream)
            }
            Err(ChunkLogError::Lost(lack)) => {
                let (resource, what, n) = (def.resource(), &lack.what, lack.n_messages);
                tracing::error!(
                    "{resource} is closed: {what}: up to {n} messages are lost; restore the files, or accept \
                     the loss with 'leveret ctl accept_stream_loss' or 'leveret repair', or delete the stream"
                );
                let services = Arc::clone(&self.services);
                Ok(Stream::closed(Arc::clone(def), settings, services, lack))
            }
            Err(error) if error.is_corrupt() => {
                let (resource, services) = (def.resource(), Arc::clone(&self.services));
                tracing::error!(
                    "{resource} is closed: {error}; delete the stream, or restore its files"
                );
                let lack = Lack { what: error.to_string(), n_messages: 0 };
                Ok(Stream::closed(Arc::clone(def), settings, services, lack))
            }
            Err(error) => {
                tracing::error!("cannot open {}: {error}", def.resource());
                Err(error)
            }
        }
    }

    /// The stream of a definition that holds though its files cannot be opened: it is closed.
    pub fn closed(
        &self,
        def: &Arc<QueueDef>,
        settings: &StreamSettings,
        error: &ChunkLogError,
    ) -> Arc<Stream> {
        let lack = Lack { what: error.to_string(), n_messages: 0 };
        Stream::closed(Arc::clone(def), settings, Arc::clone(&self.services), lack)
    }

    /// Opens a stream without its missing files, as an operator has accepted.
    ///
    /// # Errors
    /// As of [`StreamService::open`].
    pub fn open_without(
        &self,
        def: &Arc<QueueDef>,
        settings: &StreamSettings,
    ) -> Result<Arc<Stream>, ChunkLogError> {
        if let Some(table) = self.services.files.table() {
            table.accept_loss(def.id.0)?;
        }
        self.open(def, settings)
    }

    /// Whether there are files of a stream.
    #[must_use]
    pub fn has_files(&self, id: u64) -> bool {
        let names = segments::list_if_there(&*self.services.disk, &format!("{STREAMS_DIR}/{id}"));
        names.is_ok_and(|names| names.is_some_and(|names| !names.is_empty()))
    }

    /// Gives the files of a deleted stream to another id. The caller waits for the disk.
    ///
    /// # Errors
    /// The disk's; some files may have been moved.
    pub fn move_files(&self, from: u64, to: u64) -> Result<(), ChunkLogError> {
        chunk_log::move_log(&self.services.files, from, to)
    }

    /// Has the files of a stream removed that was deleted, and whose files were kept.
    pub fn remove_kept(&self, id: u64) {
        let services = Arc::clone(&self.services);
        self.services.ask(Box::new(move || services.remove_files(id)));
    }

    /// Removes the files of deleted streams that a crash has left, and of new ones whose declarations it
    /// undid. Those of other streams that are not known stay: these are left in `found`.
    pub fn remove_deleted(
        &self,
        found: &mut Vec<u64>,
        is_known: impl Fn(u64) -> bool,
        is_deleted: impl Fn(u64) -> bool,
    ) {
        let disk = &*self.services.disk;
        found.retain(|id| !is_known(*id));
        let goes =
            |id: &mut u64| is_deleted(*id) || chunk_log::is_blank(disk, *id).is_ok_and(|it| it);
        let gone: Vec<u64> = found.extract_if(.., goes).collect();
        if let Some(table) = self.services.files.table()
            && let Err(error) = table.retain(|id| is_known(id) || found.contains(&id))
        {
            tracing::error!("cannot remove deleted streams: {error}");
        }
        gone.into_iter().for_each(|id| self.services.remove_files(id));
    }

    /// Ends in good order: everything written is durable.
    ///
    /// # Errors
    /// The disk's.
    pub fn close<'a>(
        &self,
        streams: impl Iterator<Item = &'a Arc<Stream>>,
    ) -> Result<(), LogError> {
        self.services.stop();
        streams.into_iter().try_for_each(|stream| Writing(stream).close()).map_err(ended)?;
        self.services.files.table().map_or(Ok(()), StreamTable::sync).map_err(ended)
    }
}

fn ended(error: ChunkLogError) -> LogError {
    match error {
        ChunkLogError::Disk(error) => error.into(),
        error @ (ChunkLogError::Refused { .. }
        | ChunkLogError::Lost(_)
        | ChunkLogError::Failed { .. }
        | ChunkLogError::WouldBlock) => LogError::Poisoned { reason: error.to_string() },
    }
}

impl Drop for StreamService {
    fn drop(&mut self) {
        self.services.stop();
    }
}
