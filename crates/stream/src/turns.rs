//! A subscription in its group: how it comes, what its client answers, how it goes.

use crate::membership::{GroupSeat, Seat, Seated, tell, wake};
use crate::subscription::Subscription;
use meta::ConnectionId;
use session::{Event, StreamEvent, StreamOffset, StreamRefusal, SubscriptionId};
use std::sync::Arc;
use std::task::Waker;

impl Subscription {
    /// Begins the subscription: `told` runs before its client is told anything. A single active consumer
    /// joins its group, and is given nothing until it is active.
    ///
    /// # Errors
    /// Its group takes no more, or consumes another partition; the stream is deleted.
    pub fn begin(self: &Arc<Self>, told: impl FnOnce()) -> Result<(), StreamRefusal> {
        let Some(Seat { group, .. }) = self.seat() else {
            told();
            self.resume();
            return Ok(());
        };
        let joined = self.join(group, told);
        joined.map(wake).inspect_err(|_| self.detach())
    }

    fn join(
        self: &Arc<Self>,
        group: &GroupSeat,
        told: impl FnOnce(),
    ) -> Result<Option<Waker>, StreamRefusal> {
        let asking = self.stream.memberships.asking();
        let me: Arc<dyn Seated> = Arc::<Self>::clone(self);
        let state = &mut *self.stream.memberships.lock();
        if state.has_ended {
            return Err(StreamRefusal::StreamDoesNotExist);
        }
        let joined = state.groups.join(&group.name, group.partition, self.key(), me, asking);
        let change = joined.map_err(|why| {
            let (stream, name) = (self.stream.def().resource(), &group.name);
            tracing::warn!("cannot add a consumer to group '{name}' of {stream}: {why}");
            StreamRefusal::PreconditionFailed
        })?;
        told();
        Ok(tell(change))
    }

    /// Takes the subscription out of its group.
    pub(crate) fn leave(&self) {
        if self.seat().is_some() {
            let (key, asking) = (self.key(), self.stream.memberships.asking());
            wake(self.stream.memberships.change(|groups| tell(groups.leave(key, asking))));
        }
    }

    /// Takes the client's answer to an update: an active subscription begins, where its client wishes. False
    /// if no such answer is awaited.
    pub fn updated(self: &Arc<Self>, update: u32, offset: Option<StreamOffset>) -> bool {
        let Some(seat) = self.seat() else { return false };
        let (key, number) = (self.key(), update >> u8::BITS);
        let memberships = &self.stream.memberships;
        let reader = match memberships.change(|groups| groups.asked(key, number)) {
            None => return false,
            Some(false) => None,
            // Before the lock is taken: the disk is read.
            Some(true) => self.open_reader(offset.unwrap_or(seat.offset), &seat.selection),
        };
        let asking = self.stream.memberships.asking();
        wake(memberships.change(|groups| {
            // The subscription may have lost its turn while the disk was read.
            self.set_reader(reader.filter(|_| groups.asked(key, number).is_some()));
            tell(groups.answered(key, number, asking))
        }));
        self.resume();
        true
    }
}

impl Seated for Subscription {
    fn connection(&self) -> ConnectionId {
        self.owner().0
    }

    fn subscription(&self) -> SubscriptionId {
        self.seat().map_or_else(SubscriptionId::default, |seat| seat.group.subscription)
    }

    fn tell_update(&self, number: u32, active: bool) -> Option<Waker> {
        if !active {
            self.set_reader(None);
        }
        let subscription = self.subscription();
        let update = number << u8::BITS | u32::from(subscription.0);
        self.tell(Event::Stream(StreamEvent::ConsumerUpdate { update, subscription, active }))
    }
}
