//! How far a consumer of messages has read. Never whose it is.

use crate::arguments;
use crate::filtering::MessageFilter;
use crate::losses::StreamDamage;
use crate::messages::{Damaged, Messages};
use crate::source::{Lent, Source};
use crate::stream::{Stream, check_open};
use chunk_log::{ChunkLogError, Next, ReaderOptions, Start};
use conversion::{DecodeBuffer, Origin, decode_amqp10, take_amqp10};
use message::{BodyForm, MessageRef};
use meta::Name;
use session::{Delivery, LinkId, Position, Room, Sink, Table};
use stdx::UnixMs;

/// A consumer's place in its stream.
#[derive(Debug)]
pub(crate) struct Cursor {
    source: Source,
    messages: Messages,
    /// The name of the stream.
    stream: Name,
    /// The form in which messages are delivered.
    form: BodyForm,
    /// The filter of what is delivered.
    pub(crate) filter: Option<MessageFilter>,
    /// The conversion of the message that is delivered.
    converted: DecodeBuffer,
    /// The time of the chunk, milliseconds since 1970.
    chunk_timestamp_ms: i64,
}

/// A message of a stream.
#[derive(Debug)]
pub struct StreamMessage<'a> {
    /// Its offset.
    pub offset: u64,
    /// The time of its chunk, milliseconds since 1970.
    pub chunk_timestamp_ms: i64,
    /// The message as a consumer would be given it, in the form that it takes.
    pub message: MessageRef<'a>,
}

/// Why deliveries pause.
#[derive(Debug)]
pub(crate) enum Pause {
    NoCredit,
    /// The filter has looked at enough messages for now.
    TurnEnds,
    /// The outbox has no room; it has noted the link.
    NoRoom,
    ChunkEnds,
    Damaged(Damaged),
}

/// The outcome of a read.
#[derive(Debug)]
pub(crate) enum Read {
    GoesOn,
    /// No further chunk is committed yet.
    End,
    /// A thread is to read with this reader; none if one reads already.
    Waits(Option<Lent>),
}

impl Cursor {
    /// Opens a cursor where the arguments of a consumer say, for messages in this form.
    pub(crate) fn open(
        stream: &Stream,
        arguments: &Table,
        form: BodyForm,
        now_ms: UnixMs,
    ) -> Result<Self, String> {
        check_open(stream)?;
        let resource = stream.def().resource();
        let failed =
            |error: ChunkLogError| format!("failed consuming from stream {resource}: {error}");
        let view = &stream.view;
        let start =
            arguments::start_at(arguments, view.next_offset(), now_ms).map_err(|given| {
                let reason = format!("{{invalid_stream_offset_arg,{given}}}");
                format!("invalid arg 'x-stream-offset' for {resource}: {reason}")
            })?;
        let first_offset = match start {
            Start::Offset(offset) => offset,
            Start::First | Start::Last | Start::Next | Start::Timestamp(_) => 0,
        };
        let filter = arguments::filter(arguments)
            .map_err(|given| format!("invalid arg 'x-stream-filter' for {resource}: {given}"))?;
        let options = ReaderOptions {
            filter,
            read_ahead: stream.services.options.read_ahead,
            // Its messages are read here.
            file_range_bytes_min: u64::MAX,
            ..ReaderOptions::default()
        };
        let reader = view.reader(start, options).map_err(failed)?;
        let unpacked_bytes_max = stream.services.options.unpacked_bytes_max();
        let messages = Messages::from(first_offset, unpacked_bytes_max);
        let stream = stream.def().name.clone();
        let source = Source::new(Some(reader));
        Ok(Self {
            source,
            messages,
            stream,
            form,
            filter: None,
            converted: DecodeBuffer::default(),
            chunk_timestamp_ms: 0,
        })
    }

    /// The next message of the chunk.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<StreamMessage<'_>>, Damaged> {
        Ok(self.messages.advance()?.map(|offset| self.message(offset)))
    }

    /// The message that was gone on to last.
    #[inline]
    fn message(&mut self, offset: u64) -> StreamMessage<'_> {
        let origin = Origin { stream: self.stream.as_bytes(), offset };
        let message = match self.form {
            BodyForm::Plain => decode_amqp10(self.messages.message(), origin, &mut self.converted),
            BodyForm::Amqp10 => take_amqp10(self.messages.message(), origin, &mut self.converted),
        };
        StreamMessage { offset, chunk_timestamp_ms: self.chunk_timestamp_ms, message }
    }

    /// The form in which messages are delivered.
    pub(crate) const fn form(&self) -> BodyForm {
        self.form
    }

    /// Delivers what is left of the chunk; returns how many messages were delivered too.
    pub(crate) fn deliver(
        &mut self,
        link: LinkId,
        credit: u64,
        sink: &mut dyn Sink,
    ) -> (Pause, u64) {
        let mut n_delivered = 0;
        let pause = loop {
            if n_delivered == credit {
                break Pause::NoCredit;
            }
            let offset = match self.messages.advance() {
                Ok(Some(offset)) => offset,
                Ok(None) => break Pause::ChunkEnds,
                Err(damaged) => break Pause::Damaged(damaged),
            };
            if let Some(filter) = &mut self.filter
                && !filter.passes(self.messages.message())
            {
                if filter.is_turn_over() {
                    break Pause::TurnEnds;
                }
                continue;
            }
            let next = self.message(offset);
            let delivery = Delivery {
                position: Position(next.offset),
                redelivered: false,
                n_failed: 0,
                settled_by_write: false,
                message: &next.message,
            };
            n_delivered += 1;
            if sink.deliver(link, delivery) == Room::Full {
                break Pause::NoRoom;
            }
        };
        (pause, n_delivered)
    }

    /// Goes on with the next chunk.
    pub(crate) fn read(&mut self, stream: &Stream) -> Result<Read, Damaged> {
        let chunk = match self.source.next()? {
            Some(Next::Chunk(chunk)) => chunk,
            Some(Next::PassedOver) => return Ok(Read::GoesOn),
            Some(Next::End) => return Ok(Read::End),
            None => return Ok(Read::Waits(self.source.lend())),
        };
        if let Some(parts) = chunk.parts()
            && parts.and_then(|parts| parts.verify_crc()).is_err()
        {
            let (offset, n_messages) = (chunk.header.chunk_id, u64::from(chunk.header.n_records));
            StreamDamage(stream).tell_damage(&stream.view.damage_at(
                offset,
                n_messages,
                "the chunk's checksum does not match",
            )?);
            return Ok(Read::GoesOn);
        }
        let data = chunk.data().ok_or_else(|| Damaged("the chunk's data is missing".to_owned()))?;
        self.chunk_timestamp_ms = chunk.header.timestamp_ms;
        self.messages.begin(chunk.header.chunk_id, chunk.header.n_entries, data);
        Ok(Read::GoesOn)
    }

    /// The offset behind the last chunk that was read; 0 while a thread has what [`Read::Waits`] gave.
    pub(crate) fn next_offset(&self) -> u64 {
        self.source.next_offset()
    }

    /// About the number of committed messages behind the last that was delivered; entries that hold several
    /// count as one.
    pub(crate) fn n_available(&self, stream: &Stream) -> u64 {
        stream.view.next_offset().saturating_sub(self.next_offset()) + self.messages.n_left()
    }

    /// Takes back what [`Read::Waits`] gave.
    pub(crate) fn give_back(&mut self, lent: Lent, next: Result<Next, ChunkLogError>) {
        self.source.give_back(lent, next);
    }

    /// Gives memory and files back while the client takes nothing.
    pub(crate) fn rest(&mut self) {
        self.source.rest();
    }
}
