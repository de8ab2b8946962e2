//! Messages that operators bring in.

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
