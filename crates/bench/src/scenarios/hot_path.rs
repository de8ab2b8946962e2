//! Messages per second of CPU time against Leveret's goals and the machine's own limit.

use crate::plan::{
    Baseline, BaselineKind, Case, Goal, Load, Plan, RowPlan, Scale, bars, metrics, names,
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

/// The table with its goals, then a fan-out.
pub(crate) fn hot_path(settings: Settings) -> Plan {
    let mut cases = table(settings);
    let names = names(&cases);
    cases.push(fan_out(settings.scale));
    Plan {
        name: "hot-path",
        title: "The hot path",
        about: "Messages per second of the broker's CPU time (published and delivered counts once), with \
            the aims for Leveret, and the median confirm latency of one persistent message at a time, \
            which is to be at most 1.15 of one fdatasync. Last a fan-out to 100 queues, of which each \
            delivery counts.",
        source: "Leveret's own. Published figures: LavinMQ 2.9 and RabbitMQ 4.3.6 on two cores shared with \
            the load generator.",
        metrics: metrics! {
            PerCpuSecond Rate CpuPerMessage ConfirmMedian ReceiveRate LatencyMedian LatencyP99
        },
        charts: vec![
            bars("Messages per second of the broker's CPU time", Metric::PerCpuSecond)
                .rows(names.iter().take(ROWS.len()).map(String::as_str)),
            bars("One persistent message at a time: median confirm latency", Metric::ConfirmMedian)
                .rows(names.iter().skip(ROWS.len()).map(String::as_str))
                .linear(),
            bars("Fan-out: deliveries per second", Metric::ReceiveRate).rows([FAN_OUT]),
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
