//! Every option of PerfTest 2.25 and those that are ours: one row each. `docs/load-tool.md` says how
//! they differ from PerfTest.

/// Whether an option does something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// An option that does what PerfTest's does.
    Yes,
    /// An option that tunes PerfTest itself: taken, and reported to have no effect.
    NoEffect,
    /// PerfTest has it; here it is an error, with the reason and what comes nearest.
    Refused(&'static str),
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Without the dash; may have several letters.
    pub(crate) short: Option<&'static str>,
    /// Without the dashes.
    pub(crate) long: &'static str,
    /// The value's name in `--help`, for options that take one.
    pub(crate) value: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) support: Support,
    pub(crate) values: Values,
}

/// The number of words behind an option that are its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// One.
    One,
    /// One, or none: then it is as if the option were not there.
    Optional,
    /// `true` or `false`, or none: then it is `true`.
    Switch,
    /// All up to the next option, as in `-f persistent mandatory`.
    Many,
}

/// A row that takes no value and does something.
pub(crate) const fn flag(short: &'static str, long: &'static str, help: &'static str) -> Opt {
    Opt { short: Some(short), long, value: None, help, support: Support::Yes, values: Values::One }
}

/// A row that takes a value and does something.
pub(crate) const fn takes(
    short: &'static str,
    long: &'static str,
    value: &'static str,
    help: &'static str,
) -> Opt {
    Opt { value: Some(value), ..flag(short, long, help) }
}

/// A row that takes several values, or may be given several times.
pub(crate) const fn many(
    short: &'static str,
    long: &'static str,
    value: &'static str,
    help: &'static str,
) -> Opt {
    Opt { values: Values::Many, ..takes(short, long, value, help) }
}

/// A row PerfTest does not have.
pub(crate) const fn ours(
    long: &'static str,
    value: Option<&'static str>,
    help: &'static str,
) -> Opt {
    Opt { short: None, value, ..flag("", long, help) }
}

/// A row without a value that is an error here.
pub(crate) const fn no_flag(short: &'static str, long: &'static str, why: &'static str) -> Opt {
    Opt { support: Support::Refused(why), ..flag(short, long, "") }
}

/// A row with a value that is an error here.
pub(crate) const fn no(short: &'static str, long: &'static str, why: &'static str) -> Opt {
    Opt { value: Some("value"), ..no_flag(short, long, why) }
}

/// A row without a value that tunes PerfTest's Java client.
pub(crate) const fn tunes_flag(short: &'static str, long: &'static str) -> Opt {
    Opt { support: Support::NoEffect, ..flag(short, long, "") }
}

/// A row with a value that tunes PerfTest's Java client.
pub(crate) const fn tunes(short: &'static str, long: &'static str) -> Opt {
    Opt { value: Some("value"), ..tunes_flag(short, long) }
}

const NO_OAUTH: &str = "logins are by user name and password, in --uri";
const NO_INSTANCES: &str = "runs are not synchronized between machines; --consumer-start-delay and \
                            --producer-random-start-delay come nearest";
const NO_METRICS: &str = "figures are printed, not served; --json comes nearest";
const NO_TX: &str = "transactions are not measured; --confirm and --multi-ack-every come nearest";
const NO_GET: &str = "consumers are pushed to; --qos and --consumer-rate come nearest";
const NO_TRACE: &str = "messages are not shown; --verify and --json come nearest";

