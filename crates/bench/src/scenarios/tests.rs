//! Parameters are exactly those of the sources, and plans hold together.

use super::*;
use crate::plan::{Case, Goal, Variants};
use crate::result::{ChartKind, Metric};

fn plan(name: &str, scale: f64) -> Plan {
    let settings = Settings { scale: Scale(scale), seconds: None };
    by_name(name).unwrap().plan(settings)
}

/// The commands of a row, without the parts all have.
fn commands(plan: &Plan, row: &str) -> Vec<String> {
    let of = |case: &Case| {
        let at = case.rows.iter().position(|plan| plan.name == row)?;
        Some(case.commands(at))
    };
    let commands = plan.cases.iter().find_map(of).unwrap_or_else(|| panic!("no row {row}"));
    let bare = |line: &String| line.trim_start_matches("leveret perf -h URI ").to_owned();
    commands.iter().map(bare).collect()
}

fn names(plan: &Plan) -> Vec<&str> {
    let measured = plan.cases.iter().flat_map(|case| &case.rows);
    measured.chain(plan.means.iter().map(|mean| &mean.row)).map(|row| row.name.as_str()).collect()
}

#[test]
fn plans_hold_together() {
    for known in ALL {
        let plan = plan(known.name, 1.0);
        let names = names(&plan);
        assert_eq!(plan.name, known.name);
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{}: {name} twice", plan.name);
        }
        for row in plan.cases.iter().flat_map(|case| &case.rows) {
            if let Some(other) = &row.relative_to {
                assert!(names.contains(&other.as_str()), "{}: no {other}", plan.name);
            }
        }
        for chart in &plan.charts {
            for row in &chart.rows {
                assert!(names.contains(&row.as_str()), "{}: no row {row}", plan.name);
            }
            let drawn = plan.cases.iter().flat_map(|case| &case.rows);
            let drawn = drawn.filter(|row| chart.rows.is_empty() || chart.rows.contains(&row.name));
            if let ChartKind::Lines { x, lines, .. } = &chart.kind {
                for row in drawn {
                    let has = |name: &String| row.parameters.contains_key(name);
                    assert!(
                        has(x) && lines.as_ref().is_none_or(has),
                        "{}: {}",
                        plan.name,
                        row.name
                    );
                }
            }
        }
    }
}

#[test]
fn every_row_is_in_a_picture() {
    for known in ALL {
        let plan = plan(known.name, 1.0);
        let is_drawn = |name: &&str| {
            plan.charts.iter().any(|chart| {
                chart.rows.is_empty() || chart.rows.iter().any(|row| row.as_str() == *name)
            })
        };
        let left_out: Vec<&str> = names(&plan).into_iter().filter(|name| !is_drawn(name)).collect();
        assert_eq!(left_out, Vec::<&str>::new(), "{}", plan.name);
    }
}

#[test]
fn measured_steps_come_in_the_order_of_their_rows() {
    for case in ALL.iter().flat_map(|known| plan(known.name, 1.0).cases) {
        let measured: Vec<usize> = case.steps.iter().filter_map(|step| step.row).collect();
        let expected: Vec<usize> = (0..case.rows.len()).collect();
        assert_eq!(measured, expected, "{:?}", case.rows);
    }
}

#[test]
fn sharding_compares_the_same_load_with_one_queue() {
    let plan = plan("sharding", 1.0);
    assert_eq!(names(&plan).len(), 9);
    let one = commands(&plan, "the same, confirm-on = ack: 1 queue");
    let [set, of_shards, _, four] = &commands(&plan, "the same, confirm-on = ack: 4 shards")[..]
    else {
        panic!("{plan:?}")
    };
    let load = "-x 4 -y 4 -ad false -K -e bench-hot-queue -t x-modulus-hash -q 200 -c 200 \
                -f persistent -s 1500 -z 10 -u bench-hot-queue-1 -qa x-confirm-on=ack";
    assert_eq!(one, [load]);
    let of_four = load.replace("-qa x-confirm-on=ack", "-p -sb");
    let of_four = of_four.replace("bench-hot-queue-1", "bench-hot-queue");
    assert_eq!(four, &of_four.replace("bench-hot-queue", "bench-hot-queue-of-4"));
    assert!(set.contains("shards-per-node") && of_shards.contains("confirm-on"));
}

