//! Reasons: where settings come from, what a policy would change, why a user may or may not.

use crate::failure::Failure;
use crate::fields::texts;
use crate::options::{flag, number, text};
use crate::output::{Answer, Format};
use crate::render;
use crate::verb::Banner::Lines;
use crate::verb::{Action, Invocation, Section, VERB, Verb, verbs};
use serde_json::{Value, json};

const POLICIES: Verb = Verb {
    section: Section::Policies,
    vhost: true,
    params: &["name", "pattern", "definition"],
    switches: &[number("priority", None), text("apply-to", None)],
    ..VERB
};

const SETTINGS: &str = "\
    name, value:value!, origin, argument:given.argument!, policy:given.policy!, \
    operator_policy:given.operator_policy!";
const STANDINGS: &str = "\
    name, pattern, apply-to, definition:definition!, priority, applies, reason";
const CONSUMERS: &str = "\
    consumer_tag, channel:channel_details.name, prefetch_count, messages_held_by_channel, \
    oldest_held_seconds, state";
const CHANGES: &str = "kind, name, before:before!, after:after!";

pub(super) const VERBS: &[Verb] = verbs! {
    POLICIES "explain_queue [--vhost <vhost>] [--policies | --operator-policies] <name>",
        "Shows a queue's effective settings and their origins, or which policies match and why":
        section: Section::Queues, params: &["name"],
        switches: &[flag("policies", None), flag("operator-policies", None)],
        banner: Lines("Explaining queue \"{name}\" in vhost \"{vhost}\" ..."),
        action: Action::Tell("GET /explain/queue/{vhost}/{name}", |invocation, told| {
            Ok(if invocation.flag("policies") {
                rows(&told, "policies", STANDINGS)
            } else if invocation.flag("operator-policies") {
                rows(&told, "operator_policies", STANDINGS)
            } else {
                rows(&told, "settings", SETTINGS)
            })
        });
    POLICIES "why [--vhost <vhost>] [--consumers] <name>",
        "Explains why messages wait in a queue, or lists its consumers' unacknowledged messages":
        section: Section::Queues, params: &["name"], switches: &[flag("consumers", None)],
        banner: Lines("Explaining why messages wait in queue \"{name}\" in vhost \"{vhost}\" ..."),
        action: Action::Tell("GET /explain/why/{vhost}/{name}", |invocation, told| {
            if invocation.flag("consumers") {
                return Ok(rows(&told, "consumers", CONSUMERS));
            }
            Ok(Answer::Text(texts(&told, "reasons").collect::<Vec<_>>().join("\n")))
        });
    POLICIES "explain_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] \
        <name> <pattern> <definition>",
        "Shows the changes a policy would make, without setting it":
        banner: Lines("Explaining policy \"{name}\" for vhost \"{vhost}\" ..."),
        action: Action::Tell("POST /explain/policy/{vhost}/{name}", changes);
    POLICIES "explain_operator_policy [--vhost <vhost>] [--priority <priority>] [--apply-to \
        <apply-to>] <name> <pattern> <definition>",
        "Shows the changes an operator policy would make, without setting it":
        banner: Lines("Explaining operator policy \"{name}\" for vhost \"{vhost}\" ..."),
        action: Action::Tell("POST /explain/operator-policy/{vhost}/{name}", changes);
    POLICIES "explain_permission [--vhost <vhost>] [--kind <queue|exchange>] [--routing-key \
        <routing-key>] <user> <operation> <name>",
        "Shows whether a user may configure, write or read a name, and the pattern that decides":
        section: Section::Access, params: &["user", "operation", "name"],
        switches: &[text("kind", None), text("routing-key", None)],
        banner: Lines("Explaining permissions of user \"{user}\" in vhost \"{vhost}\" ..."),
        action: Action::Ask("GET /explain/permission/{vhost}/{user}", |invocation, told| {
            let reasons = json!([told]);
            if invocation.format == Format::Json {
                return Ok(Answer::Object(json!({"reasons": reasons})));
            }
            Ok(render::rows("allowed, reason, pattern", &reasons))
        });
};

fn changes(_: &Invocation, told: Value) -> Result<Answer, Failure> {
    Ok(rows(&told, "changes", CHANGES))
}

/// The rows of one field.
fn rows(told: &Value, field: &str, columns: &'static str) -> Answer {
    render::rows(columns, told.get(field).unwrap_or(&Value::Null))
}
