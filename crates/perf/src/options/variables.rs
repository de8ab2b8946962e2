//! Options in environment variables, as PerfTest has them: the long name in capitals, with `_` for `-`,
//! behind what `RABBITMQ_PERF_TEST_ENV_PREFIX` says. Pure: variables are looked up by whoever calls.

use super::{Given, Opt, Support, Values};

/// Says what the names of variables begin with; without it they begin with nothing.
const PREFIX: &str = "RABBITMQ_PERF_TEST_ENV_PREFIX";
/// Options without a variable: they ask for text to be shown, and `VERSION` and the like mean other
/// things.
const NOT_READ: [&str; 4] = ["help", "version", "metrics-help", "environment-variables"];

/// Looks a variable up.
pub(crate) type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

fn variable(prefix: &str, opt: &Opt) -> String {
    let name = opt.long.replace('-', "_").to_ascii_uppercase();
    match prefix {
        "" => name,
        prefix if prefix.ends_with('_') => format!("{prefix}{name}"),
        prefix => format!("{prefix}_{name}"),
    }
}

fn prefix(variables: Variables<'_>) -> String {
    variables(PREFIX).map(|prefix| prefix.trim().to_owned()).unwrap_or_default()
}

/// Whether a variable can stand for the option: it is PerfTest's, and has an effect.
fn is_readable(opt: &&Opt) -> bool {
    opt.support == Support::Yes && opt.short.is_some() && !NOT_READ.contains(&opt.long)
}

impl Given {
    /// Adds the options that only variables name: the command line comes first.
    pub(crate) fn add_variables(&mut self, options: &[Opt], variables: Variables<'_>) {
        let prefix = prefix(variables);
        let given: Vec<&str> = self.0.iter().map(|(long, _)| *long).collect();
        for opt in options.iter().filter(is_readable).filter(|opt| !given.contains(&opt.long)) {
            let Some(value) = variables(&variable(&prefix, opt)).filter(|value| !value.is_empty())
            else {
                continue;
            };
            match (opt.value, opt.values) {
                (None, _) if value.eq_ignore_ascii_case("true") => {
                    self.0.push((opt.long, String::new()));
                }
                // COMPAT: any other word means no.
                (None, _) => {}
                (Some(_), Values::Many) => {
                    let all = value.split(',').map(|one| (opt.long, one.to_owned()));
                    self.0.extend(all);
                }
                (Some(_), Values::One | Values::Optional | Values::Switch) => {
                    self.0.push((opt.long, value))
                }
            }
        }
    }
}

/// The text of `--environment-variables`.
pub(crate) fn help(options: &[Opt], variables: Variables<'_>) -> String {
    let prefix = prefix(variables);
    let line = |opt: &Opt| format!(" {:<40} {}\n", variable(&prefix, opt), opt.help);
    let mut text = "variables, for options that are not on the command line; an option without a \
                    value takes true:\n"
        .to_owned();
    text.extend(options.iter().filter(is_readable).map(line));
    text.push_str(&format!("{PREFIX}=X_ puts X_ before all of these names.\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &[&str], list: &[(&str, &str)]) -> Given {
        let mut given = super::super::parse(line.iter().map(|&word| word.to_owned())).unwrap();
        let find = |wanted: &str| list.iter().find(|(name, _)| *name == wanted);
        given.add_variables(&super::super::table::read(super::super::PERF), &|name| {
            find(name).map(|(_, value)| (*value).to_owned())
        });
        given
    }

    #[test]
    fn variables_stand_for_options_that_are_not_given() {
        let list = [("RATE", "5"), ("AUTOACK", "true"), ("PREDECLARED", "1"), ("SIZE", "")];
        let all = given(&["-x", "2"], &list);
        assert_eq!(all.last("rate"), Some("5"));
        assert!(all.has("autoack") && !all.has("predeclared") && !all.has("size"));
        assert_eq!(given(&["-r", "9"], &list).last("rate"), Some("9"));
        let many = given(&[], &[("FLAG", "persistent,mandatory"), ("QUEUE_ARGS", "a=1,b=2")]);
        assert_eq!(many.all("flag").collect::<Vec<_>>(), ["persistent", "mandatory"]);
        assert_eq!(many.all("queue-args").collect::<Vec<_>>(), ["a=1", "b=2"]);
        let none = given(&[], &[("VERSION", "true"), ("JSON", "true"), ("NETTY", "true")]);
        assert!(!none.has("version") && !none.has("json") && !none.has("netty"));
    }

    #[test]
    fn names_may_have_a_prefix() {
        for prefix in ["LOAD", "LOAD_"] {
            let list = [(PREFIX, prefix), ("LOAD_QUEUE_PATTERN", "q-%d"), ("RATE", "5")];
            let all = given(&[], &list);
            assert_eq!(all.last("queue-pattern"), Some("q-%d"));
            assert!(!all.has("rate"));
        }
        assert!(
            help(&super::super::table::read(super::super::PERF), &|_| Some("X".to_owned()))
                .contains(" X_PRODUCERS ")
        );
    }
}
