//! Dead letters on their way: routed as messages of the broker itself, and put into their queues in batches.

use super::dead_letter::{DeadLetterEnvelope, Death};
use crate::broker::Broker;
use crate::publish::{
    Answers, Batch, Bodies, MessageOverrides, PendingPublish, Placed, Source, n_durable,
};
use confirm::{DurabilityToken, Publisher};
use control::View;
use control::slices::WORK_MAX;
use conversion::to_amqp091;
use exchanges::{Admission, WatchedExchange};
use message::{Annotations, MessageRef, Refusal};
use meta::{Name, Overflow, QueueDef, QueueId, State};
use queue_type::{
    AwaitedLetters, DeadLetter, DeadLetterTo, LostAt, RejectedDeadLetters, TakenConfirm,
    TriedLetter, Wakes, wake_all,
};
use queues::QueueRef;
use routing::Passage;
use session::RefusedBy;
use std::sync::Arc;

/// The outcome of sending letters.
pub(super) enum Sent {
    /// The first `n_letters` letters are in their queues, and safe when `awaited` is durable; some queues may
    /// have refused theirs.
    Done { n_letters: usize, awaited: DurabilityToken, undelivered: Vec<RejectedDeadLetters> },
    /// No letter was sent: one of the queues is still being read after a start.
    NotYet,
}

/// Sends letters of a queue to where its dead letters go: all of them, or as many as take their turn.
pub(super) fn send(
    broker: &Broker,
    from: &QueueDef,
    to: &DeadLetterTo,
    letters: &[DeadLetter],
) -> Sent {
    let mut publish = DeadLetterPublish::of(from, to, letters, None);
    let mut batch = Batch::default();
    batch.any.untracked = true;
    batch.hold(&broker.exchanges);
    publish.route(broker, &mut batch);
    if batch.loading().is_some() {
        publish.take_back(|_| true);
        return Sent::NotYet;
    }
    let mut wakes = Wakes::new();
    let awaited = batch.put_all_in(&publish, &mut wakes);
    Answers(&batch).answer_parts(&publish, &broker.classic.storage().wal, &awaited);
    publish.show(broker, &batch);
    wake_all(&mut wakes);
    let n_letters = publish.redirected.len();
    Sent::Done { n_letters, awaited, undelivered: batch.take_undelivered() }
}

/// Sends awaited letters of a queue, each to the queues that have yet to take it. Returns `None` if one of
/// these queues is still being read after a start.
pub(super) fn send_awaited(
    broker: &Broker,
    from: &QueueDef,
    to: &DeadLetterTo,
    letters: &[DeadLetter],
    awaited: &AwaitedLetters,
) -> Option<(DurabilityToken, Vec<TriedLetter>)> {
    let view = broker.view();
    let exchange = view.meta.vhost(&from.vhost).and_then(|vhost| vhost.exchange(&to.exchange));
    let lost_at = if exchange.is_some() { LostAt::Route } else { LostAt::Exchange };
    let mut publish = DeadLetterPublish::of(from, to, letters, Some(awaited));
    let mut batch = Batch::kept_at_once();
    batch.hold(&broker.exchanges);
    publish.route(broker, &mut batch);
    if batch.loading().is_some() {
        publish.take_back(|_| true);
        return None;
    }
    let mut wakes = Wakes::new();
    let durable = batch.put_all_in(&publish, &mut wakes);
    publish.show(broker, &batch);
    wake_all(&mut wakes);
    let mut tried = std::mem::take(&mut publish.tried);
    for (sent, queue) in batch.pending().iter().zip(&publish.sent_to) {
        if let Some(letter) = tried.get_mut(sent.index as usize) {
            let is_refused = sent.placed == Placed::Refused;
            let list = if is_refused { &mut letter.refused_by } else { &mut letter.taken_by };
            list.push(*queue);
        }
    }
    for letter in tried.iter_mut().filter(|letter| letter.lost_at.is_some()) {
        letter.lost_at = Some(lost_at);
    }
    publish.take_back(|at| tried.get(at).is_some_and(|letter| !letter.has_arrived()));
    Some((durable, tried))
}

/// The fate of a message that was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its queues have it, for good if it is persistent.
    Arrived,
    /// No queue is bound for it. It stays.
    NotRouted,
    /// A queue has not taken it. It stays; others may have it too.
    Refused,
}

