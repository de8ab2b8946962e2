//! Publishing: checks, routing, gathering; and the confirms of what was gathered.

use super::access::Access;
use super::channels::Channel;
use super::client::Client;
use super::direct_reply_to;
use super::named::named_of;
use super::properties::{self, Inspected};
use super::read_source::{ReadSource, address_of, message_of};
use super::route_cache::{Remembered, Route, Uncacheable};
use super::routing::Router;
use super::turn::Turn;
use crate::options::Interceptors;
use crate::publish::{
    Answers, Batch, Bodies, MessageOverrides, PendingPublish, Placed, is_shared, n_durable,
    shared_body,
};
use bytes::Bytes;
use confirm::DurabilityToken;
use conversion::to_amqp091;
use message::MessageRef;
use message_store::BodyStore;
use queue_type::QueueHost as _;
use routing::Message;
use session::{ChannelId, Content, Error, Publish, ReadInput, Request, ReturnReason};
use smallvec::SmallVec;
use std::sync::Arc;
use trace::{PublishTimes, TraceContext};

/// The publishes of a client on their way into queues: gathered from a read or a transaction.
pub(super) struct Publishing {
    router: Router,
    batch: Batch,
    /// The store of message bodies of the client's virtual host.
    bodies: Arc<BodyStore>,
    /// Headers that are written into each message.
    interceptors: Option<Interceptors>,
    /// Whether the client's messages pile up while consumers take them as fast as they can.
    is_ahead: bool,
    /// When the first message of the batch that may have spans was looked at, nanoseconds since 1970; 0 for
    /// none yet.
    began_ns: u64,
}

impl Publishing {
    pub(super) fn new(access: &Access) -> Self {
        let broker = &access.broker;
        Self {
            router: Router::new(broker.names.random_u64()),
            batch: Batch::default(),
            bodies: broker.classic.storage().bodies.of(&access.vhost()),
            interceptors: Some(broker.interceptors()).filter(Interceptors::any_incoming),
            is_ahead: false,
            began_ns: 0,
        }
    }

    /// Takes the newest definitions.
    pub(super) fn refresh(&mut self, access: &mut Access) {
        access.refresh();
        self.router.refresh(access);
    }

    /// Whether the client's messages have piled up since the last call.
    pub(super) const fn take_is_ahead(&mut self) -> bool {
        std::mem::replace(&mut self.is_ahead, false)
    }

    /// Makes room for so many publishes.
    pub(super) fn reserve(&mut self, n: usize) {
        self.batch.reserve(n);
    }

    /// Empties the batch, whether it is in its queues or not.
    pub(super) fn clear(&mut self) {
        self.batch.clear();
    }

    /// Whether a queue has refused a publish of the batch.
    pub(super) fn is_any_refused(&self) -> bool {
        let is_refused =
            |it: &PendingPublish| it.placed == Placed::Refused || it.answering.any_refused();
        self.batch.pending().iter().any(is_refused)
    }

    /// Whether a queue was not available for a publish of the batch.
    pub(super) fn is_any_unavailable(&self) -> bool {
        Answers(&self.batch).is_any_unavailable()
    }

    /// Whether no queue is to have the last publish of the batch.
    pub(super) fn is_last_nowhere(&self) -> bool {
        self.batch.pending().last().is_some_and(|publish| publish.placed == Placed::Nowhere)
    }

    /// Whether queues of the batch are still being read after a start.
    pub(super) fn is_any_loading(&self) -> bool {
        self.batch.loading().is_some()
    }

    /// Waits until the batch's queues have been read after a start.
    pub(super) async fn until_loaded(&mut self, turn: &mut Turn) {
        turn.before_waiting();
        while let Some(queue) = self.batch.loading() {
            queue.loaded().await;
        }
    }

