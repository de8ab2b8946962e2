//! Every option of stream-perf-test and those that are ours: one row each. `docs/load-tool.md` says
//! how they differ.

use crate::options::table::{flag, no, no_flag, ours, takes, tunes, tunes_flag};
use crate::options::{Opt, Values};

/// A row whose value may be left out: then it is `true`.
const fn switch(short: &'static str, long: &'static str, help: &'static str) -> Opt {
    Opt { values: Values::Switch, ..takes(short, long, "bool", help) }
}

const NO_INSTANCES: &str = "runs are not synchronized between machines";
const NO_METRICS: &str = "figures are printed, not served; --json comes nearest";
const NO_BATCHES: &str = "batches go out as soon as they can; --batch-size bounds them";
const NO_RECOVERY: &str = "a lost connection ends the run";

/// The options of `perf stream`, in stream-perf-test's order of names, ours last.
pub(super) const OPTIONS: &[Opt] = &[
    no("au", "amqp-uri", "super streams are made over the stream protocol"),
    no("bpd", "batch-publishing-delay", NO_BATCHES),
    takes("bs", "batch-size", "n", "messages per publish frame, at most (100)"),
    no_flag("bsm", "batch-size-metric", NO_METRICS),
    no("cc", "codec", "messages are AMQP 1.0 with one data section"),
    switch("cl", "confirm-latency", "measure the time from publishing to confirm"),
    takes("D", "cmessages", "n", "messages per consumer (0: no limit)"),
    takes("co", "compression", "name", "of --sub-entry-size: none, gzip, snappy, lz4, zstd (none)"),
    takes("c", "confirms", "n", "unconfirmed messages per producer, at most (10000)"),
    no("cri", "connection-recovery-interval", NO_RECOVERY),
    takes("L", "consumer-latency", "duration", "time a consumer takes per message, e.g. 5ms"),
    takes("cn", "consumer-names", "pattern", "names of consumers, or uuid (%s-%d)"),
    takes("R", "consumer-rate", "n", "messages per second and consumer"),
    takes("y", "consumers", "n", "number of consumers (1)"),
    takes("cbc", "consumers-by-connection", "n", "consumers that share a connection (1)"),
    ours("credits", Some("n[-m]"), "initial credits, and m more after every m chunks"),
    switch("ds", "delete-streams", "delete the streams after the run"),
    no("dbs", "dynamic-batch-size", NO_BATCHES),
    no_flag("env", "environment-variables", "options come from the command line alone"),
    no("ei", "expected-instances", NO_INSTANCES),
    takes("fs", "filter-size", "bytes", "size of the filters of created streams (16)"),
    takes("fvs", "filter-value-set", "values", "filter values of producers, a,b,c or 1..15"),
    takes("fv", "filter-values", "values", "filter values that consumers ask for"),
    no_flag("frfc", "force-replica-for-consumers", "consumers go to the brokers of --uris"),
    takes("b", "heartbeat", "seconds", "heartbeat to ask for (60)"),
    flag("h", "help", "show this help"),
    ours("id", Some("name"), "name of the run in its output"),
    takes("ic", "initial-credits", "n", "chunks a consumer is sent ahead (10)"),
    takes("imc", "initial-member-count", "n", "members of created streams"),
    no("isn", "instance-sync-namespace", NO_INSTANCES),
    no("ist", "instance-sync-timeout", NO_INSTANCES),
    takes(
        "ll",
        "leader-locator",
        "strategy",
        "client-local, balanced, least-leaders, random (balanced)",
    ),
    switch("lb", "load-balancer", "connections go to --uris in turn, as they always do here"),
    takes("ma", "max-age", "duration", "age of the oldest segment of created streams, e.g. 10m"),
    takes("mlb", "max-length-bytes", "bytes", "of created streams (20gb, 0: no limit)"),
    no_flag("mr", "memory-report", "it is the broker's memory that is told"),
    switch("mbr", "metrics-byte-rates", "bytes are told by --json, with or without"),
    no_flag("mcla", "metrics-command-line-arguments", NO_METRICS),
    takes("mf", "metrics-format", "format", "default or compact"),
    no("mt", "metrics-tags", NO_METRICS),
    no("mp", "monitoring-port", NO_METRICS),
    tunes_flag("ne", "native-epoll"),
    tunes_flag("niu", "native-io-uring"),
    tunes_flag("ndm", "no-dev-mode"),
    switch("nl", "no-latency", "consumers look at no message"),
    takes("o", "offset", "offset", "first, last, next, a number or a moment (next)"),
    takes("C", "pmessages", "n", "messages per producer (0: no limit)"),
    takes(
        "pn",
        "producer-names",
        "pattern",
        "names of producers, or uuid: messages are deduplicated",
    ),
    takes("x", "producers", "n", "number of producers (1)"),
    takes("pbc", "producers-by-connection", "n", "producers that share a connection (1)"),
    takes("r", "rate", "n", "messages per second and producer"),
    takes("rmfs", "requested-max-frame-size", "bytes", "largest frame to ask for (5mb)"),
    takes("rt", "rpc-timeout", "seconds", "longest wait for an answer; it is 60 s here"),
    takes("sni", "server-name-indication", "name", "name to ask for with TLS (the host's)"),
    switch("sac", "single-active-consumer", "consumers of a name take turns"),
    takes("s", "size", "bytes", "body size (10; the least is 8)"),
    takes("se", "store-every", "n", "messages after which a consumer stores its offset (0: never)"),
    takes("sc", "stream-count", "n[-m]", "number of streams, or the first and the last (1)"),
    takes("smssb", "stream-max-segment-size-bytes", "bytes", "of created streams (500mb)"),
    takes("st", "streams", "names", "streams to use, or a pattern for --stream-count (stream)"),
    takes("ses", "sub-entry-size", "n", "messages packed into one entry (1)"),
    no_flag("sf", "summary-file", "the summary is printed; --json comes nearest"),
    takes("ssp", "super-stream-partitions", "n", "partitions of created super streams (3)"),
    switch("sst", "super-streams", "the streams are super streams"),
    switch("tnd", "tcp-no-delay", "TCP_NODELAY (true)"),
    takes("trbs", "tcp-receive-buffer-size", "bytes", "SO_RCVBUF"),
    takes("tsbs", "tcp-send-buffer-size", "bytes", "SO_SNDBUF"),
    takes("z", "time", "seconds", "length of the run (no limit)"),
    tunes_flag("ttc", "tls-tcnative"),
    no("tri", "topology-recovery-interval", NO_RECOVERY),
    tunes("ccbc", "tracking-consumers-by-connection"),
    takes("u", "uris", "uri,...", "where the brokers are (rabbitmq-stream://localhost:5552)"),
    flag("v", "version", "show the version"),
    ours("json", None, "one JSON object per line instead of text"),
    ours("threads", Some("n"), "threads that drive the connections (one per core)"),
    ours("broker-pid", Some("pid"), "the broker's process (found for a port of this machine)"),
    ours(
        "idle-timeout",
        Some("seconds"),
        "end of a run with -x 0 and -D that nothing comes to (30)",
    ),
    ours("interval", Some("seconds"), "time between lines (1)"),
];

/// The options of `perf stream-fill`.
pub(super) const FILL_OPTIONS: &[Opt] = &[
    flag("h", "help", "show this help"),
    takes("u", "uris", "uri", "where the broker is (rabbitmq-stream://localhost:5552)"),
    takes("st", "stream", "name,...", "streams to make and fill (stream)"),
    takes("C", "messages", "n", "messages of each (3000000)"),
    takes("s", "size", "bytes,...", "body size, or one for each stream (12; the least is 8)"),
    takes("ch", "chunk", "n,...", "messages per chunk, or a number for each stream (1)"),
    takes("mlb", "max-length-bytes", "bytes", "of the streams (0: no limit)"),
    takes("smssb", "stream-max-segment-size-bytes", "bytes", "of the streams (500mb)"),
    flag("rp", "replace", "delete streams that exist, instead of refusing to fill them"),
    flag("ro", "read-only", "publish nothing: tell the chunks of streams that exist"),
    flag("nv", "no-verify", "do not read the streams back"),
    ours("json", None, "one JSON object instead of text"),
];
