//! Questions about the node.

use super::{Reply, sole_member};
use crate::request::Request;
use broker::{Alarm, HEAVIEST_NAMED, HeavyConnection, HeavyQueue};
use mgmt::{ClusterMember, ListenerInfo, Management, MemberPart, memory_used_bytes};
use segments::FileTraffic;
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering;
use stdx::words;
use store::blob::BlobStats;

/// Whether it has started.
pub(crate) fn state(management: &Management, _: &Request) -> Reply {
    Ok(json!({"running": management.running.load(Ordering::Relaxed)}))
}

/// The alarms in effect, with who is heaviest.
pub(crate) fn list_alarms(management: &Management, _: &Request) -> Reply {
    Ok(alarms(management))
}

/// Listeners that are open.
pub(crate) fn listeners(management: &Management, _: &Request) -> Reply {
    Ok(open_listeners(management))
}

/// The open listeners as objects. COMPAT: an IPv6 address stands in brackets.
fn open_listeners(management: &Management) -> Value {
    let object = |listener: &ListenerInfo| {
        let ip = listener.address.ip();
        let interface = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        json!({
            "node": management.node_info.name, "protocol": listener.protocol,
            "interface": interface, "port": listener.address.port(), "purpose": listener.purpose,
        })
    };
    management.open_listeners().iter().map(object).collect()
}

fn alarms(management: &Management) -> Value {
    let node = management.node_info.name.as_str();
    let object = |alarm: Alarm| {
        let resource = alarm.as_str();
        if alarm == Alarm::Descriptors {
            return json!({"resource": resource, "node": node, "type": resource});
        }
        let heaviest = heaviest(management);
        json!({"resource": resource, "node": node, "type": "resource_limit", "heaviest": heaviest})
    };
    management.alarms().map(object).collect()
}

/// The heaviest users of the node, where an operator has to look first.
fn heaviest(management: &Management) -> Value {
    let heaviest = management.broker.figures().heaviest(HEAVIEST_NAMED);
    let queue = |heavy: &HeavyQueue| {
        let def = heavy.queue.def();
        json!({
            "name": def.name.as_str(), "vhost": def.vhost.as_str(),
            "messages": heavy.n_messages, "message_bytes": heavy.message_bytes,
        })
    };
    let connection = |heavy: &HeavyConnection| {
        let identity = &heavy.connection.identity;
        json!({
            "name": identity.name, "user": identity.user, "recv_oct": heavy.received_bytes,
        })
    };
    json!({
        "queues": heaviest.queues.iter().map(queue).collect::<Value>(),
        "connections": heaviest.connections.iter().map(connection).collect::<Value>(),
        "sentences": heaviest.sentences(),
    })
}

/// The node's status.
pub(crate) fn status(management: &Management, _: &Request) -> Reply {
    let (node_info, limits) = (&management.node_info, management.resources.limits());
    let view = management.broker.view();
    let descriptors = management.resources.descriptors();
    let losses = management.broker.figures().losses();
    let reads = management.broker.figures().stream_reads();
    let paths = |list: &[std::path::PathBuf]| -> Vec<String> {
        list.iter().map(|path| path.display().to_string()).collect()
    };
    Ok(json!({
        "pid": std::process::id(),
        "os": "Linux",
        "uptime": node_info.uptime_seconds(),
        "is_under_maintenance": is_in_maintenance(management),
        "product_name": "Leveret",
        "product_version": node_info.version,
        "version": node_info.version,
        "rabbitmq_version": node_info.rabbitmq_version,
        "node": node_info.name,
        "data_directory": node_info.data_dir.display().to_string(),
        "config_files": paths(&node_info.config_files),
        "log_files": paths(&node_info.log_files),
        "active_plugins": [],
        "alarms": alarms(management),
        "memory": {
            "strategy": "rss",
            "total": {"rss": memory_used_bytes()},
            "messages": management.broker.figures().message_bytes(),
        },
        "vm_memory_high_watermark_setting": {"absolute": limits.memory_high_bytes()},
        "vm_memory_high_watermark_limit": limits.memory_high_bytes(),
        "disk_free_limit": limits.disk_free_bytes(),
        "disk_free": node_info.disk_free_bytes(),
        "file_descriptors": {
            "total_used": descriptors.total_used, "total_limit": descriptors.total_limit,
        },
        "file_io": file_io(&management.resources.traffic()),
        "storage": storage(management),
        "socket_writes": management.broker.connections.calls().last(),
        "stream_reads": {
            "file_reads": reads.file_reads, "file_read_bytes": reads.read_bytes,
            "chunks_read": reads.chunks, "chunks_read_ahead": reads.chunks_read_ahead,
        },
        "losses": {
            "messages": losses.of_queues.n_messages,
            "unreadable_places": losses.of_queues.n_unreadable,
            "unreadable_bytes": losses.of_queues.unreadable_bytes,
            "log_bytes_cut_off": losses.of_queues.cut_off_bytes,
            "stream_bytes_cut_off": losses.stream_cut_off_bytes,
            "closed_streams": losses.n_closed_streams,
        },
        "leftover_directories": management.broker.figures().leftovers(),
        "totals": {
            "connection_count": management.broker.connections.len(),
            "queue_count": view.meta.queues().iter().filter(|queue| !queue.is_internal()).count(),
            "virtual_host_count": view.meta.vhosts().count(),
        },
        "listeners": open_listeners(management),
    }))
}

