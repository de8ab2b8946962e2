//! Letters on their way: routed as what the broker itself publishes, and put into their queues in
//! batches.

use super::dead_letter::{DeadLetterEnvelope, DeadLetterTo, Death};
use super::letter_confirms::LetterConfirms;
use crate::broker::Broker;
use crate::confirm::DurabilityToken;
use crate::control_plane::View;
use crate::exchanges::{Admission, WatchedExchange};
use crate::message_store::{BodyHome, SHARED_PROPERTIES_MIN_BYTES};
use crate::queue::{
    Confirm, Incoming, Late, Publishes, Queue, RefusedItem, SHARED_BODY_MIN_BYTES, Wakes, wake_all,
};
use crate::slices::WORK_MAX;
use amqp091::PropertiesRef;
use bytes::Bytes;
use message::{Annotations, Body, MessageRef};
use meta::{Name, QueueDef, QueueId};
use queue::Reason;
use routing::Passage;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A message that dies, apart from where it was.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) reason: Reason,
    /// Where it is in its queue, if it is in one.
    pub(crate) position: u64,
    /// How many positions depart before it, of those that were asked for with it.
    pub(crate) n_before: u64,
    /// Who waits for it to be consumed.
    pub(crate) confirm: Option<Confirm>,
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    properties: Vec<u8>,
    body: Bytes,
    persistent: bool,
    annotations: Annotations,
}

impl DeadLetter {
    pub(crate) fn of(message: &MessageRef<'_>, reason: Reason) -> Self {
        Self {
            reason,
            position: 0,
            n_before: 0,
            confirm: None,
            exchange: message.exchange.to_vec(),
            routing_key: message.routing_key.to_vec(),
            properties: message.properties.to_vec(),
            body: match message.body {
                Body::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
                Body::Shared(bytes) => bytes.clone(),
            },
            // A queue whose confirms wait for consumers does not keep what it is given.
            persistent: message.persistent
                || PropertiesRef::trusted(message.properties).is_persistent(),
            annotations: message.annotations,
        }
    }

    fn message(&self) -> MessageRef<'_> {
        MessageRef {
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            properties: &self.properties,
            body: self.shown_body(),
            persistent: self.persistent,
            annotations: self.annotations,
        }
    }

    /// The message it is where it goes.
    fn message_to<'m>(
        &'m self,
        to: &'m DeadLetterTo,
        redirected: &'m DeadLetterEnvelope,
    ) -> MessageRef<'m> {
        let is_released = redirected.is_released;
        let dead_lettered = !is_released || self.annotations.dead_lettered;
        MessageRef {
            exchange: if is_released { &self.exchange } else { to.exchange.as_bytes() },
            routing_key: redirected.keys.first().map_or(&[], Vec::as_slice),
            properties: &redirected.properties,
            body: self.shown_body(),
            persistent: self.persistent,
            annotations: Annotations { deadline_ms: None, dead_lettered },
        }
    }

    /// Small bodies are copied into pages, larger ones shared.
    fn shown_body(&self) -> Body<'_> {
        if self.body.len() < SHARED_BODY_MIN_BYTES {
            Body::Borrowed(&self.body)
        } else {
            Body::Shared(&self.body)
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.message().size_bytes() + size_of::<Self>()
    }
}

/// Letters that are in no queue.
#[derive(Debug)]
pub(crate) struct RejectedDeadLetters {
    /// The queue that did not take them.
    pub(crate) from: Arc<QueueDef>,
    pub(crate) to: Arc<DeadLetterTo>,
    pub(crate) letters: VecDeque<DeadLetter>,
}

impl RejectedDeadLetters {
    pub(crate) fn bytes(&self) -> usize {
        self.letters.iter().map(DeadLetter::bytes).sum()
    }
}

/// What has come of sending letters.
pub(super) enum Sent {
    /// The first so many are in their queues, and safe when this is durable; some queues may have refused
    /// theirs.
    Done { n_letters: usize, awaited: DurabilityToken, undelivered: Vec<RejectedDeadLetters> },
    /// One of the queues is still being read after a start. None was sent.
    NotYet,
}

