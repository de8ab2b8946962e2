//! Messages that operators look at, bring in and back, remove and send on. RabbitMQ's tools have nothing like
//! it. Messages are lines of JSON, as are other events: an object with the event's name.

use super::list;
use crate::client::DOCUMENT;
use crate::document;
use crate::failure::{Failure, Invalid, code};
use crate::fields;
use crate::options::{Switch, flag, number, text};
use crate::output::{Answer, Format};
use crate::run;
use crate::verb::Banner::Lines;
use crate::verb::{Action, Input, Invocation, Section, VERB, Verb, verbs};
use serde_json::{Map, Value, json};
use std::io::Write;

const MESSAGES: Verb = Verb { section: Section::Queues, vhost: true, ..VERB };
const IMPORT: Verb =
    Verb { input: Some(Input::Document), check: Some(document::check_import), ..MESSAGES };

const FILTER: Switch = text("filter", None);
const LIMIT: Switch = number("limit", None);
const HEADERS_ONLY: Switch = flag("headers-only", None);
const PAYLOAD_BYTES: Switch = number("payload-bytes", None);
const FROM: Switch = text("from", None);
const WHICH: Switch = text("which", None);

const UNDO: Verb = Verb { section: Section::Queues, ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    MESSAGES "browse_messages [--vhost <vhost>] [--from <head | tail | position:N | before:N | \
        timestamp:MS>] [--limit <limit>] [--which <ready | unacked | delayed | all>] [--filter \
        <filter>] [--headers-only] [--payload-bytes <bytes>] <queue>",
        "Browses messages of a queue or stream without consuming them, one JSON object per line":
        params: &["queue"], switches: &[FROM, LIMIT, WHICH, FILTER, HEADERS_ONLY, PAYLOAD_BYTES],
        action: Action::Ask("POST /queues/{vhost}/{queue}/browse", page);
    MESSAGES "search_messages [--vhost <vhost>] --filter <filter> [--from <from>] [--limit \
        <limit>] [--which <which>] [--scan-max <messages>] [--timeout-ms <ms>] [--headers-only] \
        [--payload-bytes <bytes>] <queue>",
        "Searches a queue or stream, and shows matches as they are found":
        params: &["queue"],
        switches: &[
            FILTER,
            FROM,
            LIMIT,
            WHICH,
            number("scan-max", None),
            number("timeout-ms", None),
            HEADERS_ONLY,
            PAYLOAD_BYTES,
        ],
        action: Action::Follow(|invocation, output| {
            events(invocation, "GET /queues/{vhost}/{queue}/search", output)
        });
    MESSAGES "tail_messages [--vhost <vhost>] [--filter <filter>] [--limit <limit>] \
        [--headers-only] [--payload-bytes <bytes>] <queue>",
        "Follows the messages that arrive in a queue or stream":
        params: &["queue"], switches: &[FILTER, LIMIT, HEADERS_ONLY, PAYLOAD_BYTES],
        action: Action::Follow(|invocation, output| {
            events(invocation, "GET /queues/{vhost}/{queue}/tail", output)
        });
    MESSAGES "tail_exchange [--vhost <vhost>] [--filter <filter>] [--limit <limit>] \
        [--headers-only] [--payload-bytes <bytes>] <exchange>",
        "Follows the messages that are published to an exchange":
        params: &["exchange"], switches: &[FILTER, LIMIT, HEADERS_ONLY, PAYLOAD_BYTES],
        action: Action::Follow(|invocation, output| {
            events(invocation, "GET /exchanges/{vhost}/{exchange}/tail", output)
        });
    MESSAGES "export_messages [--vhost <vhost>] [--filter <filter>] [--from <from>] [--limit \
        <limit>] [--which <which>] <queue>",
        "Exports the messages of a queue or stream as NDJSON, for import_messages":
        params: &["queue"], switches: &[FILTER, FROM, LIMIT, WHICH], action: Action::Follow(export);
    MESSAGES "remove_messages [--vhost <vhost>] <--filter <filter> | --positions <n,n,...> | \
        --all> [--limit <limit>] <--dry-run | --expected <messages>> <queue>",
        "Removes messages from a queue, if at most the expected number match":
        params: &["queue"],
        switches: &[
            FILTER,
            text("positions", None),
            flag("all", None),
            LIMIT,
            flag("dry-run", None),
            number("expected", None),
        ],
        check: Some(|invocation| select(invocation).map(drop)), action: Action::Offline(remove);
    MESSAGES "redrive_messages [--vhost <vhost>] [--user <user>] <--filter <filter> | --positions \
        <n,n,...> | --all> [--limit <limit>] <--to-origin | --to-queue <queue> | --to-exchange \
        <exchange> --routing-key <routing-key>> [--to-uri <uri>] [--rate <rate>] [--clear-deaths] \
        [--dry-run] <queue>",
        "Moves messages of a queue to another destination or broker, in a background job":
        params: &["queue"],
        switches: &[
            text("user", None),
            FILTER,
            text("positions", None),
            flag("all", None),
            LIMIT,
            flag("to-origin", None),
            text("to-queue", None),
            text("to-exchange", None),
            text("routing-key", None),
            text("to-uri", None),
            number("rate", None),
            flag("clear-deaths", None),
            flag("dry-run", None),
        ],
        check: Some(|invocation| select(invocation).and_then(|_| target(invocation)).map(drop)),
        action: Action::Offline(redrive);
    IMPORT "import_messages [--vhost <vhost>] --user <user> <queue> [<file_path> | \"-\"]",
        "Publishes messages from NDJSON to a queue, as the given user":
        params: &["queue", "file?"], switches: &[text("user", None)],
        banner: Lines("Importing messages to queue \"{queue}\" in vhost \"{vhost}\" ..."),
        action: Action::Tell("POST /queues/{vhost}/{queue}/import", imported);
    UNDO "list_undo", "Lists purges, deletions and removals that can be undone":
        banner: Lines("Listing undoable operations ..."),
        action: list("GET /undo", "id, what, vhost, queue, user, messages, left_out, until, state");
    UNDO "undo <id>", "Undoes a purge, deletion or removal, by its id":
        params: &["id"], banner: Lines("Undoing operation {id} ..."),
        action: Action::Tell("POST /undo/{id}", begun);
    UNDO "forget_undo <id>", "Deletes the undo data of a purge, deletion or removal for good":
        params: &["id"], banner: Lines("Deleting the undo data of operation {id} ..."),
        action: Action::Do("DELETE /undo/{id}");
    IMPORT "import_messages_to_exchange [--vhost <vhost>] [--routing-key <routing-key>] --user \
        <user> <exchange> [<file_path> | \"-\"]",
        "Publishes messages from NDJSON to an exchange, as the given user, with each line's \
            routing key or one for all":
        params: &["exchange", "file?"], switches: &[text("user", None), text("routing-key", None)],
        banner: Lines("Importing messages to exchange \"{exchange}\" in vhost \"{vhost}\" ..."),
        action: Action::Tell("POST /exchanges/{vhost}/{exchange}/import", imported);
};

