//! Messages on their way to consumers: the core says whose turn it is, and each outbox is told once.

use super::confirm_on::Confirms;
use super::consumers::Consumers;
use super::content::Content;
use super::durability::{KeptTogether, LoggedAt};
use super::incoming::{Incoming, Publishes};
use super::policy::{Arrivals, with_counts};
use super::unfit::{COUNTS_BYTES_MAX, Next};
use super::{Get, Got, Queue, Wakes, position};
use confirm::DurabilityToken;
use message::MessageRef;
use queue::{AckMode, Assigned, ConsumerKey, Fifo, PositionRange};
use session::{DELIVERY_BYTES, Delivery, Event, Outbox, PROPERTIES_BYTES_ALWAYS_TAKEN, Room, Sink};
use std::sync::atomic::Ordering;
use store::backlog::Lookup;

/// Messages assigned before they are handed to outboxes: bounds the scratch list.
const HAND_OVER_MESSAGES_MAX: usize = 1_024;

/// One assignment, waiting to be handed to its outbox.
#[derive(Clone, Copy)]
pub(super) struct Assignment {
    pub(super) assigned: Assigned,
    /// The place of the incoming message among those that came with it, when it was not stored.
    pub(super) incoming: Option<u32>,
}

impl Assignment {
    /// The incoming message, when it was not stored.
    #[inline]
    fn incoming_of<'m, 'a>(&self, messages: &'m [Incoming<'a>]) -> Option<&'m Incoming<'a>> {
        messages.get(self.incoming? as usize)
    }
}

/// The parts of a queue that have to do with who is given what.
pub(super) struct Deliveries<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) content: &'s mut Content,
    pub(super) consumers: &'s mut Consumers,
    pub(super) confirms: &'s mut Confirms,
    /// Assigned and in no outbox yet.
    pub(super) handed: &'s mut Vec<Assignment>,
    /// The core is to be told the sizes of messages that are given out.
    pub(super) notes_sizes: bool,
    /// Messages say how often they came back.
    pub(super) counts_returns: bool,
}

