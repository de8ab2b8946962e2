use super::*;
use crate::options::parse_from;
use crate::options::table;

fn config(line: &str) -> Result<Config, Usage> {
    Config::new(&parse_from(
        &table::read(crate::stream::LOAD.options),
        line.split_whitespace().map(str::to_owned),
    )?)
}

#[test]
fn the_printed_command_line_is_understood() {
    let line = "--producers 0 --consumers 1 --offset first --initial-credits 50 --no-latency \
                --cmessages 3000000 --streams stream";
    let config = config(line).unwrap();
    assert_eq!((config.producing.n, config.consuming.n), (0, 1));
    assert_eq!(config.consuming.offset, OffsetSpec::First);
    assert_eq!(config.consuming.credits, Credits { initial: 50, every: 1 });
    assert_eq!(config.consuming.limit, Some(3_000_000));
    assert!(!config.consuming.measures_latency);
    assert_eq!(config.streams.names, ["stream"]);
}

#[test]
fn defaults_are_those_of_stream_perf_test() {
    let config = config("").unwrap();
    let Producing { n, rate, size, batch, sub_entry, window, .. } = config.producing;
    assert_eq!((n, rate, size, batch, sub_entry, window), (1, None, 10, 100, 1, 10_000));
    assert_eq!(config.consuming.offset, OffsetSpec::Next);
    assert_eq!(config.consuming.credits, Credits { initial: 10, every: 1 });
    assert!(config.consuming.measures_latency && config.consuming.stores.is_none());
    let arguments = config.streams.arguments;
    assert!(arguments.contains(&("max-length-bytes", "20000000000".to_owned())));
    assert!(arguments.contains(&("stream-max-segment-size-bytes", "500000000".to_owned())));
    assert_eq!(config.brokers[0].port, 5552);
}

#[test]
fn streams_are_counted_or_named() {
    let names = |line: &str| config(line).map(|config| config.streams.names);
    assert_eq!(names("--streams a,b").unwrap(), ["a", "b"]);
    assert_eq!(names("-sc 2").unwrap(), ["stream-1", "stream-2"]);
    assert_eq!(names("-sc 9-10 -st s").unwrap(), ["s-09", "s-10"]);
    assert_eq!(names("-sc 2..3 -st s%03d").unwrap(), ["s002", "s003"]);
    for line in ["-sc 2 -st a,b", "-sc 0", "-sc 3-2", "-sc x", "-sc 1-999999999"] {
        assert!(names(line).is_err(), "{line}");
    }
}

#[test]
fn switches_may_say_false() {
    assert!(config("--no-latency false").unwrap().consuming.measures_latency);
    assert!(!config("-nl -z 1").unwrap().consuming.measures_latency);
    let single = config("--single-active-consumer").unwrap().consuming;
    assert!(single.single_active);
    let (names, every) = single.stores.unwrap();
    assert_eq!((names.name("s", 2, 0).as_str(), every.get()), ("s-2", 10_000));
}

#[test]
fn compressions_have_names() {
    let of = |line: &str| config(line).map(|config| config.producing.compression);
    assert_eq!(of("").unwrap(), Compression::NONE);
    assert_eq!(of("--sub-entry-size 10 --compression GZIP").unwrap(), Compression::GZIP);
    assert_eq!(of("-co zstd").unwrap(), Compression::ZSTD);
}

#[test]
fn credits_offsets_and_durations() {
    let credits = |line: &str| config(line).map(|config| config.consuming.credits);
    assert_eq!(credits("--credits 10-5").unwrap(), Credits { initial: 10, every: 5 });
    assert_eq!(credits("--credits 5").unwrap(), Credits { initial: 5, every: 2 });
    assert!(credits("--credits 5-6").is_err());
    let offset = |text: &str| config(&format!("-o {text}")).map(|config| config.consuming.offset);
    assert_eq!(offset("17").unwrap(), OffsetSpec::Offset(17));
    assert_eq!(offset("1970-01-01T00:00:09Z").unwrap(), OffsetSpec::Timestamp(9_000));
    assert!(offset("soon").is_err());
    assert_eq!(duration_ns("1m30s"), Some(90 * SECOND));
    assert_eq!((duration_ns("5 ms"), duration_ns("5d")), (Some(5_000_000), None));
    assert_eq!((duration_ns(""), duration_ns("0")), (None, Some(0)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "-x 0 -y 0",
        "-ses 0",
        "-bs 70000",
        "-fvs 1..x",
        "-co rar",
        "-ll near",
        "-pbc 256",
        "-u amqp://localhost",
        "--codec qpid",
        "-ses 2 -fvs a,b",
    ] {
        assert!(config(line).is_err(), "{line}");
    }
    assert_eq!(config("-fvs 2..4").unwrap().producing.filter_values, ["2", "3", "4"]);
}
