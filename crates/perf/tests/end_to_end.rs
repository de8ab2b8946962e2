//! The tool against a broker made for the test: it logs clients in, answers declarations, confirms,
//! and hands every message to the consumers, or throws it away.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "all of it is test code")]

#[path = "end_to_end/broker.rs"]
mod broker;
#[path = "end_to_end/encrypted.rs"]
mod encrypted;
#[path = "end_to_end/stream_broker.rs"]
mod stream_broker;
#[path = "end_to_end/streams.rs"]
mod streams;
#[path = "end_to_end/tls.rs"]
mod tls;

use std::ffi::OsString;
use std::process::{Command, Output};

use broker::{Behaviour, Broker};
use serde_json::Value;

fn tool() -> Command {
    Command::new(env!("CARGO_BIN_EXE_leveret-perf"))
}

fn run(broker: &Broker, line: &str) -> (i32, Vec<Value>, String) {
    outcome(tool().args(["-h", &broker.uri(), "--json"]).args(line.split_whitespace()))
}

/// The exit code, the lines and the complaints.
fn outcome(command: &mut Command) -> (i32, Vec<Value>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let lines = String::from_utf8(stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (status.code().unwrap(), lines, String::from_utf8(stderr).unwrap())
}

fn summary(broker: &Broker, line: &str) -> Value {
    let (code, mut lines, complaints) = run(broker, line);
    let summary = lines.pop().unwrap();
    assert_eq!((code, complaints.as_str()), (0, ""), "{line}: {summary}");
    assert_eq!(summary["type"], "summary");
    summary
}

#[test]
fn messages_are_counted_confirmed_acknowledged_and_timed() {
    let broker = Broker::start(Behaviour::Echo);
    let summary = summary(&broker, "-C 5000 -D 5000 -c 100 -q 50 -A 7 -s 100");
    assert_eq!(summary["sent"], 5000);
    assert_eq!(summary["confirmed"], 5000);
    assert_eq!(summary["received"], 5000);
    assert_eq!(summary["received_bytes"], 500_000);
    assert!(summary["consumer_latency_us"]["median"].as_f64().unwrap() > 0.0);
    assert!(summary["confirm_latency_us"]["max"].as_f64().unwrap() > 0.0);
    assert_eq!(broker.n_acknowledged(), 5000);
}

#[test]
fn consumers_that_wait_for_messages_nobody_sends_give_up() {
    let broker = Broker::start(Behaviour::Echo);
    let line = "--producers 0 --consumers 1 --predeclared --qos 200 --stream-consumer-offset first \
                --cmessages 10 --queue stream --idle-timeout 0.2";
    let (code, lines, complaints) = run(&broker, line);
    assert_eq!((code, &lines.last().unwrap()["received"]), (1, &Value::from(0)));
    assert!(complaints.contains("0 of 10 messages came"), "{complaints}");
}

#[test]
fn many_connections_with_many_channels_each() {
    let broker = Broker::start(Behaviour::Echo);
    let summary = summary(&broker, "-x 20 -X 3 -y 20 -Y 2 -C 100 -D 150 -qp q%d -qpf 1 -qpt 20");
    assert_eq!(summary["sent"], 20 * 3 * 100);
    assert_eq!(summary["received"], 20 * 2 * 150);
}

/// All of it may come in the read that begins the consumer.
#[test]
fn a_short_backlog_is_emptied() {
    for _ in 0..10 {
        let broker = Broker::start(Behaviour::Echo);
        assert_eq!(summary(&broker, "-y 0 -u backlog -ad false -C 50")["sent"], 50);
        let drained = summary(&broker, "-x 0 -u backlog -ad false -a -D 50");
        assert_eq!(drained["received"], 50);
        assert!(drained["seconds"].as_f64().unwrap() > 0.0, "{drained}");
    }
}

#[test]
fn an_interval_also_ends_after_so_many_messages() {
    let broker = Broker::start(Behaviour::Echo);
    let (code, lines, complaints) = run(&broker, "-y 0 -C 20000 -i 60 --interval-messages 2000");
    assert_eq!((code, complaints.as_str()), (0, ""));
    let intervals = lines.iter().filter(|line| line["type"] == "interval");
    let sent: Vec<u64> = intervals.map(|line| line["sent"].as_u64().unwrap()).collect();
    assert!((5..=10).contains(&sent.len()) && sent.iter().all(|n| *n >= 2000), "{sent:?}");
}

#[test]
fn as_many_connections_as_the_system_allows() {
    let broker = Broker::start(Behaviour::Echo);
    let run = |limit: &str| {
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_leveret-perf"), "-h", &broker.uri()]);
        command.args("--json --threads 2 -x 60 -y 20 -C 10".split_whitespace());
        outcome(&mut command)
    };
    let (code, lines, complaints) = run("-Sn 64");
    assert_eq!((code, &lines.last().unwrap()["sent"]), (0, &600.into()), "{complaints}");
    let (code, lines, complaints) = run("-n 64");
    assert_eq!((code, &lines[0]["type"]), (1, &"error".into()));
    assert!(complaints.contains("116 files have to be open"), "{complaints}");
}

#[test]
fn a_rate_is_kept() {
    let broker = Broker::start(Behaviour::Echo);
    let summary = summary(&broker, "-r 1000 -C 500 -D 500");
    let seconds = summary["seconds"].as_f64().unwrap();
    // The first message is due at once, the last 499 ms later; a busy machine may take longer.
    assert!(seconds >= 0.499, "{summary}");
}

#[test]
fn bodies_of_many_frames_arrive_whole() {
    let broker = Broker::start(Behaviour::Echo);
    let summary = summary(&broker, "-s 300000 -C 20 -z 30 --verify -c 3");
    assert_eq!(summary["verify"]["good"], true);
    assert_eq!(summary["verify"]["lost"], 0);
}

#[test]
fn what_a_bad_broker_does_is_found() {
    let cases = [
        (Behaviour::Lose, "lost"),
        (Behaviour::Repeat, "duplicates"),
        (Behaviour::Damage, "damaged"),
        (Behaviour::Swap, "out_of_order"),
    ];
    for (behaviour, finding) in cases {
        let broker = Broker::start(behaviour);
        let (code, mut lines, _) = run(&broker, "-C 1000 --verify -c 100");
        let summary = lines.pop().unwrap();
        assert_eq!(code, 1, "{behaviour:?}: {summary}");
        assert!(summary["verify"][finding].as_u64().unwrap() > 0, "{behaviour:?}: {summary}");
    }
}

#[test]
fn loss_is_found_also_where_consumers_have_a_limit() {
    let found = |behaviour, line: &str| {
        let broker = Broker::start(behaviour);
        let (code, mut lines, _) = run(&broker, &format!("{line} --verify -c 100 -u q"));
        (code, lines.pop().unwrap()["verify"]["lost"].clone())
    };
    assert_eq!(found(Behaviour::Lose, "-C 1000 -D 1000 -ew idle"), (1, 10.into()));
    assert_eq!(found(Behaviour::Echo, "-C 1000 -D 1000"), (0, 0.into()));
    // The rest may be in the queue.
    assert_eq!(found(Behaviour::Lose, "-C 1000 -D 500"), (0, Value::Null));
}

#[test]
fn queues_that_exist_are_bound_unless_they_are_not_to_be() {
    let n_bound = |line| {
        let broker = Broker::start(Behaviour::Echo);
        summary(&broker, line);
        broker.n_bound()
    };
    assert_eq!(n_bound("-p -u q -C 10 -D 10"), 1);
    assert_eq!(n_bound("-p -u q -sb -C 10 -D 10"), 0);
    assert_eq!(n_bound("-p -u q -e amq.default -C 10 -D 10"), 0);
}

#[test]
fn what_is_left_to_acknowledge_is_acknowledged_once_nothing_comes() {
    let broker = Broker::start(Behaviour::Echo);
    // Without a limit that is not reached the run would end with its publisher.
    summary(&broker, "-C 100 -D 101 -A 30 -ew idle");
    assert_eq!(broker.n_acknowledged(), 100);
}

#[test]
fn a_broker_that_is_gone_at_the_end_was_not_reached() {
    let broker = Broker::start(Behaviour::Vanish);
    let (code, lines, complaints) = run(&broker, "-C 5000 -c 100 -cri 0 -z 1");
    let summary = lines.last().unwrap();
    assert_eq!((code, &summary["type"]), (3, &"summary".into()), "{summary}");
    assert!(complaints.contains("the broker cannot be reached"), "{complaints}");
}

#[test]
fn a_refusal_while_it_runs_is_part_of_the_summary() {
    let broker = Broker::start(Behaviour::RefuseImmediate);
    let (code, lines, complaints) = run(&broker, "-f immediate -z 30");
    assert_eq!((lines[0]["type"].as_str(), lines[0]["schema"].as_u64()), (Some("start"), Some(1)));
    let summary = lines.last().unwrap();
    assert_eq!((code, summary["type"].as_str()), (1, Some("summary")), "{summary}");
    assert_eq!(summary["errors"][0]["code"], 540);
    assert_eq!(summary["errors"][0]["reason"], "NOT_IMPLEMENTED - immediate=true");
    assert!(summary["sent"].as_u64().unwrap() > 0);
    assert!(complaints.contains("540 NOT_IMPLEMENTED"), "{complaints}");
}

#[test]
fn lost_connections_are_made_again() {
    let broker = Broker::start(Behaviour::Cut);
    let (code, lines, complaints) = run(&broker, "-C 5000 -D 3000 -c 100 -q 10 -cri 0 -z 60");
    let summary = lines.last().unwrap();
    assert_eq!((code, &summary["sent"]), (0, &5000.into()), "{summary}");
    assert_eq!(summary["connections_lost"], 2, "{summary}");
    assert_eq!(summary["connections_recovered"], 2, "{summary}");
    assert!(complaints.contains("lost connections are made again"), "{complaints}");
    let broker = Broker::start(Behaviour::Cut);
    let (code, lines, _) = run(&broker, "-C 5000 -c 100 -dcr");
    assert_eq!((code, &lines.last().unwrap()["connections_lost"]), (1, &0.into()));
}

#[test]
fn what_is_refused_or_not_answered_is_published_again() {
    for (behaviour, line) in [(Behaviour::Refuse, ""), (Behaviour::Swallow, "-ct 0.1")] {
        let broker = Broker::start(behaviour);
        let summary =
            summary(&broker, &format!("-x 2 -C 1000 -c 100 -q 10 -u q --resend -z 60 {line}"));
        let resend = &summary["resend"];
        assert_eq!((&resend["published"], &resend["missing"]), (&2000.into(), &0.into()));
        assert_eq!((&resend["unconfirmed"], &summary["confirmed"]), (&0.into(), &2000.into()));
        let n_resent = resend["resent"].as_u64().unwrap();
        assert!(n_resent >= 20, "{behaviour:?}: {summary}");
        assert_eq!(summary["sent"], 2000 + n_resent);
        let n_refused = if behaviour == Behaviour::Refuse { n_resent } else { 0 };
        assert_eq!(summary["nacked"], n_refused, "{behaviour:?}");
        assert_eq!(summary["verify"]["good"], true);
    }
}

#[test]
fn what_a_lost_connection_leaves_unconfirmed_is_published_again() {
    let broker = Broker::start(Behaviour::Cut);
    let (code, lines, _) = run(&broker, "-y 0 -u q -C 5000 -c 100 -cri 0 -z 60 --resend");
    let summary = lines.last().unwrap();
    assert_eq!((code, &summary["connections_recovered"]), (0, &1.into()), "{summary}");
    assert_eq!(summary["confirmed"], 5000, "{summary}");
    let resend = &summary["resend"];
    assert!(resend["resent"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!((&resend["published"], &resend["missing"]), (&5000.into(), &Value::Null));
}

#[test]
fn duplicates_are_counted_and_no_fault_where_messages_are_published_again() {
    let broker = Broker::start(Behaviour::Repeat);
    let counted = summary(&broker, "-C 1000 -c 100 --resend -z 60");
    assert_eq!(counted["resend"]["duplicates"], 10);
    let broker = Broker::start(Behaviour::Lose);
    let (code, mut lines, _) = run(&broker, "-C 1000 -c 100 --resend");
    assert_eq!((code, &lines.pop().unwrap()["resend"]["missing"]), (1, &10.into()));
}

#[test]
fn what_makes_no_sense_with_resending_is_refused() {
    let broker = Broker::start(Behaviour::Echo);
    for line in ["", "-c 10 -ct 0", "-c 10 -dcr", "-c 10 -D 5", "-c 10 -K", "-c 10 -na -re false"] {
        let (code, _, complaints) = run(&broker, &format!("--resend {line}"));
        assert_eq!(code, 2, "{line}: {complaints}");
    }
    assert!(run(&broker, "--resend").2.contains("--resend needs --confirm"));
}

#[test]
fn an_end_that_came_with_the_last_message_is_seen() {
    let broker = Broker::start(Behaviour::Leave);
    // While the consumer works on the first message, the second and the end arrive together.
    let (code, lines, complaints) = run(&broker, "-C 2 -D 3 -L 200000 -dcr -z 60");
    assert_eq!((code, &lines.last().unwrap()["type"]), (1, &"summary".into()), "{complaints}");
    assert!(complaints.contains("the broker closed a connection"), "{complaints}");
}

#[test]
fn text_is_what_perftest_prints() {
    let broker = Broker::start(Behaviour::Echo);
    let mut command = tool();
    command.args(["-h", &broker.uri(), "-d", "it", "-C", "100", "-D", "100", "--progress", "true"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "id: it, starting consumer #0");
    assert_eq!(lines[1], "id: it, starting consumer #0, channel #0");
    assert_eq!(lines[3], "id: it, starting producer #0, channel #0");
    let stop = "test stopped (Producer reached message limit, Consumer reached message limit)";
    let at = lines.iter().position(|line| *line == stop).unwrap();
    assert!(lines[at + 1].starts_with("id: it, sending rate avg: "), "{text}");
    let bar = String::from_utf8(output.stderr).unwrap();
    assert!(bar.contains(" % ") || bar.contains(" %"), "{bar}");
}

#[test]
fn json_and_files_carry_the_time_in_a_header() {
    let broker = Broker::start(Behaviour::Echo);
    let summary = summary(&broker, "-jb -s 2000 -C 100 -D 100");
    assert_eq!(summary["received"], 100);
    assert!(summary["consumer_latency_us"]["min"].as_f64().unwrap() > 0.0, "{summary}");
}

#[test]
fn exit_codes_tell_usage_from_absence_and_failure() {
    let broker = Broker::start(Behaviour::Echo);
    assert_eq!(run(&broker, "--polling").0, 2);
    assert_eq!(run(&broker, "-x many").0, 2);
    assert_eq!(run(&broker, "-h amqp://127.0.0.1:1").0, 3);
    let refusing = Broker::start(Behaviour::RefuseQueues);
    let (code, lines, complaints) = run(&refusing, "-u q");
    assert_eq!((code, lines[0]["type"].as_str()), (1, Some("error")));
    assert_eq!((&lines[0]["error"]["code"], &lines[0]["exit_code"]), (&406.into(), &1.into()));
    assert!(
        complaints.contains("declaring queue 'q': the broker says 406 refused"),
        "{complaints}"
    );
    for word in ["--help", "-mh", "--version"] {
        let shown = tool().arg(word).output().unwrap();
        assert!(shown.status.success() && !shown.stdout.is_empty(), "{word}");
    }
}

#[test]
fn a_sink_gets_every_byte_of_what_counts_as_sent() {
    let broker = Broker::start(Behaviour::Discard);
    let summary = summary(&broker, "-y 0 -u q --threads 1 -C 200000");
    assert_eq!(summary["sent"], 200_000);
    assert!(summary["generator_cpu_seconds"].as_f64().unwrap() > 0.0, "{summary}");
    // Three frames per message, with basic.publish, at least the fixed part of a header, the body.
    let (framing, method, header, body) = (3 * 8, 9, 14, 12);
    assert!(broker.n_bytes() > 200_000 * (framing + method + header + body));
}

#[test]
fn arguments_come_as_the_system_gives_them() {
    let args = ["--nonsense"].map(OsString::from);
    let code = perf::run(args.into_iter());
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(2)));
}

#[test]
fn variables_options_without_effect_and_a_file_of_values() {
    let broker = Broker::start(Behaviour::Echo);
    let dir = std::env::temp_dir().join(format!("perf-csv-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("values.csv");
    let mut command = tool();
    command.args(["-h", &broker.uri(), "--json", "-niot", "4", "-i", "0.1", "-z", "0.5"]);
    command.arg("-o").arg(&file).env("RABBITMQ_PERF_TEST_ENV_PREFIX", "LOAD");
    let (code, mut lines, complaints) =
        outcome(command.env("LOAD_RATE", "100").env("LOAD_ID", "x"));
    assert_eq!(code, 0, "{complaints}");
    assert!(complaints.contains("option --nio-threads has no effect"), "{complaints}");
    let summary = lines.pop().unwrap();
    assert_eq!(summary["id"], "x");
    assert!(summary["sent"].as_u64().unwrap() <= 100, "{summary}");
    let values = std::fs::read_to_string(&file).unwrap();
    let rows: Vec<Vec<&str>> = values.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.len() > 2 && rows.iter().all(|row| row.len() == 17), "{values}");
    assert_eq!((rows[0][0], rows[1][0]), ("id", "x"));
    std::fs::remove_dir_all(dir).unwrap();
    let (code, _, complaints) = run(&broker, "-o /nowhere/values.csv -C 1");
    assert_eq!(code, 1);
    assert!(complaints.contains("cannot write to /nowhere/values.csv"), "{complaints}");
}
