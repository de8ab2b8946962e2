//! The file descriptors connections may have, and the reserve that is kept for storage.
//!
//! The system gives each new descriptor the lowest number that is free. So a socket whose number is below the
//! reserve leaves the reserve free, whoever holds the other descriptors: nothing has to be counted.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// The share of all descriptors that is kept for storage: one in this many.
const STORAGE_SHARE: u64 = 8;
/// The least descriptors for storage: the log, files of backlogs, directories that are synced.
const STORAGE_DESCRIPTORS_MIN: u64 = 64;
/// The most descriptors for storage.
const STORAGE_DESCRIPTORS_MAX: u64 = 4096;
/// Looks in a row that have to find free descriptors before the alarm is cleared: ten seconds of them.
const CALM_LOOKS: u32 = 100;

/// The limit on descriptors, and whether connections have used up what is theirs.
#[derive(Debug)]
pub struct Descriptors {
    /// Descriptors the process may have.
    pub limit: u64,
    /// Numbers from here on are the reserve.
    reserve_from: u64,
    /// Looks until the alarm is cleared; 0 while it is off.
    alarm: AtomicU32,
}

impl Descriptors {
    /// Creates the limit of a process that may have `limit` descriptors.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let reserve = (limit / STORAGE_SHARE)
            .clamp(STORAGE_DESCRIPTORS_MIN, STORAGE_DESCRIPTORS_MAX)
            .min(limit / 2);
        Self { limit, reserve_from: limit - reserve, alarm: AtomicU32::new(0) }
    }

    /// Descriptors below the reserve.
    pub const fn below_reserve(&self) -> u64 {
        self.reserve_from
    }

    /// Whether new connections are refused for want of descriptors, or were until just now.
    pub fn is_alarm_on(&self) -> bool {
        self.alarm.load(Ordering::Relaxed) > 0
    }

    /// Whether a connection may keep its socket; sets the alarm when it may not.
    pub fn admits(&self, socket: &impl AsRawFd) -> bool {
        let number = u64::try_from(socket.as_raw_fd()).unwrap_or(u64::MAX);
        let is_admitted = number < self.reserve_from;
        if !is_admitted {
            self.set_alarm();
        }
        is_admitted
    }

    /// Looks at the number of a descriptor that was just given out, or at `None` if there was none to be had,
    /// and sets or clears the alarm. To be called ten times a second.
    pub fn look(&self, latest: Option<u64>) {
        if latest.is_none_or(|number| number >= self.reserve_from) {
            self.set_alarm();
            return;
        }
        let calmer = |looks: u32| looks.checked_sub(1);
        let before = self.alarm.fetch_update(Ordering::Relaxed, Ordering::Relaxed, calmer);
        if before == Ok(1) {
            tracing::warn!("file descriptor limit alarm cleared: new connections are accepted");
        }
    }

    fn set_alarm(&self) {
        if self.alarm.swap(CALM_LOOKS, Ordering::Relaxed) == 0 {
            let Self { limit, reserve_from, .. } = *self;
            tracing::warn!(
                "file descriptor limit alarm set: new connections are refused while {reserve_from} of {limit} \
                 file descriptors are in use; the others are kept for storage"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered(i32);

    impl AsRawFd for Numbered {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }

    #[test]
    fn an_eighth_is_kept_for_storage_within_limits() {
        for (limit, for_connections) in
            [(1 << 20, (1 << 20) - 4096), (8000, 7000), (256, 192), (100, 50), (0, 0)]
        {
            assert_eq!(Descriptors::new(limit).below_reserve(), for_connections, "{limit}");
        }
    }

    #[test]
    fn a_socket_in_the_reserve_is_refused_and_sets_the_alarm_until_it_is_calm() {
        let descriptors = Descriptors::new(1024);
        assert!(descriptors.admits(&Numbered(895)) && !descriptors.is_alarm_on());
        assert!(!descriptors.admits(&Numbered(896)) && descriptors.is_alarm_on());
        for _ in 1..CALM_LOOKS {
            descriptors.look(Some(895));
        }
        assert!(descriptors.is_alarm_on());
        descriptors.look(Some(895));
        assert!(!descriptors.is_alarm_on());
        descriptors.look(None);
        assert!(descriptors.is_alarm_on());
    }
}
