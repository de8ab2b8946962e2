//! The text of `--list`.

use crate::plan::{Mean, Plan, RowPlan, Scale, number};
use crate::result::Parameter;
use crate::scenarios::{self, Settings};

/// A line per scenario, or all about those named.
pub(crate) fn list(names: &[String]) -> String {
    let settings = Settings { scale: Scale(1.0), seconds: None };
    if names.is_empty() {
        let plans = scenarios::ALL.iter().map(|known| known.plan(settings));
        return plans
            .map(|plan| format!("{:<22}{} ({} rows)\n", plan.name, plan.title, n_rows(&plan)))
            .collect();
    }
    let known = names.iter().filter_map(|name| scenarios::by_name(name));
    known.map(|known| describe(&known.plan(settings))).collect()
}

fn n_rows(plan: &Plan) -> usize {
    plan.cases.iter().map(|case| case.rows.len()).sum()
}

fn describe(plan: &Plan) -> String {
    let mut text =
        format!("{}: {}\n{}\nSource: {}\n", plan.name, plan.title, plan.about, plan.source);
    for case in &plan.cases {
        for (at, row) in case.rows.iter().enumerate() {
            let parameters = row.parameters.iter().map(|(name, value)| match value {
                Parameter::Number(value) => format!("{name} {}", number(*value)),
                Parameter::Text(value) => format!("{name} {value}"),
            });
            let parameters = parameters.collect::<Vec<_>>().join(", ");
            text.push_str(&format!("  {}  [{parameters}]\n", row.name));
            for command in case.commands(at) {
                text.push_str(&format!("      {command}\n"));
            }
            push_published(&mut text, row);
        }
    }
    for Mean { row, of, .. } in &plan.means {
        let (first, last) = (of.first(), of.last());
        let [first, last] = [first, last].map(|name| name.map_or("", String::as_str));
        text.push_str(&format!("  {}  [{first} to {last}]\n", row.name));
        push_published(&mut text, row);
    }
    text.push('\n');
    text
}

fn push_published(text: &mut String, row: &RowPlan) {
    for published in &row.published {
        let value = crate::progress::value(published.metric, published.value);
        let printed = published.printed.as_deref().map(|text| format!(" ({text})"));
        let printed = printed.unwrap_or_default();
        let variant = published.variant.as_deref().map(|name| format!(" {name}"));
        let by = format!("{}{}", published.by, variant.unwrap_or_default());
        text.push_str(&format!("      {value}{printed}: {by}\n"));
    }
}
