//! Queues that go from one version into the other. A policy asks for it, which the broker's command-line tool
//! sets: AMQP 0-9-1 sets none.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::broker::{Broker, Failure};
use crate::measurement::Measurement;
use crate::result::Metric;

/// The name of the policy.
const POLICY: &str = "bench-conversion";
/// The pause between looks at the queues.
const LOOK: Duration = Duration::from_millis(20);
/// The longest wait for them.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Queues with numbers from 1 to `n` behind their prefix.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queues {
    pub(crate) prefix: String,
    pub(crate) n: u32,
}

/// A policy that gives queues a version; it goes with this.
#[derive(Debug)]
pub(crate) struct VersionPolicy<'b>(pub(crate) &'b Broker);

impl Queues {
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.n).map(|at| format!("{}{at}", self.prefix))
    }

    /// The arguments of the tool.
    pub(crate) fn set_policy(&self, version: &str) -> [String; 6] {
        let pattern = format!("^{}", self.prefix);
        let definition = format!("{{\"queue-version\": {version}}}");
        ["set_policy", "--apply-to", "queues", POLICY, &pattern, &definition].map(str::to_owned)
    }

    /// How many of them the tool's listing shows with a version.
    fn count(&self, listing: &str, version: &str) -> usize {
        let columns = listing.lines().filter_map(|line| line.split_once('\t'));
        columns.filter(|(name, of)| name.starts_with(&self.prefix) && *of == version).count()
    }
}

impl VersionPolicy<'_> {
    /// Asks for a version, and waits until all queues have it: the measurement says for how long.
    pub(crate) fn set(&self, queues: &Queues, version: &str) -> Result<Measurement, Failure> {
        let began = Instant::now();
        self.0.ask_tool(&queues.set_policy(version))?;
        let list = ["-q", "list_queues", "name", "storage_version"];
        while queues.count(&self.0.ask_tool(&list)?, version) < queues.n as usize {
            if began.elapsed() > WAIT_MAX {
                return Err(Failure::Failed("the queues are not converted".to_owned()));
            }
            std::thread::sleep(LOOK);
        }
        let seconds = began.elapsed().as_secs_f64();
        let mut measurement = Measurement { seconds, ..Measurement::default() };
        measurement.set(Metric::Duration, seconds);
        Ok(measurement)
    }
}

impl Drop for VersionPolicy<'_> {
    fn drop(&mut self) {
        // An error leaves behind what the next run sets again.
        drop(self.0.ask_tool(&["clear_policy", POLICY]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_asks_for_it_and_a_listing_tells_its_end() {
        let queues = Queues { prefix: "q-".to_owned(), n: 2 };
        let line = "set_policy|--apply-to|queues|bench-conversion|^q-|{\"queue-version\": 1}";
        assert_eq!(queues.set_policy("1").join("|"), line);
        let listing = "name\tstorage_version\nq-1\t1\nother\t1\nq-2\t2\n";
        assert_eq!((queues.count(listing, "1"), queues.count(listing, "2")), (1, 1));
    }
}
