//! Declarations of verbs: one gives its parsing, its validation, its banner and its help.

mod invocation;
mod tool;

use crate::failure::{Failure, Invalid};
use crate::options::Switch;
use crate::output::{Answer, Form};
pub(crate) use invocation::{Invocation, NodeAddress};
use serde_json::Value;
use std::io::Write;
pub(crate) use tool::Tool;

stdx::named! {
    /// Headings of the list of verbs, in its order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Section {
        Help = "Help",
        Nodes = "Nodes",
        Cluster = "Cluster",
        Users = "Users",
        Access = "Access Control",
        Monitoring = "Monitoring, observability and health checks",
        Parameters = "Parameters",
        Policies = "Policies",
        Definitions = "Definitions",
        Vhosts = "Virtual hosts",
        Configuration = "Configuration and Environment",
        FeatureFlags = "Feature flags",
        Operations = "Operations",
        Queues = "Queues",
        Streams = "Streams",
        Plugins = "Plugin Management",
        Upgrade = "Upgrade",
        Deprecated = "Deprecated",
    }
}

/// The columns of a listing, as [`Rows`](crate::output::Rows) takes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    /// Those that can be chosen, by words in the place of parameters; none where they cannot.
    pub(crate) known: &'static str,
    /// Those that are shown when none are named.
    pub(crate) shown: &'static str,
}

/// The action of a verb.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Ask the node by this route, as [`Question`](crate::client::Question) takes it, and show nothing.
    Do(&'static str),
    /// The same, and then show a sentence. `{name}` stands for a field of the answer, and for what it does in
    /// banners.
    Say(&'static str, &'static str),
    /// Ask the node by this route and show its answer.
    Ask(&'static str, Render),
    /// Ask the node by this route; the answer is a listing.
    List(&'static str, Listing),
    /// Prints what comes as it comes.
    Follow(fn(&Invocation, &mut dyn Write) -> Result<(), Failure>),
    /// Done here, or with more than one request.
    Offline(fn(&Invocation) -> Result<Answer, Failure>),
}

/// The shape of a listing.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) columns: Columns,
    pub(crate) form: Form,
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
    pub(crate) section: Section,
    /// As shown by help, without the tool and the general options: first the verb's name.
    pub(crate) usage: &'static str,
    pub(crate) description: &'static str,
    /// Positional parameters in order: `name`, `name?` (optional), `name*` (all that follow).
    pub(crate) params: &'static [&'static str],
    pub(crate) switches: &'static [Switch],
    /// Whether `--vhost` means something to it.
    pub(crate) vhost: bool,
    /// Read before the node is asked.
    pub(crate) input: Option<Input>,
    pub(crate) check: Option<Check>,
    /// `None`: no limit unless `--timeout` says so. Milliseconds.
    pub(crate) timeout_ms: Option<u64>,
    /// The lines printed before the answer. `{name}` stands for a parameter or one of `vhost`, `node`,
    /// `priority`.
    pub(crate) banner: &'static str,
    /// The same where a template does not do.
    pub(crate) banner_of: Option<fn(&Invocation) -> String>,
    pub(crate) action: Action,
}

impl Verb {
    pub(crate) fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }

    /// The columns that can be chosen.
    pub(crate) fn columns(&self) -> Option<Columns> {
        let Action::List(_, Listing { columns, .. }) = self.action else { return None };
        (!columns.known.is_empty()).then_some(columns)
    }
}

/// Text that a verb reads besides its command line.
#[derive(Clone, Copy)]
pub(crate) enum Input {
    /// A parameter that may be typed instead of given, and the exit code when there is none.
    Secret { param: &'static str, code: u8 },
    /// A document, from the file that the parameter `file` names or from standard input. It is the request's
    /// body.
    Document,
}

/// The defaults that the tables of verbs start from.
pub(crate) const VERB: Verb = Verb {
    section: Section::Help,
    usage: "",
    description: "",
    params: &[],
    switches: &[],
    vhost: false,
    input: None,
    check: None,
    timeout_ms: None,
    banner: "",
    banner_of: None,
    action: Action::Do(""),
};
