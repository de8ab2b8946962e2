//! Many queues with two publishers and three consumers each, everything confirmed: when it is stored, or
//! once it was consumed.

use crate::plan::{Case, Load, Mean, Plan, RowPlan, Scale, Variants, Work, bars, lines, metrics};
use crate::result::{Chart, Metric};
use crate::scenarios::Settings;

const QUEUES_MAX: u32 = 30;
/// Queues up to which one exchange serves all.
const ONE_EXCHANGE_QUEUES_MAX: u32 = 15;
/// The source's mean is that over more queues than these.
const FEW_QUEUES: u32 = 3;
const SECONDS: f64 = 600.0;
const PREFIX: &str = "bench-confirm-";
const LEVELS: [&str; 2] = ["level 1 (ack) of the paper", "level 2 (ack-direct) of the paper"];
const CPU_ROW: &str = "transient 12 B, 1 -> 1";
const CPU_QUEUE: &str = "bench-confirm-cpu";
const CPU_SECONDS: f64 = 10.0;
const BASE: &str = "base";
const MEAN: &str = "mean of more than 3 queues";

/// A mode of confirming, by name and queue argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// Arguments of the queues.
    pub(crate) queue_arguments: &'static str,
    /// Whether gains refer to it.
    pub(crate) is_base: bool,
}

/// The modes Leveret has; the first is what it is judged by.
pub(crate) const MODES: &[Mode] = &[
    Mode { name: "ack", queue_arguments: "x-confirm-on=ack,x-queue-version=2", is_base: false },
    Mode {
        name: "ack-direct",
        queue_arguments: "x-confirm-on=ack-direct,x-queue-version=2",
        is_base: false,
    },
    Mode { name: "enqueue", queue_arguments: "x-queue-version=2", is_base: false },
    Mode { name: BASE, queue_arguments: "x-queue-version=1", is_base: true },
];

/// The plan.
pub(crate) fn confirm_on(Settings { scale, .. }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let sweep: Vec<Case> = (1..=QUEUES_MAX).map(|n| case(n, seconds)).collect();
    let names: Vec<String> = (1..=QUEUES_MAX).map(row_name).collect();
    let told = [1, 2, 15, 30].map(row_name);
    Plan {
        name: "confirm-on",
        title: "Confirms after consuming",
        about: "1 to 30 durable queues; per queue two publishing connections with two channels each and \
            three consuming connections with three channels each; persistent messages of 1500 B; \
            confirms and acknowledgements on. Up to 15 queues share one direct exchange, above that \
            two. Leveret is measured with x-confirm-on = ack and ack-direct (version 2 of queues), with \
            enqueue, which is to say without it, and with enqueue on queues of version 1: the base, \
            which gains refer to. Other brokers are measured as they are. Last the CPU time of a \
            small transient message, which the source has not measured.",
        source: "The experiments A and B of a paper on acknowledgements of small messages (RabbitMQ \
            3.6.6, PerfTest 1.2.0, everything on one machine, 10 minutes each). Its confirm window \
            is not published: 100 here.",
        metrics: metrics! { SendRate Gain PerCpuSecond CpuPerMessage ConfirmMedian ConfirmP99 },
        charts: figures(&names)
            .into_iter()
            .chain([
                lines("Messages published per second", Metric::SendRate, "queues", None)
                    .rows(names.clone()),
                lines("Gain over the base", Metric::Gain, "queues", None)
                    .rows(names.clone())
                    .linear(),
                bars("Gain over the base, where the source tells it", Metric::Gain)
                    .rows(told.into_iter().chain([MEAN.to_owned()]))
                    .linear(),
                bars("Messages per second of the broker's CPU time", Metric::PerCpuSecond)
                    .rows([CPU_ROW])
                    .linear(),
            ])
            .collect(),
        cases: sweep.into_iter().chain([cpu(scale)]).collect(),
        means: vec![mean()],
        variants: Variants::ConfirmModes,
        has_floor: false,
    }
}

fn row_name(n: u32) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} queue{plural}")
}

/// The source's figures 5 and 6: the rate of the base and of a level, and the gain, over the number of
/// queues.
fn figures(rows: &[String]) -> Vec<Chart> {
    let pair = |(number, level, mode): (u32, &str, &str)| {
        let title = |of: &str| format!("Figure {number} of the source: {of} of {level}");
        let rate = lines(&title("the base's rate and that"), Metric::SendRate, "queues", None);
        let gain = lines(&title("the gain"), Metric::Gain, "queues", None);
        let [rate, gain] = [rate, gain].map(|chart| chart.rows(rows).linear());
        [rate.variants(&[mode, BASE]), gain.variants(&[mode]).beside(level)]
    };
    let [first, second] = LEVELS;
    [(5, first, "ack"), (6, second, "ack-direct")].into_iter().flat_map(pair).collect()
}

/// The source's figures for levels 1 and 2, as parts of the base's rate.
fn published(n: u32) -> Option<[(f64, &'static str); 2]> {
    match n {
        1 => Some([(3.08, "3.08×"), (3.48, "3.48×")]),
        2 => Some([(2.01, "2.01×"), (2.16, "2.16×")]),
        15 => Some([(1.409, "+40.9 %"), (1.526, "+52.6 %")]),
        30 => Some([(1.403, "+40.3 %"), (1.534, "+53.4 %")]),
        _ => None,
    }
}

/// The source's mean over more than [`FEW_QUEUES`].
const PUBLISHED_MEAN: [(f64, &str); 2] = [(1.429, "+42.9 %"), (1.565, "+56.5 %")];

fn with_gains(row: RowPlan, gains: [(f64, &str); 2]) -> RowPlan {
    let gains = LEVELS.into_iter().zip(gains);
    gains.fold(row, |row, (level, (gain, text))| {
        row.published_of(Metric::Gain, level, gain).printed(text)
    })
}

fn mean() -> Mean {
    let of: Vec<String> = (FEW_QUEUES + 1..=QUEUES_MAX).map(row_name).collect();
    let row = with_gains(RowPlan::new(MEAN, Metric::Gain), PUBLISHED_MEAN);
    Mean { row, n_all: of.len(), of }
}

fn case(n: u32, seconds: f64) -> Case {
    let row = RowPlan::new(row_name(n), Metric::SendRate).number("queues", n);
    let row = match published(n) {
        Some(gains) => with_gains(row, gains),
        None => row,
    };
    let split = n.min(ONE_EXCHANGE_QUEUES_MAX);
    let mut loads = vec![load("bench-confirm-a", 1, split)];
    if n > split {
        loads.push(load("bench-confirm-b", split + 1, n));
    }
    let loads = loads.into_iter().map(|load| load.seconds(seconds)).collect();
    Case::of(row, Work::Load(loads)).queues(PREFIX, n)
}

/// The queues from one number to another, at their exchange.
fn load(exchange: &str, from: u32, to: u32) -> Load {
    let n = to - from + 1;
    let (publishers, consumers) = (2 * n, 3 * n);
    Load::new(&format!(
        "-x {publishers} -X 2 -y {consumers} -Y 3 -c 100 -f persistent -s 1500 -ad false \
         -e {exchange} -t direct -qp {PREFIX}%d -qpf {from} -qpt {to}"
    ))
}

/// A small message that is not persistent, confirmed and acknowledged.
fn cpu(scale: Scale) -> Case {
    let load = Load::new(&format!("-x 1 -y 1 -q 200 -c 200 -u {CPU_QUEUE}"));
    RowPlan::new(CPU_ROW, Metric::PerCpuSecond)
        .load(load.seconds(scale.seconds(CPU_SECONDS)))
        .queue(CPU_QUEUE)
}
