//! The node as a whole, and help.

use super::{choice, table};
use crate::client::{FORMATION, STATE};
use crate::eval;
use crate::failure::Invalid;
use crate::feature_flags;
use crate::offline;
use crate::options::{flag, number, text};
use crate::output::{Answer, Form};
use crate::render;
use crate::report;
use crate::units::UNITS;
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Invocation, Section, VERB, Verb, verbs};

const HELP: Verb = Verb { section: Section::Help, ..VERB };
const NODES: Verb = Verb { section: Section::Nodes, ..VERB };

fn is_unit(invocation: &Invocation) -> Result<(), Invalid> {
    let is_known = |unit: &str| UNITS.iter().any(|(name, _)| name.eq_ignore_ascii_case(unit));
    match invocation.text("unit").filter(|unit| !is_known(unit)) {
        None => Ok(()),
        Some(unit) => Err(Invalid::Other(format!(
            "unit '{unit}' is not supported. Please use one of: bytes, mb, mib, gb, gib, tb, tib"
        ))),
    }
}

/// The columns of the store of definitions. COMPAT: those of RabbitMQ's that mean something here.
const STORE_STATUS: &str = "\
    Node Name, Raft State, Membership, Last Log Index, Last Written, Last Applied, Commit Index";

pub(super) const VERBS: &[Verb] = verbs! {
    HELP "help (<command> | [--list-commands])", "Shows the usage of a command":
        params: &["command?"], switches: &[flag("list-commands", None)],
        action: Action::Offline(offline::help);
    HELP "version", "Shows this tool's version":
        action: Action::Offline(offline::version);
    NODES "await_startup", "Waits until the node has started":
        timeout_ms: Some(300_000), action: Action::Offline(offline::await_startup);
    VERB "await_online_nodes <count>", "Waits until the given number of cluster nodes have started":
        section: Section::Cluster, params: &["count"],
        check: Some(|invocation| invocation.check_positive("count")),
        timeout_ms: Some(300_000),
        banner: Lines("Will wait for at least {count} nodes to join the cluster of {node} ..."),
        action: Action::Offline(offline::await_online_nodes);
    NODES "wait [<pidfile>] [--pid|-P <pid>]",
        "Waits until the node with a process id or pid file has started":
        params: &["pidfile?"], switches: &[number("pid", Some('P'))],
        check: Some(|invocation| {
            match (invocation.number("pid"), invocation.params.contains_key("pidfile")) {
                (Some(_), true) => {
                    Err(Invalid::Other("\"Cannot specify both pid and pidfile\"".to_owned()))
                }
                (None, false) => Err(Invalid::Other("\"No pid or pidfile specified\"".to_owned())),
                (Some(_), false) | (None, true) => Ok(()),
            }
        }),
        timeout_ms: Some(10_000), action: Action::Offline(offline::wait);
    NODES "stop [--idempotent] [<pidfile>]",
        "Stops the node; with a pid file, waits for its process to exit":
        params: &["pidfile?"], switches: &[flag("idempotent", None)],
        banner: Made(|invocation| {
            let node = invocation.node();
            if !invocation.params.contains_key("pidfile") {
                return format!("Stopping and halting node {node} ...");
            }
            let pidfile = invocation.param("pidfile");
            format!("Stopping and halting node {node} (will monitor pid file {pidfile}) ...")
        }),
        action: Action::Offline(offline::stop);
    NODES "shutdown [--wait]", "Stops the node and waits for its process to exit":
        switches: &[flag("wait", None)], timeout_ms: Some(120_000),
        action: Action::Offline(offline::shutdown);
    NODES "start_app", "Accepts client connections again, after stop_app":
        banner: Lines("Starting node {node} ..."), action: Action::Do("POST /leveret/listeners");
    NODES "stop_app",
        "Closes all client connections and rejects new ones; the node's process stays":
        banner: Lines("Stopping rabbit application on node {node} ..."),
        action: Action::Offline(offline::stop_app);
    NODES "eval <expression>", "Answers the Erlang expressions that common tools send; others fail":
        params: &["expression"], action: Action::Offline(eval::eval);
    VERB "status [--unit <unit>]", "Shows the node's status":
        section: Section::Monitoring, switches: &[text("unit", None), number("timeout", Some('t'))],
        check: Some(is_unit), timeout_ms: Some(60_000), banner: Lines("Status of node {node} ..."),
        action: Action::Tell("GET /leveret/status", render::status);
    VERB "memory_breakdown [--unit <unit>]", "Shows the node's memory use by category":
        section: Section::Monitoring, switches: &[text("unit", None), number("timeout", Some('t'))],
        check: Some(is_unit), banner: Lines("Reporting memory breakdown on node {node}..."),
        action: Action::Ask("GET /leveret/status", render::memory_breakdown);
    VERB "metadata_store_status",
        "Shows the members of the metadata store and who leads it":
        section: Section::Monitoring, banner: Lines("Status of metadata store on node {node} ..."),
        action: table("GET /leveret/metadata-store", STORE_STATUS, Form::Pretty);
    VERB "os_env", "Lists the node's environment variables, without secrets":
        section: Section::Configuration,
        banner: Lines("Listing RabbitMQ-specific environment variables defined on node {node}..."),
        action: Action::Ask("GET /leveret/os-env", render::os_env);
    VERB "environment", "Shows the effective configuration":
        section: Section::Configuration, banner: Lines("Application environment of node {node} ..."),
        action: Action::Ask("GET /leveret/environment", |_, answer| Ok(Answer::Settings(answer)));
    VERB "report", "Shows a full report for troubleshooting":
        section: Section::Monitoring, banner: Lines("Reporting server status of node {node} ...\n"),
        action: Action::Offline(report::report);
    HELP "autocomplete [<prefix>]", "Lists the commands that start with a prefix":
        params: &["prefix?"], action: Action::Offline(offline::autocomplete);
    NODES "force_gc", "No-op: memory is freed as soon as it is unused":
        banner: Lines("Will ask all processes on node {node} to schedule a GC run"),
        action: Action::Do(STATE);
    NODES "rotate_logs", "Reopens the node's log file, after it was moved":
        action: Action::Do("POST /leveret/log/rotation");
    VERB "suspend_listeners", "Rejects new client connections; existing ones stay":
        section: Section::Operations,
        banner: Lines("Will suspend client connection listeners on node {node}. The node will no longer \
            accept client connections!"),
        action: Action::Do("DELETE /leveret/listeners");
    VERB "resume_listeners", "Accepts client connections again, after suspend_listeners":
        section: Section::Operations,
        banner: Lines("Will resume client connection listeners on node {node}. The node will now accept \
            client connections"),
        action: Action::Do("POST /leveret/listeners");
    VERB "log_location [--all|-a]", "Shows the locations of the node's logs":
        section: Section::Monitoring, switches: &[flag("all", Some('a'))],
        banner: Lines("Log file location(s) on node {node} ..."),
        action: Action::Ask("GET /leveret/status", render::log_location);
    VERB "list_deprecated_features [--used] [<column> ...]",
        "Lists deprecated features and their state":
        section: Section::FeatureFlags, switches: &[flag("used", None)],
        banner: Made(|invocation| {
            if invocation.flag("used") {
                return "Listing deprecated features in use ...".to_owned();
            }
            "Listing deprecated features ...".to_owned()
        }),
        action: choice(
            "GET /deprecated-features",
            Form::Whole,
            "name, deprecation_phase, state, provided_by, desc, doc_url",
            "name, deprecation_phase, state",
        );
    VERB "check_if_any_deprecated_features_are_used", "Fails if a deprecated feature is in use":
        section: Section::Monitoring, banner: Lines("Checking if any deprecated features are used ..."),
        action: Action::Ask("GET /deprecated-features/used", render::check_deprecated_features);
    VERB "join_cluster [--force] <existing_cluster_member>",
        "Joins the node to a cluster; what the node has is deleted":
        section: Section::Cluster, params: &["member"],
        switches: &[flag("force", None)], timeout_ms: Some(120_000),
        banner: Lines("Clustering node {node} with {member}"),
        action: Action::Offline(offline::join_cluster);
    VERB "reset", "Takes the node out of its cluster and deletes all its data":
        section: Section::Cluster, timeout_ms: Some(120_000),
        banner: Lines("Resetting node {node} ..."), action: Action::Offline(offline::reset);
    VERB "force_reset", "Deletes all data of the node without telling its cluster":
        section: Section::Cluster, timeout_ms: Some(120_000),
        banner: Lines("Forcefully resetting node {node} ..."),
        action: Action::Offline(offline::force_reset);
    VERB "force_boot --discard-others",
        "Has a node that waits for lost members go on as the only one of its cluster":
        section: Section::Cluster, switches: &[flag("discard-others", None)],
        timeout_ms: Some(120_000), banner: Lines("Forcing boot of node {node} ..."),
        action: Action::Offline(offline::force_boot);
    VERB "forget_cluster_node <existing_cluster_member_node>",
        "Removes a node from the cluster; its queues go with it":
        section: Section::Cluster, params: &["member"], timeout_ms: Some(60_000),
        banner: Lines("Removing node {member} from the cluster"),
        action: Action::Do("DELETE /leveret/cluster/{member}");
    VERB "cluster_status", "Shows the nodes of the cluster":
        section: Section::Cluster, timeout_ms: Some(60_000),
        banner: Lines("Cluster status of node {node} ..."),
        action: Action::Tell("GET /leveret/cluster", render::cluster_status);
    VERB "list_members", "Lists the members of the cluster":
        section: Section::Cluster, banner: Lines("Listing members of the cluster of {node} ..."),
        action: table(
            "GET /leveret/cluster/members", "name, running, membership, maintenance, version", Form::Pretty,
        );
    VERB "discover_peers", "Lists the nodes that peer discovery finds":
        section: Section::Cluster, banner: Lines("Discovering peers nodes ..."),
        action: Action::Ask(FORMATION, render::discovered_peers);
    VERB "list_feature_flags [<column> ...]", "Lists feature flags":
        section: Section::FeatureFlags, banner: Lines("Listing feature flags ..."),
        action: choice(
            "GET /feature-flags",
            Form::Whole,
            "name, state, stability, provided_by, desc, doc_url",
            "name, state",
        );
    VERB "enable_feature_flag [--experimental] <all | feature_flag>",
        "No-op: all feature flags are always enabled":
        section: Section::FeatureFlags, params: &["feature_flag"],
        switches: &[flag("experimental", None), flag("opt-in", None)],
        banner: Made(|invocation| match invocation.param("feature_flag") {
            "all" => "Enabling all feature flags ...".to_owned(),
            name => format!("Enabling feature flag \"{name}\" ..."),
        }),
        check: Some(feature_flags::check),
        action: Action::Ask("GET /feature-flags", feature_flags::enable);
};
