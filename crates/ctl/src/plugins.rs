//! `rabbitmq-plugins`: what RabbitMQ has in plugins is here part of the node, always there and never
//! switched off; of its other plugins it is told that they change nothing, and what is none is refused.
//! Provisioning scripts hear it in RabbitMQ's words.

use crate::client::STATE;
use crate::failure::{Failure, Invalid, code};
use crate::output::{Answer, Format};
use crate::verb::Invocation;
use crate::{offline, render, run};
use regex::Regex;
use serde_json::{Map, Value, json};
use stdx::RABBITMQ_VERSION;

/// RabbitMQ's plugins whose work Leveret does itself, by name, with what they do.
const BUILT_IN: [(&str, &str); 17] = [
    ("rabbitmq_amqp1_0", "Deprecated no-op AMQP 1.0 plugin"),
    ("rabbitmq_auth_mechanism_ssl", "RabbitMQ SSL authentication (SASL EXTERNAL)"),
    ("rabbitmq_consistent_hash_exchange", "Consistent Hash Exchange Type"),
    ("rabbitmq_delayed_message_exchange", "Delayed Message Exchange"),
    ("rabbitmq_event_exchange", "Event Exchange Type"),
    ("rabbitmq_jms_topic_exchange", "JMS topic selector exchange"),
    ("rabbitmq_management", "RabbitMQ Management Console"),
    ("rabbitmq_management_agent", "RabbitMQ Management Agent"),
    ("rabbitmq_message_deduplication", "Message Deduplication"),
    ("rabbitmq_prometheus", "Prometheus metrics for RabbitMQ"),
    ("rabbitmq_random_exchange", "Random Exchange"),
    ("rabbitmq_recent_history_exchange", "Recent History Exchange"),
    ("rabbitmq_sharding", "RabbitMQ Sharding Plugin"),
    ("rabbitmq_stream", "RabbitMQ Stream"),
    ("rabbitmq_stream_management", "RabbitMQ Stream Management"),
    ("rabbitmq_tracing", "RabbitMQ message logging / tracing"),
    ("rabbitmq_web_dispatch", "RabbitMQ Web Dispatcher"),
];

/// RabbitMQ's other plugins: the reason why nothing comes of enabling them, and their names.
const OTHERS: [(&str, &str); 3] = [
    (
        "not supported yet",
        "rabbitmq_auth_backend_cache rabbitmq_auth_backend_http rabbitmq_auth_backend_ldap \
         rabbitmq_auth_backend_oauth2 rabbitmq_exchange_federation rabbitmq_federation \
         rabbitmq_federation_common rabbitmq_federation_management rabbitmq_federation_prometheus rabbitmq_mqtt \
         rabbitmq_queue_federation rabbitmq_shovel rabbitmq_shovel_management rabbitmq_shovel_prometheus \
         rabbitmq_stomp rabbitmq_trust_store rabbitmq_web_mqtt rabbitmq_web_stomp",
    ),
    (
        "each node is a cluster of its own",
        "rabbitmq_aws rabbitmq_peer_discovery_aws rabbitmq_peer_discovery_common rabbitmq_peer_discovery_consul \
         rabbitmq_peer_discovery_etcd rabbitmq_peer_discovery_k8s",
    ),
    (
        "not applicable",
        "amqp10_client amqp10_common amqp_client oauth2_client rabbitmq_amqp_client \
         rabbitmq_auth_backend_internal_loopback rabbitmq_stream_common rabbitmq_top rabbitmq_web_mqtt_examples \
         rabbitmq_web_stomp_examples",
    ),
];

/// The reason why nothing comes of enabling a plugin that RabbitMQ has.
fn without_effect(name: &str) -> Option<&'static str> {
    let is_one = |names: &str| names.split(' ').any(|one| one == name);
    OTHERS.iter().find(|(_, names)| is_one(names)).map(|(why, _)| *why)
}

/// Whether the node has what this plugin of RabbitMQ does.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(built_in, _)| *built_in == name)
}

