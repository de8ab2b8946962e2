//! Assigned messages on their way into their consumers' outboxes. Each outbox is told once, and says how many
//! bytes it still takes; a consumer whose outbox is full has no credit. Whose turn it is matters only where
//! one consumer takes everything (`pass_on`).

use super::consumers::Consumers;
use super::policy::{Policy, with_counts};
use super::{Queue, position};
use content::Content;
use conversion::properties_bytes_max;
use delivery::ConsumerChannel;
use message::MessageRef;
use queue::{AckMode, Assigned, Fifo};
use queue_type::Given;
use queue_type::{Count, Incoming, Wakes};
use session::{DELIVERY_BYTES, Delivery, PROPERTIES_BYTES_ALWAYS_TAKEN, Room, Sink};
use std::borrow::Borrow;
use store::backlog::Lookup;

/// Messages assigned before they are handed over: bounds the list.
const MESSAGES_MAX: usize = 1_024;

/// An assigned message that waits to be handed to its consumer's outbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assignment {
    pub(super) assigned: Assigned,
    /// Index of the message among those that came with it; none if it was stored.
    pub(super) incoming: Option<u32>,
}

impl Assignment {
    /// The incoming message, if it was not stored.
    #[inline]
    fn incoming_of<'m, 'a>(&self, messages: &'m [Incoming<'a>]) -> Option<&'m Incoming<'a>> {
        messages.get(self.incoming? as usize)
    }
}

/// Messages that were assigned and are in no outbox yet; none while the queue's lock is free.
#[derive(Debug, Default)]
pub(super) struct HandOver(Vec<Assignment>);

impl HandOver {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the messages must be handed over before more are assigned.
    pub(super) const fn is_full(&self) -> bool {
        self.0.len() >= MESSAGES_MAX
    }

    /// Adds a message of `size_bytes`, which needs room in its consumer's outbox.
    #[inline]
    pub(super) fn push(
        &mut self,
        fifo: &mut Fifo,
        consumers: &mut Consumers,
        assignment: Assignment,
        size_bytes: usize,
    ) {
        let consumer = assignment.assigned.consumer;
        if let Some(host) = consumers.get_mut(consumer)
            && host.room.take((size_bytes + DELIVERY_BYTES) as u64)
        {
            fifo.consumers_mut().change(consumer).set_open(false);
        }
        self.0.push(assignment);
    }
}

/// The parts of a queue that assigned messages go through.
pub(super) struct Handing<'s> {
    pub(super) fifo: &'s mut Fifo,
    pub(super) content: &'s mut Content,
    pub(super) consumers: &'s mut Consumers,
    pub(super) hand_over: &'s mut HandOver,
    pub(super) policy: &'s Policy,
}

