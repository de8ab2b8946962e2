//! Details to judge or repeat the run: machine, versions, commands, and what went wrong.

use crate::report::figure::published_text;
use crate::report::markup::Markup;
use crate::report::names::{self, Name};
use crate::report::number::{short, text};
use crate::report::published;
use crate::report::sweep::label;
use crate::result::{Outcome, Row, Run, Scenario, Unit};

/// The machine, the brokers and the call.
pub(crate) fn draw_run(out: &mut Markup, run: &Run) {
    out.element("section").attr("id", "run").with(|out| {
        out.element("h2").text("The run");
        folded(out, "Brokers", true, |out| draw_targets(out, run));
        folded(out, "Machine", true, |out| draw_machine(out, run));
        folded(out, "Command", true, |out| {
            out.element("pre").text(&run.command);
            out.element("p").text(format_args!(
                "leveret bench {}, begun {}, {} long; {} repeats of each row; scale {} (1: durations \
                 and message counts are the sources').",
                run.tool_version,
                run.started_at,
                text(run.seconds, Unit::Seconds),
                run.repeats,
                short(run.scale),
            ));
        });
    });
}

/// The facts about a broker beside its name.
const FACTS: [&str; 5] = ["product", "version", "platform", "address", "process"];

fn draw_targets(out: &mut Markup, run: &Run) {
    out.element("div").class("scroll").with(|out| {
        out.element("table").class("facts brokers").with(|out| {
            out.element("thead").with(|out| {
                out.element("tr").with(|out| {
                    out.element("th").attr("scope", "col").text("broker");
                    for head in FACTS {
                        out.element("th").attr("scope", "col").text(head);
                    }
                });
            });
            out.element("tbody").with(|out| {
                for (at, target) in run.targets.iter().enumerate() {
                    out.element("tr").with(|out| {
                        let name = out.element("th").attr("scope", "row");
                        name.class(names::colour(at)).text(&target.name);
                        let pid = target
                            .pid
                            .map_or_else(|| "elsewhere".to_owned(), |pid| pid.to_string());
                        let facts =
                            [&target.product, &target.version, &target.platform, &target.uri, &pid];
                        for (head, fact) in FACTS.into_iter().zip(facts) {
                            out.element("td").attr("data-head", head).text(fact);
                        }
                    });
                }
            });
        });
    });
}

fn draw_machine(out: &mut Markup, run: &Run) {
    let machine = &run.machine;
    let cores = machine.n_cores.to_string();
    let memory = text(machine.memory_bytes.to_string().parse().unwrap_or(f64::NAN), Unit::Bytes);
    let facts = [
        ("processor", machine.cpu.as_str()),
        ("cores", &cores),
        ("memory", &memory),
        ("kernel", &machine.kernel),
        ("system", machine.system.as_deref().unwrap_or("unknown")),
        ("frequency governor", machine.governor.as_deref().unwrap_or("not visible")),
    ];
    out.element("table").class("facts").with(|out| {
        out.element("tbody").with(|out| {
            for (name, fact) in facts {
                out.element("tr").with(|out| {
                    out.element("th").attr("scope", "row").text(name);
                    out.element("td").text(fact);
                });
            }
        });
    });
}

/// The rows that could not be measured and why, then the commands that repeat each row, and published
/// figures.
pub(crate) fn draw_scenario(out: &mut Markup, scenario: &Scenario, columns: &[Name]) {
    let missing: Vec<String> = scenario.rows.iter().flat_map(|row| missing(row, columns)).collect();
    if !missing.is_empty() {
        out.element("ul").class("missing").with(|out| {
            for line in &missing {
                out.element("li").text(line);
            }
        });
    }
    if !scenario.left_out.is_empty() {
        let line = out.element("p").class("what");
        line.text(format_args!("Not asked for (--rows): {}", scenario.left_out.join(", ")));
    }
    if published::has_variants(scenario) {
        folded(out, "Published for the same, on other machines, beside this run", true, |out| {
            published::draw(out, scenario, columns);
        });
    } else if scenario.rows.iter().any(|row| !row.published.is_empty()) {
        folded(out, "Published for the same, on other machines", false, |out| {
            draw_published(out, scenario);
        });
    }
    folded(out, "Commands and parameters", false, |out| {
        for row in &scenario.rows {
            draw_row(out, row);
        }
    });
}

fn missing(row: &Row, columns: &[Name]) -> Vec<String> {
    let of_cell = |(cell, column): (&crate::result::Cell, &Name)| {
        let (word, reason) = match &cell.outcome {
            Outcome::Measured => return None,
            Outcome::Refused { reason } => ("refused", reason),
            Outcome::NotOffered { reason } => ("not offered", reason),
            Outcome::Failed { reason } => ("failed", reason),
        };
        Some(format!("{}, {}: {word}: {reason}", row.name, column.text))
    };
    row.cells.iter().zip(columns).filter_map(of_cell).collect()
}

fn draw_published(out: &mut Markup, scenario: &Scenario) {
    out.element("div").class("scroll").with(|out| {
        out.element("table").class("facts").with(|out| {
            out.element("tbody").with(|out| {
                for row in &scenario.rows {
                    for published in &row.published {
                        let value = published_text(published);
                        out.element("tr").with(|out| {
                            out.element("th").attr("scope", "row").text(&row.name);
                            out.element("td").text(&published.by);
                            out.element("td").text(published.metric.noun());
                            out.element("td").class("number").text(value);
                        });
                    }
                }
            });
        });
    });
}

fn draw_row(out: &mut Markup, row: &Row) {
    out.element("h4").text(&row.name);
    let parameters = row.parameters.iter();
    let parameters: Vec<String> =
        parameters.map(|(name, value)| format!("{name} {}", label(value))).collect();
    if !parameters.is_empty() {
        out.element("p").class("parameters").text(parameters.join(" · "));
    }
    if !row.commands.is_empty() {
        out.element("pre").text(row.commands.join("\n"));
    }
}

/// A part that opens when its heading is clicked.
pub(crate) fn folded(
    out: &mut Markup,
    heading: &str,
    is_open: bool,
    inside: impl FnOnce(&mut Markup),
) {
    let details = out.element("details");
    let details = if is_open { details.attr("open", "open") } else { details };
    details.with(|out| {
        out.element("summary").text(heading);
        inside(out);
    });
}
