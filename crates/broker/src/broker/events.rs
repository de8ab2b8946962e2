//! Events: what happens to definitions, connections and the like. The last ones are kept, and told to the
//! exchange `amq.rabbitmq.event` of one virtual host (<https://www.rabbitmq.com/docs/event-exchange>).
//!
//! A message per event, with what is known of it in the headers and an empty body. While nothing is bound
//! to the exchange, and nobody watches, none is made.

mod changes;
mod headers;

use super::Broker;
use crate::alarms::Alarm;
use crate::connections::{Connection, Identity};
use crate::timers::InternalMessage;
use amqp091::ShortString;
pub use headers::Event;
pub(crate) use headers::EventHeaders;
use message::{Body, Properties};
use meta::{EVENT_EXCHANGE, MetaError, Name};
use session::ChannelId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use stdx::Ring;

/// Events that are kept, and bytes of them.
const KEPT_EVENTS_MAX: usize = 2_000;
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Time after a look at them in which events of channels are kept too. There may be very many.
const READ_AGAIN_MS: u64 = 60_000;

/// The last events, and where they are told.
#[derive(Debug)]
pub(super) struct EventLog {
    last: Ring<Event>,
    /// The virtual host, if they are told in one.
    vhost: OnceLock<Name>,
    /// Until when somebody is taken to read them, in monotonic time.
    read_until_ms: AtomicU64,
}

impl Default for EventLog {
    fn default() -> Self {
        let last = Ring::new(KEPT_EVENTS_MAX, KEPT_BYTES_MAX);
        Self { last, vhost: OnceLock::new(), read_until_ms: AtomicU64::new(0) }
    }
}

/// The broker as it tells of events.
#[derive(Clone, Copy, Debug)]
pub struct Events<'b>(&'b Broker);

