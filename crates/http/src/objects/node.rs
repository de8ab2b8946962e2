//! The node and the whole of it: overview, nodes, names, flags.

use super::{put_field, sums};
use crate::admin::node::{api_feature_flags, feature_flags as tool_feature_flags};
use crate::call::{Answer, Call, Outcome};
use crate::list::MergeOrder;
use crate::peers::Peers;
use crate::refusal::Refusal;
use broker::Alarm;
use mgmt::{ClusterMember, ListenerInfo, memory_used_bytes};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stdx::words;
use tokio::task::spawn_blocking;

/// The version of Erlang that clients see. COMPAT: RabbitMQ 4.3.6 runs on this one.
const ERLANG: &str = "27.3";

/// Exchange types, with RabbitMQ's descriptions.
const EXCHANGE_TYPES: [(&str, &str); 11] = [
    ("direct", "AMQP direct exchange, as per the AMQP specification"),
    ("fanout", "AMQP fanout exchange, as per the AMQP specification"),
    ("headers", "AMQP headers exchange, as per the AMQP specification"),
    ("topic", "AMQP topic exchange, as per the AMQP specification"),
    ("x-local-random", "Picks one random local binding (queue) to route via (to)."),
    ("x-modulus-hash", "Modulus Hashing Exchange"),
    ("x-consistent-hash", "Consistent Hashing Exchange"),
    ("x-random", "AMQP random exchange."),
    ("x-recent-history", "Recent History Exchange."),
    ("x-jms-topic", "JMS topic exchange"),
    ("x-delayed-message", "Delayed Message Exchange."),
];

fn exchange_types() -> Value {
    let object = |(name, description): &(&str, &str)| json!({"name": name, "description": description, "enabled": true});
    let mut types: Vec<_> = EXCHANGE_TYPES.iter().map(object).collect();
    types.push(json!({
        "name": "x-federation-upstream",
        "description": "Federation upstream helper exchange",
        "internal_purpose": "federation",
        "enabled": true,
    }));
    types.into()
}

fn erlang_full_version(call: &Call) -> String {
    format!("none: Leveret {}", call.api.management.node_info.version)
}

fn cluster_name(call: &Call) -> String {
    let name = call.view().meta.global_parameters().cluster_name();
    name.unwrap_or_else(|| call.api.management.node_info.name.clone())
}

fn listeners(call: &Call) -> Value {
    let object = |listener: &ListenerInfo| {
        json!({
            "node": call.api.management.node_info.name,
            "protocol": listener.protocol,
            "ip_address": listener.address.ip().to_string(),
            "port": listener.address.port(),
            "socket_opts": [],
            "tls": listener.protocol.contains("ssl") || listener.protocol.starts_with("https"),
        })
    };
    call.api.management.open_listeners().iter().map(object).collect()
}

pub(crate) fn overview(call: &Call) -> Outcome {
    let (management, view) = (&call.api.management, call.view());
    let vhosts = super::vhosts(&view.meta, call)?;
    let (n_queues, n_consumers) = super::queues::totals(call, &view, &vhosts);
    let n_exchanges: usize = vhosts.iter().map(|vhost| vhost.exchanges().len()).sum();
    let mut connections = management.broker.connections.list();
    connections.retain(|one| super::clients::sees(call, one));
    let ((is_plain, has_totals), ranges) = (call.wants_plain(), call.ranges()?);
    let restrictions = &call.api.settings.restrictions;
    let mut object = json!({
        "management_version": management.node_info.rabbitmq_version,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600],
        },
        "exchange_types": exchange_types(),
        "product_version": management.node_info.version,
        "product_name": "Leveret",
        "rabbitmq_version": management.node_info.rabbitmq_version,
        "cluster_name": cluster_name(call),
        "cluster_tags": {},
        "node_tags": {},
        "erlang_version": ERLANG,
        "erlang_full_version": erlang_full_version(call),
        "crypto_lib_version": "aws-lc-rs",
        "disable_stats": is_plain,
        "default_queue_type": "classic",
        "is_op_policy_updating_enabled": !restrictions.keeps_operator_policies,
        "enable_queue_totals": has_totals,
        "require_definition_json_extension": restrictions.needs_json_files,
        "object_totals": {
            "channels": connections.iter().map(|one| one.n_channels()).sum::<usize>(),
            "consumers": n_consumers,
            "exchanges": n_exchanges,
            "queues": n_queues,
            "connections": connections.len(),
        },
        "statistics_db_event_queue": 0,
    });
    if call.caller.is_monitor() {
        put_field(&mut object, "node", json!(management.node_info.name));
        put_field(&mut object, "listeners", listeners(call));
        put_field(&mut object, "contexts", contexts(call));
    }
    let is_wanted = |name: &str| vhosts.iter().any(|vhost| vhost.name == name);
    if let Value::Object(object) = &mut object {
        object.extend(call.api.stats.overview(is_wanted, &ranges));
        let churn = call.api.stats.churn(&management.broker, &ranges);
        object.insert("churn_rates".to_owned(), Value::Object(churn));
    }
    if let Peers::Asked(replies) = &call.peers {
        replies.objects().iter().for_each(|other| sums::add_overview(&mut object, other));
    }
    Ok(Answer::Json(object))
}

