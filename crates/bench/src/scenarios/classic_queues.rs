//! Classic queues as RabbitMQ's team measures them before a release, for each queue version.

use crate::plan::{Case, Load, Plan, RowPlan, Scale, Step, Variants, bars, number, over_time};
use crate::result::Metric;
use crate::scenarios::Settings;

const SOURCE: &str = "RabbitMQ 3.13 classic queues (rabbitmq.com, 2024-01-11) and main/script.sh of \
    github.com/rabbitmq/testing: 5 min per test, durable queues, persistent messages. Policies of the \
    script are queue arguments here. Published figures: version 2 of RabbitMQ 3.13 on 14 cores.";
const PUBLISHED_BY: &str = "RabbitMQ 3.13.0-rc.4, queue version 2, 14 cores";
const SECONDS: f64 = 300.0;
/// The start of late consumers.
const LATE_SECONDS: f64 = 150.0;
const SIZES: &[u32] = &[100, 5_000];
/// Options that every test of the source has.
const ALWAYS: &str = "-ad false -f persistent";
/// Publishers begin within that time.
const START_SECONDS: f64 = 1.0;
/// Time to live of the messages that are to expire.
const EXPIRE_SECONDS: f64 = 10.0;

/// Parameters of the rows of one body size.
#[derive(Clone, Copy)]
struct Test {
    scale: Scale,
    size: u32,
}

impl Test {
    fn row(self, name: &str, metric: Metric) -> RowPlan {
        RowPlan::new(format!("{name}, {} B", self.size), metric)
            .text("test", name)
            .number("size", self.size)
    }

    fn load(self, options: &str) -> Load {
        let seconds = self.scale.seconds(SECONDS);
        Load::new(&format!("{options} -s {} {ALWAYS}", self.size))
            .with("-prsd", &number(self.scale.wait(START_SECONDS)))
            .seconds(seconds)
    }

    /// A row of one load generator on one queue.
    fn one(self, name: &str, metric: Metric, options: &str) -> Case {
        let load = self.load(options).with("-u", "bench-classic");
        self.row(name, metric).load(load).queue("bench-classic")
    }
}

/// The plan.
pub(crate) fn classic_queues(Settings { scale }: Settings) -> Plan {
    let tests = SIZES.iter().map(|&size| Test { scale, size });
    let cases: Vec<Case> =
        tests.flat_map(|test| blog(test).into_iter().chain(suite(test))).collect();
    let both =
        |name: &str| SIZES.iter().map(|size| format!("{name}, {size} B")).collect::<Vec<_>>();
    Plan {
        name: "classic-queues",
        title: "Classic queues",
        about: "Five tests for small messages and for messages that RabbitMQ keeps in its shared store, \
            a test of conversion, and the rest of the suite. `consume only` empties what `publish \
            only` has left. What `fanout10` writes to disk per message tells whether ten queues share one \
            body. A target with `version=both` is measured with both queue versions.",
        source: SOURCE,
        metrics: vec![
            Metric::Rate,
            Metric::LatencyMedian,
            Metric::ConfirmMedian,
            Metric::PerCpuSecond,
            Metric::MemoryPeak,
            Metric::WrittenEach,
            Metric::LongestPause,
        ],
        charts: vec![
            bars("Messages per second", Metric::Rate),
            over_time("Publish only: messages per second", Metric::Rate).rows(both("publish only")),
            over_time("Consume only: messages per second", Metric::Rate).rows(both("consume only")),
            bars("Five flows: median latency", Metric::LatencyMedian).rows(both("five flows")),
            bars("Five flows: most memory", Metric::MemoryPeak).rows(both("five flows")).linear(),
            bars("One at a time: median confirm latency", Metric::ConfirmMedian)
                .rows(both("confirm latency")),
            bars("Fan-out to ten queues: bytes written to disk per message", Metric::WrittenEach)
                .rows(both("fanout10"))
                .linear(),
        ],
        cases,
        variants: Variants::QueueVersions,
        ..Plan::default()
    }
}

/// The tests the blog post shows.
fn blog(test: Test) -> Vec<Case> {
    let published = |small: f64, large: f64| if test.size == 100 { small } else { large };
    let mut both =
        test.one("publish and consume", Metric::Rate, "-x 1 -y 1 -c 3000 -qa x-max-length=5000000");
    let mut latency = test.one(
        "confirm latency",
        Metric::ConfirmMedian,
        "-x 1 -y 1 -c 1 -qa x-max-length=1000000",
    );
    let flows = test.load(
        "-x 5 -y 5 -r 10000 -c 500 -qp bench-fivers-%d -qpf 1 -qpt 5 -qa x-max-length=1000000",
    );
    let by = |row: RowPlan, value| row.published(PUBLISHED_BY, value);
    both.rows = both.rows.into_iter().map(|row| by(row, published(41_388.0, 18_696.0))).collect();
    latency.rows =
        latency.rows.into_iter().map(|row| by(row, published(2_060.0, 1_650.0))).collect();
    let flows = by(test.row("five flows", Metric::LatencyMedian), published(5_460.0, 134_000.0))
        .load(flows)
        .queues("bench-fivers-", 5);
    let mut conversion = test.row("conversion", Metric::Duration);
    conversion.not_offered = Some("a policy asks for it, and AMQP 0-9-1 cannot set one");
    vec![both, publish_then_consume(test), flows, latency, Case::of(conversion, Vec::new())]
}

