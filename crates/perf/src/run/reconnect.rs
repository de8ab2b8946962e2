//! Makes lost connections again, one after the other, on a thread of its own: threads that drive
//! connections never wait for one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::clock;
use crate::message::Random;
use crate::setup::{Part, Recipe};
use crate::shared::{Broken, News, Reconnected, Shared};

/// Interval at which the thread looks whether the run is over.
const POLL: Duration = Duration::from_millis(50);

/// The thread that makes lost connections again.
pub(super) struct Reconnector<'a> {
    pub(super) recipe: &'a Recipe<'a>,
    /// The parts of each thread.
    pub(super) parts: &'a [Vec<Part>],
    pub(super) shared: &'a Shared,
    pub(super) news: Sender<News>,
    /// The least and the longest wait before each attempt, nanoseconds.
    pub(super) interval_ns: (u64, u64),
    pub(super) random: Random,
}

impl Reconnector<'_> {
    /// Works until the run is over.
    pub(super) fn run(mut self, broken: &Receiver<Broken>) {
        let mut waiting: BinaryHeap<Reverse<(u64, Broken)>> = BinaryHeap::new();
        while !self.shared.is_stopping() {
            match broken.recv_timeout(POLL) {
                Ok(broken) => waiting.push(Reverse((self.next_attempt(), broken))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = clock::now();
            let is_due = |next: Option<&Reverse<(u64, Broken)>>| next.is_some_and(|n| n.0.0 <= now);
            while is_due(waiting.peek())
                && let Some(Reverse((_, broken))) = waiting.pop()
                && !self.shared.is_stopping()
            {
                if let Err(error) = self.hand_back(broken) {
                    // Nobody listens any more when the run has failed elsewhere.
                    drop(self.news.send(News::NotRecovered(error)));
                    waiting.push(Reverse((self.next_attempt(), broken)));
                }
            }
        }
    }

    fn hand_back(&self, broken: Broken) -> anyhow::Result<()> {
        let part = self.parts.get(broken.worker).and_then(|parts| parts.get(broken.at));
        let Some(&part) = part else { return Ok(()) };
        let (client, names) = self.recipe.reconnect(part)?;
        self.shared.hand_back(broken, Reconnected { at: broken.at, client, names });
        Ok(())
    }

    fn next_attempt(&mut self) -> u64 {
        let (least, most) = self.interval_ns;
        let spread = self.random.next().checked_rem(most - least).unwrap_or(0);
        clock::now() + least + spread
    }
}
