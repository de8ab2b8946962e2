//! Queues and connections.

use crate::failure::Invalid;
use crate::options::{flag, number};
use crate::output::Answer;
use crate::verb::{Action, Banner, Section, VERB, Verb};
use serde_json::Value;

const QUEUES: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };
const OPERATIONS: Verb = Verb { section: Section::Operations, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "delete_queue [--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u] \
                [--force]",
        description: "Deletes a queue",
        params: &["name"],
        switches: &[flag("if-empty", Some('e')), flag("if-unused", Some('u')), flag("force", None)],
        check: Some(|invocation| match invocation.param("name") {
            "" => Err(Invalid::BadArgument("queue name cannot be an empty string".to_owned())),
            _ => Ok(()),
        }),
        banner: Banner::Made(|invocation| {
            let conditions: Vec<&str> = [
                invocation.flag("if-empty").then_some("if queue is empty "),
                invocation.flag("if-unused").then_some("if queue is unused "),
            ]
            .into_iter()
            .flatten()
            .collect();
            format!(
                "Deleting queue '{}' on vhost '{}' {}...",
                invocation.param("name"),
                invocation.vhost(),
                conditions.join("and ")
            )
        }),
        action: Action::Ask("DELETE /queues/{vhost}/{name}", |_, answer| {
            let n_messages = answer.get("messages").and_then(Value::as_u64).unwrap_or_default();
            Ok(Answer::Text(format!(
                "Queue was successfully deleted with {n_messages} ready messages"
            )))
        }),
        ..QUEUES
    },
    Verb {
        usage: "purge_queue <queue>",
        description: "Drops the ready messages of a queue",
        params: &["name"],
        banner: Banner::Text("Purging queue '{name}' in vhost '{vhost}' ..."),
        action: Action::Do("DELETE /queues/{vhost}/{name}/contents"),
        ..QUEUES
    },
    Verb {
        usage: "close_connection <connection pid> <explanation>",
        description: "Closes a connection, named by its pid or its name",
        params: &["pid", "explanation"],
        banner: Banner::Text("Closing connection {pid}, reason: {explanation}..."),
        action: Action::Do("DELETE /connections/{pid}"),
        ..OPERATIONS
    },
    Verb {
        usage: "close_all_connections [--vhost <vhost> --limit <limit>] [-n <node> --global] \
                [--per-connection-delay <delay>] <explanation>",
        description: "Closes the connections to a virtual host or the node",
        params: &["explanation"],
        switches: &[
            flag("global", None),
            number("per-connection-delay", None),
            number("limit", None),
        ],
        vhost: true,
        banner: Banner::Made(|invocation| {
            let explanation = invocation.param("explanation");
            let vhost = invocation.vhost();
            if invocation.flag("global") {
                return format!(
                    "Closing all connections to node {} (across all vhosts), \
                     reason: {explanation}...",
                    invocation.node()
                );
            }
            let how_many = match invocation.number("limit") {
                None | Some(0) => "all".to_owned(),
                Some(limit) => limit.to_string(),
            };
            format!("Closing {how_many} connections in vhost {vhost}, reason: {explanation}...")
        }),
        action: Action::Ask("DELETE /leveret/connections", |_, answer| {
            let n_closed = answer.get("closed").and_then(Value::as_u64).unwrap_or_default();
            Ok(Answer::Wrapped(format!("Closed {n_closed} connections")))
        }),
        ..OPERATIONS
    },
    Verb {
        usage: "close_all_user_connections <username> <explanation>",
        description: "Closes the connections of a user",
        params: &["user", "explanation"],
        banner: Banner::Text("Closing connections of user {user}, reason: {explanation}..."),
        action: Action::Do("DELETE /connections/username/{user}"),
        ..OPERATIONS
    },
];
