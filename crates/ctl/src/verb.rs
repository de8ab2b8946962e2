//! What a verb is: one declaration gives its parsing, its validation, its banner and its help.

use crate::failure::{Failure, Invalid};
use crate::invocation::Invocation;
use crate::options::Switch;
use crate::output::Answer;
use crate::verbs;
use serde_json::Value;

/// Headings of the list of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Help,
    Nodes,
    Cluster,
    Users,
    Access,
    Monitoring,
    Parameters,
    Policies,
    Definitions,
    Vhosts,
    Operations,
    Queues,
    Configuration,
    FeatureFlags,
    Plugins,
    Upgrade,
    Deprecated,
}

impl Section {
    /// In the order in which they are listed.
    pub(crate) const ALL: [Self; 17] = [
        Self::Help,
        Self::Nodes,
        Self::Cluster,
        Self::Users,
        Self::Access,
        Self::Monitoring,
        Self::Parameters,
        Self::Policies,
        Self::Definitions,
        Self::Vhosts,
        Self::Configuration,
        Self::FeatureFlags,
        Self::Operations,
        Self::Queues,
        Self::Plugins,
        Self::Upgrade,
        Self::Deprecated,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Help => "Help",
            Self::Nodes => "Nodes",
            Self::Cluster => "Cluster",
            Self::Users => "Users",
            Self::Access => "Access Control",
            Self::Monitoring => "Monitoring, observability and health checks",
            Self::Parameters => "Parameters",
            Self::Policies => "Policies",
            Self::Definitions => "Definitions",
            Self::Vhosts => "Virtual hosts",
            Self::Operations => "Operations",
            Self::Queues => "Queues",
            Self::Configuration => "Configuration and Environment",
            Self::FeatureFlags => "Feature flags",
            Self::Plugins => "Plugin Management",
            Self::Upgrade => "Upgrade",
            Self::Deprecated => "Deprecated",
        }
    }
}

/// The columns a listing knows, and those it shows when none are named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) known: &'static [&'static str],
    pub(crate) shown: &'static [&'static str],
}

/// The lines printed before the answer.
#[derive(Clone, Copy)]
pub(crate) enum Banner {
    None,
    /// `{name}` stands for a parameter, an option, or one of `vhost`, `node`.
    Text(&'static str),
    Made(fn(&Invocation) -> String),
}

/// How a verb is carried out.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Ask the node the named question and show its answer.
    Ask(&'static str, Render),
    /// Ask the node the named question; the answer is a listing.
    List(&'static str, Listing),
    /// Done here, or with more than one question.
    Local(fn(&Invocation) -> Result<Answer, Failure>),
}

/// What a listing looks like.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    /// The columns when the verb does not let them be chosen.
    pub(crate) columns: &'static [&'static str],
    pub(crate) streamed: bool,
    /// Whether there are names of columns when nothing is said about them.
    pub(crate) headers: bool,
}

/// Looks at what the arguments mean together.
pub(crate) type Check = fn(&Invocation) -> Result<(), Invalid>;

/// Turns what the node said into what is shown.
pub(crate) type Render = fn(&Invocation, Value) -> Result<Answer, Failure>;

/// One verb.
#[derive(Clone, Copy)]
pub(crate) struct Verb {
    pub(crate) name: &'static str,
    pub(crate) section: Section,
    /// As shown by help, without the tool and the general options.
    pub(crate) usage: &'static str,
    pub(crate) description: &'static str,
    /// Positional parameters in order: `name`, `name?` (optional), `name*` (all that follow).
    pub(crate) params: &'static [&'static str],
    /// For listings: the words are column names instead of parameters.
    pub(crate) columns: Option<Columns>,
    pub(crate) switches: &'static [Switch],
    /// Whether `--vhost` means something to it.
    pub(crate) vhost: bool,
    /// Asked for on standard input when it is missing: the parameter and the prompt.
    pub(crate) prompt: Option<Prompt>,
    /// Read before the node is asked: from the file that the parameter `file` names, or from standard
    /// input. The request has it under this name.
    pub(crate) document: Option<&'static str>,
    pub(crate) check: Option<Check>,
    /// `None`: no limit unless `--timeout` says so. Milliseconds.
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) banner: Banner,
    pub(crate) action: Action,
}

/// A secret that may be typed instead of given.
#[derive(Clone, Copy)]
pub(crate) struct Prompt {
    pub(crate) param: &'static str,
    /// The exit code when there is none.
    pub(crate) code: u8,
}

/// What the tables of verbs start from.
pub(crate) const VERB: Verb = Verb {
    name: "",
    section: Section::Help,
    usage: "",
    description: "",
    params: &[],
    columns: None,
    switches: &[],
    vhost: false,
    prompt: None,
    document: None,
    check: None,
    timeout_ms: None,
    banner: Banner::None,
    action: Action::Local(|_| Ok(Answer::Done)),
};

/// All verbs.
pub(crate) fn all() -> impl Iterator<Item = &'static Verb> {
    verbs::TABLES.iter().flat_map(|table| table.iter())
}

/// The verbs of the tool of that name. COMPAT: those about plugins, `list` and the like, are of one tool
/// alone; RabbitMQ's other tools share theirs out, here each has them all.
pub(crate) fn of(tool: &str) -> impl Iterator<Item = &'static Verb> {
    let is_for_plugins = tool.ends_with("rabbitmq-plugins");
    all().filter(move |verb| {
        verb.section == Section::Help || (verb.section == Section::Plugins) == is_for_plugins
    })
}

/// The tool's verb of that name.
pub(crate) fn find(tool: &str, name: &str) -> Option<&'static Verb> {
    of(tool).find(|verb| verb.name == name)
}

/// The tool's verb whose name is most like `typed`, if any is like it at all.
pub(crate) fn suggest(tool: &str, typed: &str) -> Option<&'static str> {
    let (name, distance) = of(tool)
        .map(|verb| (verb.name, distance(verb.name, typed)))
        .min_by_key(|&(_, distance)| distance)?;
    (distance <= typed.chars().count() / 3).then_some(name)
}

/// Levenshtein's distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, &b) in row.iter_mut().skip(1).zip(&right) {
            let here = (diagonal + usize::from(a != b)).min(before + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = here;
            before = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_suggested() {
        assert_eq!(suggest("rabbitmqctl", "list_queue"), Some("list_queues"));
        assert_eq!(suggest("rabbitmqctl", "lst_users"), Some("list_users"));
        assert_eq!(suggest("rabbitmqctl", "bogus_command"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn names_are_unique_and_every_verb_is_described() {
        let mut names: Vec<&str> = all().map(|verb| verb.name).collect();
        let n_verbs = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_verbs);
        for verb in all() {
            assert!(verb.usage.starts_with(verb.name), "{}", verb.name);
            assert!(!verb.description.is_empty(), "{}", verb.name);
        }
    }
}
