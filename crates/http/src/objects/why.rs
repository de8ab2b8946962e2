//! Why a queue does not drain: its consumers and what each holds and waits for, and what else is waited for.

use super::clients::{channel_details, connection_details};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use broker::{Activity, Connection, ConsumerView, Diagnosis, QueueRef, QueueStat, WaitsFor};
use meta::{ConnectionId, QueueId};
use serde_json::{Value, json};
use session::ChannelId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Publishers that are listed one by one.
const PUBLISHERS_MAX: usize = 1_000;
/// A connection that was not listened to in the last so many milliseconds is in flow. COMPAT: RabbitMQ's
/// word.
const FLOW_MS: u64 = 5_000;
/// A consumer at its limit hangs once it has settled nothing for so long.
const HUNG_MS: u64 = 60_000;

type Channel = (ConnectionId, ChannelId);

stdx::named! {
    /// The state of a consumer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum State {
        InLine = "standby of the single active consumer",
        Blocked = "blocked by an alarm: acknowledgements on its connection are not read",
        Full = "at its prefetch limit",
        Hung = "hung: at its prefetch limit, and nothing settled for a minute and more",
        Unread = "client does not read its deliveries",
        SharedLimit = "at the prefetch limit shared by its channel",
        HasRoom = "ready for deliveries",
    }
}

impl State {
    /// The reason that all active consumers in this state are.
    const fn reason(self) -> Option<&'static str> {
        match self {
            Self::InLine | Self::HasRoom => None,
            Self::Blocked => Some(
                "consumers' connections are blocked by an alarm: their acknowledgements are not read",
            ),
            Self::Full => Some("all consumers are at their prefetch limit"),
            Self::Hung => Some("consumers hang: at their prefetch limit, and nothing settled"),
            Self::Unread => Some("consumers' clients do not read their deliveries"),
            Self::SharedLimit => Some("channels are at their shared prefetch limit"),
        }
    }
}

/// The consumers of a queue with their states, and what channels hold.
struct Consumers {
    all: Vec<(ConsumerView, State)>,
    channels: BTreeSet<Channel>,
    held: BTreeMap<Channel, u64>,
    held_ms: BTreeMap<Channel, u64>,
}

impl Consumers {
    fn of(call: &Call, queue: &QueueRef) -> Self {
        let (mut held, mut held_ms) = (BTreeMap::new(), BTreeMap::new());
        queue.count_held(&mut held);
        Diagnosis(queue).note_held_ms(call.api.now(), &mut held_ms);
        let consumers = queue.consumers();
        let rooms = rooms(&consumers);
        let is_full = |channel: &Channel| {
            let held = held.get(channel).copied().unwrap_or_default();
            rooms.get(channel).copied().flatten().is_some_and(|room| room > 0 && held >= room)
        };
        let connections = &call.api.management.broker.connections;
        let state = |one: &ConsumerView| {
            let is_blocked = || {
                let connection = connections.get(one.connection);
                connection.is_some_and(|it| it.blocked.load(Ordering::Relaxed))
            };
            match one.waits_for {
                _ if one.activity == Activity::Waiting => State::InLine,
                _ if is_blocked() => State::Blocked,
                Some(WaitsFor::SharedLimit) => State::SharedLimit,
                _ if is_full(&(one.connection, one.channel)) => {
                    let channel = (one.connection, one.channel);
                    let unchanged_ms = call.api.stats.unchanged_ms(&(channel, queue.id()));
                    full(held_ms.get(&channel).copied(), unchanged_ms)
                }
                Some(WaitsFor::Client) => State::Unread,
                None => State::HasRoom,
            }
        };
        let states: Vec<State> = consumers.iter().map(state).collect();
        let channels = consumers.iter().map(|one| (one.connection, one.channel)).collect();
        Self { all: consumers.into_iter().zip(states).collect(), channels, held, held_ms }
    }

