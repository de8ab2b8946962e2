//! The log lines of a connection's end, in RabbitMQ's words and at its levels, so that tools that look
//! for them there find them here.

use super::{Disconnect, Task};
use crate::peer_lines::Kind;
use edge::MISSED_HEARTBEATS;
use std::{fmt, io};

/// RabbitMQ's words for clients that are gone without a close.
const ABRUPTLY: &str = "client unexpectedly closed TCP connection";

pub(super) fn log_end(task: &Task, disconnect: Option<&Disconnect>) {
    let name = task.name;
    let was_open = task.client.session.is_some();
    // Why has been said then, and how the client takes it says nothing new.
    let was_ended = task.client.stats.is_some() && !was_open;
    let refusal = task.entry.refusal().or_else(|| task.front.failure());
    match (disconnect, refusal) {
        (None, _) => tracing::error!(connection = %name, "the connection's task panicked"),
        // However it ended then: a client need not wait for the end of a refusal.
        (Some(_), Some(reason)) => {
            if is_told(task, Kind::Refused) {
                tracing::warn!(connection = %name, "refused: {reason}");
            }
        }
        (Some(Disconnect::Closed(_)), None) => tracing::info!("{}", Closing(task)),
        (Some(_), None) if was_ended => {
            tracing::debug!(connection = %name, "closed by the peer after this node's close");
        }
        // Not a word was said: whoever looks only whether the port is open is no failure.
        (Some(Disconnect::Eof), None) if !task.front.has_begun() => {
            tracing::debug!(connection = %name, "closed before it was opened");
        }
        (Some(disconnect), None) => log_failure(task, disconnect),
    }
}

/// Whether the log is told of the connection's end: anybody can have many of them before a login, which are
/// summed up.
fn is_told(task: &Task, kind: Kind) -> bool {
    task.client.stats.is_some() || task.server.is_told((task.name.client_ip(), kind))
}

fn log_failure(task: &Task, disconnect: &Disconnect) {
    let kind = match disconnect {
        Disconnect::Eof | Disconnect::Io(_) => Kind::Lost,
        Disconnect::Closed(_) | Disconnect::Dropped(_) | Disconnect::Dead(_) => Kind::Dropped,
    };
    if !is_told(task, kind) {
        return;
    }
    let closing = Closing(task);
    match disconnect {
        Disconnect::Eof => tracing::warn!("{closing}: {ABRUPTLY}"),
        Disconnect::Io(error) if is_abrupt(error) => tracing::warn!("{closing}: {ABRUPTLY}"),
        Disconnect::Io(error) => tracing::error!("{closing}: {error}"),
        Disconnect::Dead(MISSED_HEARTBEATS) => {
            let s = task.front.negotiated().heartbeat_s;
            tracing::error!("{closing}: {MISSED_HEARTBEATS}, timeout: {s}s");
        }
        Disconnect::Dead(reason) => tracing::error!("{closing}: {reason}"),
        Disconnect::Dropped(reason) => tracing::info!("{closing}: {reason}"),
        Disconnect::Closed(_) => tracing::info!("{closing}"),
    }
}

/// A client whose process ends with something unread resets the connection: that is no failure of the
/// network.
fn is_abrupt(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// The log's name of a connection that ends, with its duration.
struct Closing<'a>(&'a Task);

impl fmt::Display for Closing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(task) = self;
        write!(f, "closing {} connection ({}", task.front.kind().row().logged_as, task.name)?;
        if let Some(stats) = &task.client.stats {
            let identity = &stats.identity;
            write!(f, ", vhost: '{}', user: '{}'", identity.vhost, identity.user)?;
        }
        let now_ms = task.server.clock.now().monotonic_ms;
        write!(f, ", duration: '{}')", Duration(now_ms.since(task.entry.accepted_ms)))
    }
}

/// Milliseconds, as RabbitMQ shows how long a connection lasted.
struct Duration(u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ms) = *self;
        let s = ms / 1000;
        let (days, hours, minutes, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
        match (days, hours, minutes, s) {
            (0, 0, 0, 0) => write!(f, "{ms}ms"),
            (0, 0, 0, s) => write!(f, "{s}s"),
            (0, 0, minutes, s) => write!(f, "{minutes}M, {s}s"),
            (0, hours, minutes, s) => write!(f, "{hours}H, {minutes}M, {s}s"),
            (days, hours, minutes, s) => write!(f, "{days}D, {hours}H, {minutes}M, {s}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Duration;

    #[test]
    fn durations_look_as_they_do_in_rabbitmq() {
        let shown =
            [0, 999, 1_999, 61_000, 3_600_000, 90_061_000].map(|ms| Duration(ms).to_string());
        assert_eq!(shown, ["0ms", "999ms", "1s", "1M, 1s", "1H, 0M, 0s", "1D, 1H, 1M, 1s"]);
    }
}
