//! A consumer of whole chunks, as its session holds it: it pulls as a consumer of messages does, for credit
//! in chunks.

use crate::follower::Follower;
use crate::listed::{SubscriptionFigures, SubscriptionView};
use crate::membership::{GroupSeat, Seat};
use crate::messages::Damaged;
use crate::readers::{Ended, Reader};
use crate::source::{FileData, Source};
use crate::stream::Stream;
use bytes::Buf as _;
use chunk_log::{
    ChunkBytes, ChunkLogError, ChunkSelector, FilterMatcher, Next, ReadAhead, ReaderOptions, Start,
    StoredChunk,
};
use queue_type::{ConsumerView, Owner};
use session::{
    CHUNK_HEADER_BYTES, ChunkData, ChunkDelivery, ChunkSelection, Event, LinkId, Outbox,
    Properties, Room, StreamEvent, StreamOffset, StreamRefusal, SubscriptionId,
};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use streamproto::ChunkHeader;

/// A subscription on its way in.
pub struct Subscribe<'a> {
    /// Its connection and channel.
    pub owner: Owner,
    /// Its number there.
    pub id: SubscriptionId,
    /// Everything its client says of it.
    pub properties: &'a Properties,
    /// Its name in the outbox.
    pub link: LinkId,
    /// The outbox of its connection.
    pub outbox: &'a Arc<dyn Outbox>,
    /// Where it begins.
    pub offset: StreamOffset,
    /// The chunks it is given.
    pub selection: &'a ChunkSelection,
    /// Chunks it may be given at first.
    pub credit: u16,
    /// The group that it is to be in, as a single active consumer.
    pub group: Option<GroupSeat>,
}

/// A consumer of whole chunks.
pub struct Subscription {
    /// Its stream.
    pub stream: Arc<Stream>,
    follower: Follower,
    id: SubscriptionId,
    properties: Properties,
    /// Whether chunks are given with their trailers.
    with_trailer: bool,
    /// Its place among single active consumers.
    seat: Option<Box<Seat>>,
    state: Mutex<State>,
}

/// The next chunk for its client.
enum NextChunk {
    /// A chunk that was read, or whose data lies in its file.
    Read { header: [u8; CHUNK_HEADER_BYTES], data: ChunkData<'static> },
    /// A chunk that its reader has at hand.
    AtHand,
}

struct State {
    /// The source of chunks, idle while another subscription is active.
    source: Source,
    credit: i64,
    figures: SubscriptionFigures,
    has_ended: bool,
}

impl State {
    const fn may_be_given(&self) -> bool {
        self.credit > 0 && !self.has_ended
    }

    /// Counts a chunk that is given to the client; takes a credit for it.
    fn note(&mut self, header: &ChunkHeader) {
        self.credit -= 1;
        self.figures.next_offset = header.next_offset();
        self.figures.n_messages += u64::from(header.n_records);
    }
}

stdx::debug_of!(|it: Subscription| key = it.follower.key);

impl Stream {
    /// Begins to give whole chunks to a client. It is given the first by [`Subscription::begin`].
    ///
    /// # Errors
    /// The stream is deleted, or cannot be read.
    pub fn subscribe(
        self: &Arc<Self>,
        subscribe: Subscribe<'_>,
    ) -> Result<Arc<Subscription>, StreamRefusal> {
        let Subscribe { owner, id, properties, link, outbox, offset, selection, credit, group } =
            subscribe;
        let seat =
            group.map(|group| Box::new(Seat { group, offset, selection: selection.clone() }));
        let reader = match seat {
            Some(_) => None,
            None => Some(self.reader_at(offset, selection).map_err(|error| {
                tracing::error!("cannot read {}: {error}", self.def().resource());
                StreamRefusal::InternalError
            })?),
        };
        let next_offset = reader.as_ref().map_or(0, chunk_log::Reader::next_offset);
        let figures = SubscriptionFigures { next_offset, ..SubscriptionFigures::default() };
        // Looked up here, where others go on meanwhile, not by the first delivery.
        self.last_chunk_id();
        let (source, credit) = (Source::new(reader), i64::from(credit));
        let state = State { source, credit, figures, has_ended: false };
        let subscription = Arc::new(Subscription {
            stream: Arc::clone(self),
            follower: Follower::new(self.readers.next_key(), owner, link, outbox),
            id,
            properties: properties.clone(),
            with_trailer: selection.all_types,
            seat,
            state: Mutex::new(state),
        });
        if !self.readers.add(Arc::<Subscription>::clone(&subscription)) {
            return Err(StreamRefusal::StreamDoesNotExist);
        }
        Ok(subscription)
    }

    /// The offset of the first chunk that a subscription beginning there would be given.
    ///
    /// # Errors
    /// No such chunk is there yet, or the stream cannot be read.
    pub fn resolve(
        &self,
        offset: StreamOffset,
        selection: &ChunkSelection,
    ) -> Result<u64, StreamRefusal> {
        let reader = self.reader_at(offset, selection);
        reader.map(|reader| reader.next_offset()).map_err(|_| StreamRefusal::InternalError)
    }

