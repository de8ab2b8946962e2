//! Streams beside what the machine itself needs, many consumers, and what is published slowly.

use crate::plan::{
    Baseline, BaselineKind, Case, Fill, Goal, Load, Plan, RowPlan, Scale, Work, bars, metrics,
    names,
};
use crate::result::Metric;
use crate::scenarios::Settings;

const SECONDS: f64 = 10.0;
/// Messages of a stream that is read from its beginning.
const MESSAGES: u32 = 3_000_000;
/// Deliveries per second of a crowd at the tail, and how many consumers share them.
const TAIL_DELIVERIES: u32 = 50_000;
const TAIL: [u32; 2] = [10, 1_000];
/// The CPU time that a delivery to one of many may take, as a part of that to one of a few.
const TAIL_SHARE: f64 = 1.3;
/// Messages per second that are published for a while, and then read from the beginning.
const INGRESS: [u32; 4] = [10, 100, 1_000, 10_000];
const STREAM: &str = "bench-streams";
/// Bytes on the wire of a message of 12 B: published in a batch of 100, published alone, and delivered in a
/// chunk of its own to a client of the newest version.
const PUBLISHED: u32 = 29;
const PUBLISHED_ALONE: u32 = 42;
const DELIVERED: u32 = 86;
/// Messages of a large chunk, and bytes on the wire of each, of 1,000 B.
const LARGE: u32 = 500;
const DELIVERED_LARGE: u32 = 1_012;

/// The plan.
pub(crate) fn streams(Settings { scale, .. }: Settings) -> Plan {
    let floors = floors(scale);
    let tail = TAIL.map(|n| at_tail(n, scale));
    let ingress = INGRESS.map(|rate| caught_up(rate, scale));
    Plan {
        name: "streams",
        title: "Streams",
        about: "What streams cost beside a process that only passes on as many bytes as are published or \
            delivered (the floor), as much at once as comes. A client with 50 credits has at most 50 \
            chunks on their way, which that has not; beside it is one that sends as many bytes for \
            each credit. Large chunks are beside a process that sends a file (sendfile). Then a crowd at the tail, with as many \
            deliveries whatever its size: a message is delivered 10 times, and 1,000 times. Last \
            streams that were published to slowly, read from the beginning.",
        source: "Leveret's own.",
        metrics: metrics! { CpuPerMessage PerCpuSecond Rate LatencyMedian ChunkSize Relative },
        charts: vec![
            bars("CPU time per message", Metric::CpuPerMessage).rows(names(&floors)),
            bars("At the tail: CPU time per message published", Metric::CpuPerMessage)
                .rows(names(&tail)),
            bars("Published slowly, then read: messages per second", Metric::Rate)
                .rows(names(&ingress)),
            bars("The chunks that formed", Metric::ChunkSize).rows(names(&ingress)),
        ],
        cases: floors.into_iter().chain(tail).chain(ingress).collect(),
        has_floor: true,
        ..Plan::default()
    }
}

fn floors(scale: Scale) -> Vec<Case> {
    let seconds = scale.seconds(SECONDS);
    let kind = |kind| Baseline { kind, seconds };
    let n = scale.count(MESSAGES);
    let publish = format!("stream -x 1 -y 0 -s 12 --streams {STREAM}");
    let row = |name: &str, metric, times| RowPlan::new(name, metric).goal(Goal::Floor(times));
    let read = |row: RowPlan, credits: u32, fill: Fill, floor| {
        let options = format!(
            "stream -x 0 -y 1 -o first -ic {credits} -nl --cmessages {} --streams {STREAM}",
            fill.n_messages
        );
        Case::default().first(Work::Fill(fill)).row(row, Work::load(&options)).baseline(kind(floor))
    };
    let consume = |name: &str, credits: u32, floor| {
        let fill = Fill { stream: STREAM, n_messages: n, size: 12, chunk: 1 };
        read(row(name, Metric::CpuPerMessage, 4.0), credits, fill, floor)
    };
    let bytes = BaselineKind::Bytes { of_message: DELIVERED };
    let window = BaselineKind::Window { of_message: DELIVERED, credits: 50 };
    let large = Fill { stream: STREAM, n_messages: n / 3, size: 1_000, chunk: LARGE };
    let send_file = BaselineKind::SendFile { of_message: DELIVERED_LARGE };
    let cases = [
        row("publish, 12 B, confirms", Metric::CpuPerMessage, 3.0)
            .load(Load::new(&publish).seconds(seconds))
            .baseline(kind(BaselineKind::Bytes { of_message: PUBLISHED })),
        Case::of(
            row("publish and consume, one at a time", Metric::LatencyMedian, 1.5),
            Work::OneByOne { stream: STREAM, seconds },
        )
        .baseline(kind(BaselineKind::OneByOne { of_message: PUBLISHED_ALONE })),
        consume("consume, 12 B, 1 per chunk, 50 credits", 50, bytes),
        consume("the same beside the same window", 50, window),
        consume("consume, 12 B, 1 per chunk, 5,000 credits", 5_000, bytes),
        read(
            row("consume, 1,000 B, 500 per chunk", Metric::CpuPerMessage, 1.2),
            50,
            large,
            send_file,
        ),
    ];
    cases.into_iter().map(|case| case.queue(STREAM)).collect()
}

fn tail_name(n: u32) -> String {
    format!("{n} consumers at the tail")
}

fn at_tail(n: u32, scale: Scale) -> Case {
    let [few, _] = TAIL;
    let row = RowPlan::new(tail_name(n), Metric::CpuPerMessage).relative_to(&tail_name(few));
    let row = if n == few { row } else { row.goal(Goal::Share(TAIL_SHARE * f64::from(n / few))) };
    let rate = TAIL_DELIVERIES / n;
    let options = format!("stream -x 1 -y {n} -cbc 10 -s 12 -bs 1 -r {rate} --streams {STREAM}");
    row.load(Load::new(&options).seconds(scale.seconds(SECONDS))).queue(STREAM)
}

fn caught_up(rate: u32, scale: Scale) -> Case {
    let seconds = scale.seconds(SECONDS);
    let n = (f64::from(rate) * seconds).round().max(1.0);
    let publish = format!("stream -x 1 -y 0 -s 12 -r {rate} --pmessages {n} --streams {STREAM}");
    let read = format!("stream -x 0 -y 1 -o first -nl --cmessages {n} --streams {STREAM}");
    let row = RowPlan::new(format!("published at {rate}/s, read"), Metric::Rate);
    let row = row.number("published per second", rate);
    Case::default().first(Work::load(&publish)).row(row, Work::load(&read)).queue(STREAM)
}
