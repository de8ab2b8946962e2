//! A consumer that gets messages, beside the core: the channel and outbox it belongs to, and whether more may
//! be given to it. Never the messages it holds.

use meta::ConnectionId;
use queue::{AckMode, Checkout};
use queue_type::{Activity, Attach, ChannelLimit, ConsumerView, Owner, Tally, WaitsFor, Wakes};
use session::{ChannelId, ConsumerCredit, Event, LinkId, Outbox, Room, ShortString, Sink, Table};
use std::sync::Arc;

/// A consumer that gets messages, outside the core.
pub struct ConsumerChannel {
    /// Connection of the consumer.
    pub connection: ConnectionId,
    /// Channel of the consumer.
    pub channel: ChannelId,
    /// Name of the consumer in the outbox.
    pub link: LinkId,
    /// Outbox of the connection.
    pub outbox: Arc<dyn Outbox>,
    /// Tag of the consumer.
    pub consumer_tag: ShortString,
    /// Terms for the core.
    pub checkout: Checkout,
    /// Whether the consumer is to be the only one.
    pub exclusive: bool,
    /// Arguments of the consumer.
    pub arguments: Table,
    /// Room for deliveries in the outbox.
    pub room: OutboxRoom,
    /// Limit that the consumer shares with the others of its channel.
    pub limit: Option<Arc<ChannelLimit>>,
    /// Counts of the messages that the consumer was given.
    pub tally: Arc<Tally>,
    /// Whether the consumer is the single active one, as its client was told with its credit.
    pub told_active: Option<bool>,
}

impl ConsumerChannel {
    /// Attaches a consumer that its queue has taken: tells its outbox.
    pub fn attach(attach: Attach<'_>, wakes: &mut Wakes) -> Self {
        let mut room_bytes = 0;
        wakes.extend(attach.outbox.batch(&mut |sink: &mut dyn Sink| {
            sink.event(Event::Attached {
                channel: attach.channel,
                link: attach.link,
                consumer_tag: attach.consumer_tag,
                no_ack: attach.checkout.settling == AckMode::Auto,
                filters: None,
                answer: attach.answer,
            });
            room_bytes = sink.room_bytes();
        }));
        Self {
            connection: attach.connection,
            channel: attach.channel,
            link: attach.link,
            outbox: Arc::clone(attach.outbox),
            consumer_tag: attach.consumer_tag.clone(),
            checkout: attach.checkout,
            exclusive: attach.asked.exclusive,
            arguments: attach.asked.arguments.clone(),
            room: OutboxRoom::of(room_bytes),
            limit: attach.limit,
            tally: attach.tally,
            told_active: None,
        }
    }

    /// Channel of the consumer, with its connection.
    pub const fn owner(&self) -> Owner {
        (self.connection, self.channel)
    }

    /// The event that tells the client of the consumer's end.
    pub const fn cancelled(&self) -> Event<'_> {
        let Self { channel, link, consumer_tag, .. } = self;
        Event::ConsumerCancelled { channel: *channel, link: *link, consumer_tag }
    }

    /// Tells the client of the consumer's end.
    pub fn tell_cancelled(&self, wakes: &mut Wakes) {
        wakes.extend(self.outbox.batch(&mut |sink: &mut dyn Sink| sink.event(self.cancelled())));
    }

    /// Time for which the consumer itself lets a message wait for its acknowledgement, in milliseconds.
    pub fn timeout_ms(&self) -> Option<u64> {
        own_timeout_ms(&self.arguments)
    }

    /// The consumer, for listings.
    pub fn view(&self, activity: Activity) -> ConsumerView {
        ConsumerView {
            connection: self.connection,
            channel: self.channel,
            consumer_tag: self.consumer_tag.clone(),
            ack_required: self.checkout.settling == AckMode::Manual,
            prefetch_count: self.checkout.credit_mode.prefetch().unwrap_or(0),
            exclusive: self.exclusive,
            arguments: self.arguments.clone(),
            activity,
            waits_for: self.waits_for(),
        }
    }

    /// Whether the consumer is given messages, as far as its outbox is concerned.
    pub fn is_open(&self) -> bool {
        self.room.giving == Giving::Yes
    }

    /// Tells the client its link credit, behind the deliveries that were made before.
    pub fn tell_credit(&self, credit: ConsumerCredit, wakes: &mut Wakes) {
        wakes.extend(self.outbox.batch(&mut |sink: &mut dyn Sink| sink.flowed(self.link, credit)));
    }

    /// Notes that the client is told whether the consumer is the single active one; `None` if it knows.
    pub fn note_active(&mut self, is_active: bool) -> Option<bool> {
        (self.told_active.replace(is_active) != Some(is_active)).then_some(is_active)
    }

    /// The reason that the consumer gets no more, beside its own prefetch limit.
    fn waits_for(&self) -> Option<WaitsFor> {
        let is_limited = self.limit.as_ref().is_some_and(|limit| !limit.has_room());
        match self.room.giving {
            _ if is_limited => Some(WaitsFor::SharedLimit),
            Giving::No => Some(WaitsFor::Client),
            Giving::Yes | Giving::UsedUp => None,
        }
    }
}

/// Time for which a consumer with these arguments lets a message wait for its acknowledgement, in
/// milliseconds.
pub fn own_timeout_ms(arguments: &Table) -> Option<u64> {
    let own_ms = arguments.get(b"x-consumer-timeout")?.as_i64()?;
    u64::try_from(own_ms).ok()
}

/// The room for deliveries in a consumer's outbox, as far as its queue knows.
#[derive(Clone, Copy, Debug)]
pub struct OutboxRoom {
    /// Bytes that the outbox takes, as it said last, less the messages given since.
    bytes: i64,
    giving: Giving,
}

/// Whether a consumer is given anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giving {
    Yes,
    /// No delivery until the outbox was asked, which is about to happen: the room it had is used up.
    UsedUp,
    /// No delivery until the consumer's connection, or the limit that it shares, has room again.
    No,
}

impl OutboxRoom {
    /// The room of so many bytes. One delivery at least is given, so that the outbox can say that it is full.
    pub fn of(bytes: usize) -> Self {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).max(1);
        Self { bytes, giving: Giving::Yes }
    }

    /// Takes what a message needs. True if nothing is left.
    #[inline]
    pub const fn take(&mut self, n_bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_sub_unsigned(n_bytes);
        if self.bytes <= 0 {
            self.giving = Giving::UsedUp;
        }
        self.bytes <= 0
    }

    /// Takes the outbox's word on its room.
    pub fn note(&mut self, room: Room) {
        *self = match room {
            Room::Bytes(bytes) if self.giving == Giving::No => {
                Self { giving: Giving::No, ..Self::of(bytes) }
            }
            Room::Bytes(bytes) => Self::of(bytes),
            Room::Full => Self { bytes: 0, giving: Giving::No },
        };
    }

    /// Stops giving messages to the consumer for now.
    pub const fn close(&mut self) {
        self.giving = Giving::No;
    }

    /// Whether nothing is given to the consumer for now.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.giving == Giving::No
    }

    /// Resumes giving after the shared limit has room again. The outbox may still be full, and says so then.
    pub fn reopen(&mut self) {
        if self.giving == Giving::No {
            self.giving = Giving::Yes;
        }
    }
}
