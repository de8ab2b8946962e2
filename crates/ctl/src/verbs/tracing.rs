//! The firehose.

use crate::options::text;
use crate::verb::Banner::Made;
use crate::verb::{Action, Invocation, Section, VERB, Verb, verbs};

const TRACING: Verb =
    Verb { section: Section::Vhosts, vhost: true, switches: &[text("user", Some('u'))], ..VERB };

pub(super) const VERBS: &[Verb] = verbs! {
    TRACING "trace_on [--vhost <vhost>] [--user <user>]",
        "Copies published and delivered messages to the exchange amq.rabbitmq.trace":
        banner: Made(|invocation| told(invocation, "Starting")),
        action: Action::Do("PUT /leveret/vhosts/{vhost}/tracing");
    TRACING "trace_off [--vhost <vhost>] [--user <user>]", "Stops tracing, after trace_on":
        banner: Made(|invocation| told(invocation, "Stopping")),
        action: Action::Do("DELETE /leveret/vhosts/{vhost}/tracing");
};

fn told(invocation: &Invocation, what: &str) -> String {
    let of_user = invocation.text("user").map(|user| format!(" of user \"{user}\""));
    let (vhost, of_user) = (invocation.vhost(), of_user.unwrap_or_default());
    format!("{what} tracing{of_user} for vhost \"{vhost}\" ...")
}
