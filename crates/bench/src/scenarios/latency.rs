//! Latency at shares of what each broker can do.

use crate::plan::{Case, Load, Plan, RowPlan, Work, bars, lines, metrics};
use crate::result::{Chart, Metric};
use crate::scenarios::Settings;

/// Seconds of a row.
const SECONDS: f64 = 10.0;
/// Shares of a broker's own maximum, percent.
const SHARES: [u32; 3] = [20, 50, 80];
const QUEUES: &str = "bench-latency-";
const BYSTANDER: &str = "bench-latency-bystander";
const N_QUEUES: [u32; 2] = [1, 30];
const X: &str = "percent of its maximum";
const LINES: &str = "queues";

/// The plan.
pub(crate) fn latency(settings: Settings) -> Plan {
    let seconds = settings.seconds.unwrap_or_else(|| settings.scale.seconds(SECONDS));
    Plan {
        name: "latency",
        title: "Latency under load",
        about: "First each broker's own maximum of persistent confirmed messages, by leveret perf; then the \
            time from publishing to delivery at 20, 50 and 80 % of that: median, 99th and 99.9th percentile, \
            longest. Beside each a bystander publishes 10 messages per second to a queue of its own.",
        source: "Leveret's own.",
        metrics: metrics! {
            LatencyMedian LatencyP99 LatencyP999 LatencyMax BystanderP99 BystanderMax ConfirmMedian
            ConfirmP99 Rate CpuPerMessage
        },
        charts: charts(),
        cases: N_QUEUES.map(|n| case(n, seconds)).into(),
        ..Plan::default()
    }
}

fn name(percent: u32, n_queues: u32) -> String {
    let plural = if n_queues == 1 { "" } else { "s" };
    format!("{n_queues} queue{plural}, {percent} %")
}

fn charts() -> Vec<Chart> {
    let shares = || N_QUEUES.iter().flat_map(|n| SHARES.map(|percent| name(percent, *n)));
    let maxima = N_QUEUES.map(|n| name(100, n));
    let of = |title: &str, metric| lines(title, metric, X, Some(LINES)).rows(shares());
    vec![
        of("Median latency", Metric::LatencyMedian),
        of("Latency, 99 %", Metric::LatencyP99),
        of("Latency, 99.9 %", Metric::LatencyP999),
        of("Longest latency", Metric::LatencyMax),
        of("The bystander, 99 %", Metric::BystanderP99),
        of("The bystander, longest", Metric::BystanderMax),
        bars("The maximum: messages per second", Metric::Rate).rows(maxima),
    ]
}

/// The maximum, then the shares of it.
fn case(n: u32, seconds: f64) -> Case {
    let row = |percent, metric| {
        RowPlan::new(name(percent, n), metric).number(X, percent).number(LINES, n)
    };
    let load = format!(
        "-x {n} -y {n} -f persistent -q 200 -c 200 -ad false -qp {QUEUES}%d -qpf 1 -qpt {n}"
    );
    let load = Load::new(&load).seconds(seconds);
    let bystander = format!("-x 1 -y 1 -f persistent -c 1 -r 10 -ad false -u {BYSTANDER}");
    let bystander = Load::new(&bystander).seconds(seconds);
    let maximum = row(100, Metric::Rate).load(load.clone()).queue(BYSTANDER).queues(QUEUES, n);
    SHARES.into_iter().fold(maximum, |case, percent| {
        let (load, bystander) = (load.clone(), bystander.clone());
        let work = Work::Share { percent, n_producers: n, load, bystander };
        case.row(row(percent, Metric::LatencyP99), work)
    })
}
