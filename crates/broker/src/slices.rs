//! What one client asks for may concern very many things: that work is done in slices, and after
//! each others have their turn. Knows a number of steps. Never what they are, or what time it is.

/// Steps of a slice: consumers taken away, queues or bindings deleted. One lock is held for no more.
pub(crate) const SLICE: usize = 512;

/// Counts steps.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    n_steps: usize,
}

impl Slices {
    /// So many steps were done: after a slice of them other tasks have their turn. No lock may be
    /// held here.
    pub(crate) async fn did(&mut self, n_steps: usize) {
        self.n_steps += n_steps;
        if self.n_steps >= SLICE {
            self.n_steps = 0;
            tokio::task::yield_now().await;
        }
    }
}
