//! The end of a run, and PerfTest's name for its reason.

use crate::clock::SECOND;
use crate::config::ExitWhen;
use crate::shared::Shared;

/// Time without a delivery after which consumers count as idle.
pub(super) const IDLE_NS: u64 = SECOND;

const REACHED_TIME: &str = "Reached time limit";
const REACHED_BY_PRODUCER: &str = "Producer reached message limit";
const REACHED_BY_CONSUMER: &str = "Consumer reached message limit";
const IDLE: &str = "Consumer is idle for more than 1 second";
const EMPTY: &str = "Consumer queue(s) empty";

/// Publishers and consumers, and the number of messages after which each of them ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) n_publishers: usize,
    pub(crate) sent: Option<u64>,
    pub(crate) n_consumers: usize,
    pub(crate) received: Option<u64>,
    /// Time without a message after which consumers with a limit give up, where nobody publishes.
    pub(crate) idle_ns: Option<u64>,
    /// Only one reason is given for the end, and not how many agents have it.
    pub(crate) is_brief: bool,
}

impl Limits {
    /// The messages that all publishers send, if they end.
    pub(super) fn n_sent(&self) -> Option<u64> {
        times(self.sent, self.n_publishers)
    }

    /// The messages that all consumers receive, if they end.
    pub(super) fn n_received(&self) -> Option<u64> {
        times(self.received, self.n_consumers)
    }
}

fn times(limit: Option<u64>, n: usize) -> Option<u64> {
    limit.filter(|_| n > 0).map(|limit| limit.saturating_mul(u64::try_from(n).unwrap_or(1)))
}

/// Producers and consumers with a limit that have not reached it, and what has happened.
#[derive(Debug)]
pub(super) struct StopReason {
    n_publishers: u64,
    n_consumers: u64,
    publishers_left: u64,
    consumers_left: u64,
    is_brief: bool,
    is_late: bool,
    /// The reason why consumers ended before their limit.
    consumers_reason: Option<&'static str>,
    failure: Option<String>,
}

impl StopReason {
    pub(super) fn new(limits: &Limits) -> Self {
        let count = |limit: Option<u64>, n: usize| {
            if limit.is_some() { u64::try_from(n).unwrap_or(u64::MAX) } else { 0 }
        };
        let n_publishers = count(limits.sent, limits.n_publishers);
        let n_consumers = count(limits.received, limits.n_consumers);
        Self {
            n_publishers,
            n_consumers,
            publishers_left: n_publishers,
            consumers_left: n_consumers,
            is_brief: limits.is_brief,
            is_late: false,
            consumers_reason: None,
            failure: None,
        }
    }

    /// A publisher has reached its limit.
    pub(super) fn publisher_done(&mut self) {
        self.publishers_left = self.publishers_left.saturating_sub(1);
    }

    /// A consumer has reached its limit.
    pub(super) fn consumer_done(&mut self) {
        self.consumers_left = self.consumers_left.saturating_sub(1);
    }

    /// The time is over.
    pub(super) fn time_is_up(&mut self) {
        self.is_late = true;
    }

    /// Notes that consumers stopped because the condition of `--exit-when` holds.
    pub(super) fn consumers_stopped(&mut self, exit_when: ExitWhen) {
        self.consumers_reason = Some(match exit_when {
            ExitWhen::Idle => IDLE,
            ExitWhen::Empty => EMPTY,
        });
    }

    /// Something went wrong that the run does not get over.
    pub(super) fn failed(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_owned());
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        let has_limit = self.n_publishers + self.n_consumers > 0;
        let is_done = has_limit && self.publishers_left + self.consumers_left == 0;
        self.is_late || is_done || self.consumers_reason.is_some() || self.failure.is_some()
    }

    /// Whether it did not come to its end.
    pub(super) fn is_failure(&self) -> bool {
        self.failure.is_some()
    }

    /// The reasons and the number of agents that gave each, as PerfTest words them.
    pub(super) fn reason(&self) -> String {
        let time = || self.is_late.then_some(REACHED_TIME);
        let first = self.failure.as_deref().or_else(time);
        if let Some(first) = first.filter(|_| self.is_brief) {
            return first.to_owned();
        }
        let counted = [
            (self.n_publishers - self.publishers_left, REACHED_BY_PRODUCER),
            (self.n_consumers - self.consumers_left, REACHED_BY_CONSUMER),
            (u64::from(self.consumers_reason.is_some()), self.consumers_reason.unwrap_or(IDLE)),
            (u64::from(self.failure.is_some()), self.failure.as_deref().unwrap_or_default()),
            (u64::from(self.is_late), REACHED_TIME),
        ];
        let reasons = counted.into_iter().filter_map(|(n, reason)| match n {
            0 => None,
            n if n == 1 || self.is_brief => Some(reason.to_owned()),
            n => Some(format!("{reason} [{n}]")),
        });
        reasons.collect::<Vec<_>>().join(", ")
    }
}

/// Since when nothing was received.
#[derive(Debug)]
pub(super) struct Idle {
    n_received: u64,
    pub(super) since: u64,
}

impl Idle {
    pub(super) fn new(now: u64) -> Self {
        Self { n_received: 0, since: now }
    }

    /// Time without a delivery so far, nanoseconds.
    pub(super) fn look(&mut self, shared: &Shared, now: u64) -> u64 {
        let n_received = shared.n_received();
        if n_received != self.n_received {
            *self = Self { n_received, since: now };
        }
        now.saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop_reason(line: &str) -> StopReason {
        let words = line.split_whitespace().map(str::to_owned);
        let config = crate::config::Config::new(&crate::options::parse(words).unwrap()).unwrap();
        StopReason::new(&config.limits())
    }

    #[test]
    fn all_that_have_a_limit_have_to_reach_it() {
        let mut all = stop_reason("-x 2 -C 5 -D 5");
        all.publisher_done();
        all.publisher_done();
        assert!(!all.is_over());
        all.consumer_done();
        assert!(all.is_over() && !all.is_failure());
        let reason = "Producer reached message limit [2], Consumer reached message limit";
        assert_eq!(all.reason(), reason);
        all.is_brief = true;
        assert_eq!(all.reason(), "Producer reached message limit, Consumer reached message limit");
    }

    #[test]
    fn time_conditions_and_failures_end_it_too() {
        let mut late = stop_reason("-z 1 -C 5 -x 2");
        late.publisher_done();
        late.time_is_up();
        assert_eq!(late.reason(), "Producer reached message limit, Reached time limit");
        let mut idle = stop_reason("-ew idle");
        assert!(!idle.is_over());
        idle.consumers_stopped(ExitWhen::Idle);
        assert_eq!((idle.is_over(), idle.reason().as_str()), (true, IDLE));
        let mut failed = stop_reason("");
        failed.failed("540 no");
        failed.failed("and more");
        assert!(failed.is_over() && failed.is_failure());
        assert_eq!(failed.reason(), "540 no");
    }
}
