//! Messages that operators bring in, and back.

use super::list;
use crate::document;
use crate::failure::Failure;
use crate::options::text;
use crate::output::{Answer, Format};
use crate::verb::{Action, Banner, Input, Invocation, Section, VERB, Verb};
use serde_json::Value;

const IMPORT: Verb = Verb {
    section: Section::Queues,
    vhost: true,
    input: Some(Input::Document),
    check: Some(document::check_import),
    ..VERB
};

const UNDO: Verb = Verb { section: Section::Queues, ..VERB };

pub(super) const VERBS: &[Verb] = &[
    Verb {
        usage: "import_messages [--vhost <vhost>] --user <user> <queue> [<file_path> | \"-\"]",
        description: "Publishes messages in NDJSON to a queue, as the user",
        params: &["queue", "file?"],
        switches: &[text("user", None)],
        banner: Banner::Text("Importing messages to queue \"{queue}\" in vhost \"{vhost}\" ..."),
        action: Action::Ask("POST /queues/{vhost}/{queue}/import", imported),
        ..IMPORT
    },
    Verb {
        usage: "list_undo",
        description: "Lists what was purged, deleted and removed and can be brought back",
        banner: Banner::Text("Listing what can be undone ..."),
        action: list(
            "GET /undo",
            &["id", "what", "vhost", "queue", "user", "messages", "left_out", "until", "state"],
        ),
        ..UNDO
    },
    Verb {
        usage: "undo <id>",
        description: "Brings back what was purged, deleted or removed, named by its id in the listing",
        params: &["id"],
        banner: Banner::Text("Bringing back what has the id {id} ..."),
        action: Action::Ask("POST /undo/{id}", begun),
        ..UNDO
    },
    Verb {
        usage: "forget_undo <id>",
        description: "Forgets what was purged, deleted or removed: it cannot be brought back",
        params: &["id"],
        banner: Banner::Text("Forgetting what has the id {id} ..."),
        action: Action::Do("DELETE /undo/{id}"),
        ..UNDO
    },
    Verb {
        usage: "import_messages_to_exchange [--vhost <vhost>] [--routing-key <routing-key>] --user <user> \
                <exchange> [<file_path> | \"-\"]",
        description: "Publishes messages in NDJSON to an exchange, as the user; by the routing key of each \
                      line, or one for all",
        params: &["exchange", "file?"],
        switches: &[text("user", None), text("routing-key", None)],
        banner: Banner::Text(
            "Importing messages to exchange \"{exchange}\" in vhost \"{vhost}\" ...",
        ),
        action: Action::Ask("POST /exchanges/{vhost}/{exchange}/import", imported),
        ..IMPORT
    },
];

fn imported(invocation: &Invocation, told: Value) -> Result<Answer, Failure> {
    if invocation.format == Format::Json {
        return Ok(Answer::Object(told));
    }
    let number = |of: &Value, field| of.get(field).and_then(Value::as_u64).unwrap_or_default();
    let (published, routed) = (number(&told, "published"), number(&told, "routed"));
    let mut text = format!("Published {published} messages, routed {routed}");
    for (field, words) in [("not_routed", "Not routed"), ("refused", "Refused by a queue")] {
        for it in told.get(field).and_then(Value::as_array).into_iter().flatten() {
            let key = it.get("routing_key").and_then(Value::as_str).unwrap_or_default();
            text.push_str(&format!("\n{words}: line {}, routing key {key}", number(it, "line")));
        }
    }
    Ok(Answer::Text(text))
}

fn begun(invocation: &Invocation, told: Value) -> Result<Answer, Failure> {
    if invocation.format == Format::Json {
        return Ok(Answer::Object(told));
    }
    let number = |field| told.get(field).and_then(Value::as_u64).unwrap_or_default();
    let (total, job) = (number("total"), number("job"));
    let mut text = format!("{total} messages are brought back by job {job}");
    let not_bound = told.get("not_bound").and_then(Value::as_array).into_iter().flatten();
    for reason in not_bound.filter_map(Value::as_str) {
        text.push_str(&format!("\nNot bound: {reason}"));
    }
    Ok(Answer::Text(text))
}
