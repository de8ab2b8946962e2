//! Completions beyond those of clap: short names of several letters, which clap does not know, and a file for
//! fish that is small enough to load at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap_complete::Shell;

use super::NOTE;

/// The condition of fish's completions for some commands of a tool, and for a tool without any.
const BELOW: &str = "; and __fish_seen_subcommand_from ";
const NOT_BELOW: &str = "; and not __fish_seen_subcommand_from ";

/// Completions as clap writes them, improved. `short_names` are those of several letters, by the command's
/// words (`leveret-perf`) and the long name.
pub(super) fn improved(shell: Shell, text: &str, short_names: &ShortNames) -> String {
    match shell {
        Shell::Fish => fish(text),
        Shell::Zsh => zsh(text),
        Shell::Bash => bash(text, short_names),
        Shell::Elvish | Shell::PowerShell | _ => text.to_owned(),
    }
}

/// Long and short names of options, by the words of their command.
pub(super) type ShortNames = BTreeMap<String, BTreeMap<&'static str, String>>;

/// The names of a tool's commands become a variable, and an option that several of them have one statement.
fn fish(text: &str) -> String {
    let mut statements = text.split("\ncomplete -c leveret -n \"");
    let mut written = vec![statements.next().unwrap_or_default().to_owned()];
    let mut tools: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut places, mut shared) = (HashMap::new(), Vec::<(&str, &str, BTreeSet<&str>)>::new());
    for (condition, action) in statements.filter_map(|it| it.split_once('"')) {
        if let Some((tool, commands)) = condition.split_once(NOT_BELOW) {
            tools.entry(tool).or_insert_with(|| {
                written.push(format!("set -g {} {commands}", variable(tool)));
                commands.split(' ').collect()
            });
            written.push(statement(&format!("{tool}{NOT_BELOW}\\${}", variable(tool)), action));
        } else if let Some((tool, command)) = condition.split_once(BELOW) {
            let place = *places.entry((tool, action)).or_insert_with(|| {
                shared.push((tool, action, BTreeSet::new()));
                shared.len() - 1
            });
            shared.get_mut(place).into_iter().for_each(|(.., all)| _ = all.insert(command));
        } else {
            written.push(statement(condition, action));
        }
    }
    for (tool, action, commands) in shared {
        let all = tools.get(tool).map(Vec::as_slice).unwrap_or_default();
        let others: Vec<&str> =
            all.iter().copied().filter(|command| !commands.contains(command)).collect();
        let commands: Vec<&str> = commands.into_iter().collect();
        let condition = match others.len() {
            0 => format!("{tool}{BELOW}\\${}", variable(tool)),
            n if n < commands.len() => {
                format!("{tool}{BELOW}\\${}{NOT_BELOW}{}", variable(tool), others.join(" "))
            }
            _ => format!("{tool}{BELOW}{}", commands.join(" ")),
        };
        written.push(statement(&condition, action));
    }
    written.join("\n") + "\n"
}

/// The variable with the names of a tool's commands.
fn variable(tool: &str) -> String {
    format!("__leveret_{}_commands", tool.rsplit(' ').next().unwrap_or_default())
}

/// A statement of fish's; a short name of several letters is an old-style option.
fn statement(condition: &str, action: &str) -> String {
    // A question mark is a wildcard to fish.
    let action = action.trim_end_matches('\n').replace(" -s ? ", " -s '?' ");
    let action = match split_note(&action) {
        Some(Note { before, short, after }) => {
            let (quote, rest) = after.split_at_checked(1).unwrap_or((after, ""));
            format!("{before}{quote} -o {short}{rest}")
        }
        None => action.clone(),
    };
    format!("complete -c leveret -n \"{condition}\"{action}")
}

/// A short name of several letters is a line of its own.
fn zsh(text: &str) -> String {
    let line = |line: &str| match split_note(&line.replace("(short\\: ", NOTE)) {
        Some(Note { before, short, after }) => {
            let name_end = before.find(['=', '[']).unwrap_or_default();
            let (_, described) = before.split_at(name_end);
            let described = described.replacen('=', "+", 1);
            format!("{before}{after}\n'-{short}{described}{after}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A note of a short name, with the text before and after the note.
struct Note<'t> {
    before: &'t str,
    short: &'t str,
    after: &'t str,
}

fn split_note(text: &str) -> Option<Note<'_>> {
    let (before, rest) = text.split_once(NOTE)?;
    let (short, after) = rest.strip_prefix('-')?.split_once(')')?;
    Some(Note { before: before.trim_end(), short, after })
}

/// The short names stand beside the long ones, in the words that complete and in the cases of values.
fn bash(text: &str, short_names: &ShortNames) -> String {
    let (mut written, mut known) = (String::new(), None);
    for line in text.lines() {
        let case = line.strip_prefix("        ").and_then(|line| line.strip_suffix(')'));
        if let Some(words) = case.filter(|words| !words.starts_with(' ')) {
            known = short_names.get(&words.replace("__subcmd__", "-"));
        }
        let long =
            |line: &str| Some(line.trim_start().strip_prefix("--")?.strip_suffix(')')?.to_owned());
        let line = match (known, long(line)) {
            (Some(known), Some(long)) => match known.get(long.as_str()) {
                Some(short) => line.replacen("--", &format!("-{short}|--"), 1),
                None => line.to_owned(),
            },
            (Some(known), None) if line.trim_start().starts_with("opts=") => {
                let short = |word: &str| known.get(word.strip_prefix("--")?);
                let word = |word: &str| match short(word.trim_end_matches('"')) {
                    Some(short) => format!("-{short} {word}"),
                    None => word.to_owned(),
                };
                line.split(' ').map(word).collect::<Vec<_>>().join(" ")
            }
            _ => line.to_owned(),
        };
        written.extend([line.as_str(), "\n"]);
    }
    written
}
