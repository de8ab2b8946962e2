//! Messages per second of CPU time against Leveret's goals and the machine's own limit.

use crate::plan::{
    Baseline, BaselineKind, Case, Goal, Load, Plan, RowPlan, Scale, Work, bars, metrics, names,
};
use crate::result::Metric;
use crate::scenarios::Settings;

const SECONDS: f64 = 10.0;
/// Messages of the row that only publishes.
const PUBLISH_ONLY: u32 = 10_000_000;
/// A confirm may take that much of one fdatasync.
const SYNC_SHARE: f64 = 1.15;

/// A row of the table.
struct Row {
    name: Text,
    options: Text,
    /// Millions of messages per CPU-second: goal, LavinMQ, RabbitMQ.
    goals: [f64; 3],
    baseline: BaselineKind,
}

type Text = &'static str;

const fn row(name: Text, options: Text, goals: [f64; 3], baseline: BaselineKind) -> Row {
    Row { name, options, goals, baseline }
}

const fn relay(n_pairs: u32, size: u32) -> BaselineKind {
    BaselineKind::Relay { n_pairs, size }
}

const FAN_OUT: &str = "fan-out to 100 queues, 1500 B";
const QUEUE: &str = "bench-hot";
const QUEUES: &str = "bench-hot-";

const ROWS: &[Row] = &[
    row("1->1, 12 B", "-x 1 -y 1 -a", [6.0, 0.94, 0.05], relay(1, 12)),
    row("1->1, 12 B, acks, confirms", "-x 1 -y 1 -q 200 -c 200", [2.5, 0.28, 0.037], relay(1, 12)),
    row("1->1, 1500 B", "-x 1 -y 1 -a -s 1500", [0.7, 0.20, 0.026], relay(1, 1500)),
    row(
        "8->8 queues->8, 12 B",
        "-x 8 -y 8 -a -qp bench-hot-%d -qpf 1 -qpt 8",
        [6.0, 1.0, 0.04],
        relay(8, 12),
    ),
    row(
        "publish only, 12 B",
        "-x 1 -y 0 -u bench-hot -ad false",
        [5.0, 1.8, 0.067],
        BaselineKind::Sink { size: 12 },
    ),
    row(
        "persistent, confirms, 1 queue, 12 B",
        "-x 1 -y 1 -f persistent -q 200 -c 200 -ad false -u bench-hot",
        [0.5, 0.23, 0.025],
        relay(1, 12),
    ),
    row(
        "persistent, confirms, 30 queues, 12 B",
        "-x 30 -y 30 -f persistent -q 200 -c 200 -ad false -qp bench-hot-%d -qpf 1 -qpt 30",
        [1.5, 0.56, 0.025],
        relay(30, 12),
    ),
    row(
        "persistent, confirms, 30 queues, 1500 B",
        "-x 30 -y 30 -f persistent -q 200 -c 200 -ad false -qp bench-hot-%d -qpf 1 -qpt 30 -s 1500",
        [0.35, 0.15, 0.008],
        relay(30, 1500),
    ),
];

const STREAM: &str = "bench-hot-stream";
/// Messages of the stream that is read.
const STREAM_MESSAGES: u32 = 1_000_000;
/// One of that many messages passes the filter.
const FILTERED: u32 = 100;

/// A shape that is measured over both protocols.
struct Shape {
    name: Text,
    /// Of `perf amqp10`, those for the queue and for the time aside.
    options: Text,
    /// The CPU time per message that AMQP 1.0 may take, as a part of AMQP 0-9-1's.
    share: f64,
}

const fn shape(name: Text, options: Text, share: f64) -> Shape {
    Shape { name, options, share }
}

const SHAPES: &[Shape] = &[
    shape("settled, 12 B", "-d false --settled --consumer-credits 1000", 1.25),
    shape("accepted, 12 B", "-d false -c 200 --consumer-credits 200 -A 1", 1.3),
    shape("accepted by 100, 12 B", "-d false -c 200 --consumer-credits 200 -A 100", 1.3),
    shape("accepted, 1500 B", "-d false -c 200 --consumer-credits 200 -A 1 -s 1500", 1.1),
    shape("accepted, quorum queue", "--queues quorum -c 200 --consumer-credits 200 -A 1", 1.2),
    shape("accepted, 30 durable queues", "-x 30 -y 30 -c 200 --consumer-credits 200 -A 1", 1.2),
    shape("one at a time", "-c 1 --consumer-credits 1 -A 1", 1.1),
    shape("x-confirm-on = ack", "-qa x-confirm-on=ack -c 200 --consumer-credits 200 -A 1", 1.3),
];

