//! Connections, channels and consumers. Who does not monitor sees its own.

use super::client_details::{channel_details, channel_name, given_name, put_given_name};
use super::consumer_states::{ChannelState, ConsumerStates};
use super::flows::Flows;
use super::vhosts;
use crate::Api;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::list::Row;
use crate::refusal::Refusal;
use crate::stats::{OpenChannel, Ranges};
use broker::{
    Activity, ChannelCounters, Connection, ConsumerView, Diagnosis, Inspection, QueueRef,
};
use meta::definitions::table_to_json;
use meta::{ConnectionId, Pattern};
use mgmt::{ApiError, Kind, Matching};
use serde_json::{Value, json};
use session::ChannelId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::words;

/// The reason that clients are given where the request has none.
const CLOSE_REASON: &str = "Closed via management plugin";
/// Time that consumers have to acknowledge by default, milliseconds. COMPAT: RabbitMQ's.
const CONSUMER_TIMEOUT_MS: u64 = 1_800_000;

/// A connection in a list.
pub(super) struct ConnectionRow {
    api: Arc<Api>,
    connection: Arc<Connection>,
    ranges: Ranges,
    /// Shown as the command line tool does, with the number of subscriptions to streams.
    typed: Option<u64>,
}

const CONNECTION: &str = "\
    auth_mechanism, channel_max, channels, client_properties, connected_at, frame_max, host, \
    name, node, peer_cert_issuer, peer_cert_serial_number, peer_cert_subject, peer_cert_validity, \
    peer_host, peer_port, port, protocol, recv_cnt, recv_oct, recv_oct_details, send_cnt, \
    send_oct, send_oct_details, send_pend, ssl, ssl_cipher, ssl_hash, ssl_key_exchange, \
    ssl_protocol, state, timeout, type, user, user_provided_name, user_who_performed_action, \
    vhost";

impl Row for ConnectionRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        words(CONNECTION)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.connection.identity.name)
    }

    fn value(&self, column: &str) -> Option<Value> {
        let identity = &self.connection.identity;
        let (id, stats) = (self.connection.id, &self.api.stats);
        if let Some(n_subscriptions) = self.typed {
            return self.typed_value(n_subscriptions, column);
        }
        Some(match column {
            "client_properties" => table_to_json(&identity.client_properties),
            "node" => json!(self.api.management.node_info.name),
            // COMPAT: it is spelled otherwise for tools.
            "protocol" if identity.protocol == "{0,9,1}" => json!("AMQP 0-9-1"),
            "recv_oct_details" => stats.details_of_connection(id, false, &self.ranges),
            "send_oct_details" => stats.details_of_connection(id, true, &self.ranges),
            "type" if identity.protocol.starts_with("Direct") => json!("direct"),
            "type" => json!("network"),
            "user_provided_name" => given_name(identity)?,
            "user_who_performed_action" => json!(identity.user),
            _ => {
                let node = &self.api.management.node_info.name;
                let value = mgmt::connection_value(node, &self.connection, column);
                // COMPAT: facts of TLS are there without it.
                value.unwrap_or(Value::Null)
            }
        })
    }
}

impl ConnectionRow {
    pub(super) fn to_name(&self) -> String {
        self.connection.identity.name.clone()
    }

    /// The value of a column for the command line tool. COMPAT: properties of stream clients are sorted.
    fn typed_value(&self, n_subscriptions: u64, column: &str) -> Option<Value> {
        let node = &self.api.management.node_info.name;
        let mut value = match column {
            "node" => json!(node),
            "subscriptions" => json!(n_subscriptions),
            _ => mgmt::connection_value(node, &self.connection, column)?,
        };
        if column == "client_properties" && self.connection.identity.is_of_streams() {
            let key = |field: &Value| field.get(0).map(Value::to_string);
            value.as_array_mut()?.sort_by_cached_key(key);
        }
        Some(value)
    }
}

/// Whether the caller sees a client.
pub(super) fn sees(call: &Call, connection: &Connection) -> bool {
    check_user(call, &connection.identity.user).is_ok()
}

