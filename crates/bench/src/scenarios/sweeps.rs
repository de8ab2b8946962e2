//! Grids of parameters from RabbitMQ's measurements of 2012.

use crate::plan::{Case, Load, Plan, RowPlan, lines, metrics};
use crate::result::Metric;
use crate::scenarios::Settings;

const SOURCE: &str = "RabbitMQ Performance Measurements, part 2 (rabbitmq.com, 2012-04-25) and PerfTest's \
    html/examples/various-spec.js: 30 s each.";
const SECONDS: f64 = 30.0;

const SIZES: &[u32] = &[5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000];
const PRODUCER_SIZES: &[u32] = &[0, 1_000, 10_000, 100_000];
const PRODUCERS_MAX: u32 = 10;
/// The source has all but 100 and 1,000, which show where more changes nothing.
const PREFETCHES: &[u32] = &[1, 2, 5, 10, 20, 50, 100, 1_000, 10_000];
const CONSUMERS: &[u32] = &[1, 2, 5, 10, 50, 100, 500, 1_000];
const QUEUE: &str = "bench-prefetch";
/// Prefetch count, consumers, messages per second.
const READ_OFF: &[(u32, u32, f64)] = &[
    (1, 1, 2_300.0),
    (1, 10, 11_000.0),
    (1, 1_000, 15_000.0),
    (2, 1, 4_200.0),
    (5, 1, 8_000.0),
    (10, 1, 11_000.0),
    (20, 1, 18_000.0),
    (20, 10, 37_000.0),
    (50, 1, 23_300.0),
    (50, 10, 37_000.0),
    (10_000, 1, 23_300.0),
    (10_000, 10, 37_000.0),
];
const READ_OFF_BY: &str = "RabbitMQ 2.8.1, 2 x E5530, 2012, read off the chart";

/// 1 -> 1 with ever larger messages.
pub(crate) fn sizes(Settings { scale, .. }: Settings) -> Plan {
    let case = |&size: &u32| {
        RowPlan::new(format!("{size} B"), Metric::Rate)
            .number("size", size)
            .load(Load::new(&format!("-x 1 -y 1 -a -s {size}")).seconds(scale.seconds(SECONDS)))
    };
    Plan {
        name: "sizes",
        title: "Message sizes",
        about: "One producer, one consumer, no acknowledgements. Messages per second fall with their \
            size, bytes per second rise.",
        source: SOURCE,
        metrics: metrics! { Rate ByteRate CpuPerMessage LatencyMedian },
        charts: vec![
            lines("Messages per second", Metric::Rate, "size", None).x_log(),
            lines("Bytes per second", Metric::ByteRate, "size", None).x_log(),
            lines("Broker's CPU time per message", Metric::CpuPerMessage, "size", None).x_log(),
        ],
        cases: SIZES.iter().map(case).collect(),
        ..Plan::default()
    }
}

/// n -> 0 with messages of several sizes.
pub(crate) fn producers_x_sizes(Settings { scale, .. }: Settings) -> Plan {
    let case = |size: u32, n: u32| {
        RowPlan::new(format!("{size} B, {n} producers"), Metric::Rate)
            .number("size", size)
            .number("producers", n)
            .load(Load::new(&format!("-x {n} -y 0 -s {size}")).seconds(scale.seconds(SECONDS)))
    };
    let sizes = PRODUCER_SIZES.iter();
    Plan {
        name: "producers-x-sizes",
        title: "Producers and message sizes",
        about: "1 to 10 producers, nobody consumes: messages go nowhere. Bodies of 0 bytes are sent as \
            12, the least the load generator has.",
        source: SOURCE,
        metrics: metrics! { Rate ByteRate CpuPerMessage },
        charts: vec![
            lines("Messages per second", Metric::Rate, "producers", Some("size")),
            lines("Bytes per second", Metric::ByteRate, "producers", Some("size")),
        ],
        cases: sizes.flat_map(|&size| (1..=PRODUCERS_MAX).map(move |n| case(size, n))).collect(),
        ..Plan::default()
    }
}

/// Consumers of one queue with different prefetch counts.
pub(crate) fn prefetch_x_consumers(settings: Settings) -> Plan {
    let case = |prefetch: u32, n: u32| {
        let row =
            match READ_OFF.iter().find(|(of, consumers, _)| (*of, *consumers) == (prefetch, n)) {
                Some((_, _, rate)) => grid_row(prefetch, n).published(READ_OFF_BY, *rate),
                None => grid_row(prefetch, n),
            };
        let load = format!("-x 1 -y {n} -q {prefetch} -u {QUEUE} -ad false");
        row.load(Load::new(&load).seconds(settings.scale.seconds(SECONDS))).queue(QUEUE)
    };
    Plan {
        name: "prefetch-x-consumers",
        title: "Prefetch and consumers",
        about: "One producer as fast as it can, and a single queue whose consumers share its messages \
            and acknowledge each. At the source a prefetch of 1 to 2 gives 1.8 times the rate, from 50 \
            on nothing changes, ten consumers are the best, and 500 or 1,000 get about half of that.",
        ..grid(case)
    }
}

/// Consumers with a queue each and different prefetch counts.
pub(crate) fn fan_out_x_prefetch(settings: Settings) -> Plan {
    let case = |prefetch: u32, n: u32| {
        let load = Load::new(&format!("-x 1 -y {n} -q {prefetch}"));
        grid_row(prefetch, n).load(load.seconds(settings.scale.seconds(SECONDS)))
    };
    Plan {
        name: "fan-out-x-prefetch",
        title: "Fan-out and prefetch",
        about: "One producer; every consumer has a queue of its own, gets all messages and acknowledges \
            each; each delivery counts.",
        source: "Leveret's own, over the grid of prefetch-x-consumers.",
        ..grid(case)
    }
}

fn grid_row(prefetch: u32, n: u32) -> RowPlan {
    RowPlan::new(format!("prefetch {prefetch}, {n} consumers"), Metric::ReceiveRate)
        .number("prefetch", prefetch)
        .number("consumers", n)
}

/// All prefetch counts with all numbers of consumers.
fn grid(case: impl Fn(u32, u32) -> Case + Copy) -> Plan {
    let title = "Messages delivered per second";
    let lines = lines(title, Metric::ReceiveRate, "consumers", Some("prefetch")).x_log();
    let counts = PREFETCHES.iter();
    Plan {
        source: SOURCE,
        metrics: metrics! { ReceiveRate CpuPerMessage LatencyMedian },
        charts: vec![lines],
        cases: counts.flat_map(|&count| CONSUMERS.iter().map(move |&n| case(count, n))).collect(),
        ..Plan::default()
    }
}