/// A page as lines, and behind them where the next begins.
fn page(invocation: &Invocation, told: Value) -> Result<Answer, Failure> {
    let Value::Object(mut fields) = told else { return Ok(Answer::Silent) };
    if invocation.format == Format::Json {
        return Ok(Answer::Object(fields.into()));
    }
    let messages = fields.remove("messages").unwrap_or_default();
    let lines = messages.as_array().into_iter().flatten().map(|message| format!("{message}\n"));
    Ok(Answer::Text(format!("{}{}", lines.collect::<String>(), json!({"end": fields}))))
}

/// Prints events as they come. Output that is closed ends it.
fn events(
    invocation: &Invocation,
    route: &'static str,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut name, mut error) = (String::new(), None);
    run::follow(invocation, route, &mut |line| {
        let (field, text) = line.split_once(": ").unwrap_or_default();
        match (field, &*name) {
            ("event", _) => text.clone_into(&mut name),
            ("data", "error") => error = Some(text.to_owned()),
            ("data", "match" | "message") => return is_shown(output, text),
            ("data", "end" | "left_out") => {
                return is_shown(output, &format!("{{\"{name}\":{text}}}"));
            }
            _ => {}
        }
        true
    })?;
    error.map_or(Ok(()), |error| Err(Failure::error(code::UNAVAILABLE, error)))
}

fn is_shown(output: &mut dyn Write, line: &str) -> bool {
    writeln!(output, "{line}").and_then(|()| output.flush()).is_ok()
}

/// Writes lines as they come.
fn export(invocation: &Invocation, output: &mut dyn Write) -> Result<(), Failure> {
    let route = "GET /queues/{vhost}/{queue}/export";
    run::follow(invocation, route, &mut |line| writeln!(output, "{line}").is_ok())
}

