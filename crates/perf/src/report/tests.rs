use super::*;
use serde_json::Value;

fn printer(format: Format) -> Printer {
    let shown = Shown {
        publishes: true,
        consumes: true,
        confirms: true,
        resends: false,
        returns: false,
        consumer_latency: true,
        confirm_latency: true,
    };
    Printer { id: "test".to_owned(), format, shown, in_millis: false }
}

fn sample() -> Sample {
    let mut sample = Sample::new();
    sample.counts.sent = 200;
    sample.counts.received = 100;
    sample.counts.confirmed = 2;
    (1..=100).for_each(|us| sample.latency.record(us * 1000).unwrap());
    sample
}

fn broker() -> Option<Broker> {
    let usage = Usage { cpu_s: 0.5, rss_bytes: 1 << 20, written_bytes: None };
    Some(Broker { pid: 7, usage, rss_bytes_max: 3 << 20 })
}

fn interval(sample: &Sample, length_ns: u64) -> Interval<'_> {
    let (elapsed_ns, wall_ms) = (1_002_400_000, 0);
    Interval { sample, elapsed_ns, length_ns, broker: broker(), wall_ms }
}

fn summary() -> Summary {
    Summary {
        total: sample(),
        elapsed_ns: 2 * SECOND,
        broker: broker(),
        own_cpu_ns: SECOND / 10,
        verdict: Some(Verdict { lost: 1, is_loss_known: true, ..Verdict::default() }),
        reason: "Reached time limit".to_owned(),
        run_errors: vec![RunError { code: Some(540), reason: "NOT_IMPLEMENTED".to_owned(), n: 2 }],
        n_connections_lost: 3,
        n_connections_recovered: 1,
    }
}

#[test]
fn lines_are_perftests() {
    let (sample, printer) = (sample(), printer(Format::Default));
    assert_eq!(
        printer.interval(&interval(&sample, SECOND / 2)).unwrap(),
        "id: test, time 1.002 s, sent: 400 msg/s, confirmed: 4.0 msg/s, nacked: 0 msg/s, \
         received: 200 msg/s, min/median/75th/95th/99th/max consumer latency: \
         1/50/75/95/99/100 µs, confirm latency: 0/0/0/0/0/0 µs"
    );
    assert_eq!(printer.interval(&interval(&Sample::new(), SECOND)), None);
    let in_millis = Printer { in_millis: true, ..printer.clone() };
    let line = in_millis.interval(&interval(&sample, SECOND)).unwrap();
    assert!(line.ends_with("consumer latency: 0/0/0/0/0/0 ms, confirm latency: 0/0/0/0/0/0 ms"));
    let text = printer.summary(&summary());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "id: test, sending rate avg: 100 msg/s");
    assert_eq!(lines[1], "id: test, receiving rate avg: 50 msg/s");
    assert_eq!(
        lines[2],
        "id: test, consumer latency min/median/75th/95th/99th/max 1/50/75/95/99/100 µs"
    );
    assert!(lines[6].contains("5000.000 µs per message, 200 msg per CPU second, memory 1.0 MiB"));
    assert_eq!(lines[8], "id: test, connections lost: 3, made again: 1");
    assert_eq!(lines[9], "id: test, error: 540 NOT_IMPLEMENTED (2 times)");
    assert!(lines[10].starts_with("id: test, verify: WRONG, lost: 1"), "{text}");
    let announced = "id: test, starting consumer #1\nid: test, starting consumer #1, channel #0";
    assert_eq!(printer.announcement("consumer", 1, 1), announced);
}

#[test]
fn compact_lines_are_a_table() {
    let (sample, printer) = (sample(), printer(Format::Compact));
    let line = printer.interval(&interval(&sample, SECOND)).unwrap();
    let heading = printer.heading().unwrap();
    assert_eq!(line.chars().count(), heading.chars().count(), "{heading}\n{line}");
    assert!(line.starts_with("1970/01/01 00:00:00    200 msg/s    2.0 msg/s"), "{line}");
    assert!(heading.starts_with("time                        sent    confirmed"), "{heading}");
}

#[test]
fn json_has_all_of_it() {
    let (sample, printer) = (sample(), printer(Format::Json));
    let line = printer.interval(&interval(&sample, SECOND / 2)).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["type"], &line["sent"]), (&"interval".into(), &200.into()));
    assert_eq!(line["received_per_second"], 200.0);
    assert_eq!(line["broker"]["cpu_percent"], 100.0);
    assert_eq!(line["broker"]["rss_bytes"], 1 << 20);
    let text: Value = serde_json::from_str(&printer.summary(&summary())).unwrap();
    assert_eq!((&text["messages"], &text["reason"]), (&100.into(), &"Reached time limit".into()));
    assert_eq!(text["broker"]["messages_per_cpu_second"], 200.0);
    assert_eq!(text["broker"]["rss_max_bytes"], 3 << 20);
    assert_eq!(text["errors"][0]["code"], 540);
    assert_eq!(text["connections_lost"], 3);
    assert_eq!(text["verify"]["good"], false);
    assert!(text["consumer_latency_us"]["p99_9"].as_f64().unwrap() > 99.0);
    let mean_us = text["consumer_latency_us"]["mean"].as_f64().unwrap();
    assert!((50.0..51.0).contains(&mean_us), "{mean_us}");
}

#[test]
fn comma_separated_values_have_perftests_columns() {
    let (sample, printer) = (sample(), printer(Format::Default));
    let heading = printer.csv_heading();
    assert!(
        heading.starts_with("id,time (s),published (msg/s),returned (msg/s),confirmed (msg/s),")
    );
    assert!(heading.ends_with(
        ",99th p. consumer latency (µs),min confirm latency (µs),\
        median confirm latency (µs),75th p. confirm latency (µs),95th p. confirm latency (µs),\
        99th p. confirm latency (µs)"
    ));
    let line = printer.csv_line(&interval(&sample, SECOND / 2));
    assert_eq!(line, "test,1.002,400,,4.0,0,200,1,50,75,95,99,0,0,0,0,0");
    assert_eq!(line.split(',').count(), heading.split(',').count());
    let shown = Shown {
        publishes: true,
        consumes: false,
        confirms: false,
        resends: false,
        returns: false,
        consumer_latency: false,
        confirm_latency: false,
    };
    let line = Printer { shown, ..printer }.csv_line(&interval(&sample, SECOND));
    assert_eq!(line, "test,1.002,200,,,,,,,,,,,,,,");
}