impl Fate {
    const fn of(sent: &PendingPublish, n_queues: usize) -> Self {
        match () {
            () if n_queues == 0 => Self::NotRouted,
            () if matches!(sent.placed, Placed::Refused) || sent.answering.any_refused() => {
                Self::Refused
            }
            () => Self::Arrived,
        }
    }
}

/// Messages that were sent on, or the first of them.
pub(super) struct SentOn {
    /// The token that must be durable before messages that have arrived may leave their old queue.
    pub(super) durable: DurabilityToken,
    pub(super) fates: Vec<Fate>,
    /// The confirms of messages that did not arrive and had one queue at most, by position.
    pub(super) left_with: Vec<TakenConfirm>,
}

/// Sends messages of a queue on to the exchange that all of them name, or as many as take their turn. An
/// `Err` has a queue that is still being read after a start: no message was sent.
pub(super) fn send_on(
    broker: &Broker,
    from: &QueueDef,
    messages: &mut [DeadLetter],
) -> Result<SentOn, QueueRef> {
    let exchange = messages.first().map(|first| first.message().exchange.to_vec());
    let exchange = Name::from(&*String::from_utf8_lossy(&exchange.unwrap_or_default()));
    let to = DeadLetterTo { exchange, routing_key: None };
    let mut publish = DeadLetterPublish::of(from, &to, messages, None);
    publish.is_sent_on = true;
    let mut batch = Batch::default();
    batch.hold(&broker.exchanges);
    publish.route(broker, &mut batch);
    if let Some(loading) = batch.loading() {
        publish.take_back(|_| true);
        return Err(loading);
    }
    let mut wakes = Wakes::new();
    let durable = batch.put_all_in(&publish, &mut wakes);
    publish.show(broker, &batch);
    let n_queues = std::mem::take(&mut publish.n_queues);
    let fate = |(one, n): (&PendingPublish, &usize)| Fate::of(one, *n);
    let fates: Vec<Fate> = batch.pending().iter().zip(&n_queues).map(fate).collect();
    publish.take_back(|at| fates.get(at) != Some(&Fate::Arrived));
    let mut left_with = Vec::new();
    for (message, (fate, n)) in messages.iter_mut().zip(fates.iter().zip(&n_queues)) {
        if *fate != Fate::Arrived && *n <= 1 {
            let position = message.position;
            left_with
                .extend(message.confirm.take().map(|confirm| TakenConfirm { position, confirm }));
        }
    }
    let publish = DeadLetterPublish::of(from, &to, messages, None);
    Answers(&batch).answer_parts(&publish, &broker.classic.storage().wal, &durable);
    wake_all(&mut wakes);
    Ok(SentOn { durable, fates, left_with })
}

/// Dead letters on their way to one target, and the progress of sending them.
struct DeadLetterPublish<'a> {
    /// Queue of the letters.
    from: &'a QueueDef,
    to: &'a DeadLetterTo,
    letters: &'a [DeadLetter],
    awaited: Option<&'a AwaitedLetters>,
    /// The result for each awaited letter.
    tried: Vec<TriedLetter>,
    /// The queue of each publish of an awaited letter.
    sent_to: Vec<QueueId>,
    /// Whether an operator sends the messages on, so that none of them is dead-lettered.
    is_sent_on: bool,
    /// The envelope of each letter that is sent.
    redirected: Vec<DeadLetterEnvelope>,
    /// The number of queues of each message that is sent on.
    n_queues: Vec<usize>,
    /// Letters, by index, with the exchanges that noted them as seen when they were routed.
    seen_by: Vec<(usize, Arc<WatchedExchange>)>,
}

impl Source for DeadLetterPublish<'_> {
    const IS_AWAITED: bool = true;

    fn message(&self, index: u32) -> MessageRef<'_> {
        let at = index as usize;
        let sent = self.letters.get(at).zip(self.redirected.get(at));
        let (letter, envelope) = sent.expect("each letter is redirected");
        Redirected { letter, to: self.to, envelope }.message()
    }

    fn publisher(&self, publish: &PendingPublish) -> Option<&Arc<Publisher>> {
        let confirm = self.letters.get(publish.index as usize)?.confirm.as_ref()?;
        Some(&confirm.publisher)
    }

    /// The queue of a letter that routes nowhere, with the reason that the letter left it.
    fn refused_by(&self, publish: &PendingPublish) -> RefusedBy<'_> {
        let letter = self.letters.get(publish.index as usize);
        let why = letter.map_or(Refusal::Unavailable, |letter| letter.reason.into());
        RefusedBy { queue: self.from.name.as_str(), why }
    }
}

