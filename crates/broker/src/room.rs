//! Publishers that wait until there is less of something. Knows who waits; must never know what for.

use std::sync::Mutex;
use std::task::Waker;

/// Those who wait for room.
#[derive(Debug, Default)]
pub(crate) struct RoomWaiters(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    wakers: Vec<Waker>,
    has_ended: bool,
}

impl RoomWaiters {
    /// True if there is room now, or nobody is to wait any more; otherwise `waker` is woken by a
    /// [`tell`](Self::tell) that follows.
    #[must_use = "false means: wait to be woken"]
    pub(crate) fn on_room(&self, waker: &Waker, has_room: impl FnOnce() -> bool) -> bool {
        let mut waiters = stdx::lock(&self.0);
        // Looked at under the lock: what makes room after this finds the waker when it tells.
        if waiters.has_ended || has_room() {
            return true;
        }
        stdx::add_waker(&mut waiters.wakers, waker);
        false
    }

    /// To be called after there may have come to be room, with whether there is some.
    pub(crate) fn tell(&self, has_room: bool) {
        if has_room {
            let wakers = std::mem::take(&mut stdx::lock(&self.0).wakers);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Nobody is to wait any more.
    pub(crate) fn end(&self) {
        stdx::lock(&self.0).has_ended = true;
        self.tell(true);
    }
}
