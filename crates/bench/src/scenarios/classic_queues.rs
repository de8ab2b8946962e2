//! Classic queues as RabbitMQ's team measures them before a release, for each queue version.

use crate::conversion::Queues;
use crate::plan::{
    Case, Load, Plan, RowPlan, Scale, Variants, Work, bars, metrics, number, over_time,
};
use crate::result::{Chart, Metric};
use crate::scenarios::Settings;

const SOURCE: &str = "RabbitMQ 3.13 classic queues (rabbitmq.com, 2024-01-11) and main/script.sh of \
    github.com/rabbitmq/testing: 5 min per test, durable queues, persistent messages. Policies of the \
    script are queue arguments here, and a backlog is 5 million messages rather than what 5 min leave \
    below the limit. Published figures: RabbitMQ 3.13.0-rc.4 and 3.12.11 on 14 cores; of consume only \
    with 100 B the greatest rate, of memory what is read off the pictures.";
/// The environments of the source: broker and queue version, in the order of its figures.
const ENVIRONMENTS: [(&str, &str); 4] = [
    ("RabbitMQ 3.13", "v2"),
    ("RabbitMQ 3.12", "v2"),
    ("RabbitMQ 3.13", "v1"),
    ("RabbitMQ 3.12", "v1"),
];
const SECONDS: f64 = 300.0;
/// Messages of a backlog.
const BACKLOG: u32 = 5_000_000;
/// Messages that are converted.
const CONVERTED: u32 = 1_000_000;
/// Points of the course of a measurement, which the source shows for each.
const POINTS: u32 = 100;
/// The time between these points, seconds: the least.
const INTERVAL_MIN: f64 = 0.1;
/// The start of late consumers.
const LATE_SECONDS: f64 = 150.0;
const SIZES: &[u32] = &[100, 5_000];
/// Options that every test of the source has.
const ALWAYS: &str = "-ad false -f persistent";
/// Publishers begin within that time.
const START_SECONDS: f64 = 1.0;
/// Time to live of the messages that are to expire.
const EXPIRE_SECONDS: f64 = 10.0;
const MIB: f64 = 1_048_576.0;

/// A conversion that RabbitMQ's documentation tells the seconds of, which stand beside those to version 2.
struct Conversion {
    name: &'static str,
    size: u32,
    n: u32,
    seconds: f64,
}

const CONVERSIONS: [Conversion; 3] = [
    Conversion { name: "conversion", size: 100, n: 1, seconds: 9.0 },
    Conversion { name: "conversion of 1000 queues", size: 100, n: 1_000, seconds: 2.0 },
    Conversion { name: "conversion", size: 5_000, n: 1, seconds: 3.0 },
];

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

    /// A load of the source's five minutes.
    fn load(self, options: &str) -> Load {
        self.unlimited(options).seconds(self.scale.seconds(SECONDS))
    }

    /// A load that its options end.
    fn unlimited(self, options: &str) -> Load {
        Load::new(&format!("{options} -s {} {ALWAYS}", self.size))
            .with("-prsd", &number(self.scale.wait(START_SECONDS)))
    }

    /// A load whose course has as many points as the source's pictures.
    fn course(self, options: &str) -> Load {
        let interval = (self.scale.seconds(SECONDS) / f64::from(POINTS)).max(INTERVAL_MIN);
        self.load(options).with("-i", &number(interval))
    }

    /// Adds what the source has measured in its environments, for this size of 100 B and 5 kB.
    fn published(self, row: RowPlan, metric: Metric, [small, large]: [[f64; 4]; 2]) -> RowPlan {
        let values = if self.size == 100 { small } else { large };
        let figures = ENVIRONMENTS.iter().zip(values);
        figures.fold(row, |row, ((by, version), value)| {
            row.published_of(metric, by, value).of_variant(version)
        })
    }

    /// A row of one load generator on one queue.
    fn one(self, name: &str, metric: Metric, options: &str) -> Case {
        let load = self.load(options).with("-u", "bench-classic");
        self.row(name, metric).load(load).queue("bench-classic")
    }
}

