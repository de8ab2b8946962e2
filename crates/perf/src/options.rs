//! The command line as words: which options there are, and which of them were given with what.
//! What the values mean is `config`'s part.

pub(crate) mod table;
pub(crate) mod variables;

use std::iter::Peekable;

use command_help::{CommandHelp, OptionHelp};

pub(crate) use table::{Opt, Support, Values};

/// The options of the load tool.
pub(crate) const PERF: &str = include_str!("options/perf.txt");

/// An error of the command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The options that were given, in order.
#[derive(Debug, Default)]
pub(crate) struct Given(Vec<(&'static str, String)>);

impl Given {
    /// Whether the option was given at all. Options go by their long names.
    pub(crate) fn has(&self, long: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == long)
    }

    /// The value that was given last.
    pub(crate) fn last(&self, long: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| *name == long).map(|(_, value)| value.as_str())
    }

    /// Every value, in order.
    pub(crate) fn all<'a>(&'a self, long: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| *name == long).map(|(_, value)| value.as_str())
    }
}

impl FromIterator<(&'static str, String)> for Given {
    fn from_iter<I: IntoIterator<Item = (&'static str, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// Reads the words of a command line the way PerfTest does: `-x 1`, `-x1`, `-x=1`, `--producers 1`,
/// `--producers=1`, `-px1` for `-p -x 1`, and beginnings of long names that fit only one.
///
/// # Errors
/// Anything that is no option, is not supported, lacks its value, or has one it does not take.
pub(crate) fn parse_from(
    table: &[Opt],
    words: impl IntoIterator<Item = String>,
) -> Result<Given, Usage> {
    let mut words = words.into_iter().peekable();
    let mut given = Given::default();
    while let Some(word) = words.next() {
        for (opt, attached) in find(table, &word)? {
            given.take((table, opt), attached, &mut words)?;
        }
    }
    Ok(given)
}

/// Those of the load tool.
#[cfg(test)]
pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Given, Usage> {
    parse_from(&table::read(PERF), words)
}

impl Given {
    /// Adds an option with its values, which may be among the words behind it.
    fn take(
        &mut self,
        (table, opt): (&[Opt], &Opt),
        attached: Option<String>,
        words: &mut Peekable<impl Iterator<Item = String>>,
    ) -> Result<(), Usage> {
        match opt.support {
            Support::Yes => {}
            Support::NoEffect => crate::complain(&format!(
                "option --{} has no effect: it tunes PerfTest's Java client; --threads comes nearest",
                opt.long
            )),
            Support::Refused => {
                return Err(Usage(format!("option --{} is not supported: {}", opt.long, opt.help)));
            }
        }
        let value = match (opt.value, attached) {
            (None, None) => String::new(),
            (None, Some(_)) => return Err(Usage(format!("option --{} takes no value", opt.long))),
            (Some(_), Some(value)) => value,
            (Some(_), None) if opt.values == Values::Switch => {
                let is_truth = |word: &String| word.parse::<bool>().is_ok();
                words.next_if(is_truth).unwrap_or_else(|| "true".to_owned())
            }
            (Some(name), None) => match words.next_if(|word| !is_option(table, word)) {
                Some(value) => value,
                None if opt.values == Values::Optional => return Ok(()),
                None => {
                    return Err(Usage(format!("option --{} needs a value ({name})", opt.long)));
                }
            },
        };
        self.0.push((opt.long, value));
        while opt.values == Values::Many
            && let Some(more) = words.next_if(|word| !word.starts_with('-'))
        {
            self.0.push((opt.long, more));
        }
        Ok(())
    }
}

/// Whether a word is an option and no value; `-1` is a value.
fn is_option(table: &[Opt], word: &str) -> bool {
    word.starts_with('-') && word.parse::<f64>().is_err() && find(table, word).is_ok()
}

/// An option, and its value if that is in the same word.
type Found<'a> = (&'a Opt, Option<String>);

/// The options of a word of the command line: mostly one.
fn find<'a>(table: &'a [Opt], word: &str) -> Result<Vec<Found<'a>>, Usage> {
    let unknown = || Usage(format!("unrecognized option: {word}"));
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = split_value(long);
        return Ok(vec![(by_long(table, name).ok_or_else(unknown)?, value)]);
    }
    let short = word.strip_prefix('-').filter(|short| !short.is_empty()).ok_or_else(unknown)?;
    let (name, value) = split_value(short);
    if let Some(opt) = table.iter().find(|opt| opt.short == Some(name)) {
        return Ok(vec![(opt, value)]);
    }
    let attached = table
        .iter()
        .filter(|opt| opt.value.is_some())
        .filter_map(|opt| Some((opt, short.strip_prefix(opt.short?)?)))
        .min_by_key(|(_, rest)| rest.len());
    if let Some((opt, rest)) = attached {
        return Ok(vec![(opt, Some(rest.to_owned()))]);
    }
    match by_long(table, name) {
        Some(opt) => Ok(vec![(opt, value)]),
        None => bundled(table, short).ok_or_else(unknown),
    }
}

/// Options of one letter in one word: those without a value, and last one that may have the rest.
fn bundled<'a>(table: &'a [Opt], short: &str) -> Option<Vec<Found<'a>>> {
    let (mut found, mut rest) = (Vec::new(), short);
    while let Some(letter) = rest.chars().next() {
        let (name, behind) = rest.split_at(letter.len_utf8());
        let opt = table.iter().find(|opt| opt.short == Some(name))?;
        if opt.value.is_some() {
            found.push((opt, (!behind.is_empty()).then(|| behind.to_owned())));
            return Some(found);
        }
        found.push((opt, None));
        rest = behind;
    }
    Some(found)
}