/// Bytes read and written by kind of file, and of all.
fn file_io(traffic: &[FileTraffic]) -> Value {
    let object = |read_bytes: u64, write_bytes: u64| json!({"read_bytes": read_bytes, "write_bytes": write_bytes});
    let of = |it: &FileTraffic| (it.kind.to_owned(), object(it.read_bytes, it.write_bytes));
    let total = object(
        traffic.iter().map(|it| it.read_bytes).sum(),
        traffic.iter().map(|it| it.write_bytes).sum(),
    );
    traffic.iter().map(of).chain([("total".to_owned(), total)]).collect::<Map<_, _>>().into()
}

/// The files that messages are in, with bytes that are there and that are still needed.
fn storage(management: &Management) -> Value {
    let figures = management.broker.figures();
    let (log, (lasting, passing)) = (figures.log(), figures.pages());
    let bodies: Vec<BlobStats> = figures.bodies().into_iter().map(|(_, stats)| stats).collect();
    let object = |files: u64, bytes: u64, needed_bytes: u64| json!({"files": files, "bytes": bytes, "needed_bytes": needed_bytes});
    let of = |all: &[BlobStats]| {
        let sum = |figure: fn(&BlobStats) -> u64| all.iter().map(figure).sum();
        object(sum(|it| it.files), sum(|it| it.file_bytes), sum(|it| it.live_bytes))
    };
    json!({
        "log": object(log.segments, log.bytes, log.live_bytes),
        "pages": of(&[lasting, passing]),
        "message_store": of(&bodies),
    })
}

fn is_in_maintenance(management: &Management) -> bool {
    management.broker.connections.in_maintenance.load(Ordering::Relaxed)
}

/// The status of the cluster.
pub(crate) fn cluster_status(management: &Management, _: &Request) -> Reply {
    let view = management.cluster_view();
    let node = management.node_info.name.as_str();
    let definitions = management.broker.view();
    let name = definitions.meta.global_parameters().cluster_name();
    let of_members = |value: fn(&ClusterMember) -> Option<Value>| -> Map<String, Value> {
        let members = view.members.iter();
        members.filter_map(|member| Some((member.name.clone(), value(member)?))).collect()
    };
    let version =
        |it: &ClusterMember| Some(json!({"name": "Leveret", "version": it.version.as_ref()?}));
    Ok(json!({
        "cluster_name": name.unwrap_or_else(|| node.to_owned()),
        "cluster_tags": {},
        "disk_nodes": view.members.iter().map(|member| &member.name).collect::<Vec<_>>(),
        "running_nodes": view.running().collect::<Vec<_>>(),
        "versions": of_members(version),
        "cpu_cores": of_members(|member| member.cpu_cores.map(|cores| json!(cores))),
        "maintenance_status": of_members(|member| Some(json!(maintenance_status(member)))),
        "alarms": alarms(management),
        "partitions": {},
        "listeners": {node: open_listeners(management)},
        "feature_flags": feature_flags(),
    }))
}

/// COMPAT: RabbitMQ's words for a member's maintenance.
const fn maintenance_status(member: &ClusterMember) -> &'static str {
    if member.is_in_maintenance { "marked for maintenance" } else { "not under maintenance" }
}

/// The members, and their part in the definitions' group.
pub(crate) fn members(management: &Management, _: &Request) -> Reply {
    let object = |member: &ClusterMember| {
        json!({
            "name": member.name, "running": member.is_running,
            "membership": membership(member),
            "maintenance": maintenance_status(member), "version": member.version,
        })
    };
    Ok(management.cluster_view().members.iter().map(object).collect())
}

/// Whether the node is alone, and what would lose its quorum if it stopped. COMPAT: the definitions have the
/// name that RabbitMQ's Raft group of them has.
pub(crate) fn endangered(management: &Management) -> (bool, Vec<Value>) {
    const DEFINITIONS: &str = "rabbitmq_metadata";
    let view = management.cluster_view();
    let is_critical = view.is_quorum_critical(&management.node_info.name);
    let definitions = json!({
        "readable_name": DEFINITIONS, "name": DEFINITIONS, "virtual_host": "-", "type": "process",
    });
    (view.members.len() < 2, is_critical.then_some(definitions).into_iter().collect())
}

