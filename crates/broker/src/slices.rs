//! Work for one client may concern very many things: it is done in slices, and after
//! each others have their turn. Knows amounts of work. Never what the work is, or what time it is.

/// Steps of a slice: consumers taken away, queues or bindings deleted. One lock is held for no more.
pub(crate) const SLICE: usize = 512;
/// Work of a slice, a millisecond or two: messages put into queues or taken out, or as much as they.
pub(crate) const WORK_MAX: usize = 16 * 1024;
/// The cost of a step.
const WORK_PER_STEP: usize = WORK_MAX / SLICE;

/// Counts work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slices {
    work: usize,
}

impl Slices {
    /// So much was done.
    #[inline]
    pub(crate) const fn note(&mut self, work: usize) {
        self.work = self.work.saturating_add(work);
    }

    /// Whether it is time to let others go on.
    #[inline]
    pub(crate) const fn is_over(self) -> bool {
        self.work >= WORK_MAX
    }

    /// So many steps were done: after a slice of them other tasks have their turn. No lock may be
    /// held here.
    pub(crate) async fn did(&mut self, n_steps: usize) {
        self.note(n_steps.saturating_mul(WORK_PER_STEP));
        if self.is_over() {
            self.give_way().await;
        }
    }

    /// Lets others go on.
    pub(crate) async fn give_way(&mut self) {
        *self = Self::default();
        tokio::task::yield_now().await;
    }

    /// Drops what may be very many.
    pub(crate) async fn drop_all<T>(&mut self, mut all: Vec<T>) {
        while all.len() > WORK_MAX {
            all.truncate(all.len() - WORK_MAX);
            self.give_way().await;
        }
    }
}
