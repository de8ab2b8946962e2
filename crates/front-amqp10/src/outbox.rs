//! A client's outbox: the state of the connection behind a lock, which the broker's threads put events into
//! and the connection's task reads with.

mod consumers;
mod events;
mod responses;

use crate::connection::{ServerConnection, listed_session, release_overdue};
use crate::requests::{LinkRequest, SentContent, SentMessage};
use amqp10::put_empty_frame;
use consumers::{ConsumerLink, ConsumerLinks};
use conversion::DeliveryAttempt;
use edge::{
    Closing, OutboxBudget, OutboxState, Outgoing, Put, SharedOutbox, WriteBatch, note_converted,
};
use responses::PendingResponses;
use session::{
    ChannelId, Confirmation, ConsumerCredit, ConvertedTo, Delivery, Event, LinkId, ListedSession,
    Position, Room, Sink,
};
use std::sync::Arc;

pub(crate) use events::{attach_origin, broker_channel};

/// Bytes of deliveries of a session that wait for its client's window, from which on its links have no room.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// The outbox of a connection's client.
pub type ClientOutbox = SharedOutbox<LockedServer>;

/// The part behind the outbox's lock.
#[derive(Debug)]
pub struct LockedServer {
    out: Outgoing,
    pub(crate) server: ServerConnection,
    pub(crate) consumers: ConsumerLinks,
    /// Requests that follow from events, for the next read.
    pub(crate) follow_up: Vec<LinkRequest>,
    pub(crate) responses: PendingResponses,
}

impl OutboxState for LockedServer {
    fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    fn take(&mut self, batch: &mut WriteBatch) -> bool {
        self.flush();
        let consumers = &mut self.consumers;
        self.out.take(batch, || consumers.resume())
    }

    fn n_pending(&self) -> usize {
        self.out.n_pending()
    }

    fn has_something(&self) -> bool {
        self.out.has_something()
            || !self.server.life.out.is_empty()
            || self.server.sessions.has_outcomes()
    }

    fn put_heartbeat(&mut self) {
        put_empty_frame(&mut self.server.life.out);
        self.flush();
    }

    fn trim(&mut self) {
        self.out.trim();
        self.server.life.out.shrink_to_fit();
    }

    fn session_from(&self, channel: ChannelId) -> Option<ListedSession> {
        listed_session(&self.server, channel)
    }
}

impl Sink for LockedServer {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        let Self { out, server, consumers, follow_up, .. } = self;
        // Its consumer is lost, or its session is: the delivery goes back with what that held.
        let Some(consumer) = consumers.get_mut(link) else { return Room::Full };
        let key = consumer.key;
        out.rope().bytes().append(&mut server.life.out);
        let starts_at = out.end_of_bytes();
        let Delivery { position, settled_by_write, message, redelivered, n_failed } = delivery;
        if message.form.is_plain() {
            note_converted(out, ConvertedTo::Sections);
        }
        let attempt = DeliveryAttempt::of(message, redelivered, n_failed);
        let content = SentContent::Stored { message, attempt };
        // The frames are made where they are written from.
        std::mem::swap(out.rope().bytes(), &mut server.life.out);
        server.deliver(key, SentMessage { position, content }, follow_up);
        std::mem::swap(out.rope().bytes(), &mut server.life.out);
        if settled_by_write {
            let (channel, ends_at) = (broker_channel(key.channel).0, out.end_of_bytes());
            // Nobody asks for the numbers of deliveries.
            let tag = 0;
            out.settle_by_write(Put { channel, link, tag, position, starts_at, ends_at });
        }
        let room = room_after(out, server, link, consumer);
        if self.server.life.is_closing() {
            self.flush();
        }
        room
    }

    fn room_bytes(&self) -> usize {
        self.out.room_bytes()
    }

    fn event(&mut self, event: Event<'_>) {
        self.take_event(event);
        self.flush();
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        self.server.answer(events::session_channel(channel), first, last, answer);
    }

    fn flowed(&mut self, link: LinkId, credit: ConsumerCredit) {
        if let Some(consumer) = self.consumers.get(link) {
            self.server.flowed(consumer.key, credit);
            self.flush();
        }
    }

    fn timed_out(&mut self, link: LinkId, positions: &[Position]) -> bool {
        let Some(consumer) = self.consumers.get(link) else { return true };
        let is_told = release_overdue(&mut self.server, consumer.key, positions);
        self.flush();
        is_told
    }

    fn readable(&mut self, link: LinkId) {
        let Self { consumers, out, .. } = self;
        if let Some(consumer) = consumers.get_mut(link) {
            out.readable(link, &mut consumer.is_paused);
        }
    }
}

impl LockedServer {
    /// Creates the outbox of a client that has said nothing yet.
    pub(crate) fn new(server: ServerConnection, budget: &Arc<OutboxBudget>) -> Self {
        Self {
            out: Outgoing::new(budget),
            server,
            consumers: ConsumerLinks::default(),
            follow_up: Vec::new(),
            responses: PendingResponses::default(),
        }
    }

    /// Puts what the connection has to say behind what waits to be written, and ends the output with it.
    pub(crate) fn flush(&mut self) {
        if self.out.closing() == Closing::Ended {
            return;
        }
        self.server.take_output(self.out.rope().bytes());
        if let Some(close_mode) = self.server.close_mode() {
            self.out.end(close_mode);
        } else if self.server.life.is_closing() && self.out.closing() == Closing::No {
            self.out.close();
        }
    }

    /// The task is awake: nobody needs to wake it.
    pub(crate) fn awake(&mut self) {
        self.out.awake();
    }

    /// Resumes links whose sessions have a window again.
    pub(crate) fn resume_windows(&mut self) {
        let Self { consumers, out, server, .. } = self;
        for (link, consumer) in consumers.waiting_for_windows() {
            if server.sessions.n_waiting_bytes_of(consumer.key.channel.0) <= WAITING_BYTES_MAX / 2 {
                consumer.waits_for_window = false;
                out.readable(link, &mut consumer.is_paused);
            }
        }
    }

    /// Forgets the deliveries of a channel that are settled by being written: they go back to their queues.
    fn forget_channel(&mut self, channel: ChannelId) {
        self.consumers.forget_channel(events::session_channel(channel));
        self.responses.forget_channel(events::session_channel(channel));
        self.out.forget_channel(channel.0);
    }
}

/// The room that a link has left: none while much waits for the session's window.
#[inline]
fn room_after(
    out: &mut Outgoing,
    server: &ServerConnection,
    link: LinkId,
    consumer: &mut ConsumerLink,
) -> Room {
    if server.sessions.n_waiting_bytes_of(consumer.key.channel.0) >= WAITING_BYTES_MAX {
        consumer.waits_for_window = true;
        return Room::Full;
    }
    out.room_after(link, &mut consumer.is_paused)
}