#[test]
fn streams_are_read_by_chunk_size_in_ten_pictures() {
    let plan = plan("stream-chunks", 1.0);
    assert_eq!((plan.cases.len(), plan.charts.len()), (33, 10));
    assert!(plan.charts.iter().all(|chart| chart.rows.len() >= 4));
    let line = "leveret perf stream-fill --uris STREAM-URI --replace --stream bench-stream-chunks \
                --messages 3000000 --size 12 --chunk 384";
    let commands = commands(&plan, "12 B, 384 per chunk, AMQP 0-9-1");
    assert_eq!(commands[0], line);
    assert!(commands[1].contains("--initial-credits 50 --no-latency --cmessages 3000000"));
    assert!(commands[2].contains("--qos 200 --stream-consumer-offset first --cmessages 3000000"));
    let published = &plan.cases[0].rows[0].published;
    assert_eq!(published.iter().map(|it| it.value).collect::<Vec<_>>(), [15_862.0, 134_036.0]);
}

#[test]
fn a_crowd_at_the_tail_has_as_many_deliveries_as_a_few() {
    let plan = plan("streams", 1.0);
    assert!(plan.has_floor && plan.cases.iter().all(|case| case.rows.len() == 1));
    let few = commands(&plan, "10 consumers at the tail");
    assert!(few[0].contains("-y 10 ") && few[0].contains("-r 5000 "), "{few:?}");
    let many = commands(&plan, "1000 consumers at the tail");
    assert!(many[0].contains("-y 1000 ") && many[0].contains("-r 50 "), "{many:?}");
    let slow = commands(&plan, "published at 10/s, read");
    assert!(slow[0].contains("-r 10 --pmessages 100 "), "{slow:?}");
}

#[test]
fn features_are_those_of_2012_for_30_seconds() {
    let plan = plan("features", 1.0);
    for (row, options) in [
        ("baseline", "-x 1 -y 1 -a -z 30"),
        ("no consumer", "-x 1 -y 0 -z 30"),
        ("n->0", "-x 4 -y 0 -z 30"),
        ("1->n", "-x 1 -y 4 -a -z 30"),
        ("mandatory", "-x 1 -y 1 -a -f mandatory -z 30"),
        ("ack", "-x 1 -y 1 -z 30"),
        ("ack, confirm", "-x 1 -y 1 -c 1000 -z 30"),
        ("ack, confirm, persistent", "-x 1 -y 1 -c 1000 -f persistent -z 30"),
    ] {
        assert_eq!(commands(&plan, row), [options]);
    }
    let honoured = "# Leveret's configuration: amqp091.immediate = honour";
    let immediate = [honoured, "-x 1 -y 1 -a -f immediate -z 30"];
    assert_eq!(commands(&plan, "immediate"), immediate);
    for n in [4, 16, 64, 256] {
        let queue = "-u bench-backlog -ad false";
        assert_eq!(
            commands(&plan, &format!("0->{n}")),
            [
                format!("-x 1 -y 0 {queue} -C 5000000 -c 1000"),
                format!("-x 0 -y {n} -a {queue} -ew empty -i 0.1"),
            ]
        );
    }
    assert_eq!(names(&plan).len(), 9 + 4);
    let published: Vec<f64> = plan
        .cases
        .iter()
        .flat_map(|case| &case.rows)
        .flat_map(|row| row.published.iter().map(|published| published.value))
        .collect();
    let expected =
        [44_824., 53_710., 149_910., 64_315., 22_402., 22_035., 32_005., 26_103., 4_725.];
    assert_eq!(published, expected);
}

#[test]
fn sweeps_cover_the_grids_of_2012() {
    let sizes = plan("sizes", 1.0);
    let expected = ["5000", "10000", "50000", "100000", "500000", "1000000"];
    assert_eq!(names(&sizes), expected.map(|size| format!("{size} B")));
    assert_eq!(commands(&sizes, "5000 B"), ["-x 1 -y 1 -a -s 5000 -z 30"]);
    let producers = plan("producers-x-sizes", 1.0);
    assert_eq!(names(&producers).len(), 4 * 10);
    assert_eq!(commands(&producers, "100000 B, 10 producers"), ["-x 10 -y 0 -s 100000 -z 30"]);
    let [all_share, each_has_all] = ["prefetch-x-consumers", "fan-out-x-prefetch"];
    for (name, options) in [
        (all_share, "-x 1 -y 1000 -q 10000 -u bench-prefetch -ad false -z 30"),
        (each_has_all, "-x 1 -y 1000 -q 10000 -z 30"),
    ] {
        let grid = plan(name, 1.0);
        assert_eq!(names(&grid).len(), 9 * 8);
        assert_eq!(commands(&grid, "prefetch 10000, 1000 consumers"), [options]);
    }
}

