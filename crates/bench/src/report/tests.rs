//! Whole pages of small runs: what they say, and that nothing from outside gets out of its place.

mod sample;
mod well_formed;

use super::html;
use crate::result::{Chart, ChartKind, Column, Goal, Metric, Parameter, PublishedFigure, Row, Run};
use sample::{measured, over_time, refused, row, row_at, run, scenario};

const CPU: Metric = Metric::PerCpuSecond;

/// The page with plain spaces.
fn page(run: &Run) -> String {
    let html = html(run);
    assert_eq!(well_formed::problems(&html), Vec::<String>::new());
    html.replace('\u{202f}', " ")
}

#[track_caller]
fn assert_says(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(
            page.contains(part),
            "{part:?} is not in {}",
            page.split("</style>").last().unwrap()
        );
    }
}

fn features() -> Run {
    let both = |ours: f64, theirs: f64| vec![measured(&[(CPU, ours)]), measured(&[(CPU, theirs)])];
    let mut first = row("auto-ack", both(5_600_000.0, 70_000.0));
    first.goal = Some(Goal { metric: CPU, value: 6_000_000.0 });
    let by = "RabbitMQ 2.8.1".to_owned();
    first.published.push(PublishedFigure {
        by,
        metric: Metric::Rate,
        value: 44_824.0,
        printed: None,
        variant: None,
    });
    let immediate = vec![measured(&[(CPU, 1e6)]), refused("NOT_IMPLEMENTED - immediate=true")];
    let rows = vec![first, row("acked", both(1_000_000.0, 50_000.0)), row("immediate", immediate)];
    run(vec![scenario(ChartKind::Bars, &[CPU, Metric::Rate], rows)])
}

#[test]
fn bars_say_what_was_found_in_rows_and_in_one_sentence() {
    let page = page(&features());
    assert_says(
        &page,
        &[
            "<h3>Leveret: 40× RabbitMQ (20× to 80×) in messages per CPU-second</h3>",
            "<b>40×</b> RabbitMQ",
            "<th scope=\"col\">Leveret ÷ RabbitMQ</th>",
            "<td class=\"ratio\" data-head=\"Leveret ÷ RabbitMQ\">80×</td>",
            "<td data-head=\"Leveret\"><b>5.6 M</b><small>5.04 M – 6.16 M</small></td>",
            "<title>auto-ack&#10;Leveret: 5.6 M (5.04 M – 6.16 M)&#10;RabbitMQ: 70 000 (63 000 – \
             77 000)&#10;Leveret ÷ RabbitMQ: 80×&#10;aim: 6 M</title>",
            "<td>RabbitMQ 2.8.1</td><td>messages per second</td><td class=\"number\">44 824/s</td>",
        ],
    );
    assert!(!page.contains(">per second<"), "a metric that nobody measured has no button");
}

#[test]
fn an_axis_over_decades_is_logarithmic_and_says_so() {
    assert_says(
        &page(&features()),
        &[
            ">100 000</text>",
            ">1 M</text>",
            ">10 M</text>",
            "messages per CPU-second, logarithmic (more is better; dashed: aim)",
        ],
    );
}

#[test]
fn what_was_refused_is_said_in_the_chart_and_below() {
    assert_says(
        &page(&features()),
        &[
            "<text class=\"none\" x=\"4\" y=\"36\">refused</text>",
            "<td class=\"none\" data-head=\"RabbitMQ\" title=\"NOT_IMPLEMENTED - immediate=true\">refused</td>",
            "<li>immediate, RabbitMQ: refused: NOT_IMPLEMENTED - immediate=true</li>",
            "<td class=\"ratio\" data-head=\"Leveret ÷ RabbitMQ\">–</td>",
        ],
    );
}

