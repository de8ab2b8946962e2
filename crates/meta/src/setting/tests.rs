//! The page of documentation that lists the table, held against it.

use std::fmt::Write as _;

use super::argument::ArgumentRule;
use super::policy::PolicyValues;
use super::{Precedence, SETTINGS, Setting};
use crate::queue_type::STREAM;

const PAGE: &str = include_str!("../../../../docs/queue-settings.md");
/// The line of the page after which the table stands, up to its end.
const MARK: &str = "## All settings\n\n";

#[test]
fn the_page_of_queue_settings_lists_them_all() {
    let (_, listed) = PAGE.split_once(MARK).expect("the mark");
    let wanted = table();
    assert!(listed == wanted, "docs/queue-settings.md is to end with this table:\n{wanted}");
}

fn table() -> String {
    let mut table =
        "| Argument | Queues | Values | Policy key | Values | Argument and policy | Operator policies |\n\
                     |---|---|---|---|---|---|---|\n"
            .to_owned();
    for setting in SETTINGS {
        let (argument, its_values) = (setting.argument.as_ref())
            .map_or_else(blank, |(name, rule)| (code(name), argument_values(rule)));
        let (key, values) = (setting.policy.as_ref())
            .map_or_else(blank, |(key, rule)| (code(key), policy_values(rule.values)));
        let (queues, both, operators) = (queues(setting), precedence(setting), operators(setting));
        writeln!(
            table,
            "| {argument} | {queues} | {its_values} | {key} | {values} | {both} | {operators} |"
        )
        .unwrap();
    }
    table
}

/// The types of queue that know the argument.
fn known(setting: &Setting) -> Vec<&'static str> {
    setting.types.iter().map(|queues| queues.kind.as_str()).collect()
}

fn queues(setting: &Setting) -> String {
    if setting.argument.is_none() { "-".to_owned() } else { words(&known(setting)) }
}

fn blank() -> (String, String) {
    ("-".to_owned(), "-".to_owned())
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn words(words: &[&str]) -> String {
    words.iter().map(|word| code(word)).collect::<Vec<_>>().join(", ")
}

fn numbers(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn argument_values(rule: &ArgumentRule) -> String {
    match rule {
        ArgumentRule::Any => "text".to_owned(),
        ArgumentRule::Flag => "`true`, `false`".to_owned(),
        ArgumentRule::Integer => "number; negative: no limit".to_owned(),
        ArgumentRule::NotNegative => "0 or more".to_owned(),
        ArgumentRule::Positive => "1 or more".to_owned(),
        ArgumentRule::UpTo(most) => format!("0 to {most}"),
        ArgumentRule::Numbers(known, _) => numbers(known),
        ArgumentRule::Milliseconds => "milliseconds, up to ten years".to_owned(),
        ArgumentRule::PositiveMilliseconds => "milliseconds from 1, up to ten years".to_owned(),
        ArgumentRule::Words(known, _) => words(known),
        ArgumentRule::Age => "number and `Y`, `M`, `D`, `h`, `m` or `s`".to_owned(),
        ArgumentRule::Within(least, most, _) => format!("{least} to {most}"),
        ArgumentRule::DeadLetterRoutingKey => "text, with a dead letter exchange".to_owned(),
    }
}

fn policy_values(values: PolicyValues) -> String {
    match values {
        PolicyValues::Flag => "`true`, `false`".to_owned(),
        PolicyValues::Text => "text".to_owned(),
        PolicyValues::Integer => "number; negative: no limit".to_owned(),
        PolicyValues::AtLeast(least) => format!("{least} or more"),
        PolicyValues::Between(least, most) => format!("{least} to {most}"),
        PolicyValues::Numbers(known) => numbers(known),
        PolicyValues::Words(known) => words(known),
        PolicyValues::Age => "number and `Y`, `M`, `D`, `h`, `m` or `s`".to_owned(),
    }
}

fn precedence(setting: &Setting) -> &'static str {
    match (&setting.argument, &setting.policy, setting.with_policy) {
        (None, _, _) | (_, None, _) => "-",
        _ if setting.types == [&STREAM] => "the policy",
        (.., Precedence::Argument) => "the argument",
        (.., Precedence::Policy) => "the policy",
        (.., Precedence::Smaller) => "the smaller",
    }
}

fn operators(setting: &Setting) -> &'static str {
    setting.policy.as_ref().map_or("-", |(_, rule)| rule.for_documentation())
}