#[test]
fn consumers_of_one_queue_stand_beside_what_was_read_off_the_source_s_chart() {
    let plan = plan("prefetch-x-consumers", 1.0);
    let rows = plan.cases.iter().flat_map(|case| &case.rows);
    let published =
        rows.flat_map(|row| row.published.iter().map(|it| (row.name.as_str(), it.value)));
    let published: Vec<(&str, f64)> = published.collect();
    assert_eq!(published.len(), 12);
    assert_eq!(published[0], ("prefetch 1, 1 consumers", 2_300.0));
    assert_eq!(published[2], ("prefetch 1, 1000 consumers", 15_000.0));
    assert_eq!(published[11], ("prefetch 10000, 10 consumers", 37_000.0));
    assert!(plan.cases.iter().all(|case| case.queues == ["bench-prefetch"]));
}

#[test]
fn load_and_drain_are_500_k_and_10_m() {
    let plan = plan("load-drain", 1.0);
    assert_eq!(
        names(&plan),
        ["short queue", "load 500 k", "drain 500 k", "load 10 M", "drain 10 M"]
    );
    let queue = "-u bench-load-drain -ad false";
    assert_eq!(commands(&plan, "short queue"), [format!("-x 1 -y 1 -a {queue} -z 15")]);
    assert_eq!(
        commands(&plan, "load 500 k"),
        [format!("-x 1 -y 0 -C 500000 {queue} -i 0.1 --interval-messages 2500")]
    );
    assert_eq!(
        commands(&plan, "drain 10 M"),
        [
            format!("-x 1 -y 0 -C 10000000 {queue} -i 0.2 --interval-messages 50000"),
            format!("-x 0 -y 1 -a -D 10000000 {queue} -i 0.2 --interval-messages 50000"),
        ]
    );
}

#[test]
fn classic_queues_are_the_script_s_for_5_minutes() {
    let plan = plan("classic-queues", 1.0);
    assert_eq!(names(&plan).len(), 2 * (6 + 9) + 1);
    assert_eq!(plan.variants, Variants::QueueVersions);
    let always = "-ad false -f persistent -prsd 1 -z 300";
    for (row, options) in [
        ("seven thousand slow, one queue", "-x 7000 -y 7 -P 1 -c 1 -qa x-max-length=1000000"),
        (
            "consumers join late",
            "-x 1 -c 100 -y 10 -q 300 -r 10000 -qa x-max-length=1000000 -csd 150",
        ),
        (
            "consumers join late, single active",
            "-x 1 -c 100 -q 300 -y 50 -r 10000 \
             -qa x-max-length=1000000,x-single-active-consumer=true -csd 150",
        ),
        ("multiack", "-x 1 -y 1 -c 3000 -A 1000 -qa x-max-length=1000000"),
    ] {
        let expected = format!("{options} -s 100 {always} -u bench-classic");
        assert_eq!(commands(&plan, &format!("{row}, 100 B")), [expected]);
    }
    let flows =
        "-x 5 -y 5 -r 10000 -c 500 -qp bench-fivers-%d -qpf 1 -qpt 5 -qa x-max-length=1000000";
    for (row, options) in [
        ("publish and consume", "-x 1 -y 1 -c 3000 -qa x-max-length=5000000 -u bench-classic"),
        ("confirm latency", "-x 1 -y 1 -c 1 -qa x-max-length=1000000 -u bench-classic"),
        ("five flows", flows),
    ] {
        let expected = format!("{options} -s 5000 {always} -i 3");
        assert_eq!(commands(&plan, &format!("{row}, 5000 B")), [expected]);
    }
}

#[test]
fn a_conversion_is_to_the_version_of_the_column() {
    let policy = |version| {
        format!(
            "CTL 'set_policy' '--apply-to' 'queues' 'bench-conversion' '^bench-conversion-' \
             '{{\"queue-version\": {version}}}'"
        )
    };
    let commands = commands(&plan("classic-queues", 1.0), "conversion of 1000 queues, 100 B");
    assert_eq!(commands[1], policy("OTHER"));
    assert!(commands[3].starts_with("-x 1000 -y 0 -c 100 -C 1000 -p "), "{commands:?}");
    assert_eq!(commands[4], policy("VERSION"));
}

