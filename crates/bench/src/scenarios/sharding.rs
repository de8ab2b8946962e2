//! One hot queue, and the same load through a sharded exchange.

use crate::plan::{Case, Load, Plan, RowPlan, Work, bars, metrics};
use crate::result::Metric;
use crate::scenarios::Settings;
use crate::sharding::Shards;

const SECONDS: f64 = 10.0;
const SHARDS: &[u32] = &[2, 4];
const EXCHANGE: &str = "bench-hot-queue";
const ACK: &str = "{\"confirm-on\": \"ack\"}";

/// A load: its name, options, and the argument of a queue and the policy of shards that make them alike.
struct Kind {
    name: &'static str,
    options: &'static str,
    argument: &'static str,
    policy: Option<&'static str>,
}

const KINDS: &[Kind] = &[
    Kind { name: "transient, auto-ack, 12 B", options: "-a", argument: "", policy: None },
    Kind {
        name: "persistent, confirms, 1500 B",
        options: "-q 200 -c 200 -f persistent -s 1500",
        argument: "",
        policy: None,
    },
    Kind {
        name: "the same, confirm-on = ack",
        options: "-q 200 -c 200 -f persistent -s 1500",
        argument: " -qa x-confirm-on=ack",
        policy: Some(ACK),
    },
];

/// The plan.
pub(crate) fn sharding(Settings { scale, .. }: Settings) -> Plan {
    let seconds = scale.seconds(SECONDS);
    let cases = KINDS.iter().flat_map(|kind| {
        let shards = SHARDS.iter().map(move |n| sharded(kind, *n, seconds));
        std::iter::once(one_queue(kind, seconds)).chain(shards)
    });
    Plan {
        name: "sharding",
        title: "Sharding",
        about: "Four publishers and four consumers of one queue, bound to an exchange of type \
            x-modulus-hash; then of an exchange of that type that a policy gives 2 or 4 shards, whose \
            consumers name the exchange. Each message has another routing key. `relative` is the part \
            of the one queue's rate on the same broker. Policies are set by the broker's command-line \
            tool, which the target names with ctl=COMMAND.",
        source: "Leveret's own.",
        metrics: metrics! { Rate Relative PerCpuSecond CpuPerMessage LatencyMedian },
        charts: vec![
            bars("Messages per second", Metric::Rate),
            bars("Messages per second of the broker's CPU time", Metric::PerCpuSecond),
            bars("Rate as a part of one queue's", Metric::Relative).linear(),
        ],
        cases: cases.collect(),
        ..Plan::default()
    }
}

fn load(kind: &Kind, exchange: &str, seconds: f64) -> Load {
    let options = kind.options;
    Load::new(&format!("-x 4 -y 4 -ad false -K -e {exchange} -t x-modulus-hash {options}"))
        .seconds(seconds)
}

fn name(kind: &Kind, shards: &str) -> String {
    format!("{}: {shards}", kind.name)
}

/// The queue has another name than the exchange: with that a policy left behind would reach it.
fn one_queue(kind: &Kind, seconds: f64) -> Case {
    let queue = format!("{EXCHANGE}-1");
    let load = load(kind, EXCHANGE, seconds).with("-u", &queue);
    let Load(mut words) = load;
    words.extend(kind.argument.split_whitespace().map(str::to_owned));
    RowPlan::new(name(kind, "1 queue"), Metric::Rate)
        .number("shards", 1_u32)
        .load(Load(words))
        .queue(&queue)
}

fn sharded(kind: &Kind, n: u32, seconds: f64) -> Case {
    let exchange = format!("{EXCHANGE}-of-{n}");
    // Declared by the step before: the queue of that name cannot be bound.
    let load = load(kind, &exchange, seconds).with("-u", &exchange);
    let Load(mut words) = load;
    words.extend(["-p", "-sb"].map(str::to_owned));
    let row = RowPlan::new(name(kind, &format!("{n} shards")), Metric::Rate)
        .number("shards", n)
        .relative_to(&name(kind, "1 queue"));
    let shards = Work::Shards(Shards { exchange, n, policy: kind.policy });
    Case::default().first(shards).row(row, Work::Load(vec![Load(words)]))
}