impl<'a> DeadLetterPublish<'a> {
    fn of(
        from: &'a QueueDef,
        to: &'a DeadLetterTo,
        letters: &'a [DeadLetter],
        awaited: Option<&'a AwaitedLetters>,
    ) -> Self {
        Self {
            from,
            to,
            letters,
            awaited,
            tried: Vec::new(),
            sent_to: Vec::new(),
            is_sent_on: false,
            redirected: Vec::new(),
            n_queues: Vec::new(),
            seen_by: Vec::new(),
        }
    }

    /// Finds the queues of all letters, or of as many as take their turn.
    fn route(&mut self, broker: &Broker, batch: &mut Batch) {
        let from = self.from;
        let view = broker.view();
        let unix_ms = broker.classic.storage().time.unix_ms();
        let storage = broker.classic.storage();
        let own = storage.bodies.of(&from.vhost);
        let bodies = Bodies::of(storage, &own);
        let (mut ids, mut n_places) = (Vec::new(), 0);
        for (index, letter) in self.letters.iter().enumerate() {
            if n_places >= WORK_MAX {
                break;
            }
            let death = Death { queue: &from.name, reason: letter.reason, unix_ms };
            let message = letter.message();
            // A message that a delaying exchange held back goes on as it was.
            let redirected = match from.delays_for() {
                _ if self.is_sent_on => DeadLetterEnvelope::sent_on(&message),
                Some(_) => DeadLetterEnvelope::released(&message),
                None => DeadLetterEnvelope::new(&message, &death, self.to),
            };
            let saw = |exchange: &Arc<WatchedExchange>| {
                self.seen_by.push((index, Arc::clone(exchange)));
            };
            let sent = Redirected { letter, to: self.to, envelope: &redirected };
            find_queues(broker, &view, from, sent, saw, &mut ids);
            let queues = ids.iter().filter_map(|id| view.queue_by_id(*id));
            let queues: Vec<_> =
                queues.filter(|queue| !redirected.is_cycle(&queue.def().name)).collect();
            let n_logging = if letter.message().persistent { n_durable(&queues) } else { 0 };
            let body_bytes = letter.message().body.len();
            let home = bodies.home(&redirected.properties, body_bytes, queues.len(), n_logging);
            if message::View::of(&redirected.properties).expiration().is_some() {
                batch.note_expiring();
            }
            let sequence = letter.confirm.as_ref().map_or(0, |confirm| confirm.sequence);
            let publish = |home: &Option<_>| PendingPublish {
                sequence,
                logged: n_logging > 0,
                placed: if queues.is_empty() { Placed::Refused } else { Placed::InQueues },
                changed: MessageOverrides { home: home.clone(), ..MessageOverrides::default() }
                    .boxed(),
                ..PendingPublish::of(index)
            };
            match self.awaited {
                None => batch.add(publish(&home), &queues),
                Some(awaited) => {
                    for queue in self.try_for(&view.meta, awaited, index, &queues) {
                        batch.add(publish(&home), std::slice::from_ref(queue));
                        self.sent_to.push(queue.id());
                    }
                }
            }
            n_places += queues.len();
            self.n_queues.extend(self.is_sent_on.then_some(queues.len()));
            self.redirected.push(redirected);
        }
    }

    /// Shows the letters to taps. Messages that a delaying exchange held back were shown when they came
    /// there.
    fn show(&self, broker: &Broker, batch: &Batch) {
        let from = self.from;
        let vhost = from.delays_for().is_none().then_some(&*from.vhost);
        batch.show(&broker.timers.tracing, vhost, self);
    }