    fn states(&self) -> BTreeSet<State> {
        self.all.iter().map(|(_, state)| *state).collect()
    }

    /// The channels that hold messages and have no consumer: by `basic.get`, or since one was cancelled.
    fn other_holders(&self) -> impl Iterator<Item = (Channel, u64)> {
        let others = self.held.iter().filter(|(channel, _)| !self.channels.contains(channel));
        others.map(|(channel, n)| (*channel, *n))
    }

    /// For how long a channel has held its oldest message, at least.
    fn held_seconds(&self, channel: Channel) -> Option<f64> {
        self.held_ms.get(&channel).map(|ms| *ms as f64 / 1e3)
    }
}

/// The state of a consumer that holds all it may, by the age of the oldest of that, and how long it has been
/// given and has settled nothing.
fn full(held_ms: Option<u64>, unchanged_ms: Option<u64>) -> State {
    let is_long = |ms: Option<u64>| ms.is_some_and(|ms| ms >= HUNG_MS);
    if is_long(held_ms) && is_long(unchanged_ms) { State::Hung } else { State::Full }
}

/// The messages that each channel's consumers at the queue may hold; none of one without a limit.
fn rooms(all: &[ConsumerView]) -> BTreeMap<Channel, Option<u64>> {
    let mut rooms = BTreeMap::new();
    for one in all.iter().filter(|one| one.ack_required) {
        let room = rooms.entry((one.connection, one.channel)).or_insert(Some(0));
        let prefetch = u64::from(one.prefetch_count);
        *room = room.filter(|_| prefetch > 0).map(|room| room + prefetch);
    }
    rooms
}

/// Why messages stay in a queue.
pub(crate) fn queue(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| view.queue_by_id(def.id)).ok_or_else(Refusal::not_found)?;
    let (stat, consumers) = (queue.stat(), Consumers::of(call, &queue));
    let others = consumers.other_holders();
    Ok(Answer::Json(json!({
        "name": queue.def().name.as_str(),
        "messages_ready": stat.n_ready,
        "messages_unacknowledged": stat.n_unacked,
        "oldest_message_age_seconds": call.api.history.ages.seconds_of(queue.id(), call.api.now()),
        "reasons": reasons(&queue, &stat, &consumers),
        "publishers_wait_for": super::explain::alarms(call),
        "publishers_waiting": waiting_publishers(call, queue.id()),
        "publishers": publishers(call, queue.id()),
        "consumers": consumers.all.iter().map(|it| consumer(call, &consumers, it)).collect::<Value>(),
        "other_holders": others.map(|it| other_holder(call, &consumers, it)).collect::<Value>(),
    })))
}

fn consumer(call: &Call, all: &Consumers, (one, state): &(ConsumerView, State)) -> Value {
    let channel = (one.connection, one.channel);
    json!({
        "consumer_tag": one.consumer_tag.to_text(),
        "channel_details": channel_details(&call.api, one.connection, one.channel),
        "prefetch_count": one.prefetch_count,
        "ack_required": one.ack_required,
        "messages_held_by_channel": all.held.get(&channel).copied().unwrap_or_default(),
        "oldest_held_seconds": all.held_seconds(channel),
        "state": state.as_str(),
    })
}

fn other_holder(call: &Call, all: &Consumers, (channel, n_held): (Channel, u64)) -> Value {
    json!({
        "channel_details": channel_details(&call.api, channel.0, channel.1),
        "messages_held_by_channel": n_held,
        "oldest_held_seconds": all.held_seconds(channel),
    })
}

