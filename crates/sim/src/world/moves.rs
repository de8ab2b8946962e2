//! Messages that an operator sends on from queue to queue: each is in one of them at least, and in one only
//! as long as no power is lost.

use super::World;
use super::ledger::{At, Routed};
use crate::harness::FIRST;
use broker::{Browser, Departed, Departure, Fate, LookFrom, LookedAt, QueueRef, Standing};
use message::{MessageRef, OwnedMessage};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use testing::outbox::Content;
use testing::run::fail;

/// A queue that is soon full; [`NOWHERE`] does not exist.
pub(super) const FULL: &str = "full";
const NOWHERE: &str = "nowhere";
const TOGETHER_MAX: usize = 12;

impl World {
    /// Some of the ready messages of a queue go elsewhere.
    pub(super) fn send_on(&mut self) {
        let queues = self.queues();
        let (Some(from), Some(to)) =
            (self.harness.random.choose(&queues), self.harness.random.choose(&queues))
        else {
            return;
        };
        let to = if self.harness.random.percent(20) { NOWHERE } else { to };
        let Some(queue) = self.harness.host(FIRST).queue(from) else { return };
        let departures = departures(&queue, to, self.harness.random.below(TOGETHER_MAX));
        let ids: Vec<u64> = departures.iter().filter_map(|it| id_of(&it.message)).collect();
        self.harness.note(format!("{from} sends {ids:?} on to {to}"));
        let sent = self.harness.send_on(FIRST, &queue, &departures);
        let fates = sent.as_ref().map_or(&[][..], |sent| &sent.fates);
        let arrived = |at: usize| fates.get(at).is_none_or(|fate| *fate == Fate::Arrived);
        let moved: Vec<u64> =
            (0..).zip(&ids).filter(|(at, _)| arrived(*at)).map(|(_, id)| *id).collect();
        if to != NOWHERE {
            moved.iter().for_each(|id| self.ledger.move_on(*id, to));
        }
        self.take_in();
        let Some(Departed { fates, n_left }) = sent.filter(|_| !self.is_over()) else { return };
        let n = moved.len();
        if (to == NOWHERE && n > 0) || (to != NOWHERE && to != FULL && n < ids.len()) {
            fail(format!("{to}: {fates:?}"));
        }
        if n_left != n as u64 {
            fail(format!("{n_left} of {n} left, and no consumer took any"));
        }
    }

    /// Checks that no message is in two queues that was not at the start.
    pub(super) fn check_single(&self) {
        let mut seen = BTreeSet::new();
        for queue in
            self.queues().into_iter().filter_map(|name| self.harness.host(FIRST).queue(name))
        {
            for departure in departures(&queue, "", usize::MAX) {
                let Some(id) = id_of(&departure.message) else { continue };
                if !seen.insert(id) && !self.ledger.life.doubled.contains(&id) {
                    fail(format!("m{id} is in two queues"));
                }
            }
        }
    }
}

impl super::Ledger {
    /// A message has gone to another queue, or perhaps.
    fn move_on(&mut self, id: u64, queue: &'static str) {
        let Some(sent) = self.sent.get_mut(&id) else { return };
        sent.to.insert(queue, Routed::default());
        (sent.is_moved, sent.is_in_order) = (true, false);
        if sent.answer == Some(true) {
            self.sure.insert(At::first(id, queue));
        }
    }
}

/// The first ready messages of a queue, where the disk does not fail meanwhile.
fn departures(queue: &QueueRef, to: &str, n_max: usize) -> Vec<Departure> {
    let mut departures = Vec::new();
    let mut see = |at: &LookedAt<'_>| {
        if departures.len() >= n_max {
            return ControlFlow::Break(());
        }
        if at.seen.standing == Standing::Ready {
            let key = to.as_bytes();
            let message = MessageRef { exchange: b"", routing_key: key, ..at.seen.message };
            let message = OwnedMessage::new(&message);
            departures.push(Departure { position: at.seen.position, message });
        }
        ControlFlow::Continue(())
    };
    let mut browser = Browser::new(queue, LookFrom::Position(0));
    while browser.step(&mut see).unwrap_or(false) {}
    departures
}

fn id_of(message: &OwnedMessage) -> Option<u64> {
    Content::of(&message.message()).id()
}
