//! Splits a command line into words and options by the rules RabbitMQ's tools follow.

mod meanings;

pub(crate) use meanings::meaning;
use std::collections::BTreeMap;

/// The kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Present or absent; `--no-NAME` says no.
    Flag,
    /// A whole number follows.
    Number,
    /// Any text follows.
    Text,
}

/// An option that is understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    /// Without the dashes.
    pub(crate) name: &'static str,
    /// The one-letter form.
    pub(crate) short: Option<char>,
    pub(crate) kind: Kind,
}

/// An option as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Flag(bool),
    Number(i64),
    Text(String),
}

/// A command line taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// The arguments that are no options, in order; the first is the verb.
    pub(crate) args: Vec<String>,
    /// The last value of every option.
    pub(crate) settings: BTreeMap<&'static str, Setting>,
    /// Options that are unknown or lack a proper value, as written, with what stood for the value.
    pub(crate) invalid: Vec<(String, String)>,
}

/// Options that every verb takes.
pub(crate) const GLOBAL: &[Switch] = &[
    text("node", Some('n')),
    flag("quiet", Some('q')),
    flag("silent", Some('s')),
    flag("dry-run", None),
    text("vhost", Some('p')),
    number("timeout", Some('t')),
    flag("longnames", Some('l')),
    text("formatter", None),
    text("data-dir", None),
    text("erlang-cookie", None),
    flag("help", Some('?')),
    flag("table-headers", None),
    flag("print-stacktrace", None),
];

/// An option without a value.
pub(crate) const fn flag(name: &'static str, short: Option<char>) -> Switch {
    Switch { name, short, kind: Kind::Flag }
}

/// An option with a number.
pub(crate) const fn number(name: &'static str, short: Option<char>) -> Switch {
    Switch { name, short, kind: Kind::Number }
}

/// An option with a text.
pub(crate) const fn text(name: &'static str, short: Option<char>) -> Switch {
    Switch { name, short, kind: Kind::Text }
}

/// Takes `input` apart; `extra` are the verb's own options.
pub(crate) fn parse(input: &[String], extra: &[Switch]) -> Parsed {
    let mut parsed = Parsed::default();
    let mut rest = input.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            parsed.args.extend(rest.cloned());
            break;
        }
        if !looks_like_option(word) {
            parsed.args.push(word.clone());
            continue;
        }
        let (name, glued) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let mut next = || match rest.as_slice().first() {
            Some(value) if !looks_like_option(value) => rest.next().cloned(),
            Some(_) | None => None,
        };
        take_option(&mut parsed, name, glued, extra, &mut next);
    }
    parsed
}

/// `-5` and a lone `-` are words, as they are to RabbitMQ's tools.
fn looks_like_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err()
}

fn take_option(
    parsed: &mut Parsed,
    name: &str,
    glued: Option<String>,
    extra: &[Switch],
    next: &mut dyn FnMut() -> Option<String>,
) {
    let all = || GLOBAL.iter().chain(extra);
    let (switch, negated) = match name.strip_prefix("--") {
        Some(long) => match all().find(|switch| switch.name == long) {
            Some(switch) => (Some(switch), false),
            None => {
                let positive = long.strip_prefix("no-");
                (all().find(|s| s.kind == Kind::Flag && Some(s.name) == positive), true)
            }
        },
        None => (all().find(|switch| is_short(switch, name)), false),
    };
    let Some(switch) = switch else {
        if glued.is_none() && take_cluster(parsed, name, extra) {
            return;
        }
        parsed.invalid.push((name.to_owned(), glued.unwrap_or_default()));
        return;
    };
    let setting = match (switch.kind, glued) {
        (Kind::Flag, None) => Ok(Setting::Flag(!negated)),
        (Kind::Flag, Some(value)) => match value.as_str() {
            "true" => Ok(Setting::Flag(!negated)),
            "false" => Ok(Setting::Flag(negated)),
            _ => Err(value),
        },
        (Kind::Number, glued) => {
            let value = glued.or_else(next).unwrap_or_default();
            value.parse().map(Setting::Number).map_err(|_| value)
        }
        (Kind::Text, glued) => glued.or_else(next).map(Setting::Text).ok_or_else(String::new),
    };
    match setting {
        Ok(setting) => drop(parsed.settings.insert(switch.name, setting)),
        Err(value) => parsed.invalid.push((name.to_owned(), value)),
    }
}

fn is_short(switch: &Switch, word: &str) -> bool {
    let mut letters = word.chars().skip(1);
    switch.short.is_some() && letters.next() == switch.short && letters.next().is_none()
}

/// `-qs` for `-q -s`. All of the letters must be flags.
fn take_cluster(parsed: &mut Parsed, word: &str, extra: &[Switch]) -> bool {
    let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return false;
    };
    let found: Option<Vec<&Switch>> = letters
        .chars()
        .map(|letter| {
            let mut all = GLOBAL.iter().chain(extra);
            all.find(|switch| switch.kind == Kind::Flag && switch.short == Some(letter))
        })
        .collect();
    let Some(found) = found else { return false };
    parsed.settings.extend(found.iter().map(|switch| (switch.name, Setting::Flag(true))));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str, extra: &[Switch]) -> Parsed {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&args, extra)
    }

    #[test]
    fn options_may_stand_anywhere() {
        let parsed = parsed("-q -p / list_queues name --formatter=json messages -t 5", &[]);
        assert_eq!(parsed.args, ["list_queues", "name", "messages"]);
        assert_eq!(parsed.settings["quiet"], Setting::Flag(true));
        assert_eq!(parsed.settings["vhost"], Setting::Text("/".to_owned()));
        assert_eq!(parsed.settings["formatter"], Setting::Text("json".to_owned()));
        assert_eq!(parsed.settings["timeout"], Setting::Number(5));
        assert!(parsed.invalid.is_empty());
    }

    #[test]
    fn no_prefix_and_clusters() {
        let parsed = parsed("list_users --no-table-headers -qs", &[]);
        assert_eq!(parsed.settings["table-headers"], Setting::Flag(false));
        assert_eq!(parsed.settings["quiet"], Setting::Flag(true));
        assert_eq!(parsed.settings["silent"], Setting::Flag(true));
    }

    #[test]
    fn negative_numbers_are_words_or_values() {
        let parsed = parsed("x -5 --priority -7", &[number("priority", None)]);
        assert_eq!(parsed.args, ["x", "-5"]);
        assert_eq!(parsed.settings["priority"], Setting::Number(-7));
    }

    #[test]
    fn unknown_and_malformed_options_are_reported() {
        let parsed = parsed("x --bogus --timeout abc --vhost --no-such -z", &[]);
        let invalid: Vec<(&str, &str)> =
            parsed.invalid.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            invalid,
            [("--bogus", ""), ("--timeout", "abc"), ("--vhost", ""), ("--no-such", ""), ("-z", "")]
        );
        assert_eq!(parsed.args, ["x"]);
    }

    #[test]
    fn two_dashes_end_options() {
        assert_eq!(parsed("add_user -- -q --x", &[]).args, ["add_user", "-q", "--x"]);
    }
}
