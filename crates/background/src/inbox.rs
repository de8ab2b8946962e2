//! The skeleton of a background thread: an inbox of what it has to do, waiting for that with or without a
//! time limit, publishers that wait while it has too much, its failure, and its end. In simulations the same
//! inbox is worked off in steps, without a thread.

use segments::Poison;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// The things a background thread is asked to do.
pub trait Pending: Default + Send {
    /// Whether work that is asked for or under way may reduce the excess. If none can, publishers are not
    /// made to wait, since nothing would end it.
    fn may_give_capacity(&self) -> bool {
        true
    }
}

/// A thread's next thing to do.
#[derive(Debug)]
pub enum NextTask<T> {
    /// Work to be done.
    Do(T),
    /// A wait until something is added.
    Wait,
    /// A wait until something is added or this time has passed.
    WaitFor(Duration),
    /// The end: what the thread works for is gone.
    End,
}

/// The inbox of a background thread: what it is to do, behind one lock.
#[derive(Debug)]
pub struct Inbox<P> {
    state: Mutex<PendingWork<P>>,
    wanted: Condvar,
    /// The excess, in bytes: publishers wait while it is not below its limit.
    excess_bytes: AtomicU64,
    excess_bytes_max: u64,
    failure: Poison,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct PendingWork<P> {
    pending: P,
    /// Publishers that wait for capacity.
    waiting: Vec<Waker>,
    has_ended: bool,
}

impl<P: Pending> Inbox<P> {
    /// An empty inbox. Publishers wait while there is as much excess as `excess_bytes_max`; failures of its
    /// threads are noted in `failure`.
    #[must_use]
    pub fn new(excess_bytes_max: u64, failure: &Poison) -> Self {
        Self {
            state: Mutex::default(),
            wanted: Condvar::new(),
            excess_bytes: AtomicU64::new(0),
            excess_bytes_max,
            failure: failure.clone(),
            threads: Mutex::default(),
        }
    }

    /// Adds something to do, unless the inbox has ended, and wakes its thread.
    pub fn add(&self, act: impl FnOnce(&mut P)) {
        self.update(act);
        self.wanted.notify_one();
    }

    /// Adds something to do as [`Inbox::add`] does, and wakes the thread only if `act` says so.
    pub fn add_quietly(&self, act: impl FnOnce(&mut P) -> bool) {
        if self.update(act) == Some(true) {
            self.wanted.notify_one();
        }
    }

    /// Looks at what is to be done, or changes it; none if the inbox has ended. Nobody is woken.
    pub fn update<T>(&self, act: impl FnOnce(&mut P) -> T) -> Option<T> {
        let mut state = stdx::lock(&self.state);
        (!state.has_ended).then(|| act(&mut state.pending))
    }