fn split_value(word: &str) -> (&str, Option<String>) {
    match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    }
}

fn by_long<'a>(table: &'a [Opt], name: &str) -> Option<&'a Opt> {
    if let Some(opt) = table.iter().find(|opt| opt.long == name) {
        return Some(opt);
    }
    let mut fitting = table.iter().filter(|opt| !name.is_empty() && opt.long.starts_with(name));
    let first = fitting.next()?;
    if fitting.next().is_some() { None } else { Some(first) }
}

/// The end of the load tool's help.
pub(crate) const NOTES: &str = "\
Exit codes: 0 success, 1 failed or --verify found an error, 2 usage, 3 no broker.
AMQP 1.0: leveret perf amqp10 --help.
Streams: leveret perf stream --help, leveret perf stream-fill --help.
";

/// A tool with the options that do something.
pub(crate) fn command_help(tool: &'static str, about: &str, table: &[Opt]) -> CommandHelp {
    let name = tool.rsplit(' ').next().unwrap_or_default();
    let supported = table.iter().filter(|opt| opt.support == Support::Yes);
    let option = |&Opt { long, short, value, help, .. }: &Opt| OptionHelp {
        long,
        short: short.map(str::to_owned),
        value,
        help: help.to_owned(),
    };
    let options = supported.map(option).collect();
    let (about, usage) = (about.to_owned(), Some(format!("{tool} [option ...]")));
    CommandHelp { name, about, usage, options, ..CommandHelp::default() }
}

/// The options of a tool, one a line.
pub(crate) fn help_of(tool: &str, table: &[Opt]) -> String {
    let supported = table.iter().filter(|opt| opt.support == Support::Yes);
    let lines = supported.map(|opt| format!(" {}\n", opt.line));
    format!("usage: {tool} [option ...]\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Result<Given, Usage> {
        parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn every_spelling_of_an_option() {
        for line in ["-x 3", "-x3", "-x=3", "--producers 3", "--producers=3", "--producers=3 -a"] {
            assert_eq!(given(line).unwrap().last("producers"), Some("3"), "{line}");
        }
        let two = given("-f persistent mandatory -a").unwrap();
        assert_eq!(two.all("flag").collect::<Vec<_>>(), ["persistent", "mandatory"]);
        let all = given("-f persistent -f mandatory -qpf1 -qpt 5 -ad false -P0.1 --confirm=-1");
        let all = all.unwrap();
        assert_eq!(all.all("flag").collect::<Vec<_>>(), ["persistent", "mandatory"]);
        assert_eq!(all.last("queue-pattern-from"), Some("1"));
        assert_eq!(all.last("auto-delete"), Some("false"));
        assert_eq!(all.last("publishing-interval"), Some("0.1"));
        assert_eq!(all.last("confirm"), Some("-1"));
        assert!(given("--auto-d false").unwrap().has("auto-delete"));
        assert!(given("-autoack").unwrap().has("autoack"));
    }

    #[test]
    fn letters_in_one_word_and_values_that_may_be_missing() {
        for line in ["-pax3", "-pax 3", "-p -a -x 3"] {
            let all = given(line).unwrap();
            assert!(all.has("predeclared") && all.has("autoack"), "{line}");
            assert_eq!(all.last("producers"), Some("3"), "{line}");
        }
        for line in ["-e -a", "-a -e"] {
            let all = given(line).unwrap();
            assert!(all.has("autoack") && !all.has("exchange"), "{line}");
        }
        assert_eq!(given("-e logs -a").unwrap().last("exchange"), Some("logs"));
    }

    #[test]
    fn an_option_is_no_value() {
        for line in ["-u -p", "-u --predeclared", "-d -x 1", "-qa -a", "-u -px"] {
            let why = given(line).unwrap_err().to_string();
            assert!(why.contains(" needs a value "), "{line}: {why}");
        }
        assert_eq!(given("-c -1").unwrap().last("confirm"), Some("-1"));
        assert_eq!(given("-u -/").unwrap().last("queue"), Some("-/"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in
            ["-Zz", "-aZ", "--nonsense", "x", "-", "-x", "--queue-p x", "-a=1", "--autoack=x"]
        {
            assert!(given(line).is_err(), "{line}");
        }
        let refused = given("--polling").unwrap_err().to_string();
        assert!(refused.starts_with("option --polling is not supported: "), "{refused}");
        let tuned = given("-niot 4 -niotp 6 -nty -ntyt 2 -hst 1 -ctp 1 -pst 1 -x 2").unwrap();
        assert_eq!(tuned.last("producers"), Some("2"));
    }

    #[test]
    fn names_are_unique() {
        let options = table::read(PERF);
        for (at, opt) in options.iter().enumerate() {
            for other in options.iter().skip(at + 1) {
                assert_ne!(opt.long, other.long);
                assert!(opt.short.is_none() || opt.short != other.short, "{:?}", opt.short);
            }
        }
    }

    #[test]
    fn help_names_what_is_supported_and_nothing_else() {
        let text = help_of("leveret perf", &table::read(PERF));
        assert!(text.contains(" -x,--producers <n>"));
        assert!(!text.contains("nio-threads"));
    }
}
