//! Rounds: of a deep backlog each of many consumers is given several messages in its turn, each as many. A
//! consumer that settles messages as fast as they come has longer turns, also of a shallow backlog.

use stdx::MonotonicMs;

/// Number of consumers from which on they are many: several messages for one cost little more than one.
pub(crate) const MANY_CONSUMERS: usize = 64;
/// Ready messages for each of many consumers that make a backlog deep.
const TURN_MIN: u64 = 8;
/// Maximum number of messages for a consumer in its turn, unless it settles fast.
const TURN_MAX: u64 = 64;
/// Maximum number of messages in its turn for a consumer that settles fast.
const QUICK_TURN_MAX: u64 = 128;
/// Milliseconds whose settlements make a long turn, at the pace that the consumer has shown since its last
/// one.
const PACE_MS: u64 = 100;
/// Milliseconds since the last turn after which the pace shown since is not known.
const SHOWN_MS_MAX: u64 = 200;

/// The last turn that a consumer had in a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    began_ms: MonotonicMs,
    /// Messages that it holds afterwards if it settles none.
    n_held: u64,
    /// Messages that it is still to be given: where they run out, the turn goes on with the next ones.
    n_left: u64,
}

impl Turn {
    /// Forgets what its consumer was given, which says nothing about its pace if it settles nothing.
    pub(crate) const fn forget_shown(&mut self) {
        self.n_held = 0;
    }

    /// Takes one message of the turn of a consumer that holds `n_held` and can be given `n_room` more. True
    /// if that was not its last.
    pub(crate) fn goes_on(&mut self, n_held: u64, n_room: u64, round: &Round) -> bool {
        let n_ms = round.now_ms.since(self.began_ms);
        if self.n_left == 0 || n_ms > SHOWN_MS_MAX {
            let n_settled = self.n_held.saturating_sub(n_held);
            // Twice as much as it has shown at most.
            let n_quick = match n_ms {
                0..=SHOWN_MS_MAX => n_settled * PACE_MS / n_ms.max(PACE_MS / 2),
                _ => 0,
            };
            let n_given = n_quick.min(QUICK_TURN_MAX).max(round.n_each).min(n_room);
            *self = Self { began_ms: round.now_ms, n_held: n_held + n_given, n_left: n_given };
        }
        self.n_left = self.n_left.saturating_sub(1);
        self.n_left > 0
    }
}

/// A round in which each of many consumers has one turn, as far as the messages go.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    n_messages: u64,
    /// Messages for each, but for those with longer turns.
    n_each: u64,
    now_ms: MonotonicMs,
}

impl Round {
    /// The round that is due; none if the consumers are few.
    pub(crate) fn due(n_consumers: usize, n_ready: u64, now_ms: MonotonicMs) -> Option<Self> {
        if n_consumers < MANY_CONSUMERS {
            return None;
        }
        let n_consumers = n_consumers as u64;
        let n_each = (n_ready / n_consumers).min(TURN_MAX);
        let (n_messages, n_each) =
            if n_each < TURN_MIN { (n_ready, 1) } else { (n_each * n_consumers, n_each) };
        Some(Self { n_messages, n_each, now_ms })
    }

    /// Messages in it.
    pub const fn n_messages(&self) -> u64 {
        self.n_messages
    }

    /// Whether a deeper backlog would not make it longer.
    pub const fn is_longest(&self) -> bool {
        self.n_each == TURN_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of a turn, all of which is given out.
    fn length(turn: &mut Turn, (n_held, n_room): (u64, u64), now_ms: MonotonicMs) -> u64 {
        let round = Round { n_messages: 1_000, n_each: 8, now_ms };
        1 + (1..).take_while(|_| turn.goes_on(n_held, n_room, &round)).count() as u64
    }

    #[test]
    fn a_turn_is_as_long_as_what_its_consumer_was_just_seen_to_settle_in_a_tenth_of_a_second() {
        let mut turn = Turn::default();
        let steps = [(1_000, 8), (1_010, 16), (1_060, 32), (1_160, 32), (1_360, 16), (1_561, 8)];
        for (now_ms, n) in steps {
            assert_eq!(length(&mut turn, (0, 1_000), MonotonicMs::from_raw(now_ms)), n, "{now_ms}");
        }
        assert_eq!(
            length(&mut turn, (8, 1_000), MonotonicMs::from_raw(1_562)),
            8,
            "it holds what it was given"
        );
        assert_eq!(
            length(&mut turn, (6, 1_000), MonotonicMs::from_raw(1_572)),
            20,
            "it has settled ten"
        );
        assert_eq!(length(&mut turn, (0, 10), MonotonicMs::from_raw(1_582)), 10, "its limit");
    }
}
