//! The last lines of the node's log and its last events, and those that come.

use crate::failure::{Failure, code};
use crate::fields::{items, number, text};
use crate::output::Answer;
use crate::run;
use crate::verb::Invocation;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::{Duration, Instant};
use stdx::{UnixMs, date_time};

/// Lines that are shown where nothing else is said.
const LINES: i64 = 50;
/// Lines or events that are asked for at once: all that the node keeps.
const ALL: u64 = 2_000;
/// Interval at which a command that follows asks for new lines or events.
const POLL: Duration = Duration::from_millis(500);

/// The log or the events, as they are asked for and shown.
struct Source {
    route: &'static str,
    /// The field of the answer that has them.
    items: &'static str,
    /// The field of the request that gives the number of lines or events.
    count: &'static str,
    shown: fn(&Value) -> String,
}

const LOG: Source =
    Source { route: "GET /leveret/log", items: "lines", count: "lines", shown: line };
const EVENTS: Source =
    Source { route: "GET /leveret/events", items: "events", count: "count", shown: object };

/// The number of lines that the operator wants.
pub(crate) fn n_lines(invocation: &Invocation) -> i64 {
    invocation.number("number").unwrap_or(LINES)
}

/// Answers with the last lines of the log.
pub(crate) fn log_tail(invocation: &Invocation) -> Result<Answer, Failure> {
    let wanted = (LOG.count.to_owned(), n_lines(invocation).into());
    let answer = run::ask(invocation, LOG.route, Map::from_iter([wanted]))?;
    let lines: Vec<String> = items(&answer, LOG.items).map(LOG.shown).collect();
    Ok(Answer::Text(lines.join("\n")))
}

/// Prints lines of the log as they come.
pub(crate) fn log_tail_stream(
    invocation: &Invocation,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    follow(invocation, &LOG, |_| true, output)
}

/// Prints events as they come, an object a line.
pub(crate) fn event_stream(invocation: &Invocation, output: &mut dyn Write) -> Result<(), Failure> {
    // COMPAT: the pattern is a regular expression, not a binding key.
    let pattern =
        pattern(invocation).map_err(|error| Failure::error(code::USAGE, error.to_string()))?;
    let is_wanted = |event: &Value| pattern.is_match(text(event, "event"));
    follow(invocation, &EVENTS, is_wanted, output)
}

fn pattern(invocation: &Invocation) -> Result<Regex, regex::Error> {
    Regex::new(invocation.text("pattern").unwrap_or_default())
}

/// Prints what comes and is wanted until the time is over, the node goes or the output is closed.
fn follow(
    invocation: &Invocation,
    source: &Source,
    is_wanted: impl Fn(&Value) -> bool,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let seconds = invocation.number("duration").map(|it| u64::try_from(it).unwrap_or_default());
    let until = seconds.and_then(|it| Instant::now().checked_add(Duration::from_secs(it)));
    let mut request = Map::new();
    request.insert(source.count.to_owned(), 0.into());
    let mut next = number(&run::ask(invocation, source.route, request.clone())?, "next");
    request.insert(source.count.to_owned(), ALL.into());
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(POLL, |left| left.min(POLL)));
        request.insert("after".to_owned(), next.saturating_sub(1).into());
        let answer = run::ask(invocation, source.route, request.clone())?;
        let n_missed = number(&answer, "first").saturating_sub(next);
        if n_missed > 0 {
            let missed = format!("{n_missed} {} were missed: there were too many", source.items);
            drop(writeln!(std::io::stderr(), "{missed}"));
        }
        let mut wanted = items(&answer, source.items).filter(|item| is_wanted(item));
        let written = wanted.try_for_each(|item| writeln!(output, "{}", (source.shown)(item)));
        if written.and_then(|()| output.flush()).is_err() || left == Some(Duration::ZERO) {
            return Ok(());
        }
        // The next number is the answer's, since a restarted node counts from 1 again.
        next = number(&answer, "next");
    }
}

/// A line as the log has it.
fn line(of: &Value) -> String {
    let time = date_time(UnixMs::from_raw(number(of, "timestamp")), ' ');
    format!("{time} [{}] {}", text(of, "level"), text(of, "text"))
}

/// An event with its headers. COMPAT: as RabbitMQ's tools write it.
fn object(of: &Value) -> String {
    let mut object = Map::from_iter([("event".to_owned(), json!(text(of, "event")))]);
    if let Some(Value::Object(headers)) = of.get("headers") {
        object.extend(headers.clone());
    }
    object.insert("timestamp_in_ms".to_owned(), number(of, "timestamp").into());
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_events_are_shown_as_they_are_elsewhere() {
        let of =
            json!({"n": 3, "timestamp": 951_827_696_007_u64, "level": "info", "text": "hello"});
        assert_eq!(line(&of), "2000-02-29 12:34:56.007+00:00 [info] hello");
        let headers = json!({"name": "q", "durable": true});
        let of = json!({"n": 3, "timestamp": 7, "event": "queue.created", "headers": headers});
        let shown: Value = serde_json::from_str(&object(&of)).unwrap();
        let expected =
            json!({"event": "queue.created", "name": "q", "durable": true, "timestamp_in_ms": 7});
        assert_eq!(shown, expected);
    }
}
