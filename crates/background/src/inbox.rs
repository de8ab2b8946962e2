//! The skeleton of a background thread: an inbox of what it has to do, waiting for that with or without a
//! time limit, publishers that wait while it has too much, its failure, and its end. In simulations the same
//! inbox is worked off in steps, without a thread.

use crate::capacity::{Capacity, CapacityWaiters};
use crate::thread::{self, Poison};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

/// The things a background thread is asked to do.
pub trait Pending: Default + Send {
    /// Whether something is asked for or under way that may make an excess less: nobody waits for capacity
    /// otherwise, since nothing could give any.
    fn may_give_capacity(&self) -> bool {
        true
    }
}

/// A thread's next thing to do.
#[derive(Debug)]
pub enum Next<T> {
    /// This.
    Do(T),
    /// Nothing until something is added.
    Wait,
    /// Nothing until something is added or so much time has passed.
    WaitFor(Duration),
    /// Nothing any more: what the thread works for is gone.
    End,
}

/// The inbox of a background thread: what it is to do, behind one lock.
#[derive(Debug)]
pub struct Inbox<P> {
    state: Mutex<State<P>>,
    wanted: Condvar,
    /// The excess, in bytes: publishers wait while it is not below its limit.
    excess_bytes: AtomicU64,
    excess_bytes_max: u64,
    waiters: CapacityWaiters,
    failure: Poison,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State<P> {
    pending: P,
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
            waiters: CapacityWaiters::default(),
            failure: failure.clone(),
            threads: Mutex::default(),
        }
    }

    /// Adds something to do, unless the inbox has ended, and wakes its thread.
    pub fn add(&self, act: impl FnOnce(&mut P)) {
        self.update(act);
        self.wanted.notify_one();
    }

    /// As [`Inbox::add`], and wakes the thread only if `act` says so.
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
    pub fn wait<T>(&self, mut next: impl FnMut(&mut P, bool) -> Next<T>) -> Option<T> {
        let mut state = stdx::lock(&self.state);
        let mut is_time_over = false;
        loop {
            if state.has_ended {
                return None;
            }
            state = match next(&mut state.pending, is_time_over) {
                Next::Do(task) => return Some(task),
                Next::End => return None,
                Next::Wait => {
                    is_time_over = false;
                    self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Next::WaitFor(time) => {
                    let woken = self.wanted.wait_timeout(state, time);
                    let (state, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                    is_time_over = timeout.timed_out();
                    state
                }
            };
        }
    }

    /// As [`Inbox::wait`], for steps without a thread: none also if there is nothing to do now.
    pub fn step<T>(&self, next: impl FnOnce(&mut P) -> Next<T>) -> Option<T> {
        match self.update(next) {
            Some(Next::Do(task)) => Some(task),
            Some(Next::Wait | Next::WaitFor(_) | Next::End) | None => None,
        }
    }

    /// Starts a thread. When it panics that is a failure, and `end` is called.
    ///
    /// # Errors
    /// The system's.
    pub fn spawn(
        &self,
        name: &'static str,
        end: impl Fn() + Send + 'static,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let thread = thread::spawn(name, self.failure.clone(), end, run)?;
        stdx::lock(&self.threads).push(thread);
        Ok(())
    }

    /// There is so much more excess, for which publishers may have to wait.
    pub fn add_excess(&self, bytes: u64) {
        self.excess_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// There is so much less excess. Those who wait are told by [`Inbox::tell_of_capacity`].
    pub fn remove_excess(&self, bytes: u64) {
        self.excess_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The excess, in bytes.
    pub fn excess_bytes(&self) -> u64 {
        self.excess_bytes.load(Ordering::Relaxed)
    }

    /// Wakes who waits for capacity, if there is some.
    pub fn tell_of_capacity(&self) {
        self.waiters.tell(self.has_capacity());
    }

    /// Nothing is reported durable from now on, and nothing done any more.
    pub fn fail(&self, reason: &dyn ToString) -> P {
        self.failure.note(reason);
        self.end()
    }

    /// Whether nothing is done any more.
    pub fn has_ended(&self) -> bool {
        stdx::lock(&self.state).has_ended
    }

    /// Nothing is done any more, and nobody waits. Returns what was still to be done.
    pub fn end(&self) -> P {
        let ended = State { pending: P::default(), has_ended: true };
        let left = std::mem::replace(&mut *stdx::lock(&self.state), ended);
        self.wanted.notify_all();
        self.waiters.end();
        left.pending
    }

    /// As [`Inbox::end`], and waits for its threads.
    pub fn stop(&self) {
        drop(self.end());
        let threads = std::mem::take(&mut *stdx::lock(&self.threads));
        threads.into_iter().for_each(thread::join);
    }
}

impl<P: Pending> Capacity for Inbox<P> {
    fn has_capacity(&self) -> bool {
        self.excess_bytes() < self.excess_bytes_max
            || self.update(|pending| !pending.may_give_capacity()).unwrap_or(true)
    }

    fn poll_capacity(&self, waker: &Waker) -> bool {
        self.waiters.poll(waker, || self.has_capacity())
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
        fn next(&mut self) -> Next<u32> {
            self.0.pop().map_or(Next::Wait, Next::Do)
        }
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
                Next::WaitFor(Duration::from_millis(1))
            } else {
                Next::Do(is_time_over)
            }
        });
        assert_eq!((done, n_looks), (Some(true), 3));
        assert_eq!(inbox.wait(|_, _| Next::<u32>::End), None);
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
        assert!(inbox.failure.check().is_err());
    }
}
