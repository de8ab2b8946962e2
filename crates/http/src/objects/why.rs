//! Reasons why a queue does not drain: what its consumers hold and wait for, and what else is waited for.

use super::client_details::{channel_details, connection_details};
use super::consumer_states::{Channel, Holdings, State};
use crate::Api;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use broker::Connection;
use meta::QueueId;
use queue_type::{ConsumerView, QueueStat};
use queues::{Diagnosis, QueueRef};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Publishers that are listed one by one.
const PUBLISHERS_MAX: usize = 1_000;
/// A connection that was not listened to in the last so many milliseconds is in flow. COMPAT: RabbitMQ's
/// word.
const FLOW_MS: u64 = 5_000;
impl State {
    /// The reason that all active consumers in this state are.
    const fn reason(self) -> Option<&'static str> {
        match self {
            Self::InLine | Self::HasRoom => None,
            Self::Blocked => Some(
                "consumers' connections are blocked by an alarm: their acknowledgements are not read",
            ),
            Self::Full => Some("all consumers are at their prefetch limit"),
            Self::Hung => Some("hung consumers hold messages and settle none"),
            Self::Unread => Some("consumers' clients do not read their deliveries"),
            Self::SharedLimit => Some("channels are at their shared prefetch limit"),
        }
    }
}

/// The consumers of a queue with their states, and what channels hold.
struct Consumers {
    all: Vec<(ConsumerView, State)>,
    channels: BTreeSet<Channel>,
    holdings: Holdings,
}

impl Consumers {
    fn of(api: &Api, queue: &QueueRef) -> Self {
        let consumers = queue.local_consumers();
        let holdings = Holdings::of(api, queue, consumers.iter());
        let channels = consumers.iter().map(|one| (one.connection, one.channel)).collect();
        let state = |one: ConsumerView| {
            let state = holdings.state(api, &one);
            (one, state)
        };
        Self { all: consumers.into_iter().map(state).collect(), channels, holdings }
    }

    fn states(&self) -> BTreeSet<State> {
        self.all.iter().map(|(_, state)| *state).collect()
    }

    /// The channels that hold messages and have no consumer: by `basic.get`, or since one was cancelled.
    fn other_holders(&self) -> impl Iterator<Item = (Channel, u64)> {
        self.holdings.all().filter(|(channel, _)| !self.channels.contains(channel))
    }
}

/// The reasons why messages stay in a queue.
pub(crate) fn queue(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| view.queue_by_id(def.id)).ok_or_else(Refusal::not_found)?;
    let (stat, consumers) = (queue.local_stat(), Consumers::of(&call.api, &queue));
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
        "consumers": consumers.all.iter().map(|(it, state)| consumer(call, &consumers, it, *state)).collect::<Value>(),
        "other_holders": others.map(|(channel, n)| other_holder(call, &consumers, channel, n)).collect::<Value>(),
    })))
}

fn consumer(call: &Call, all: &Consumers, one: &ConsumerView, state: State) -> Value {
    let channel = (one.connection, one.channel);
    json!({
        "consumer_tag": one.consumer_tag.to_text(),
        "channel_details": channel_details(&call.api, one.connection, one.channel),
        "prefetch_count": one.prefetch_count,
        "ack_required": one.ack_required,
        "messages_held_by_channel": all.holdings.held(channel),
        "oldest_held_seconds": all.holdings.held_seconds(channel),
        "state": state.as_str(),
    })
}

fn other_holder(call: &Call, all: &Consumers, channel: Channel, n_held: u64) -> Value {
    json!({
        "channel_details": channel_details(&call.api, channel.0, channel.1),
        "messages_held_by_channel": n_held,
        "oldest_held_seconds": all.holdings.held_seconds(channel),
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
    let now_ms = call.api.now().monotonic_ms.get();
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
    if Diagnosis(queue).home().is_some() {
        return vec!["the queue's node is down"];
    }
    let (mut reasons, states) = (Vec::new(), consumers.states());
    let mut put = |is_so, reason| reasons.extend(Some(reason).filter(|_| is_so));
    let (has_ready, has_consumers) = (stat.n_ready > 0, !consumers.all.is_empty());
    put(!has_ready && stat.n_unacked == 0, "the queue is empty");
    put(!has_ready && stat.n_unacked > 0, "all messages are unacknowledged");
    put(has_ready && !has_consumers, "there are no consumers");
    put(has_ready && Diagnosis(queue).waits_for_page(), "the next message is being read from disk");
    let are_stuck = !states.contains(&State::HasRoom);
    let is_in_line = states.contains(&State::InLine);
    // The worst first.
    for state in states.into_iter().rev() {
        let counts = match state {
            State::InLine | State::HasRoom | State::Blocked => true,
            State::Unread => are_stuck,
            State::Full | State::SharedLimit => are_stuck && has_ready,
            State::Hung => stat.n_unacked > 0 || are_stuck,
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
