//! Help texts.

use crate::failure::{Failure, code};
use crate::options::{GLOBAL, Kind, Switch, meaning};
use crate::output::{ListingColumn, emphasised, shows_bold};
use crate::verb::{Section, Tool, Verb};
use command_help::{ArgumentHelp, CommandHelp, OptionHelp};
use std::collections::BTreeMap;

fn heading(title: &str) -> String {
    emphasised(title, shows_bold())
}

/// The usage line of one verb.
pub(crate) fn base(tool: &Tool, verb: &Verb) -> String {
    format!(
        "\n{}\n\n{tool} [--node <node>] [--longnames] [--quiet] {} [--timeout <timeout>]",
        heading("Usage"),
        verb.usage
    )
}

/// Everything about one verb.
pub(crate) fn of(tool: &Tool, verb: &Verb) -> String {
    let mut text = format!("{}\n\n{}.\n", base(tool, verb), verb.description);
    if let Some(columns) = verb.columns() {
        let titles: Vec<&str> = ListingColumn::all(columns.known).map(|it| it.title).collect();
        text.push_str(&format!("\nColumns: {}\n", titles.join(", ")));
    }
    if !verb.switches.is_empty() {
        text.push_str(&format!("\n{}\n\n{}", heading("Command Options"), lines(&own(verb))));
    }
    let general = lines(&general(Some(verb)));
    text.push_str(&format!("\n{}\n\n{general}", heading("General Options")));
    text
}

/// Options, one a line.
fn lines(options: &[OptionHelp]) -> String {
    let name = |option: &OptionHelp| {
        let value = option.value.map_or_else(String::new, |value| format!(" <{value}>"));
        format!("--{}{value}", option.long)
    };
    let lengths = options.iter().map(|option| name(option).chars().count());
    let width = lengths.filter(|length| *length <= NAME_COLUMNS).max().unwrap_or_default();
    let line = |option: &OptionHelp| {
        let short = option.short.as_ref().map_or_else(String::new, |short| format!("-{short},"));
        format!(" {short:<3} {:<width$}  {}\n", name(option), option.help)
    };
    options.iter().map(line).collect()
}

/// The options of all verbs, but for those that a verb has itself, or has no use for.
fn general(verb: Option<&Verb>) -> Vec<OptionHelp> {
    let is_general = |option: &&Switch| {
        verb.is_none_or(|verb| {
            let is_own = verb.switches.iter().any(|own| own.name == option.name);
            !is_own && (verb.vhost || option.name != "vhost")
        })
    };
    GLOBAL.iter().filter(is_general).map(|option| described("", "", option)).collect()
}

fn own(verb: &Verb) -> Vec<OptionHelp> {
    verb.switches.iter().map(|option| described(verb.name(), verb.usage, option)).collect()
}

fn described(verb: &str, usage: &'static str, option: &Switch) -> OptionHelp {
    let long = match option.name {
        "table-headers" => "no-table-headers",
        name => name,
    };
    let value = || value_name(usage, long).unwrap_or(long);
    OptionHelp {
        long,
        short: option.short.map(String::from),
        value: (option.kind != Kind::Flag).then(value),
        help: meaning(verb, long).to_owned(),
    }
}

/// The name of an option's value, as the usage has it.
fn value_name(usage: &'static str, option: &str) -> Option<&'static str> {
    usage.split("--").find_map(|part| {
        let (between, rest) = part.strip_prefix(option)?.split_once('<')?;
        let is_next = matches!(between.trim_end(), "" | "=") || between.starts_with("|-");
        rest.split_once('>').filter(|_| is_next).map(|(name, _)| name)
    })
}

/// The tool with all its verbs and their options.
pub(crate) fn command_help(tool: &Tool) -> CommandHelp {
    let verb_help = |verb: &'static Verb| CommandHelp {
        name: verb.name(),
        about: verb.description.to_owned(),
        usage: Some(format!("{tool} {}", verb.usage)),
        options: own(verb).into_iter().chain(general(Some(verb))).collect(),
        arguments: arguments(tool, verb),
        commands: Vec::new(),
    };
    let commands = tool.verbs().map(verb_help).collect();
    let usage = Some(format!("{tool} [option ...] <command> [<argument> ...]"));
    CommandHelp { name: "ctl", usage, options: general(None), commands, ..CommandHelp::default() }
}

fn arguments(tool: &Tool, verb: &Verb) -> Vec<ArgumentHelp> {
    if let Some(columns) = verb.columns() {
        let values = ListingColumn::all(columns.known).map(|it| it.title).collect();
        return vec![ArgumentHelp { name: "column", is_many: true, is_required: false, values }];
    }
    let argument = |param: &&'static str| ArgumentHelp {
        name: param.trim_end_matches(['?', '*']),
        is_many: param.ends_with('*'),
        is_required: !param.ends_with(['?', '*']),
        values: match verb.name() {
            "help" => tool.verbs().map(Verb::name).collect(),
            _ => Vec::new(),
        },
    };
    verb.params.iter().map(argument).collect()
}

/// Longer names reach into the column of descriptions.
const NAME_COLUMNS: usize = 48;

/// The list of verbs, by section.
pub(crate) fn commands(tool: &Tool) -> String {
    let lengths = tool.verbs().map(|verb| verb.name().len());
    let width = lengths.filter(|length| *length <= NAME_COLUMNS).max().unwrap_or_default();
    let mut text = String::new();
    let mut sections: BTreeMap<Section, Vec<&Verb>> = BTreeMap::new();
    for verb in tool.verbs() {
        sections.entry(verb.section).or_default().push(verb);
    }
    for (section, mut verbs) in sections {
        verbs.sort_unstable_by_key(|verb| verb.name());
        text.push_str(&format!("\n{}:\n\n", heading(section.as_str())));
        for verb in verbs {
            text.push_str(&format!("   {:width$}  {}\n", verb.name(), verb.description));
        }
    }
    text
}

/// The help without a command.
pub(crate) fn everything(tool: &Tool) -> String {
    format!(
        "\n{}\n\n{tool} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> \
         [<command options>]\n\nAvailable commands:\n{}\n\
         Use '{tool} help <command>' to learn more about a specific command",
        heading("Usage"),
        commands(tool)
    )
}

/// The error for a verb that does not exist.
pub(crate) fn not_found(tool: &Tool, name: &str) -> Failure {
    let text = match tool.suggest(name) {
        Some(suggested) => {
            format!("\nCommand '{name}' not found. \nDid you mean '{suggested}'? \n")
        }
        None => format!("\nCommand '{name}' not found. \n{}", everything(tool)),
    };
    Failure::bare(code::USAGE, text)
}
