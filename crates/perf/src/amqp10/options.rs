//! The options of omq that there are, and those that are ours: one row each. `docs/load-tool.md` says how
//! they differ.

use crate::options::table::{flag, many, ours, takes};
use crate::options::{Opt, Values};

/// A row of omq's whose name has no short form.
const fn long(long: &'static str, value: &'static str, help: &'static str) -> Opt {
    ours(long, Some(value), help)
}

/// The options of `perf amqp10`, ours last.
pub(super) const OPTIONS: &[Opt] = &[
    flag("h", "help", "show this help"),
    flag("v", "version", "show the version"),
    takes("x", "publishers", "n", "number of publishers, each with a connection (1)"),
    takes("y", "consumers", "n", "number of consumers, each with a connection (1)"),
    takes(
        "t",
        "publish-to",
        "address",
        "/queues/Q or /exchanges/X/KEY, %d: number (/queues/omq-%d)",
    ),
    takes("T", "consume-from", "address", "/queues/Q, with %d for the number (/queues/omq-%d)"),
    takes("C", "pmessages", "n", "messages per publisher (0: no limit)"),
    takes("D", "cmessages", "n", "messages per consumer (0: no limit)"),
    takes("r", "rate", "n", "messages per second and publisher (-1: no limit)"),
    takes("s", "size", "bytes", "body size (12, which is also the least)"),
    takes("c", "max-in-flight", "n", "messages per publisher without an outcome, at most (1)"),
    Opt {
        values: Values::Switch,
        ..takes("d", "message-durability", "bool", "messages and queues are durable (true)")
    },
    takes("L", "consumer-latency", "duration", "time a consumer takes per message, e.g. 5ms"),
    takes("z", "time", "duration", "length of the run, e.g. 90s, 5m, or seconds (no limit)"),
    long("uri", "uri,...", "where the brokers are (amqp://localhost)"),
    long(
        "queues",
        "type",
        "declare classic, quorum or stream queues, or predeclared (predeclared)",
    ),
    Opt {
        values: Values::Many,
        ..takes("qa", "queue-args", "k=v,...", "arguments of declared queues")
    },
    long("binding-key", "key", "bind declared queues to the exchange of --publish-to"),
    long("consumer-credits", "n", "deliveries a consumer is sent ahead (1)"),
    long("consumer-priority", "n", "priority of consumers"),
    long("stream-offset", "offset", "where consumers of streams begin: first, last, next, ..."),
    Opt {
        short: None,
        ..many("", "amqp-app-property", "k=v,...", "values of a property in turn, or 0..9")
    },
    Opt { short: None, ..many("", "amqp-app-property-filter", "k=v", "filter, e.g. tier=&p:go") },
    long("amqp-reject-rate", "percent", "deliveries that consumers reject (0)"),
    long("amqp-release-rate", "percent", "deliveries that consumers release (0)"),
    ours("amqp-send-settled", None, "publish without outcomes"),
    ours("amqp-consume-settled", None, "consume without outcomes"),
    ours("settled", None, "both of these"),
    long("sql-filter", "condition", "filter in SQL, e.g. n=7; also --amqp-sql-filter"),
    long("amqp-sql-filter", "condition", "the same"),
    takes("A", "multi-ack-every", "n", "answer n deliveries at once (0: those that come at once)"),
    long("publisher-protocol", "name", "amqp10 or amqp091 (amqp10)"),
    long("consumer-protocol", "name", "amqp10 or amqp091 (amqp10)"),
    ours("json", None, "one JSON object per line instead of text"),
    ours("verify", None, "check order, loss, duplicates and bodies; exit code 1 if wrong"),
    long("threads", "n", "threads that drive the connections (one per core)"),
    long("broker-pid", "pid", "the broker's process (found for a port of this machine)"),
    long(
        "idle-timeout",
        "seconds",
        "with -x 0 and -D, fail after that time without a message (30)",
    ),
    long("interval", "seconds", "time between lines (1)"),
    long("id", "name", "name of the run in its output"),
];

/// The end of the help.
pub(super) const NOTES: &str = "\
Filters and rates are of AMQP 1.0's consumers. Queues are declared over AMQP 0-9-1.
Exit codes: 0 success, 1 failed or --verify found an error, 2 usage, 3 no broker.
";
