//! A timer whose descriptor becomes readable in an epoll.
//!
//! A wait with a timeout of its own sets the processor's timer and takes it back each time, which takes
//! longer than an answer of a fast broker where the processor is a virtual one. This timer is set seldom.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::{MILLISECOND, SECOND};

/// Waits shorter than this are left to the epoll's own timeout: setting the timer costs a system call.
const SOON_NS: u64 = 10 * MILLISECOND;

/// The timer.
#[derive(Debug)]
pub(crate) struct TimerFd {
    descriptor: OwnedFd,
    /// The time at which the timer expires, on the clock that never goes back.
    expires_at: u64,
}

impl TimerFd {
    /// A timer that is not set.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { descriptor, expires_at: u64::MAX })
    }

    /// The descriptor, readable once the timer expires.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Sets the timer to expire at `until` or before; false when that is so soon that the caller had better
    /// wait for so long itself.
    pub(crate) fn covers(&mut self, now: u64, until: u64) -> anyhow::Result<bool> {
        if now < self.expires_at && self.expires_at <= until {
            return Ok(true);
        }
        if until < now.saturating_add(SOON_NS) {
            return Ok(false);
        }
        // An expired timer is unreadable again once it is set.
        self.expires_at = until;
        let it_value = Timespec {
            tv_sec: i64::try_from(until / SECOND)?,
            tv_nsec: i64::try_from(until % SECOND)?,
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::{SOON_NS, TimerFd};
    use crate::clock;

    fn expires(timer: &TimerFd) {
        let mut timer = [PollFd::new(timer, PollFlags::IN)];
        assert_eq!(poll(&mut timer, None), Ok(1));
    }

    impl std::os::fd::AsFd for TimerFd {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.descriptor()
        }
    }

    #[test]
    fn rings_in_time_again_and_again() {
        let mut timer = TimerFd::new().unwrap();
        for _ in 0..3 {
            let now = clock::now();
            let until = now + SOON_NS;
            assert!(timer.covers(now, until).unwrap());
            assert!(timer.covers(now, until + 1).unwrap(), "it rings before");
            expires(&timer);
            assert!(clock::now() >= until);
        }
    }

    #[test]
    fn what_is_due_soon_is_not_its_business() {
        let now = clock::now();
        assert!(!TimerFd::new().unwrap().covers(now, now + SOON_NS - 1).unwrap());
    }
}
