//! The links of a connection on which its client consumes, and their credit.

use crate::requests::{CreditRequest, LinkHandle};
use amqp10::SerialNumber;
use session::{ChannelId, DELIVERY_BYTES, LinkId, Position};
use std::collections::{BTreeMap, VecDeque};

/// A message that came for a link without credit: a queue gives one to learn that there is no room.
#[derive(Debug)]
pub(crate) struct HeldDelivery {
    pub(crate) position: Position,
    pub(crate) settled_by_write: bool,
    /// The sections of the message.
    pub(crate) message: Vec<u8>,
}

/// The fate of a link's credit once its queue has given what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnceGiven {
    #[default]
    Nothing,
    /// The client is told the rest.
    Told,
    /// The rest is used up, and the client told so.
    Drained,
}

impl OnceGiven {
    /// The wish that a flow of the client's tells.
    pub(crate) const fn of(asked: &CreditRequest) -> Self {
        match (asked.drain, asked.echo) {
            (true, _) => Self::Drained,
            (false, true) => Self::Told,
            (false, false) => Self::Nothing,
        }
    }
}

/// A link on which the client consumes.
#[derive(Debug)]
pub(crate) struct ConsumerLink {
    pub(crate) key: LinkHandle,
    /// The deliveries made, and those that were drained.
    pub(crate) delivery_count: SerialNumber,
    /// The deliveries that may follow.
    pub(crate) credit: u32,
    /// The fate of the credit once the queue has given what it has.
    pub(crate) once_given: OnceGiven,
    /// Whether the link is noted as one to be resumed.
    pub(crate) is_paused: bool,
    /// Whether the link waits for its session's window.
    pub(crate) waits_for_window: bool,
    pub(crate) held: VecDeque<HeldDelivery>,
}

impl ConsumerLink {
    pub(crate) fn new(key: LinkHandle) -> Self {
        Self {
            key,
            delivery_count: SerialNumber::default(),
            credit: 0,
            once_given: OnceGiven::Nothing,
            is_paused: false,
            waits_for_window: false,
            held: VecDeque::new(),
        }
    }

    /// The bytes of room that stand for the credit: queues take as many from the room for any message, and
    /// more for most.
    pub(crate) fn credit_bytes(&self) -> usize {
        usize::try_from(self.credit).unwrap_or(usize::MAX).saturating_mul(DELIVERY_BYTES)
    }

    /// Takes the client's credit, counted from the deliveries that it has seen.
    pub(crate) fn set_credit(&mut self, seen: SerialNumber, credit: u32) {
        let n_on_their_way = self.delivery_count.since(seen);
        self.credit = credit.saturating_sub(n_on_their_way);
    }
}

/// The links on which the client consumes.
#[derive(Debug, Default)]
pub(crate) struct ConsumerLinks(BTreeMap<LinkId, ConsumerLink>);

impl ConsumerLinks {
    pub(crate) fn get(&self, link: LinkId) -> Option<&ConsumerLink> {
        self.0.get(&link)
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut ConsumerLink> {
        self.0.get_mut(&link)
    }

    pub(crate) fn add(&mut self, link: LinkId, consumer: ConsumerLink) {
        self.0.insert(link, consumer);
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<ConsumerLink> {
        self.0.remove(&link)
    }

    /// Removes the links of a session.
    pub(crate) fn forget_channel(&mut self, channel: ChannelId) {
        self.0.retain(|_, consumer| consumer.key.channel != channel);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Notes that no link waits for room any more.
    pub(crate) fn resume(&mut self) {
        self.0.values_mut().for_each(|consumer| consumer.is_paused = false);
    }

    pub(crate) fn waiting_for_windows(
        &mut self,
    ) -> impl Iterator<Item = (LinkId, &mut ConsumerLink)> {
        let all = self.0.iter_mut().map(|(link, consumer)| (*link, consumer));
        all.filter(|(_, consumer)| consumer.waits_for_window)
    }
}