/// The options, in PerfTest's order, ours last.
pub(crate) const OPTIONS: &[Opt] = &[
    flag("?", "help", "show this help"),
    flag("a", "autoack", "consume without acknowledgements"),
    takes("A", "multi-ack-every", "n", "acknowledge every n messages at once (0: each)"),
    takes("ad", "auto-delete", "bool", "queues go with their last consumer (true)"),
    takes("b", "heartbeat", "seconds", "heartbeat to ask for (0: none)"),
    takes("B", "body", "files", "message bodies from files, separated by commas, in turn"),
    takes("bc", "body-count", "n", "number of different --json-body bodies (100)"),
    takes("bfc", "body-field-count", "n", "fields to make --json-body bodies from (1000)"),
    takes("c", "confirm", "n", "confirms, with at most n outstanding per channel (-1: none)"),
    takes("C", "pmessages", "n", "messages per publishing channel (0: no limit)"),
    takes("ca", "consumer-args", "k=v,...", "arguments of basic.consume"),
    takes("cal", "connection-allocation", "how", "several --uri: random or round-robin (random)"),
    takes("cri", "connection-recovery-interval", "s[-s]", "wait before connecting again (5)"),
    takes("csd", "consumer-start-delay", "seconds", "start consumers that much later"),
    takes("ct", "confirm-timeout", "seconds", "longest wait for a confirm; see --resend (30)"),
    tunes("ctp", "consumers-thread-pools"),
    takes("d", "id", "name", "name of the run in its output"),
    takes("D", "cmessages", "n", "messages per consuming channel (0: no limit)"),
    flag("dcr", "disable-connection-recovery", "a lost connection ends the run"),
    Opt {
        values: Values::Optional,
        ..takes("e", "exchange", "name", "exchange to publish to (named like its --type)")
    },
    no_flag("E", "exclusive", "queues are shared between connections; --auto-delete comes nearest"),
    no("ei", "expected-instances", NO_INSTANCES),
    no("em", "exposed-metrics", NO_METRICS),
    flag("env", "environment-variables", "show the environment variables that stand for options"),
    takes("ew", "exit-when", "empty|idle", "stop when queues are empty or consumers idle for 1 s"),
    many("f", "flag", "flag", "persistent, mandatory or immediate; may be repeated"),
    takes("h", "uri", "uri,...", "where the brokers are (amqp://localhost)"),
    takes("H", "uris", "uri,...", "the same; comes before --uri"),
    tunes("hst", "heartbeat-sender-threads"),
    takes("i", "interval", "seconds", "time between lines (1)"),
    no("isn", "instance-sync-namespace", NO_INSTANCES),
    no("ist", "instance-sync-timeout", NO_INSTANCES),
    flag("jb", "json-body", "bodies are random JSON of about --size bytes"),
    takes("k", "routing-key", "key", "routing key (a random one, or the queue's name)"),
    flag("K", "random-routing-key", "another random routing key for every message"),
    takes("L", "consumer-latency", "us", "time a consumer takes per message"),
    takes("ll", "leader-locator", "strategy", "leader of created queues: client-local or balanced"),
    no("m", "ptxsize", NO_TX),
    takes("M", "framemax", "bytes", "largest frame to ask for (0: the broker's)"),
    takes("ma", "max-age", "duration", "x-max-age of created streams, e.g. PT10M30S"),
    takes("mf", "metrics-format", "format", "default or compact"),
    flag("mh", "metrics-help", "list the metrics"),
    takes("mlb", "max-length-bytes", "bytes", "x-max-length-bytes of created queues, e.g. 5gb"),
    takes("mp", "message-properties", "k=v,...", "message properties; unknown ones become headers"),
    flag("ms", "use-millis", "time stamps in wall clock milliseconds, between machines"),
    no("n", "ctxsize", NO_TX),
    flag("na", "nack", "nack messages instead of acknowledging them"),
    tunes("niot", "nio-threads"),
    tunes("niotp", "nio-thread-pool"),
    tunes_flag("nty", "netty"),
    tunes_flag("ntyep", "netty-epoll"),
    tunes_flag("ntykq", "netty-kqueue"),
    tunes("ntyt", "netty-threads"),
    takes("o", "output-file", "file", "write a line of comma-separated values per interval too"),
    no("o2gr", "oauth2-grant-type", NO_OAUTH),
    no("o2id", "oauth2-client-id", NO_OAUTH),
    no("o2p", "oauth2-parameters", NO_OAUTH),
    no("o2sec", "oauth2-client-secret", NO_OAUTH),
    no("o2uri", "oauth2-token-endpoint", NO_OAUTH),
    flag("p", "predeclared", "use exchange and queues that exist"),
    takes("P", "publishing-interval", "seconds", "one message every so many seconds (from 0.1)"),
    no("pi", "polling-interval", NO_GET),
    no_flag("po", "polling", NO_GET),
    takes("prsd", "producer-random-start-delay", "seconds", "start producers over that time"),
    tunes("pst", "producer-scheduler-threads"),
    takes("q", "qos", "n", "prefetch per consumer (0: no limit)"),
    takes("Q", "global-qos", "n", "prefetch per channel (0: no limit)"),
    many("qa", "queue-args", "k=v,...", "arguments of created queues"),
    takes("qf", "queue-file", "file", "names of queues to use, one per line"),
    takes("qp", "queue-pattern", "pattern", "names of queues with a number in them, e.g. q-%d"),
    takes("qpf", "queue-pattern-from", "n", "first number for --queue-pattern"),
    takes("qpt", "queue-pattern-to", "n", "last number for --queue-pattern"),
    flag("qq", "quorum-queue", "create quorum queues"),
    takes("r", "rate", "n", "messages per second and publishing channel"),
    takes("R", "consumer-rate", "n", "messages per second and consuming channel"),
    takes("re", "requeue", "bool", "whether --nack requeues (true)"),
    takes("rkcs", "routing-key-cache-size", "n", "number of different random routing keys"),
    flag("S", "slow-start", "start consumers one second after the other"),
    takes("s", "size", "bytes", "body size (12, which is also the least)"),
    flag("sb", "skip-binding-queues", "leave queues unbound"),
    takes("sco", "stream-consumer-offset", "offset", "where consumers of streams begin (next)"),
    no_flag("se", "sasl-external", "logins are by user name and password, in --uri"),
    takes("smssb", "stream-max-segment-size-bytes", "bytes", "of created streams, e.g. 500mb"),
    takes("sni", "server-name-indication", "name", "name to ask for with amqps:// (the host's)"),
    flag("sq", "stream-queue", "create streams"),
    takes("sst", "servers-startup-timeout", "seconds", "wait that long for the broker"),
    takes("st", "shutdown-timeout", "seconds", "longest wait for connections to close (5)"),
    no("sul", "servers-up-limit", "every broker has to be there; --servers-startup-timeout waits"),
    takes("t", "type", "type", "type of the exchange (direct)"),
    takes("T", "body-content-type", "type", "content type of messages"),
    takes("tnd", "tcp-no-delay", "bool", "TCP_NODELAY (true)"),
    takes("trbs", "tcp-receive-buffer-size", "bytes", "SO_RCVBUF"),
    takes("tsbs", "tcp-send-buffer-size", "bytes", "SO_SNDBUF"),
    takes("u", "queue", "name,...", "queues to use (one per consumer, named by the broker)"),
    flag("udsc", "use-default-ssl-context", "with amqps://, trust only whom this system trusts"),
    flag("v", "version", "show the version"),
    Opt { short: None, ..no_flag("", "verbose", NO_TRACE) },
    Opt { short: None, ..no_flag("", "verbose-full", NO_TRACE) },
    many("vl", "variable-latency", "us:seconds", "changing --consumer-latency; may be repeated"),
    many("vr", "variable-rate", "n:seconds", "changing --rate; may be repeated"),
    many("vs", "variable-size", "bytes:seconds", "changing --size; may be repeated"),
    takes("x", "producers", "n", "connections that publish (1)"),
    takes("X", "producer-channel-count", "n", "channels of each (1)"),
    takes("y", "consumers", "n", "connections that consume (1)"),
    takes("Y", "consumer-channel-count", "n", "channels of each (1)"),
    takes("z", "time", "seconds", "length of the run (no limit)"),
    ours("json", None, "one JSON object per line instead of text"),
    ours("verify", None, "check order, loss, duplicates and bodies; exit code 1 if wrong"),
    ours("resend", None, "republish rejected, overdue and lost messages"),
    ours("threads", Some("n"), "threads that drive the connections (one per core)"),
    ours("broker-pid", Some("pid"), "the broker's process (found for a port of this machine)"),
    ours("interval-messages", Some("n"), "a line after so many messages, too (one thread)"),
    ours(
        "idle-timeout",
        Some("seconds"),
        "with -x 0 and -D, fail after that time without a message (30)",
    ),
    ours("progress", Some("bool"), "a bar with the time left (if the terminal is one)"),
];