/// Refuses who asks for what is another user's and does not monitor.
fn check_user(call: &Call, user: &str) -> Result<(), Refusal> {
    if call.caller.is_monitor() || user == call.caller.user {
        return Ok(());
    }
    Err(Refusal::not_yours())
}

/// Refuses who asks for a client of another user and does not monitor.
fn check_client(call: &Call, is_it: impl Fn(&Connection) -> bool) -> Result<(), Refusal> {
    let mut list = call.api.management.broker.connections.list().into_iter();
    list.find(|one| is_it(one)).map_or(Ok(()), |one| check_user(call, &one.identity.user))
}

fn connections(
    call: &Call,
    wanted: impl Fn(&Connection) -> bool,
) -> Result<Vec<ConnectionRow>, Refusal> {
    let ranges = call.ranges()?;
    let list = call.api.management.broker.connections.list();
    let seen = list.into_iter().filter(|one| sees(call, one) && wanted(one));
    let mut n_subscriptions: BTreeMap<ConnectionId, u64> = BTreeMap::new();
    if call.query.get("columns").is_some_and(|columns| columns.contains("subscriptions")) {
        for stream in call.view().streams() {
            for one in Inspection::of(stream).subscriptions() {
                *n_subscriptions.entry(one.connection).or_default() += 1;
            }
        }
    }
    let row = |connection: Arc<Connection>| {
        let n_subscriptions = n_subscriptions.get(&connection.id).copied().unwrap_or_default();
        let typed = call.is_typed().then_some(n_subscriptions);
        ConnectionRow { api: Arc::clone(&call.api), connection, ranges, typed }
    };
    Ok(seen.map(row).collect())
}

pub(crate) fn list(call: &Call) -> Outcome {
    call.list(connections(call, |_| true)?)
}

pub(crate) fn list_in_vhost(call: &Call) -> Outcome {
    call.list(connections(call, |one| one.identity.vhost == call.param("vhost"))?)
}

pub(crate) fn list_of_streams(call: &Call) -> Outcome {
    let vhost = call.param("vhost");
    let is_in = |one: &Connection| vhost.is_empty() || one.identity.vhost == vhost;
    call.list(connections(call, |one| one.identity.is_of_streams() && is_in(one))?)
}

pub(crate) fn list_of_user(call: &Call) -> Outcome {
    check_user(call, call.param("user"))?;
    call.list(connections(call, |one| one.identity.user == call.param("user"))?)
}

/// The connection that the address names, or whose process it does.
fn found(call: &Call) -> Result<ConnectionRow, Refusal> {
    let (name, id) = (call.param("name"), mgmt::connection_of_pid(call.param("name")));
    let is_it = |one: &Connection| one.identity.name == name || id == Some(one.id);
    check_client(call, is_it)?;
    let found = connections(call, is_it)?;
    found.into_iter().next().ok_or_else(|| {
        ApiError { kind: Kind::NotFound, text: format!("no connection {name}") }.into()
    })
}

pub(crate) fn get(call: &Call) -> Outcome {
    Ok(Answer::Json(found(call)?.object()))
}

/// The connections that the caller sees with a matching text in a column.
pub(super) fn matching(
    call: &Call,
    column: &str,
    pattern: &Pattern,
) -> Result<Vec<ConnectionRow>, Refusal> {
    let (mut found, mut matching) = (Vec::new(), Matching::during(&call.course));
    for row in connections(call, |_| true)? {
        let value = row.value(column);
        let text = value.as_ref().and_then(Value::as_str);
        if let Some(text) = text
            && matching.matches(pattern.compiled(), text)?
        {
            found.push(row);
        }
    }
    Ok(found)
}

/// Closes connections. Those that have gone meanwhile are no loss. How many, and why not all of them.
pub(super) async fn close_all(
    call: &Call,
    rows: &[ConnectionRow],
) -> Result<(usize, Option<String>), Refusal> {
    let request = call.request()?;
    let given = call.headers.get("x-reason").and_then(|reason| reason.to_str().ok());
    let reason = request.optional("explanation").or(given).unwrap_or(CLOSE_REASON);
    let mut slices = call.slices();
    for (nth, row) in rows.iter().enumerate() {
        if let Err(why) = call.next_step(&mut slices).await {
            return Ok((nth, Some(why)));
        }
        call.api.management.broker.operations().close_connection(row.connection.id, reason);
    }
    Ok((rows.len(), None))
}