/// The plan.
pub(crate) fn classic_queues(Settings { scale, .. }: Settings) -> Plan {
    let tests = SIZES.iter().map(|&size| Test { scale, size });
    let cases: Vec<Case> =
        tests.flat_map(|test| blog(test).into_iter().chain(suite(test))).collect();
    Plan {
        name: "classic-queues",
        title: "Classic queues",
        about: "Five tests for small messages and for messages that RabbitMQ keeps in its shared store, \
            a test of conversion, and the rest of the suite. `publish only` ends after 5 million messages \
            times the scale, and `consume only` empties what it has left. What `fanout10` writes to disk \
            per message tells whether ten queues share one body. A target with `version=both` is measured \
            with both queue versions; a conversion is one to the version of its column, asked for by a \
            policy, which the broker's command-line tool sets: the target names it with ctl=COMMAND.",
        source: SOURCE,
        metrics: metrics! {
            Rate LatencyMean LatencyMedian ConfirmMean ConfirmMedian PerCpuSecond Memory MemoryPeak
            WrittenEach LongestPause Duration
        },
        charts: charts(),
        cases,
        variants: Variants::QueueVersions,
        ..Plan::default()
    }
}

/// The rows of a test.
fn both(name: &str) -> Vec<String> {
    SIZES.iter().map(|size| format!("{name}, {size} B")).collect()
}

fn charts() -> Vec<Chart> {
    let [flows, latency] = ["five flows", "confirm latency"].map(both);
    vec![
        bars("Messages per second", Metric::Rate),
        over_time("Publish and consume: messages per second", Metric::Rate)
            .rows(both("publish and consume")),
        over_time("Publish only: messages per second", Metric::Rate).rows(both("publish only")),
        over_time("Consume only: messages per second", Metric::Rate).rows(both("consume only")),
        over_time("Five flows: mean latency", Metric::LatencyMean).rows(flows.clone()),
        over_time("Five flows: memory", Metric::Memory).rows(flows.clone()),
        bars("Five flows: mean latency", Metric::LatencyMean).rows(flows.clone()),
        bars("Five flows: most memory", Metric::MemoryPeak).rows(flows).linear(),
        over_time("One at a time: messages per second", Metric::Rate).rows(latency.clone()),
        over_time("One at a time: mean confirm latency", Metric::ConfirmMean).rows(latency.clone()),
        bars("One at a time: messages per second", Metric::Rate).rows(latency.clone()),
        bars("One at a time: mean confirm latency", Metric::ConfirmMean).rows(latency),
        bars("Conversion to the version of the column: seconds", Metric::Duration)
            .rows(CONVERSIONS.map(|of| format!("{}, {} B", of.name, of.size)))
            .linear(),
        bars("Fan-out to ten queues: bytes written per message", Metric::WrittenEach)
            .rows(both("fanout10"))
            .linear(),
    ]
}

/// The tests the blog post shows.
fn blog(test: Test) -> Vec<Case> {
    let five = [publish_and_consume, publish_then_consume, five_flows, confirm_latency];
    let five = five.map(|case| case(test)).into_iter();
    let conversions = CONVERSIONS.iter().filter(|of| of.size == test.size);
    five.chain(conversions.map(|of| conversion(test, of))).collect()
}

fn publish_and_consume(test: Test) -> Case {
    let row = test.row("publish and consume", Metric::Rate);
    let rates = [[41_388., 35_620., 23_681., 18_979.], [18_696., 15_496., 13_714., 12_356.]];
    let load = test.course("-x 1 -y 1 -c 3000 -qa x-max-length=5000000 -u bench-classic");
    test.published(row, Metric::Rate, rates).load(load).queue("bench-classic")
}

fn five_flows(test: Test) -> Case {
    let row = test.row("five flows", Metric::LatencyMean);
    let latencies_us = [[5_460., 5_450., 9_350., 23_300.], [134e3, 107e3, 117e3, 128e3]];
    let row = test.published(row, Metric::LatencyMean, latencies_us);
    let memory = [[220., 200., 292., 292.], [405., 495., 428., 530.]];
    let row = test.published(row, Metric::Memory, memory.map(|of_size| of_size.map(|it| it * MIB)));
    let load = test.course(
        "-x 5 -y 5 -r 10000 -c 500 -qp bench-fivers-%d -qpf 1 -qpt 5 -qa x-max-length=1000000",
    );
    row.load(load).queues("bench-fivers-", 5)
}