fn contexts(call: &Call) -> Value {
    let listeners = call.api.management.open_listeners().iter();
    let object = |listener: &ListenerInfo| {
        json!({
            "ssl_opts": [], "node": call.api.management.node_info.name,
            "description": "RabbitMQ Management", "path": format!("{}/", call.api.settings.look.prefix), "cowboy_opts": "[]",
            "ip": listener.address.ip().to_string(),
            "port": listener.address.port().to_string(),
        })
    };
    listeners
        .filter(|listener| ["http", "https"].contains(&listener.protocol))
        .map(object)
        .collect()
}

fn node_object(call: &Call) -> Result<Value, Refusal> {
    let management = &call.api.management;
    let (node_info, limits) = (&management.node_info, management.resources.limits());
    let descriptors = management.resources.descriptors();
    let paths = |list: &[std::path::PathBuf]| -> Vec<String> {
        list.iter().map(|path| path.display().to_string()).collect()
    };
    let mechanism =
        |name: &str, enabled| json!({"name": name, "description": "", "enabled": enabled});
    let is_on = |alarm| management.broker.alarms.is_on(alarm);
    let since = |alarm| management.broker.alarms.since_ms(alarm);
    let mut object = json!({
        "partitions": [],
        "os_pid": std::process::id().to_string(),
        "fd_total": descriptors.total_limit,
        "sockets_total": descriptors.total_limit,
        "mem_limit": limits.memory_high_bytes(),
        "mem_alarm": is_on(Alarm::Memory),
        "disk_free_limit": limits.disk_free_bytes(),
        "disk_free_alarm": is_on(Alarm::Disk),
        "mem_alarm_since": since(Alarm::Memory),
        "disk_free_alarm_since": since(Alarm::Disk),
        "proc_total": 1_048_576,
        "rates_mode": "basic",
        "io_sync_avg_time": management.broker.figures().log().commit_micros as f64 / 1e3,
        "uptime": node_info.uptime_seconds() * 1_000,
        "run_queue": 0,
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            mechanism("PLAIN", true), mechanism("AMQPLAIN", true), mechanism("ANONYMOUS", true),
        ],
        "applications": [{
            "name": "leveret", "description": "Leveret", "version": node_info.version,
        }],
        "contexts": contexts(call),
        "log_files": paths(&node_info.log_files),
        "db_dir": node_info.data_dir.display().to_string(),
        "config_files": paths(&node_info.config_files),
        "net_ticktime": 60,
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus", "rabbitmq_stream"],
        "mem_calculation_strategy": "rss",
        "ra_open_file_metrics": {},
        "rabbitmq_version": node_info.rabbitmq_version,
        "erlang_version": ERLANG,
        "erlang_full_version": erlang_full_version(call),
        "crypto_lib_version": "aws-lc-rs",
        "name": node_info.name,
        "type": "disc",
        "running": true,
        "being_drained": management.open_listeners().is_empty(),
        "cluster_links": [],
        "metrics_gc_queue_length": {},
    });
    if let Value::Object(object) = &mut object {
        let ranges = call.ranges()?;
        object.extend(call.api.stats.of_node(management, &ranges));
        object.extend(call.api.stats.churn(&management.broker, &ranges));
    }
    Ok(object)
}