/// The table with its goals, then a fan-out, and AMQP 1.0 beside AMQP 0-9-1.
pub(crate) fn hot_path(settings: Settings) -> Plan {
    let mut cases = table(settings);
    let told = names(&cases);
    let amqp10 = amqp10(settings.scale);
    let of_amqp10 = names(&amqp10);
    cases.push(fan_out(settings.scale));
    cases.extend(amqp10);
    Plan {
        name: "hot-path",
        title: "The hot path",
        about: "Messages per second of the broker's CPU time (published and delivered counts once), with \
            the aims for Leveret, and the median confirm latency of one persistent message at a time, \
            which is to be at most 1.15 of one fdatasync. Then a fan-out to 100 queues, of which each \
            delivery counts. Last AMQP 1.0 beside the same shapes over AMQP 0-9-1, by the same tool: \
            `by 100` answers 100 deliveries at once, all else each.",
        source: "Leveret's own. Published figures: LavinMQ 2.9 and RabbitMQ 4.3.6 on two cores shared with \
            the load generator.",
        metrics: metrics! {
            PerCpuSecond Rate CpuPerMessage ConfirmMedian ReceiveRate LatencyMedian LatencyP99
            Relative
        },
        charts: vec![
            bars("Messages per second of the broker's CPU time", Metric::PerCpuSecond)
                .rows(told.iter().take(ROWS.len()).map(String::as_str)),
            bars("One persistent message at a time: median confirm latency", Metric::ConfirmMedian)
                .rows(told.iter().skip(ROWS.len()).map(String::as_str))
                .linear(),
            bars("Fan-out: deliveries per second", Metric::ReceiveRate).rows([FAN_OUT]),
            bars("AMQP 1.0 and AMQP 0-9-1: CPU time per message", Metric::CpuPerMessage)
                .rows(of_amqp10)
                .linear(),
        ],
        cases,
        ..Plan::default()
    }
}

/// The table beside what the machine itself needs.
pub(crate) fn limit(settings: Settings) -> Plan {
    Plan {
        name: "limit",
        title: "The limit",
        about: "The rows of hot-path beside the floor: what a process costs that only passes the bytes of \
            the same publishes on over loopback, as much at once as comes, and knows nothing of \
            messages. What consumers and brokers answer (acknowledgements, confirms) and what goes to \
            the disk is not in it, so rows with those cannot come close; publish only is compared with \
            a process that drops what it reads; one at a time with one fdatasync after the other.",
        source: "Leveret's own.",
        metrics: metrics! { CpuPerMessage PerCpuSecond Rate ConfirmMedian },
        charts: vec![bars("CPU time per message", Metric::CpuPerMessage)],
        cases: table(settings),
        has_floor: true,
        ..Plan::default()
    }
}

/// The nine rows.
fn table(Settings { scale, .. }: Settings) -> Vec<Case> {
    let seconds = scale.seconds(SECONDS);
    let mut cases: Vec<Case> = ROWS.iter().map(|row| case(row, scale)).collect();
    let last = RowPlan::new("persistent, one at a time", Metric::ConfirmMedian)
        .goal(Goal::Syncs(SYNC_SHARE))
        .published("LavinMQ 2.9", 298.0)
        .published("RabbitMQ 4.3.6", 672.0);
    let options = format!("-x 1 -y 1 -f persistent -q 1 -c 1 -ad false -u {QUEUE}");
    let last = last.load(Load::new(&options).seconds(seconds));
    cases.push(last.queue(QUEUE).baseline(Baseline { kind: BaselineKind::Sync, seconds }));
    cases
}

fn case(row: &Row, scale: Scale) -> Case {
    let seconds = scale.seconds(SECONDS);
    let [goal, lavinmq, rabbitmq] = row.goals.map(|millions| millions * 1e6);
    let plan = RowPlan::new(row.name, Metric::PerCpuSecond)
        .text("options", row.options)
        .goal(Goal::Value(goal))
        .published("LavinMQ 2.9", lavinmq)
        .published("RabbitMQ 4.3.6", rabbitmq);
    let load = Load::new(row.options);
    let load = if row.options.contains("-y 0") {
        // A backlog: a number of messages, whatever the rate.
        load.with("-C", &scale.count(PUBLISH_ONLY).to_string())
    } else {
        load.seconds(seconds)
    };
    plan.load(load)
        .queue(QUEUE)
        .queues(QUEUES, 30)
        .baseline(Baseline { kind: row.baseline, seconds })
}