/// Sends letters of a queue to where its dead letters go: all of them, or as many as take their turn.
pub(super) fn send(
    broker: &Broker,
    from: &QueueDef,
    to: &DeadLetterTo,
    letters: &[DeadLetter],
) -> Sent {
    let mut posting = DeadLetterPublish {
        letters,
        redirected: Vec::new(),
        groups: BTreeMap::new(),
        seen_by: Vec::new(),
    };
    let noted = broker.exchanges.noted();
    posting.route(broker, from, to);
    if posting.groups.values().any(|group| group.queue.is_loading()) {
        posting.take_back();
        return Sent::NotYet;
    }
    let sent = posting.post(broker, to);
    if let Sent::Done { awaited, .. } = &sent {
        noted.placed(awaited);
    }
    sent
}

/// Letters and where they go.
struct DeadLetterPublish<'a> {
    letters: &'a [DeadLetter],
    /// For each letter.
    redirected: Vec<(DeadLetterEnvelope, Option<Arc<BodyHome>>)>,
    groups: BTreeMap<QueueId, Group>,
    /// Letters, and exchanges that they count as seen by since they were routed.
    seen_by: Vec<(usize, Arc<WatchedExchange>)>,
}

struct Group {
    queue: Arc<Queue>,
    /// It confirms once a consumer has had a message.
    is_late: bool,
    items: Vec<u32>,
}

impl DeadLetterPublish<'_> {
    fn route(&mut self, broker: &Broker, from: &QueueDef, to: &DeadLetterTo) {
        let view = broker.view();
        let unix_ms = broker.storage.time.unix_ms();
        let bodies = broker.storage.bodies.of(&from.vhost);
        let (mut ids, mut n_places) = (Vec::new(), 0);
        for (item, letter) in (0..).zip(self.letters) {
            if n_places >= WORK_MAX {
                break;
            }
            let death = Death { queue: &from.name, reason: letter.reason, unix_ms };
            let message = letter.message();
            // What a delaying exchange held back goes on as it was.
            let redirected = match from.delays_for() {
                Some(_) => DeadLetterEnvelope::released(&message),
                None => DeadLetterEnvelope::new(&message, &death, to),
            };
            self.redirected.push((redirected, None));
            let seen_at = self.redirected.len() - 1;
            let Some((redirected, home)) = self.redirected.last_mut() else { continue };
            let saw = |exchange: &Arc<WatchedExchange>| {
                self.seen_by.push((seen_at, Arc::clone(exchange)));
            };
            find_queues(broker, &view, from, (to, redirected), letter, (saw, &mut ids));
            let queues = ids.iter().filter_map(|id| view.queue_by_id(*id));
            let (mut n_queues, mut n_durable) = (0, 0);
            for queue in queues.filter(|queue| !redirected.is_cycle(&queue.def().name)) {
                n_queues += 1;
                n_durable += usize::from(queue.def().durable);
                let group = self.groups.entry(queue.id()).or_insert_with(|| {
                    let is_late = queue.confirm_on().is_late();
                    Group { queue, is_late, items: Vec::new() }
                });
                group.items.push(item);
            }
            let is_large = redirected.properties.len() >= SHARED_PROPERTIES_MIN_BYTES
                || broker.storage.bodies.is_stored(letter.body.len());
            let n_logging = if letter.persistent { n_durable } else { 0 };
            *home = (n_queues > 1 && is_large)
                .then(|| BodyHome::new(&bodies, &redirected.properties, n_logging));
            n_places += n_queues;
        }
        self.letters = self.letters.get(..self.redirected.len()).unwrap_or_default();
    }

    /// The letters were sent nowhere, and come again.
    fn take_back(&self) {
        for (at, exchange) in &self.seen_by {
            if let Some((redirected, _)) = self.redirected.get(*at) {
                exchange.forget(PropertiesRef::trusted(&redirected.properties).headers());
            }
        }
    }

    fn post(self, broker: &Broker, to: &DeadLetterTo) -> Sent {
        let resolve = |item: u32| self.incoming(item, to);
        let (mut awaited, mut undelivered) = (DurabilityToken::default(), Vec::new());
        let (mut wakes, mut refused) = (Wakes::new(), Vec::new());
        let queues = self.groups.values().map(|group| (group.is_late, group.items.as_slice()));
        let mut confirms = LetterConfirms::begin(self.letters, queues);
        let who =
            |item: u32| self.letters.get(item as usize)?.confirm.as_ref().map(Confirm::as_ref);
        let any_logged = self.letters.iter().any(|letter| letter.persistent);
        let any_stored = self.redirected.iter().any(|(_, home)| home.is_some());
        let any_expiring = self.redirected.iter().any(|(one, _)| expires(&one.properties));
        for Group { queue, is_late, items } in self.groups.values() {
            let batch = Publishes {
                items,
                resolve: &resolve,
                any_logged,
                any_stored,
                any_expiring,
                late: is_late.then_some(Late { who: &who }),
            };
            awaited.add(queue.publish(&batch, &mut refused, &mut wakes));
            undelivered.extend(dead_letters_of(queue, &refused, &resolve));
            confirms.note_refused(&refused, *is_late);
            refused.clear();
        }
        confirms.end(&broker.storage.wal, &awaited);
        wake_all(&mut wakes);
        Sent::Done { n_letters: self.letters.len(), awaited, undelivered }
    }

    fn incoming<'m>(&'m self, item: u32, to: &'m DeadLetterTo) -> Incoming<'m> {
        let at = item as usize;
        let (letter, redirected) = (self.letters.get(at), self.redirected.get(at));
        let (redirected, home) = redirected.expect("each letter is redirected");
        let letter = letter.expect("items index `letters`");
        let message = letter.message_to(to, redirected);
        Incoming { message, home: home.as_ref(), confirm: false }
    }
}

