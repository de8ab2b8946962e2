//! Many queues, many connections, and the making and unmaking of both.

use crate::churn::Kind;
use crate::plan::{Case, Load, Plan, RowPlan, Work, bars, lines, metrics};
use crate::result::{Chart, Metric};
use crate::scenarios::Settings;

const SOURCE: &str = "Leveret's own.";
const SECONDS: f64 = 10.0;
const CHURN_CLIENTS: &[u32] = &[1, 10];

const IDLE: &str = "bench-idle-";
const BUSY: &str = "bench-busy-";
/// The largest crowd of which everything is in use at once.
const IN_USE_MAX: u32 = 1_000;
const PAIR: &str = "-x 1 -y 1 -a -u bench-pair";

/// Things that are made one after the other and kept, while a busy pair works beside them.
struct Crowd {
    /// The objects of the crowd, which is the parameter along the axis.
    of: &'static str,
    /// The verb for making one.
    making: &'static str,
    /// The title of a chart of how fast they are made.
    title: &'static str,
    numbers: &'static [u32],
    make: fn(u32) -> Work,
    /// The prefix of the queues that stay on the broker, if any do.
    leaves: Option<&'static str>,
}

const QUEUES: Crowd = Crowd {
    of: "queues",
    making: "declare",
    title: "Queues declared per second",
    numbers: &[1, 100, 1_000, 10_000],
    make: |n| Work::Queues { prefix: IDLE, n },
    leaves: Some(IDLE),
};

const CONNECTIONS: Crowd = Crowd {
    of: "connections",
    making: "open",
    title: "Connections opened per second",
    numbers: &[1, 100, 1_000, 5_000],
    make: Work::Connections,
    leaves: None,
};

impl Crowd {
    fn made(&self, n: u32) -> String {
        format!("{} {n}", self.making)
    }

    fn beside(n: u32) -> String {
        format!("a pair beside {n}")
    }

    /// A case per size of the crowd, of two rows each.
    fn cases(&self, seconds: f64) -> impl Iterator<Item = Case> + use<'_> {
        self.numbers.iter().map(move |&n| {
            let pair = Work::Load(vec![Load::new(PAIR).seconds(seconds)]);
            let row = |name, metric| RowPlan::new(name, metric).number(self.of, n);
            let beside = row(Self::beside(n), Metric::Rate).relative_to(&Self::beside(1));
            let made = row(self.made(n), Metric::OperationRate);
            let case = Case::of(made, (self.make)(n)).row(beside, pair);
            match self.leaves {
                Some(prefix) => case.queues(prefix, n),
                None => case,
            }
        })
    }

    /// Charts of the rate at which the crowd is made, and of its effect on the pair.
    fn charts(&self) -> Vec<Chart> {
        let made = self.numbers.iter().map(|n| self.made(*n));
        let beside = self.numbers.iter().map(|n| Self::beside(*n));
        let title = format!("A busy pair beside idle {}: messages per second", self.of);
        vec![
            lines(self.title, Metric::OperationRate, self.of, None).x_log().rows(made),
            lines(&title, Metric::Rate, self.of, None).x_log().rows(beside),
        ]
    }
}

/// As many publishers and consumers, each pair with its own queue.
fn pairs(name: String, metric: Metric, of: &str, n: u32, options: &str, seconds: f64) -> Case {
    let options = format!("-x {n} -y {n} {options} -qp {BUSY}%d -qpf 1 -qpt {n}");
    let row = RowPlan::new(name, metric).number(of, n);
    row.load(Load::new(&options).seconds(seconds)).queues(BUSY, n)
}

fn crowd_plan(
    [name, title, about]: [&'static str; 3],
    cases: Vec<Case>,
    charts: Vec<Chart>,
) -> Plan {
    Plan {
        name,
        title,
        about,
        source: SOURCE,
        metrics: metrics! {
            Rate OperationRate OperationP99 MemoryEach CpuPerMessage CpuPerOperation LatencyMedian
            Relative
        },
        charts,
        cases,
        ..Plan::default()
    }
}

/// Declaring queues, what they weigh, and a pair beside them; then all of them in use.
pub(crate) fn many_queues(Settings { scale, .. }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let in_use = || QUEUES.numbers.iter().filter(|n| **n <= IN_USE_MAX);
    let name = |n: &u32| format!("{n} in use");
    let busy = "-c 10 -q 10 -ad false";
    let busy = in_use().map(|n| pairs(name(n), Metric::Rate, QUEUES.of, *n, busy, seconds));
    let mut charts = QUEUES.charts();
    charts.push(
        lines("All in use: messages per second", Metric::Rate, QUEUES.of, None)
            .x_log()
            .rows(in_use().map(name)),
    );
    crowd_plan(
        [
            "many-queues",
            "Many queues",
            "Durable queues declared one after the other, what each weighs in memory, and a busy pair \
             beside them; then as many queues in use, each with its publisher and its consumer.",
        ],
        QUEUES.cases(seconds).chain(busy).collect(),
        charts,
    )
}

/// Opening connections, what they weigh, and a pair beside them; then many that say little.
pub(crate) fn many_connections(Settings { scale, .. }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let slow = || CONNECTIONS.numbers.iter().filter(|n| (100..=IN_USE_MAX).contains(*n));
    let name = |n: &u32| format!("{n} slow pairs");
    let options = "-P 1 -c 1 -prsd 1";
    let cases =
        slow().map(|n| pairs(name(n), Metric::CpuPerMessage, CONNECTIONS.of, *n, options, seconds));
    let mut charts = CONNECTIONS.charts();
    charts.push(
        bars("Slow pairs: the broker's CPU time per message", Metric::CpuPerMessage)
            .rows(slow().map(name)),
    );
    crowd_plan(
        [
            "many-connections",
            "Many connections",
            "Connections with a channel each, opened one after the other, what each weighs in memory, \
             and a busy pair beside them; then pairs that send one message a second each.",
        ],
        CONNECTIONS.cases(seconds).chain(cases).collect(),
        charts,
    )
}

/// Making and unmaking.
pub(crate) fn churn(Settings { scale, .. }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let case = |kind: Kind, n_clients: u32| {
        let clients = if n_clients == 1 { "client" } else { "clients" };
        let row =
            RowPlan::new(format!("{}, {n_clients} {clients}", kind.name()), Metric::OperationRate)
                .text("what", kind.what())
                .number("clients", n_clients);
        Case::of(row, Work::Churn { kind, n_clients, seconds })
    };
    Plan {
        name: "churn",
        title: "Churn",
        about: "Things made and unmade over and over, each client waiting for every answer. One operation \
            is both.",
        source: SOURCE,
        metrics: metrics! { OperationRate OperationMedian OperationP99 CpuPerOperation },
        charts: vec![
            bars("Operations per second", Metric::OperationRate),
            bars("Broker's CPU time per operation", Metric::CpuPerOperation),
        ],
        cases: Kind::ALL
            .iter()
            .flat_map(|&kind| CHURN_CLIENTS.iter().map(move |&n| case(kind, n)))
            .collect(),
        ..Plan::default()
    }
}
