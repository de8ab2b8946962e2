//! The outbox of a client that writes down what it is told, and knows as a front does what the client
//! has not settled.

use session::{ChannelId, Confirmation, Delivery, Event, LinkId, Outbox, Position, Room, Sink};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::task::Waker;

/// A message as it is given to a client.
pub(crate) struct Given {
    pub(crate) link: LinkId,
    pub(crate) position: Position,
    /// Its number.
    pub(crate) id: u64,
    /// It is a dead letter.
    pub(crate) is_letter: bool,
    /// It is settled by being written.
    pub(crate) by_write: bool,
}

/// Everything a client was told since it was last asked.
#[derive(Default)]
pub(crate) struct Heard {
    /// By channel: the publishes from one number to another, and whether they are confirmed.
    pub(crate) answers: Vec<(ChannelId, u64, u64, bool)>,
    pub(crate) given: Vec<Given>,
    pub(crate) failed: Vec<ChannelId>,
    /// The link of the consumer it asked for.
    pub(crate) consuming: Option<LinkId>,
}

#[derive(Default)]
struct State {
    heard: Heard,
    /// Links on which nothing is settled by the client.
    no_ack: BTreeSet<LinkId>,
    /// Deliveries the client has not settled, or only in a transaction that goes on.
    unsettled: BTreeMap<LinkId, Vec<Position>>,
    /// Deliveries it has asked to be given back.
    recovering: BTreeMap<LinkId, Vec<Position>>,
}

#[derive(Default)]
pub(crate) struct RecordingOutbox(Mutex<State>);

impl RecordingOutbox {
    pub(crate) fn take(&self) -> Heard {
        std::mem::take(&mut self.0.lock().unwrap().heard)
    }

    /// The client has settled this for good.
    pub(crate) fn forget(&self, link: LinkId, position: Position) {
        let mut state = self.0.lock().unwrap();
        if let Some(of_link) = state.unsettled.get_mut(&link) {
            of_link.retain(|known| *known != position);
        }
    }

    /// The client asks for these to be given back.
    pub(crate) fn recover(&self, held: &[(LinkId, Position)]) {
        for (link, position) in held {
            self.forget(*link, *position);
            let recovering = &mut self.0.lock().unwrap().recovering;
            recovering.entry(*link).or_default().push(*position);
        }
    }

    /// That is done.
    pub(crate) fn end_recovering(&self) {
        self.0.lock().unwrap().recovering.clear();
    }
}

impl Outbox for RecordingOutbox {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        fill(&mut *self.0.lock().unwrap());
        None
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let mut state = self.0.lock().unwrap();
        let mut found = Vec::new();
        for link in links {
            let recovering = state.recovering.remove(link).unwrap_or_default();
            let given = state.unsettled.get(link).into_iter().flatten().copied();
            found.extend(recovering.into_iter().chain(given).map(|position| (*link, position)));
        }
        found
    }
}

impl State {
    fn give(&mut self, link: LinkId, delivery: &Delivery<'_>, no_ack: bool) {
        if !no_ack {
            self.unsettled.entry(link).or_default().push(delivery.position);
        }
        let body = delivery.message.body.bytes();
        let id = body.split(|byte| *byte == b'|').next().unwrap();
        self.heard.given.push(Given {
            link,
            position: delivery.position,
            id: std::str::from_utf8(id).unwrap().parse().unwrap(),
            is_letter: delivery.message.properties != [0, 0],
            by_write: delivery.settled_by_write,
        });
    }
}

impl Sink for State {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        let no_ack = self.no_ack.contains(&link);
        self.give(link, &delivery, no_ack);
        Room::Bytes(self.room_bytes())
    }

    fn room_bytes(&self) -> usize {
        1 << 20
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Attached { link, no_ack, .. } => {
                self.heard.consuming = Some(link);
                if no_ack {
                    self.no_ack.insert(link);
                }
            }
            Event::Got { link, delivery, no_ack, .. } => self.give(link, &delivery, no_ack),
            Event::ChannelFailed { channel, .. } => self.heard.failed.push(channel),
            Event::ConnectionFailed { error, .. } => panic!("a client is thrown out: {error}"),
            Event::ChannelOpened(_)
            | Event::ChannelClosed(_)
            | Event::ConnectionClosed
            | Event::Blocked { .. }
            | Event::Unblocked
            | Event::Done { .. }
            | Event::QueueDeclared { .. }
            | Event::QueuePurged { .. }
            | Event::QueueDeleted { .. }
            | Event::Detached { .. }
            | Event::ConsumerCancelled { .. }
            | Event::GetEmpty(_)
            | Event::Returned { .. } => {}
        }
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation) {
        self.heard.answers.push((channel, first, last, answer == Confirmation::Ack));
    }
}