#[test]
fn bytes_written_say_who_counted_them_and_are_compared_only_with_their_like() {
    let cell = |bytes: f64| measured(&[(Metric::WrittenEach, bytes)]);
    let rows = || vec![row("fan-out", vec![cell(5_000.0), cell(60_000.0)])];
    let mut run = run(vec![scenario(ChartKind::Bars, &[Metric::WrittenEach], rows())]);
    let said = page(&run);
    assert_says(
        &said,
        &[
            "Leveret: what the broker hands to the system for its data files, by its own count.",
            "RabbitMQ: write_bytes of the process, as the system counts it",
        ],
    );
    assert!(!said.contains("Leveret ÷ RabbitMQ") && !said.contains("12×"), "{said}");
    run.targets[0].written_by = run.targets[1].written_by;
    assert_says(&page(&run), &["Leveret, RabbitMQ: write_bytes", "12× lower than RabbitMQ"]);
}

#[test]
fn published_variants_stand_beside_those_of_the_run_with_their_ratios() {
    let cell = |rate: f64| measured(&[(Metric::Rate, rate)]);
    let mut publish = row("publish only", vec![cell(9_000.0), cell(6_000.0)]);
    let published = [("RabbitMQ 3.13", "v2", 52e3), ("RabbitMQ 3.12", "v2", 45e3)];
    for (by, variant, value) in published.into_iter().chain([("RabbitMQ 3.13", "v1", 26e3)]) {
        let (by, variant) = (by.to_owned(), Some(variant.to_owned()));
        let metric = Metric::Rate;
        publish.published.push(PublishedFigure { by, variant, metric, value, printed: None });
    }
    let mut run = run(vec![scenario(ChartKind::Bars, &[Metric::Rate], vec![publish])]);
    let column = |variant: &str| Column {
        target: "leveret".to_owned(),
        variant: Some(variant.to_owned()),
        is_baseline: false,
    };
    run.scenarios[0].columns = vec![column("v2"), column("v1")];
    assert_says(
        &page(&run),
        &[
            "<th scope=\"col\">RabbitMQ 3.13 v2 ÷ v1</th><th scope=\"col\">Leveret v2 ÷ v1</th></tr>",
            "publish only<small>messages per second</small></th><td data-head=\"RabbitMQ 3.13 v2\">52 000/s</td>",
            "<td data-head=\"Leveret v1\">6 000/s</td><td class=\"ratio\" data-head=\"RabbitMQ 3.13 v2 ÷ v1\">2.0×",
            "<td class=\"ratio\" data-head=\"Leveret v2 ÷ v1\">1.50×</td>",
        ],
    );
}

#[test]
fn rows_that_are_not_shown_say_why() {
    let latency = measured(&[(Metric::LatencyMedian, 480.0)]);
    let rows = vec![
        row("one at a time", vec![latency.clone(), latency]),
        row("publish only", vec![measured(&[(CPU, 1e6)]), measured(&[(CPU, 2e4)])]),
    ];
    let mut run = run(vec![scenario(ChartKind::Bars, &[Metric::LatencyMedian], rows)]);
    run.scenarios[0].left_out = vec!["mandatory".to_owned()];
    run.warnings = vec!["The machine was busy.".to_owned()];
    assert_says(
        &page(&run),
        &[
            "Not shown (nothing is consumed): publish only</p>",
            "Not asked for (--rows): mandatory</p>",
            "<p class=\"warning\" role=\"note\">The machine was busy.</p>",
        ],
    );
}

