//! The tool against brokers made for the test, with the load generator as its child process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "all of it is test code")]

#[path = "../../perf/tests/end_to_end/broker.rs"]
#[allow(dead_code, reason = "the load tool's own tests need more of it")]
mod broker;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::result::{Metric, Outcome, Row, Run, SCHEMA};
use broker::{Behaviour, Broker};

fn tool(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leveret-bench"));
    command.args(line.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs against two brokers; what is on the screen and what is in the file.
fn measure(line: &str, folder: &Path) -> (String, Run) {
    let brokers = [Behaviour::RefuseImmediate, Behaviour::Echo].map(Broker::start);
    let [a, b] = brokers.map(|broker| broker.uri());
    let folder = folder.display();
    let output = tool(&format!("{line} --target a={a} --target b={b} --out {folder}"));
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    let json = std::fs::read_to_string(format!("{folder}/result.json")).unwrap();
    (shown, serde_json::from_str(&json).unwrap())
}

fn row<'a>(run: &'a Run, name: &str) -> &'a Row {
    run.scenarios[0].rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn two_targets_are_measured_in_turns_and_a_refusal_is_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let line = "features --rows baseline,immediate --scale 0.001 --repeats 2";
    let (shown, run) = measure(line, folder.path());
    assert_eq!((run.schema, run.repeats, run.baseline.as_str()), (SCHEMA, 2, "a"));
    assert_eq!(run.targets.len(), 2);
    assert_eq!(run.targets[0].pid, Some(std::process::id()));
    let baseline = row(&run, "baseline");
    let samples: Vec<_> = baseline.cells.iter().map(|cell| &cell.samples).collect();
    let times = [&samples[0][0], &samples[1][0], &samples[0][1], &samples[1][1]];
    assert!(times.windows(2).all(|pair| pair[0].at_seconds < pair[1].at_seconds), "A B A B");
    assert!(baseline.cells.iter().all(|cell| cell.figures[&Metric::Rate].median > 0.0));
    assert!(baseline.cells[1].figures[&Metric::Rate].ratio.unwrap() > 0.0);
    assert!(!samples[0][0].series.is_empty());
    let Outcome::Refused { reason } = &row(&run, "immediate").cells[0].outcome else {
        panic!("{:?}", row(&run, "immediate").cells[0]);
    };
    assert_eq!(reason, "540 NOT_IMPLEMENTED - immediate=true");
    assert_eq!(row(&run, "immediate").cells[1].outcome, Outcome::Measured);
    assert!(shown.contains("refused: 540") && shown.contains("baseline 1/2 a: "), "{shown}");
    let report = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(report.contains("features"), "{report}");
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (_, run) = measure("limit --rows 1->1 --scale 0.001 --repeats 1", folder.path());
    let again: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(again, run);
    let baseline = run.scenarios[0].columns.iter().position(|column| column.is_baseline).unwrap();
    let baseline = &row(&run, "1->1, 12 B").cells[baseline];
    assert!(baseline.figures[&Metric::Rate].median > 0.0, "{baseline:?}");
}

#[test]
fn the_floor_delivers_and_confirms_everything_in_order_without_queues() {
    let mut floor = Command::new(env!("CARGO_BIN_EXE_leveret-bench"));
    let floor = floor.args(["--relay", "amqp"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut floor = floor.spawn().unwrap();
    let mut port = String::new();
    BufReader::new(floor.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let uri = format!("amqp://127.0.0.1:{}", port.trim());
    let options = "-x 2 -y 2 -q 10 -c 10 -qp floor-%d -qpf 1 -qpt 2 -C 500 -D 500 --verify --json";
    let output = tool(&format!("perf -h {uri} {options}"));
    drop(floor.stdin.take());
    assert!(floor.wait().unwrap().success(), "it ends with its input");
    let (shown, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}{complaints}");
    let summary: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!((&summary["received"], &summary["confirmed"]), (&1000.into(), &1000.into()));
    let verify = &summary["verify"];
    assert_eq!((&verify["lost"], &verify["duplicates"]), (&0.into(), &0.into()), "{verify}");
}

#[test]
fn a_broker_that_goes_away_fails_its_row() {
    let (folder, broker) = (tempfile::tempdir().unwrap(), Broker::start(Behaviour::Vanish));
    let line =
        format!("features --rows baseline --scale 0.05 --repeats 1 --target a={}", broker.uri());
    let output = tool(&format!("{line} --out {}", folder.path().display()));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("the broker cannot be reached"), "{output:?}");
}

#[test]
fn exit_codes_tell_usage_from_absence() {
    assert_eq!(tool("nonsense").status.code(), Some(2));
    assert_eq!(tool("features --target a").status.code(), Some(2));
    assert_eq!(tool("features --rows nonsense").status.code(), Some(2));
    let nobody = tool("features --target a=amqp://127.0.0.1:1");
    assert_eq!(nobody.status.code(), Some(3), "{}", text(&nobody.stderr));
    assert!(text(&nobody.stderr).contains("target a: no connection to 127.0.0.1:1"));
    let no_process = tool("features --target a=amqp://127.0.0.1:1,pid=4294967295");
    assert_eq!(no_process.status.code(), Some(3));
    assert!(text(&no_process.stderr).contains("target a: there is no process 4294967295 here"));
}

/// Usage errors come before the connection is tried, so that nobody has to listen.
#[test]
fn every_command_is_one_the_load_generator_understands() {
    let names = text(&tool("--list").stdout);
    let mut seen = Vec::new();
    for name in names.lines().filter_map(|line| line.split_whitespace().next()) {
        for line in text(&tool(&format!("--list {name}")).stdout).lines() {
            let Some((_, options)) = line.split_once("leveret perf -h URI ") else { continue };
            // What only differs in its numbers is understood alike.
            let shape: String = options.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            if seen.contains(&shape) {
                continue;
            }
            seen.push(shape);
            let options = options.trim_end_matches(" &");
            let output = tool(&format!("perf -h amqp://127.0.0.1:1 {options}"));
            assert_eq!(output.status.code(), Some(3), "{options}: {}", text(&output.stderr));
        }
    }
    assert!(seen.len() > 30, "{seen:?}");
}