#[test]
fn a_classic_queue_is_filled_and_emptied_by_count() {
    let at = |scale: f64, each: &str, all: &str, course: &str| {
        let plan = plan("classic-queues", scale);
        let wait = crate::plan::number(scale);
        let queue = "-u bench-publish-then-consume -qa x-max-length=5000000 --threads 1";
        let always = format!("{queue} -s 5000 -ad false -f persistent -prsd {wait} -i {course}");
        assert_eq!(
            commands(&plan, "consume only, 5000 B"),
            [
                format!("-x 2 -y 0 -c 700 -C {each} {always}"),
                format!("-x 0 -y 1 -q 300 -D {all} -ew empty {always}"),
            ]
        );
    };
    at(1.0, "2500000", "5000000", "0.2 --interval-messages 50000");
    at(0.05, "125000", "250000", "0.1 --interval-messages 2500");
}

#[test]
fn classic_queues_stand_beside_the_four_environments_of_the_source() {
    let plan = plan("classic-queues", 1.0);
    let rows = || plan.cases.iter().flat_map(|case| &case.rows);
    let of = |name: &str, metric| {
        let row = rows().find(|row| row.name == name).unwrap();
        let published = row.published.iter().filter(|it| it.metric == metric);
        let published = published.map(|it| (it.variant.clone().unwrap(), it.value));
        published.collect::<Vec<_>>()
    };
    let versions = |values: [f64; 4]| -> Vec<(String, f64)> {
        ["v2", "v2", "v1", "v1"].map(str::to_owned).into_iter().zip(values).collect()
    };
    let confirm = of("confirm latency, 100 B", Metric::Rate);
    assert_eq!(confirm, versions([898.0, 885.0, 409.0, 346.0]));
    let latency = of("five flows, 5000 B", Metric::LatencyMean);
    assert_eq!(latency, versions([134e3, 107e3, 117e3, 128e3]));
    let published = rows().filter(|row| !row.published.is_empty()).count();
    assert_eq!(published, 2 * (5 + 1) + 1);
    let courses = plan.charts.iter().filter(|chart| chart.kind == ChartKind::OverTime);
    let mut courses: Vec<&str> =
        courses.flat_map(|chart| &chart.rows).map(String::as_str).collect();
    courses.sort_unstable();
    courses.dedup();
    assert_eq!(courses.len(), 2 * 5, "{courses:?}");
}

#[test]
fn confirm_on_has_1_to_30_queues_at_one_exchange_or_two() {
    let plan = plan("confirm-on", 1.0);
    assert_eq!(names(&plan).len(), 30 + 2);
    let load = |connections: &str, exchange: &str, queues: &str| {
        format!(
            "{connections} -c 100 -f persistent -s 1500 -ad false -e bench-confirm-{exchange} \
             -t direct -qp bench-confirm-%d {queues} -z 600"
        )
    };
    assert_eq!(
        commands(&plan, "15 queues"),
        [load("-x 30 -X 2 -y 45 -Y 3", "a", "-qpf 1 -qpt 15")]
    );
    assert_eq!(
        commands(&plan, "30 queues"),
        [
            load("-x 30 -X 2 -y 45 -Y 3", "a", "-qpf 1 -qpt 15"),
            load("-x 30 -X 2 -y 45 -Y 3", "b", "-qpf 16 -qpt 30"),
        ]
    );
}

