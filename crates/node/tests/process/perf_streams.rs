//! `leveret perf` on streams of a node, with the lines that RabbitMQ's figures were taken with.

use super::support::node::{Node, binary};
use std::process::{Command, Output, Stdio};

const OVER_AMQP: &str = "perf --producers 0 --consumers 1 --predeclared --qos 200 \
                         --stream-consumer-offset first --cmessages 600 --queue";
const OVER_STREAMS: &str = "perf stream --producers 0 --consumers 1 --offset first \
                            --initial-credits 50 --no-latency --cmessages 600 --streams";

/// Whether a run on a stream went well, and its last line and complaints.
fn run(node: &Node, line: &str, stream: &str) -> (bool, String) {
    let at = if line.starts_with("perf --") {
        format!("amqp://{}", node.address())
    } else {
        format!("rabbitmq-stream://{}", node.stream_address())
    };
    let mut command = Command::new(binary());
    command.args(line.split_ascii_whitespace()).args(stream.split(' '));
    command.args(["--uris", &at, "--json"]);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let last = String::from_utf8(stdout).unwrap().lines().last().unwrap_or_default().to_owned();
    (status.success(), last + &String::from_utf8(stderr).unwrap())
}

#[test]
fn a_stream_is_filled_with_chunks_of_one_size_and_read_over_both_protocols() {
    let node = Node::start(&[]);
    let fill = "perf stream-fill --messages 600 --size 48 --chunk 4 --stream";
    let (is_filled, told) = run(&node, fill, "stream");
    assert!(is_filled && told.contains("\"chunk_sizes\":[[4,150]]"), "{told}");
    for line in [OVER_AMQP, OVER_STREAMS] {
        let (is_good, told) = run(&node, line, "stream");
        assert!(is_good && told.contains("\"received\":600,"), "{told}");
        assert!(told.contains("Consumer reached message limit"), "{told}");
    }
    node.stop();
}

#[test]
fn a_limit_that_is_never_reached_ends_with_a_text() {
    let node = Node::start(&[]);
    let fill = "perf stream-fill --messages 1 --stream";
    assert!(run(&node, fill, "short").0);
    let in_vain = |n| format!("{n} of 600 messages came");
    let no_stream = "invalid arg 'x-stream-offset' for queue 'new-queue'".to_owned();
    for (line, queue, why) in [
        (OVER_AMQP, "short", in_vain(1)),
        (OVER_STREAMS, "short", in_vain(1)),
        (OVER_AMQP, "new-queue", no_stream),
        (OVER_STREAMS, "new-stream", in_vain(0)),
    ] {
        let (is_good, told) = run(&node, line, &format!("{queue} --idle-timeout 0.2"));
        assert!(!is_good && told.contains(&why), "{told}");
    }
    node.stop();
}
