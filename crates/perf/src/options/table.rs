//! Every option of PerfTest 2.22 and those that are ours: one row each.

/// Whether an option does something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// It does what PerfTest's does.
    Yes,
    /// PerfTest has it; here it is an error, and this is why.
    Refused(&'static str),
}

/// One option.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Without the dash; may have several letters.
    pub(crate) short: Option<&'static str>,
    /// Without the dashes.
    pub(crate) long: &'static str,
    /// What the value is called, for options that take one.
    pub(crate) value: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) support: Support,
}

const fn flag(short: &'static str, long: &'static str, help: &'static str) -> Opt {
    Opt { short: Some(short), long, value: None, help, support: Support::Yes }
}

const fn takes(
    short: &'static str,
    long: &'static str,
    value: &'static str,
    help: &'static str,
) -> Opt {
    Opt { short: Some(short), long, value: Some(value), help, support: Support::Yes }
}

const fn ours(long: &'static str, value: Option<&'static str>, help: &'static str) -> Opt {
    Opt { short: None, long, value, help, support: Support::Yes }
}

const fn no_flag(short: &'static str, long: &'static str, why: &'static str) -> Opt {
    Opt { short: Some(short), long, value: None, help: "", support: Support::Refused(why) }
}

const fn no(short: &'static str, long: &'static str, why: &'static str) -> Opt {
    Opt { short: Some(short), long, value: Some("value"), help: "", support: Support::Refused(why) }
}

const JVM: &str = "it configures PerfTest's Java client; see --threads";
const NO_TLS: &str = "connections are plain TCP";
const NO_OAUTH: &str = "logins are by user name and password";
const NO_INSTANCES: &str = "runs are not synchronized between machines";
const NO_TX: &str = "transactions are not measured";
const NO_RECOVERY: &str = "a lost connection ends the run";

