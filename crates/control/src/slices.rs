//! Slices of work: work for one client may concern very many objects, so other tasks have their turn after
//! each slice. Slices know amounts of work, neither what the work is nor what time it is.

/// Steps of a slice, such as a consumer taken away, or a queue or binding deleted. No lock is held for more.
pub const SLICE: usize = 512;
/// Work of a slice, a millisecond or two, in units that each cost as much as a message put into a queue.
pub const WORK_MAX: usize = 16 * 1024;
/// The cost of a step, in units of work.
const WORK_PER_STEP: usize = WORK_MAX / SLICE;

/// A count of the work done since other tasks had their turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slices {
    work: usize,
}

impl Slices {
    /// Counts `work` units as done.
    #[inline]
    pub const fn note(&mut self, work: usize) {
        self.work = self.work.saturating_add(work);
    }

    /// Whether it is time for other tasks to have their turn.
    #[inline]
    pub const fn is_over(self) -> bool {
        self.work >= WORK_MAX
    }

    /// Counts `n_steps` steps as done; after a slice of them other tasks have their turn. The caller must
    /// hold no lock.
    pub async fn did(&mut self, n_steps: usize) {
        self.note(n_steps.saturating_mul(WORK_PER_STEP));
        if self.is_over() {
            self.give_way().await;
        }
    }

    /// Lets other tasks have their turn, and begins a new slice.
    pub async fn give_way(&mut self) {
        *self = Self::default();
        tokio::task::yield_now().await;
    }

    /// Drops a list of any length in slices.
    pub async fn drop_all<T>(&mut self, mut all: Vec<T>) {
        while all.len() > WORK_MAX {
            all.truncate(all.len() - WORK_MAX);
            self.give_way().await;
        }
    }
}
