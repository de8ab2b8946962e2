//! The node's name and data directory, from RabbitMQ's environment variables. The node and the tools
//! ask here, so that a tool finds the node of the same environment. Pure: variables are looked up by
//! the caller.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Looks a variable up; one that is not set or empty is `None`.
pub type Variables<'v> = &'v dyn Fn(&str) -> Option<String>;

/// The variables of this process.
#[must_use]
pub fn of_process(name: &str) -> Option<String> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned())
}

/// The name of the node: `RABBITMQ_NODENAME`, or `rabbit`, completed by the machine's name.
#[must_use]
pub fn node_name(variables: Variables<'_>) -> String {
    let name = variables("RABBITMQ_NODENAME").unwrap_or_else(|| "rabbit".to_owned());
    complete(&name, has_long_names(variables))
}

/// Whether node names have the machine's whole name (`RABBITMQ_USE_LONGNAME`).
#[must_use]
pub fn has_long_names(variables: Variables<'_>) -> bool {
    let value = variables("RABBITMQ_USE_LONGNAME").unwrap_or_default();
    ["1", "yes", "true"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// `rabbit` becomes `rabbit@host`; a name that has a host keeps it.
#[must_use]
pub fn complete(name: &str, long: bool) -> String {
    if name.contains('@') {
        return name.to_owned();
    }
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let host = if long { &host } else { host.split('.').next().unwrap_or_default() };
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{name}@{host}")
}

/// The data directory of the node of this name, when a variable says it: `LEVERET_DATA_DIR`; the default of
/// the image, `LEVERET_DEFAULT_DATA_DIR`, once it is in use; RabbitMQ's `RABBITMQ_DATA_DIR` and
/// `RABBITMQ_MNESIA_DIR`, then `RABBITMQ_MNESIA_BASE`, which has a directory for each node; in the image the
/// directory of a mount that is made for RabbitMQ's, and the default.
#[must_use]
pub fn data_dir(variables: Variables<'_>, node: &str) -> Option<PathBuf> {
    let default = variables("LEVERET_DEFAULT_DATA_DIR").map(PathBuf::from);
    let is_used = |it: &PathBuf| std::fs::read_dir(it).is_ok_and(|mut it| it.next().is_some());
    variables("LEVERET_DATA_DIR")
        .map(PathBuf::from)
        .or_else(|| default.clone().filter(is_used))
        .or_else(|| {
            let named = ["RABBITMQ_DATA_DIR", "RABBITMQ_MNESIA_DIR"].into_iter();
            named.filter_map(variables).map(PathBuf::from).next()
        })
        .or_else(|| Some(PathBuf::from(variables("RABBITMQ_MNESIA_BASE")?).join(node)))
        .or_else(|| default.map(|default| mounted(Path::new(MNESIA), node).unwrap_or(default)))
}

/// The directory that has those of nodes in RabbitMQ's images.
const MNESIA: &str = "/var/lib/rabbitmq/mnesia";

/// The node's directory in `base`, if one of them is a mount: an orchestrator keeps what is there.
fn mounted(base: &Path, node: &str) -> Option<PathBuf> {
    let device = |path: &Path| std::fs::metadata(path).ok().map(|it| it.dev());
    let of_node = base.join(node);
    let is_mount =
        |path: &Path| device(path).is_some_and(|it| path.parent().and_then(device) != Some(it));
    (is_mount(base) || is_mount(&of_node)).then_some(of_node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |wanted| list.iter().find(|(name, _)| *name == wanted).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn names_are_completed() {
        assert_eq!(complete("a@b", false), "a@b");
        assert!(complete("rabbit", false).starts_with("rabbit@"));
        assert!(node_name(&set(&[])).starts_with("rabbit@"));
        assert!(node_name(&set(&[("RABBITMQ_NODENAME", "hare")])).starts_with("hare@"));
        assert!(has_long_names(&set(&[("RABBITMQ_USE_LONGNAME", "true")])));
        assert!(!has_long_names(&set(&[("RABBITMQ_USE_LONGNAME", "false")])));
    }

    #[test]
    fn a_mount_for_rabbitmq_is_taken() {
        assert_eq!(mounted(Path::new("/proc"), "rabbit@box"), Some("/proc/rabbit@box".into()));
        let dir = std::env::temp_dir().join("leveret-no-mount");
        assert_eq!(mounted(&dir, "rabbit@box"), None);
    }

    #[test]
    fn the_data_directory_is_found() {
        let of = |list| data_dir(&set(list), "rabbit@box").map(|path| path.display().to_string());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("RABBITMQ_MNESIA_BASE", "/b")]).unwrap(), "/b/rabbit@box");
        let both = &[("RABBITMQ_MNESIA_BASE", "/b"), ("RABBITMQ_MNESIA_DIR", "/d")];
        assert_eq!(of(both).unwrap(), "/d");
        let own = &[("RABBITMQ_MNESIA_DIR", "/d"), ("LEVERET_DATA_DIR", "/l")];
        assert_eq!(of(own).unwrap(), "/l");
        let unused =
            &[("LEVERET_DEFAULT_DATA_DIR", "/no/such/place"), ("RABBITMQ_MNESIA_DIR", "/d")];
        assert_eq!(of(unused).unwrap(), "/d");
        let used = &[("LEVERET_DEFAULT_DATA_DIR", "/proc"), ("RABBITMQ_MNESIA_DIR", "/d")];
        assert_eq!(of(used).unwrap(), "/proc");
    }
}