/// Rows of 1, 2 and 15 queues in three variants, the first being the base, as `confirm-on` draws them.
fn gains() -> Run {
    let by = "level 1 of the paper";
    let cell = |rate: f64, gain: f64| measured(&[(Metric::SendRate, rate), (Metric::Gain, gain)]);
    let queues = |n: f64, base: f64, published: Option<(f64, &str)>| {
        let cells = vec![cell(base, 1.0), cell(base * 20.0, 20.0), cell(base * 7.0, 7.0)];
        let published = published.map(|(value, printed)| PublishedFigure {
            by: by.to_owned(),
            metric: Metric::Gain,
            value,
            printed: Some(printed.to_owned()),
            variant: None,
        });
        Row { published: published.into_iter().collect(), ..row_at(&[("queues", n)], cells) }
    };
    let published = [Some((3.08, "3.08×")), None, Some((1.409, "+40.9 %"))];
    let rows = [1.0, 2.0, 15.0].into_iter().zip(published);
    let mut rows: Vec<Row> = rows.map(|(n, it)| queues(n, 1000.0 * n, it)).collect();
    rows[2].note = Some("7 of 27 rows".to_owned());
    let kind = ChartKind::Lines { x: "queues".to_owned(), is_x_log: false, lines: None };
    let mut scenario = scenario(kind, &[Metric::SendRate], rows);
    scenario.columns = ["base", "ack", "enqueue"]
        .map(|variant| Column { variant: Some(variant.to_owned()), ..scenario.columns[0].clone() })
        .into();
    let chart = scenario.charts[0].clone();
    let of = |metric, variants: &[&str], beside: Option<&str>| Chart {
        metric,
        variants: variants.iter().map(|name| (*name).to_owned()).collect(),
        beside: beside.map(str::to_owned),
        ..chart.clone()
    };
    scenario.charts =
        vec![of(Metric::SendRate, &["ack", "base"], None), of(Metric::Gain, &["ack"], Some(by))];
    run(vec![scenario])
}

#[test]
fn a_picture_of_some_variants_stands_on_axes_from_zero_with_what_was_published_beside() {
    let page = page(&gains());
    let pictures: Vec<&str> = page.split("<div class=\"picture\">").skip(1).collect();
    assert_eq!(pictures.len(), 2);
    let (rates, gain) = (pictures[0], pictures[1]);
    assert_says(
        rates,
        &[">Leveret base</div>", ">Leveret ack</div>", ">0</text>", ">300 000</text>"],
    );
    assert!(!rates.contains("Leveret enqueue") && !rates.contains("logarithmic"));
    let first_sheet = gain.split("<table").next().unwrap();
    assert_says(
        first_sheet,
        &[
            ">published</div>",
            "level 1 of the paper: 3.08×<",
            "queues 15 (7 of 27 rows)",
            "+40.9 % (1.41×)",
        ],
    );
    assert_eq!(first_sheet.matches("<polyline").count(), 1, "what was published is no line");
    assert_eq!(first_sheet.matches("class=\"marker\"").count(), 3 + 2);
    assert_says(
        &page,
        &["<td class=\"number\">+40.9 % (1.41×)</td>", "<small>7 of 27 rows</small>"],
    );
}

#[test]
fn courses_over_time_are_there_for_every_scenario_that_has_some() {
    let steady = || over_time(&[(9.0, 0.0), (9.0, 0.0), (0.0, 9.0), (0.0, 9.0)]);
    let rows = vec![row("a million", vec![steady(), steady()])];
    let page = page(&run(vec![scenario(ChartKind::Bars, &[Metric::Rate], rows)]));
    assert_says(&page, &["<summary>Over time</summary>", "a million · Leveret · no pause"]);
}

#[test]
fn of_latencies_the_lower_one_is_spoken_of() {
    let latency = |median: f64| {
        measured(&[(Metric::LatencyMedian, median), (Metric::LatencyP99, median * 5.0)])
    };
    let rows = vec![row("one at a time", vec![latency(480.0), latency(160.0)])];
    let metrics = [Metric::LatencyMedian, Metric::LatencyP99];
    let page = page(&run(vec![scenario(ChartKind::Bars, &metrics, rows)]));
    assert_says(
        &page,
        &[
            "<h3>RabbitMQ: median latency 3.0× lower than Leveret</h3>",
            "<small>p99 2.4 ms</small>",
            "median latency, logarithmic (less is better; ring: 99th percentile)",
            "<b>0.33×</b> RabbitMQ",
        ],
    );
}

#[test]
fn another_baseline_leaves_colours_as_they_are() {
    let mut run = features();
    run.baseline = "rabbitmq".to_owned();
    let scenario = &mut run.scenarios[0];
    scenario.columns.reverse();
    scenario.rows.iter_mut().for_each(|row| row.cells.reverse());
    assert_says(
        &page(&run),
        &[
            "<h3>Leveret: 40× RabbitMQ (20× to 80×) in messages per CPU-second</h3>",
            "<li class=\"c1 variant-0\">RabbitMQ</li><li class=\"c0 variant-0\">Leveret</li>",
            "<b>40×</b> RabbitMQ",
        ],
    );
}

