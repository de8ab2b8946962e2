//! `top`: the busiest queues and connections, and what blocks whom, shown over and over.

use crate::failure::Failure;
use crate::fields::{items, text};
use crate::render::{alarm_lines, heaviest_lines};
use crate::run;
use crate::verb::Invocation;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write};
use std::time::Duration;

/// Seconds between two pages, and rows of each table, where nothing else is said.
const INTERVAL_S: i64 = 2;
const ROWS: i64 = 10;
/// Most rows of a table.
const ROWS_MAX: i64 = 100;
/// Has a terminal begin at its top, empty.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

const QUEUE_RATES: [&str; 2] =
    ["message_stats.publish_details.rate", "message_stats.deliver_get_details.rate"];
const CONNECTION_RATES: [&str; 2] = ["recv_oct_details.rate", "send_oct_details.rate"];

/// Shows pages until the output is closed; with `--once` one.
pub(crate) fn top(invocation: &Invocation, output: &mut dyn Write) -> Result<(), Failure> {
    let interval_s = invocation.number("interval").unwrap_or(INTERVAL_S).max(1);
    let is_once = invocation.flag("once");
    let clear = if is_once || !std::io::stdout().is_terminal() { "" } else { CLEAR };
    loop {
        run::ask(invocation, "POST /leveret/samples", Map::new())?;
        std::thread::sleep(Duration::from_secs(interval_s.unsigned_abs()));
        run::ask(invocation, "POST /leveret/samples", Map::new())?;
        let page = page(invocation)?;
        let written = write!(output, "{clear}{page}").and_then(|()| output.flush());
        if is_once || written.is_err() {
            return Ok(());
        }
    }
}

fn page(invocation: &Invocation) -> Result<String, Failure> {
    let alarms = run::ask(invocation, "GET /leveret/alarms", Map::new())?;
    let mut lines = [alarm_lines(&alarms), heaviest_lines(&alarms)].concat();
    lines.push(format!(
        "{:>12} {:>12} {:>12} {:>9}  queue",
        "published/s", "delivered/s", "messages", "consumers"
    ));
    let columns = ["vhost", "name", "messages", "consumers"];
    for row in busiest(invocation, "GET /queues", (&columns, QUEUE_RATES))? {
        let [published, delivered] = QUEUE_RATES.map(|rate| number(&row, rate));
        let [n_messages, n_consumers] = ["messages", "consumers"].map(|name| number(&row, name));
        let [vhost, name] = ["vhost", "name"].map(|name| text(&row, name));
        lines.push(format!(
            "{published:>12.1} {delivered:>12.1} {n_messages:>12} {n_consumers:>9}  '{name}' in '{vhost}'"
        ));
    }
    lines.push(format!("\n{:>12} {:>12} {:>12}  connection", "received B/s", "sent B/s", "state"));
    let columns = ["name", "user", "state"];
    for row in busiest(invocation, "GET /connections", (&columns, CONNECTION_RATES))? {
        let [received, sent] = CONNECTION_RATES.map(|rate| number(&row, rate));
        let [name, user, state] = columns.map(|name| text(&row, name));
        lines.push(format!("{received:>12.0} {sent:>12.0} {state:>12}  {name} of '{user}'"));
    }
    Ok(lines.join("\n") + "\n")
}

/// The rows with the highest rates, together. Those that something blocks come before all others.
fn busiest(
    invocation: &Invocation,
    route: &'static str,
    (columns, rates): (&[&str], [&str; 2]),
) -> Result<Vec<Value>, Failure> {
    let n_rows = invocation.number("rows").unwrap_or(ROWS).clamp(1, ROWS_MAX);
    let all: Vec<&str> = columns.iter().copied().chain(rates).collect();
    let mut found = BTreeMap::new();
    for sort in rates.into_iter().chain(columns.contains(&"state").then_some("state")) {
        let Value::Object(fields) = json!({
            "columns": all, "page": 1, "page_size": n_rows, "sort": sort,
            "sort_reverse": sort != "state",
        }) else {
            continue;
        };
        let page = run::ask(invocation, route, fields)?;
        for row in items(&page, "items") {
            found.insert([text(row, "vhost"), text(row, "name")].map(str::to_owned), row.clone());
        }
    }
    let mut rows: Vec<Value> = found.into_values().collect();
    let rank = |row: &Value| {
        let is_free = text(row, "state") != "blocked";
        (is_free, -rates.iter().map(|rate| number(row, rate)).sum::<f64>())
    };
    rows.sort_by(|left, right| {
        rank(left).partial_cmp(&rank(right)).unwrap_or(std::cmp::Ordering::Equal)
    });
    rows.truncate(usize::try_from(n_rows).unwrap_or_default());
    Ok(rows)
}

/// The number at a path.
fn number(row: &Value, path: &str) -> f64 {
    let found = path.split('.').try_fold(row, |value, step| value.get(step));
    found.and_then(Value::as_f64).unwrap_or_default()
}
