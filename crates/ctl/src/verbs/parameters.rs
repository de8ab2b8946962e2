//! Runtime parameters and policies.

use super::list;
use crate::failure::Invalid;
use crate::limits;
use crate::options::{number, text};
use crate::verb::Banner::{Lines, Made};
use crate::verb::{Action, Section, VERB, Verb, verbs};

const PARAMETERS: Verb = Verb { section: Section::Parameters, ..VERB };
const POLICIES: Verb = Verb { section: Section::Policies, vhost: true, ..VERB };

const POLICY_COLUMNS: &str = "vhost, name, pattern, apply-to, definition:definition!, priority";

const LIMITS: Verb = Verb {
    section: Section::Configuration,
    params: &["limit", "value?"],
    check: Some(limits::check),
    action: Action::Offline(limits::set),
    ..VERB
};

/// RabbitMQ's levels.
const LOG_LEVELS: [&str; 9] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "none"];

pub(super) const VERBS: &[Verb] = verbs! {
    POLICIES "set_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] \
        [--expected <number>] <name> <pattern> <definition>",
        "Sets a policy":
        params: &["name", "pattern", "definition"],
        switches: &[number("priority", None), text("apply-to", None), number("expected", None)],
        banner: Lines("Setting policy \"{name}\" for pattern \"{pattern}\" to \"{definition}\" with \
            priority \"{priority}\" for vhost \"{vhost}\" ..."),
        action: Action::Do("PUT /policies/{vhost}/{name}");
    POLICIES "clear_policy [--vhost <vhost>] <name>", "Removes a policy":
        params: &["name"], banner: Lines("Clearing policy \"{name}\" on vhost \"{vhost}\" ..."),
        action: Action::Do("DELETE /policies/{vhost}/{name}");
    POLICIES "list_policies [--vhost <vhost>] [--no-table-headers]",
        "Lists the policies of a virtual host":
        banner: Lines("Listing policies for vhost \"{vhost}\" ..."),
        action: list("GET /policies/{vhost}", POLICY_COLUMNS);
    POLICIES "list_policies_that_match [--vhost <vhost>] [--object-type <type>] <object_name>",
        "Lists the policies that match a queue or exchange, highest priority first":
        params: &["name"], switches: &[text("object-type", None)],
        check: Some(|invocation| match invocation.text("object-type") {
            None | Some("queue" | "exchange") => Ok(()),
            Some(_) => {
                Err(Invalid::BadArgument("object type must be one of queue, exchange".to_owned()))
            }
        }),
        banner: Made(|invocation| {
            format!(
                "Listing policies that match {} '{}' in vhost '{}' ...",
                invocation.text("object-type").unwrap_or("queue"),
                invocation.param("name"),
                invocation.vhost()
            )
        }),
        action: list("GET /leveret/policies/{vhost}/matching/{name}", POLICY_COLUMNS);
    POLICIES "set_operator_policy [--vhost <vhost>] [--priority <priority>] [--apply-to \
        <apply-to>] <name> <pattern> <definition>",
        "Sets an operator policy, which overrides policies and arguments":
        params: &["name", "pattern", "definition"],
        switches: &[number("priority", None), text("apply-to", None)],
        banner: Lines("Setting operator policy override \"{name}\" for pattern \"{pattern}\" to \
            \"{definition}\" with priority \"{priority}\" for vhost \"{vhost}\" ..."),
        action: Action::Do("PUT /operator-policies/{vhost}/{name}");
    POLICIES "clear_operator_policy [--vhost <vhost>] <name>", "Removes an operator policy":
        params: &["name"], banner: Lines("Clearing operator policy \"{name}\" on vhost \"{vhost}\" ..."),
        action: Action::Do("DELETE /operator-policies/{vhost}/{name}");
    POLICIES "list_operator_policies [--vhost <vhost>] [--no-table-headers]",
        "Lists the operator policies of a virtual host":
        banner: Lines("Listing operator policy overrides for vhost \"{vhost}\" ..."),
        action: list("GET /operator-policies/{vhost}", POLICY_COLUMNS);
    PARAMETERS "set_parameter [--vhost <vhost>] <component_name> <name> <value>",
        "Sets a runtime parameter of a virtual host":
        params: &["component", "name", "value"], vhost: true,
        banner: Lines("Setting runtime parameter \"{name}\" for component \"{component}\" to \
            \"{value}\" in vhost \"{vhost}\" ..."),
        action: Action::Do("PUT /parameters/{component}/{vhost}/{name}");
    PARAMETERS "clear_parameter [--vhost <vhost>] <component_name> <name>",
        "Removes a runtime parameter of a virtual host":
        params: &["component", "name"], vhost: true,
        banner: Lines("Clearing runtime parameter \"{name}\" for component \"{component}\" on vhost \
            \"{vhost}\" ..."),
        action: Action::Do("DELETE /parameters/{component}/{vhost}/{name}");
    PARAMETERS "list_parameters [--vhost <vhost>] [--no-table-headers]",
        "Lists the runtime parameters of a virtual host":
        vhost: true, banner: Lines("Listing runtime parameters for vhost \"{vhost}\" ..."),
        action: list("GET /leveret/parameters/{vhost}", "component, name, value:value!");
    PARAMETERS "set_global_parameter <name> <value>", "Sets a global runtime parameter":
        params: &["name", "value"],
        banner: Lines("Setting global runtime parameter \"{name}\" to \"{value}\" ..."),
        action: Action::Do("PUT /global-parameters/{name}");
    PARAMETERS "clear_global_parameter <name>", "Removes a global runtime parameter":
        params: &["name"], banner: Lines("Clearing global runtime parameter \"{name}\" ..."),
        action: Action::Do("DELETE /global-parameters/{name}");
    PARAMETERS "list_global_parameters [--no-table-headers]", "Lists global runtime parameters":
        banner: Lines("Listing global runtime parameters ..."),
        action: list("GET /global-parameters", "name, value:value!");
    VERB "set_cluster_name <name>", "Sets the cluster's name":
        section: Section::Configuration, params: &["name"],
        banner: Lines("Setting cluster name to {name} ..."), action: Action::Do("PUT /cluster-name");
    VERB "set_log_level <log_level>", "Sets the log level until the node restarts":
        section: Section::Configuration, params: &["level"],
        check: Some(|invocation| {
            let level = invocation.param("level");
            if LOG_LEVELS.contains(&level) {
                return Ok(());
            }
            Err(Invalid::Other(format!(
                "level {level} is not supported. \
                 Try one of debug, info, warning, error, critical, none"
            )))
        }),
        banner: Made(|invocation| {
            format!("Setting log level to \"{}\" ...", invocation.param("level"))
        }),
        action: Action::Do("PUT /leveret/log/level/{level}");
    LIMITS "set_vm_memory_high_watermark <fraction> | absolute <value>",
        "Sets the memory limit above which publishers are blocked, until the node restarts":
        banner: Made(|invocation| {
            let (node, limit) = (invocation.node(), invocation.param("limit"));
            match invocation.param("value") {
                "" => format!("Setting memory threshold on {node} to {limit} ..."),
                value => format!("Setting memory threshold on {node} to {value} bytes ..."),
            }
        });
    LIMITS "set_disk_free_limit <disk_limit> | mem_relative <fraction>",
        "Sets the free disk space below which publishers are blocked, until the node restarts":
        banner: Made(|invocation| {
            let (node, limit) = (invocation.node(), invocation.param("limit"));
            match invocation.param("value") {
                "" => format!("Setting disk free limit on {node} to {limit} bytes ..."),
                value => {
                    format!("Setting disk free limit on {node} to {value} times the total RAM ...")
                }
            }
        });
};
