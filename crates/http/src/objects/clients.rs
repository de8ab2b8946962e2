//! Connections, channels and consumers. Who does not monitor sees its own.

use super::client_details::{channel_details, channel_name, put_given_name};
use super::connection_columns::ConnectionRow;
use super::consumer_states::{Channel, ChannelState, ConsumerStates, Holdings};
use super::flows::Flows;
use super::vhosts;
use crate::Api;
use crate::admin::operations::queue_refused;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::columns::{Column, LIST, columns, find, shown, some};
use crate::list::Row;
use crate::refusal::Refusal;
use crate::stats::{OpenChannel, Ranges};
use crate::typed_table::typed_table;
use api::{ChannelColumn, ConsumerColumn, ErrorCode};
use broker::{ChannelCounters, Connection};
use meta::definitions::table_to_json;
use meta::{ConnectionId, Pattern};
use mgmt::{ApiError, Matching, channel_pid, connection_of_pid, connection_pid};
use queue_type::{Activity, ConsumerView};
use queues::{Diagnosis, QueueRef};
use serde_json::{Value, json};
use session::ChannelId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stream::Inspection;

/// The reason that clients are given where the request has none.
const CLOSE_REASON: &str = "Closed via management plugin";
/// Time that consumers have to acknowledge by default, milliseconds. COMPAT: RabbitMQ's.
const CONSUMER_TIMEOUT_MS: u64 = 1_800_000;

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
pub(super) fn found(call: &Call) -> Result<ConnectionRow, Refusal> {
    let (name, id) = (call.param("name"), connection_of_pid(call.param("name")));
    let is_it = |one: &Connection| one.identity.name == name || id == Some(one.id);
    check_client(call, is_it)?;
    let found = connections(call, is_it)?;
    found.into_iter().next().ok_or_else(|| {
        ApiError { kind: ErrorCode::NotFound, text: format!("no connection {name}") }.into()
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

type ReadChannel = fn(&ChannelRow) -> Option<Value>;

/// The columns of channels, sorted by name. COMPAT: RabbitMQ's.
const CHANNEL: &[Column<ReadChannel>] = columns! { ChannelColumn:
    acks_uncommitted [LIST] |it| number(&it.counters.n_uncommitted_acks);
    confirm [LIST] |it| some(it.counters.confirm.load(Ordering::Relaxed));
    connection [] |it| some(connection_pid(it.node(), it.connection.id));
    connection_details [LIST] |it| Some(it.connection_details());
    consumer_count [LIST] |it| Some(json!(it.counters.n_consumers.load(Ordering::Relaxed)));
    consumer_details [LIST] |it| it.if_alone()?.consumer_details();
    consumer_state [] |it| some(it.state().map(|it| it.worst.as_str()));
    deliveries [LIST] |it| Some(it.flows().deliveries_of_channel(it.if_alone()?.open()));
    message_stats [LIST] |it| it.api.stats.of_channel(it.open(), &it.ranges);
    messages_unacknowledged [LIST] |it| some(it.n_unacked);
    messages_uncommitted [LIST] |it| number(&it.counters.n_uncommitted);
    messages_unconfirmed [LIST] |it| Some(json!(it.connection.n_unconfirmed(it.channel)));
    name [LIST] |it| some(it.name());
    node [LIST] |it| some(it.node());
    number [LIST] |it| some(it.channel.0);
    oldest_held_seconds [] |it| some(it.state().and_then(|it| it.held_seconds));
    oldest_unacked_ms [] |it| some(it.if_alone()?.oldest_unacked_ms());
    oldest_unconfirmed_ms [] |it| it.oldest_unconfirmed_ms();
    pid [] |it| some(channel_pid(it.node(), it.connection.id, it.channel));
    prefetch_count [LIST] |it| Some(json!(it.counters.prefetch_count.load(Ordering::Relaxed)));
    publishes [LIST] |it| Some(it.flows().publishes_of_channel(it.if_alone()?.open()));
    state [LIST] |_| some("running");
    transactional [LIST] |it| some(it.counters.transactional.load(Ordering::Relaxed));
    user [LIST] |it| some(it.connection.identity.user.as_str());
    user_who_performed_action [LIST] |it| some(it.connection.identity.user.as_str());
    vhost [LIST] |it| some(it.connection.identity.vhost.as_str());
};

fn number(counter: &AtomicU64) -> Option<Value> {
    some(counter.load(Ordering::Relaxed))
}

impl Row for ChannelRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(CHANNEL, LIST)
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Owned(channel_name(&self.connection, self.channel))
    }

    fn value(&self, column: &str) -> Option<Value> {
        (find(CHANNEL, column)?.read)(self)
    }
}

impl ChannelRow {
    fn node(&self) -> &str {
        &self.api.management.node_info.name
    }

    fn if_alone(&self) -> Option<&Self> {
        self.is_alone.then_some(self)
    }

    fn flows(&self) -> Flows<'_> {
        Flows { api: &self.api, ranges: &self.ranges }
    }

    fn connection_details(&self) -> Value {
        let identity = &self.connection.identity;
        let mut details = json!({
            "name": identity.name, "peer_host": identity.peer_host,
            "peer_port": identity.peer_port,
        });
        put_given_name(&mut details, identity);
        details
    }

    fn consumer_details(&self) -> Option<Value> {
        let consumers = self.consumers().into_iter();
        Some(consumers.map(|(queue, one)| consumer(&self.api, &queue, one)).collect())
    }

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

    fn oldest_unconfirmed_ms(&self) -> Option<Value> {
        let figures = self.api.management.broker.figures();
        let oldest_ms = figures.oldest_unconfirmed_ms(&self.connection, self.channel);
        some(oldest_ms.unwrap_or_default())
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

/// A consumer in a list.
struct ConsumerRow {
    queue: QueueRef,
    one: ConsumerView,
    /// Shown as the command line tool does.
    is_typed: bool,
    states: Arc<ConsumerStates>,
}

type ReadConsumer = fn(&ConsumerRow) -> Option<Value>;

/// The columns of consumers, sorted by name. COMPAT: RabbitMQ's.
const CONSUMER: &[Column<ReadConsumer>] = columns! { ConsumerColumn:
    ack_required [LIST] |it| some(it.one.ack_required);
    active [LIST] |it| some(it.one.activity != Activity::Waiting);
    activity_status [LIST] |it| some(it.one.activity.as_str());
    arguments [LIST] |it| Some(table_to_json(&it.one.arguments)), tool |it| Some(typed_table(&it.one.arguments));
    channel_details [LIST] |it| Some(channel_details(it.api(), it.one.connection, it.one.channel));
    channel_pid [] |it| some(channel_pid(&it.api().management.node_info.name, it.one.connection, it.one.channel));
    consumer_tag [LIST] |it| some(it.one.consumer_tag.to_text());
    consumer_timeout [LIST] |_| some(CONSUMER_TIMEOUT_MS);
    exclusive [LIST] |it| some(it.one.exclusive);
    messages_held_by_channel [] |it| some(it.holdings().held(it.channel()));
    oldest_held_seconds [] |it| some(it.holdings().held_seconds(it.channel()));
    prefetch_count [LIST] |it| Some(json!(it.one.prefetch_count));
    queue [LIST] |it| { let def = it.queue.def(); Some(json!({"name": def.name.as_str(), "vhost": def.vhost.as_str()})) };
    state [] |it| some(it.holdings().state(it.api(), &it.one).as_str());
};

impl Row for ConsumerRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(CONSUMER, LIST)
    }

    fn value(&self, column: &str) -> Option<Value> {
        find(CONSUMER, column)?.reader(self.is_typed)?(self)
    }
}

impl ConsumerRow {
    fn api(&self) -> &Api {
        &self.states.api
    }

    fn channel(&self) -> Channel {
        (self.one.connection, self.one.channel)
    }

    fn holdings(&self) -> Arc<Holdings> {
        self.states.holdings(&self.queue)
    }
}

/// A consumer as an object.
pub(super) fn consumer(api: &Arc<Api>, queue: &QueueRef, one: ConsumerView) -> Value {
    let (queue, states) = (queue.clone(), ConsumerStates::new(api));
    ConsumerRow { queue, one, is_typed: false, states }.object()
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
    let consumers = match broker.queue(vhost.as_str(), queue) {
        Some(queue) => queue.consumers().await.map_err(queue_refused)?,
        None => Vec::new(),
    };
    for one in consumers.into_iter().filter(|one| one.consumer_tag.to_text() == tag) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted() {
        assert!(CHANNEL.is_sorted_by_key(|column| column.name));
        assert!(CONSUMER.is_sorted_by_key(|column| column.name));
    }
}