/// One body for all of them.
fn fan_out(scale: Scale) -> Case {
    let options =
        "-x 1 -y 100 -a -s 1500 -c 20 -e amq.fanout -t fanout -qp bench-fan-%d -qpf 1 -qpt 100";
    RowPlan::new(FAN_OUT, Metric::ReceiveRate)
        .load(Load::new(options).seconds(scale.seconds(SECONDS)))
        .queues("bench-fan-", 100)
}

/// A row's name over a protocol.
fn over(protocol: &str, name: &str) -> String {
    format!("{protocol}: {name}")
}

/// Each shape over AMQP 0-9-1 and over AMQP 1.0; between both; a stream that is read, filtered at last.
fn amqp10(scale: Scale) -> Vec<Case> {
    const OLD: &str = "--publisher-protocol amqp091 --consumer-protocol amqp091";
    const HEADERS: &str = "--amqp-app-property n=1 --amqp-app-property tier=gold \
        --amqp-app-property is=true -d false -c 200 --consumer-credits 200 -A 1";
    let row = |name: &str, protocol: &str, options: String| {
        let queue =
            if options.contains("-x 30") { format!("{QUEUES}%d") } else { QUEUE.to_owned() };
        let queues = if options.contains("--queues") { "" } else { "--queues classic " };
        let line = format!("amqp10 {queues}{options} -t /queues/{queue} -T /queues/{queue}");
        let load = Load::new(&line).seconds(scale.seconds(SECONDS));
        let is_timed = options.contains("-c 1 ");
        let metric = if is_timed { Metric::ConfirmMedian } else { Metric::CpuPerMessage };
        (RowPlan::new(over(protocol, name), metric), load)
    };
    let case = |(row, load): (RowPlan, Load)| row.load(load).queue(QUEUE).queues(QUEUES, 30);
    let mut cases = Vec::new();
    for Shape { name, options, share } in SHAPES {
        cases.push(case(row(name, "0-9-1", format!("{options} {OLD}"))));
        let (new, load) = row(name, "1.0", (*options).to_owned());
        let base = over("0-9-1", name);
        cases.push(case((new.relative_to(&base).goal(Goal::Share(*share)), load)));
    }
    let headers = "three headers";
    cases.push(case(row(headers, "0-9-1", format!("{HEADERS} {OLD}"))));
    for (protocol, side) in [("1.0 to 0-9-1", "consumer"), ("0-9-1 to 1.0", "publisher")] {
        let (mixed, load) = row(headers, protocol, format!("{HEADERS} --{side}-protocol amqp091"));
        let base = over("0-9-1", headers);
        cases.push(case((mixed.relative_to(&base).goal(Goal::Share(2.5)), load)));
    }
    cases.push(stream(scale));
    cases
}

/// A stream that is read over both protocols, and through a filter that looks at messages at four times the
/// rate, or more, at which they are delivered.
fn stream(scale: Scale) -> Case {
    let n = scale.count(STREAM_MESSAGES);
    let publish = format!(
        "amqp10 --queues stream -y 0 -c 1000 -C {n} --amqp-app-property n=0..99 -t /queues/{STREAM}"
    );
    let read = |n: u64, options: &str| {
        Work::load(&format!(
            "amqp10 -x 0 --stream-offset first --consumer-credits 200 -A 100 -D {n} \
             -T /queues/{STREAM}{options}"
        ))
    };
    let name = "a stream from its beginning";
    let (old, new) = (over("0-9-1", name), over("1.0", name));
    let row = |name: &str| RowPlan::new(name, Metric::CpuPerMessage);
    let filtered = row("1.0: the same through SQL that lets 1 % pass").relative_to(&new);
    Case::default()
        .first(Work::load(&publish))
        .row(row(&old), read(n, " --consumer-protocol amqp091"))
        .row(row(&new).relative_to(&old).goal(Goal::Share(1.0)), read(n, ""))
        .row(
            filtered.goal(Goal::Share(f64::from(FILTERED) / 4.0)),
            read(n / u64::from(FILTERED), " --sql-filter n=7"),
        )
        .queue(STREAM)
}