#[test]
fn confirm_on_compares_four_modes_with_the_source_s_gains() {
    let plan = plan("confirm-on", 1.0);
    let Variants::Leveret(modes) = &plan.variants else { panic!("{:?}", plan.variants) };
    let modes: Vec<(&str, &str, bool)> =
        modes.iter().map(|it| (&*it.name, &*it.queue_arguments, it.is_base)).collect();
    assert_eq!(
        modes,
        [
            ("ack", "x-confirm-on=ack,x-queue-version=2", false),
            ("ack-direct", "x-confirm-on=ack-direct,x-queue-version=2", false),
            ("enqueue", "x-queue-version=2", false),
            ("base", "x-queue-version=1", true),
        ]
    );
    let rows = plan.cases.iter().flat_map(|case| &case.rows);
    let rows = rows.chain(plan.means.iter().map(|mean| &mean.row));
    let gains: Vec<f64> =
        rows.flat_map(|row| row.published.iter().map(|published| published.value)).collect();
    let mean = [1.429, 1.565];
    assert_eq!(gains[..8], [3.08, 3.48, 2.01, 2.16, 1.409, 1.526, 1.403, 1.534]);
    assert_eq!(gains[8..], mean);
    assert_eq!(plan.means[0].of.len(), 27);
    assert_eq!(plan.means[0].of[0], "4 queues");
    let small = "-x 1 -y 1 -q 200 -c 200 -u bench-confirm-cpu -z 10";
    let printed = plan.means[0].row.published.iter().map(|it| it.printed.as_deref());
    assert_eq!(printed.collect::<Vec<_>>(), [Some("+42.9 %"), Some("+56.5 %")]);
    let figures = plan.charts.iter().filter(|chart| !chart.variants.is_empty());
    let figures: Vec<(&str, String)> =
        figures.map(|chart| (&*chart.title, chart.variants.join(" "))).collect();
    assert!(figures[0].0.starts_with("Figure 5 ") && figures[2].0.starts_with("Figure 6 "));
    let variants: Vec<&str> = figures.iter().map(|(_, variants)| variants.as_str()).collect();
    assert_eq!(variants, ["ack base", "ack", "ack-direct base", "ack-direct"]);
    assert_eq!(commands(&plan, "transient 12 B, 1 -> 1"), [small]);
}

#[test]
fn the_hot_path_has_its_nine_aims_and_the_limit_a_floor_for_each() {
    let hot_path = plan("hot-path", 1.0);
    let rows = hot_path.cases.iter().flat_map(|case| &case.rows);
    let goals: Vec<Goal> = rows.filter_map(|row| row.goal).collect();
    let (shares, goals): (Vec<Goal>, Vec<Goal>) =
        goals.into_iter().partition(|goal| matches!(goal, Goal::Share(_)));
    assert_eq!((shares.len(), shares[0]), (13, Goal::Share(1.25)));
    let rates = [6e6, 2.5e6, 0.7e6, 6e6, 5e6, 0.5e6, 1.5e6, 0.35e6].map(Goal::Value);
    assert_eq!(goals, rates.into_iter().chain([Goal::Syncs(1.15)]).collect::<Vec<_>>());
    let limit = plan("limit", 1.0);
    assert!(limit.has_floor && limit.cases.len() == 9);
    assert!(limit.cases.iter().all(|case| case.baseline.is_some()));
}

#[test]
fn amqp_1_0_is_measured_beside_the_same_shape_over_amqp_0_9_1() {
    let plan = plan("hot-path", 1.0);
    let line = "leveret perf amqp10 --queues classic -d false -c 200 --consumer-credits 200 -A 1";
    let behind = "-t /queues/bench-hot -T /queues/bench-hot -z 10 --uri URI";
    let old = "--publisher-protocol amqp091 --consumer-protocol amqp091";
    let new_line = format!("{line} {behind}");
    assert_eq!(commands(&plan, "1.0: accepted, 12 B"), [new_line]);
    assert_eq!(commands(&plan, "0-9-1: accepted, 12 B"), [format!("{line} {old} {behind}")]);
    let filtered = commands(&plan, "1.0: the same through SQL that lets 1 % pass");
    assert!(
        filtered[0].contains("-C 1000000 ") && filtered[3].contains("-D 10000 "),
        "{filtered:?}"
    );
}

#[test]
fn bystanders_are_beside_slow_consumers_huge_queues_and_crowds() {
    let plan = plan("bystander", 1.0);
    let rows: Vec<_> = plan.cases.iter().flat_map(|case| &case.rows).collect();
    let goals: Vec<_> = rows.iter().map(|row| row.goal).collect();
    let [calm, busy] = [1.5, 0.8].map(|share| Some(Goal::Share(share)));
    assert_eq!(goals, [None, calm, calm, None, busy, busy, busy]);
    let pair = "-x 1 -y 1 -a -r 1000 -u bench-pair -z 10";
    assert_eq!(
        commands(&plan, "calm pair, beside a huge queue"),
        [
            "-x 1 -y 0 -c 1000 -C 5000000 -u bench-huge -ad false",
            "-x 1 -y 1 -r 1000 -q 100 -u bench-huge -ad false &",
            pair
        ]
    );
    assert_eq!(commands(&plan, "calm pair, alone"), [pair]);
}

