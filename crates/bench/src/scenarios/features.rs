//! Costs of features: the simple scenarios of RabbitMQ's measurements of 2012.

use crate::plan::{Case, Load, Plan, RowPlan, Work, bars, metrics};
use crate::result::Metric;
use crate::scenarios::Settings;

const SOURCE: &str = "RabbitMQ Performance Measurements, part 2 (rabbitmq.com, 2012-04-25): 30 s each, \
    messages of the least size. How many producers and consumers \"several\" are and the confirm \
    window are not published: 4 and 1000 here.";
const PUBLISHED_BY: &str = "RabbitMQ 2.8.1, 2 x E5530, 2012";
const SECONDS: f64 = 30.0;
/// Messages that wait for consumers in parallel, whose number the source does not tell.
const BACKLOG: u32 = 5_000_000;
/// Messages up to which rates are taken fifty times a second.
const SHORT: u64 = 1_000_000;
const IN_PARALLEL: &[u32] = &[4, 16, 64, 256];
/// Leveret's key without which it refuses `immediate`.
const HONOUR: &str = "amqp091.immediate = honour";

/// Name, options, messages per second at the source.
const ROWS: &[(&str, &str, f64)] = &[
    ("baseline", "-x 1 -y 1 -a", 44_824.0),
    ("no consumer", "-x 1 -y 0", 53_710.0),
    ("n->0", "-x 4 -y 0", 149_910.0),
    ("1->n", "-x 1 -y 4 -a", 64_315.0),
    ("mandatory", "-x 1 -y 1 -a -f mandatory", 22_402.0),
    ("immediate", "-x 1 -y 1 -a -f immediate", 22_035.0),
    ("ack", "-x 1 -y 1", 32_005.0),
    ("ack, confirm", "-x 1 -y 1 -c 1000", 26_103.0),
    ("ack, confirm, persistent", "-x 1 -y 1 -c 1000 -f persistent", 4_725.0),
];

/// The plan.
pub(crate) fn features(Settings { scale, .. }: Settings) -> Plan {
    let mut cases: Vec<Case> = ROWS
        .iter()
        .map(|(name, options, published)| {
            let metric = if *name == "1->n" { Metric::ReceiveRate } else { Metric::Rate };
            RowPlan::new(*name, metric)
                .text("options", *options)
                .relative_to("baseline")
                .published(PUBLISHED_BY, *published)
                .load(Load::new(options).seconds(scale.seconds(SECONDS)))
        })
        .collect();
    for row in cases.iter_mut().flat_map(|case| &mut case.rows) {
        row.configured = (row.name == "immediate").then_some(HONOUR);
    }
    let in_parallel = IN_PARALLEL.iter().map(|n| backlog(*n, scale.count(BACKLOG)));
    cases.splice(4..4, in_parallel);
    Plan {
        name: "features",
        title: "What features cost",
        about: "One producer and one consumer without acknowledgements are the baseline; each other row \
            adds or takes away one thing. Without a consumer messages go nowhere. In 1->n every \
            consumer has a queue of its own and gets all messages: its rate counts what is published, \
            `delivered` and `relative` count each delivery, as the source does. 0->4 to 0->256 are a full \
            queue that so many consumers empty in parallel. `immediate` is honoured by Leveret with \
            `amqp091.immediate = honour` in its configuration; without it, and by RabbitMQ since 3.0, it is \
            refused. `relative` is the part of the baseline's rate on the same broker.",
        source: SOURCE,
        metrics: metrics! { Rate ReceiveRate Relative PerCpuSecond LatencyMedian },
        charts: vec![
            bars("Messages per second", Metric::Rate),
            bars("Messages per second of the broker's CPU time", Metric::PerCpuSecond),
            bars("Rate as a part of the baseline's", Metric::Relative).linear(),
        ],
        cases,
        ..Plan::default()
    }
}

fn backlog(n_consumers: u32, n: u64) -> Case {
    let queue = "bench-backlog";
    // What was measured ends with the interval of the last movement.
    let interval = if n <= SHORT { "0.02" } else { "0.1" };
    let options = format!("-x 0 -y {n_consumers} -a -u {queue} -ad false -ew empty -i {interval}");
    let fill = Work::load(&format!("-x 1 -y 0 -u {queue} -ad false -C {n} -c 1000"));
    let row = RowPlan::new(format!("0->{n_consumers}"), Metric::Rate)
        .text("options", &*options)
        .text("backlog", n.to_string())
        .relative_to("baseline");
    Case::default().first(fill).row(row, Work::load(&options)).queue(queue)
}
