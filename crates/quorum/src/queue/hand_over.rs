//! Assigned messages on their way into outboxes. The machine gives a consumer as many as it may hold; those
//! that its outbox has no room for, or that are on disk, wait here.

use super::QuorumQueue;
use super::consumer::Consumer;
use super::notes::with_notes;
use super::turn::Turn;
use conversion::{annotate, properties_bytes_max};
use delivery::{COUNTS_BYTES_MAX, ConsumerChannel, add_counts, own_timeout_ms};
use message::MessageRef;
use queue::machine::{
    Answer, Assigned, Attach as Terms, Command, Get as Take, Items, LinkFacts, MessageNotes,
    NumberRange, Outcome, TimedOut,
};
use queue::{AckMode, CreditMode, DeliveryCounts, LinkCredit, Return};
use queue_type::{Attach, AttachRefused, Count, Given, Got, Taker};
use session::{
    ConsumerCredit, Delivery, Event, LinkId, Outbox, PROPERTIES_BYTES_ALWAYS_TAKEN, Position, Room,
    Sink,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::backlog::{Backlog, Lookup};

/// The node, as the machine knows it.
const THIS_NODE: u32 = 0;

impl Turn<'_> {
    /// Adds a consumer, and tells its outbox.
    pub(crate) fn attach(
        &mut self,
        attach: Attach<'_>,
        is_active: &Arc<AtomicBool>,
    ) -> Result<u64, AttachRefused> {
        if self.state.is_deleted {
            return Err(AttachRefused::Gone);
        }
        let consumer = self.state.members.next_id();
        let of_consumer = own_timeout_ms(&attach.asked.arguments);
        let of_others = self.state.terms.consumer_timeout_ms.or(attach.node_timeout_ms);
        let timeout_ms = of_consumer.or(of_others).filter(|it| *it > 0);
        self.apply(&Command::Attach(Terms {
            consumer,
            node: THIS_NODE,
            prefetch: attach.checkout.credit_mode.prefetch().unwrap_or(0),
            has_link_credit: attach.checkout.credit_mode == CreditMode::Link,
            priority: attach.checkout.priority,
            timeout_ms,
        }));
        if !matches!(self.take_answer(), Some(Answer::Attached { .. })) {
            return Err(AttachRefused::Gone);
        }
        let channel = ConsumerChannel::attach(Attach { limit: None, ..attach }, self.wakes);
        self.state.members.add(consumer, channel, Arc::clone(is_active), timeout_ms);
        Ok(consumer)
    }

    /// A consumer settles deliveries, in this order.
    pub(crate) fn settle(
        &mut self,
        consumer: u64,
        outcome: Outcome,
        settled: impl Iterator<Item = u64>,
    ) {
        let mut numbers = std::mem::take(&mut self.work.numbers);
        for number in settled {
            match numbers.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                Some(_) | None => numbers.push(NumberRange::one(number)),
            }
        }
        if !numbers.is_empty() {
            let numbers = Items::Slice(&numbers);
            self.apply(&Command::Settle { consumer, outcome, numbers });
        }
        numbers.clear();
        self.work.numbers = numbers;
    }

    /// Hands what was assigned to the outboxes, each locked once.
    pub(crate) fn hand_over(&mut self) {
        let mut touched = std::mem::take(&mut self.work.touched);
        for run in self.work.effects.assigned.chunk_by(|a, b| a.consumer == b.consumer) {
            let Some(Assigned { consumer, .. }) = run.first() else { continue };
            if let Some(feed) = self.state.members.feed_mut(*consumer) {
                if feed.waiting.is_empty() {
                    touched.push(*consumer);
                }
                feed.waiting.extend(run);
            }
        }
        self.work.effects.assigned.clear();
        for consumer in touched.drain(..) {
            self.feed(consumer);
        }
        self.work.touched = touched;
    }

    /// Gives a consumer what waits for it, as far as there is room and it is in memory.
    pub(crate) fn feed(&mut self, consumer: u64) {
        let (state, queue) = (&mut *self.state, self.queue);
        let Some(feed) =
            state.members.feed_mut(consumer).filter(|feed| !feed.channel.room.is_closed())
        else {
            return;
        };
        let (backlog, seen_below) = (&state.content.backlog, state.seen_below);
        let facts = state.machine.facts();
        let channel = &mut feed.channel;
        let (outbox, link) = (Arc::clone(&channel.outbox), channel.link);
        let settled_by_write = channel.checkout.settling == AckMode::Auto;
        let host = &queue.context.services.host;
        let owner = host.is_traced().then_some(channel.owner());
        let (mut n_given, mut n_again, mut lost) = (0, 0, Vec::new());
        let mut annotated = Vec::new();
        let waker = outbox.batch(&mut |sink: &mut dyn Sink| {
            while let Some(next) = feed.waiting.front() {
                let message = match backlog.get(next.position) {
                    Lookup::Here(message) => message,
                    Lookup::Cold => return,
                    Lookup::Gone => {
                        lost.push(next.number);
                        feed.waiting.pop_front();
                        continue;
                    }
                };
                let message = with_notes(facts, next, message, &mut annotated);
                if !fits(sink, &message, queue.def().name.as_str()) {
                    channel.room.close();
                    return;
                }
                let counted = add_counts(next.counts, &message);
                let redelivered = is_redelivered(next, seen_below);
                let message = MessageRef {
                    properties: counted.as_deref().unwrap_or(message.properties),
                    ..message
                };
                let position = Position(next.number);
                debug_assert!(!channel.room.is_closed(), "a message is given where there is room");
                let n_failed = next.counts.n_failed;
                let message = &message;
                let delivery =
                    Delivery { position, redelivered, n_failed, settled_by_write, message };
                let room = sink.deliver(link, delivery);
                if let Some(owner) = owner {
                    let position = (!settled_by_write).then_some(next.number);
                    let given = Given { redelivered, position };
                    host.trace_delivery(queue.def(), owner, given, message);
                }
                feed.waiting.pop_front();
                n_given += 1;
                n_again += u64::from(redelivered);
                if room == Room::Full {
                    channel.room.close();
                    return;
                }
            }
            if let Some(told) = feed.credit.take() {
                let now = facts.link(consumer).map(|it| it.credit);
                sink.flowed(link, as_of_now(told, now));
            }
        });
        self.wakes.extend(waker);
        let what = if settled_by_write { Count::DeliveredAuto } else { Count::Delivered };
        for tally in [&queue.counters.tally, &*channel.tally] {
            tally.add(what, n_given);
            tally.add(Count::Redelivered, n_again);
        }
        // Damaged messages are nobody's.
        self.settle(consumer, Outcome::Accepted, lost.into_iter());
    }

    /// Tells a consumer's client whether the consumer is the single active one, if it has given credit.
    pub(crate) fn tell_active(&mut self, consumer: u64) {
        let facts = self.state.machine.facts();
        let Some(LinkFacts { credit, is_active: Some(is_active) }) = facts.link(consumer) else {
            return;
        };
        let available = u32::try_from(facts.n_ready()).unwrap_or(u32::MAX);
        let LinkCredit { delivery_count, credit } = credit;
        let feed = self.state.members.feed_mut(consumer);
        let Some(feed) = feed.filter(|feed| feed.channel.told_active.is_some()) else { return };
        if let Some(is_active) = feed.channel.note_active(is_active) {
            let drain = feed.credit.is_some_and(|it| it.drain);
            let is_active = Some(is_active);
            feed.credit =
                Some(ConsumerCredit { delivery_count, credit, available, drain, is_active });
            self.feed(consumer);
        }
    }

    /// Gives consumers what has come into memory.
    pub(crate) fn feed_waiting(&mut self) {
        let waiting: Vec<u64> = self.state.members.waiting().map(|(id, _)| id).collect();
        waiting.into_iter().for_each(|consumer| self.feed(consumer));
    }

    /// Consumers are given nothing any more: what is not in their outboxes goes back, to none of them.
    pub(crate) fn stop_feeding(&mut self, consumers: impl Iterator<Item = u64>) {
        let members = &mut self.state.members;
        let feeds: Vec<_> = consumers.filter_map(|id| Some((id, members.take_feed(id)?))).collect();
        for (consumer, _) in &feeds {
            self.apply(&Command::Cancel { consumer: *consumer });
        }
        for (consumer, feed) in feeds {
            let unsent = feed.waiting.iter().map(|assigned| assigned.number);
            self.settle(consumer, Outcome::Returned(Return::Released), unsent);
        }
    }

    /// A consumer has held messages for too long: its client is told to settle them, or that the consumer is
    /// cancelled, or loses its channel if that is beyond it. One that is told to settle is still sent those
    /// that wait here: it has spent credit on them. COMPAT: RabbitMQ gives a consumer that it has cancelled
    /// in this way deliveries again once it has acknowledged; clients do not expect that.
    pub(crate) fn tell_overdue(&mut self, overdue: &[TimedOut]) {
        let Some(TimedOut { consumer, .. }) = overdue.first().copied() else { return };
        let positions: Vec<Position> = overdue.iter().map(|it| Position(it.number)).collect();
        let (mut is_kept, mut is_told) = (false, false);
        if let Some(feed) = self.state.members.feed_mut(consumer) {
            self.wakes.extend(feed.channel.outbox.batch(&mut |sink: &mut dyn Sink| {
                is_kept = sink.timed_out(feed.channel.link, &positions);
                is_told = !is_kept && sink.understands_cancels();
                if is_told {
                    sink.event(feed.channel.cancelled());
                }
            }));
        }
        if is_told {
            self.stop_feeding(std::iter::once(consumer));
            self.state.members.note_timeout_known(consumer);
        } else if !is_kept {
            self.state.members.note_overdue(consumer);
        }
    }

    /// Gives the next message to an outbox, if there is one and it is in memory.
    pub(crate) fn get(
        &mut self,
        consumer: &Consumer,
        Taker { link, outbox, tally }: Taker<'_>,
    ) -> Result<Got, AttachRefused> {
        let counted = [&self.queue.counters.tally, tally];
        if self.state.is_deleted {
            return Err(AttachRefused::Gone);
        }
        loop {
            if let Err(got) = self.next_fitting(outbox) {
                return Ok(got);
            }
            // A message is gone only once it was handed over, also if the client acknowledges nothing.
            self.apply(&Command::Get(Take {
                request: 0,
                settles: false,
                consumer: consumer.id,
                node: THIS_NODE,
                timeout_ms: self.state.members.timeout_ms(consumer.id),
            }));
            let (assigned, n_ready) = match self.take_answer() {
                Some(Answer::Got { assigned, n_ready, .. }) => (assigned, n_ready),
                Some(Answer::SingleActive { .. }) => return Err(refuse_get(self.queue)),
                _ => {
                    counted.into_iter().for_each(|tally| tally.add(Count::GotEmpty, 1));
                    return Ok(Got::Nothing);
                }
            };
            let number = std::iter::once(assigned.number);
            match self.give_got(consumer, link, &**outbox, &assigned, n_ready) {
                Some(true) => {
                    if consumer.is_no_ack {
                        self.settle(consumer.id, Outcome::Accepted, number);
                    }
                    let what = if consumer.is_no_ack { Count::GotAuto } else { Count::Got };
                    let again = u64::from(is_redelivered(&assigned, self.state.seen_below));
                    for tally in counted {
                        tally.add(what, 1);
                        tally.add(Count::Redelivered, again);
                    }
                    return Ok(Got::Message);
                }
                // The message was not the expected one: others have expired meanwhile.
                Some(false) => {
                    self.settle(consumer.id, Outcome::Returned(Return::Released), number);
                    return Ok(Got::NotInMemory);
                }
                // Damaged messages are given to nobody.
                None => self.settle(consumer.id, Outcome::Accepted, number),
            }
        }
    }

    /// Whether the next message is in memory, and the client can be sent it.
    fn next_fitting(&mut self, outbox: &Arc<dyn Outbox>) -> Result<(), Got> {
        let facts = self.state.machine.facts();
        let Some(next) = facts.ready().next() else { return Ok(()) };
        match self.state.content.backlog.get(next) {
            Lookup::Cold => Err(Got::NotInMemory),
            Lookup::Gone => Ok(()),
            Lookup::Here(message) => {
                let mut annotated = Vec::new();
                let message = match MessageNotes::of(facts).at(next) {
                    Some(notes) => annotate(&message, notes, &mut annotated),
                    None => message,
                };
                let mut is_fit = false;
                let name = self.queue.def().name.as_str();
                self.wakes.extend(outbox.batch(&mut |sink| is_fit = fits(sink, &message, name)));
                if is_fit { Ok(()) } else { Err(Got::Unfit) }
            }
        }
    }

    /// Puts a message that was got into the outbox. False if it is on disk; none if it was lost.
    fn give_got(
        &mut self,
        consumer: &Consumer,
        link: LinkId,
        outbox: &dyn Outbox,
        assigned: &Assigned,
        n_ready: u64,
    ) -> Option<bool> {
        let message = match lookup(&self.state.content.backlog, assigned) {
            Lookup::Here(message) => message,
            Lookup::Cold => return Some(false),
            Lookup::Gone => return None,
        };
        let mut annotated = Vec::new();
        let message = with_notes(self.state.machine.facts(), assigned, message, &mut annotated);
        let counted = add_counts(assigned.counts, &message);
        let properties = counted.as_deref().unwrap_or(message.properties);
        let message = MessageRef { properties, ..message };
        let redelivered = is_redelivered(assigned, self.state.seen_below);
        let delivery = Delivery {
            position: Position(assigned.number),
            redelivered,
            n_failed: assigned.counts.n_failed,
            message: &message,
            settled_by_write: false,
        };
        self.wakes.extend(outbox.batch(&mut |sink: &mut dyn Sink| {
            let (channel, no_ack) = (consumer.channel, consumer.is_no_ack);
            sink.event(Event::Got { channel, link, delivery, no_ack, n_ready });
        }));
        let host = &self.queue.context.services.host;
        if host.is_traced()
            && let Some(owner) = self.state.members.owner(consumer.id)
        {
            let given = Given { redelivered, position: Some(assigned.number) };
            host.trace_delivery(self.queue.def(), owner, given, &message);
        }
        Some(true)
    }
}