#[test]
fn a_scale_shortens_durations_and_counts_down_to_a_least() {
    assert_eq!(commands(&plan("features", 0.1), "baseline"), ["-x 1 -y 1 -a -z 3"]);
    assert_eq!(commands(&plan("features", 1e-6), "baseline"), ["-x 1 -y 1 -a -z 0.2"]);
    // Rows say what they really carry.
    let drain = plan("load-drain", 0.01);
    assert_eq!(names(&drain)[1..], ["load 5 k", "drain 5 k", "load 100 k", "drain 100 k"]);
    assert!(commands(&drain, "load 5 k")[0].starts_with("-x 1 -y 0 -C 5000 "));
    assert_eq!(names(&plan("load-drain", 0.25))[1..4], ["load 125 k", "drain 125 k", "load 2.5 M"]);
    assert_eq!(
        names(&plan("load-drain", 0.012_345))[1..4],
        ["load 6173", "drain 6173", "load 123450"]
    );
    let drain = plan("load-drain", 1e-9);
    assert_eq!(names(&drain)[1..], ["load 100", "drain 100"]);
    assert!(commands(&drain, "load 100")[0].starts_with("-x 1 -y 0 -C 100 "));
    // A run of 0.3 s must not wait up to 1 s for its publishers, nor 10 s for what is to expire.
    let classic = commands(&plan("classic-queues", 0.001), "expire into dead letters, 100 B");
    let expire = classic.last().unwrap();
    assert!(
        expire.contains("expiration=10 ") && expire.ends_with(" -prsd 0.001 -z 0.3"),
        "{expire}"
    );
}

#[test]
fn chosen_rows_bring_what_they_are_relative_to() {
    let mut features = plan("features", 1.0);
    crate::run::keep_rows(&mut features, &["mandatory".to_owned()]);
    assert_eq!(names(&features), ["baseline", "mandatory"]);
    let mut classic = plan("classic-queues", 1.0);
    crate::run::keep_rows(&mut classic, &["consume only, 100 B".to_owned()]);
    assert_eq!(names(&classic), ["publish only, 100 B", "consume only, 100 B"]);
    assert!(classic.charts.iter().all(|chart| !chart.title.starts_with("Five")));
    let mut confirm_on = plan("confirm-on", 1.0);
    crate::run::keep_rows(&mut confirm_on, &["1 queue".to_owned(), "5 queues".to_owned()]);
    assert_eq!(names(&confirm_on), ["1 queue", "5 queues", "mean of more than 3 queues"]);
    assert_eq!((confirm_on.means[0].of.len(), confirm_on.means[0].n_all), (1, 27));
}

#[test]
fn real_clients_are_timed_beside_a_floor_and_read_streams_to_their_end() {
    let plan = plan("real-clients", 1.0);
    assert!(plan.has_floor);
    let lines = commands(&plan, "200 + 200 connections, persistent");
    let options = "-x 200 -y 200 -r 20 -q 50 -c 10 -f persistent -ad false";
    assert_eq!(
        lines,
        [format!("perf-test -h URI {options} -qp bench-real-%d -qpf 1 -qpt 200 -z 70")]
    );
    assert_eq!(
        commands(&plan, "5,000/s"),
        ["perf-test -h URI -x 1 -y 1 -q 50 -c 50 -r 5000 -z 70"]
    );
    let line = "bench/clients/run pika --uri URI --rate 5000 -z 70";
    assert_eq!(commands(&plan, "pika, 5,000/s"), [line]);
    let drain = commands(&plan, "drain of a quorum queue");
    assert!(drain[0].contains("-C 2000000 -u bench-real -ad false -qq"), "{drain:?}");
    assert!(drain[1].ends_with("-q 200 -p -u bench-real --cmessages 2000000"), "{drain:?}");
    let of_client = plan.cases.iter().filter(|case| case.client().is_some()).count();
    assert_eq!((of_client, plan.cases.len(), names(&plan).len()), (15, 22, 27));
}

#[test]
fn latency_is_that_of_shares_of_the_maximum_beside_a_bystander() {
    let plan = plan("latency", 1.0);
    let rows = ["1 queue, 100 %", "1 queue, 20 %", "1 queue, 50 %", "1 queue, 80 %"];
    assert_eq!(names(&plan)[..4], rows);
    let lines = commands(&plan, "30 queues, 20 %");
    let load = "-x 30 -y 30 -f persistent -q 200 -c 200 -ad false -qp bench-latency-%d -qpf 1 -qpt 30 -z 10";
    assert_eq!((lines[0].as_str(), lines[3].as_str()), (load, load));
    assert!(
        lines[1].starts_with("# with -r RATE: 20 %") && lines[2].contains("-r 10 "),
        "{lines:?}"
    );
}
