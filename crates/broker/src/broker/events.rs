//! The events that the broker tells of. A message per event, with what is known of it in the headers and an
//! empty body. While nothing is bound to the exchange, and nobody watches, none is made.

use super::Broker;
use crate::alarms::Alarm;
use crate::connections::{Connection, Identity};
use amqp091::ShortString;
use meta::{Command, Outcome, Removed};
use meta::{EVENT_EXCHANGE, MetaError, Name};
use session::ChannelId;
use stdx::Ring;
use trace::events::{self, ChangeEvents, Event, EventHeaders, Process};

/// A consumer as events name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumerName<'c> {
    pub(crate) queue: &'c str,
    pub(crate) tag: &'c ShortString,
}

/// The broker as it tells of events.
#[derive(Clone, Copy, Debug)]
pub struct Events<'b>(&'b Broker);

impl<'b> Events<'b> {
    /// The last ones, for somebody who reads them. From now on there are those of channels among them, for a
    /// minute.
    #[must_use]
    pub fn read(&self) -> &'b Ring<Event> {
        self.0.event_log.read(self.0.now().monotonic_ms)
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
            self.0.timers.post(events::message_of(vhost, name, &headers, unix_ms));
        }
        self.0.event_log.keep(name, headers, unix_ms);
    }

    /// Tells what a command has done; `by` is the user.
    pub(crate) fn definitions_changed(&self, command: &Command, outcome: &Outcome, by: &str) {
        self.tell_changes(by, |events| events.changed(command, outcome));
    }

    /// Tells of what is gone: bindings also before what they belong to.
    pub(crate) fn removed(&self, all: &[Removed], by: &str) {
        self.tell_changes(by, |events| events.removed(all));
    }

    fn tell_changes(&self, by: &str, tell_all: impl FnOnce(ChangeEvents<'_>)) {
        let definitions = &self.0.view().meta;
        let tell = |name: &'static str, headers| self.tell(name, headers);
        tell_all(ChangeEvents { definitions, by, tell: &tell });
    }

    /// The virtual host in which somebody listens to them.
    fn listened_in(&self) -> Option<&'b Name> {
        let vhost = self.0.event_log.vhost.get()?;
        let is_watched = self.0.timers.tracing.taps().is_some();
        (is_watched || self.0.view().has_listeners(vhost, EVENT_EXCHANGE)).then_some(vhost)
    }

    /// Tells of a login by a protocol, as RabbitMQ writes it down: `refused` says why it failed.
    pub fn login(&self, user: &str, connection: &str, protocol: &str, refused: Option<&str>) {
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
            .text("protocol", identity.protocol.row().listed_as)
            .text("auth_mechanism", identity.login.mechanism)
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
            .pid("pid", node, Process::Connection(connection.id))
            .text("name", &identity.name)
            .text("node", node)
            .table("client_properties", &identity.client_properties)
            .by(&identity.user)
    }

    /// Tells of a channel, if anybody listens or has read events lately.
    pub(crate) fn channel(&self, event: &'static str, connection: &Connection, channel: ChannelId) {
        let is_read = self.0.event_log.is_read(self.0.now().monotonic_ms);
        if !is_read && self.listened_in().is_none() {
            return;
        }
        let Identity { name, user, vhost, .. } = &connection.identity;
        let node = &self.0.limits().node;
        let facts = EventHeaders::default()
            .pid("pid", node, Process::Channel(connection.id, channel))
            .written("name", format_args!("{name} ({})", channel.0))
            .pid("connection", node, Process::Connection(connection.id))
            .number("number", channel.0)
            .text("user", user)
            .text("vhost", vhost);
        self.tell(event, facts.by(user));
    }

    /// Tells of a consumer of a queue: of `more` when it begins.
    pub(crate) fn consumer(
        &self,
        event: &'static str,
        connection: &Connection,
        channel: ChannelId,
        consumer: ConsumerName<'_>,
        more: impl FnOnce(EventHeaders) -> EventHeaders,
    ) {
        let Identity { user, vhost, .. } = &connection.identity;
        let ConsumerName { queue, tag } = consumer;
        let facts = EventHeaders::default()
            .text("consumer_tag", &tag.to_text())
            .pid("channel", &self.0.limits().node, Process::Channel(connection.id, channel))
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
            self.connections.tell_alarms();
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
