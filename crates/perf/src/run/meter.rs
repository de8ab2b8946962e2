//! CPU time and memory of the broker's process while the run goes on.

use crate::clock::{self, SECOND};
use crate::process::{self, Usage};
use crate::report::Broker;

/// Time for which a process is taken to have started no other.
const FAMILY_NS_MAX: u64 = SECOND / 2;

/// Looks at a process at the start of a run and at the end of each interval.
#[derive(Debug)]
pub(crate) struct Meter {
    pid: u32,
    /// The process and those it started, as of `looked_at`.
    family: Vec<u32>,
    /// Nanoseconds of the clock.
    looked_at: u64,
    first: Usage,
    last: Usage,
    rss_bytes_max: u64,
}

impl Meter {
    /// Begins; `None` if there is no such process to be seen.
    pub(crate) fn start(pid: u32) -> Option<Self> {
        let family = process::family(pid);
        let first = process::usage_of(&family)?;
        let rss_bytes_max = first.rss_bytes;
        Some(Self { pid, family, looked_at: clock::now(), first, last: first, rss_bytes_max })
    }

    /// The process's use since the last call; nothing once the process is gone.
    pub(crate) fn interval(&mut self) -> Broker {
        let before = self.last;
        let now = clock::now();
        if now > self.looked_at + FAMILY_NS_MAX {
            (self.family, self.looked_at) = (process::family(self.pid), now);
        }
        if let Some(now) = process::usage_of(&self.family) {
            self.last = now;
            self.rss_bytes_max = self.rss_bytes_max.max(now.rss_bytes);
        }
        self.since(before)
    }

    /// The process's use from the start to the last call of [`Self::interval`].
    pub(crate) fn total(&self) -> Broker {
        self.since(self.first)
    }

    fn since(&self, before: Usage) -> Broker {
        let cpu_s = (self.last.cpu_s - before.cpu_s).max(0.0);
        let written = self.last.written_bytes.zip(before.written_bytes);
        let written_bytes = written.map(|(now, then)| now.saturating_sub(then));
        let usage = Usage { cpu_s, written_bytes, ..self.last };
        Broker { pid: self.pid, usage, rss_bytes_max: self.rss_bytes_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_to_the_total() {
        let mut meter = Meter::start(std::process::id()).unwrap();
        let intervals = meter.interval().usage.cpu_s + meter.interval().usage.cpu_s;
        assert!((meter.total().usage.cpu_s - intervals).abs() < 1e-9);
        assert!(meter.total().rss_bytes_max >= meter.total().usage.rss_bytes);
        assert!(Meter::start(u32::MAX).is_none());
    }
}