impl Handing<'_> {
    /// Hands messages to a consumer that is the only one and settles nothing, straight from where
    /// they lie, until its outbox is full. Returns how many: for those that is all there is to do.
    pub(super) fn pass_on(
        &mut self,
        queue: &Queue,
        messages: &[Incoming<'_>],
        wakes: &mut Wakes,
    ) -> usize {
        let taker = if self.consumers.any_limited() { None } else { self.fifo.sole_taker() };
        let Some(taker) = taker else { return 0 };
        let consumer = taker.consumer;
        let Some(host) = self.consumers.get_mut(consumer) else { return 0 };
        let n_room = usize::try_from(taker.n_room).unwrap_or(usize::MAX);
        let messages = messages.get(..n_room).unwrap_or(messages);
        let first = self.fifo.messages().next_position();
        let coming = (first..).zip(messages.iter().map(|incoming| &incoming.message));
        let (n_passed, room) = pass_to(host, coming, wakes);
        if n_passed == 0 {
            return 0;
        }
        if queue.services.host.is_traced() {
            for incoming in messages.iter().take(n_passed) {
                let given = Given { redelivered: false, position: None };
                self.consumers.trace(queue, consumer, given, &incoming.message);
            }
        }
        self.fifo.pass_on(&taker, n_passed as u64);
        self.consumers.change(self.fifo, consumer, |it| it.room.note(room));
        queue.counters.tally.add(Count::DeliveredAuto, n_passed as u64);
        n_passed
    }

    /// Hands ready messages to such a consumer, as [`Handing::pass_on`] does, straight from their pages; not
    /// more than are assigned before they are handed over.
    pub(super) fn pass_on_ready(&mut self, queue: &Queue, wakes: &mut Wakes) -> usize {
        if self.consumers.any_limited() || queue.services.host.is_traced() {
            return 0;
        }
        let Some((taker, run)) = queue::ready_run(self.fifo) else { return 0 };
        let consumer = taker.consumer;
        let Some(host) = self.consumers.get_mut(consumer) else { return 0 };
        let n_max = taker.n_room.min(MESSAGES_MAX as u64).min(run.len());
        let (backlog, run) = (&self.content.backlog, run.start..run.start + n_max);
        let ready = run.clone().map_while(|at| Some((at, backlog.here(at)?)));
        let (n_passed, room) = pass_to(host, ready, wakes);
        if n_passed == 0 {
            return 0;
        }
        run.take(n_passed).for_each(|at| self.content.release(queue.pool(), at));
        queue::pass_ready(self.fifo, &taker, n_passed as u64);
        self.consumers.change(self.fifo, consumer, |it| it.room.note(room));
        queue.counters.tally.add(Count::DeliveredAuto, n_passed as u64);
        n_passed
    }

    /// Hands what was assigned to the outboxes, each locked once.
    pub(super) fn hand_over(
        &mut self,
        queue: &Queue,
        messages: &[Incoming<'_>],
        wakes: &mut Wakes,
    ) {
        if self.hand_over.is_empty() {
            return;
        }
        stdx::walk::step("assign");
        let mut handed = std::mem::take(&mut self.hand_over.0);
        let first = handed.first().map(|one| one.assigned.consumer);
        if handed.iter().any(|one| Some(one.assigned.consumer) != first) {
            handed.sort_unstable_by_key(|one| (one.assigned.consumer, one.assigned.position));
        }
        for run in handed.chunk_by(|a, b| a.assigned.consumer == b.assigned.consumer) {
            self.hand_to_one(run, messages, wakes);
        }
        if queue.services.host.is_traced() {
            self.trace_handed(queue, &handed, messages);
        }
        let held = |one: &&Assignment| one.assigned.settling == AckMode::Manual;
        let held = handed.iter().filter(held).map(|one| one.assigned.position);
        self.content.durability.note_delivered(held);
        let (mut n_auto, mut n_again) = (0, 0);
        for one in &handed {
            n_again += u64::from(one.assigned.redelivered);
            if one.assigned.settling == AckMode::Manual {
                continue;
            }
            n_auto += 1;
            if one.assigned.redelivered {
                queue::forget_failed(self.fifo, one.assigned.position);
            }
            if one.incoming.is_none() {
                self.content.release(queue.pool(), one.assigned.position);
            }
        }
        let tally = &queue.counters.tally;
        tally.add(Count::Delivered, handed.len() as u64 - n_auto);
        tally.add(Count::DeliveredAuto, n_auto);
        tally.add(Count::Redelivered, n_again);
        handed.clear();
        self.hand_over.0 = handed;
    }

    fn hand_to_one(&mut self, run: &[Assignment], messages: &[Incoming<'_>], wakes: &mut Wakes) {
        let Some(consumer) = run.first().map(|one| one.assigned.consumer) else { return };
        let counts_returns = self.policy.counts_returns();
        let (backlog, fifo) = (&self.content.backlog, &self.fifo);
        let Some(host) = self.consumers.get_mut(consumer) else { return };
        let link = host.link;
        let settles_nothing = host.checkout.settling == AckMode::Auto;
        let (mut room, mut n_again) = (Room::Full, 0);
        let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
            for one in run {
                let mut give = |message: &MessageRef<'_>| {
                    let delivery = Delivery {
                        position: position(one.assigned.position),
                        redelivered: one.assigned.redelivered,
                        n_failed: n_failed_of(fifo, one.assigned),
                        message,
                        settled_by_write: settles_nothing
                            && one.assigned.settling == AckMode::Manual,
                    };
                    n_again += u64::from(one.assigned.redelivered);
                    let counted = counts_returns
                        .then(|| with_counts(fifo, one.assigned.position, message))
                        .flatten();
                    room = match counted {
                        None => sink.deliver(link, delivery),
                        Some(properties) => {
                            let message = &MessageRef { properties: &properties, ..*message };
                            sink.deliver(link, Delivery { message, ..delivery })
                        }
                    };
                };
                match one.incoming_of(messages) {
                    Some(incoming) => give(&incoming.message),
                    None => match &backlog.here(one.assigned.position) {
                        Some(message) => give(message),
                        None => debug_assert!(false, "what is assigned is in memory"),
                    },
                }
            }
        });
        wakes.extend(waker);
        let what = if settles_nothing { Count::DeliveredAuto } else { Count::Delivered };
        host.tally.add(what, run.len() as u64);
        host.tally.add(Count::Redelivered, n_again);
        self.consumers.change(self.fifo, consumer, |it| it.room.note(room));
    }

    /// Tells the firehose of what was handed over.
    #[cold]
    fn trace_handed(&self, queue: &Queue, handed: &[Assignment], messages: &[Incoming<'_>]) {
        for one in handed {
            let Assigned { consumer, position, redelivered, settling, .. } = one.assigned;
            let settled = (settling == AckMode::Manual).then_some(position);
            let given = Given { redelivered, position: settled };
            match one.incoming_of(messages) {
                Some(incoming) => {
                    self.consumers.trace(queue, consumer, given, &incoming.message);
                }
                None => {
                    if let Lookup::Here(message) = self.content.backlog.get(position) {
                        self.consumers.trace(queue, consumer, given, &message);
                    }
                }
            }
        }
    }
}

/// Hands messages with their positions to a consumer that settles nothing, until its outbox is full. Returns
/// how many, and what room is left.
#[inline]
fn pass_to<'m, M: Borrow<MessageRef<'m>>>(
    host: &ConsumerChannel,
    messages: impl Iterator<Item = (u64, M)>,
    wakes: &mut Wakes,
) -> (usize, Room) {
    let (mut messages, link) = (messages, host.link);
    let (mut n_passed, mut room) = (0, Room::Full);
    let waker = host.outbox.batch(&mut |sink: &mut dyn Sink| {
        for (at, message) in messages.by_ref() {
            let message = message.borrow();
            if properties_bytes_max(message) > PROPERTIES_BYTES_ALWAYS_TAKEN {
                // Whether it can be sent at all is found out on the longer way.
                break;
            }
            let delivery = Delivery {
                position: position(at),
                redelivered: false,
                n_failed: 0,
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
    host.tally.add(Count::DeliveredAuto, n_passed as u64);
    (n_passed, room)
}

/// Deliveries of an assigned message before this one that failed.
#[inline]
pub(super) fn n_failed_of(fifo: &Fifo, assigned: Assigned) -> u32 {
    if assigned.redelivered { queue::n_failed(fifo.messages(), assigned.position) } else { 0 }
}
