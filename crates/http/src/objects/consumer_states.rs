//! The states of consumers: what each holds, may hold and waits for. Lists and `explain/why` tell the same.

use crate::Api;
use meta::{ConnectionId, QueueId};
use queue_type::{Activity, ConsumerView, WaitsFor};
use queues::{Diagnosis, QueueRef};
use session::ChannelId;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

/// A consumer that holds messages hangs once it has settled nothing for so long.
const HUNG_MS: u64 = 60_000;

pub(super) type Channel = (ConnectionId, ChannelId);

stdx::named! {
    /// The state of a consumer, the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum State {
        HasRoom = "ready for deliveries",
        InLine = "standby of the single active consumer",
        SharedLimit = "at the prefetch limit shared by its channel",
        Full = "at its prefetch limit",
        Blocked = "blocked by an alarm: acknowledgements on its connection are not read",
        Unread = "client does not read its deliveries",
        Hung = "hung: holds messages, and has settled none for a minute and more",
    }
}

/// Messages of a queue that channels hold, and may hold.
pub(super) struct Holdings {
    queue: QueueId,
    held: BTreeMap<Channel, u64>,
    held_ms: BTreeMap<Channel, u64>,
    /// The sum of a channel's prefetch limits; `None` for a channel that may hold any number.
    rooms: BTreeMap<Channel, Option<u64>>,
}

impl Holdings {
    /// The messages of a queue that the channels of `consumers` hold, and may hold.
    pub(super) fn of<'c>(
        api: &Api,
        queue: &QueueRef,
        consumers: impl Iterator<Item = &'c ConsumerView>,
    ) -> Self {
        let (mut held, mut held_ms) = (BTreeMap::new(), BTreeMap::new());
        Diagnosis(queue).count_held(&mut held);
        Diagnosis(queue).note_held_ms(api.now(), &mut held_ms);
        // Streams have no record of when: what is held has been since the last delivery, at least.
        let of_rest = held.keys().filter(|channel| !held_ms.contains_key(channel));
        let of_rest: Vec<_> = of_rest
            .filter_map(|channel| Some((*channel, api.stats.idle_ms(&(*channel, queue.id()))?)))
            .collect();
        held_ms.extend(of_rest);
        let mut rooms = BTreeMap::new();
        for one in consumers.filter(|one| one.ack_required) {
            let room = rooms.entry((one.connection, one.channel)).or_insert(Some(0));
            let prefetch = u64::from(one.prefetch_count);
            *room = room.filter(|_| prefetch > 0).map(|room| room + prefetch);
        }
        Self { queue: queue.id(), held, held_ms, rooms }
    }

    /// The state of one of the queue's consumers.
    pub(super) fn state(&self, api: &Api, one: &ConsumerView) -> State {
        let channel = (one.connection, one.channel);
        let is_blocked = || {
            let connection = api.management.broker.connections.get(one.connection);
            connection.is_some_and(|it| it.blocked.load(Ordering::Relaxed))
        };
        let is_hung = || {
            one.ack_required
                && is_hung(
                    self.held_ms.get(&channel).copied(),
                    api.stats.unsettled_ms(&(channel, self.queue)),
                )
        };
        let is_full = || {
            let room = self.rooms.get(&channel).copied().flatten();
            room.is_some_and(|room| room > 0 && self.held(channel) >= room)
        };
        match one.waits_for {
            _ if one.activity == Activity::Waiting => State::InLine,
            _ if is_blocked() => State::Blocked,
            _ if is_hung() => State::Hung,
            Some(WaitsFor::SharedLimit) => State::SharedLimit,
            _ if is_full() => State::Full,
            Some(WaitsFor::Client) => State::Unread,
            None => State::HasRoom,
        }
    }

    /// The messages that a channel holds.
    pub(super) fn held(&self, channel: Channel) -> u64 {
        self.held.get(&channel).copied().unwrap_or_default()
    }

    /// How long a channel has held its oldest message, at least.
    pub(super) fn held_seconds(&self, channel: Channel) -> Option<f64> {
        self.held_ms.get(&channel).map(|ms| *ms as f64 / 1e3)
    }

    /// All channels that hold messages, and how many.
    pub(super) fn all(&self) -> impl Iterator<Item = (Channel, u64)> {
        self.held.iter().map(|(channel, n)| (*channel, *n))
    }
}

/// Whether a consumer hangs, by the age of the oldest message it holds, and the time since it settled one.
fn is_hung(held_ms: Option<u64>, unsettled_ms: Option<u64>) -> bool {
    let is_long = |ms: Option<u64>| ms.is_some_and(|ms| ms >= HUNG_MS);
    is_long(held_ms) && is_long(unsettled_ms)
}

/// The states of consumers that a list asks for, worked out once for a queue, and not for queues that are not
/// asked for.
pub(super) struct ConsumerStates {
    pub(super) api: Arc<Api>,
    holdings: Mutex<BTreeMap<QueueId, Arc<Holdings>>>,
    channels: OnceLock<BTreeMap<Channel, ChannelState>>,
}

/// The worst state of a channel's consumers, and how long it has held its oldest message of their queues.
#[derive(Clone, Copy)]
pub(super) struct ChannelState {
    pub(super) worst: State,
    pub(super) held_seconds: Option<f64>,
}

impl ConsumerStates {
    pub(super) fn new(api: &Arc<Api>) -> Arc<Self> {
        let (holdings, channels) = (Mutex::default(), OnceLock::new());
        Arc::new(Self { api: Arc::clone(api), holdings, channels })
    }

    pub(super) fn holdings(&self, queue: &QueueRef) -> Arc<Holdings> {
        let make = || Arc::new(Holdings::of(&self.api, queue, queue.local_consumers().iter()));
        Arc::clone(stdx::lock(&self.holdings).entry(queue.id()).or_insert_with(make))
    }

    /// The state of a channel that has consumers.
    pub(super) fn of_channel(&self, channel: Channel) -> Option<ChannelState> {
        let all = self.channels.get_or_init(|| {
            let mut all = BTreeMap::<Channel, ChannelState>::new();
            let consumers = self.api.management.broker.figures().consumers();
            for of_queue in consumers.chunk_by(|(one, _), (next, _)| one.id() == next.id()) {
                let Some((queue, _)) = of_queue.first() else { continue };
                let holdings = Holdings::of(&self.api, queue, of_queue.iter().map(|(_, one)| one));
                for (_, one) in of_queue {
                    let channel = (one.connection, one.channel);
                    let held_seconds = holdings.held_seconds(channel);
                    let new = ChannelState { worst: holdings.state(&self.api, one), held_seconds };
                    let state = all.entry(channel).or_insert(new);
                    state.worst = state.worst.max(new.worst);
                    let longest = [state.held_seconds, held_seconds].into_iter().flatten();
                    state.held_seconds = longest.reduce(f64::max);
                }
            }
            all
        });
        all.get(&channel).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumer_hangs_when_it_holds_messages_and_settles_none() {
        assert!(is_hung(Some(HUNG_MS), Some(HUNG_MS)));
        // Slow ones hold messages for as long, and settle one now and then.
        assert!(!is_hung(Some(10 * HUNG_MS), Some(HUNG_MS / 2)));
        assert!(!is_hung(Some(HUNG_MS / 2), Some(HUNG_MS)));
        assert!(!is_hung(Some(HUNG_MS), None));
        assert!(!is_hung(None, Some(HUNG_MS)), "it holds nothing");
    }
}
