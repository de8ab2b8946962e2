//! Questions that list: objects with RabbitMQ's column names.

mod connections;
mod definitions;
mod delayed;
mod queues;
mod quorum;
mod streams;
mod tail;

pub use connections::connection_value;
pub(crate) use definitions::rows_of_definitions;
pub(crate) use delayed::rows as rows_of_the_delayed;
pub use queues::queue_value;
pub(crate) use quorum::{inspected, matching, member_node, peek, replicated};
pub(crate) use streams::stream_of;
pub(crate) use tail::rows as rows_of_tail;

use crate::Management;
use crate::api_error::ApiError;
use crate::request::Request;
use meta::ConnectionId;
use serde_json::{Map, Value};
use session::ChannelId;

/// Lists what runs: queues, their members, streams, connections, channels, consumers. `None` for other
/// questions.
pub(crate) fn rows_of_the_running(
    management: &Management,
    endpoint: &str,
    request: &Request,
) -> Option<Result<Value, ApiError>> {
    Some(match endpoint {
        "list_queues" => request.vhost().map(|vhost| queues::queues(management, &vhost, request)),
        "list_consumers" => {
            request.vhost().map(|vhost| connections::consumers(management, &vhost, request))
        }
        "list_connections" => Ok(connections::connections(management, request)),
        "list_channels" => Ok(connections::channels(management, request)),
        _ => {
            let of_quorum = quorum::rows(management, endpoint, request);
            return of_quorum.or_else(|| streams::rows(management, endpoint, request));
        }
    })
}

/// One row with the columns asked for; `value` knows a column's value.
fn row(request: &Request, value: impl Fn(&str) -> Option<Value>) -> Value {
    let field = |column: &str| Some((column.to_owned(), value(column)?));
    Value::Object(request.words("columns").filter_map(field).collect::<Map<_, _>>())
}

/// COMPAT: processes of Erlang have ids like `<node.1700000000.123.0>`, which tools pass back.
pub(crate) fn connection_pid(node: &str, id: ConnectionId) -> String {
    format!("<{node}.1.{}.0>", id.0)
}

fn channel_pid(node: &str, id: ConnectionId, channel: ChannelId) -> String {
    format!("<{node}.2.{}.{}>", id.0, channel.0)
}

fn queue_pid(node: &str, id: meta::QueueId) -> String {
    format!("<{node}.3.{}.0>", id.0)
}

/// The connection of such a process id.
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