    fn reader_at(
        &self,
        offset: StreamOffset,
        selection: &ChunkSelection,
    ) -> Result<chunk_log::Reader, ChunkLogError> {
        self.view.reader(start(offset), self.reader_options(selection))
    }

    fn reader_options(&self, selection: &ChunkSelection) -> ReaderOptions {
        let ChunkSelection { filters, match_unfiltered, all_types } = selection;
        let filter = (!filters.is_empty()).then(|| {
            let matcher = FilterMatcher::new(filters.iter().map(Vec::as_slice));
            if *match_unfiltered { matcher.with_unfiltered() } else { matcher }
        });
        ReaderOptions {
            selector: if *all_types { ChunkSelector::All } else { ChunkSelector::UserData },
            filter,
            read_ahead: self.services.options.read_ahead,
            ..ReaderOptions::default()
        }
    }
}

const fn start(offset: StreamOffset) -> Start {
    match offset {
        StreamOffset::First => Start::First,
        StreamOffset::Last => Start::Last,
        StreamOffset::Next => Start::Next,
        StreamOffset::Offset(offset) => Start::Offset(offset),
        StreamOffset::TimestampMs(at_ms) => Start::Timestamp(at_ms),
    }
}

impl Subscription {
    /// The link of its deliveries.
    #[must_use]
    pub const fn link(&self) -> LinkId {
        self.follower.link
    }

    /// Whether its client was told that the stream is gone: it is given nothing any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        stdx::lock(&self.state).has_ended
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> SubscriptionFigures {
        let state = stdx::lock(&self.state);
        SubscriptionFigures { credit: state.credit, ..state.figures }
    }

    /// Adds credit in chunks, or takes it if negative. False while another subscription is active.
    pub fn add_credit(&self, n_chunks: i16) -> bool {
        let state = &mut stdx::lock(&self.state);
        state.credit = state.credit.saturating_add(i64::from(n_chunks));
        !state.source.is_idle()
    }

    /// Its number at its stream.
    pub(crate) const fn key(&self) -> u64 {
        self.follower.key
    }

    pub(crate) const fn owner(&self) -> Owner {
        self.follower.owner
    }

    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.as_deref()
    }

    /// Tells the client an event.
    pub(crate) fn tell(&self, event: Event<'_>) -> Option<Waker> {
        let mut event = Some(event);
        self.follower.batch(&mut |sink| event.take().into_iter().for_each(|it| sink.event(it)))
    }

    /// A reader for a subscription that becomes active; none if the stream cannot be read any further.
    pub(crate) fn open_reader(
        &self,
        offset: StreamOffset,
        selection: &ChunkSelection,
    ) -> Option<chunk_log::Reader> {
        match self.stream.reader_at(offset, selection) {
            Ok(reader) => Some(reader),
            Err(error) => {
                let waker = self.fail(&mut stdx::lock(&self.state), &error.to_string());
                waker.into_iter().for_each(Waker::wake);
                None
            }
        }
    }

    /// Goes on with a reader at another place; without one nothing is read for the subscription any more.
    pub(crate) fn set_reader(&self, reader: Option<chunk_log::Reader>) {
        stdx::lock(&self.state).source.move_to(reader);
    }

    /// Delivers what there is: to be called when it has credit, its connection can take deliveries again, or
    /// more is to be read. For its connection's own task.
    pub fn resume(self: &Arc<Self>) {
        if let Some(waker) = Arc::clone(self).read_here() {
            waker.wake();
        }
    }

    /// Takes the subscription away from its stream and its group.
    pub fn detach(&self) {
        stdx::lock(&self.state).has_ended = true;
        self.stream.readers.remove(self.follower.key);
        self.leave();
    }

