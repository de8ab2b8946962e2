//! Headers that are written into each message as a client is given it.

use amqp091::{ShortString, Value};
use content::Services;
use message::MessageRef;
use session::{
    ChannelId, ChunkDelivery, Confirmation, ConsumerCredit, Delivery, Event, LinkId, ListedSession,
    Outbox, Position, PublisherId, Room, Sink, StreamRefusal, UnsettledSince,
};
use std::sync::Arc;
use std::task::Waker;
use stdx::WallClock;

const SENT_TIME: &str = "x-opt-rabbitmq-sent-time";
/// Bytes that the stamp adds to a message's properties, at most.
const STAMP_BYTES_MAX: usize = 64;

/// An outbox that stamps deliveries with the time, in milliseconds, in place of what their publishers
/// may have written there. What is returned to its publisher is left alone.
pub(crate) struct StampingOutbox {
    outbox: Arc<dyn Outbox>,
    services: Arc<Services>,
}

impl StampingOutbox {
    pub(crate) fn new(outbox: Arc<dyn Outbox>, services: Arc<Services>) -> Self {
        Self { outbox, services }
    }
}

impl Outbox for StampingOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let time = &self.services.storage.time;
        self.outbox.batch(&mut |sink: &mut dyn Sink| fill(&mut Stamping { sink, time }))
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        self.outbox.unsettled(links)
    }

    fn unsettled_since(&self, link: LinkId) -> Option<UnsettledSince> {
        self.outbox.unsettled_since(link)
    }

    fn session_from(&self, channel: ChannelId) -> Option<ListedSession> {
        self.outbox.session_from(channel)
    }
}

struct Stamping<'a> {
    sink: &'a mut dyn Sink,
    time: &'a WallClock,
}

impl Stamping<'_> {
    fn stamped(&self, message: &MessageRef<'_>) -> Vec<u8> {
        let sent_ms = i64::try_from(self.time.unix_ms().get()).unwrap_or(i64::MAX);
        message.index().with_changed_headers(|headers| {
            headers.insert(ShortString::from_static(SENT_TIME), Value::I64(sent_ms));
        })
    }
}

impl Sink for Stamping<'_> {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        let properties = self.stamped(delivery.message);
        let message = &MessageRef { properties: &properties, ..*delivery.message };
        self.sink.deliver(link, Delivery { message, ..delivery })
    }

    fn fits(&mut self, message: &MessageRef<'_>, added_bytes: usize, queue: &str) -> bool {
        self.sink.fits(message, added_bytes + STAMP_BYTES_MAX, queue)
    }

    fn room_bytes(&self) -> usize {
        self.sink.room_bytes()
    }

    fn event(&mut self, event: Event<'_>) {
        let Event::Got { channel, link, delivery, no_ack, n_ready } = event else {
            self.sink.event(event);
            return;
        };
        let properties = self.stamped(delivery.message);
        let message = &MessageRef { properties: &properties, ..*delivery.message };
        let delivery = Delivery { message, ..delivery };
        self.sink.event(Event::Got { channel, link, delivery, no_ack, n_ready });
    }

    fn understands_cancels(&self) -> bool {
        self.sink.understands_cancels()
    }

    fn timed_out(&mut self, link: LinkId, positions: &[Position]) -> bool {
        self.sink.timed_out(link, positions)
    }

    fn flowed(&mut self, link: LinkId, credit: ConsumerCredit) {
        self.sink.flowed(link, credit);
    }

    fn released(&mut self, channel: ChannelId) {
        self.sink.released(channel);
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        self.sink.confirm(channel, first, last, answer);
    }

    fn readable(&mut self, link: LinkId) {
        self.sink.readable(link);
    }

    fn deliver_chunk(&mut self, link: LinkId, chunk: &ChunkDelivery<'_>) -> Room {
        self.sink.deliver_chunk(link, chunk)
    }

    fn answer_append(
        &mut self,
        publisher: PublisherId,
        first: u64,
        last: u64,
        answer: Result<(), StreamRefusal>,
    ) {
        self.sink.answer_append(publisher, first, last, answer);
    }
}