impl<'b> Events<'b> {
    /// The last ones, for somebody who reads them. From now on there are those of channels among them, for a
    /// minute.
    #[must_use]
    pub fn read(&self) -> &'b Ring<Event> {
        let until_ms = self.0.now().monotonic_ms + READ_AGAIN_MS;
        self.0.event_log.read_until_ms.store(until_ms, Ordering::Relaxed);
        &self.0.event_log.last
    }

    /// Tells of events from now on, in this virtual host. To be called once, before there are clients.
    ///
    /// # Errors
    /// There is no such virtual host.
    pub async fn tell_in(&self, vhost: &str) -> Result<(), MetaError> {
        let vhost = Name::from(vhost);
        self.0.changes().declare_own_exchange(vhost.clone(), EVENT_EXCHANGE).await?;
        self.0.event_log.vhost.get_or_init(|| vhost);
        Ok(())
    }

    /// Keeps an event, and tells of it if anybody listens.
    pub(crate) fn tell(&self, name: &'static str, headers: EventHeaders) {
        let unix_ms = self.0.classic.storage().time.unix_ms();
        if let Some(vhost) = self.listened_in() {
            self.publish(vhost, name, &headers, unix_ms);
        }
        let event = Event { unix_ms, name, headers: headers.kept() };
        let n_bytes = event.headers.len();
        self.0.event_log.last.push(event, n_bytes);
    }

    /// The virtual host in which somebody listens to them.
    fn listened_in(&self) -> Option<&'b Name> {
        let vhost = self.0.event_log.vhost.get()?;
        let is_watched = self.0.timers.tracing.taps().is_some();
        (is_watched || self.0.view().has_listeners(vhost, EVENT_EXCHANGE)).then_some(vhost)
    }

    fn publish(&self, vhost: &Name, name: &str, headers: &EventHeaders, unix_ms: u64) {
        let in_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
        let properties = Properties {
            delivery_mode: Some(2),
            timestamp: Some(unix_ms / 1_000),
            headers: Some(headers.told(in_ms)),
            ..Properties::default()
        };
        let (key, body) = (name.as_bytes().to_vec(), Body::Borrowed(&[]));
        let notice = InternalMessage::publish(vhost, EVENT_EXCHANGE, key, &properties, &body);
        self.0.timers.post(notice);
    }

    /// Tells of a login by a protocol, as RabbitMQ writes it down: `refused` says why it failed.
    pub fn login(&self, user: &str, (connection, protocol): (&str, &str), refused: Option<&str>) {
        let facts = EventHeaders::default()
            .text("name", user)
            .text("connection_name", connection)
            .text("connection_type", "network")
            .text("protocol", protocol);
        match refused {
            None => self.tell("user.authentication.success", facts),
            Some(error) => self.tell("user.authentication.failure", facts.text("error", error)),
        }
    }

    pub(crate) fn connected(&self, connection: &Connection) {
        let identity = &connection.identity;
        let Identity { user, vhost, peer_host, peer_port, host, port, .. } = identity;
        let facts = self
            .about_connection(connection)
            .text("peer_host", peer_host)
            .number("peer_port", *peer_port)
            .text("host", host)
            .number("port", *port)
            .text("user", user)
            .text("vhost", vhost)
            .text("protocol", identity.protocol)
            .text("auth_mechanism", &identity.login.mechanism)
            .number("timeout", identity.negotiated.heartbeat_s)
            .number("frame_max", identity.negotiated.frame_max)
            .number("channel_max", identity.negotiated.channel_max)
            .number("connected_at", i64::try_from(identity.connected_at_ms).unwrap_or(0));
        self.tell("connection.created", facts);
    }

    pub(crate) fn disconnected(&self, connection: &Connection) {
        self.tell("connection.closed", self.about_connection(connection));
    }

    fn about_connection(&self, connection: &Connection) -> EventHeaders {
        let (identity, node) = (&connection.identity, &self.0.limits().node);
        EventHeaders::default()
            .pid("pid", node, (1, connection.id.0, 0))
            .text("name", &identity.name)
            .text("node", node)
            .table("client_properties", &identity.client_properties)
            .by(&identity.user)
    }

    /// Tells of a channel, if anybody listens or has read events lately.
    pub(crate) fn channel(&self, event: &'static str, connection: &Connection, channel: ChannelId) {
        let read_until_ms = self.0.event_log.read_until_ms.load(Ordering::Relaxed);
        if self.0.now().monotonic_ms >= read_until_ms && self.listened_in().is_none() {
            return;
        }
        let Identity { name, user, vhost, .. } = &connection.identity;
        let node = &self.0.limits().node;
        let facts = EventHeaders::default()
            .pid("pid", node, (2, connection.id.0, channel.0))
            .written("name", format_args!("{name} ({})", channel.0))
            .pid("connection", node, (1, connection.id.0, 0))
            .number("number", channel.0)
            .text("user", user)
            .text("vhost", vhost);
        self.tell(event, facts.by(user));
    }

    /// Tells of a consumer of a queue: of `more` when it begins.
    pub(crate) fn consumer(
        &self,
        event: &'static str,
        (connection, channel): (&Connection, ChannelId),
        (queue, consumer_tag): (&str, &ShortString),
        more: impl FnOnce(EventHeaders) -> EventHeaders,
    ) {
        let Identity { user, vhost, .. } = &connection.identity;
        let facts = EventHeaders::default()
            .text("consumer_tag", &consumer_tag.to_text())
            .pid("channel", &self.0.limits().node, (2, connection.id.0, channel.0))
            .text("queue", queue)
            .text("vhost", vhost);
        self.tell(event, more(facts).by(user));
    }
}

impl Broker {
    /// Events, to be told.
    pub const fn events(&self) -> Events<'_> {
        Events(self)
    }

    /// The node may use this much memory: connections may hold a part of it.
    pub fn set_memory_limit(&self, n_bytes: u64) {
        self.holdings.set_node_bytes_max(n_bytes);
    }

    /// Sets or clears an alarm, and tells of it; true when that changed it. While the disk is short the node
    /// writes nothing of its own accord.
    pub fn set_alarm(&self, alarm: Alarm, on: bool) -> bool {
        let is_changed = self.alarms.set(alarm, on);
        if is_changed {
            self.alarms.note_since(alarm, self.classic.storage().time.unix_ms());
            let event = if on { "alarm.set" } else { "alarm.cleared" };
            let resource = match alarm {
                Alarm::Memory => "memory",
                Alarm::Disk => "disk",
                Alarm::Descriptors => "file_descriptor_limit",
            };
            let facts = EventHeaders::default().text("resource", resource);
            self.events().tell(event, facts.text("node", &self.limits().node));
        }
        if alarm == Alarm::Disk {
            self.classic.set_short(on);
        }
        is_changed
    }
}
