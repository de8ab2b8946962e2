//! Log lines about connections that do not come about: one for each change of the reason.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use log::NodeNumber;
use stdx::{MonotonicMs, lock};

/// A source has one line in so long, whatever changes.
const LINE_INTERVAL_MS: u64 = 10_000;
/// A reason that stays the same is told again after so long.
const REPEAT_MS: u64 = 600_000;
/// Sources of connections to this node that are told apart; further ones have no lines.
const ADDRESSES_MAX: usize = 256;

/// The other side of a connection that did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RefusalSource {
    /// A member that this node dials.
    Dialled(NodeNumber),
    /// An address that connects to this node.
    Accepted(IpAddr),
}

/// The latest line about each source, and when it was written.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<HashMap<RefusalSource, (String, MonotonicMs)>>);

impl RefusalLog {
    /// Whether a line is to be written.
    pub(super) fn is_told(&self, source: RefusalSource, text: &str, now: MonotonicMs) -> bool {
        let mut lines = lock(&self.0);
        if let Some((last, at)) = lines.get(&source) {
            let pause_ms = if last == text { REPEAT_MS } else { LINE_INTERVAL_MS };
            if now.since(*at) < pause_ms {
                return false;
            }
        } else if matches!(source, RefusalSource::Accepted(_)) && lines.len() >= ADDRESSES_MAX {
            lines.retain(|_, (_, at)| now.since(*at) < REPEAT_MS);
            if lines.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        lines.insert(source, (text.to_owned(), now));
        true
    }

    /// Notes a connection: a later reason is told at once, also one that was told before.
    pub(super) fn connected(&self, source: RefusalSource) {
        lock(&self.0).remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: MonotonicMs = MonotonicMs::from_raw(5);

    #[test]
    fn a_reason_is_told_once_and_others_are_told_in_turn() {
        let log = RefusalLog::default();
        let source = RefusalSource::Dialled(NodeNumber(2));
        let is_told = |text: &str, after_ms| log.is_told(source, text, AT.plus(after_ms));
        assert!(is_told("cookie", 0));
        assert!(!is_told("cookie", LINE_INTERVAL_MS));
        assert!(!is_told("name", LINE_INTERVAL_MS - 1));
        assert!(is_told("name", LINE_INTERVAL_MS));
        assert!(is_told("name", LINE_INTERVAL_MS + REPEAT_MS));
        log.connected(source);
        assert!(is_told("name", LINE_INTERVAL_MS + REPEAT_MS));
    }

    #[test]
    fn addresses_are_limited_and_members_are_not() {
        let log = RefusalLog::default();
        let address = |n: u32| RefusalSource::Accepted(IpAddr::from(n.to_be_bytes()));
        assert_eq!(
            (0..1_000).filter(|n| log.is_told(address(*n), "no", AT)).count(),
            ADDRESSES_MAX
        );
        assert!(log.is_told(RefusalSource::Dialled(NodeNumber(2)), "no", AT));
        assert!(log.is_told(address(2_000), "no", AT.plus(REPEAT_MS)));
    }
}
