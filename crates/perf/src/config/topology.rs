//! Exchange, queues and bindings as the options give them.

use amqp091::{ShortString, Table, Value};

use super::values::{byte_capacity, choice, invalid, list, optional, table, truth};
use super::{Queues, Topology};
use crate::options::{Given, Usage};

/// PerfTest's default size of a stream, bytes.
const STREAM_BYTES: i64 = 20_000_000_000;
/// The same for their segments.
const STREAM_SEGMENT_BYTES: i64 = 500_000_000;
/// The largest segment that may be asked for.
const STREAM_SEGMENT_BYTES_MAX: i64 = 3_000_000_000;

pub(super) fn topology(given: &Given) -> Result<Topology, Usage> {
    let queue_type = match (given.has("stream-queue"), given.has("quorum-queue")) {
        (true, true) => return Err(Usage("--quorum-queue does not go with --stream-queue".into())),
        (true, false) => Some("stream"),
        (false, true) => Some("quorum"),
        (false, false) => None,
    };
    let typed = queue_type.is_some();
    let exchange_type = given.last("type").unwrap_or("direct");
    Ok(Topology {
        predeclared: given.has("predeclared"),
        exchange: match given.last("exchange").unwrap_or(exchange_type) {
            "amq.default" => String::new(),
            name => name.to_owned(),
        },
        exchange_type: exchange_type.to_owned(),
        queues: queues(given)?,
        queue_arguments: queue_arguments(given, queue_type)?,
        auto_delete: !typed && truth(given, "auto-delete", true)?,
        durable: super::is_persistent(given),
        bind: !given.has("skip-binding-queues"),
        routing_key: given.last("routing-key").map(str::to_owned),
    })
}

fn queues(given: &Given) -> Result<Queues, Usage> {
    let has_range = given.has("queue-pattern-from") || given.has("queue-pattern-to");
    if has_range && !given.has("queue-pattern") {
        let why = "--queue-pattern-from and -to are nothing without --queue-pattern";
        return Err(Usage(why.to_owned()));
    }
    if let Some(file) = given.last("queue-file") {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Usage(format!("--queue-file {file}: {error}")))?;
        let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            return Err(Usage(format!("--queue-file {file}: it names no queue")));
        }
        return Ok(Queues::Sequence(names));
    }
    let Some(pattern) = given.last("queue-pattern") else {
        let names = list(given, "queue");
        return Ok(if names.is_empty() { Queues::Unnamed } else { Queues::Named(names) });
    };
    let (Some(from), Some(to)) = (
        optional::<u32>(given, "queue-pattern-from")?,
        optional::<u32>(given, "queue-pattern-to")?,
    ) else {
        return Err(Usage("--queue-pattern needs its --queue-pattern-from and -to".to_owned()));
    };
    if from > to {
        return Err(Usage("--queue-pattern-from is above --queue-pattern-to".to_owned()));
    }
    let name = |n| numbered(pattern, n).ok_or_else(|| invalid("queue-pattern", pattern));
    Ok(Queues::Sequence((from..=to).map(name).collect::<Result<_, _>>()?))
}

/// Puts a number where the pattern has `%d`, or `%04d` for one with zeros in front.
fn numbered(pattern: &str, n: u32) -> Option<String> {
    let (before, rest) = pattern.split_once('%')?;
    let (width, after) = rest.split_once('d')?;
    if width.is_empty() {
        return Some(format!("{before}{n}{after}"));
    }
    let zeros = width.strip_prefix('0')?;
    let width: usize = zeros.parse().ok().filter(|&width| width <= 20)?;
    Some(format!("{before}{n:0width$}{after}"))
}

fn queue_arguments(given: &Given, queue_type: Option<&str>) -> Result<Table, Usage> {
    let mut arguments = table(given, "queue-args")?;
    let mut set = |name: &'static str, value: Value| {
        arguments.insert(ShortString::from_static(name), value);
    };
    if let Some(queue_type) = queue_type {
        set("x-queue-type", Value::from(queue_type));
    }
    let is_stream = queue_type == Some("stream");
    let capacity = |long: &str, of_streams: i64| match given.last(long) {
        None => Ok(is_stream.then_some(of_streams)),
        Some(text) => byte_capacity(text).map(Some).ok_or_else(|| invalid(long, text)),
    };
    let bytes = capacity("max-length-bytes", STREAM_BYTES)?.filter(|bytes| *bytes > 0);
    let segment = capacity("stream-max-segment-size-bytes", STREAM_SEGMENT_BYTES)?;
    if segment.is_some_and(|segment| segment > STREAM_SEGMENT_BYTES_MAX) {
        return Err(Usage("--stream-max-segment-size-bytes is at most 3gb".to_owned()));
    }
    if bytes.zip(segment).is_some_and(|(bytes, segment)| bytes <= segment) {
        let why = "--max-length-bytes has to be above --stream-max-segment-size-bytes";
        return Err(Usage(why.to_owned()));
    }
    for (name, value) in
        [("x-max-length-bytes", bytes), ("x-stream-max-segment-size-bytes", segment)]
    {
        if let Some(bytes) = value {
            set(name, Value::I64(bytes));
        }
    }
    if let Some(text) = given.last("max-age") {
        let seconds = stdx::duration_s(text).ok_or_else(|| invalid("max-age", text))?;
        set("x-max-age", Value::from(format!("{seconds}s")));
    }
    let strategies = ["client-local", "balanced"].map(|name| (name, Some(name)));
    if let Some(strategy) = choice(given, "leader-locator", None, &strategies)? {
        set("x-queue-leader-locator", Value::from(strategy));
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_a_place_for_the_number() {
        assert_eq!(numbered("q-%d-", 7).as_deref(), Some("q-7-"));
        assert_eq!(numbered("q-%03d", 7).as_deref(), Some("q-007"));
        assert_eq!(numbered("q", 7), None);
    }
}
