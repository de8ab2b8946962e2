//! Lines of the log about peers that have not logged in: so many of one kind from one address, and then
//! their number.
//!
//! Anybody who can connect causes such lines, as many and as fast as it likes.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use stdx::MonotonicMs;

/// The window of time after which the lines of a kind are summed up.
const WINDOW_MS: u64 = 10_000;
/// Lines of one kind from one address that are written within that time.
const LINES_MAX: u64 = 20;
/// Addresses and kinds that are told apart. Beyond that there is one address for all others.
const SOURCES_MAX: usize = 256;

stdx::named! {
    /// The kind of a log line about a peer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Kind {
        /// A login was refused.
        Refused = "refused",
        /// The peer sent something that cannot be taken.
        Dropped = "dropped",
        /// The peer is gone.
        Lost = "lost",
        /// A handshake of TLS failed.
        Unencrypted = "failed TLS",
        /// A login over HTTP was refused.
        HttpRefused = "refused HTTP",
        /// A request over HTTP without a login was answered; a line of the log of requests.
        HttpAccess = "anonymous HTTP",
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A peer's address, and what is said of it.
pub type Source = (IpAddr, Kind);

/// The recent log lines about peers.
#[derive(Debug, Default)]
pub(crate) struct PeerLines(Mutex<HashMap<Source, Window>>);

#[derive(Debug)]
struct Window {
    until_ms: MonotonicMs,
    n_lines: u64,
}

/// The treatment of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Write,
    /// The line is the first that is left out: the number of those is to be logged after so many
    /// milliseconds.
    SumUp(Source, u64),
    LeaveOut,
}

impl PeerLines {
    /// Counts a line that is about to be written.
    pub(crate) fn note(&self, source: Source, now_ms: MonotonicMs) -> Verdict {
        let mut windows = stdx::lock(&self.0);
        if windows.len() >= SOURCES_MAX && !windows.contains_key(&source) {
            windows.retain(|_, window| window.is_open(now_ms));
        }
        let has_place = windows.len() < SOURCES_MAX || windows.contains_key(&source);
        let source = if has_place { source } else { (IpAddr::V6(Ipv6Addr::UNSPECIFIED), source.1) };
        let new = || Window { until_ms: now_ms.plus(WINDOW_MS), n_lines: 0 };
        let window = windows.entry(source).or_insert_with(new);
        if !window.is_open(now_ms) {
            *window = new();
        }
        window.n_lines += 1;
        match window.n_lines.cmp(&(LINES_MAX + 1)) {
            std::cmp::Ordering::Less => Verdict::Write,
            std::cmp::Ordering::Equal => Verdict::SumUp(source, window.until_ms.since(now_ms)),
            std::cmp::Ordering::Greater => Verdict::LeaveOut,
        }
    }

    /// Writes how many lines were left out since [`Verdict::SumUp`].
    pub(crate) fn sum_up(&self, (peer, kind): Source) {
        let window = stdx::lock(&self.0).remove(&(peer, kind));
        let n_more = window.map_or(0, |window| window.n_lines.saturating_sub(LINES_MAX));
        let seconds = WINDOW_MS / 1000;
        if peer.is_unspecified() {
            tracing::warn!("... {n_more} more {kind} connections of other peers in {seconds} s");
        } else {
            let peer = peer.to_canonical();
            tracing::warn!("... {n_more} more {kind} connections of {peer} in {seconds} s");
        }
    }
}

impl Window {
    /// Whether the window still counts: one from which lines were left out does so until they are summed up.
    fn is_open(&self, now_ms: MonotonicMs) -> bool {
        now_ms < self.until_ms || self.n_lines > LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_first_lines_are_written_and_the_others_summed_up_at_the_end_of_the_window() {
        let lines = PeerLines::default();
        let source = (PEER, Kind::Refused);
        for _ in 0..LINES_MAX {
            assert_eq!(lines.note(source, MonotonicMs::from_raw(7)), Verdict::Write);
        }
        assert_eq!(
            lines.note(source, MonotonicMs::from_raw(9)),
            Verdict::SumUp(source, WINDOW_MS - 2)
        );
        assert_eq!(lines.note(source, MonotonicMs::from_raw(2 * WINDOW_MS)), Verdict::LeaveOut);
        assert_eq!(lines.note((PEER, Kind::Dropped), MonotonicMs::from_raw(9)), Verdict::Write);
        lines.sum_up(source);
        assert_eq!(lines.note(source, MonotonicMs::from_raw(10)), Verdict::Write);
    }

    #[test]
    fn a_window_ends_and_sources_are_limited() {
        let lines = PeerLines::default();
        let peer = |n: u32| (IpAddr::from(n.to_be_bytes()), Kind::Lost);
        for round in 0..3 {
            for n in 0..2_000 {
                lines.note(peer(n), MonotonicMs::from_raw(round * WINDOW_MS));
            }
            assert!(stdx::lock(&lines.0).len() <= SOURCES_MAX + 1);
        }
        let other = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), Kind::Lost);
        assert!(stdx::lock(&lines.0).contains_key(&other));
    }
}