    /// The thread's next thing to do, which `next` takes, once there is one; none when there will be nothing
    /// any more. `next` is also told whether the time has passed that it wanted to wait for.
    pub fn wait<T>(&self, mut next: impl FnMut(&mut P, bool) -> NextTask<T>) -> Option<T> {
        let mut state = stdx::lock(&self.state);
        let mut is_time_over = false;
        loop {
            if state.has_ended {
                return None;
            }
            state = match next(&mut state.pending, is_time_over) {
                NextTask::Do(task) => return Some(task),
                NextTask::End => return None,
                NextTask::Wait => {
                    is_time_over = false;
                    self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                NextTask::WaitFor(time) => {
                    let woken = self.wanted.wait_timeout(state, time);
                    let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                    is_time_over = timeout.timed_out();
                    state
                }
            };
        }
    }

    /// Takes the next thing to do as [`Inbox::wait`] does, for steps without a thread: none also if there is
    /// none now.
    pub fn step<T>(&self, next: impl FnOnce(&mut P) -> NextTask<T>) -> Option<T> {
        match self.update(next) {
            Some(NextTask::Do(task)) => Some(task),
            Some(NextTask::Wait | NextTask::WaitFor(_) | NextTask::End) | None => None,
        }
    }

    /// Starts a thread. When it panics that is a failure, and `end` is called so that nobody waits for it.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(
        &self,
        name: &'static str,
        end: impl Fn() + Send + 'static,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let failure = self.failure.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _guard = OnPanic(|| {
                failure.note(&format_args!("the thread {name} panicked"));
                end();
            });
            run();
        })?;
        stdx::lock(&self.threads).push(thread);
        Ok(())
    }

    /// Adds bytes to the excess, for which publishers may have to wait.
    pub fn add_excess(&self, bytes: u64) {
        self.excess_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes bytes off the excess. Publishers that wait are told by [`Inbox::tell_of_capacity`].
    pub fn remove_excess(&self, bytes: u64) {
        self.excess_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The excess, in bytes.
    pub fn excess_bytes(&self) -> u64 {
        self.excess_bytes.load(Ordering::Relaxed)
    }

    /// Whether publishers may go on.
    pub fn has_capacity(&self) -> bool {
        self.excess_bytes() < self.excess_bytes_max
            || self.has_capacity_in(&stdx::lock(&self.state))
    }

    fn has_capacity_in(&self, state: &PendingWork<P>) -> bool {
        let is_below = self.excess_bytes() < self.excess_bytes_max;
        is_below || state.has_ended || !state.pending.may_give_capacity()
    }

    /// True if there is capacity now; otherwise `waker` is woken when there is.
    #[must_use = "false means: wait to be woken"]
    pub fn poll_capacity(&self, waker: &Waker) -> bool {
        let mut state = stdx::lock(&self.state);
        // Looked at under the lock: what gives capacity after this finds the waker when it tells.
        let has_capacity = self.has_capacity_in(&state);
        if !has_capacity {
            stdx::add_waker(&mut state.waiting, waker);
        }
        has_capacity
    }

    /// Wakes the publishers that wait for capacity, if there is some.
    pub fn tell_of_capacity(&self) {
        let mut state = stdx::lock(&self.state);
        if self.has_capacity_in(&state) {
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Notes a failure, after which the log reports nothing durable, and ends the inbox.
    pub fn fail(&self, reason: &dyn ToString) -> P {
        self.failure.note(reason);
        self.end()
    }

    /// Whether the inbox has ended: nothing is done any more.
    pub fn has_ended(&self) -> bool {
        stdx::lock(&self.state).has_ended
    }

    /// Ends the inbox: nothing is done any more, and nobody waits. Returns what was still to be done.
    pub fn end(&self) -> P {
        let ended = PendingWork { pending: P::default(), waiting: Vec::new(), has_ended: true };
        let left = std::mem::replace(&mut *stdx::lock(&self.state), ended);
        self.wanted.notify_all();
        left.waiting.into_iter().for_each(Waker::wake);
        left.pending
    }

    /// Ends the inbox as [`Inbox::end`] does, and joins its threads, but for the one that calls: the last
    /// owner of the inbox may be dropped there.
    pub fn stop(&self) {
        drop(self.end());
        let threads = std::mem::take(&mut *stdx::lock(&self.threads));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a background thread panicked");
            }
        }
    }
}

struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    /// Numbers to be told.
    #[derive(Debug, Default)]
    struct Numbers(Vec<u32>);

    impl Pending for Numbers {
        fn may_give_capacity(&self) -> bool {
            !self.0.is_empty()
        }
    }

    impl Numbers {
        fn next(&mut self) -> NextTask<u32> {
            self.0.pop().map_or(NextTask::Wait, NextTask::Do)
        }
    }

    fn failure_of(inbox: &Inbox<Numbers>) -> Result<(), String> {
        inbox.failure.check(|reason| reason)
    }

    fn inbox() -> Arc<Inbox<Numbers>> {
        Arc::new(Inbox::new(10, &Poison::default()))
    }

    #[test]
    fn a_thread_does_what_is_added_until_it_is_stopped() {
        let inbox = inbox();
        let (told, numbers) = mpsc::channel();
        let (of_thread, to_end) = (Arc::clone(&inbox), Arc::clone(&inbox));
        let run = move || {
            while let Some(number) = of_thread.wait(|numbers, _| numbers.next()) {
                told.send(number).unwrap();
            }
        };
        inbox.spawn("numbers", move || drop(to_end.end()), run).unwrap();
        for number in [3, 4] {
            inbox.add(|pending| pending.0.push(number));
            assert_eq!(numbers.recv(), Ok(number));
        }
        inbox.stop();
        assert!(numbers.recv().is_err(), "its thread has ended");
        inbox.add(|pending| pending.0.push(5));
        assert!(inbox.has_ended() && inbox.end().0.is_empty(), "nothing is taken any more");
    }

    #[test]
    #[expect(clippy::panic, reason = "that is what is looked at")]
    fn a_panic_is_a_failure_and_ends_what_others_wait_for() {
        let inbox = inbox();
        assert!(failure_of(&inbox).is_ok());
        let (told, ended) = mpsc::channel();
        let end = move || told.send(()).unwrap();
        inbox.spawn("some-thread", end, || panic!("on purpose")).unwrap();
        ended.recv().unwrap();
        inbox.stop();
        let error = failure_of(&inbox).unwrap_err();
        assert!(error.contains("the thread some-thread panicked"), "{error}");
        inbox.fail(&"a later one");
        assert_eq!(failure_of(&inbox).unwrap_err(), error);
    }

    #[test]
    fn steps_do_the_same_without_a_thread() {
        let inbox = inbox();
        assert_eq!(inbox.step(Numbers::next), None);
        inbox.add(|pending| pending.0.push(3));
        assert_eq!(inbox.step(Numbers::next), Some(3));
        inbox.add(|pending| pending.0.push(4));
        assert_eq!(inbox.end().0, [4]);
        assert_eq!(inbox.step(Numbers::next), None);
    }

    #[test]
    fn time_that_passes_is_no_work_by_itself() {
        let inbox = inbox();
        let mut n_looks = 0;
        let done = inbox.wait(|_, is_time_over| {
            n_looks += 1;
            if n_looks < 3 {
                NextTask::WaitFor(Duration::from_millis(1))
            } else {
                NextTask::Do(is_time_over)
            }
        });
        assert_eq!((done, n_looks), (Some(true), 3));
        assert_eq!(inbox.wait(|_, _| NextTask::<u32>::End), None);
    }

    #[test]
    fn publishers_wait_for_an_excess_only_while_something_may_make_it_less() {
        let inbox = inbox();
        inbox.add_excess(10);
        assert!(inbox.has_capacity(), "nothing could make it less");
        inbox.add(|pending| pending.0.push(1));
        assert!(!inbox.has_capacity() && !inbox.poll_capacity(Waker::noop()));
        inbox.remove_excess(1);
        assert!(inbox.has_capacity() && inbox.poll_capacity(Waker::noop()));
        inbox.add_excess(1);
        inbox.fail(&"no disk");
        assert!(inbox.has_capacity() && inbox.poll_capacity(Waker::noop()), "nobody waits");
        assert!(failure_of(&inbox).is_err());
    }
}
