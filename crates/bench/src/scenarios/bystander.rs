//! Scenarios of load that must not disturb others: slow consumers, huge queues, crowds that do next to
//! nothing.

use crate::plan::{Case, Goal, Load, Plan, RowPlan, Scale, Work, bars, metrics, names};
use crate::result::Metric;
use crate::scenarios::Settings;

const SECONDS: f64 = 10.0;
/// Messages in the huge queue.
const HUGE: u32 = 5_000_000;
/// The latency a bystander may have, as a part of what it has alone.
const LATENCY_SHARE: f64 = 1.5;
/// The messages per CPU-second a busy pair is to keep.
const RATE_SHARE: f64 = 0.8;

const CALM_ALONE: &str = "calm pair, alone";
const BUSY_ALONE: &str = "busy pair, alone";
const CALM: &str = "-x 1 -y 1 -a -r 1000 -u bench-pair";
const BUSY: &str = "-x 1 -y 1 -a -u bench-pair";

const SLOW: &str = "bench-slow";
const HUGE_QUEUE: &str = "bench-huge";
const CROWD: &str = "bench-crowd-";
const CROWD_SIZE: u32 = 1_000;

/// The crowds beside a busy pair: name, load options, number of queues.
const CROWDS: &[(&str, &str, u32)] = &[
    ("1,000 mostly idle queues", "-x 10 -X 100 -y 10 -Y 100 -P 10 -prsd 10", CROWD_SIZE),
    ("1,000 mostly idle connections", "-x 500 -y 500 -P 5 -prsd 5", 1),
    (
        "1,000 mostly idle queues and connections",
        "-x 500 -X 2 -y 500 -Y 2 -P 10 -prsd 10",
        CROWD_SIZE,
    ),
];

/// The plan.
pub(crate) fn bystander(Settings { scale, .. }: Settings) -> Plan {
    let calm = calm_cases(scale);
    let busy = busy_cases(scale);
    Plan {
        name: "bystander",
        title: "Bystanders",
        about: "What must not disturb others. A pair at 1,000 messages per second beside one slow consumer \
            and beside one huge queue: its median latency is to stay within 1.5 of what it is alone. A \
            pair as fast as it gets beside crowds that send 100 messages per second in all: it is to keep \
            80 % of its messages per CPU-second. `relative` is the part of the row without anything \
            beside it, on the same broker.",
        source: "Leveret's own.",
        metrics: metrics! { LatencyMedian LatencyP99 PerCpuSecond Rate Relative Memory },
        charts: vec![
            bars("A calm pair: median latency", Metric::LatencyMedian).rows(names(&calm)),
            bars("A busy pair: messages per second of the broker's CPU time", Metric::PerCpuSecond)
                .rows(names(&busy)),
        ],
        cases: calm.into_iter().chain(busy).collect(),
        ..Plan::default()
    }
}

/// The latency of a pair that never hurries.
fn calm_cases(scale: Scale) -> Vec<Case> {
    let row = |name: &str| {
        RowPlan::new(format!("calm pair, {name}"), Metric::LatencyMedian)
            .relative_to(CALM_ALONE)
            .goal(Goal::Share(LATENCY_SHARE))
    };
    let alone = RowPlan::new(CALM_ALONE, Metric::LatencyMedian).relative_to(CALM_ALONE);
    let slow = format!("-x 1 -y 1 -r 2000 -R 100 -q 10 -s 1000 -u {SLOW} -qa x-max-length=200000");
    let fill = format!("-x 1 -y 0 -c 1000 -C {} -u {HUGE_QUEUE} -ad false", scale.count(HUGE));
    let at_huge = format!("-x 1 -y 1 -r 1000 -q 100 -u {HUGE_QUEUE} -ad false");
    vec![
        alone.load(timed(CALM, scale)),
        beside(&slow).row(row("beside a slow consumer"), measured(CALM, scale)).queue(SLOW),
        Case::default()
            .first(Work::load(&fill))
            .first(Work::Background(Load::new(&at_huge)))
            .row(row("beside a huge queue"), measured(CALM, scale))
            .queue(HUGE_QUEUE),
    ]
}

/// CPU time per message of a pair that is as fast as it gets.
fn busy_cases(scale: Scale) -> Vec<Case> {
    let alone = RowPlan::new(BUSY_ALONE, Metric::PerCpuSecond).relative_to(BUSY_ALONE);
    let crowds = CROWDS.iter().map(|(name, options, n_queues)| {
        let crowd = format!("{options} -qp {CROWD}%d -qpf 1 -qpt {n_queues}");
        let row = RowPlan::new(format!("busy pair, beside {name}"), Metric::PerCpuSecond)
            .relative_to(BUSY_ALONE)
            .goal(Goal::Share(RATE_SHARE));
        beside(&crowd).row(row, measured(BUSY, scale)).queues(CROWD, *n_queues)
    });
    std::iter::once(alone.load(timed(BUSY, scale))).chain(crowds).collect()
}

fn beside(options: &str) -> Case {
    Case::default().first(Work::Background(Load::new(options)))
}

fn timed(options: &str, scale: Scale) -> Load {
    Load::new(options).seconds(scale.seconds(SECONDS))
}

fn measured(options: &str, scale: Scale) -> Work {
    Work::Load(vec![timed(options, scale)])
}
