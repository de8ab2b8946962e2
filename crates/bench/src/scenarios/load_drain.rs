//! A large backlog built up, then emptied.

use crate::plan::{Case, Load, Plan, RowPlan, Scale, Step, bars, over_time};
use crate::result::Metric;
use crate::scenarios::Settings;

/// Name and messages.
const BACKLOGS: &[(&str, u32)] = &[("500 k", 500_000), ("10 M", 10_000_000)];
/// Messages up to which rates are taken ten times a second. Slow brokers take an hour for many.
const SHORT: u64 = 1_000_000;
/// The row without a backlog, which the others are compared with.
const SHORT_QUEUE: &str = "short queue";
const SHORT_QUEUE_SECONDS: f64 = 15.0;
const QUEUE: &str = "bench-load-drain";

/// The plan.
pub(crate) fn load_drain(Settings { scale }: Settings) -> Plan {
    let backlogs = BACKLOGS.iter().map(|(name, n)| case(name, *n, scale));
    let cases = std::iter::once(short_queue(scale)).chain(backlogs).collect();
    Plan {
        name: "load-drain",
        title: "Load and drain",
        about: "Transient messages are published into a queue nobody consumes, then all are consumed. \
            Rates should be flat, and nothing should stand still for long. In the row `short queue` the \
            consumer is there from the start; `relative` is the part of its rate that loading and draining \
            reach.",
        source: "RabbitMQ Performance Measurements, part 2 (rabbitmq.com, 2012-04-25): 500,000 messages \
            load at about 30,000/s in 15 s and drain at 65,000 to 75,000/s; 10,000,000 load in bursts \
            with a pause of 150 to 330 s and drain at 1,000 to 12,000/s.",
        metrics: vec![
            Metric::Rate,
            Metric::Relative,
            Metric::LongestPause,
            Metric::MemoryPeak,
            Metric::Duration,
            Metric::PerCpuSecond,
        ],
        charts: vec![
            over_time("Messages per second over time", Metric::Rate).rows(over_time_rows()),
            over_time("The broker's memory over time", Metric::MemoryPeak).rows(over_time_rows()),
            bars("Messages per second", Metric::Rate),
            bars("Rate as a part of the short queue's", Metric::Relative).linear(),
            bars("Longest time in which nothing moved", Metric::LongestPause).linear(),
            bars("Most memory", Metric::MemoryPeak).linear(),
        ],
        cases,
        ..Plan::default()
    }
}

fn rows(name: &str) -> [String; 2] {
    [format!("load {name}"), format!("drain {name}")]
}

fn over_time_rows() -> Vec<String> {
    BACKLOGS.iter().flat_map(|(name, _)| rows(name)).collect()
}

fn short_queue(scale: Scale) -> Case {
    let load = Load::new(&format!("-x 1 -y 1 -a -u {QUEUE} -ad false"));
    let row = RowPlan::new(SHORT_QUEUE, Metric::Rate).relative_to(SHORT_QUEUE);
    row.load(load.seconds(scale.seconds(SHORT_QUEUE_SECONDS))).queue(QUEUE)
}

fn case(name: &str, n: u32, scale: Scale) -> Case {
    let messages = scale.count(n);
    let interval = if messages <= SHORT { "0.1" } else { "0.2" };
    let row = |name: String| {
        RowPlan::new(name, Metric::Rate)
            .text("messages", messages.to_string())
            .relative_to(SHORT_QUEUE)
    };
    let load = |options: &str| {
        vec![Load::new(&format!("{options} -u {QUEUE} -ad false")).with("-i", interval)]
    };
    Case {
        rows: rows(name).map(row).into(),
        steps: vec![
            Step::Load { row: Some(0), loads: load(&format!("-x 1 -y 0 -C {messages}")) },
            Step::Load { row: Some(1), loads: load(&format!("-x 0 -y 1 -a -D {messages}")) },
        ],
        queues: vec![QUEUE.to_owned()],
        baseline: None,
    }
}