    /// Checks and routes one publish and adds it to the batch.
    pub(super) fn prepare(
        &mut self,
        client: &mut Client,
        index: usize,
        publish: &Publish,
        input: ReadInput<'_>,
    ) -> Result<(), Error> {
        let Some(channel) = client.channels.get_mut(publish.channel) else { return Ok(()) };
        channel.counters.note_published(publish.content.n_bytes());
        stdx::walk::step("route");
        let (sequence, serial) = (channel.next_sequence(), channel.counters.serial);
        let numbered = Numbered { index, publish, sequence, serial };
        let (exchange, routing_key) = address_of(publish, input);
        if direct_reply_to::is_reply(exchange, routing_key) {
            return self.reply(client, numbered, message_of(publish, input));
        }
        if publish.inspect || self.interceptors.is_some() {
            return self.prepare_inspected(client, numbered, message_of(publish, input));
        }
        match self.router.find_route(&client.access, exchange, routing_key) {
            // Application properties are headers, and not in the index.
            Ok(route) if publish.form.is_plain() || !self.router.is_by_headers(route) => {
                self.gather_remembered(client, numbered, input, route);
            }
            Err(Uncacheable::Refused(error)) => return Err(error),
            Ok(_) | Err(Uncacheable::ByMessage) => {
                let message = message_of(publish, input);
                let keys = [message.routing_key];
                let mut converted = Vec::new();
                let whole = to_amqp091(&message, &mut converted).index();
                let seen = self.router.seen_by_exchanges(&keys, whole);
                let sections = message.sections();
                let seen = Message { headers: whole.headers(), sections, ..seen };
                self.router.route_alone(client, &mut self.batch, publish, message.exchange, &seen);
                self.gather_alone(client, numbered, message, MessageOverrides::default());
            }
        }
        Ok(())
    }

    /// Checks a publish when a transaction takes it; `tx.commit` checks again, for what has changed by then.
    pub(super) fn check(
        &mut self,
        client: &Client,
        publish: &Publish,
        input: ReadInput<'_>,
    ) -> Result<(), Error> {
        let message = message_of(publish, input);
        let key = match direct_reply_to::is_reply(message.exchange, message.routing_key) {
            true => direct_reply_to::QUEUE,
            false => message.routing_key,
        };
        let route = match self.router.find_route(&client.access, message.exchange, key) {
            Ok(route) => self.router.remembered(route),
            Err(Uncacheable::Refused(error)) => return Err(error),
            Err(Uncacheable::ByMessage) => None,
        };
        if !publish.inspect {
            return Ok(());
        }
        let Inspected { mut extra_keys, headers, .. } = inspected(&client.access, &message)?;
        client.name_reply_queue(publish.channel, message.properties, None)?;
        if !extra_keys.is_empty() {
            extra_keys.push(message.routing_key);
            client.access.check_publish(message.exchange, &extra_keys)?;
        }
        let queues = route.map_or(&[][..], |remembered| &remembered.route.queues);
        named_of(headers, queues).map(drop)
    }

    /// Adds a publish that nothing is changed about to the batch, for the queues of a remembered route.
    #[inline]
    fn gather_remembered(
        &mut self,
        client: &mut Client,
        numbered: Numbered<'_>,
        input: ReadInput<'_>,
        route: usize,
    ) {
        let Some(remembered) = self.router.remembered(route) else { return };
        let publish = numbered.publish;
        let n_queues = remembered.route.queues.len();
        let n_durable = remembered.route.n_durable;
        let n_logging = if publish.persistent { n_durable } else { 0 };
        let (body, body_bytes) = match &publish.content {
            Content::Inline(body) if is_shared(body.len as usize, n_queues) => {
                (Some(Bytes::copy_from_slice(body.of(input.bytes))), body.len as usize)
            }
            Content::Inline(body) => (None, body.len as usize),
            Content::Owned(owned) => (None, owned.body.len()),
        };
        if n_queues > 1 {
            client.turn.note_gathered(n_queues, body_bytes);
        }
        let bodies = Bodies::of(client.access.broker.classic.storage(), &self.bodies);
        let properties_bytes = publish.properties.len as usize;
        let is_stored = bodies.is_stored_once(properties_bytes, body_bytes, n_queues);
        let properties = || message_of(publish, input).properties;
        let home = is_stored.then(|| bodies.new_home(properties(), n_logging));
        let changed = MessageOverrides { body, home, ..MessageOverrides::default() }.boxed();
        let Remembered { route, groups, .. } = remembered;
        count(route, client, numbered, n_queues == 0, || address_of(publish, input).0);
        self.batch.add_remembered(numbered.pending(n_logging > 0, changed), &route.queues, groups);
        if n_queues == 0 {
            self.batch.note_unroutable();
            client.note_unroutable(publish, message_of(publish, input));
        }
    }