/// The row of another member, whose figures it tells itself.
fn other_object(member: &ClusterMember) -> Value {
    json!({
        "partitions": [],
        "name": member.name,
        "type": "disc",
        "running": member.is_running,
        "being_drained": member.is_in_maintenance,
        "cluster_links": [],
    })
}

pub(crate) fn list(call: &Call) -> Outcome {
    let others = if let Peers::Asked(replies) = &call.peers { replies.rows() } else { Vec::new() };
    let mut members = call.api.management.cluster_view().members;
    members.retain(|member| match &call.peers {
        _ if call.is_of(&member.name) => true,
        Peers::Asked(replies) => !replies.has(&member.name),
        Peers::Alone | Peers::Unasked => !call.query.flag("local"),
    });
    let row = |member: &ClusterMember| {
        if call.is_of(&member.name) { node_object(call) } else { Ok(other_object(member)) }
    };
    let rows = members.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    call.list_with(others, MergeOrder::Name, rows)
}

pub(crate) fn get(call: &Call) -> Outcome {
    let members = call.api.management.cluster_view().members;
    let asked = call.param("node");
    match members.iter().find(|member| !call.is_of(asked) && member.name == asked) {
        // The node answers by itself, if it can.
        Some(_) if call.is_for_others() => Err(Refusal::not_found()),
        Some(member) => call.one(&other_object(member)),
        None => call.check_node().and_then(|()| call.one(&node_object(call)?)),
    }
}

/// COMPAT: the parts of an Erlang node's memory. Tools want all of them, although most are 0 here.
const MEMORY_PARTS: &str = "\
    connection_readers, connection_writers, connection_channels, connection_other, \
    stream_queue_procs, stream_queue_replica_reader_procs, stream_queue_coordinator_procs, \
    quorum_queue_procs, quorum_queue_dlx_procs, plugins, metadata_store, metrics, mgmt_db, \
    quorum_ets, mnesia, metadata_store_ets, other_ets, binary, msg_index, code, atom, \
    other_system, allocated_unused, reserved_unallocated, other_proc";

/// Messages are told apart, everything else is `other_proc`; in bytes, or shares of `whole`.
fn memory_of(call: &Call, total: Value, share: impl Fn(u64) -> Value) -> Outcome {
    call.check_node()?;
    let used = memory_used_bytes().unwrap_or_default();
    let messages = call.api.management.broker.figures().message_bytes();
    let mut parts = json!({"queue_procs": share(messages), "total": total});
    for name in words(MEMORY_PARTS) {
        let bytes = if name == "other_proc" { used.saturating_sub(messages) } else { 0 };
        put_field(&mut parts, name, share(bytes));
    }
    put_field(&mut parts, "strategy", json!("rss"));
    Ok(Answer::Json(json!({"memory": parts})))
}

pub(crate) fn memory(call: &Call) -> Outcome {
    let used = memory_used_bytes();
    let total = json!({"erlang": used, "rss": used, "allocated": used});
    memory_of(call, total, |bytes| json!(bytes))
}

pub(crate) fn memory_relative(call: &Call) -> Outcome {
    let used = memory_used_bytes().unwrap_or(1).max(1);
    let share = |bytes: u64| json!(bytes.saturating_mul(100) / used);
    memory_of(call, json!(100), share)
}

/// The memory of Erlang's tables. COMPAT: a node here has none.
pub(crate) fn memory_ets(call: &Call) -> Outcome {
    call.check_node()?;
    Ok(Answer::Json(json!({"ets_tables_memory": {"total": 0}})))
}

pub(crate) fn get_cluster_name(call: &Call) -> Outcome {
    Ok(Answer::Json(json!({"name": cluster_name(call)})))
}

pub(crate) fn extensions(_: &Call) -> Outcome {
    Ok(Answer::Json(json!([{"javascript": "dispatcher.js"}])))
}

