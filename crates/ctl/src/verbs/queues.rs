//! Queues and connections.

use crate::failure::{Failure, Invalid};
use crate::fields;
use crate::options::{flag, number, text};
use crate::output::Answer;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Invocation, Section, VERB, Verb, Wording, verbs};
use serde_json::Value;

const QUEUES: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };
const OPERATIONS: Verb = Verb { section: Section::Operations, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    QUEUES "delete_queue [--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u] \
        [--force] [--expected <number>]",
        "Deletes a queue":
        params: &["name"],
        switches: &[
            flag("if-empty", Some('e')),
            flag("if-unused", Some('u')),
            flag("force", None),
            number("expected", None),
        ],
        check: Some(|invocation| match invocation.param("name") {
            "" => Err(Invalid::BadArgument("queue name cannot be an empty string".to_owned())),
            _ => Ok(()),
        }),
        banner: Made(|invocation| {
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
        wording: Wording::QueueDeletion, action: Action::Say(
            "DELETE /queues/{vhost}/{name}",
            "Queue was successfully deleted with {messages} ready messages",
        );
    QUEUES "purge_queue [--expected <number>] <queue>", "Discards a queue's ready messages":
        params: &["name"], switches: &[number("expected", None)],
        banner: Lines("Purging queue '{name}' in vhost '{vhost}' ..."),
        wording: Wording::Object, action: Action::Do("DELETE /queues/{vhost}/{name}/contents");
    QUEUES "delete_queues [--vhost <vhost>] [--type <type>] [--if-empty|-e] [--if-unused|-u] \
        [--expected <number>] <pattern>",
        "Deletes the queues that match, if their number is as expected":
        params: &["pattern"],
        switches: &[
            flag("if-empty", Some('e')),
            flag("if-unused", Some('u')),
            text("type", None),
            number("expected", None),
        ],
        banner: Lines("Deleting queues that match '{pattern}' in vhost '{vhost}' ..."),
        action: Action::Tell("POST /bulk/queues/{vhost}/delete", done);
    QUEUES "purge_queues [--vhost <vhost>] [--type <type>] [--expected <number>] <pattern>",
        "Purges the queues that match, if their number is as expected":
        params: &["pattern"], switches: &[text("type", None), number("expected", None)],
        banner: Lines("Purging queues that match '{pattern}' in vhost '{vhost}' ..."),
        action: Action::Tell("POST /bulk/queues/{vhost}/purge", done);
    OPERATIONS "close_connections [--by <column>] [--expected <number>] <pattern> <explanation>",
        "Closes the connections that match, if their number is as expected":
        params: &["pattern", "explanation"],
        switches: &[text("by", None), number("expected", None)],
        banner: Lines("Closing connections that match '{pattern}' ..."),
        action: Action::Tell("POST /bulk/connections", done);
    OPERATIONS "close_connection <connection pid> <explanation>",
        "Closes a connection, by its pid or name":
        params: &["pid", "explanation"],
        banner: Lines("Closing connection {pid}, reason: {explanation}..."),
        wording: Wording::Connection, action: Action::Do("DELETE /connections/{pid}");
    OPERATIONS "cancel_consumer [--vhost <vhost>] [--channel <channel>] <queue> <tag>",
        "Cancels the consumers of a queue with a consumer tag, on all channels or one":
        params: &["queue", "tag"], switches: &[text("channel", None)], vhost: true,
        banner: Lines("Cancelling consumer '{tag}' of queue '{queue}' ..."),
        action: Action::Do("DELETE /leveret/consumers/{vhost}/{queue}/{tag}");
    OPERATIONS "close_all_connections [--vhost <vhost> --limit <limit>] [-n <node> --global] \
        [--per-connection-delay <delay>] <explanation>",
        "Closes all connections of a virtual host or the node":
        params: &["explanation"],
        switches: &[
            flag("global", None),
            number("per-connection-delay", None),
            number("limit", None),
        ],
        vhost: true,
        banner: Made(|invocation| {
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
            let n_closed = fields::number(&answer, "closed");
            Ok(Answer::Wrapped(format!("Closed {n_closed} connections")))
        });
    OPERATIONS "close_all_user_connections <username> <explanation>",
        "Closes all connections of a user":
        params: &["user", "explanation"],
        banner: Lines("Closing connections of user {user}, reason: {explanation}..."),
        action: Action::Do("DELETE /connections/username/{user}");
};

/// The end of an action on all that match; without a number that is expected, which do.
fn done(invocation: &Invocation, told: Value) -> Result<Answer, Failure> {
    let (n_matched, n_done) = (fields::number(&told, "matched"), fields::number(&told, "done"));
    if invocation.number("expected").is_none() {
        let names = fields::texts(&told, "names").map(|name| format!("\n  {name}"));
        let first: String = names.collect();
        let text = match n_matched {
            0 => "nothing matches".to_owned(),
            n => format!("{n} match; nothing is done without --expected {n}"),
        };
        return Ok(Answer::Text(text + &first));
    }
    let failure =
        |it: &Value| format!("\n  {}: {}", fields::text(it, "name"), fields::text(it, "reason"));
    let failures: String = fields::items(&told, "failures").map(failure).collect();
    Ok(Answer::Text(format!("{n_done} of {n_matched} done{failures}")))
}
