//! Times of requests to a node, without what the machine gives to others meanwhile: other tests, and builds.

use super::node::Node;
use super::wait_until;
use std::time::{Duration, Instant};

/// The kinds of busy and idle time in the first line of `/proc/stat`, up to what another machine takes.
const KINDS: usize = 8;
/// The kinds among them in which nobody works: idle, and waiting for a disk.
const IDLE: [usize; 2] = [3, 4];

/// A watch for requests to one node.
pub(crate) struct Stopwatch {
    /// Tells what the node's process has taken.
    stat: String,
}

impl Stopwatch {
    pub(crate) fn of(node: &Node) -> Self {
        Self { stat: format!("/proc/{}/stat", node.id()) }
    }

    /// The time that a request takes, less what processors spend on others meanwhile: with others, a machine
    /// does in ten seconds what it does in one without.
    pub(crate) fn time(&self, request: impl FnOnce()) -> Duration {
        let (started, before) = (Instant::now(), self.others());
        request();
        started.elapsed().saturating_sub(self.others().saturating_sub(before))
    }

    /// Times the request, and keeps the longest.
    pub(crate) fn longest(&self, worst: &mut Duration, request: impl FnOnce()) {
        *worst = self.time(request).max(*worst);
    }

    /// Tells the node to stop, and times how long it takes to end.
    pub(crate) fn time_stop(&self, node: &Node) -> Duration {
        // Nobody has waited for the process yet, so that its times can be read.
        let is_over = || std::fs::read_to_string(&self.stat).unwrap().contains(") Z ");
        self.time(|| {
            node.tell_to_stop();
            wait_until("the node has ended", is_over);
        })
    }

    /// The time for which all processors, one with another, have worked for anybody but the node.
    fn others(&self) -> Duration {
        let machine = std::fs::read_to_string("/proc/stat").unwrap();
        let n_processors = machine.lines().skip(1).take_while(|it| it.starts_with("cpu")).count();
        let kinds = machine.split_ascii_whitespace().skip(1).take(KINDS).enumerate();
        let busy = kinds.filter(|(kind, _)| !IDLE.contains(kind));
        let busy: u64 = busy.map(|(_, ticks)| ticks.parse::<u64>().unwrap()).sum();
        let ticks = busy.saturating_sub(cpu_ticks(&self.stat));
        let per_second = rustix::param::clock_ticks_per_second() * n_processors as u64;
        Duration::from_micros(ticks * 1_000_000 / per_second)
    }
}

/// The time of processors that a process has taken, in the system's ticks, by its `/proc/PID/stat`.
pub(crate) fn cpu_ticks(stat: &str) -> u64 {
    let stat = std::fs::read_to_string(stat).unwrap();
    // Behind the name, which may hold anything: user and system time are the 12th and 13th.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_ascii_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().unwrap()).sum()
}
