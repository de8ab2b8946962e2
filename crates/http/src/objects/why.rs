//! Why a queue does not drain: its consumers and what each holds, and what else is waited for.

use super::clients::channel_details;
use crate::call::{Answer, Call, Outcome, vhost};
use crate::refusal::Refusal;
use broker::{Activity, ConsumerView, QueueRef};
use meta::ConnectionId;
use serde_json::{Value, json};
use session::ChannelId;
use std::collections::BTreeMap;

type Channel = (ConnectionId, ChannelId);

/// The consumers of a queue, and what its channels may hold and do.
struct Consumers {
    all: Vec<ConsumerView>,
    held: BTreeMap<Channel, u64>,
}

impl Consumers {
    fn of(queue: &QueueRef) -> Self {
        let mut held = BTreeMap::new();
        queue.count_held(&mut held);
        Self { all: queue.consumers(), held }
    }

    fn held_by(&self, channel: Channel) -> u64 {
        self.held.get(&channel).copied().unwrap_or_default()
    }

    /// Whether a channel holds all that the prefetch counts of its consumers at the queue allow.
    fn is_full(&self, channel: Channel) -> bool {
        let here = self.all.iter().filter(|one| (one.connection, one.channel) == channel);
        let mut room = Some(0);
        for one in here.filter(|one| one.ack_required) {
            let prefetch = u64::from(one.prefetch_count);
            room = room.filter(|_| prefetch > 0).map(|room| room + prefetch);
        }
        room.is_some_and(|room| room > 0 && self.held_by(channel) >= room)
    }

    fn state(&self, one: &ConsumerView) -> &'static str {
        if one.activity == Activity::Waiting {
            "waits to be the single active consumer"
        } else if self.is_full((one.connection, one.channel)) {
            "holds all that its prefetch count allows"
        } else {
            "has room"
        }
    }

    fn active(&self) -> impl Iterator<Item = &ConsumerView> {
        self.all.iter().filter(|one| one.activity != Activity::Waiting)
    }
}

/// Why messages stay in a queue.
pub(crate) fn queue(call: &Call) -> Outcome {
    let view = call.view();
    let vhost = vhost(&view.meta, call)?;
    let def = vhost.queue(call.param("name")).filter(|def| !def.is_internal());
    let queue = def.and_then(|def| view.queue_by_id(def.id)).ok_or_else(Refusal::not_found)?;
    let (stat, consumers) = (queue.stat(), Consumers::of(&queue));
    let ages = call.api.ages.seconds(call.api.now());
    let one = |one: &ConsumerView| {
        let channel = (one.connection, one.channel);
        json!({
            "consumer_tag": one.consumer_tag.to_text(),
            "channel_details": channel_details(&call.api, one.connection, one.channel),
            "prefetch_count": one.prefetch_count,
            "ack_required": one.ack_required,
            "messages_held_by_channel": consumers.held_by(channel),
            "state": consumers.state(one),
        })
    };
    Ok(Answer::Json(json!({
        "name": queue.def().name.as_str(),
        "messages_ready": stat.n_ready,
        "messages_unacknowledged": stat.n_unacked,
        "oldest_message_age_seconds": ages.get(&queue.id()),
        "reasons": reasons(&queue, &consumers),
        "publishers_wait_for": super::explain::alarms(call),
        "consumers": consumers.all.iter().map(one).collect::<Value>(),
    })))
}

fn reasons(queue: &QueueRef, consumers: &Consumers) -> Vec<&'static str> {
    let (stat, mut reasons) = (queue.stat(), Vec::new());
    let is_full = |one: &ConsumerView| consumers.is_full((one.connection, one.channel));
    let mut put = |is_so, reason| reasons.extend(Some(reason).filter(|_| is_so));
    let (has_ready, has_consumers) = (stat.n_ready > 0, !consumers.all.is_empty());
    put(!has_ready && stat.n_unacked == 0, "the queue is empty");
    put(!has_ready && stat.n_unacked > 0, "consumers hold all messages and have not settled them");
    put(has_ready && !has_consumers, "there are no consumers");
    let is_cold = queue.as_classic().is_some_and(|queue| queue.inspect().waits_for_page());
    put(has_ready && is_cold, "the next message is being read from disk");
    let all_full = has_consumers && consumers.active().all(is_full);
    put(
        has_ready && all_full,
        "active consumers hold as many messages as their prefetch counts allow",
    );
    let are_waiting = consumers.active().count() < consumers.all.len();
    put(has_ready && are_waiting, "one consumer alone is active, and others wait for it to go");
    put(stat.n_departing > 0, "messages that are gone wait to be dead-lettered");
    if reasons.is_empty() {
        reasons.push("consumers have room: messages go as fast as clients take them");
    }
    reasons
}
