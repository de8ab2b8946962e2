//! A large backlog built up, then emptied.

use crate::plan::{Case, Load, Plan, RowPlan, Scale, Work, bars, metrics, number, over_time};
use crate::result::Metric;
use crate::scenarios::Settings;

const BACKLOGS: [u32; 2] = [500_000, 10_000_000];
/// Messages up to which rates are taken ten times a second. Slow brokers take an hour for many.
const SHORT: u64 = 1_000_000;
/// Points over time, however fast the broker is. A turn of the load generator is more than some of them.
const POINTS: u64 = 200;
/// The row without a backlog, which the others are compared with.
const SHORT_QUEUE: &str = "short queue";
const SHORT_QUEUE_SECONDS: f64 = 15.0;
const QUEUE: &str = "bench-load-drain";

/// The plan.
pub(crate) fn load_drain(Settings { scale, .. }: Settings) -> Plan {
    let mut backlogs = BACKLOGS.map(|n| scale.count(n)).to_vec();
    backlogs.dedup();
    let cases = backlogs.iter().map(|n| case(*n));
    let cases = std::iter::once(short_queue(scale)).chain(cases).collect();
    let rows_over_time: Vec<String> = backlogs.iter().flat_map(|n| rows(*n)).collect();
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
        metrics: metrics! { Rate Relative LongestPause MemoryPeak Duration PerCpuSecond },
        charts: vec![
            over_time("Messages per second over time", Metric::Rate).rows(rows_over_time.clone()),
            over_time("The broker's memory over time", Metric::MemoryPeak).rows(rows_over_time),
            bars("Messages per second", Metric::Rate),
            bars("Rate as a part of the short queue's", Metric::Relative).linear(),
            bars("Longest time in which nothing moved", Metric::LongestPause).linear(),
            bars("Most memory", Metric::MemoryPeak).linear(),
        ],
        cases,
        ..Plan::default()
    }
}

fn rows(messages: u64) -> [String; 2] {
    let n = rounded(messages);
    [format!("load {n}"), format!("drain {n}")]
}

/// A number of messages in a few letters: `500 k`.
fn rounded(messages: u64) -> String {
    let (k, m) = (1_000, 1_000_000);
    match messages {
        _ if messages >= m && messages.is_multiple_of(m / 10) => {
            format!("{} M", number(messages as f64 / m as f64))
        }
        _ if messages >= k && messages.is_multiple_of(k / 10) => {
            format!("{} k", number(messages as f64 / k as f64))
        }
        _ => messages.to_string(),
    }
}

fn short_queue(scale: Scale) -> Case {
    let load = Load::new(&format!("-x 1 -y 1 -a -u {QUEUE} -ad false"));
    let row = RowPlan::new(SHORT_QUEUE, Metric::Rate).relative_to(SHORT_QUEUE);
    row.load(load.seconds(scale.seconds(SHORT_QUEUE_SECONDS))).queue(QUEUE)
}

fn case(messages: u64) -> Case {
    let interval = if messages <= SHORT { "0.1" } else { "0.2" };
    let row = |name: String| {
        RowPlan::new(name, Metric::Rate)
            .text("messages", messages.to_string())
            .relative_to(SHORT_QUEUE)
    };
    let step = messages.div_ceil(POINTS).to_string();
    let load = |options: &str| {
        let load = Load::new(&format!("{options} -u {QUEUE} -ad false"));
        Work::Load(vec![load.with("-i", interval).with("--interval-messages", &step)])
    };
    let [fill, drain] = rows(messages).map(row);
    Case::of(fill, load(&format!("-x 1 -y 0 -C {messages}")))
        .row(drain, load(&format!("-x 0 -y 1 -a -D {messages}")))
        .queue(QUEUE)
}