    /// The queues that an awaited letter is sent to now.
    fn try_for<'q>(
        &mut self,
        meta: &State,
        awaited: &AwaitedLetters,
        index: usize,
        queues: &'q [QueueRef],
    ) -> Vec<&'q QueueRef> {
        let (number, taken_by) = awaited.letters.get(index).cloned().unwrap_or_default();
        let left = queues.iter().filter(|queue| !taken_by.contains(&queue.id()));
        let is_held_back = |queue: &&QueueRef| {
            let id = queue.id();
            awaited.refused_by.contains(&id) || (awaited.full.contains(&id) && is_full(meta, queue))
        };
        let (held_back, sent): (Vec<_>, Vec<_>) = left.partition(is_held_back);
        // A letter that some queues took is not lost: its other queues may have been deleted.
        let lost_at = (queues.is_empty() && taken_by.is_empty()).then_some(LostAt::Route);
        let refused_by = held_back.iter().map(|queue| queue.id()).collect();
        self.tried.push(TriedLetter { number, taken_by, refused_by, lost_at });
        sent
    }

    /// Takes back that exchanges have seen the letters that come again, since not all their queues took them.
    fn take_back(&self, comes_again: impl Fn(usize) -> bool) {
        for (at, exchange) in self.seen_by.iter().filter(|(at, _)| comes_again(*at)) {
            let Some((letter, envelope)) = self.letters.get(*at).zip(self.redirected.get(*at))
            else {
                continue;
            };
            let mut converted = Vec::new();
            let message = Redirected { letter, to: self.to, envelope }.message();
            exchange.forget(to_amqp091(&message, &mut converted).index().headers());
        }
    }
}

/// Whether a queue that refused a message still has as many messages as it may have. A limit in bytes is not
/// checked: a queue with such a limit is tried.
fn is_full(meta: &State, queue: &QueueRef) -> bool {
    let length = meta.queue_settings(queue.def()).length;
    let refuses = length.overflow != Overflow::DropHead;
    length.messages_max.is_some_and(|max| refuses && queue.local_stat().n_ready >= max)
}

/// A letter on its way, and its envelope.
#[derive(Clone, Copy)]
struct Redirected<'m> {
    letter: &'m DeadLetter,
    to: &'m DeadLetterTo,
    envelope: &'m DeadLetterEnvelope,
}

impl<'m> Redirected<'m> {
    /// The message that the letter becomes where it goes.
    fn message(self) -> MessageRef<'m> {
        let (message, is_released) = (self.letter.message(), self.envelope.is_released);
        let dead_lettered = !is_released || message.annotations.dead_lettered;
        MessageRef {
            exchange: if is_released { message.exchange } else { self.to.exchange.as_bytes() },
            routing_key: self.envelope.keys.first().map_or(&[], Vec::as_slice),
            properties: &self.envelope.properties,
            annotations: Annotations { deadline_ms: None, dead_lettered },
            ..message
        }
    }
}

/// The queues a letter is routed to; none if the exchange does not exist.
fn find_queues(
    broker: &Broker,
    view: &View,
    from: &QueueDef,
    sent: Redirected<'_>,
    mut saw: impl FnMut(&Arc<WatchedExchange>),
    ids: &mut Vec<QueueId>,
) {
    ids.clear();
    let Some(vhost) = view.meta.vhost(&from.vhost) else { return };
    let envelope = sent.envelope;
    let keys: Vec<&[u8]> = envelope.keys.iter().map(Vec::as_slice).collect();
    let mut converted = Vec::new();
    let message = sent.message();
    let properties = to_amqp091(&message, &mut converted).index();
    let seen = routing::Message {
        properties: Some(properties),
        sections: message.sections(),
        chance: broker.names.random_u64(),
        ..routing::Message::new(&keys, properties.headers())
    };
    let unix_ms = broker.classic.storage().time.unix_ms();
    let mut delaying = Vec::new();
    let watch = |exchange: &Name| {
        let Some(met) = view.exchanges.get(&from.vhost, exchange) else { return Passage::Open };
        // A message from the exchange's own queue was seen, and held back, already.
        if met.delayed_queue != from.name {
            match met.fate(&seen, unix_ms) {
                Admission::Dropped => return Passage::Closed,
                Admission::Delayed => {
                    saw(met);
                    if let Some(queue) = view.queue(&from.vhost, &met.delayed_queue) {
                        delaying.push(queue);
                        return Passage::Closed;
                    }
                }
                Admission::GoesOn => saw(met),
            }
        }
        if met.remembers(&seen) {
            met.remember(&sent.message());
        }
        Passage::Open
    };
    vhost.routes.route_from_broker(sent.to.exchange.as_bytes(), &seen, watch, ids);
    ids.extend(delaying.iter().map(|queue| queue.id()));
}