fn confirm_latency(test: Test) -> Case {
    let row = test.row("confirm latency", Metric::ConfirmMean);
    let latencies_us = [[2_060., 2_020., 3_120., 4_210.], [1_650., 4_230., 4_290., 4_290.]];
    let row = test.published(row, Metric::ConfirmMean, latencies_us);
    let rates = [[898., 885., 409., 346.], [1_187., 339., 344., 328.]];
    let row = test.published(row, Metric::Rate, rates);
    let load = test.course("-x 1 -y 1 -c 1 -qa x-max-length=1000000 -u bench-classic");
    row.load(load).queue("bench-classic")
}

/// A backlog of so many messages, whatever the broker's speed: the same for both versions. By time a fast
/// broker would reach the queue's limit, and dropping would be measured.
fn publish_then_consume(test: Test) -> Case {
    let queue = "bench-publish-then-consume";
    let each = test.scale.count(BACKLOG).div_ceil(2);
    let messages = each * 2;
    let interval = (test.scale.0 * 2.0 * INTERVAL_MIN).clamp(INTERVAL_MIN, 2.0 * INTERVAL_MIN);
    let step = messages.div_ceil(u64::from(POINTS)).to_string();
    let load = |options: &str| {
        let options = format!("{options} -u {queue} -qa x-max-length={BACKLOG} --threads 1");
        let load = test.unlimited(&options).with("-i", &number(interval));
        Work::Load(vec![load.with("--interval-messages", &step)])
    };
    let published = [[52_158., 45_108., 24_201., 19_203.], [28_608., 23_268., 15_313., 15_599.]];
    let consumed = [[44_173., 40_382., 39_734., 36_023.], [15_600., 10_304., 14_575., 8_863.]];
    let row = |name: &str, rates| {
        let row = test.row(name, Metric::Rate).text("messages", messages.to_string());
        test.published(row, Metric::Rate, rates)
    };
    let consume = format!("-x 0 -y 1 -q 300 -D {messages} -ew empty");
    let publish = format!("-x 2 -y 0 -c 700 -C {each}");
    Case::of(row("publish only", published), load(&publish))
        .row(row("consume only", consumed), load(&consume))
        .queue(queue)
}

/// Messages in queues whose version a policy changes to that of the column.
fn conversion(test: Test, &Conversion { name, n, seconds, .. }: &Conversion) -> Case {
    let prefix = "bench-conversion-";
    let each = test.scale.count(CONVERTED / n);
    let [(by, version), ..] = ENVIRONMENTS;
    let row = test.row(name, Metric::Duration).published(by, seconds).of_variant(version);
    let row = row.text("messages", (each * u64::from(n)).to_string());
    let fill = format!("-x {n} -y 0 -c 100 -C {each} -p -qp {prefix}%d -qpf 1 -qpt {n}");
    let queues = Queues { prefix, n };
    Case::default()
        .first(Work::Queues { prefix, n })
        .first(Work::Convert(queues))
        .first(Work::Load(vec![test.unlimited(&fill)]))
        .row(row, Work::Convert(queues))
        .queues(prefix, n)
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

/// A case of queues whose dead letters go to the last, which is declared first.
fn dead_letters(test: Test, queue: &str, dead: &str) -> Case {
    let declare = format!("-x 1 -y 0 -C 1 -c 1 -s {} -u {dead} {ALWAYS}", test.size);
    Case::default().first(Work::load(&declare)).queue(queue).queue(dead)
}

/// Messages that expire and become dead letters.
fn expire(test: Test) -> Case {
    let (queue, dead) = ("bench-expire", "bench-expired");
    let ms = (test.scale.wait(EXPIRE_SECONDS) * 1e3).max(1.0);
    let load = test.load(&format!(
        "-x 1 -y 0 -c 1 -u {queue} -mp expiration={ms:.0} {}",
        dead_letters_to(dead)
    ));
    let row = test.row("expire into dead letters", Metric::Rate);
    dead_letters(test, queue, dead).row(row, Work::Load(vec![load]))
}

/// Messages that are refused one by one and become dead letters.
fn nack(test: Test) -> Case {
    let (queue, dead) = ("bench-nack", "bench-nacked");
    let arguments = format!("-u {queue} -qa x-max-length=250000 {}", dead_letters_to(dead));
    let publish = format!("-x 1 -y 0 -c 1 {arguments}");
    let nack = format!("-x 0 -y 4 -na -re false -ew empty {arguments}");
    dead_letters(test, queue, dead)
        .row(test.row("publish to nack", Metric::Rate), Work::Load(vec![test.load(&publish)]))
        .row(test.row("nack into dead letters", Metric::Rate), Work::Load(vec![test.load(&nack)]))
}