fn expires(properties: &[u8]) -> bool {
    PropertiesRef::trusted(properties).expiration().is_some()
}

/// The queues a letter is routed to; none if the exchange does not exist.
fn find_queues(
    broker: &Broker,
    view: &View,
    from: &QueueDef,
    (to, redirected): (&DeadLetterTo, &DeadLetterEnvelope),
    letter: &DeadLetter,
    (mut saw, ids): (impl FnMut(&Arc<WatchedExchange>), &mut Vec<QueueId>),
) {
    ids.clear();
    let Some(vhost) = view.meta.vhost(&from.vhost) else { return };
    let keys: Vec<&[u8]> = redirected.keys.iter().map(Vec::as_slice).collect();
    let properties = PropertiesRef::trusted(&redirected.properties);
    let seen = routing::Message {
        properties: Some(properties),
        chance: broker.names.random_u64(),
        ..routing::Message::new(&keys, properties.headers())
    };
    let unix_ms = broker.storage.time.unix_ms();
    let mut delaying = Vec::new();
    let watch = |exchange: &Name| {
        let Some(met) = view.exchanges.get(&from.vhost, exchange) else { return Passage::Open };
        // What comes from its own queue was seen, and held back, already.
        if *met.delayed_queue() != from.name {
            match met.fate(&seen, unix_ms) {
                Admission::Dropped => return Passage::Closed,
                Admission::Delayed => {
                    saw(met);
                    if let Some(queue) = view.queue(&from.vhost, met.delayed_queue()) {
                        delaying.push(queue);
                        return Passage::Closed;
                    }
                }
                Admission::GoesOn => saw(met),
            }
        }
        if met.remembers(&seen) {
            met.remember(&letter.message_to(to, redirected));
        }
        Passage::Open
    };
    vhost.routes().route_from_broker(to.exchange.as_bytes(), &seen, watch, ids);
    ids.extend(delaying.iter().map(|queue| queue.id()));
}

/// What a queue did not take and has dead-lettered instead.
pub(crate) fn dead_letters_of<'a>(
    queue: &Queue,
    refused: &[RefusedItem],
    resolve: &dyn Fn(u32) -> Incoming<'a>,
) -> Option<RejectedDeadLetters> {
    let to = refused.iter().find_map(|refused| refused.dead_letter_to.clone())?;
    let dead = refused.iter().filter(|refused| refused.dead_letter_to.is_some());
    let letter =
        |refused: &RefusedItem| DeadLetter::of(&resolve(refused.item).message, Reason::MaxLen);
    let letters = dead.map(letter).collect();
    Some(RejectedDeadLetters { from: Arc::clone(queue.def()), to, letters })
}
