//! Events: what happens to definitions, connections and the like, told to the exchange
//! `amq.rabbitmq.event` of one virtual host (<https://www.rabbitmq.com/docs/event-exchange>).
//!
//! A message per event, with what is known of it in the headers and an empty body. While nothing is bound
//! to the exchange, and nobody watches, nothing is made.

mod changes;

use super::Broker;
use crate::alarms::Alarm;
use crate::connections::{Connection, Identity};
use crate::timers::InternalMessage;
use amqp091::{ShortString, Table, Value};
use message::{Body, Properties};
use meta::{EVENT_EXCHANGE, MetaError, Name};
use session::ChannelId;

/// The headers of an event.
#[derive(Debug, Default)]
pub(crate) struct EventHeaders(Table);

impl EventHeaders {
    pub(crate) fn put(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push(ShortString::from_static(name), value);
        self
    }

    pub(crate) fn text(self, name: &'static str, text: &str) -> Self {
        self.put(name, Value::LongString(text.as_bytes().to_vec()))
    }

    pub(crate) fn number(self, name: &'static str, number: impl Into<i64>) -> Self {
        self.put(name, Value::I64(number.into()))
    }

    pub(crate) fn table(self, name: &'static str, table: &Table) -> Self {
        self.put(name, Value::Table(table.clone()))
    }

    pub(crate) fn names(self, name: &'static str, names: &[Name]) -> Self {
        let text = |name: &Name| Value::LongString(name.as_bytes().to_vec());
        self.put(name, Value::Array(names.iter().map(text).collect()))
    }

    pub(crate) fn by(self, user: &str) -> Self {
        self.text("user_who_performed_action", user)
    }
}

/// The broker as it tells of events, if anybody listens.
#[derive(Clone, Copy, Debug)]
pub struct Events<'b>(&'b Broker);

impl Events<'_> {
    /// Tells of events from now on, in this virtual host. To be called once, before there are clients.
    ///
    /// # Errors
    /// There is no such virtual host.
    pub async fn tell_in(&self, vhost: &str) -> Result<(), MetaError> {
        let vhost = Name::from(vhost);
        self.0.changes().declare_own_exchange(vhost.clone(), EVENT_EXCHANGE).await?;
        self.0.event_vhost.get_or_init(|| vhost);
        Ok(())
    }

    /// Tells of an event, if anybody listens. `facts` are gathered only then.
    pub(crate) fn tell(&self, event: &str, facts: impl FnOnce() -> EventHeaders) {
        let Some(vhost) = self.0.event_vhost.get() else { return };
        let is_watched = self.0.timers.tracing.taps().is_some();
        if !is_watched && !self.0.view().has_listeners(vhost, EVENT_EXCHANGE) {
            return;
        }
        let unix_ms = self.0.classic.storage().time.unix_ms();
        let in_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
        let EventHeaders(headers) = facts().number("timestamp_in_ms", in_ms);
        let properties = Properties {
            delivery_mode: Some(2),
            timestamp: Some(unix_ms / 1_000),
            headers: Some(headers),
            ..Properties::default()
        };
        let (key, body) = (event.as_bytes().to_vec(), Body::Borrowed(&[]));
        let notice = InternalMessage::publish(vhost, EVENT_EXCHANGE, key, &properties, &body);
        self.0.timers.post(notice);
    }

    /// Tells of a login by a protocol, as RabbitMQ writes it down: `refused` says why it failed.
    pub fn login(&self, user: &str, (connection, protocol): (&str, &str), refused: Option<&str>) {
        let facts = || {
            let facts =
                EventHeaders::default().text("name", user).text("connection_name", connection);
            facts.text("connection_type", "network").text("protocol", protocol)
        };
        match refused {
            None => self.tell("user.authentication.success", facts),
            Some(error) => {
                self.tell("user.authentication.failure", || facts().text("error", error));
            }
        }
    }

    pub(crate) fn connected(&self, connection: &Connection) {
        self.tell("connection.created", || {
            let identity = &connection.identity;
            let Identity { user, vhost, peer_host, peer_port, host, port, .. } = identity;
            self.about_connection(connection)
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
                .number("connected_at", i64::try_from(identity.connected_at_ms).unwrap_or(0))
        });
    }

    pub(crate) fn disconnected(&self, connection: &Connection) {
        self.tell("connection.closed", || self.about_connection(connection));
    }

    fn about_connection(&self, connection: &Connection) -> EventHeaders {
        let identity = &connection.identity;
        EventHeaders::default()
            .text("pid", &self.connection_pid(connection))
            .text("name", &identity.name)
            .text("node", &self.0.limits().node)
            .table("client_properties", &identity.client_properties)
            .by(&identity.user)
    }

    pub(crate) fn channel(&self, event: &str, connection: &Connection, channel: ChannelId) {
        self.tell(event, || {
            let Identity { name, user, vhost, .. } = &connection.identity;
            EventHeaders::default()
                .text("pid", &self.channel_pid(connection, channel))
                .text("name", &format!("{name} ({})", channel.0))
                .text("connection", &self.connection_pid(connection))
                .number("number", channel.0)
                .text("user", user)
                .text("vhost", vhost)
                .by(user)
        });
    }

    /// Tells of a consumer of a queue: of `more` when it begins.
    pub(crate) fn consumer(
        &self,
        event: &str,
        (connection, channel): (&Connection, ChannelId),
        (queue, consumer_tag): (&str, &ShortString),
        more: impl FnOnce(EventHeaders) -> EventHeaders,
    ) {
        self.tell(event, || {
            let Identity { user, vhost, .. } = &connection.identity;
            let facts = EventHeaders::default()
                .text("consumer_tag", &consumer_tag.to_text())
                .text("channel", &self.channel_pid(connection, channel))
                .text("queue", queue)
                .text("vhost", vhost);
            more(facts).by(user)
        });
    }

    /// COMPAT: as listings name processes, so that tools bring both together.
    fn connection_pid(&self, connection: &Connection) -> String {
        format!("<{}.1.{}.0>", self.0.limits().node, connection.id.0)
    }

    fn channel_pid(&self, connection: &Connection, channel: ChannelId) -> String {
        format!("<{}.2.{}.{}>", self.0.limits().node, connection.id.0, channel.0)
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
            let event = if on { "alarm.set" } else { "alarm.cleared" };
            let resource = match alarm {
                Alarm::Memory => "memory",
                Alarm::Disk => "disk",
                Alarm::Descriptors => "file_descriptor_limit",
            };
            self.events().tell(event, || {
                let node = &self.limits().node;
                EventHeaders::default().text("resource", resource).text("node", node)
            });
        }
        if alarm == Alarm::Disk {
            self.classic.set_short(on);
        }
        is_changed
    }
}
