//! The limit of the work of one message's selectors.

/// The most steps that all selectors together take for one message, wherever it comes by: some milliseconds
/// of work. A step is a part of a selector, a byte that a pattern is compared with, or [`PASSED_BYTES`] of
/// anything else.
const STEPS_MAX: usize = 2_000_000;
/// Bytes that are passed over in one step.
const PASSED_BYTES: usize = 16;
/// The cost of comparing the arguments of a binding with headers, in steps.
const STEPS_PER_BINDING: usize = 32;

/// The steps that the selectors of a message have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    n_left: usize,
    /// Steps of comparing bindings with the message, which are not limited.
    n_unlimited: usize,
    ran_out: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self::new(STEPS_MAX)
    }
}

impl Steps {
    /// Creates a budget of `n` steps.
    pub(crate) const fn new(n: usize) -> Self {
        Self { n_left: n, n_unlimited: 0, ran_out: false }
    }

    /// Takes `n` steps; `None` if fewer are left, after which none are left.
    pub(crate) const fn take(&mut self, n: usize) -> Option<()> {
        match self.n_left.checked_sub(n) {
            Some(n_left) => {
                self.n_left = n_left;
                Some(())
            }
            None => {
                (self.n_left, self.ran_out) = (0, true);
                None
            }
        }
    }

    /// Counts the steps of comparing `n_bindings` bindings with a message, whatever is left.
    pub(crate) const fn note_compared(&mut self, n_bindings: usize) {
        self.n_unlimited += n_bindings * STEPS_PER_BINDING;
    }

    /// Takes the steps for looking through `bytes` bytes.
    pub(crate) const fn pass_over(&mut self, bytes: usize) -> Option<()> {
        self.take(1 + bytes / PASSED_BYTES)
    }

    /// The number of steps that are left.
    pub(crate) const fn n_left(&self) -> usize {
        self.n_left
    }

    /// Whether more steps were needed than were left.
    pub(crate) const fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// The number of steps taken.
    pub(crate) const fn n_taken(&self) -> usize {
        STEPS_MAX - self.n_left + self.n_unlimited
    }
}