#[test]
fn variants_share_a_colour_and_the_machines_limit_is_no_rival() {
    let mut run = features();
    let column = |target: &str, variant: Option<&str>, is_baseline| Column {
        target: target.to_owned(),
        variant: variant.map(str::to_owned),
        is_baseline,
    };
    run.scenarios[0].columns = vec![
        column("leveret", Some("v1"), false),
        column("leveret", Some("v2"), false),
        column("relay", None, true),
    ];
    let cells = [2e6, 1e6, 9e6].map(|value| measured(&[(CPU, value)])).to_vec();
    run.scenarios[0].rows = vec![row("a", cells)];
    assert_says(
        &page(&run),
        &[
            "<li class=\"c0 variant-0\">Leveret v1</li><li class=\"c0 variant-1\">Leveret v2</li>\
             <li class=\"floor variant-0\">relay</li>",
            "<h3>Leveret v1: 2.0× Leveret v2 in messages per CPU-second</h3>",
        ],
    );
}

#[test]
fn a_sweep_is_lines_with_names_at_their_ends() {
    let cells =
        |queues: f64| vec![measured(&[(CPU, 1e6 + queues)]), measured(&[(CPU, 2e4 + queues)])];
    let rows = [1.0, 10.0, 100.0].map(|n| row_at(&[("queues", n)], cells(n))).to_vec();
    let kind = ChartKind::Lines { x: "queues".to_owned(), is_x_log: true, lines: None };
    assert_says(
        &page(&run(vec![scenario(kind, &[CPU], rows)])),
        &[
            "<div class=\"panels one\">",
            "<polyline class=\"line c0 variant-0\" points=\"3.00,",
            "<text class=\"tick\" x=\"50%\" y=\"16\">10</text>",
            "px\">Leveret</div>",
            "<div class=\"x-name\">queues</div>",
        ],
    );
}

#[test]
fn a_second_parameter_makes_small_charts_and_tables_of_colours() {
    let mut rows = Vec::new();
    for size in [0.0, 1000.0] {
        for producers in [1.0, 2.0] {
            let cells = vec![measured(&[(CPU, 4e6 - size)]), measured(&[(CPU, 1e5 * producers)])];
            rows.push(row_at(&[("size", size), ("producers", producers)], cells));
        }
    }
    rows.pop();
    let lines = Some("size".to_owned());
    let kind = ChartKind::Lines { x: "producers".to_owned(), is_x_log: false, lines };
    assert_says(
        &page(&run(vec![scenario(kind, &[CPU], rows)])),
        &[
            "<div class=\"frame-heading\">size 1 000</div>",
            "<caption>Leveret: messages per CPU-second</caption>",
            "<caption>Leveret ÷ RabbitMQ</caption>",
            ">40×</td>",
            ">20×</td>",
            "<td>–</td>",
        ],
    );
}

#[test]
fn a_sweep_with_one_value_or_without_numbers_is_still_drawn() {
    let kind = || ChartKind::Lines { x: "mode".to_owned(), is_x_log: true, lines: None };
    let at = |mode: &str| {
        let mut row = row(mode, vec![measured(&[(CPU, 1.0)]), measured(&[(CPU, 2.0)])]);
        row.parameters.insert("mode".to_owned(), Parameter::Text(mode.to_owned()));
        row
    };
    let one = page(&run(vec![scenario(kind(), &[CPU], vec![at("base")])]));
    assert_says(&one, &["<div class=\"bar-label\">base</div>"]);
    let two = page(&run(vec![scenario(kind(), &[CPU], vec![at("base"), at("ack")])]));
    assert_says(&two, &["y=\"16\">base</text>", "y=\"16\">ack</text>"]);
}

