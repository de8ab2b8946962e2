//! The groups of a stream with their consumers, and how these are told. Never what they read.
//!
//! Lock order: the groups', then a subscription's state, then an outbox's.

use crate::groups::{Asking, Change, GroupRole, GroupView, Groups, NoSuchGroup};
use crate::services::StreamServices;
use meta::ConnectionId;
use session::{ChunkSelection, StreamOffset, SubscriptionId};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use stdx::MonotonicMs;

/// Milliseconds that a client has for answering an update. COMPAT: RabbitMQ's `request_timeout`.
const ANSWER_TIMEOUT_MS: u64 = 60_000;

/// A subscription's place in its group, and how it begins once it is active.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) group: GroupSeat,
    /// The offset at which it begins, if its client has no other wish.
    pub(crate) offset: StreamOffset,
    pub(crate) selection: ChunkSelection,
}

/// The group that a subscription is to be in: one of those of its name is given messages.
#[derive(Clone, Debug)]
pub struct GroupSeat {
    /// The group's name.
    pub name: String,
    /// The place of the stream in the super stream that it is consumed as a part of.
    pub partition: Option<u64>,
    /// The number by which the client knows the subscription.
    pub subscription: SubscriptionId,
}

/// A consumer of a group in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConsumerView {
    /// Its connection.
    pub connection: ConnectionId,
    /// The number of its subscription there.
    pub subscription: SubscriptionId,
    /// The state of the consumer in its group.
    pub role: GroupRole,
}

/// A consumer that may be in a group.
pub(crate) trait Seated: Debug + Send + Sync {
    /// Its connection.
    fn connection(&self) -> ConnectionId;

    /// The number of its subscription there.
    fn subscription(&self) -> SubscriptionId;

    /// Tells its client the update of that number; a consumer that is not active reads nothing any more.
    fn tell_update(&self, number: u32, active: bool) -> Option<Waker>;
}

type SeatedRef = Arc<dyn Seated>;

/// The groups of a stream's single active consumers.
#[derive(Debug)]
pub struct Memberships {
    services: Arc<StreamServices>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) groups: Groups<SeatedRef>,
    pub(crate) has_ended: bool,
}

/// The subscription that was told an update of this number, which its lowest byte says.
#[must_use]
pub const fn updated_subscription(update: u32) -> SubscriptionId {
    let [.., subscription] = update.to_be_bytes();
    SubscriptionId(subscription)
}

impl Memberships {
    pub(crate) fn new(services: &Arc<StreamServices>) -> Self {
        Self { services: Arc::clone(services), state: Mutex::default() }
    }

    /// Ends all groups, with their stream.
    pub(crate) fn end(&self) {
        let state = &mut *self.lock();
        state.has_ended = true;
        state.groups.clear();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        stdx::lock(&self.state)
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Groups<SeatedRef>) -> R) -> R {
        change(&mut self.lock().groups)
    }

    /// The groups, by name.
    #[must_use]
    pub fn list(&self) -> Vec<GroupView> {
        self.change(|groups| groups.list().collect())
    }

    /// The consumers of a group, in the order in which they came.
    ///
    /// # Errors
    /// No group has that name.
    pub fn consumers(&self, group: &str) -> Result<Vec<GroupConsumerView>, NoSuchGroup> {
        let view = |(consumer, role): (&SeatedRef, GroupRole)| {
            let (connection, subscription) = (consumer.connection(), consumer.subscription());
            GroupConsumerView { connection, subscription, role }
        };
        self.change(|groups| Ok(groups.consumers(group)?.map(view).collect()))
    }

    /// Chooses the active consumer of a group again, without waiting for one that steps down. For operators.
    ///
    /// # Errors
    /// No group has that name.
    pub fn activate(&self, group: &str) -> Result<(), NoSuchGroup> {
        let asking = self.asking();
        self.change(|groups| groups.activate(group, asking).map(tell)).map(wake)
    }

    /// Connections whose clients have not answered an update in the time that they have.
    #[must_use]
    pub fn silent(&self, now_ms: MonotonicMs) -> Vec<ConnectionId> {
        self.change(|groups| {
            let silent = groups.overdue(now_ms, ANSWER_TIMEOUT_MS);
            silent.map(|consumer| consumer.connection()).collect()
        })
    }

    pub(crate) fn asking(&self) -> Asking {
        let now_ms = self.services.time.monotonic_ms();
        Asking { update: self.services.next_update(), now_ms }
    }
}

/// Tells the consumer that a change concerns; returns the waker of its connection's task.
pub(crate) fn tell(change: Option<Change<SeatedRef>>) -> Option<Waker> {
    let Change { consumer, update, active } = change?;
    consumer.tell_update(update, active)
}

pub(crate) fn wake(waker: Option<Waker>) {
    waker.into_iter().for_each(Waker::wake);
}