    /// Delivers a direct reply. A reply that nobody waits for is dropped, or returned if it is mandatory.
    fn reply(
        &mut self,
        client: &mut Client,
        numbered: Numbered<'_>,
        message: MessageRef<'_>,
    ) -> Result<(), Error> {
        let publish = numbered.publish;
        // Publishing to the default exchange must be allowed; the pseudo-queue stands for all.
        let route = match self.router.find_route(&client.access, b"", direct_reply_to::QUEUE) {
            Ok(route) => self.router.remembered(route),
            Err(Uncacheable::Refused(error)) => return Err(error),
            Err(Uncacheable::ByMessage) => None,
        };
        let properties = match publish.inspect {
            true => {
                let stored = inspected(&client.access, &message)?.properties;
                client.name_reply_queue(publish.channel, message.properties, stored)?
            }
            false => None,
        };
        let properties = properties.as_deref().unwrap_or(message.properties);
        let message = MessageRef { properties, ..message };
        let delivered = direct_reply_to::token_of(message.routing_key)
            .is_some_and(|token| client.access.deliver_reply(token, message));
        if let Some(Remembered { route, .. }) = route {
            count(route, client, numbered, !delivered, || b"");
        }
        self.batch.add(numbered.pending(false, None), &[]);
        if !delivered {
            self.batch.note_unroutable();
            client.note_unroutable(publish, message);
        }
        Ok(())
    }

    /// As [`Publishing::prepare`], for a publish whose properties must be looked at.
    fn prepare_inspected(
        &mut self,
        client: &mut Client,
        numbered: Numbered<'_>,
        message: MessageRef<'_>,
    ) -> Result<(), Error> {
        let publish = numbered.publish;
        if self.began_ns == 0
            && let Some(spans) = client.access.broker.timers.tracing.spans()
        {
            self.began_ns = spans.now_ns();
        }
        let intercepted = self.intercepted(&client.access, message.properties);
        let received = intercepted.as_deref().unwrap_or(message.properties);
        let message = MessageRef { properties: received, ..message };
        let Inspected { properties, extra_keys, headers } = inspected(&client.access, &message)?;
        let hides_keys = properties.is_some();
        let expiration = message.index().expiration();
        if expiration.is_some() {
            self.batch.note_expiring();
        }
        let properties = properties.or_else(|| intercepted.clone());
        let named = client.name_reply_queue(publish.channel, message.properties, properties);
        let mut properties =
            named.map_err(|error| first_refusal(&client.access, &message, error))?;
        if extra_keys.is_empty()
            && !publish.immediate
            && self.gather_by_key(client, numbered, message, &mut properties)?
        {
            return Ok(());
        }
        let mut keys: SmallVec<[&[u8]; 4]> = SmallVec::new();
        keys.push(message.routing_key);
        keys.extend_from_slice(&extra_keys);
        if !extra_keys.is_empty() || publish.immediate {
            client.access.check_publish(message.exchange, &keys)?;
        }
        let mut converted = Vec::new();
        let whole = to_amqp091(&message, &mut converted);
        let seen = self.router.seen_by_exchanges(&keys, whole.index());
        let seen_headers = if message.form.is_plain() { headers } else { whole.index().headers() };
        let seen = Message { headers: seen_headers, sections: message.sections(), ..seen };
        let batch = &mut self.batch;
        self.router.route_alone(client, batch, publish, message.exchange, &seen);
        // The keys that are hidden are needed when the message goes on after its delay.
        let properties_held_back = (hides_keys && self.router.is_held_back()).then(|| {
            let changed = properties.as_deref().unwrap_or(message.properties);
            Bytes::from(message::View::of(changed).with_headers(headers))
        });
        let named = named_of(headers, &self.router.alone.queues)?;
        let changed = MessageOverrides {
            properties,
            properties_held_back,
            named,
            ..MessageOverrides::default()
        };
        self.gather_alone(client, numbered, message, changed);
        Ok(())
    }

    /// The message's properties with the headers that the broker writes into them.
    fn intercepted(&self, access: &Access, properties: &[u8]) -> Option<Bytes> {
        let unix_ms = || access.broker.classic.storage().time.unix_ms();
        let interceptors = self.interceptors?;
        let random = || access.broker.names.random_u64();
        let trace = interceptors.begins_trace(random).then(|| TraceContext {
            trace_id: (u128::from(random()) << 64) | u128::from(random()),
            span_id: random() | 1,
        });
        interceptors.apply(properties, unix_ms(), &access.broker.limits().node, trace)
    }

