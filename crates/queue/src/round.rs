//! Rounds: of a deep backlog each of many consumers is given several messages in its turn, each as many.

use crate::key::ConsumerKey;

/// Consumers that are many: several messages for one cost little more than one.
pub(crate) const MANY_CONSUMERS: usize = 64;
/// Ready messages for each of many consumers that make a backlog deep, ...
const TURN_MIN: u64 = 8;
/// ... and the most that one is given in its turn.
const TURN_MAX: u64 = 64;

/// A round in which each of many consumers has one turn.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    n_consumers: u64,
    n_each: u64,
    /// Whose turn it is, and the messages left of it.
    turn: Option<(ConsumerKey, u64)>,
}

impl Round {
    /// The round that is due; none if the consumers are few or the backlog is shallow.
    pub(crate) fn due(n_consumers: usize, n_ready: u64) -> Option<Self> {
        if n_consumers < MANY_CONSUMERS {
            return None;
        }
        let n_consumers = n_consumers as u64;
        let n_each = (n_ready / n_consumers).min(TURN_MAX);
        (n_each >= TURN_MIN).then_some(Self { n_consumers, n_each, turn: None })
    }

    /// Messages in it: as many for each consumer.
    #[must_use]
    pub const fn n_messages(&self) -> u64 {
        self.n_each * self.n_consumers
    }

    /// Whether a deeper backlog would not make it longer.
    #[must_use]
    pub const fn is_longest(&self) -> bool {
        self.n_each == TURN_MAX
    }

    /// Takes one message of a consumer's turn. True if that was not its last.
    pub(crate) fn goes_on(&mut self, consumer: ConsumerKey) -> bool {
        let turn = self.turn.filter(|(key, _)| *key == consumer);
        let n_left = turn.map_or(self.n_each, |(_, n_left)| n_left) - 1;
        self.turn = (n_left > 0).then_some((consumer, n_left));
        n_left > 0
    }
}