pub(crate) async fn close(call: &Call) -> Outcome {
    let found = call.beside(found).await?;
    close_all(call, &[found]).await?;
    Ok(Answer::NoContent)
}

pub(crate) async fn close_of_user(call: &Call) -> Outcome {
    check_user(call, call.param("user"))?;
    let of_user = |call: &Call| connections(call, |one| one.identity.user == call.param("user"));
    let found = call.beside(of_user).await?;
    match close_all(call, &found).await? {
        (_, None) => Ok(Answer::NoContent),
        (n_closed, Some(why)) => {
            let text = format!("closed {n_closed} of {} connections: {why}", found.len());
            Err(Refusal::unavailable(text))
        }
    }
}

/// A channel in a list.
struct ChannelRow {
    api: Arc<Api>,
    connection: Arc<Connection>,
    channel: ChannelId,
    counters: Arc<ChannelCounters>,
    n_unacked: u64,
    /// Shown by itself, with more.
    is_alone: bool,
    ranges: Ranges,
    states: Arc<ConsumerStates>,
}

const CHANNEL: &str = "\
    acks_uncommitted, confirm, connection_details, consumer_count, consumer_details, deliveries, \
    message_stats, messages_unacknowledged, messages_uncommitted, messages_unconfirmed, name, \
    node, number, prefetch_count, publishes, state, transactional, user, \
    user_who_performed_action, vhost";

impl Row for ChannelRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        words(CHANNEL)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(channel_name(&self.connection, self.channel))
    }

    fn value(&self, column: &str) -> Option<Value> {
        let (identity, counters) = (&self.connection.identity, &self.counters);
        let number =
            |counter: &std::sync::atomic::AtomicU64| json!(counter.load(Ordering::Relaxed));
        let node = &self.api.management.node_info.name;
        Some(match column {
            "pid" => json!(mgmt::channel_pid(node, self.connection.id, self.channel)),
            "connection" => json!(mgmt::connection_pid(node, self.connection.id)),
            "oldest_unconfirmed_ms" => {
                let figures = self.api.management.broker.figures();
                let oldest_ms = figures.oldest_unconfirmed_ms(&self.connection, self.channel);
                json!(oldest_ms.unwrap_or_default())
            }
            "oldest_unacked_ms" if self.is_alone => json!(self.oldest_unacked_ms()),
            "acks_uncommitted" => number(&counters.n_uncommitted_acks),
            "confirm" => json!(counters.confirm.load(Ordering::Relaxed)),
            "connection_details" => {
                let mut details = json!({
                    "name": identity.name, "peer_host": identity.peer_host,
                    "peer_port": identity.peer_port,
                });
                put_given_name(&mut details, identity);
                details
            }
            "consumer_state" => json!(self.state().map(|it| it.worst.as_str())),
            "oldest_held_seconds" => json!(self.state().and_then(|it| it.held_seconds)),
            "consumer_count" => json!(counters.n_consumers.load(Ordering::Relaxed)),
            "consumer_details" if self.is_alone => {
                let its = self.consumers();
                its.iter().map(|(queue, one)| consumer(&self.api, queue, one)).collect()
            }
            "deliveries" | "publishes" if self.is_alone => {
                let flows = Flows { api: &self.api, ranges: &self.ranges };
                match column {
                    "deliveries" => flows.deliveries_of_channel(self.open()),
                    _ => flows.publishes_of_channel(self.open()),
                }
            }
            "message_stats" => self.api.stats.of_channel(self.open(), &self.ranges)?,
            "messages_unacknowledged" => json!(self.n_unacked),
            "messages_uncommitted" => number(&counters.n_uncommitted),
            "messages_unconfirmed" => json!(self.connection.n_unconfirmed(self.channel)),
            "name" => json!(self.name()),
            "node" => json!(node),
            "number" => json!(self.channel.0),
            "prefetch_count" => json!(counters.prefetch_count.load(Ordering::Relaxed)),
            "state" => json!("running"),
            "transactional" => json!(counters.transactional.load(Ordering::Relaxed)),
            "user" | "user_who_performed_action" => json!(identity.user),
            "vhost" => json!(identity.vhost),
            _ => return None,
        })
    }
}