#[test]
fn pauses_over_time_are_shaded_and_counted() {
    let steady = over_time(&[(9.0, 0.0), (9.0, 0.0), (0.0, 9.0), (0.0, 9.0)]);
    let stalling = over_time(&[(9.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 9.0)]);
    let rows = vec![row("a million", vec![steady, stalling])];
    let metrics = [Metric::Rate, Metric::Duration];
    let page = page(&run(vec![scenario(ChartKind::OverTime, &metrics, rows)]));
    assert_says(
        &page,
        &[
            "a million · Leveret · no pause",
            "a million · RabbitMQ · pause of 2 s",
            "<rect class=\"pause c1 variant-0\" x=\"25.00\" height=\"100%\" width=\"50.00\"/>",
            "Leveret, published: 9/s",
            ">duration</label>",
        ],
    );
}

#[test]
fn nothing_that_a_broker_or_a_machine_says_becomes_markup() {
    const EVIL: &str =
        "</title></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&\u{0}";
    let evil = || EVIL.to_owned();
    let mut run = features();
    (run.tool_version, run.started_at, run.command) = (evil(), evil(), evil());
    let machine = &mut run.machine;
    (machine.cpu, machine.kernel) = (evil(), evil());
    (machine.system, machine.governor) = (Some(evil()), Some(evil()));
    for target in &mut run.targets {
        (target.name, target.product, target.version) = (evil(), evil(), evil());
        (target.platform, target.uri) = (evil(), evil());
    }
    let scenario = &mut run.scenarios[0];
    (scenario.name, scenario.title) = (evil(), evil());
    (scenario.about, scenario.source) = (evil(), evil());
    (scenario.columns[0].target, scenario.columns[1].target) = (evil(), evil());
    scenario.columns[1].variant = Some(evil());
    scenario.charts[0].title = evil();
    for row in &mut scenario.rows {
        row.name.push_str(EVIL);
        row.note = Some(evil());
        row.commands.push(evil());
        row.parameters.insert(evil(), Parameter::Text(evil()));
        row.published.push(PublishedFigure {
            by: evil(),
            metric: CPU,
            value: f64::NAN,
            printed: Some(evil()),
            variant: Some(evil()),
        });
    }
    scenario.rows[2].cells[1] = refused(EVIL);
    scenario.charts[0].kind = ChartKind::Lines { x: evil(), is_x_log: true, lines: Some(evil()) };
    let page = page(&run);
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 1);
    assert_says(&page, &["&lt;script&gt;alert(1)&lt;/script&gt;"]);
}

#[test]
fn a_broker_has_the_name_it_was_given_and_says_what_it_calls_itself() {
    let mut run = features();
    let ours = &mut run.targets[0];
    (ours.product, ours.platform) = ("RabbitMQ".to_owned(), "Leveret".to_owned());
    assert_says(
        &page(&run),
        &[
            "Leveret<small> calls itself RabbitMQ 1.2.3 (Leveret)</small>",
            "RabbitMQ<small> 1.2.3 (a platform)</small>",
        ],
    );
}

#[test]
fn brokers_have_a_head_for_every_fact_and_words_of_the_command_line_are_code() {
    let mut run = features();
    run.scenarios[0].about = "A target with `version=both` is measured twice.".to_owned();
    assert_says(
        &page(&run),
        &[
            "A target with <code>version=both</code> is measured twice.",
            "<td data-head=\"version\">1.2.3</td>",
            "<td data-head=\"process\">",
        ],
    );
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = page(&features());
    assert_says(&page, &["content=\"default-src &#39;none&#39;"]);
    for loads in ["http:", "https:", "url(", "@import", "import(", "fetch(", "XMLHttp"] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn the_same_run_makes_the_same_page() {
    assert_eq!(html(&features()), html(&features()));
}

#[test]
fn odd_runs_are_drawn_too() {
    let mut empty = run(Vec::new());
    empty.targets.clear();
    page(&empty);
    let mut odd = features();
    odd.scenarios[0].columns.clear();
    odd.scenarios[0].charts[0].rows = vec!["no such row".to_owned()];
    page(&odd);
    let mut odd = features();
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        odd.scenarios[0].rows[0].cells[0] = measured(&[(CPU, value)]);
        let page = page(&odd);
        assert!(!page.contains("NaN") && !page.contains("=\"inf"), "{value}");
    }
}
