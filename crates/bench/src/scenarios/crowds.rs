//! Many queues, many connections, and the making and unmaking of both.

use crate::churn::Kind;
use crate::plan::{Case, Load, Plan, RowPlan, Step, bars, lines};
use crate::result::Metric;
use crate::scenarios::Settings;

const SOURCE: &str = "Leveret's own.";
const SECONDS: f64 = 10.0;
const QUEUES: &[u32] = &[1, 100, 1_000, 10_000];
const CONNECTIONS: &[u32] = &[1, 100, 1_000, 5_000];
const CHURN_CLIENTS: &[u32] = &[1, 10];

const IDLE: &str = "bench-idle-";
const BUSY: &str = "bench-busy-";
const PAIR: &str = "-x 1 -y 1 -a -u bench-pair";

/// Declaring queues, what they weigh, and a pair beside them; then all of them in use.
pub(crate) fn many_queues(Settings { scale }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let crowd = |&n: &u32| Case {
        rows: vec![
            RowPlan::new(format!("declare {n}"), Metric::OperationRate).number("queues", n),
            RowPlan::new(format!("a pair beside {n}"), Metric::Rate)
                .number("queues", n)
                .relative_to("a pair beside 1"),
        ],
        steps: vec![
            Step::Queues { row: Some(0), prefix: IDLE, n },
            Step::Load { row: Some(1), loads: vec![Load::new(PAIR).seconds(seconds)] },
        ],
        queues: Vec::new(),
        floor: None,
    };
    let busy = |&n: &u32| {
        let options = format!("-x {n} -y {n} -c 10 -q 10 -ad false -qp {BUSY}%d -qpf 1 -qpt {n}");
        RowPlan::new(format!("{n} in use"), Metric::Rate)
            .number("queues", n)
            .load(Load::new(&options).seconds(seconds))
            .queues(BUSY, n)
    };
    let beside = QUEUES.iter().map(|n| format!("a pair beside {n}"));
    let declared = QUEUES.iter().map(|n| format!("declare {n}"));
    let in_use = QUEUES.iter().filter(|n| **n <= 1_000);
    let mut cases: Vec<Case> = QUEUES.iter().map(crowd).map(idle_queues).collect();
    cases.extend(in_use.clone().map(busy));
    Plan {
        name: "many-queues",
        title: "Many queues",
        about: "Durable queues declared one after the other, what each weighs in memory, and a busy pair \
            beside them; then as many queues in use, each with its publisher and its consumer.",
        source: SOURCE,
        metrics: vec![
            Metric::Rate,
            Metric::OperationRate,
            Metric::OperationP99,
            Metric::MemoryEach,
            Metric::CpuPerMessage,
            Metric::CpuPerOperation,
            Metric::Relative,
        ],
        charts: vec![
            lines("Queues declared per second", Metric::OperationRate, "queues", None)
                .x_log()
                .rows(declared),
            lines(
                "A busy pair beside idle queues: messages per second",
                Metric::Rate,
                "queues",
                None,
            )
            .x_log()
            .rows(beside),
            lines("All in use: messages per second", Metric::Rate, "queues", None)
                .x_log()
                .rows(in_use.map(|n| format!("{n} in use"))),
        ],
        cases,
        has_versions: false,
        has_floor: false,
    }
}

fn idle_queues(case: Case) -> Case {
    let n = case.steps.iter().find_map(|step| match step {
        Step::Queues { n, .. } => Some(*n),
        Step::Load { .. } | Step::Background(_) | Step::Connections { .. } | Step::Churn { .. } => {
            None
        }
    });
    case.queues(IDLE, n.unwrap_or(0))
}

/// Opening connections, what they weigh, and a pair beside them; then many that say little.
pub(crate) fn many_connections(Settings { scale }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let crowd = |&n: &u32| Case {
        rows: vec![
            RowPlan::new(format!("open {n}"), Metric::OperationRate).number("connections", n),
            RowPlan::new(format!("a pair beside {n}"), Metric::Rate)
                .number("connections", n)
                .relative_to("a pair beside 1"),
        ],
        steps: vec![
            Step::Connections { row: Some(0), n },
            Step::Load { row: Some(1), loads: vec![Load::new(PAIR).seconds(seconds)] },
        ],
        queues: Vec::new(),
        floor: None,
    };
    let slow = |&n: &u32| {
        let options = format!("-x {n} -y {n} -P 1 -c 1 -prsd 1 -qp {BUSY}%d -qpf 1 -qpt {n}");
        RowPlan::new(format!("{n} slow pairs"), Metric::CpuPerMessage)
            .number("connections", n)
            .load(Load::new(&options).seconds(seconds))
            .queues(BUSY, n)
    };
    let beside = CONNECTIONS.iter().map(|n| format!("a pair beside {n}"));
    let opened = CONNECTIONS.iter().map(|n| format!("open {n}"));
    let mut cases: Vec<Case> = CONNECTIONS.iter().map(crowd).collect();
    cases.extend(CONNECTIONS.iter().filter(|n| (100..=1_000).contains(*n)).map(slow));
    Plan {
        name: "many-connections",
        title: "Many connections",
        about: "Connections with a channel each, opened one after the other, what each weighs in memory, \
            and a busy pair beside them; then pairs that send one message a second each.",
        source: SOURCE,
        metrics: vec![
            Metric::Rate,
            Metric::OperationRate,
            Metric::OperationP99,
            Metric::MemoryEach,
            Metric::CpuPerMessage,
            Metric::CpuPerOperation,
            Metric::LatencyMedian,
            Metric::Relative,
        ],
        charts: vec![
            lines("Connections opened per second", Metric::OperationRate, "connections", None)
                .x_log()
                .rows(opened),
            lines(
                "A busy pair beside idle connections: messages per second",
                Metric::Rate,
                "connections",
                None,
            )
            .x_log()
            .rows(beside),
        ],
        cases,
        has_versions: false,
        has_floor: false,
    }
}

/// Making and unmaking.
pub(crate) fn churn(Settings { scale }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let case = |kind: Kind, n_clients: u32| {
        let clients = if n_clients == 1 { "client" } else { "clients" };
        let row =
            RowPlan::new(format!("{}, {n_clients} {clients}", kind.name()), Metric::OperationRate)
                .text("what", kind.what())
                .number("clients", n_clients);
        Case::of(row, vec![Step::Churn { row: 0, kind, n_clients, seconds }])
    };
    Plan {
        name: "churn",
        title: "Churn",
        about: "Things made and unmade over and over, each client waiting for every answer. One operation \
            is both.",
        source: SOURCE,
        metrics: vec![
            Metric::OperationRate,
            Metric::OperationMedian,
            Metric::OperationP99,
            Metric::CpuPerOperation,
        ],
        charts: vec![
            bars("Operations per second", Metric::OperationRate),
            bars("Broker's CPU time per operation", Metric::CpuPerOperation),
        ],
        cases: Kind::ALL
            .iter()
            .flat_map(|&kind| CHURN_CLIENTS.iter().map(move |&n| case(kind, n)))
            .collect(),
        has_versions: false,
        has_floor: false,
    }
}
