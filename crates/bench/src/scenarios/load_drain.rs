//! A large backlog built up, then emptied.

use crate::plan::{Case, Load, Plan, RowPlan, Scale, Step, bars, over_time};
use crate::result::Metric;
use crate::scenarios::Settings;

/// Name and messages.
const BACKLOGS: &[(&str, u32)] = &[("500 k", 500_000), ("10 M", 10_000_000)];
/// Messages up to which rates are taken ten times a second.
const SHORT: u64 = 1_000_000;

/// The plan.
pub(crate) fn load_drain(Settings { scale }: Settings) -> Plan {
    Plan {
        name: "load-drain",
        title: "Load and drain",
        about: "Transient messages are published into a queue nobody consumes, then all are consumed. \
            Rates should be flat, and nothing should stand still for long.",
        source: "RabbitMQ Performance Measurements, part 2 (rabbitmq.com, 2012-04-25): 500,000 messages \
            load at about 30,000/s in 15 s and drain at 65,000 to 75,000/s; 10,000,000 load in bursts \
            with a pause of 150 to 330 s and drain at 1,000 to 12,000/s.",
        metrics: vec![
            Metric::Rate,
            Metric::LongestPause,
            Metric::MemoryPeak,
            Metric::Duration,
            Metric::PerCpuSecond,
        ],
        charts: vec![
            over_time("Messages per second over time", Metric::Rate),
            over_time("The broker's memory over time", Metric::MemoryPeak),
            bars("Messages per second", Metric::Rate),
            bars("Longest time in which nothing moved", Metric::LongestPause).linear(),
        ],
        cases: BACKLOGS.iter().map(|(name, n)| case(name, *n, scale)).collect(),
        has_versions: false,
        has_floor: false,
    }
}

fn case(name: &str, n: u32, scale: Scale) -> Case {
    let queue = "bench-load-drain";
    let messages = scale.count(n);
    let interval = if messages <= SHORT { "0.1" } else { "1" };
    let row = |what: &str| {
        RowPlan::new(format!("{what} {name}"), Metric::Rate).text("messages", messages.to_string())
    };
    let load = |options: &str| {
        vec![Load::new(&format!("{options} -u {queue} -ad false")).with("-i", interval)]
    };
    Case {
        rows: vec![row("load"), row("drain")],
        steps: vec![
            Step::Load { row: Some(0), loads: load(&format!("-x 1 -y 0 -C {messages}")) },
            Step::Load { row: Some(1), loads: load(&format!("-x 0 -y 1 -a -D {messages}")) },
        ],
        queues: vec![queue.to_owned()],
        floor: None,
    }
}