    /// Adds a publish to the batch if it goes where all messages with its key go, and takes `properties`
    /// then; returns whether it was added.
    fn gather_by_key(
        &mut self,
        client: &mut Client,
        numbered: Numbered<'_>,
        message: MessageRef<'_>,
        properties: &mut Option<Bytes>,
    ) -> Result<bool, Error> {
        let publish = numbered.publish;
        let route =
            match self.router.find_route(&client.access, message.exchange, message.routing_key) {
                Ok(route) => route,
                Err(Uncacheable::Refused(error)) => return Err(error),
                Err(Uncacheable::ByMessage) => return Ok(false),
            };
        let Some(remembered) = self.router.remembered(route) else { return Ok(false) };
        if remembered.route.by_headers {
            return Ok(false);
        }
        let n_queues = remembered.route.queues.len();
        let n_logging = if message.persistent { remembered.route.n_durable } else { 0 };
        client.turn.note_gathered(n_queues, message.body.len());
        let bodies = Bodies::of(client.access.broker.classic.storage(), &self.bodies);
        let named = named_of(message.index().headers(), &remembered.route.queues)?;
        let properties = properties.take();
        let sent = properties.as_deref().unwrap_or(message.properties);
        let home = bodies.home(sent, message.body.len(), n_queues, n_logging);
        let body = shared_body(message.body, n_queues);
        let changed =
            MessageOverrides { properties, body, home, named, ..MessageOverrides::default() };
        let changed = changed.boxed();
        let Remembered { route, groups, .. } = remembered;
        count(route, client, numbered, n_queues == 0, || message.exchange);
        self.batch.add_remembered(numbered.pending(n_logging > 0, changed), &route.queues, groups);
        if n_queues == 0 {
            self.batch.note_unroutable();
            client.note_unroutable(publish, message);
        }
        Ok(true)
    }

    /// Adds a publish to the batch for the queues found for it alone.
    fn gather_alone(
        &mut self,
        client: &mut Client,
        numbered: Numbered<'_>,
        message: MessageRef<'_>,
        mut changed: MessageOverrides,
    ) {
        let publish = numbered.publish;
        for exchange in self.router.remembering.drain(..) {
            let properties = changed.properties.as_deref().unwrap_or(message.properties);
            exchange.remember(&MessageRef { properties, ..message });
        }
        let Route { queues, absorbed, .. } = &self.router.alone;
        let is_unroutable = queues.is_empty() && !absorbed;
        if is_unroutable {
            client.note_unroutable(publish, message);
        }
        if publish.immediate && !(is_unroutable && publish.mandatory) {
            self.keep_immediate(&client.turn, publish.channel, message);
        }
        self.router.count_alone(is_unroutable.then_some(publish.mandatory));
        let Route { queues, n_durable, .. } = &self.router.alone;
        let n_logging = if message.persistent { *n_durable } else { 0 };
        client.turn.note_gathered(queues.len(), message.body.len());
        let bodies = Bodies::of(client.access.broker.classic.storage(), &self.bodies);
        let sent = changed.properties.as_deref().unwrap_or(message.properties);
        changed.home = bodies.home(sent, message.body.len(), queues.len(), n_logging);
        changed.body = shared_body(message.body, queues.len());
        self.batch.add(numbered.pending(n_logging > 0, changed.boxed()), queues);
        if is_unroutable {
            self.batch.note_unroutable();
        }
    }

    /// Leaves an immediate message the queues that have a consumer for it now, or returns the message. A
    /// queue that delays it stays, since it is too early to say.
    fn keep_immediate(&mut self, turn: &Turn, channel: ChannelId, message: MessageRef<'_>) {
        let Route { queues, n_durable: n, absorbed, .. } = &mut self.router.alone;
        queues.retain(|queue| queue.def().is_internal() || queue.takes_at_once());
        *n = n_durable(queues);
        if queues.is_empty() && !*absorbed {
            turn.return_message(channel, ReturnReason::NoConsumers, message);
        }
    }

    /// Puts the batch into its queues, and confirms what need not wait for the disk.
    pub(super) async fn flush(
        &mut self,
        client: &mut Client,
        input: &ReadInput<'_>,
        requests: &[Request],
    ) {
        if self.batch.is_empty() {
            return;
        }
        let awaited = self.put_batch_in(client, input, requests).await;
        self.confirm_batch(client, *input, requests, awaited);
        self.is_ahead |= self.batch.is_slowed_down();
        while let Some(remote) = self.batch.without_room().cloned() {
            client.turn.before_waiting();
            Box::pin(async move { remote.room().await }).await;
        }
        self.batch.clear();
    }

