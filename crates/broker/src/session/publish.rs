//! Publishing: checks, routing, gathering; and the confirms of what was gathered.

use super::batch::{MessageOverrides, PendingPublish, address_of, message_of};
use super::confirm_on::is_own_part_done;
use super::properties::{self, Inspected};
use super::route_cache::{Route, Uncacheable};
use super::{Channel, Session, direct_reply_to};
use crate::confirm::{AnsweringQueues, DurabilityToken, Run};
use crate::message_store::{BodyHome, BodyStore, MessageStores, SHARED_PROPERTIES_MIN_BYTES};
use crate::queue::{Queue, SHARED_BODY_MIN_BYTES};
use amqp091::PropertiesRef;
use bytes::Bytes;
use message::{Body, MessageRef};
use routing::Message;
use session::{
    ChannelId, Confirmation, Content, Error, Event, Publish, Request, ReturnReason, Sink,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Bodies of at least this size that go to several queues are shared by them instead of copied.
const FANOUT_SHARED_BODY_MIN_BYTES: usize = 256;

impl Session {
    /// Checks and routes one publish and adds it to the batch.
    pub(super) fn prepare(
        &mut self,
        index: usize,
        publish: &Publish,
        input: &[u8],
    ) -> Result<(), Error> {
        let Some(channel) = self.channels.get_mut(publish.channel) else { return Ok(()) };
        channel.counters.note_published();
        let sequence = channel.next_sequence();
        let (exchange, routing_key) = address_of(publish, input);
        if direct_reply_to::is_reply(exchange, routing_key) {
            return self.reply(index, publish, message_of(publish, input), sequence);
        }
        if publish.inspect || self.interceptors.is_some() {
            return self.prepare_inspected(index, publish, message_of(publish, input), sequence);
        }
        let route = match self.find_route(exchange, routing_key) {
            Ok(route) => route,
            Err(Uncacheable::Refused(error)) => return Err(error),
            Err(Uncacheable::ByMessage) => {
                let message = message_of(publish, input);
                let properties = PropertiesRef::trusted(message.properties);
                let keys = [message.routing_key];
                let seen = self.seen_by_exchanges(&keys, properties);
                self.route_alone(publish.channel, message.exchange, &seen);
                self.gather_alone(index, publish, message, sequence, MessageOverrides::default());
                return Ok(());
            }
        };
        let Some(remembered) = self.routes.get_mut(route) else { return Ok(()) };
        let n_queues = remembered.route.queues.len();
        let n_durable = remembered.route.n_durable;
        let logged = publish.persistent && n_durable > 0;
        let n_logging = if logged { n_durable } else { 0 };
        if n_queues > 1 {
            self.pace.note_gathered(n_queues);
        }
        let (body, body_bytes) = match &publish.content {
            Content::Inline(body) if is_shared(body.len as usize, n_queues) => {
                (Some(Bytes::copy_from_slice(body.of(input))), body.len as usize)
            }
            Content::Inline(body) => (None, body.len as usize),
            Content::Owned(owned) => (None, owned.body.len()),
        };
        let bodies = (&*self.broker.storage.bodies, &self.bodies);
        let content = (publish.properties.len as usize, body_bytes);
        let home = if is_stored_once(bodies.0, content, n_queues) {
            let properties = message_of(publish, input).properties;
            Some(BodyHome::new(bodies.1, properties, n_logging))
        } else {
            None
        };
        let changed = MessageOverrides { body, home, ..MessageOverrides::default() }.boxed();
        let prepared = prepared(index, publish, sequence, logged, changed);
        self.batch.add(prepared, remembered);
        if n_queues == 0 && publish.mandatory {
            self.return_unroutable(publish.channel, message_of(publish, input));
        }
        Ok(())
    }

    /// As [`Session::prepare`], for a publish whose properties must be looked at.
    fn prepare_inspected(
        &mut self,
        index: usize,
        publish: &Publish,
        message: MessageRef<'_>,
        sequence: u64,
    ) -> Result<(), Error> {
        let intercepted = self.intercepted(message.properties);
        let received = intercepted.as_deref().unwrap_or(message.properties);
        let message = MessageRef { properties: received, ..message };
        let inspected = properties::inspect(
            PropertiesRef::trusted(message.properties),
            &self.connection.identity.user,
            || self.may_impersonate(),
        );
        let Inspected { properties, extra_keys, headers } =
            inspected.map_err(|error| self.first_refusal(&message, error))?;
        let hides_keys = properties.is_some();
        let expiration = PropertiesRef::trusted(message.properties).expiration();
        if expiration.is_some() {
            self.batch.note_expiring();
        }
        let properties = properties.or_else(|| intercepted.clone());
        let named = self.name_reply_queue(publish.channel, message.properties, properties);
        let mut properties = named.map_err(|error| self.first_refusal(&message, error))?;
        if extra_keys.is_empty()
            && !publish.immediate
            && self.gather_by_key(index, publish, message, sequence, &mut properties)?
        {
            return Ok(());
        }
        let mut keys: SmallVec<[&[u8]; 4]> = SmallVec::new();
        keys.push(message.routing_key);
        keys.extend_from_slice(&extra_keys);
        if !extra_keys.is_empty() || publish.immediate {
            self.check_publish(message.exchange, &keys)?;
        }
        let seen = self.seen_by_exchanges(&keys, PropertiesRef::trusted(message.properties));
        self.route_alone(publish.channel, message.exchange, &Message { headers, ..seen });
        // They are needed when it goes on.
        let properties_held_back = (hides_keys && self.is_held_back()).then(|| {
            let changed = properties.as_deref().unwrap_or(message.properties);
            properties::with_headers(changed, headers)
        });
        let changed =
            MessageOverrides { properties, properties_held_back, ..MessageOverrides::default() };
        self.gather_alone(index, publish, message, sequence, changed);
        Ok(())
    }

    /// COMPAT: what is wrong with the exchange is told before what is wrong with the message.
    fn first_refusal(&self, message: &MessageRef<'_>, error: Error) -> Error {
        self.check_publish(message.exchange, &[message.routing_key]).err().unwrap_or(error)
    }

    /// What the broker writes into a message, with its properties.
    fn intercepted(&self, properties: &[u8]) -> Option<Bytes> {
        let unix_ms = || self.broker.storage.time.unix_ms();
        self.interceptors?.apply(properties, unix_ms(), &self.broker.limits().node)
    }

    /// Adds a publish to the batch if it goes where all messages with its key go; takes `properties`
    /// then.
    fn gather_by_key(
        &mut self,
        index: usize,
        publish: &Publish,
        message: MessageRef<'_>,
        sequence: u64,
        properties: &mut Option<Bytes>,
    ) -> Result<bool, Error> {
        let route = match self.find_route(message.exchange, message.routing_key) {
            Ok(route) => route,
            Err(Uncacheable::Refused(error)) => return Err(error),
            Err(Uncacheable::ByMessage) => return Ok(false),
        };
        let Some(remembered) = self.routes.get_mut(route) else { return Ok(false) };
        if remembered.route.by_headers {
            return Ok(false);
        }
        let n_queues = remembered.route.queues.len();
        let n_durable = remembered.route.n_durable;
        let logged = message.persistent && n_durable > 0;
        let n_logging = if logged { n_durable } else { 0 };
        self.pace.note_gathered(n_queues);
        let bodies = (&*self.broker.storage.bodies, &self.bodies);
        let properties = properties.take();
        let sent = properties.as_deref().unwrap_or(message.properties);
        let home = home(bodies, (sent, message.body.len()), (n_queues, n_logging));
        let body = shared_body(message.body, n_queues);
        let changed =
            MessageOverrides { properties, body, home, ..MessageOverrides::default() }.boxed();
        self.batch.add(prepared(index, publish, sequence, logged, changed), remembered);
        if n_queues == 0 && publish.mandatory {
            self.return_unroutable(publish.channel, message);
        }
        Ok(true)
    }

    fn seen_by_exchanges<'m>(
        &mut self,
        keys: &'m [&'m [u8]],
        properties: PropertiesRef<'m>,
    ) -> Message<'m> {
        Message { keys, headers: None, properties: Some(properties), chance: self.chance() }
    }

    /// Adds a publish to the batch for the queues found for it alone.
    fn gather_alone(
        &mut self,
        index: usize,
        publish: &Publish,
        message: MessageRef<'_>,
        sequence: u64,
        mut changed: MessageOverrides,
    ) {
        for exchange in self.remembering.drain(..) {
            let properties = changed.properties.as_deref().unwrap_or(message.properties);
            exchange.remember(&MessageRef { properties, ..message });
        }
        let Route { queues, absorbed, .. } = &self.alone;
        let is_unroutable = queues.is_empty() && !absorbed;
        if is_unroutable && publish.mandatory {
            self.return_unroutable(publish.channel, message);
        } else if publish.immediate {
            self.keep_immediate(publish.channel, message);
        }
        let Route { queues, n_durable, .. } = &self.alone;
        let logged = message.persistent && *n_durable > 0;
        let n_logging = if logged { *n_durable } else { 0 };
        self.pace.note_gathered(queues.len());
        let bodies = (&*self.broker.storage.bodies, &self.bodies);
        let sent = changed.properties.as_deref().unwrap_or(message.properties);
        changed.home = home(bodies, (sent, message.body.len()), (queues.len(), n_logging));
        changed.body = shared_body(message.body, queues.len());
        self.batch.add_to(prepared(index, publish, sequence, logged, changed.boxed()), queues);
    }

    pub(super) fn return_unroutable(&self, channel: ChannelId, message: MessageRef<'_>) {
        let reason = ReturnReason::Unroutable;
        self.tell(|sink| sink.event(Event::Returned { channel, reason, message }));
    }

    /// Leaves an immediate message the queues that have a consumer for it now, or returns it. Where it
    /// is delayed, it is too early to say.
    fn keep_immediate(&mut self, channel: ChannelId, message: MessageRef<'_>) {
        let Route { queues, n_durable: n, absorbed, .. } = &mut self.alone;
        queues.retain(|queue| queue.def().is_internal() || queue.takes_at_once());
        *n = n_durable(queues);
        if queues.is_empty() && !*absorbed {
            let reason = ReturnReason::NoConsumers;
            self.tell(|sink| sink.event(Event::Returned { channel, reason, message }));
        }
    }

    /// Puts the batch into its queues, and confirms what need not wait for the disk.
    pub(super) async fn flush_publishes(&mut self, input: &[u8], requests: &[Request]) {
        if self.batch.is_empty() {
            return;
        }
        let awaited = loop {
            let channels = &self.channels;
            let publisher_of = |id| channels.get(id)?.publisher.as_ref();
            match self.batch.put_in(input, requests, &publisher_of, &mut self.wakes) {
                Some(awaited) => break awaited,
                None => Box::pin(self.give_way()).await,
            }
        };
        if self.broker.storage.rules.tracing().is_any() {
            self.trace_batch(input, requests);
        }
        for letters in self.batch.take_undelivered() {
            self.broker.storage.rules.send(letters);
        }
        self.confirm_batch(awaited);
        self.is_ahead |= self.batch.is_slowed_down();
        self.batch.clear();
    }

    /// Tells the firehose of the batch, if it is to know.
    #[cold]
    pub(super) fn trace_batch(&self, input: &[u8], requests: &[Request]) {
        if !self.broker.traces(&self.connection) {
            return;
        }
        self.batch.each_routed(input, requests, |channel, message, queues| {
            self.broker.trace_publish((&self.connection, channel), message, queues);
        });
    }

    fn confirm_batch(&mut self, awaited: DurabilityToken) {
        let prepared = &self.batch.prepared;
        if prepared.iter().all(|one| one.sequence == 0) {
            return;
        }
        let waits = |one: &PendingPublish| match () {
            () if one.late.answer_alone() => ConfirmAfter::ForConsumers,
            () if one.late.any() && is_own_part_done(one, &awaited) => ConfirmAfter::ForConsumers,
            () if one.refused => ConfirmAfter::Refused,
            () if one.apart && one.logged => ConfirmAfter::MultiSync,
            () if one.logged && awaited.log.is_some() => ConfirmAfter::ForLog,
            () => ConfirmAfter::Not,
        };
        let same =
            |a: &PendingPublish, b: &PendingPublish| a.channel == b.channel && waits(a) == waits(b);
        let runs = |wanted: ConfirmAfter| {
            let numbered =
                prepared.chunk_by(move |a, b| same(a, b) && a.sequence + 1 == b.sequence);
            numbered.filter_map(move |run| {
                let (first, last) = (run.first()?, run.last()?.sequence);
                let (channel, first_sequence) = (first.channel, first.sequence);
                let is_wanted = first_sequence != 0 && waits(first) == wanted;
                is_wanted.then_some(Run { channel, first: first_sequence, last })
            })
        };
        if runs(ConfirmAfter::Not).next().is_some() {
            self.tell(|sink| {
                for run in runs(ConfirmAfter::Not) {
                    sink.confirm(run.channel, run.first, run.last, Confirmation::Ack);
                }
            });
        }
        if prepared.iter().any(|one| one.refused) {
            self.tell(|sink| {
                for run in runs(ConfirmAfter::Refused) {
                    sink.confirm(run.channel, run.first, run.last, Confirmation::Nack);
                }
            });
        }
        if self.batch.any_late {
            self.answer_late(&awaited);
        }
        let wal = &self.broker.storage.wal;
        if let Some(upto) = awaited.log {
            let committer = self.confirms.wait(wal, upto, runs(ConfirmAfter::ForLog));
            self.committer = self.committer.max(committer);
        }
        if !awaited.journals.is_empty() {
            self.confirms.wait_apart(wal, &awaited, runs(ConfirmAfter::MultiSync).collect());
        }
    }

    /// Puts something into the client's outbox. The caller is the connection's own task, which
    /// empties the outbox anyway before it sleeps: nobody needs to be woken.
    pub(super) fn tell(&self, mut fill: impl FnMut(&mut dyn Sink)) {
        let _own_task = self.outbox.batch(&mut fill);
    }
}