/// The size that the cluster has and is to have, and what peer discovery finds.
pub(crate) fn formation(management: &Management, _: &Request) -> Reply {
    let (view, (is_alone, endangered)) = (management.cluster_view(), endangered(management));
    Ok(json!({
        "is_alone": is_alone,
        "endangered": endangered,
        "running": management.running.load(Ordering::Relaxed),
        "n_running": view.running().count(),
        "target_size": view.target_size,
        "is_in_maintenance": is_in_maintenance(management),
        "has_reached_target_size": view.has_reached_target_size(),
        "discovered_peers": management.control.discovered_peers(),
    }))
}

/// Variables of the environment whose values are shown: those that name a node's own.
const OWN_VARIABLES: [&str; 2] = ["RABBITMQ_", "LEVERET_"];
/// Words in the names of variables whose values nobody is shown.
const SECRET_WORDS: [&str; 6] = ["PASS", "SECRET", "COOKIE", "TOKEN", "CREDENTIAL", "KEY"];

/// The variables of the environment that the node was started with, by name; secrets are hidden.
pub(crate) fn os_env(_: &Management, _: &Request) -> Reply {
    let own = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_secret = SECRET_WORDS.iter().any(|word| name.to_uppercase().contains(word));
        let value = if is_secret { "***".into() } else { value.to_string_lossy() };
        let is_own = OWN_VARIABLES.iter().any(|prefix| name.starts_with(prefix));
        is_own.then(|| (name, json!(value)))
    });
    Ok(Value::Object(own.collect()))
}

/// The members of the store of definitions; figures of others than this node are not known. A node in no
/// cluster is a Raft group of one: what is logged is applied.
pub(crate) fn metadata_store(management: &Management, _: &Request) -> Reply {
    let Some(standing) = management.definitions_standing() else {
        return Ok(json!([sole_member(management, management.broker.view().epoch, None)]));
    };
    let object = |member: &ClusterMember| {
        let mut row = json!({
            "Node Name": member.name, "Raft State": raft_state(member),
            "Membership": membership(member),
        });
        if let Value::Object(fields) = &mut row
            && member.name == management.node_info.name
        {
            let figures = [
                ("Last Log Index", standing.last),
                ("Last Written", standing.last),
                ("Last Applied", standing.applied),
                ("Commit Index", standing.committed),
                ("Snapshot Index", standing.image),
                ("Term", standing.term),
            ];
            fields.extend(figures.map(|(name, value)| (name.to_owned(), json!(value))));
        }
        row
    };
    Ok(management.cluster_view().members.iter().map(object).collect())
}

/// COMPAT: RabbitMQ's words; a member that cannot be asked is `noproc`.
const fn raft_state(member: &ClusterMember) -> &'static str {
    match (member.is_running, member.part) {
        (false, _) => "noproc",
        (true, MemberPart::Leader) => "leader",
        (true, MemberPart::Voter | MemberPart::Learner) => "follower",
    }
}

/// COMPAT: RabbitMQ's words: a member without a vote is on its way to one.
const fn membership(member: &ClusterMember) -> &'static str {
    match member.part {
        MemberPart::Learner => "promotable",
        MemberPart::Voter | MemberPart::Leader => "voter",
    }
}

/// The settings in force. COMPAT: by application, of which there is one.
pub(crate) fn environment(management: &Management, _: &Request) -> Reply {
    let settings = management.node_info.settings.iter();
    let settings: Map<String, Value> =
        settings.map(|(key, value)| (key.clone(), json!(value))).collect();
    Ok(json!({"rabbit": settings}))
}

/// COMPAT: names of features that tools look for; the features are always there.
const FEATURE_FLAGS: &str = "\
    classic_queue_type_delivery_support, direct_exchange_routing_v2, feature_flags_v2, \
    implicit_default_bindings, listener_records_in_ets, maintenance_mode_status, user_limits, \
    virtual_host_metadata";
/// COMPAT: features that clients of the API look for besides.
const LOOKED_FOR: &str = "detailed_queues_endpoint, khepri_db, rabbitmq_4.0.0";

/// The feature flags of the command line tool, all of which are on.
pub(crate) fn feature_flags() -> Vec<Value> {
    words(FEATURE_FLAGS).map(|name| feature_flag(name, "required")).collect()
}

fn feature_flag(name: &str, stability: &str) -> Value {
    json!({
        "name": name, "state": "enabled", "stability": stability, "provided_by": "rabbit",
        "desc": "", "doc_url": "",
    })
}

/// The flags as clients of the API see them, with those that they look for.
pub(crate) fn api_feature_flags() -> impl Iterator<Item = Value> {
    let required = words(FEATURE_FLAGS).chain(words(LOOKED_FOR)).map(|it| (it, "required", "hard"));
    required.chain([("rabbitmq_4.3.0", "stable", "soft")]).map(|(name, stability, level)| {
        let mut flag = feature_flag(name, stability);
        if let Value::Object(fields) = &mut flag {
            fields.insert("require_level".to_owned(), json!(level));
            fields.insert("experiment_level".to_owned(), json!("supported"));
            fields.insert("callbacks".to_owned(), json!([]));
        }
        flag
    })
}
