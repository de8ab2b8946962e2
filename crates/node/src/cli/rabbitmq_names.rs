//! RabbitMQ's tools by their names, as links to the binary or as its first argument. A name that begins
//! like theirs is never anything else: a link that an installation makes must not start a broker.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The prefix of the names of RabbitMQ's tools.
const PREFIX: &str = "rabbitmq";
/// The tools that are `leveret ctl`.
const CTL_NAMES: [&str; 6] = [
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-queues",
    "rabbitmq-streams",
    "rabbitmq-plugins",
    "rabbitmq-upgrade",
];

/// Exit code of a wrong use, as with RabbitMQ's tools.
const EXIT_USAGE: u8 = 64;
/// Exit code of a tool or an option that Leveret does not have.
const EXIT_UNAVAILABLE: u8 = 69;

/// The program that a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// The tool of this name.
    Ctl(String),
    /// A node.
    Server,
    /// No program, but an exit code and a text.
    Refused(u8, String),
}

/// The program name and arguments, if the program was called like a tool of RabbitMQ.
pub(super) fn called(args: &[OsString]) -> Option<(Called, &[OsString])> {
    let (program, rest) = args.split_first()?;
    let of_link = Path::new(program).file_name().and_then(OsStr::to_str).map(|name| (name, rest));
    let of_argument = || {
        let (first, rest) = rest.split_first()?;
        Some((first.to_str()?, rest))
    };
    let is_like = |(name, _): &(&str, &[OsString])| name.starts_with(PREFIX);
    let (name, rest) = of_link.filter(is_like).or_else(|| of_argument().filter(is_like))?;
    Some((meaning(name, rest), rest))
}

fn meaning(name: &str, rest: &[OsString]) -> Called {
    let refused = |code, text: &str| Called::Refused(code, format!("{name}: {text}"));
    match name {
        name if CTL_NAMES.contains(&name) => Called::Ctl(name.to_owned()),
        "rabbitmq-server" if rest.iter().any(|arg| arg == "-detached") => refused(
            EXIT_UNAVAILABLE,
            "-detached is not available: a node runs in the foreground, a service manager keeps it",
        ),
        "rabbitmq-server" => Called::Server,
        "rabbitmqadmin" => refused(
            EXIT_UNAVAILABLE,
            "not built in: RabbitMQ's rabbitmqadmin works with the HTTP API on port 15672",
        ),
        _ => refused(
            EXIT_USAGE,
            "unknown tool; the tools are rabbitmqctl, rabbitmq-diagnostics, rabbitmq-plugins, \
             rabbitmq-queues, rabbitmq-server, rabbitmq-streams and rabbitmq-upgrade",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(args: &[&str]) -> Option<(Called, usize)> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        called(&args).map(|(called, rest)| (called, rest.len()))
    }

    #[test]
    fn links_and_arguments_are_tools() {
        let ctl = |name: &str| Called::Ctl(name.to_owned());
        assert_eq!(told(&["/usr/sbin/rabbitmqctl", "-q", "x"]), Some((ctl("rabbitmqctl"), 2)));
        assert_eq!(told(&["leveret", "rabbitmq-plugins", "x"]), Some((ctl("rabbitmq-plugins"), 1)));
        assert_eq!(told(&["rabbitmq-server"]), Some((Called::Server, 0)));
        assert_eq!(told(&["leveret", "server"]), None);
        assert_eq!(told(&["leveret", "ctl", "rabbitmqctl"]), None);
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn other_names_start_nothing() {
        let code = |args: &[&str]| match told(args) {
            Some((Called::Refused(code, _), _)) => code,
            other => panic!("{args:?}: {other:?}"),
        };
        assert_eq!(code(&["rabbitmq-collect-env"]), 64);
        assert_eq!(code(&["/sbin/rabbitmq"]), 64);
        assert_eq!(code(&["leveret", "rabbitmq-bogus"]), 64);
        assert_eq!(code(&["rabbitmqadmin", "list", "queues"]), 69);
        assert_eq!(code(&["rabbitmq-server", "-detached"]), 69);
    }
}
