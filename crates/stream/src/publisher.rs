//! Publishers of a stream itself: with a name, what they publish again is told apart by its publishing id.

use crate::confirms::{PublishedIds, Waiter};
use crate::listed::{IdRun, Registered};
use crate::making::PublisherPlace;
use crate::stream::Stream;
use crate::writer::Writer;
use crate::writing::Writing;
use meta::ConnectionId;
use queue_type::Wakes;
use session::{Append, Outbox, PublisherId, StreamRefusal};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use streamproto::Entry;
use streamproto::field::Field;

/// A publisher of one connection.
pub struct StreamPublisher {
    /// Its stream.
    pub stream: Arc<Stream>,
    registered: Arc<Registered>,
    place: PublisherPlace,
}

stdx::debug_of!(|it: StreamPublisher| id = it.registered.id);

/// The ids of what was appended, in runs.
#[derive(Default)]
struct Runs(SmallVec<[IdRun; 1]>);

impl Runs {
    #[inline]
    fn add(&mut self, id: u64) {
        match self.0.last_mut() {
            Some(run) if run.last.checked_add(1) == Some(id) => run.last = id,
            _ => self.0.push(IdRun { first: id, last: id }),
        }
    }
}

/// An entry of a publish command.
struct Published<'a> {
    id: u64,
    filter_value: Option<&'a [u8]>,
    entry: Entry<'a>,
    /// The entry as it came, and is stored.
    bytes: &'a [u8],
}

impl<'a> Published<'a> {
    /// Reads an entry; none if the bytes are not what the front has found them to be.
    #[inline]
    fn read(rest: &mut &'a [u8], has_filter_values: bool) -> Option<Self> {
        let id = u64::read(rest).ok()?;
        let filter_value = match has_filter_values {
            true => Option::<&[u8]>::read(rest).ok()?,
            false => None,
        };
        let from = *rest;
        let entry = Entry::read(rest).ok()?;
        let bytes = from.get(..from.len() - rest.len())?;
        Some(Self { id, filter_value, entry, bytes })
    }

    fn is_refused(&self, sub_batch_bytes_max: u32) -> bool {
        match &self.entry {
            Entry::Message(_) => false,
            Entry::SubBatch(batch) => batch.check(sub_batch_bytes_max).is_err(),
        }
    }
}

impl Stream {
    /// A publisher that goes by a name, or by none.
    ///
    /// # Errors
    /// The stream is deleted.
    pub fn publisher(
        self: &Arc<Self>,
        connection: ConnectionId,
        id: PublisherId,
        reference: Option<&[u8]>,
        outbox: &Arc<dyn Outbox>,
    ) -> Result<StreamPublisher, StreamRefusal> {
        let registered = Arc::new(Registered::new(connection, id, reference, outbox));
        if !self.readers.add_publisher(&registered) {
            return Err(StreamRefusal::StreamDoesNotExist);
        }
        let (stream, place) = (Arc::clone(self), PublisherPlace::default());
        Ok(StreamPublisher { stream, registered, place })
    }

    /// Everything that is tracked by name.
    #[must_use]
    pub const fn tracked(&self) -> Tracked<'_> {
        Tracked(self)
    }
}

/// Everything that a stream tracks by name.
#[derive(Clone, Copy, Debug)]
pub struct Tracked<'s>(&'s Stream);

impl Tracked<'_> {
    /// The last publishing id of a name.
    #[must_use]
    pub fn publisher_sequence(&self, reference: &[u8]) -> Option<u64> {
        stdx::lock(&self.0.writer).sequence(reference)
    }

    /// The offset that a consumer of that name has stored.
    #[must_use]
    pub fn stored_offset(&self, reference: &[u8]) -> Option<u64> {
        stdx::lock(&self.0.writer).stored_offset(reference)
    }

    /// Stores the offset of a consumer of that name.
    pub fn store_offset(&self, reference: &[u8], offset: u64, wakes: &mut Wakes) {
        let mut writer = stdx::lock(&self.0.writer);
        writer.making.note_offset(Arc::from(reference), offset);
        Writing(self.0).write(writer, wakes);
    }
}

impl Drop for StreamPublisher {
    fn drop(&mut self) {
        self.stream.readers.remove_publisher(&self.registered);
    }
}

impl StreamPublisher {
    /// Whether its client was told that the stream is gone: it takes nothing any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.registered.is_gone()
    }

    /// Its name.
    #[must_use]
    pub fn reference(&self) -> Option<&[u8]> {
        self.registered.reference.as_deref()
    }

    /// Appends messages, and has its client told once they are committed: [`write`](Self::write) is to follow
    /// before the caller waits. What its name has published before is confirmed, and not appended again. A
    /// deleted stream takes nothing, and answers nothing.
    pub fn append(&mut self, append: &Append, input: &[u8], wakes: &mut Wakes) {
        let stream = Arc::clone(&self.stream);
        let mut writer = stdx::lock(&stream.writer);
        if stream.is_deleted() {
            return;
        }
        let (taken, refused) = self.add(&mut writer, append, input);
        self.registered.count(u64::from(append.n_entries));
        let publisher = Arc::clone(&self.registered);
        let waiter = PublishedIds { publisher, runs: taken.0 };
        let n_committed = stream.n_committed.load(Ordering::Acquire);
        let told = match waiter.runs.is_empty() {
            true => None,
            false => writer.confirm_added(n_committed, Waiter::Publisher(waiter)),
        };
        drop(writer);
        wakes.extend(told.and_then(Waiter::committed));
        if !refused.0.is_empty() {
            let why = Err(StreamRefusal::PreconditionFailed);
            wakes.extend(self.registered.answer(&refused.0, why));
        }
    }

    /// Has written what was appended. Commands that came together make a chunk together, however few messages
    /// each has.
    pub fn write(&self, wakes: &mut Wakes) {
        Writing(&self.stream).write(stdx::lock(&self.stream.writer), wakes);
    }

    /// Adds what is to be written; the ids of what was taken, and of what was refused. COMPAT: with a
    /// sub-batch everything behind it in the command is refused, which leaves no gap for whoever sends it
    /// again.
    fn add(&mut self, writer: &mut Writer, append: &Append, input: &[u8]) -> (Runs, Runs) {
        let (mut taken, mut refused) = (Runs::default(), Runs::default());
        let reference = self.registered.reference.as_ref();
        let mut last = reference.and_then(|name| writer.sequence(name));
        let mut rest = append.entries(input);
        let (mut n_added, mut is_refused) = (0, false);
        let sub_batch_bytes_max = self.stream.services.options.sub_batch_bytes_max;
        for _ in 0..append.n_entries {
            let Some(published) = Published::read(&mut rest, append.has_filter_values) else {
                break;
            };
            is_refused |= published.is_refused(sub_batch_bytes_max);
            if is_refused {
                refused.add(published.id);
                continue;
            }
            taken.add(published.id);
            let is_known = reference.is_some() && last.is_some_and(|it| published.id <= it);
            if is_known {
                continue;
            }
            let Published { entry, bytes, filter_value, .. } = published;
            writer.making.add(bytes, u32::from(entry.n_records()), filter_value);
            n_added += 1;
            if let Some(reference) = reference {
                writer.making.note_sequence(&mut self.place, reference, published.id);
                last = Some(published.id);
            }
        }
        writer.count(n_added);
        if let (Some(reference), Some(last), 1..) = (reference, last, n_added) {
            writer.note_sequence(reference, last);
        }
        (taken, refused)
    }
}
