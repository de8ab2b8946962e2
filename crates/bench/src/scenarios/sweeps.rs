//! Grids of parameters from RabbitMQ's measurements of 2012.

use crate::plan::{Load, Plan, RowPlan, lines};
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

/// 1 -> 1 with ever larger messages.
pub(crate) fn sizes(Settings { scale }: Settings) -> Plan {
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
        metrics: vec![Metric::Rate, Metric::ByteRate, Metric::CpuPerMessage, Metric::LatencyMedian],
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
pub(crate) fn producers_x_sizes(Settings { scale }: Settings) -> Plan {
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
        metrics: vec![Metric::Rate, Metric::ByteRate, Metric::CpuPerMessage],
        charts: vec![
            lines("Messages per second", Metric::Rate, "producers", Some("size")),
            lines("Bytes per second", Metric::ByteRate, "producers", Some("size")),
        ],
        cases: sizes.flat_map(|&size| (1..=PRODUCERS_MAX).map(move |n| case(size, n))).collect(),
        ..Plan::default()
    }
}

/// Consumers with different prefetch counts.
pub(crate) fn prefetch_x_consumers(Settings { scale }: Settings) -> Plan {
    let case = |prefetch: u32, n: u32| {
        RowPlan::new(format!("prefetch {prefetch}, {n} consumers"), Metric::ReceiveRate)
            .number("prefetch", prefetch)
            .number("consumers", n)
            .load(Load::new(&format!("-x 1 -y {n} -q {prefetch}")).seconds(scale.seconds(SECONDS)))
    };
    Plan {
        name: "prefetch-x-consumers",
        title: "Prefetch and consumers",
        about: "One producer; every consumer has a queue of its own, gets all messages and acknowledges each; \
            each delivery counts. At the source a \
            prefetch of 1 to 2 gives 1.8 times the rate, from 50 on nothing changes, and consumers \
            beyond ten make it slower.",
        source: SOURCE,
        metrics: vec![Metric::ReceiveRate, Metric::CpuPerMessage, Metric::LatencyMedian],
        charts: vec![
            lines(
                "Messages delivered per second",
                Metric::ReceiveRate,
                "consumers",
                Some("prefetch"),
            )
            .x_log(),
        ],
        cases: PREFETCHES
            .iter()
            .flat_map(|&prefetch| CONSUMERS.iter().map(move |&n| case(prefetch, n)))
            .collect(),
        ..Plan::default()
    }
}
