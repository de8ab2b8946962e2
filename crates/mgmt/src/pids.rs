//! Process ids, as RabbitMQ's tools show and take them.

use meta::ConnectionId;
use session::ChannelId;

/// The process id of a connection. COMPAT: Erlang's processes have ids like `<node.1700000000.123.0>`, which
/// tools pass back.
#[must_use]
pub fn connection_pid(node: &str, id: ConnectionId) -> String {
    format!("<{node}.1.{}.0>", id.0)
}

/// The process id of a channel, in the same form as [`connection_pid`].
#[must_use]
pub fn channel_pid(node: &str, id: ConnectionId, channel: ChannelId) -> String {
    format!("<{node}.2.{}.{}>", id.0, channel.0)
}

/// The process id of a queue, in the same form as [`connection_pid`].
#[must_use]
pub fn queue_pid(node: &str, id: meta::QueueId) -> String {
    format!("<{node}.3.{}.0>", id.0)
}

/// The connection of a process id that [`connection_pid`] has made.
#[must_use]
pub fn connection_of_pid(pid: &str) -> Option<ConnectionId> {
    let inner = pid.strip_prefix('<')?.strip_suffix('>')?;
    let mut parts = inner.rsplit('.');
    let (last, id, kind) = (parts.next()?, parts.next()?, parts.next()?);
    if (kind, last) != ("1", "0") {
        return None;
    }
    id.parse().ok().map(ConnectionId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_lead_back_to_connections() {
        let pid = connection_pid("rabbit@box.example.org", ConnectionId(17));
        assert_eq!(pid, "<rabbit@box.example.org.1.17.0>");
        assert_eq!(connection_of_pid(&pid), Some(ConnectionId(17)));
        let channel = channel_pid("rabbit@box", ConnectionId(17), ChannelId(1));
        assert_eq!(connection_of_pid(&channel), None);
        for other in ["", "<>", "garbage", "<1.2.3>", "<a.1.x.0>"] {
            assert_eq!(connection_of_pid(other), None, "{other}");
        }
    }
}
