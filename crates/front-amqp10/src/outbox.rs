//! A client's outbox: the state of the connection behind a lock, which the broker's threads put events into
//! and the connection's task reads with.

mod consumers;
mod events;

use crate::connection::ServerConnection;
use crate::message_scratch::MessageScratch;
use crate::requests::{LinkRequest, SentMessage};
use amqp10::{SerialNumber, put_empty_frame};
pub(crate) use consumers::OnceGiven;
use consumers::{ConsumerLink, ConsumerLinks, HeldDelivery};
use edge::{Closing, OutboxBudget, OutboxState, Outgoing, Put, SharedOutbox, WriteBatch};
use session::{
    ChannelId, Confirmation, DELIVERY_BYTES, Delivery, Event, LinkId, Position, Room, Sink,
    UnsettledSince,
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
    pub(crate) scratch: MessageScratch,
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

    fn heartbeat(&mut self, n_taken_before: u64) -> u64 {
        if self.out.is_silent_since(n_taken_before) {
            put_empty_frame(&mut self.server.life.out);
            self.flush();
        }
        self.out.n_taken()
    }

    fn trim(&mut self) {
        self.out.trim();
        self.server.life.out.shrink_to_fit();
        self.scratch.trim();
    }

    /// Returns no positions: queues that ask for them are not consumed over this protocol.
    fn unsettled(&mut self, _links: &[LinkId]) -> Vec<(LinkId, Position)> {
        Vec::new()
    }

    fn unsettled_since(&mut self, _link: LinkId) -> Option<UnsettledSince> {
        None
    }
}

impl Sink for LockedServer {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        // Its consumer is lost, or its session is: the delivery goes back with what that held.
        let Some(consumer) = self.consumers.get_mut(link) else { return Room::Full };
        let message = self.scratch.encode(&delivery);
        let Delivery { position, settled_by_write, .. } = delivery;
        if consumer.credit == 0 || !consumer.held.is_empty() {
            let message = message.to_vec();
            consumer.held.push_back(HeldDelivery { position, settled_by_write, message });
            return Room::Full;
        }
        self.send(link, position, settled_by_write);
        self.room_after(link)
    }

    fn room_bytes(&self, link: LinkId) -> usize {
        let credit_bytes = self.consumers.get(link).map_or(0, ConsumerLink::credit_bytes);
        self.out.room_bytes().min(credit_bytes)
    }

    fn event(&mut self, event: Event<'_>) {
        self.take_event(event);
        self.flush();
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        self.server.answer(events::session_channel(channel), first, last, answer);
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
            scratch: MessageScratch::default(),
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

    /// Sends the message in the scratch.
    fn send(&mut self, link: LinkId, position: Position, settled_by_write: bool) {
        self.flush();
        let starts_at = self.out.end_of_bytes();
        let Some(consumer) = self.consumers.get_mut(link) else { return };
        consumer.credit -= 1;
        consumer.delivery_count = consumer.delivery_count.plus(1);
        let (key, tag) = (consumer.key, u64::from(consumer.delivery_count.bits()));
        let message = SentMessage { position, sections: self.scratch.message() };
        self.server.deliver(key, message, &mut self.follow_up);
        self.flush();
        if settled_by_write {
            let (channel, ends_at) = (broker_channel(key.channel).0, self.out.end_of_bytes());
            self.out.settle_by_write(Put { channel, link, tag, position, starts_at, ends_at });
        }
    }

    /// The room that a link has left: no more deliveries than its credit, and none while much waits for the
    /// session's window.
    fn room_after(&mut self, link: LinkId) -> Room {
        let Self { consumers, out, server, .. } = self;
        let Some(consumer) = consumers.get_mut(link) else { return Room::Full };
        let credit_bytes = consumer.credit_bytes();
        if credit_bytes == 0 {
            return Room::Full;
        }
        if server.sessions.n_waiting_bytes_of(consumer.key.channel.0) >= WAITING_BYTES_MAX {
            consumer.waits_for_window = true;
            return Room::Full;
        }
        match out.room_after(link, &mut consumer.is_paused) {
            Room::Bytes(bytes) => Room::Bytes(bytes.min(credit_bytes)),
            Room::Full => Room::Full,
        }
    }

    /// Takes the credit that a client gives a consumer, and sends what was held for want of it.
    pub(crate) fn give_credit(&mut self, link: LinkId, (seen, credit): (SerialNumber, u32)) {
        let Some(consumer) = self.consumers.get_mut(link) else { return };
        consumer.set_credit(seen, credit);
        while let Some(consumer) = self.consumers.get_mut(link)
            && consumer.credit > 0
            && let Some(held) = consumer.held.pop_front()
        {
            let HeldDelivery { position, settled_by_write, message } = held;
            self.scratch.put_back(message);
            self.send(link, position, settled_by_write);
        }
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
        self.out.forget_channel(channel.0);
    }
}

const _: () = assert!(DELIVERY_BYTES > 0, "a link's credit is told in bytes");
