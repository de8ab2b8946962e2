//! Plugins, which are built in or not there at all.

use crate::options::flag;
use crate::plugins;
use crate::verb::Banner::Made;
use crate::verb::{Action, Section, VERB, Verb, verbs};

const PLUGINS: Verb = Verb { section: Section::Plugins, ..VERB };
/// Changes nothing, since nothing can be changed.
const CHANGE: Verb = Verb {
    params: &["plugins*"],
    switches: &[flag("online", None), flag("offline", None), flag("all", None)],
    check: Some(plugins::check_mode),
    banner: Made(plugins::change_banner),
    action: Action::Offline(plugins::enable),
    ..PLUGINS
};

pub(super) const VERBS: &[Verb] = verbs! {
    PLUGINS "list [<pattern>] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]",
        "Lists plugins; all are built in and enabled":
        params: &["pattern?"],
        switches: &[
            flag("verbose", Some('v')),
            flag("minimal", Some('m')),
            flag("enabled", Some('E')),
            flag("implicitly-enabled", Some('e')),
        ],
        check: Some(plugins::check_list), timeout_ms: Some(60_000),
        banner: Made(plugins::list_banner), action: Action::Offline(plugins::list);
    CHANGE "enable <plugin> [...] | --all [--offline] [--online]",
        "No-op; warns about plugins that are not built in and rejects unknown names";
    CHANGE "disable <plugin> [...] | --all [--offline] [--online]",
        "No-op: built-in plugins stay enabled":
        action: Action::Offline(plugins::unchanged);
    CHANGE "set [<plugin> ...] [--offline] [--online]",
        "No-op; warns about plugins that are not built in and rejects unknown names":
        switches: &[flag("online", None), flag("offline", None)], check: None;
    CHANGE "is_enabled <plugin> [...] [--offline] [--online]",
        "Checks that plugins are built in (exit code)":
        banner: Made(plugins::is_enabled_banner), action: Action::Offline(plugins::is_enabled);
};
