//! Declarations of verbs: a declaration gives the verb's parsing, validation, banner and help.

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
    /// Columns that parameters can choose; empty if none can be chosen.
    pub(crate) known: &'static str,
    /// Columns shown when the command line names none.
    pub(crate) shown: &'static str,
}

/// The action of a verb.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Ask the node by this route, as [`Question`](crate::client::Question) takes it, and show nothing.
    Do(&'static str),
    /// Ask the node by this route, and then show a sentence. `{name}` in it stands for a field of the answer,
    /// or for a value as in [`Verb::banner`].
    Say(&'static str, &'static str),
    /// Ask the node by this route and show its answer.
    Ask(&'static str, Render),
    /// Ask the node by this route and show its answer: as it is in JSON, otherwise rendered.
    Tell(&'static str, Render),
    /// Ask the node by this route; the answer is a listing.
    List(&'static str, Listing),
    /// Print lines as they come.
    Follow(fn(&Invocation, &mut dyn Write) -> Result<(), Failure>),
    /// Run a function that sends no request or more than one.
    Offline(fn(&Invocation) -> Result<Answer, Failure>),
}

/// The shape of a listing.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) columns: Columns,
    pub(crate) form: Form,
    /// Whether the names of the columns are shown by default.
    pub(crate) headers: bool,
}

/// The lines that a verb prints before its answer.
#[derive(Clone, Copy)]
pub(crate) enum Banner {
    /// A template: `{name}` stands for a parameter or one of `vhost`, `node`, `priority`.
    Lines(&'static str),
    /// A function, where a template is not enough.
    Made(fn(&Invocation) -> String),
}

/// The wording of a verb's errors. COMPAT: RabbitMQ's tools word one error in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// The words of most verbs.
    General,
    /// Users and virtual hosts are named plainly.
    Permissions,
    /// The user is named in quotes.
    User,
    /// A user that does not exist is no error.
    UserDeletion,
    /// A login that is refused names the user.
    Authentication,
    /// The virtual host is named in quotes.
    VhostTags,
    /// The error says what keeps the queue.
    QueueDeletion,
    /// The object that is not there is not named.
    Object,
    /// A queue that is not there is named without a heading.
    Members,
    /// The error of a queue or message that is looked at is an object in JSON.
    Inspection,
    /// The error of a connection that is not there names the process id.
    Connection,
    /// Any error says that the stream does not exist.
    Tracking,
    /// Any error means that the command failed.
    SuperStream,
}

/// Validates the arguments together.
pub(crate) type Check = fn(&Invocation) -> Result<(), Invalid>;

/// Makes the answer to show of what the node answered.
pub(crate) type Render = fn(&Invocation, Value) -> Result<Answer, Failure>;

/// The declaration of a verb.
#[derive(Clone, Copy)]
pub(crate) struct Verb {
    pub(crate) section: Section,
    /// The usage line of the help, without the tool and the general options; it begins with the verb's name.
    pub(crate) usage: &'static str,
    pub(crate) description: &'static str,
    /// Positional parameters in order: `name`, `name?` (optional), `name*` (all that follow).
    pub(crate) params: &'static [&'static str],
    pub(crate) switches: &'static [Switch],
    /// Whether the verb takes `--vhost`.
    pub(crate) vhost: bool,
    /// Text that is read before the node is asked.
    pub(crate) input: Option<Input>,
    pub(crate) check: Option<Check>,
    /// Default of `--timeout`, milliseconds; `None` for no limit.
    pub(crate) timeout_ms: Option<u64>,
    /// The lines printed before the answer.
    pub(crate) banner: Banner,
    pub(crate) action: Action,
    pub(crate) wording: Wording,
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
    banner: Banner::Lines(""),
    action: Action::Do(""),
    wording: Wording::General,
};

/// A table of verbs: `BASE USAGE, DESCRIPTION: FIELD: VALUE, ...;`, a row for each verb, with the defaults of
/// `BASE`.
macro_rules! verbs {
    ($($base:ident $usage:literal, $description:literal $(: $($field:ident: $value:expr),+)?;)*) => {
        &[$(Verb { usage: $usage, description: $description, $($($field: $value,)+)? ..$base }),*]
    };
}
pub(crate) use verbs;
