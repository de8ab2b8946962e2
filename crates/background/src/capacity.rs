//! Back-pressure: the parts of a node that publishers wait for, and who waits. Never what there is too
//! much of.

use log::Wal;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// A part of the node that may have more to do than it should, while publishers wait.
pub trait Capacity: Send + Sync {
    /// Whether those who publish may go on.
    fn has_capacity(&self) -> bool;

    /// True if there is capacity now; otherwise `waker` is woken when there is.
    #[must_use = "false means: wait to be woken"]
    fn poll_capacity(&self, waker: &Waker) -> bool;
}

impl Capacity for Wal {
    fn has_capacity(&self) -> bool {
        self.has_capacity()
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.poll_capacity(waker)
    }
}

/// Resolves when this part has capacity.
pub async fn capacity_of(part: &impl Capacity) {
    poll_fn(|context| match part.poll_capacity(context.waker()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

/// Those who wait for one part.
#[derive(Debug, Default)]
pub struct CapacityWaiters(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    wakers: Vec<Waker>,
    has_ended: bool,
}

impl CapacityWaiters {
    /// True if there is capacity now, or nobody is to wait any more; otherwise `waker` is woken by a
    /// [`tell`](Self::tell) that follows.
    #[must_use = "false means: wait to be woken"]
    pub fn poll(&self, waker: &Waker, has_capacity: impl FnOnce() -> bool) -> bool {
        let mut waiters = stdx::lock(&self.0);
        // Looked at under the lock: what gives capacity after this finds the waker when it tells.
        if waiters.has_ended || has_capacity() {
            return true;
        }
        stdx::add_waker(&mut waiters.wakers, waker);
        false
    }

    /// To be called after there may have come to be capacity, with whether there is some.
    pub fn tell(&self, has_capacity: bool) {
        if has_capacity {
            let wakers = std::mem::take(&mut stdx::lock(&self.0).wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Nobody is to wait any more.
    pub fn end(&self) {
        stdx::lock(&self.0).has_ended = true;
        self.tell(true);
    }
}