/// Whether the node has to be asked: expressly, as it is without it if it cannot be reached.
pub(crate) fn check_mode(invocation: &Invocation) -> Result<(), Invalid> {
    if invocation.flag("online") && invocation.flag("offline") {
        return Err(bad("Cannot set both online and offline"));
    }
    match (names(invocation).next(), invocation.flag("all")) {
        (None, false) => Err(Invalid::TooFew),
        (Some(_), true) => Err(bad("Cannot set both --all and a list of plugins")),
        (None, true) | (Some(_), false) => Ok(()),
    }
}

pub(crate) fn check_list(invocation: &Invocation) -> Result<(), Invalid> {
    if invocation.flag("verbose") && invocation.flag("minimal") {
        return Err(bad("Cannot set both verbose and minimal"));
    }
    pattern(invocation).map(drop).map_err(|error| bad(&error.to_string()))
}

fn bad(text: &str) -> Invalid {
    Invalid::BadArgument(text.to_owned())
}

fn pattern(invocation: &Invocation) -> Result<Regex, regex::Error> {
    Regex::new(invocation.param("pattern"))
}

fn names(invocation: &Invocation) -> impl Iterator<Item = &str> {
    invocation.args("plugins")
}

fn missing(invocation: &Invocation) -> Vec<&str> {
    names(invocation).filter(|name| !is_built_in(name)).collect()
}

pub(crate) fn list_banner(invocation: &Invocation) -> String {
    let pattern = match invocation.param("pattern") {
        "" => ".*",
        pattern => pattern,
    };
    format!("Listing plugins with pattern \"{pattern}\" ...")
}

pub(crate) fn list(invocation: &Invocation) -> Result<Answer, Failure> {
    let pattern =
        pattern(invocation).map_err(|error| Failure::error(code::DATA, error.to_string()))?;
    let is_running = matches!(offline::is_running(invocation), Ok(true));
    let found = || BUILT_IN.iter().filter(|(name, _)| pattern.is_match(name));
    if invocation.format == Format::Json {
        return Ok(Answer::Object(as_json(invocation, is_running, found().map(|(name, _)| *name))));
    }
    if invocation.flag("minimal") {
        return Ok(text(found().map(|(name, _)| (*name).to_owned()).collect()));
    }
    let mut lines =
        if invocation.output_less() { Vec::new() } else { legend(invocation, is_running) };
    let width = found().map(|(name, _)| name.len()).max().unwrap_or_default();
    let running = if is_running { '*' } else { ' ' };
    for (name, description) in found() {
        if invocation.flag("verbose") {
            lines.extend([
                format!("[E{running}] {name}"),
                format!("     Version:     \t{}", RABBITMQ_VERSION),
                "     Dependencies:\t[]".to_owned(),
                format!("     Description: \t{description}"),
            ]);
        } else {
            lines.push(format!("[E{running}] {name:width$} {}", RABBITMQ_VERSION));
        }
    }
    Ok(text(lines))
}

fn text(lines: Vec<String>) -> Answer {
    if lines.is_empty() { Answer::Silent } else { Answer::Text(lines.join("\n")) }
}

fn legend(invocation: &Invocation, is_running: bool) -> Vec<String> {
    let node = invocation.node();
    let status = if is_running {
        format!("* = running on {node}")
    } else {
        format!("[failed to contact {node} - status not shown]")
    };
    vec![
        " Configured: E = explicitly enabled; e = implicitly enabled".to_owned(),
        format!(" | Status: {status}"),
        " |/".to_owned(),
    ]
}

fn as_json<'p>(
    invocation: &Invocation,
    is_running: bool,
    found: impl Iterator<Item = &'p str>,
) -> Value {
    let minimal = invocation.flag("minimal");
    let object = |name| {
        if minimal {
            return json!({ "name": name });
        }
        let version = RABBITMQ_VERSION;
        json!({
            "name": name, "version": version, "running": is_running, "enabled": "enabled",
            "running_version": if is_running { version } else { "" },
        })
    };
    json!({
        "status": if is_running { "running" } else { "node_down" },
        "format": if minimal { "minimal" } else { "normal" },
        "plugins": found.map(object).collect::<Value>(),
    })
}