    fn read_on(self: &Arc<Self>) -> Option<Waker> {
        let mut state = stdx::lock(&self.state);
        let mut waker = None;
        while state.may_be_given() {
            let next = match self.next(&mut state) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(damaged) => return self.fail(&mut state, &damaged.0).or(waker),
            };
            let (room, woken) = self.deliver(next, &mut state);
            waker = woken.or(waker);
            if room == Room::Full {
                break;
            }
        }
        waker
    }

    /// The next chunk to give; none if there is none yet.
    fn next(self: &Arc<Self>, state: &mut State) -> Result<Option<NextChunk>, Damaged> {
        loop {
            if state.source.has_at_hand() {
                return Ok(Some(NextChunk::AtHand));
            }
            match state.source.next()? {
                None => {
                    self.fetch(state);
                    return Ok(None);
                }
                Some(Next::Chunk(chunk)) => {
                    self.note(state, &chunk.header);
                    let header = chunk.header_bytes();
                    return Ok(Some(NextChunk::Read { header, data: self.data(chunk)? }));
                }
                Some(Next::PassedOver) => {}
                // A chunk that is committed in between is seen now, or the subscription is told.
                Some(Next::End) if self.follower.begins_to_wait() => {
                    self.stream.readers.wait(Arc::<Self>::clone(self));
                }
                Some(Next::End) => return Ok(None),
            }
        }
    }

    /// Counts a chunk that is given to the client, here and at the stream.
    fn note(&self, state: &mut State, header: &ChunkHeader) {
        state.note(header);
        self.stream.readers.note_delivered(u64::from(header.n_records));
    }

    /// Has a thread read what is not in memory, unless one does.
    fn fetch(self: &Arc<Self>, state: &mut State) {
        let Some(mut lent) = state.source.lend() else { return };
        let me = Arc::clone(self);
        self.stream.services.read_beside(Box::new(move || {
            let next = lent.read(&me.stream);
            stdx::lock(&me.state).source.give_back(lent, next);
            if let Some(waker) = me.follower.tell_readable() {
                waker.wake();
            }
        }));
    }

    /// Whether a chunk is read only once the one before is written. COMPAT: so it is without read-ahead.
    fn is_one_by_one(&self) -> bool {
        self.stream.services.options.read_ahead == ReadAhead::Off
    }

    /// Gives its client a chunk, and those at hand behind it as far as credit and room go.
    fn deliver(&self, next: NextChunk, state: &mut State) -> (Room, Option<Waker>) {
        let committed_chunk_id = self.stream.last_chunk_id();
        let (link, mut room) = (self.follower.link, Room::Full);
        let waker = self.follower.batch(&mut |sink| {
            let mut give = |header: &[u8; CHUNK_HEADER_BYTES], data: ChunkData<'_>| {
                room =
                    sink.deliver_chunk(link, &ChunkDelivery { header, data, committed_chunk_id });
                room != Room::Full
            };
            let mut goes_on = match &next {
                NextChunk::Read { header, data } => give(header, data.clone()),
                NextChunk::AtHand => true,
            };
            while goes_on && state.may_be_given() {
                let Some(chunk) = state.source.at_hand() else { break };
                goes_on =
                    give(&chunk.header_bytes(), ChunkData::Borrowed(chunk.data(self.with_trailer)));
                let header = chunk.header;
                self.note(state, &header);
            }
            if self.is_one_by_one() {
                sink.readable(link);
                room = Room::Full;
            }
        });
        (room, waker)
    }

    /// Entries, and the trailer for those who want it.
    fn data(
        &self,
        StoredChunk { header, bytes }: StoredChunk,
    ) -> Result<ChunkData<'static>, Damaged> {
        match bytes {
            ChunkBytes::Memory(mut stored) => {
                let trailer_bytes = if self.with_trailer { header.trailer_bytes } else { 0 };
                let from = usize::try_from(header.data_at())?;
                let len = usize::try_from(u64::from(header.data_bytes) + u64::from(trailer_bytes))?;
                if from + len > stored.len() {
                    return Err(Damaged("the chunk is cut off".to_owned()));
                }
                stored.truncate(from + len);
                stored.advance(from);
                Ok(ChunkData::Shared(stored))
            }
            ChunkBytes::File(range) => {
                let range = if self.with_trailer { range.with_trailer(&header) } else { range };
                Ok(ChunkData::File(Arc::new(FileData::new(range, &self.stream.services))))
            }
        }
    }

    /// Ends a subscription whose stream cannot be read any further: its client is told that the stream is
    /// gone.
    fn fail(&self, state: &mut State, damaged: &str) -> Option<Waker> {
        state.has_ended = true;
        let name = &self.stream.def().name;
        tracing::error!("cancelling a consumer of {}: {}", self.stream.def().resource(), damaged);
        let (stream, links) = (&**name, &[self.link()]);
        self.tell(Event::Stream(StreamEvent::StreamGone { stream, links }))
    }
}

impl Reader for Subscription {
    fn follower(&self) -> &Follower {
        &self.follower
    }

    fn read_here(self: Arc<Self>) -> Option<Waker> {
        let waker = self.read_on();
        if self.seat.is_some() && stdx::lock(&self.state).has_ended {
            self.leave();
        }
        waker
    }

    fn view(&self) -> Option<ConsumerView> {
        None
    }

    fn subscription(&self) -> Option<SubscriptionView> {
        let (connection, _) = self.follower.owner;
        let (id, properties, figures) = (self.id, self.properties.clone(), self.figures());
        Some(SubscriptionView { connection, id, properties, figures })
    }

    fn n_unacked(&self) -> u64 {
        0
    }

    fn end(&self) -> Ended {
        stdx::lock(&self.state).has_ended = true;
        Ended::WithPublishers
    }

    fn rest(&self) {
        if self.follower.is_at_rest() {
            stdx::lock(&self.state).source.rest();
        }
    }
}
