//! A consumer's filter of messages, and the turns in which it looks at them: nobody waits long for a consumer
//! whose filter lets little pass. Never offsets, credit or outboxes.

use routing::SectionsFilter;
use stdx::UnixMs;

/// The most steps of a turn, about a millisecond of work, before the last message of it.
const TURN_STEPS: usize = 100_000;
/// The steps of reading a message, beside those of its filter.
const MESSAGE_STEPS: usize = 8;
/// Bytes of a message that are read in one step.
const BYTES_PER_STEP: usize = 64;

/// A filter over the sections of messages.
#[derive(Debug)]
pub(crate) struct MessageFilter {
    sections: SectionsFilter,
    now: UnixMs,
    /// The steps of this turn.
    n_steps: usize,
    /// Whether the consumer is to be resumed for another turn.
    is_paused: bool,
    /// The messages that the filter has passed over since [`MessageFilter::take_passed_over`].
    n_passed_over: u64,
}

impl MessageFilter {
    pub(crate) const fn new(sections: SectionsFilter, now: UnixMs) -> Self {
        Self { sections, now, n_steps: 0, is_paused: false, n_passed_over: 0 }
    }

    /// Begins another turn.
    pub(crate) const fn begin_turn(&mut self, now: UnixMs) {
        (self.now, self.n_steps, self.is_paused) = (now, 0, false);
    }

    /// Notes that the consumer is to be resumed for another turn; true if that is new.
    pub(crate) const fn begins_to_pause(&mut self) -> bool {
        !std::mem::replace(&mut self.is_paused, true)
    }

    /// Whether others have their turn before anything else is looked at.
    pub(crate) const fn is_turn_over(&self) -> bool {
        self.n_steps >= TURN_STEPS
    }

    /// The steps of this turn.
    pub(crate) const fn n_steps(&self) -> usize {
        self.n_steps
    }

    /// Whether a message passes.
    pub(crate) fn passes(&mut self, message: &[u8]) -> bool {
        self.n_steps += MESSAGE_STEPS + message.len() / BYTES_PER_STEP;
        let passes = self.sections.check(message, self.now, &mut self.n_steps);
        self.n_passed_over += u64::from(!passes);
        passes
    }

    /// Takes the number of messages that were passed over.
    pub(crate) const fn take_passed_over(&mut self) -> u64 {
        std::mem::replace(&mut self.n_passed_over, 0)
    }
}