fn publish_then_consume(test: Test) -> Case {
    let queue = "bench-publish-then-consume";
    let published = |small: f64, large: f64| if test.size == 100 { small } else { large };
    let load = |options: &str| {
        let options = format!("{options} -u {queue} -qa x-max-length=5000000");
        vec![test.load(&options)]
    };
    Case {
        rows: vec![
            test.row("publish only", Metric::Rate)
                .published(PUBLISHED_BY, published(52_158.0, 28_608.0)),
            test.row("consume only", Metric::Rate)
                .published(PUBLISHED_BY, published(44_173.0, 15_600.0)),
        ],
        steps: vec![
            Step::Load { row: Some(0), loads: load("-x 2 -y 0 -c 700") },
            Step::Load { row: Some(1), loads: load("-x 0 -y 1 -q 300 -ew empty") },
        ],
        queues: vec![queue.to_owned()],
        baseline: None,
    }
}

/// The rest of the script.
fn suite(test: Test) -> Vec<Case> {
    let late = number(test.scale.seconds(LATE_SECONDS));
    let fanout = test.load(
        "-x 1 -y 10 -c 100 -e amq.fanout -t fanout -qp bench-fanout-%d -qpf 1 -qpt 10 \
         -qa x-max-length=1000000",
    );
    let thousand = test.load(
        "-x 1000 -y 1000 -P 0.1 -c 1 -qp bench-thousand-%d -qpf 1 -qpt 1000 \
         -qa x-max-length=1000000",
    );
    vec![
        test.row("fanout10", Metric::ReceiveRate).load(fanout).queues("bench-fanout-", 10),
        test.one(
            "seven thousand slow, one queue",
            Metric::ConfirmMedian,
            "-x 7000 -y 7 -P 1 -c 1 -qa x-max-length=1000000",
        ),
        test.row("thousand slow, thousand queues", Metric::ConfirmMedian)
            .load(thousand)
            .queues("bench-thousand-", 1_000),
        test.one(
            "consumers join late",
            Metric::Rate,
            &format!("-x 1 -c 100 -y 10 -q 300 -r 10000 -qa x-max-length=1000000 -csd {late}"),
        ),
        test.one(
            "consumers join late, single active",
            Metric::Rate,
            &format!(
                "-x 1 -c 100 -q 300 -y 50 -r 10000 \
                 -qa x-max-length=1000000,x-single-active-consumer=true -csd {late}"
            ),
        ),
        test.one("multiack", Metric::Rate, "-x 1 -y 1 -c 3000 -A 1000 -qa x-max-length=1000000"),
        expire(test),
        nack(test),
    ]
}

/// Arguments for a queue whose dead letters go to another by the default exchange.
fn dead_letters_to(queue: &str) -> String {
    format!("-qa x-dead-letter-exchange= -qa x-dead-letter-routing-key={queue}")
}

fn declare(test: Test, queue: &str) -> Step {
    let load = Load::new(&format!("-x 1 -y 0 -C 1 -c 1 -s {} -u {queue} {ALWAYS}", test.size));
    Step::Load { row: None, loads: vec![load] }
}

/// Messages that expire and become dead letters.
fn expire(test: Test) -> Case {
    let (queue, dead) = ("bench-expire", "bench-expired");
    let ms = (test.scale.wait(EXPIRE_SECONDS) * 1e3).max(1.0);
    let load = test.load(&format!(
        "-x 1 -y 0 -c 1 -u {queue} -mp expiration={ms:.0} {}",
        dead_letters_to(dead)
    ));
    let steps = vec![declare(test, dead), Step::Load { row: Some(0), loads: vec![load] }];
    Case::of(test.row("expire into dead letters", Metric::Rate), steps).queue(queue).queue(dead)
}

/// Messages that are refused one by one and become dead letters.
fn nack(test: Test) -> Case {
    let (queue, dead) = ("bench-nack", "bench-nacked");
    let arguments = format!("-u {queue} -qa x-max-length=250000 {}", dead_letters_to(dead));
    Case {
        rows: vec![
            test.row("publish to nack", Metric::Rate),
            test.row("nack into dead letters", Metric::Rate),
        ],
        steps: vec![
            declare(test, dead),
            Step::Load {
                row: Some(0),
                loads: vec![test.load(&format!("-x 1 -y 0 -c 1 {arguments}"))],
            },
            Step::Load {
                row: Some(1),
                loads: vec![test.load(&format!("-x 0 -y 4 -na -re false -ew empty {arguments}"))],
            },
        ],
        queues: vec![queue.to_owned(), dead.to_owned()],
        baseline: None,
    }
}