/// `Enabling plugins on node rabbit@box:` and their names.
pub(crate) fn change_banner(invocation: &Invocation) -> String {
    let doing = if invocation.verb.name() == "disable" { "Disabling" } else { "Enabling" };
    let node = invocation.node();
    if invocation.flag("all") {
        return format!("{doing} ALL plugins on node {node}");
    }
    let head = format!("{doing} plugins on node {node}:");
    std::iter::once(head.as_str()).chain(names(invocation)).collect::<Vec<_>>().join("\n")
}

/// `enable` and `set`. COMPAT: the words for a plugin that is not there differ, and the exit codes.
pub(crate) fn enable(invocation: &Invocation) -> Result<Answer, Failure> {
    let missing: Vec<&str> =
        missing(invocation).into_iter().filter(|name| without_effect(name).is_none()).collect();
    if missing.is_empty() {
        return unchanged(invocation);
    }
    let not_found = format!("The following plugins were not found: {}", missing.join(", "));
    if invocation.verb.name() == "set" {
        return Err(Failure::error(code::DATA, not_found));
    }
    let atoms: Vec<String> = missing.iter().map(|name| format!(":{name}")).collect();
    let text = format!("{{:plugins_not_found, [{}]}}\n{not_found}", atoms.join(", "));
    Err(Failure::error(code::SOFTWARE, text))
}

/// Enables and disables nothing: plugins are built in. COMPAT: disabling what is not enabled succeeds.
pub(crate) fn unchanged(invocation: &Invocation) -> Result<Answer, Failure> {
    if invocation.flag("online") {
        run::ask(invocation, STATE, Map::new())?;
    }
    let stay: Vec<&str> = match invocation.verb.name() {
        "disable" => names(invocation).filter(|name| is_built_in(name)).collect(),
        _ => Vec::new(),
    };
    let mut lines = vec!["The following plugins have been configured:".to_owned()];
    lines.extend(BUILT_IN.iter().map(|(name, _)| format!("  {name}")));
    lines.push(format!("Applying plugin configuration to {}...", invocation.node()));
    let vain = names(invocation).filter_map(|name| Some((name, without_effect(name)?)));
    lines.extend(vain.map(|(name, why)| format!("warning: {name} is not enabled: {why}.")));
    lines.extend(stay.iter().map(|name| format!("{name} is part of the node and stays enabled.")));
    lines.push("Plugin configuration unchanged.".to_owned());
    Ok(Answer::Text(lines.join("\n")))
}

pub(crate) fn is_enabled_banner(invocation: &Invocation) -> String {
    let what = plugins_are(names(invocation));
    if invocation.flag("offline") {
        return format!("Inferring if {what} from local environment...");
    }
    format!("Asking node {} if {what} enabled...", invocation.node())
}

pub(crate) fn is_enabled(invocation: &Invocation) -> Result<Answer, Failure> {
    let mut node = String::new();
    if !invocation.flag("offline") {
        run::ask(invocation, STATE, Map::new())?;
        node = format!(" on node {}", invocation.node());
    }
    let missing = missing(invocation);
    if missing.is_empty() {
        let text = format!("{} enabled{node}", capitalised(&plugins_are(names(invocation))));
        let object = json!({"result": "ok", "message": text});
        return render::passed(invocation, object, text);
    }
    let enabled: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let text = format!(
        "{} not enabled{node}. Enabled plugins and dependencies: {}",
        capitalised(&plugins_are(missing.into_iter())),
        enabled.join(", ")
    );
    let object = json!({"result": "error", "message": text});
    render::failed(invocation, &object, Failure::error(code::UNAVAILABLE, text))
}

/// `plugin a is`, `plugins a, b are`.
fn plugins_are<'n>(names: impl Iterator<Item = &'n str>) -> String {
    match names.collect::<Vec<_>>().as_slice() {
        [one] => format!("plugin {one} is"),
        several => format!("plugins {} are", several.join(", ")),
    }
}

/// A text with a capital at its beginning. COMPAT: all other letters become small.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect()
}