/// What the confirm of a publish waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConfirmAfter {
    Not,
    /// It is not: one of its queues was full.
    Refused,
    ForLog,
    /// Queues that answer themselves.
    ForConsumers,
    /// The journals of queues in the older form, and perhaps the log.
    MultiSync,
}

pub(super) fn prepared(
    index: usize,
    publish: &Publish,
    sequence: u64,
    logged: bool,
    changed: Option<Box<MessageOverrides>>,
) -> PendingPublish {
    PendingPublish {
        request: u32::try_from(index).expect("a read holds fewer requests"),
        channel: publish.channel,
        sequence,
        logged,
        apart: false,
        refused: false,
        late: AnsweringQueues::default(),
        changed,
    }
}

/// A home for a body that goes to several queues if it, or the properties, are worth being stored once for
/// all of them.
fn home(
    (all, own): (&MessageStores, &Arc<BodyStore>),
    (properties, body_bytes): (&[u8], usize),
    (n_queues, n_logging): (usize, usize),
) -> Option<Arc<BodyHome>> {
    let is_stored = is_stored_once(all, (properties.len(), body_bytes), n_queues);
    is_stored.then(|| BodyHome::new(own, properties, n_logging))
}

/// Whether properties and a body of so many bytes are stored once for so many queues.
#[inline]
const fn is_stored_once(
    all: &MessageStores,
    (properties_bytes, body_bytes): (usize, usize),
    n_queues: usize,
) -> bool {
    n_queues > 1 && (all.is_stored(body_bytes) || properties_bytes >= SHARED_PROPERTIES_MIN_BYTES)
}

/// Whether a body is worth a shared home: large, or wanted by several queues.
const fn is_shared(body_bytes: usize, n_queues: usize) -> bool {
    match n_queues {
        0 => false,
        1 => body_bytes >= SHARED_BODY_MIN_BYTES,
        _ => body_bytes >= FANOUT_SHARED_BODY_MIN_BYTES,
    }
}

fn shared_body(body: Body<'_>, n_queues: usize) -> Option<Bytes> {
    match body {
        Body::Borrowed(bytes) if is_shared(bytes.len(), n_queues) => {
            Some(Bytes::copy_from_slice(bytes))
        }
        Body::Borrowed(_) | Body::Shared(_) => None,
    }
}

impl Channel {
    /// The number of the next publish; 0 on a channel without confirms.
    fn next_sequence(&mut self) -> u64 {
        match &mut self.last_sequence {
            Some(last) => {
                *last += 1;
                *last
            }
            None => 0,
        }
    }
}

/// How many of `queues` log a persistent message.
pub(super) fn n_durable(queues: &[Arc<Queue>]) -> usize {
    queues.iter().filter(|queue| queue.def().durable).count()
}
