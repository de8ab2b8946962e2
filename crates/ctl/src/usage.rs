//! Help texts.

use crate::failure::{Failure, code};
use crate::output::{emphasised, shows_bold, title};
use crate::verb::{Section, Tool, Verb};
use std::collections::BTreeMap;
use stdx::words;

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
        let titles: Vec<&str> = words(columns.known).map(title).collect();
        text.push_str(&format!("\nColumns: {}\n", titles.join(", ")));
    }
    text.push_str(&format!("\n{}\n\n{OPTIONS}", heading("General Options")));
    text
}

/// The options of all verbs.
const OPTIONS: &str = "\
 -?, --help              shows a command's help
     --data-dir <dir>    the node's data directory (or LEVERET_DATA_DIR; else the default, or that of the only node)
 -n, --node <node>       the node that is meant: no other does what is asked
 -p, --vhost <vhost>     the virtual host, for commands that work in one
 -t, --timeout <n>       seconds to wait for an answer
 -q, --quiet             no informational lines
 -s, --silent            no informational lines, no names of columns
     --no-table-headers  no names of columns
     --formatter <name>  table, csv, json or pretty_table
";

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
