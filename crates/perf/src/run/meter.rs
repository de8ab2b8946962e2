//! CPU time and memory of the broker's process while the run goes on.

use crate::process::{self, Usage};
use crate::report::Broker;

/// Looks at a process at the start of a run and at the end of each interval.
#[derive(Debug)]
pub(super) struct Meter {
    pid: u32,
    first: Usage,
    last: Usage,
    rss_bytes_max: u64,
}

impl Meter {
    /// Begins; `None` if there is no such process to be seen.
    pub(super) fn start(pid: u32) -> Option<Self> {
        let first = process::usage(pid)?;
        Some(Self { pid, first, last: first, rss_bytes_max: first.rss_bytes })
    }

    /// The process's use since the last call; nothing once the process is gone.
    pub(super) fn interval(&mut self) -> Broker {
        let before = self.last;
        if let Some(now) = process::usage(self.pid) {
            self.last = now;
            self.rss_bytes_max = self.rss_bytes_max.max(now.rss_bytes);
        }
        self.since(before)
    }

    /// The process's use from the start to the last call of [`Self::interval`].
    pub(super) fn total(&self) -> Broker {
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