/// COMPAT: RabbitMQ's text.
fn refuse_get(queue: &QuorumQueue) -> AttachRefused {
    AttachRefused::Locked(format!(
        "cannot obtain access to locked {}. basic.get operations are not supported by quorum queues with \
         single active consumer",
        queue.def().resource()
    ))
}

fn lookup<'b>(backlog: &'b Backlog, assigned: &Assigned) -> Lookup<'b> {
    backlog.get(assigned.position)
}

/// Whether a message may have been delivered before.
fn is_redelivered(assigned: &Assigned, seen_below: u64) -> bool {
    assigned.position < seen_below || assigned.counts != DeliveryCounts::default()
}

/// Whether a client can be sent a message; if not, its connection is about to end.
fn fits(sink: &mut dyn Sink, message: &MessageRef<'_>, queue: &str) -> bool {
    properties_bytes_max(message) <= PROPERTIES_BYTES_ALWAYS_TAKEN
        || sink.fits(message, COUNTS_BYTES_MAX, queue)
}

/// The credit to tell a client: more may have been given since it asked.
fn as_of_now(told: ConsumerCredit, now: Option<LinkCredit>) -> ConsumerCredit {
    match now {
        Some(LinkCredit { delivery_count, credit }) => {
            ConsumerCredit { delivery_count, credit, ..told }
        }
        None => told,
    }
}