impl ChannelRow {
    fn open(&self) -> OpenChannel<'_> {
        let Self { connection, channel, counters, .. } = self;
        OpenChannel { connection, id: *channel, counters }
    }

    fn state(&self) -> Option<ChannelState> {
        self.states.of_channel((self.connection.id, self.channel))
    }

    fn consumers(&self) -> Vec<(QueueRef, ConsumerView)> {
        let mut consumers = self.api.management.broker.figures().consumers();
        consumers
            .retain(|(_, one)| (one.connection, one.channel) == (self.connection.id, self.channel));
        consumers
    }

    /// Time that the channel has held its oldest message of a queue that it consumes, at least; 0 without
    /// one.
    fn oldest_unacked_ms(&self) -> u64 {
        let consumers = self.consumers();
        let queues: BTreeMap<_, _> =
            consumers.iter().map(|(queue, _)| (queue.id(), queue)).collect();
        let mut held_ms = BTreeMap::new();
        for queue in queues.into_values() {
            Diagnosis(queue).note_held_ms(self.api.now(), &mut held_ms);
        }
        held_ms.get(&(self.connection.id, self.channel)).copied().unwrap_or_default()
    }
}

fn channels(call: &Call, wanted: impl Fn(&Connection) -> bool) -> Result<Vec<ChannelRow>, Refusal> {
    let ranges = call.ranges()?;
    let broker = &call.api.management.broker;
    let is_asked = |columns: &str| columns.contains("messages_unacknowledged");
    let wants_unacked = call.query.get("columns").is_none_or(is_asked);
    let unacked: BTreeMap<_, u64> =
        if wants_unacked { broker.figures().unacked_by_channel() } else { BTreeMap::new() };
    let (mut rows, states) = (Vec::new(), ConsumerStates::new(&call.api));
    for connection in broker.connections.list() {
        if !sees(call, &connection) || !wanted(&connection) {
            continue;
        }
        for (channel, counters) in stdx::lock(&connection.channels).iter() {
            rows.push(ChannelRow {
                api: Arc::clone(&call.api),
                connection: Arc::clone(&connection),
                channel: *channel,
                counters: Arc::clone(counters),
                n_unacked: unacked.get(&(connection.id, *channel)).copied().unwrap_or(0),
                is_alone: false,
                ranges,
                states: Arc::clone(&states),
            });
        }
    }
    Ok(rows)
}

pub(crate) fn list_channels(call: &Call) -> Outcome {
    call.list(channels(call, |_| true)?)
}

pub(crate) fn channels_in_vhost(call: &Call) -> Outcome {
    call.list(channels(call, |one| one.identity.vhost == call.param("vhost"))?)
}

pub(crate) fn channels_of_connection(call: &Call) -> Outcome {
    let row = found(call)?;
    call.list(channels(call, |one| one.id == row.connection.id)?)
}

pub(crate) fn get_channel(call: &Call) -> Outcome {
    let name = call.param("name");
    let connection = name.rsplit_once(" (").map_or(name, |(connection, _)| connection);
    check_client(call, |one| one.identity.name == connection)?;
    let found = channels(call, |_| true)?.into_iter().find(|row| row.name() == name);
    let row = ChannelRow { is_alone: true, ..found.ok_or_else(Refusal::not_found)? };
    call.one(&row)
}

/// Refuses to list a connection's sessions. COMPAT: connections of AMQP 0-9-1 have none.
pub(crate) fn sessions(call: &Call) -> Outcome {
    found(call)?;
    Err(Refusal::bad_request("connection does not use AMQP 1.0"))
}

/// A consumer in a list.
struct ConsumerRow {
    queue: QueueRef,
    one: ConsumerView,
    /// Shown as the command line tool does.
    is_typed: bool,
    states: Arc<ConsumerStates>,
}