/// The options, in PerfTest's order, ours last.
pub(crate) const OPTIONS: &[Opt] = &[
    flag("?", "help", "show this"),
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
    no("cri", "connection-recovery-interval", NO_RECOVERY),
    takes("csd", "consumer-start-delay", "seconds", "start consumers that much later"),
    takes("ct", "confirm-timeout", "seconds", "longest wait for a confirm (30)"),
    no("ctp", "consumers-thread-pools", JVM),
    takes("d", "id", "name", "name of the run in its output"),
    takes("D", "cmessages", "n", "messages per consuming channel (0: no limit)"),
    flag("dcr", "disable-connection-recovery", "a lost connection ends the run (always so)"),
    takes("e", "exchange", "name", "exchange to publish to (direct)"),
    no_flag("E", "exclusive", "queues are shared between connections"),
    no("ei", "expected-instances", NO_INSTANCES),
    no("em", "exposed-metrics", "figures are printed, not served; see --json"),
    no_flag("env", "environment-variables", "options come from the command line"),
    takes("ew", "exit-when", "empty|idle", "stop when queues are empty or consumers idle for 1 s"),
    takes("f", "flag", "flag", "persistent or mandatory; may be repeated"),
    takes("h", "uri", "uri,...", "where the brokers are (amqp://localhost)"),
    takes("H", "uris", "uri,...", "the same"),
    no("hst", "heartbeat-sender-threads", JVM),
    takes("i", "interval", "seconds", "time between lines (1)"),
    no("isn", "instance-sync-namespace", NO_INSTANCES),
    no("ist", "instance-sync-timeout", NO_INSTANCES),
    flag("jb", "json-body", "bodies are random JSON of about --size bytes"),
    takes("k", "routing-key", "key", "routing key (a random one, or the queue's name)"),
    flag("K", "random-routing-key", "another random routing key for every message"),
    takes("L", "consumer-latency", "us", "time a consumer takes per message"),
    takes("ll", "leader-locator", "strategy", "x-queue-leader-locator of created queues"),
    no("m", "ptxsize", NO_TX),
    takes("M", "framemax", "bytes", "largest frame to ask for (0: the broker's)"),
    takes("ma", "max-age", "duration", "x-max-age of created streams, e.g. PT10M30S"),
    takes("mf", "metrics-format", "format", "default or compact"),
    no_flag("mh", "metrics-help", "figures are printed, not served; see --json"),
    takes("mlb", "max-length-bytes", "bytes", "x-max-length-bytes of created queues"),
    takes("mp", "message-properties", "k=v,...", "message properties; unknown ones become headers"),
    flag("ms", "use-millis", "time stamps in wall clock milliseconds, between machines"),
    no("n", "ctxsize", NO_TX),
    flag("na", "nack", "nack messages instead of acknowledging them"),
    no("niot", "nio-threads", JVM),
    no("niotp", "nio-thread-pool", JVM),
    no("o", "output-file", "redirect the output of --json"),
    no("o2gr", "oauth2-grant-type", NO_OAUTH),
    no("o2id", "oauth2-client-id", NO_OAUTH),
    no("o2p", "oauth2-parameters", NO_OAUTH),
    no("o2sec", "oauth2-client-secret", NO_OAUTH),
    no("o2uri", "oauth2-token-endpoint", NO_OAUTH),
    flag("p", "predeclared", "use exchange and queues that exist"),
    takes("P", "publishing-interval", "seconds", "one message every so many seconds"),
    no("pi", "polling-interval", "consumers are pushed to"),
    no_flag("po", "polling", "consumers are pushed to"),
    takes("prsd", "producer-random-start-delay", "seconds", "start producers over that time"),
    no("pst", "producer-scheduler-threads", JVM),
    takes("q", "qos", "n", "prefetch per consumer (0: no limit)"),
    takes("Q", "global-qos", "n", "prefetch per channel (0: no limit)"),
    takes("qa", "queue-args", "k=v,...", "arguments of created queues"),
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
    takes("sco", "stream-consumer-offset", "offset", "x-stream-offset of consumers"),
    no_flag("se", "sasl-external", NO_TLS),
    takes("smssb", "stream-max-segment-size-bytes", "bytes", "of created streams"),
    no("sni", "server-name-indication", NO_TLS),
    flag("sq", "stream-queue", "create streams"),
    takes("sst", "servers-startup-timeout", "seconds", "wait that long for the broker"),
    takes("st", "shutdown-timeout", "seconds", "longest wait for connections to close (5)"),
    no("sul", "servers-up-limit", "every broker of the list has to be there"),
    takes("t", "type", "type", "type of the exchange (direct)"),
    takes("T", "body-content-type", "type", "content type of messages"),
    takes("tnd", "tcp-no-delay", "bool", "TCP_NODELAY (true)"),
    takes("trbs", "tcp-receive-buffer-size", "bytes", "SO_RCVBUF"),
    takes("tsbs", "tcp-send-buffer-size", "bytes", "SO_SNDBUF"),
    takes("u", "queue", "name,...", "queues to use (one named by the broker)"),
    no_flag("udsc", "use-default-ssl-context", NO_TLS),
    flag("v", "version", "show the version"),
    Opt {
        short: None,
        long: "verbose",
        value: None,
        help: "",
        support: Support::Refused("messages are not shown"),
    },
    Opt {
        short: None,
        long: "verbose-full",
        value: None,
        help: "",
        support: Support::Refused("messages are not shown"),
    },
    takes("vl", "variable-latency", "us:seconds", "changing --consumer-latency; may be repeated"),
    takes("vr", "variable-rate", "n:seconds", "changing --rate; may be repeated"),
    takes("vs", "variable-size", "bytes:seconds", "changing --size; may be repeated"),
    takes("x", "producers", "n", "connections that publish (1)"),
    takes("X", "producer-channel-count", "n", "channels of each (1)"),
    takes("y", "consumers", "n", "connections that consume (1)"),
    takes("Y", "consumer-channel-count", "n", "channels of each (1)"),
    takes("z", "time", "seconds", "length of the run (no limit)"),
    ours("json", None, "one JSON object per line instead of text"),
    ours("verify", None, "check order, loss, duplicates and bodies; exit code 1 if wrong"),
    ours("threads", Some("n"), "threads that drive the connections (one per core)"),
    ours("broker-pid", Some("pid"), "the broker's process (found for a port of this machine)"),
];