/// The messages that are meant.
fn select(invocation: &Invocation) -> Result<Value, Invalid> {
    let is_all = invocation.flag("all");
    let invalid = || {
        let text = "select messages with exactly one of --filter, --positions and --all";
        Invalid::Other(text.to_owned())
    };
    match (invocation.text("filter"), invocation.text("positions")) {
        (Some(filter), None) if !is_all => Ok(json!({"filter": filter})),
        (None, Some(positions)) if !is_all => {
            let positions =
                positions.split(',').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>();
            Ok(json!({"positions": positions.map_err(|_| invalid())?}))
        }
        (None, None) if is_all => Ok("all".into()),
        _ => Err(invalid()),
    }
}

/// The target of the messages, as the request names it.
fn target(invocation: &Invocation) -> Result<Value, Invalid> {
    let key = invocation.text("routing-key");
    let to = (invocation.text("to-queue"), invocation.text("to-exchange"), key);
    let mut to = match (invocation.flag("to-origin"), to) {
        (true, (None, None, None)) => Map::new(),
        (false, (Some(queue), None, None)) => Map::from_iter([("queue".to_owned(), queue.into())]),
        (false, (None, Some(exchange), Some(key))) => Map::from_iter([
            ("exchange".to_owned(), exchange.into()),
            ("routing_key".to_owned(), key.into()),
        ]),
        _ => {
            let text = "set exactly one destination: --to-origin, --to-queue, or --to-exchange with --routing-key";
            return Err(Invalid::Other(text.to_owned()));
        }
    };
    to.extend(invocation.text("to-uri").map(|uri| ("uri".to_owned(), uri.into())));
    Ok(if to.is_empty() { "origin".into() } else { Value::Object(to) })
}

/// Asks for something to be done to the messages that are meant.
fn ask(invocation: &Invocation, route: &'static str, to: Option<Value>) -> Result<Value, Failure> {
    let given = invocation.request()?;
    let own = ["limit", "dry_run", "expected", "rate", "clear_deaths"];
    let mut body: Map<_, _> = given
        .iter()
        .filter(|(name, _)| own.contains(&&***name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    body.insert("select".to_owned(), select(invocation).unwrap_or_default());
    body.extend(to.map(|to| ("to".to_owned(), to)));
    let address = ["vhost", "queue", "user"];
    let mut fields: Map<_, _> =
        given.into_iter().filter(|(name, _)| address.contains(&&**name)).collect();
    fields.insert(DOCUMENT.to_owned(), Value::Object(body).to_string().into());
    run::ask(invocation, route, fields)
}

fn remove(invocation: &Invocation) -> Result<Answer, Failure> {
    let told = ask(invocation, "POST /queues/{vhost}/{queue}/remove", None)?;
    Ok(done(invocation, told, |number| {
        format!("Removed {} of {} messages", number("removed"), number("matched"))
    }))
}

fn redrive(invocation: &Invocation) -> Result<Answer, Failure> {
    let to = target(invocation).unwrap_or_default();
    let told = ask(invocation, "POST /queues/{vhost}/{queue}/redrive", Some(to))?;
    Ok(done(invocation, told, |number| {
        format!("Job {} moves {} messages", number("job"), number("total"))
    }))
}

/// The answer in a sentence; of a dry run all of it.
fn done(
    invocation: &Invocation,
    told: Value,
    sentence: impl FnOnce(&dyn Fn(&str) -> u64) -> String,
) -> Answer {
    if invocation.format == Format::Json {
        return Answer::Object(told);
    }
    if invocation.flag("dry-run") {
        return Answer::Text(told.to_string());
    }
    Answer::Text(sentence(&|field| fields::number(&told, field)))
}

fn imported(_: &Invocation, told: Value) -> Result<Answer, Failure> {
    let (published, routed) = (fields::number(&told, "published"), fields::number(&told, "routed"));
    let mut text = format!("Published {published} messages, routed {routed}");
    for (field, words) in [("not_routed", "Not routed"), ("refused", "Refused by a queue")] {
        for it in fields::items(&told, field) {
            let key = fields::text(it, "routing_key");
            text.push_str(&format!(
                "\n{words}: line {}, routing key {key}",
                fields::number(it, "line")
            ));
        }
    }
    Ok(Answer::Text(text))
}

fn begun(_: &Invocation, told: Value) -> Result<Answer, Failure> {
    let (total, job) = (fields::number(&told, "total"), fields::number(&told, "job"));
    let mut text = format!("Job {job} restores {total} messages");
    for reason in fields::texts(&told, "not_bound") {
        text.push_str(&format!("\nNot bound: {reason}"));
    }
    Ok(Answer::Text(text))
}