impl Deliveries<'_> {
    /// Puts messages in: the persistent ones are kept first, all together; then each goes to a
    /// waiting consumer or into the pages.
    pub(super) fn publish_together(
        &mut self,
        queue: &Queue,
        &Publishes { ref messages, any, is_late }: &Publishes<'_, '_>,
        arrivals: Option<&Arrivals>,
        wakes: &mut Wakes,
    ) -> DurabilityToken {
        if is_late {
            let now_ms = queue.storage.time.unix_ms();
            self.confirms.wait_for(messages, self.fifo.messages().next_position(), now_ms);
        }
        // What nobody waits for and a consumer has at once needs no place in the log.
        let first = (self.fifo.messages().next_position(), self.fifo.passes_through());
        let together = self.content.keep_incoming(queue, messages, any, first);
        let (mut upto, mut note) = match together {
            Some(KeptTogether { upto, note, .. }) => (upto, note),
            None => (None, None),
        };
        let n_passed = if together.is_none() { self.pass_on(queue, messages, wakes) } else { 0 };
        for (item, incoming) in (0..).zip(&**messages).skip(n_passed) {
            let kept = together.filter(|together| together.takes(incoming));
            let kept = kept.map(|together| together.kept);
            let at = match arrivals {
                None => self.fifo.enqueue(1),
                Some(arrivals) => arrivals.place(self.fifo, &incoming.message),
            };
            if let Some(late) = self.put_in(queue, (item, at), incoming, kept, wakes) {
                (upto, note) = (upto.max(late.upto), note.max(late.note));
            }
            if self.handed.len() >= HAND_OVER_MESSAGES_MAX {
                self.hand_over(queue, messages, wakes);
            }
        }
        self.hand_over(queue, messages, wakes);
        self.dispatch(queue, wakes);
        self.content.durability.awaited(upto, note)
    }

    /// Hands messages to a consumer that is the only one and settles nothing, straight from where
    /// they lie, until its outbox is full. Returns how many: for those that is all there is to do.
    fn pass_on(&mut self, queue: &Queue, messages: &[Incoming<'_>], wakes: &mut Wakes) -> usize {
        let taker = if self.consumers.any_limited() { None } else { self.fifo.sole_taker() };
        let Some(consumer) = taker else { return 0 };
        let Some(host) = self.consumers.get_mut(consumer) else { return 0 };
        let link = host.link;
        let first = self.fifo.messages().next_position();
        let (mut n_passed, mut room) = (0, Room::Full);
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for (Incoming { message, .. }, at) in messages.iter().zip(first..) {
                if message.properties.len() > PROPERTIES_BYTES_ALWAYS_TAKEN {
                    // Whether it can be sent at all is found out on the longer way.
                    break;
                }
                let delivery = Delivery {
                    position: position(at),
                    redelivered: false,
                    message,
                    settled_by_write: false,
                };
                room = sink.deliver(link, delivery);
                n_passed += 1;
                if room == Room::Full {
                    break;
                }
            }
        });
        wakes.extend(waker);
        if n_passed == 0 {
            return 0;
        }
        if queue.storage.host.is_traced() {
            for incoming in messages.iter().take(n_passed) {
                self.consumers.trace(queue, consumer, false, &incoming.message);
            }
        }
        self.fifo.pass_on(n_passed as u64);
        self.consumers.change(self.fifo, consumer, |it| it.room.note(room));
        queue.counters.n_delivered.fetch_add(n_passed as u64, Ordering::Relaxed);
        n_passed
    }

    /// Puts one message where it has its place, and gives it to a consumer when one waits for it.
    /// Returns how it is kept if that had to be done now.
    fn put_in(
        &mut self,
        queue: &Queue,
        (item, at): (u32, u64),
        incoming: &Incoming<'_>,
        kept: Option<LoggedAt>,
        wakes: &mut Wakes,
    ) -> Option<KeptTogether> {
        stdx::walk::step("enqueue");
        let message = &incoming.message;
        let next = match () {
            () if self.fifo.is_waiting() => None,
            () if self.fifo.messages().head() == Some(at) => Some(message.properties.len()),
            () => self.head_properties_bytes(),
        };
        let given = next.and_then(|n_bytes| self.next_delivery(queue, n_bytes, wakes));
        let direct =
            given.is_some_and(|given| given.position == at && given.settling == AckMode::Auto);
        let mut late = None;
        if direct {
            self.content.note_gone(at, kept);
        } else {
            late = if kept.is_none() { self.content.keep_late(queue, at, incoming) } else { None };
            let kept = kept.or_else(|| late.map(|late| late.kept));
            let segment = kept.and_then(|kept| kept.segment);
            self.content.store(queue, (at, segment), incoming);
        }
        if let Some(assigned) = given {
            let incoming = direct.then_some(item);
            if self.notes_sizes {
                self.note_sent(&assigned, direct.then(|| message.body.len()));
            }
            self.charge(assigned, message.size_bytes());
            self.handed.push(Assignment { assigned, incoming });
        }
        late
    }

    /// Gives ready messages to consumers until there are no more, or nobody can take one.
    pub(super) fn dispatch(&mut self, queue: &Queue, wakes: &mut Wakes) {
        loop {
            while self.handed.len() < HAND_OVER_MESSAGES_MAX && !self.fifo.is_waiting() {
                let Some(next) = self.size_of_next() else { break };
                let properties_bytes = next.properties_bytes;
                let Some(assigned) = self.next_delivery(queue, properties_bytes, wakes) else {
                    break;
                };
                if self.notes_sizes {
                    self.note_sent(&assigned, None);
                }
                self.charge(assigned, next.size_bytes);
                self.handed.push(Assignment { assigned, incoming: None });
            }
            if self.handed.is_empty() {
                break;
            }
            self.hand_over(queue, &[], wakes);
        }
        self.content.note_in_log(queue);
    }

    /// The size of the first ready message; none while it is on disk only. One that was lost while
    /// a consumer held it, and came back, is forgotten.
    fn size_of_next(&mut self) -> Option<Next> {
        loop {
            let first = self.fifo.messages().head()?;
            match self.content.backlog.get(first) {
                Lookup::Here(message) => return Some(Next::of(&message)),
                Lookup::Cold => return None,
                Lookup::Gone => {
                    self.fifo.messages_mut().discard(PositionRange::one(first));
                    self.confirms.not_consumed(PositionRange::one(first));
                }
            }
        }
    }

    /// The size of the first ready message's properties; none while it is not in memory.
    fn head_properties_bytes(&self) -> Option<usize> {
        match self.content.backlog.get(self.fifo.messages().head()?) {
            Lookup::Here(message) => Some(message.properties.len()),
            Lookup::Cold | Lookup::Gone => None,
        }
    }

    /// The next message, which has so many bytes of properties, for the consumer whose turn it is, who takes
    /// such properties, and whose channel has room for it.
    fn next_delivery(
        &mut self,
        queue: &Queue,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        if self.consumers.any_limited() || properties_bytes > PROPERTIES_BYTES_ALWAYS_TAKEN {
            return self.next_limited(queue, properties_bytes, wakes);
        }
        self.fifo.next_delivery()
    }

    #[cold]
    fn next_limited(
        &mut self,
        queue: &Queue,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> Option<Assigned> {
        loop {
            let consumer =
                self.fifo.consumers().next().filter(|_| self.fifo.messages().head().is_some())?;
            if !self.fits_consumer(queue, consumer, properties_bytes, wakes) {
                self.consumers.change(self.fifo, consumer, |it| it.room.close());
                continue;
            }
            let host = self.consumers.get_mut(consumer);
            let Some((limit, host)) = host.and_then(|host| Some((host.limit.clone()?, host)))
            else {
                return self.fifo.next_delivery();
            };
            let settling = host.checkout.settling;
            if !limit.admits(host.link, settling) {
                self.consumers.change(self.fifo, consumer, |it| it.room.close());
                continue;
            }
            let given = self.fifo.next_delivery();
            if given.is_none() && settling == AckMode::Manual {
                limit.release(1);
            }
            return given;
        }
    }

    /// Whether a client takes the properties of the next message; if not, its connection is about to end.
    fn fits(
        &self,
        queue: &Queue,
        outbox: &dyn Outbox,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> bool {
        if properties_bytes <= PROPERTIES_BYTES_ALWAYS_TAKEN {
            return true;
        }
        let added_bytes = if self.counts_returns { COUNTS_BYTES_MAX } else { 0 };
        let mut fits = false;
        wakes.extend(outbox.batch(&mut |sink: &mut dyn Sink| {
            fits = sink.fits(properties_bytes + added_bytes, queue.def.name.as_str());
        }));
        fits
    }

    /// As [`Deliveries::fits`], for a consumer.
    #[cold]
    fn fits_consumer(
        &self,
        queue: &Queue,
        consumer: ConsumerKey,
        properties_bytes: usize,
        wakes: &mut Wakes,
    ) -> bool {
        let host = self.consumers.get(consumer);
        host.is_none_or(|host| self.fits(queue, &*host.outbox, properties_bytes, wakes))
    }

    /// Takes what the message needs from what the consumer's outbox is believed to hold.
    fn charge(&mut self, assigned: Assigned, size_bytes: usize) {
        let Some(host) = self.consumers.get_mut(assigned.consumer) else { return };
        let n_bytes = (size_bytes + DELIVERY_BYTES) as u64;
        if host.room.take(n_bytes) {
            self.fifo.consumers_mut().set_credit(assigned.consumer, 0);
        }
    }

    /// Tells the core the size of a message that was given out just now, where sizes count.
    fn note_sent(&mut self, assigned: &Assigned, bytes: Option<usize>) {
        let bytes = bytes.unwrap_or_else(|| match self.content.backlog.get(assigned.position) {
            Lookup::Here(message) => message.body.len(),
            Lookup::Cold | Lookup::Gone => 0,
        });
        if let Some(policy) = self.fifo.messages_mut().policy_mut() {
            policy.note_sent(assigned.position, assigned.settling, bytes as u64);
        }
    }

    /// Hands what was assigned to the outboxes, each locked once.
    fn hand_over(&mut self, queue: &Queue, messages: &[Incoming<'_>], wakes: &mut Wakes) {
        if self.handed.is_empty() {
            return;
        }
        stdx::walk::step("assign");
        let mut handed = std::mem::take(self.handed);
        let first = handed.first().map(|one| one.assigned.consumer);
        if handed.iter().any(|one| Some(one.assigned.consumer) != first) {
            handed.sort_unstable_by_key(|one| (one.assigned.consumer, one.assigned.position));
        }
        for run in handed.chunk_by(|a, b| a.assigned.consumer == b.assigned.consumer) {
            self.hand_to_one(run, messages, wakes);
        }
        if queue.storage.host.is_traced() {
            self.trace_handed(queue, &handed, messages);
        }
        queue.counters.n_delivered.fetch_add(handed.len() as u64, Ordering::Relaxed);
        let held = |one: &&Assignment| one.assigned.settling == AckMode::Manual;
        let held = handed.iter().filter(held).map(|one| one.assigned.position);
        self.content.durability.note_delivered(held);
        for one in &handed {
            if one.assigned.settling == AckMode::Auto && one.incoming.is_none() {
                self.content.release(&queue.storage.pool, one.assigned.position);
            }
        }
        handed.clear();
        *self.handed = handed;
    }

    fn hand_to_one(&mut self, run: &[Assignment], messages: &[Incoming<'_>], wakes: &mut Wakes) {
        let Some(consumer) = run.first().map(|one| one.assigned.consumer) else { return };
        let counts_returns = self.counts_returns;
        let (backlog, fifo) = (&self.content.backlog, &self.fifo);
        let Some(host) = self.consumers.get_mut(consumer) else { return };
        let link = host.link;
        let settles_nothing = host.checkout.settling == AckMode::Auto;
        let mut room = Room::Full;
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for one in run {
                let stored;
                let message = match one.incoming_of(messages) {
                    Some(incoming) => &incoming.message,
                    None => {
                        stored = backlog.get(one.assigned.position);
                        let Lookup::Here(message) = &stored else { continue };
                        message
                    }
                };
                let delivery = Delivery {
                    position: position(one.assigned.position),
                    redelivered: one.assigned.redelivered,
                    message,
                    settled_by_write: settles_nothing && one.assigned.settling == AckMode::Manual,
                };
                if counts_returns
                    && let Some(counted) = with_counts(
                        message,
                        fifo.messages()
                            .policy()
                            .map_or_else(queue::DeliveryCounts::default, |it| {
                                it.returns().of(one.assigned.position)
                            }),
                    )
                {
                    let message = &MessageRef { properties: &counted, ..*message };
                    room = sink.deliver(link, Delivery { message, ..delivery });
                    continue;
                }
                room = sink.deliver(link, delivery);
            }
        });
        wakes.extend(waker);
        self.consumers.change(self.fifo, consumer, |it| it.room.note(room));
    }

    /// Gives the next message to `get`'s outbox, if there is one and it is in memory.
    pub(super) fn get(
        &mut self,
        queue: &Queue,
        consumer: ConsumerKey,
        get: &Get<'_>,
        wakes: &mut Wakes,
    ) -> Got {
        match self.size_of_next() {
            None if self.fifo.messages().n_ready() > 0 => return Got::NotInMemory,
            Some(next) if !self.fits(queue, &**get.outbox, next.properties_bytes, wakes) => {
                return Got::Unfit;
            }
            None | Some(_) => {}
        }
        let wished = if get.no_ack { AckMode::Auto } else { AckMode::Manual };
        let Some(assigned) = self.fifo.take(consumer, wished) else {
            return Got::Nothing;
        };
        let is_held = assigned.settling == AckMode::Manual;
        if self.notes_sizes {
            self.note_sent(&assigned, None);
        }
        let n_ready = self.fifo.messages().n_ready();
        if let Lookup::Here(mut message) = self.content.backlog.get(assigned.position) {
            let counts =
                self.fifo.messages().policy().map_or_else(queue::DeliveryCounts::default, |it| {
                    it.returns().of(assigned.position)
                });
            let counted = with_counts(&message, counts).filter(|_| self.counts_returns);
            if let Some(counted) = &counted {
                message.properties = counted;
            }
            let delivery = Delivery {
                position: position(assigned.position),
                redelivered: assigned.redelivered,
                message: &message,
                settled_by_write: get.no_ack && is_held,
            };
            wakes.extend(get.outbox.batch(&mut |sink: &mut dyn Sink| {
                sink.event(Event::Got {
                    channel: get.channel,
                    link: get.link,
                    delivery,
                    no_ack: get.no_ack,
                    n_ready,
                });
            }));
        }
        if queue.storage.host.is_traced()
            && let Lookup::Here(message) = self.content.backlog.get(assigned.position)
        {
            self.consumers.trace(queue, consumer, assigned.redelivered, &message);
        }
        queue.counters.n_delivered.fetch_add(1, Ordering::Relaxed);
        if is_held {
            self.content.durability.note_delivered(std::iter::once(assigned.position));
        }
        if !is_held {
            self.content.release(&queue.storage.pool, assigned.position);
            self.content.note_in_log(queue);
        }
        Got::Message
    }

    /// Tells the firehose of what was handed over.
    #[cold]
    fn trace_handed(&self, queue: &Queue, handed: &[Assignment], messages: &[Incoming<'_>]) {
        for one in handed {
            let Assigned { consumer, position, redelivered, .. } = one.assigned;
            match one.incoming_of(messages) {
                Some(incoming) => {
                    self.consumers.trace(queue, consumer, redelivered, &incoming.message)
                }
                None => {
                    if let Lookup::Here(message) = self.content.backlog.get(position) {
                        self.consumers.trace(queue, consumer, redelivered, &message);
                    }
                }
            }
        }
    }
}