pub(crate) fn version(call: &Call) -> Outcome {
    Ok(Answer::Json(json!(call.api.management.node_info.rabbitmq_version)))
}

pub(crate) fn effective_config(call: &Call) -> Outcome {
    let settings = call.api.management.node_info.settings.iter();
    Ok(Answer::Text(settings.map(|(key, value)| format!("{key} = {value}\n")).collect()))
}

pub(crate) fn feature_flags(call: &Call) -> Outcome {
    let is_local = call.caller.is_local();
    call.list(if is_local { tool_feature_flags() } else { api_feature_flags().collect() })
}

/// Enables a feature flag. COMPAT: all known flags are enabled already.
pub(crate) async fn enable_feature_flag(call: &Call) -> Outcome {
    if api_feature_flags().any(|flag| flag.get("name").is_some_and(|it| it == call.param("name"))) {
        return Ok(Answer::NoContent);
    }
    Err(Refusal::bad_request("unsupported"))
}

pub(crate) async fn hash_password(call: &Call) -> Outcome {
    let salt = mgmt::salt()?;
    let hash = meta::PasswordHash::by(call.api.management.hashing, salt, call.param("password"));
    Ok(Answer::Json(json!({"ok": hash.to_base64()})))
}

pub(crate) fn auth_attempts(call: &Call) -> Outcome {
    call.check_node()?;
    let attempts = call.api.throttle.attempts().into_iter();
    call.list(attempts.map(|(protocol, it)| attempts_row(protocol, it)).collect())
}

fn attempts_row(protocol: &str, it: auth::Attempts) -> Value {
    json!({
        "protocol": protocol,
        "auth_attempts": it.n_succeeded + it.n_failed,
        "auth_attempts_failed": it.n_failed,
        "auth_attempts_succeeded": it.n_succeeded,
    })
}

pub(crate) fn auth_attempts_by_source(call: &Call) -> Outcome {
    call.check_node()?;
    let row = |((address, user, protocol), it): (auth::LoginSource, _)| {
        let mut row = attempts_row(protocol, it);
        put_field(&mut row, "remote_address", json!(address));
        put_field(&mut row, "username", json!(user));
        row
    };
    call.list(call.api.throttle.attempts_by_source().into_iter().map(row).collect())
}

pub(crate) async fn forget_auth_attempts(call: &Call) -> Outcome {
    call.check_node()?;
    call.api.throttle.forget_attempts();
    Ok(Answer::NoContent)
}

/// Looks at the figures now, unless the node samples them by itself.
pub(crate) async fn sample(call: &Call) -> Outcome {
    if !call.api.stats.is_sampled.load(Ordering::Relaxed) {
        let api = Arc::clone(&call.api);
        spawn_blocking(move || api.look(true)).await.map_err(|_| Refusal::internal())?;
    }
    Ok(Answer::NoContent)
}

/// Answers a request that needs nothing done.
pub(crate) async fn nothing(_: &Call) -> Outcome {
    Ok(Answer::NoContent)
}

/// Answers as [`nothing`] does, of a node that is here. COMPAT: another node is an error.
pub(crate) async fn nothing_at(call: &Call) -> Outcome {
    call.check_node()?;
    Ok(Answer::NoContent)
}

/// Answers with a list that only a cluster, federation or shovels would fill.
pub(crate) fn empty(call: &Call) -> Outcome {
    call.list::<Value>(Vec::new())
}

pub(crate) fn empty_in_vhost(call: &Call) -> Outcome {
    crate::call::vhost(&call.view().meta, call)?;
    empty(call)
}

/// Refuses a request for an object of a kind of which there are none.
pub(crate) fn none(_: &Call) -> Outcome {
    Err(Refusal::not_found())
}

pub(crate) async fn none_to_change(_: &Call) -> Outcome {
    Err(Refusal::not_found())
}

pub(crate) fn aliveness(call: &Call) -> Outcome {
    crate::call::vhost(&call.view().meta, call)?;
    Ok(Answer::Json(json!({"status": "ok"})))
}