    /// Puts the batch into its queues; others have their turn in between if it is large.
    pub(super) async fn put_batch_in(
        &mut self,
        client: &mut Client,
        input: &ReadInput<'_>,
        requests: &[Request],
    ) -> DurabilityToken {
        let routed_ns = if self.began_ns == 0 { 0 } else { now_ns(client) };
        let awaited = loop {
            let source = ReadSource { input: *input, requests, channels: &client.channels };
            match self.batch.put_in(&source, client.turn.wakes()) {
                Some(awaited) => break awaited,
                None => {
                    Box::pin(client.turn.give_way()).await;
                    // All others would have to wait for messages beyond what memory may hold, so this session
                    // waits.
                    let services = &client.access.broker.classic.services;
                    Box::pin(services.capacity()).await;
                }
            }
        };
        if client.access.broker.timers.tracing.is_watched() {
            self.trace_batch(client, *input, requests, routed_ns);
            self.began_ns = 0;
        }
        for letters in self.batch.take_undelivered() {
            client.access.broker.timers.send_rejected(letters);
        }
        awaited
    }

    /// Tells the firehose and taps of the batch, if they are to know, and makes its spans.
    #[cold]
    fn trace_batch(
        &self,
        client: &Client,
        input: ReadInput<'_>,
        requests: &[Request],
        routed_ns: u64,
    ) {
        let source = ReadSource { input, requests, channels: &client.channels };
        let vhost = &client.access.connection.identity.vhost;
        self.batch.show(&client.access.broker.timers.tracing, Some(vhost), &source);
        if let Some(spans) = client.access.broker.timers.tracing.spans().filter(|_| routed_ns > 0) {
            let (began, stored) = (self.began_ns, spans.now_ns());
            let times = PublishTimes { began, routed: routed_ns, stored };
            self.batch.each_routed(&source, |_, message, queues| {
                spans.published(message, queues, times);
            });
        }
        if !client.access.broker.firehose().covers(&client.access.connection) {
            return;
        }
        self.batch.each_routed(&source, |channel, message, queues| {
            let firehose = client.access.broker.firehose();
            firehose.published(&client.access.connection, channel, message, queues);
        });
    }

    fn confirm_batch(
        &self,
        client: &mut Client,
        input: ReadInput<'_>,
        requests: &[Request],
        awaited: DurabilityToken,
    ) {
        if self.batch.pending().iter().all(|one| one.sequence == 0) {
            return;
        }
        let source = ReadSource { input, requests, channels: &client.channels };
        let (turn, wal) = (&client.turn, &client.access.broker.classic.storage().wal);
        let answers = Answers(&self.batch);
        let committer =
            answers.confirm(&source, &awaited, &client.confirms, wal, |fill| turn.tell(fill));
        client.turn.commit_by(committer);
    }
}

/// Looks at the properties of a message that the client publishes.
fn inspected<'m>(access: &Access, message: &MessageRef<'m>) -> Result<Inspected<'m>, Error> {
    let user = &access.connection.identity.user;
    properties::inspect(message.index(), user, || access.may_impersonate())
        .map_err(|error| first_refusal(access, message, error))
}

/// COMPAT: an error of the exchange is told before one of the message.
fn first_refusal(access: &Access, message: &MessageRef<'_>, error: Error) -> Error {
    access.check_publish(message.exchange, &[message.routing_key]).err().unwrap_or(error)
}

/// A publish, its index among those of its read or transaction, and its number on a confirming channel.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    index: usize,
    publish: &'a Publish,
    /// The number on a confirming channel; 0 elsewhere.
    sequence: u64,
    /// The serial number of its channel.
    serial: u64,
}

impl Numbered<'_> {
    /// Makes the pending publish of one that passed its checks.
    #[inline]
    fn pending(self, logged: bool, changed: Option<Box<MessageOverrides>>) -> PendingPublish {
        let (channel, sequence) = (self.publish.channel, self.sequence);
        PendingPublish { channel, sequence, logged, changed, ..PendingPublish::of(self.index) }
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

/// Counts a publish for its channel and route, and whether it went to no queue.
#[inline]
fn count<'m>(
    route: &mut Route,
    client: &Client,
    numbered: Numbered<'_>,
    is_unroutable: bool,
    exchange: impl FnOnce() -> &'m [u8],
) {
    let Publish { channel, mandatory, .. } = *numbered.publish;
    let open = |queues: &[_]| client.route_tally(channel, exchange(), queues);
    if let Some(tally) = route.tally(numbered.serial, open) {
        tally.note(is_unroutable.then_some(mandatory));
    }
}

/// The time in nanoseconds since 1970; 0 without spans.
#[cold]
fn now_ns(client: &Client) -> u64 {
    let spans = client.access.broker.timers.tracing.spans();
    spans.map_or(0, |spans| spans.now_ns())
}
