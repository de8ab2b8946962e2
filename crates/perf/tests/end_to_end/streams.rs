//! `perf stream` and `perf stream-fill` against a broker made for the test.

use serde_json::{Value, json};

use super::stream_broker::{StreamBroker, Streams};
use super::{outcome, tool};

fn run(broker: &StreamBroker, verb: &str, line: &str) -> (i32, Vec<Value>, String) {
    let mut command = tool();
    outcome(command.args([verb, "--uris", &broker.uri(), "--json"]).args(line.split_whitespace()))
}

fn last(broker: &StreamBroker, verb: &str, line: &str) -> Value {
    let (code, mut lines, complaints) = run(broker, verb, line);
    assert_eq!((code, complaints.as_str()), (0, ""), "{line}: {lines:?}");
    lines.pop().unwrap()
}

#[test]
fn what_is_published_is_confirmed_and_consumed() {
    let broker = StreamBroker::start(Streams::Good);
    let published = last(&broker, "stream", "-x 2 -y 0 -s 12 -C 5000 -bs 50 -cl");
    assert_eq!((&published["sent"], &published["confirmed"]), (&json!(10_000), &json!(10_000)));
    assert!(published["confirm_latency_us"]["max"].as_f64().unwrap() > 0.0);
    assert_eq!(broker.n_chunks("stream"), 200);
    let line = "--producers 0 --consumers 1 --offset first --initial-credits 50 --no-latency \
                --cmessages 10000 --streams stream";
    let consumed = last(&broker, "stream", line);
    assert_eq!(consumed["received"], 10_000);
    assert_eq!(consumed["reason"], "Consumer reached message limit");
    assert_eq!(consumed["consumer_latency_us"], Value::Null);
    let timed = last(&broker, "stream", "-x 0 -y 3 -o first -D 9000 -cbc 2 --credits 10-5");
    assert_eq!(
        (&timed["received"], &timed["received_bytes"]),
        (&json!(27_000), &json!(27_000 * 17))
    );
    assert!(timed["consumer_latency_us"]["min"].as_f64().unwrap() > 0.0);
}

#[test]
fn sub_batches_count_as_their_messages() {
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let broker = StreamBroker::start(Streams::Good);
        let line = format!("-y 0 -C 1005 -ses 10 -bs 100 -co {compression}");
        assert_eq!(last(&broker, "stream", &line)["confirmed"], 1005);
        let consumed = last(&broker, "stream", "-x 0 -o first -D 1005");
        assert_eq!(
            (&consumed["received"], &consumed["consumer_latency_us"]["count"]),
            (&json!(1005), &json!(1005)),
            "{compression}"
        );
    }
}

#[test]
fn consumers_that_wait_for_messages_nobody_sends_give_up() {
    let broker = StreamBroker::start(Streams::Good);
    let line = "-x 0 -o first -D 10 --idle-timeout 0.2 --interval 0.1";
    let (code, lines, complaints) = run(&broker, "stream", line);
    assert_eq!(code, 1);
    assert!(complaints.contains("0 of 10 messages came"), "{complaints}");
    assert_eq!(lines.last().unwrap()["received"], 0);
}

#[test]
fn a_damaged_chunk_ends_the_run() {
    let broker = StreamBroker::start(Streams::Damaged);
    last(&broker, "stream", "-y 0 -C 100");
    let (code, _, complaints) = run(&broker, "stream", "-x 0 -o first -D 100");
    assert_eq!(code, 1);
    assert!(complaints.contains("chunk 0 is damaged"), "{complaints}");
}

#[test]
fn other_properties_of_a_stream_end_a_run_that_asks_for_some() {
    let broker = StreamBroker::start(Streams::Different);
    let (code, lines, complaints) = run(&broker, "stream", "-y 0 -C 100");
    assert_eq!((code, &lines.last().unwrap()["confirmed"]), (0, &json!(100)));
    assert!(complaints.contains("stream 'stream' exists with other properties"), "{complaints}");
    let (code, _, complaints) = run(&broker, "stream", "-y 0 -C 100 --max-age 1h");
    assert_eq!(code, 1);
    assert!(complaints.contains("stream 'stream' exists with other properties"), "{complaints}");
    let (code, _, complaints) = run(&broker, "stream-fill", "--messages 10");
    assert_eq!(code, 1);
    assert!(complaints.contains("--replace deletes it first"), "{complaints}");
}

#[test]
fn refusals_and_absent_brokers_are_told() {
    let broker = StreamBroker::start(Streams::Closed);
    let (code, lines, complaints) = run(&broker, "stream", "-x 3 -y 0 -C 100 --threads 2");
    assert_eq!((code, &lines.last().unwrap()["type"]), (1, &json!("error")));
    assert!(complaints.contains("publisher on stream 'stream': access refused"), "{complaints}");
    let (code, _, complaints) =
        outcome(tool().args(["stream", "-u", "rabbitmq-stream://127.0.0.1:1"]));
    assert_eq!(code, 3, "{complaints}");
    let (code, ..) = outcome(tool().args(["stream", "--nonsense"]));
    assert_eq!(code, 2);
}

#[test]
fn streams_are_filled_with_chunks_of_exactly_that_size() {
    let broker = StreamBroker::start(Streams::Good);
    let line = "--messages 640 --stream a,b,c --chunk 1,64,100 --size 12,12,256";
    let filled = last(&broker, "stream-fill", line);
    let sizes = |at: usize| filled["streams"][at]["found"]["chunk_sizes"].clone();
    assert_eq!(
        [0, 1, 2].map(sizes),
        [json!([[1, 640]]), json!([[64, 10]]), json!([[40, 1], [100, 6]])]
    );
    assert_eq!(filled["streams"][0]["found"]["bytes"], 640 * 21);
    assert_eq!(broker.n_chunks("b"), 10);
    let read = last(&broker, "stream", "-x 0 -o first -D 640 -st b");
    assert_eq!((&read["received"], &read["chunks"]), (&json!(640), &json!(10)));
}
