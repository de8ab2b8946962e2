//! `leveret perf amqp10` against a node: both protocols on either side, all types of queues.

use super::support::node::{Node, binary};
use std::process::{Command, Output, Stdio};

/// Whether a run went well, and its last line and complaints.
fn run(node: &Node, line: &str) -> (bool, String) {
    let mut command = Command::new(binary());
    command.args(["perf", "amqp10", "--json", "--uri", &format!("amqp://{}", node.address())]);
    let Output { status, stdout, stderr } =
        command.args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap();
    let last = String::from_utf8(stdout).unwrap().lines().last().unwrap_or_default().to_owned();
    (status.success(), last + &String::from_utf8(stderr).unwrap())
}

/// A run of as many messages in as out, with what it tells.
fn told(node: &Node, queue: &str, line: &str) -> String {
    let line = format!("-t /queues/{queue} -T /queues/{queue} -C 500 -D 500 -z 60 {line}");
    let (is_good, told) = run(node, &line);
    assert!(is_good && told.contains("\"received\":500,"), "{line}: {told}");
    told
}

#[test]
fn messages_pass_between_both_protocols() {
    let node = Node::start(&[]);
    for (number, protocols) in [
        "",
        "--publisher-protocol amqp091",
        "--consumer-protocol amqp091",
        "--publisher-protocol amqp091 --consumer-protocol amqp091",
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!(
            "--queues classic -c 50 --consumer-credits 50 --verify --amqp-app-property n=1..9 \
             --amqp-app-property tier=gold {protocols}"
        );
        let told = told(&node, &format!("q-{number}"), &line);
        assert!(told.contains("\"confirmed\":500,") && told.contains("\"lost\":0,"), "{told}");
    }
    node.stop();
}

#[test]
fn queues_of_all_types_take_messages_in_one_frame_and_in_many() {
    let node = Node::start(&[]);
    for queues in ["classic", "quorum", "stream"] {
        for size in ["12", "200kb"] {
            let line = format!("--queues {queues} -s {size} -c 20 --consumer-credits 20 --verify");
            let told = told(&node, queues, &line);
            assert!(told.contains("\"good\":true"), "{told}");
        }
    }
    node.stop();
}

#[test]
fn settled_messages_have_no_outcome_and_others_any() {
    let node = Node::start(&[]);
    let line = "--queues classic --consumer-credits 100";
    let settled = told(&node, "settled", &format!("{line} --settled -d false"));
    assert!(!settled.contains("confirmed"), "{settled}");
    let rates = "-c 100 -A 7 --amqp-reject-rate 10 --amqp-release-rate 20";
    told(&node, "rates", &format!("{line} {rates}"));
    let nowhere = run(&node, "-y 0 -C 50 -c 10 -t /exchanges/amq.direct/nowhere");
    assert!(nowhere.0 && nowhere.1.contains("\"returned\":50,"), "{}", nowhere.1);
    node.stop();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let node = Node::start(&[]);
    for line in [
        "-t q",
        "-T /exchanges/x",
        "--queues jms",
        "--amqp-reject-rate 101",
        "--sql-filter n=1 --consumer-protocol amqp091",
        "--settled --amqp-release-rate 1",
        "--verify --sql-filter n=1",
        "--amqp-app-property n",
    ] {
        let (is_good, told) = run(&node, line);
        assert!(!is_good && told.contains("(see --help)"), "{line}: {told}");
    }
    node.stop();
}
