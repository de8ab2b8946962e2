//! The source of a consumer's chunks: a reader that never waits for the device on a thread of connections.
//! A thread of streams reads whatever is not in memory, and has the reader meanwhile.

use crate::losses::StreamDamage;
use crate::services::StreamServices;
use crate::stream::Stream;
use chunk_log::{ChunkAtHand, ChunkBytes, ChunkLogError, FileRange, Next, Reader, Wait};
use session::FileBytes;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// A reader, and what was read in its consumer's stead.
#[derive(Debug)]
pub(crate) struct Source {
    /// The reader; a thread has it if it is not here.
    reader: Option<Box<Reader>>,
    fetched: Option<Result<Next, ChunkLogError>>,
    /// The number of readers so far: one of an earlier place that comes back is dropped.
    generation: u64,
    /// Whether nothing is to be read.
    is_idle: bool,
}

/// A reader on its way to a thread.
#[derive(Debug)]
pub(crate) struct Lent {
    reader: Box<Reader>,
    generation: u64,
}

impl Source {
    /// A source that reads, or is idle without a reader.
    pub(crate) fn new(reader: Option<Reader>) -> Self {
        let is_idle = reader.is_none();
        Self { reader: reader.map(Box::new), fetched: None, generation: 0, is_idle }
    }

    /// The offset behind the last chunk that was read; 0 without a reader.
    pub(crate) fn next_offset(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.next_offset())
    }

    /// Whether nothing is to be read.
    pub(crate) const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Continues with another reader, or idles without one.
    pub(crate) fn move_to(&mut self, reader: Option<Reader>) {
        let generation = self.generation.wrapping_add(1);
        *self = Self { generation, ..Self::new(reader) };
    }

    /// The next thing; none if a thread is to read it ([`Source::lend`]), or does.
    ///
    /// # Errors
    /// As [`Reader::read_next`].
    pub(crate) fn next(&mut self) -> Result<Option<Next>, ChunkLogError> {
        if let Some(fetched) = self.fetched.take() {
            return fetched.map(Some);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        match reader.read_next(Wait::Never) {
            // A thread looks up where to go on behind what is damaged.
            Err(error) if error.is_corrupt() => Ok(None),
            Err(ChunkLogError::WouldBlock) => Ok(None),
            next => next.map(Some),
        }
    }

    /// Whether there is a next chunk at hand.
    pub(crate) fn has_at_hand(&self) -> bool {
        self.fetched.is_none() && self.reader.as_ref().is_some_and(|it| it.has_at_hand())
    }

    /// The next chunk, if it is small and was read together with one before; [`Source::next`] knows of all
    /// others.
    #[inline]
    pub(crate) fn at_hand(&mut self) -> Option<ChunkAtHand<'_>> {
        self.reader.as_mut()?.next_at_hand()
    }

    /// The reader, for a thread; none if one has it.
    pub(crate) fn lend(&mut self) -> Option<Lent> {
        let reader = self.reader.take()?;
        Some(Lent { reader, generation: self.generation })
    }

    /// Takes the reader back with what it has read.
    pub(crate) fn give_back(&mut self, lent: Lent, next: Result<Next, ChunkLogError>) {
        if lent.generation == self.generation {
            self.reader = Some(lent.reader);
            self.fetched = Some(next);
        }
    }

    /// Gives memory and files back, unless it is being read.
    pub(crate) fn rest(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.release();
        }
    }
}

impl Lent {
    /// Reads the next chunk, and waits for the device. Of a chunk that is sent from its file, the beginning
    /// is in memory then. Damaged chunks are told of and passed over, also where another reader has told of
    /// them.
    pub(crate) fn read(&mut self, stream: &Stream) -> Result<Next, ChunkLogError> {
        let mut next = self.reader.read_next(Wait::ForDisk);
        while next.as_ref().is_err_and(ChunkLogError::is_corrupt)
            && let Some(damage) = self.reader.damage()
            && (StreamDamage(stream).tell_damage(&damage)
                || damage.offset.is_some_and(|it| stream.view.is_damaged(it)))
        {
            next = self.reader.read_next(Wait::ForDisk);
        }
        if let Ok(Next::Chunk(chunk)) = &next
            && let ChunkBytes::File(range) = &chunk.bytes
        {
            range.fetch(0);
        }
        next
    }
}

/// The data of a chunk, to be sent from its file.
#[derive(Debug)]
pub(crate) struct FileData {
    range: FileRange,
    services: Arc<StreamServices>,
    fetching: Arc<Mutex<Fetching>>,
}

/// A fetch by a thread, and the task that waits for it.
#[derive(Debug, Default)]
struct Fetching {
    is_under_way: bool,
    waker: Option<Waker>,
}

impl FileData {
    pub(crate) fn new(range: FileRange, services: &Arc<StreamServices>) -> Self {
        Self { range, services: Arc::clone(services), fetching: Arc::default() }
    }

    fn fetch(&self, from: u64) {
        let (range, fetching) = (self.range.clone(), Arc::clone(&self.fetching));
        self.services.read_beside(Box::new(move || {
            range.fetch(from);
            let mut fetching = stdx::lock(&fetching);
            fetching.is_under_way = false;
            let waker = fetching.waker.take();
            drop(fetching);
            if let Some(waker) = waker {
                waker.wake();
            }
        }));
    }
}

impl FileBytes for FileData {
    fn len(&self) -> usize {
        usize::try_from(self.range.len()).unwrap_or(usize::MAX)
    }

    fn descriptor(&self) -> Option<(BorrowedFd<'_>, u64)> {
        self.range.descriptor().map(|descriptor| (descriptor, self.range.at()))
    }

    fn read_at(&self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        self.range.read_at(from as u64, into).map_err(io::Error::other)
    }

    fn n_at_hand(&self, from: usize) -> usize {
        usize::try_from(self.range.n_at_hand(from as u64)).unwrap_or(usize::MAX)
    }

    fn poll_at_hand(&self, from: usize, waker: &Waker) -> Poll<()> {
        if self.n_at_hand(from) > 0 {
            return Poll::Ready(());
        }
        let mut fetching = stdx::lock(&self.fetching);
        fetching.waker = Some(waker.clone());
        if !std::mem::replace(&mut fetching.is_under_way, true) {
            drop(fetching);
            self.fetch(from as u64);
        }
        Poll::Pending
    }
}