/// Channels that have published to a queue, and by which exchange.
fn publishers(call: &Call, queue: QueueId) -> Value {
    let mut all = Vec::new();
    for connection in call.api.management.broker.connections.list() {
        let channels: Vec<_> =
            stdx::lock(&connection.channels).iter().map(|(id, it)| (*id, Arc::clone(it))).collect();
        for (id, counters) in channels {
            let pairs = counters.by_route.published().pairs.into_iter();
            for ((exchange, _), n) in pairs.filter(|((_, to), _)| *to == queue) {
                all.push(json!({
                    "channel_details": channel_details(&call.api, connection.id, id),
                    "exchange": String::from_utf8_lossy(&exchange), "messages": n,
                }));
            }
        }
        if all.len() >= PUBLISHERS_MAX || call.course.end().is_some() {
            break;
        }
    }
    all.truncate(PUBLISHERS_MAX);
    all.into()
}

/// The connections that have published to a queue and are not listened to for now.
fn waiting_publishers(call: &Call, queue: QueueId) -> Value {
    let now_ms = call.api.now().monotonic_ms;
    let state = |connection: &Connection| {
        let paused_until_ms = connection.paused_until_ms.load(Ordering::Relaxed);
        if connection.blocked.load(Ordering::Relaxed) {
            return Some("blocked");
        }
        (paused_until_ms > 0 && now_ms < paused_until_ms.saturating_add(FLOW_MS)).then_some("flow")
    };
    let publishes = |connection: &Connection| {
        let channels: Vec<_> = stdx::lock(&connection.channels).values().cloned().collect();
        let mut pairs = channels.iter().flat_map(|it| it.by_route.published().pairs.into_keys());
        pairs.any(|(_, id)| id == queue)
    };
    let waiting = |connection: Arc<Connection>| {
        let state = state(&connection).filter(|_| publishes(&connection))?;
        Some(json!({"connection_details": connection_details(call, connection.id), "state": state}))
    };
    let all = call.api.management.broker.connections.list();
    all.into_iter().filter_map(waiting).take(PUBLISHERS_MAX).collect()
}

fn reasons(queue: &QueueRef, stat: &QueueStat, consumers: &Consumers) -> Vec<&'static str> {
    let (mut reasons, states) = (Vec::new(), consumers.states());
    let mut put = |is_so, reason| reasons.extend(Some(reason).filter(|_| is_so));
    let (has_ready, has_consumers) = (stat.n_ready > 0, !consumers.all.is_empty());
    put(!has_ready && stat.n_unacked == 0, "the queue is empty");
    put(!has_ready && stat.n_unacked > 0, "all messages are unacknowledged");
    put(has_ready && !has_consumers, "there are no consumers");
    put(has_ready && Diagnosis(queue).waits_for_page(), "the next message is being read from disk");
    let are_stuck = !states.contains(&State::HasRoom);
    let is_in_line = states.contains(&State::InLine);
    for state in states {
        let counts = match state {
            State::InLine | State::HasRoom | State::Blocked => true,
            State::Unread => are_stuck,
            State::Full | State::Hung | State::SharedLimit => are_stuck && has_ready,
        };
        let reason = state.reason().filter(|_| counts && stat.n_ready + stat.n_unacked > 0);
        reason.into_iter().for_each(|reason| put(true, reason));
    }
    put(has_ready && is_in_line, "only the single active consumer gets messages");
    let has_others = consumers.other_holders().next().is_some();
    put(has_others, "channels without consumers have unacknowledged messages");
    put(stat.n_departing > 0, "messages wait to be dead-lettered");
    put(Diagnosis(queue).n_delayed() > 0, "returned messages wait for their retry delay");
    if reasons.is_empty() {
        reasons.push("consumers are ready: messages are delivered as fast as clients read them");
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumer_at_its_limit_hangs_when_nothing_is_settled() {
        assert_eq!(full(Some(HUNG_MS), Some(HUNG_MS)), State::Hung);
        // Slow ones hold messages for as long, and settle one now and then.
        assert_eq!(full(Some(10 * HUNG_MS), Some(HUNG_MS / 2)), State::Full);
        assert_eq!(full(Some(HUNG_MS / 2), Some(HUNG_MS)), State::Full);
        assert_eq!(full(Some(HUNG_MS), None), State::Full);
    }
}
