//! Many queues with two publishers and three consumers each, everything confirmed.

use crate::plan::{Case, Load, Plan, RowPlan, Step, lines};
use crate::result::Metric;
use crate::scenarios::Settings;

const QUEUES_MAX: u32 = 30;
/// Queues up to which one exchange serves all.
const ONE_EXCHANGE_QUEUES_MAX: u32 = 15;
const SECONDS: f64 = 600.0;
const PREFIX: &str = "bench-confirm-";

/// When a message is confirmed to its publisher.
#[derive(Clone, Copy, Debug)]
struct Mode {
    name: &'static str,
    /// Arguments of the queues.
    queue_arguments: Option<&'static str>,
}

/// The modes a broker can be asked for; those that confirm on the consumer's ack belong here.
const MODES: &[Mode] = &[Mode { name: "base", queue_arguments: None }];

/// The plan.
pub(crate) fn confirm_on(Settings { scale }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let numbers = 1..=QUEUES_MAX;
    let cases = MODES.iter().flat_map(|mode| numbers.clone().map(move |n| case(*mode, n, seconds)));
    Plan {
        name: "confirm-on",
        title: "Queues with confirms and acknowledgements",
        about: "1 to 30 durable queues; per queue two publishing connections with two channels each and \
            three consuming connections with three channels each; persistent messages of 1500 B; \
            confirms and acknowledgements on. Up to 15 queues share one direct exchange, above that \
            two. Mode base confirms a message when it is stored.",
        source: "The experiments A and B of a paper on acknowledgements of small messages (RabbitMQ \
            3.6.6, PerfTest 1.2.0, everything on one machine, 10 minutes each). The confirm window is \
            not told there: 100 here.",
        metrics: vec![
            Metric::SendRate,
            Metric::PerCpuSecond,
            Metric::ConfirmMedian,
            Metric::ConfirmP99,
        ],
        charts: vec![
            lines("Messages published per second", Metric::SendRate, "queues", Some("mode")),
            lines("Median confirm latency", Metric::ConfirmMedian, "queues", Some("mode")),
        ],
        cases: cases.collect(),
        has_versions: false,
        has_floor: false,
    }
}

fn case(mode: Mode, n: u32, seconds: f64) -> Case {
    let row = RowPlan::new(format!("{}, {n} queues", mode.name), Metric::SendRate)
        .text("mode", mode.name)
        .number("queues", n);
    let split = n.min(ONE_EXCHANGE_QUEUES_MAX);
    let mut loads = vec![load(mode, "bench-confirm-a", 1, split)];
    if n > split {
        loads.push(load(mode, "bench-confirm-b", split + 1, n));
    }
    let loads = loads.into_iter().map(|load| load.seconds(seconds)).collect();
    Case::of(row, vec![Step::Load { row: Some(0), loads }]).queues(PREFIX, n)
}

/// The queues from one number to another, at their exchange.
fn load(mode: Mode, exchange: &str, from: u32, to: u32) -> Load {
    let n = to - from + 1;
    let (publishers, consumers) = (2 * n, 3 * n);
    let load = Load::new(&format!(
        "-x {publishers} -X 2 -y {consumers} -Y 3 -c 100 -f persistent -s 1500 -ad false \
         -e {exchange} -t direct -qp {PREFIX}%d -qpf {from} -qpt {to}"
    ));
    match mode.queue_arguments {
        Some(arguments) => load.with("-qa", arguments),
        None => load,
    }
}
