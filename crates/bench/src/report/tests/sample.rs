//! Small runs to draw.

use std::collections::BTreeMap;

use crate::result::{
    Cell, Chart, ChartKind, Column, Figure, Machine, Metric, Outcome, Parameter, Point, Row, Run,
    SCHEMA, Sample, Scenario, Target, WrittenBy,
};

/// A run against Leveret and RabbitMQ.
pub(crate) fn run(scenarios: Vec<Scenario>) -> Run {
    Run {
        schema: SCHEMA,
        tool_version: "0.1.0".to_owned(),
        started_at: "2026-01-31T12:00:00Z".to_owned(),
        seconds: 90.0,
        command: "leveret bench features".to_owned(),
        scale: 0.1,
        repeats: 3,
        baseline: "leveret".to_owned(),
        machine: Machine { cpu: "a processor".to_owned(), n_cores: 2, ..Machine::default() },
        warnings: Vec::new(),
        targets: vec![target("leveret", "Leveret"), target("rabbitmq", "RabbitMQ")],
        scenarios,
    }
}

fn target(name: &str, product: &str) -> Target {
    Target {
        name: name.to_owned(),
        uri: "amqp://localhost".to_owned(),
        product: product.to_owned(),
        version: "1.2.3".to_owned(),
        platform: "a platform".to_owned(),
        pid: Some(4242),
        written_by: Some(if product == "Leveret" { WrittenBy::Broker } else { WrittenBy::Process }),
    }
}

/// A scenario on both targets.
pub(crate) fn scenario(kind: ChartKind, metrics: &[Metric], rows: Vec<Row>) -> Scenario {
    let column =
        |target: &str| Column { target: target.to_owned(), variant: None, is_baseline: false };
    let chart = |metric: &Metric| Chart {
        title: "a chart".to_owned(),
        kind: kind.clone(),
        metric: *metric,
        is_log: false,
        rows: Vec::new(),
        variants: Vec::new(),
        beside: None,
    };
    Scenario {
        name: "some-scenario".to_owned(),
        title: "Some scenario".to_owned(),
        about: "What it is about.".to_owned(),
        source: "a source".to_owned(),
        columns: vec![column("leveret"), column("rabbitmq")],
        metrics: metrics.to_vec(),
        charts: metrics.iter().take(1).map(chart).collect(),
        rows,
        left_out: Vec::new(),
    }
}

/// A row in which both have the same metrics.
pub(crate) fn row(name: &str, cells: Vec<Cell>) -> Row {
    Row {
        name: name.to_owned(),
        note: None,
        parameters: BTreeMap::new(),
        commands: vec!["leveret perf -h URI".to_owned()],
        metric: Metric::PerCpuSecond,
        relative_to: None,
        goal: None,
        published: Vec::new(),
        cells,
    }
}

/// The same with numbers for axes.
pub(crate) fn row_at(parameters: &[(&str, f64)], cells: Vec<Cell>) -> Row {
    let name: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let number = |(name, value): &(&str, f64)| ((*name).to_owned(), Parameter::Number(*value));
    let parameters = parameters.iter().map(number).collect();
    Row { parameters, ..row(&name.join(", "), cells) }
}

/// Medians, with repeats a tenth below and above.
pub(crate) fn measured(values: &[(Metric, f64)]) -> Cell {
    let figure = |(metric, median): &(Metric, f64)| {
        let (min, max) = (median * 0.9, median * 1.1);
        (*metric, Figure { median: *median, min, max, ratio: None })
    };
    Cell {
        outcome: Outcome::Measured,
        figures: values.iter().map(figure).collect(),
        samples: Vec::new(),
    }
}

/// A cell of one sample with a series of sent and received messages per second, a second each.
pub(crate) fn over_time(rates: &[(f64, f64)]) -> Cell {
    let point = |(at, (sent, received)): (i32, &(f64, f64))| Point {
        seconds: f64::from(at),
        sent_per_second: Some(*sent),
        received_per_second: Some(*received),
        ..Point::default()
    };
    let series = (1..).zip(rates).map(point).collect();
    let sample =
        Sample { repeat: 1, at_seconds: 0.0, seconds: 1.0, values: BTreeMap::new(), series };
    Cell { samples: vec![sample], ..measured(&[(Metric::Duration, 3.0)]) }
}

/// A cell without figures.
pub(crate) fn refused(reason: &str) -> Cell {
    let outcome = Outcome::Refused { reason: reason.to_owned() };
    Cell { outcome, figures: BTreeMap::new(), samples: Vec::new() }
}
