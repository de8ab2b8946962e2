//! Watchers of the next commit, callers that wait for room, and whether the commit thread must be woken.

use std::sync::Arc;
use std::task::Waker;

use super::CommitListener;

/// Why the commit thread should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// The commit thread should run within the lazy time.
    Lazy,
    Now,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// The commit thread runs: it looks at the state before it sleeps.
    Awake,
    /// The commit thread sleeps and looks at the lazy work when the time is over.
    Lingering,
    /// The commit thread sleeps until woken.
    Asleep,
}

pub(super) struct Waiters {
    sinks: Vec<Arc<dyn CommitListener>>,
    room_wakers: Vec<Waker>,
    thread: Thread,
    /// Whether somebody watches since the last commit began.
    newly_watched: bool,
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self {
            sinks: Vec::new(),
            room_wakers: Vec::new(),
            thread: Thread::Awake,
            newly_watched: false,
        }
    }

    pub(super) fn watch(&mut self, sink: Arc<dyn CommitListener>) {
        self.sinks.push(sink);
        self.newly_watched = true;
    }

    /// The next commit is wanted, though nobody asks to be told of it.
    pub(super) const fn watch_once(&mut self) {
        self.newly_watched = true;
    }

    pub(super) fn wait_for_room(&mut self, waker: &Waker) {
        stdx::add_waker(&mut self.room_wakers, waker);
    }

    /// Whether somebody waits for the next commit, which has entries or not.
    pub(super) fn want_commit(&self, has_entries: bool) -> bool {
        let any = !self.sinks.is_empty() || !self.room_wakers.is_empty();
        self.newly_watched || (has_entries && any)
    }

    /// Whether the commit thread sleeps though it is needed so much.
    pub(super) fn oversleeps(&self, need: impl FnOnce() -> Need) -> bool {
        match self.thread {
            Thread::Awake => false,
            Thread::Lingering => matches!(need(), Need::Now | Need::Close),
            Thread::Asleep => need() != Need::Nothing,
        }
    }

    pub(super) const fn sleep(&mut self, lingering: bool) {
        self.thread = if lingering { Thread::Lingering } else { Thread::Asleep };
    }

    pub(super) const fn wake_up(&mut self) {
        self.thread = Thread::Awake;
    }

    /// Takes everybody who is to be told of the commit that begins now.
    pub(super) fn take_sinks(&mut self, sinks: &mut Vec<Arc<dyn CommitListener>>) {
        std::mem::swap(&mut self.sinks, sinks);
        self.newly_watched = false;
    }

    /// Keeps those who want to hear of the next commit too.
    pub(super) fn put_back(&mut self, sinks: &mut Vec<Arc<dyn CommitListener>>) {
        self.sinks.append(sinks);
    }

    pub(super) fn take_room_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.room_wakers)
    }
}
