//! Loads by the clients that people have, which write each publish and each ack by itself.

use crate::clients::{Client, ClientLoad};
use crate::plan::{Case, Fill, Plan, RowPlan, Work, bars, metrics};
use crate::result::Metric;
use crate::scenarios::Settings;

/// Seconds of a row, after its warm-up.
const SECONDS: f64 = 5.0;
/// Messages of a queue that is drained.
const DRAINED: u32 = 2_000_000;
/// Messages of a stream.
const STREAMED: u32 = 3_000_000;
const QUEUE: &str = "bench-real";
const QUEUES: &str = "bench-real-";
const N_QUEUES: u32 = 200;

/// Rows of PerfTest: name, options.
const PERF_TEST: &[(&str, &str)] = &[
    ("autoack", "-x 1 -y 1 -a"),
    ("acked and confirmed", "-x 1 -y 1 -q 200 -c 200"),
    ("persistent", "-x 1 -y 1 -f persistent -q 200 -c 200 -ad false -u bench-real"),
    (
        "persistent, x-confirm-on=ack",
        "-x 1 -y 1 -f persistent -q 200 -c 200 -ad false -u bench-real -qa x-confirm-on=ack",
    ),
    ("1,000/s", "-x 1 -y 1 -q 50 -c 50 -r 1000"),
    ("5,000/s", "-x 1 -y 1 -q 50 -c 50 -r 5000"),
    ("20,000/s", "-x 1 -y 1 -q 50 -c 50 -r 20000"),
    ("200 + 200 connections", "-x 200 -y 200 -r 20 -q 50 -c 10 -qp bench-real-%d -qpf 1 -qpt 200"),
    (
        "200 + 200 connections, persistent",
        "-x 200 -y 200 -r 20 -q 50 -c 10 -f persistent -ad false -qp bench-real-%d -qpf 1 -qpt 200",
    ),
];

/// Other clients, each with a prefetch and a confirm window of 200.
const OTHERS: &[&str] = &["amqp091-go", "pika", "amqplib"];
/// Bytes of a body and messages per chunk of the streams.
const STREAMS: &[(u32, u32)] = &[(12, 1), (12, 16), (12, 128), (1024, 1), (1024, 4)];

/// The plan.
pub(crate) fn real_clients(settings: Settings) -> Plan {
    let Settings { scale, seconds } = settings;
    let seconds = Some(seconds.unwrap_or_else(|| scale.seconds(SECONDS).max(1.0)));
    let timed = |name: String, client, options: &str| {
        let load = ClientLoad { client, options: options.to_owned(), seconds };
        Case::of(row(name), Work::Client(load)).queue(QUEUE)
    };
    let mut cases: Vec<Case> = PERF_TEST
        .iter()
        .map(|(name, options)| {
            let case = timed((*name).to_owned(), Client::PerfTest, options);
            if options.contains(QUEUES) { case.queues(QUEUES, N_QUEUES) } else { case }
        })
        .collect();
    for name in OTHERS {
        let rows = [("full rate", ""), ("5,000/s", "--rate 5000")];
        cases.extend(rows.map(|(rate, options)| {
            timed(format!("{name}, {rate}"), Client::Program(name), options)
        }));
    }
    let n = scale.count(DRAINED);
    cases.extend([("classic", ""), ("quorum", " -qq")].map(|(kind, flag)| drain(kind, flag, n)));
    cases.extend(STREAMS.iter().map(|of| stream(*of, scale.count(STREAMED))));
    Plan {
        name: "real-clients",
        title: "Real clients",
        about: "The clients that people have load each broker in turns, for a fixed time after a warm-up: \
            messages received, and CPU time, context switches and system calls of the broker per message, \
            read over the same seconds (system calls over two more, since counting takes time; loads that \
            end by themselves are measured as a whole). Latencies are those the client tells: the median \
            over its lines. Such clients write each publish and each ack by itself, where leveret perf \
            writes many at once. The floor is a process without queues that answers the same frames. \
            Clients that are not installed are left out.",
        source: "Leveret's own.",
        metrics: metrics! {
            CpuPerMessage Rate SwitchesPerMessage CallsPerMessage LatencyMedian LatencyP99
            ConfirmMedian ConfirmP99 Memory
        },
        charts: vec![
            bars("The broker's CPU time per message", Metric::CpuPerMessage),
            bars("Messages per second", Metric::Rate),
        ],
        cases,
        has_floor: true,
        ..Plan::default()
    }
}

fn row(name: String) -> RowPlan {
    RowPlan::new(name, Metric::CpuPerMessage)
}

fn of_whole(client: Client, options: String) -> Work {
    Work::Client(ClientLoad { client, options, seconds: None })
}

/// A backlog that a consumer works off.
fn drain(kind: &str, flag: &str, n: u64) -> Case {
    let fill = format!("-x 1 -y 0 -f persistent -c 1000 -C {n} -u {QUEUE} -ad false{flag}");
    let options = format!("-x 0 -y 1 -q 200 -p -u {QUEUE} --cmessages {n}");
    let (row, drain) = (row(format!("drain of a {kind} queue")), Client::PerfTest);
    Case::default().first(Work::load(&fill)).row(row, of_whole(drain, options)).queue(QUEUE)
}

/// A stream that is read from its beginning, over both protocols.
fn stream((size, chunk): (u32, u32), n_messages: u64) -> Case {
    let name = |protocol: &str| row(format!("stream over {protocol}, {size} B, {chunk} per chunk"));
    let common = format!("-x 0 -y 1 --cmessages {n_messages}");
    let amqp = format!("{common} -p -q 200 --stream-consumer-offset first -u {QUEUE}");
    let stream = format!("{common} --offset first --initial-credits 50 --streams {QUEUE}");
    Case::default()
        .first(Work::Fill(Fill { stream: QUEUE, n_messages, size, chunk }))
        .row(name("AMQP 0-9-1"), of_whole(Client::PerfTest, amqp))
        .row(name("the stream protocol"), of_whole(Client::StreamPerfTest, stream))
        .queue(QUEUE)
}