const CONSUMER: &str = "\
    ack_required, active, activity_status, arguments, channel_details, consumer_tag, \
    consumer_timeout, exclusive, prefetch_count, queue";

impl Row for ConsumerRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        words(CONSUMER)
    }

    fn value(&self, column: &str) -> Option<Value> {
        let Self { queue, one, states, .. } = self;
        let (api, channel) = (&states.api, (one.connection, one.channel));
        Some(match column {
            "arguments" if self.is_typed => mgmt::typed_table(&one.arguments),
            "channel_pid" => {
                json!(mgmt::channel_pid(&api.management.node_info.name, channel.0, channel.1))
            }
            "messages_held_by_channel" => json!(states.holdings(queue).held(channel)),
            "oldest_held_seconds" => json!(states.holdings(queue).held_seconds(channel)),
            "state" => json!(states.holdings(queue).state(api, one).as_str()),
            _ => return consumer_value(api, queue, one, column),
        })
    }
}

/// A consumer as an object.
pub(super) fn consumer(api: &Api, queue: &QueueRef, one: &ConsumerView) -> Value {
    let value = |column: &str| Some((column.to_owned(), consumer_value(api, queue, one, column)?));
    Value::Object(words(CONSUMER).filter_map(value).collect())
}

fn consumer_value(api: &Api, queue: &QueueRef, one: &ConsumerView, column: &str) -> Option<Value> {
    Some(match column {
        "arguments" => table_to_json(&one.arguments),
        "ack_required" => json!(one.ack_required),
        "active" => json!(one.activity != Activity::Waiting),
        "activity_status" => json!(one.activity.as_str()),
        "channel_details" => channel_details(api, one.connection, one.channel),
        "consumer_tag" => json!(one.consumer_tag.to_text()),
        "consumer_timeout" => json!(CONSUMER_TIMEOUT_MS),
        "exclusive" => json!(one.exclusive),
        "prefetch_count" => json!(one.prefetch_count),
        "queue" => json!({"name": queue.def().name.as_str(), "vhost": queue.def().vhost.as_str()}),
        _ => return None,
    })
}

/// Ends the consumers of a queue with a tag, or the one of a channel. Who does not monitor ends its own.
pub(crate) async fn cancel_consumer(call: &Call) -> Outcome {
    let request = call.request()?;
    let (queue, tag) = (call.param("queue"), call.param("tag"));
    let wanted = request.optional("channel");
    let view = call.view();
    let vhost = &vhost(&view.meta, call)?.name;
    let broker = &call.api.management.broker;
    let mut n_ended = 0;
    let consumers = broker.queue(vhost.as_str(), queue).map(|queue| queue.consumers());
    for one in consumers.into_iter().flatten().filter(|one| one.consumer_tag.to_text() == tag) {
        let Some(connection) = broker.connections.get(one.connection) else { continue };
        let name = channel_name(&connection, one.channel);
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        check_user(call, &connection.identity.user)?;
        if connection.identity.is_of_streams() {
            let text =
                "a consumer of the stream protocol cannot be cancelled: close its connection";
            return Err(Refusal::bad_request(text));
        }
        connection.cancel_consumer(one.channel, one.consumer_tag.clone());
        n_ended += 1;
    }
    if n_ended == 0 {
        return Err(Refusal::lacks(format!("queue '{queue}' has no consumer '{tag}'")));
    }
    Ok(Answer::NoContent)
}

pub(crate) fn consumers(call: &Call) -> Outcome {
    let view = call.view();
    let seen = vhosts(&view.meta, call)?;
    let is_seen = |queue: &QueueRef| seen.iter().any(|vhost| vhost.name == queue.def().vhost);
    let (states, is_typed) = (ConsumerStates::new(&call.api), call.is_typed());
    let consumers = call.api.management.broker.figures().consumers().into_iter();
    let rows = consumers.filter(|(queue, _)| is_seen(queue)).map(|(queue, one)| ConsumerRow {
        queue,
        one,
        is_typed,
        states: Arc::clone(&states),
    });
    call.list(rows.collect::<Vec<_>>())
}
