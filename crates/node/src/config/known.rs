//! Keys that exist in RabbitMQ, and the nearest name to one that does not.

use super::{options, tls};
use stdx::{edit_distance, words};

const LIST: &str = include_str!("known-keys.txt");

/// Keys that have nothing to set here, and the reason: what they begin with.
pub(super) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "management.rates_mode, management_agent.disable_metrics_collector",
        "statistics use counters that are always on",
    ),
    (
        "management.db_cache_multiplier, management.delegate_count",
        "responses are computed from memory, without a cache",
    ),
    (
        "management.sample_retention_policies.",
        "sample retention is fixed: ten minutes, an hour at a lower rate, a day for totals",
    ),
    (
        "management_agent.filter_aggregated_queue_metrics_pattern, \
         prometheus.filter_aggregated_queue_metrics_pattern",
        "totals include all queues, as in current RabbitMQ",
    ),
    ("management.require_auth_for_api_reference", "this page does not exist"),
    (
        "management.ssl.inactivity_timeout, management.ssl.shutdown_timeout, \
         management.tcp.inactivity_timeout, management.tcp.shutdown_timeout, \
         prometheus.ssl.inactivity_timeout, prometheus.ssl.shutdown_timeout, \
         prometheus.tcp.inactivity_timeout, prometheus.tcp.shutdown_timeout, \
         management.listener.server.inactivity_timeout, management.listener.server.shutdown_timeout",
        "`request_timeout` and `idle_timeout` close connections",
    ),
    (
        "management.oauth_",
        "OAuth 2 is not supported yet: users log in with name and password, or not at all with \
         `management.disable_basic_auth = true`",
    ),
    (
        "management.credential_encryption_secret",
        "cookies are random numbers and contain no password",
    ),
    (
        "quorum_queue.compute_checksums, quorum_queue.segment_compute_checksums, \
         quorum_queue.wal_compute_checksums",
        "quorum queues are kept in the node's log, which always has checksums",
    ),
    (
        "quorum_queue.compress_mem_tables, quorum_queue.segment_max_, \
         quorum_queue.snapshot_chunk_size, quorum_queue.wal_max_, raft.segment_max_entries, \
         raft.snapshot_chunk_size, raft.wal_",
        "quorum queues are kept in the node's log: with segments of 16 MiB, group commit, and snapshots as \
         a queue's log grows",
    ),
    ("raft.data_dir", "everything is in the data directory"),
    (
        "quorum_queue.commands_soft_limit",
        "flow control works without credit settings: publishers slow down to the pace of queues and disk",
    ),
    (
        "quorum_queue.continuous_membership_reconciliation., quorum_queue.initial_cluster_size, \
         quorum_queue.max_append_entries_rpc_batch_size, quorum_queue.member_placement_tag",
        "quorum queues have one member, on this node",
    ),
    (
        "cluster_partition_handling, cluster_partition_handling.pause_if_all_down.",
        "nodes agree on definitions by majority, as with Khepri in RabbitMQ 4.4: there are no partition \
         strategies",
    ),
    (
        "cluster_keepalive_interval, net_ticktime, raft.adaptive_failure_detector.",
        "nodes judge each other by pulses, sent five times a second, and by how regularly these come",
    ),
    (
        "distribution.listener.port_range.max",
        "there is no epmd: a node listens on `distribution.listener.port_range.min`, or not at all",
    ),
    (
        "ssl_options.cert, ssl_options.key.",
        "certificates and keys are only read from files: `ssl_options.certfile`, `ssl_options.keyfile`",
    ),
    (
        "ssl_options.client_renegotiation, ssl_options.secure_renegotiate, \
         ssl_allow_poodle_attack",
        "renegotiation and versions before TLS 1.2 are not supported",
    ),
    (
        "ssl_options.dh, ssl_options.dhfile, ssl_options.honor_ecc_order, ssl_options.psk_identity",
        "key exchange uses elliptic curves, in the node's order",
    ),
    (
        "ssl_options.log_alert, ssl_options.log_level",
        "failed handshakes are always logged in one line",
    ),
    ("ssl_options.bypass_pem_cache", "files are reloaded when they change"),
    (
        "stream.ssl_cert_login",
        "clients can use the mechanism `EXTERNAL` if `auth_mechanisms` lists it",
    ),
    (
        "consumer_disconnected_timeout",
        "consumers are connected to this node: their unacknowledged messages are requeued as soon as the \
         connection closes",
    ),
];

/// Whether `start` is the key, or its beginning up to a dot or an underscore.
fn covers(start: &str, key: &str) -> bool {
    key == start || start.ends_with(['.', '_']) && key.starts_with(start)
}

/// The reason why a key has no effect, if it has none.
pub(super) fn without_effect(key: &str) -> Option<&'static str> {
    let own = tls::OWN.iter().find_map(|own| key.strip_prefix(own));
    let shared = own.map_or_else(|| key.to_owned(), |rest| format!("{}{rest}", tls::SHARED));
    let begins = |(starts, _): &&(&str, &str)| {
        words(starts).any(|start| covers(start, key) || covers(start, &shared))
    };
    WITHOUT_EFFECT.iter().find(begins).map(|(_, why)| *why)
}

fn known_keys() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.starts_with('#'))
}

/// Whether RabbitMQ has this key.
pub(super) fn is_known(key: &[String]) -> bool {
    known_keys().any(|pattern| {
        let mut segments = pattern.split('.');
        let all = key.iter().all(|part| {
            segments.next().is_some_and(|segment| segment.starts_with('$') || segment == part)
        });
        all && segments.next().is_none()
    })
}

/// The known key most like `key`; of equally near ones the first that Leveret acts on.
pub(super) fn nearest(key: &[String]) -> String {
    let wanted = key.join(".");
    options::all()
        .flat_map(|option| [Some(option.key()), option.alias])
        .flatten()
        .chain(known_keys())
        .map(|pattern| with_names_of(pattern, key))
        .min_by_key(|candidate| edit_distance(candidate, &wanted))
        .unwrap_or_default()
}

/// The pattern with its free segments taken from `key` where `key` has them.
fn with_names_of(pattern: &str, key: &[String]) -> String {
    let segments: Vec<&str> = pattern
        .split('.')
        .enumerate()
        .map(|(at, segment)| match key.get(at) {
            Some(given) if segment.starts_with('$') => given,
            Some(_) | None => segment,
        })
        .collect();
    segments.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::lookup;

    fn key(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn keys_without_effect_are_known_ones_that_are_not_declared() {
        for start in WITHOUT_EFFECT.iter().flat_map(|(starts, _)| words(starts)) {
            let keys: Vec<&str> = known_keys().filter(|key| covers(start, key)).collect();
            assert!(!keys.is_empty(), "{start}");
            for declared in options::all() {
                assert!(!keys.contains(&declared.key()), "{}", declared.key());
            }
        }
        let whole = ["http_dispatch.", "management", "prometheus.", "quorum_queue.", "raft."];
        let is_left = |key: &&str| whole.iter().any(|start| key.starts_with(start));
        let is_silent =
            |at: &&str| without_effect(at).is_none() && lookup::find(&key(at)).is_none();
        let left: Vec<&str> = known_keys().filter(is_left).filter(is_silent).collect();
        assert_eq!(left, [""; 0]);
    }

    #[test]
    fn the_list_is_sorted_and_complete() {
        let keys: Vec<&str> = known_keys().collect();
        assert_eq!(keys.len(), 1_111);
        assert!(keys.is_sorted());
    }

    #[test]
    fn every_option_but_our_own_is_a_rabbitmq_key() {
        let ours = [
            "amqp091.immediate",
            "backlog_memory",
            "cluster.serve_without_quorum",
            "cluster.tls.cacertfile",
            "cluster.tls.certfile",
            "cluster.tls.keyfile",
            "cluster.tls.password",
            "durability",
            "management.enabled",
            "management.message_access",
            "management.ui.color",
            "management.ui.label",
            "management.undo_window",
            "otel.endpoint",
            "otel.interval",
            "otel.sample_new",
            "prometheus.enabled",
            "queue_index_max_journal_entries",
            "ssl_options.sni.$name.certfile",
            "ssl_options.sni.$name.keyfile",
            "stream.durability",
            "stream.scrub_interval",
            "trace_files.directory",
            // Of RabbitMQ's other configuration file, there.
            "rabbit.default_consumer_prefetch",
            "rabbit.default_consumer_prefetch_of_channel",
            "track_auth_attempt_source",
        ];
        for option in options::all().filter(|option| !ours.contains(&option.key())) {
            for name in [Some(option.key()), option.alias].into_iter().flatten() {
                // RabbitMQ lists the types.
                assert!(is_known(&key(&name.replace("$type", "classic"))), "{name}");
            }
        }
    }

    #[test]
    fn free_segments_match_any_name() {
        assert!(is_known(&key("listeners.ssl.default")));
        assert!(is_known(&key("auth_backends.1.authn")));
        assert!(is_known(&key("ssl_options.certfile")));
        assert!(!is_known(&key("auth_backends.1.author")));
        assert!(!is_known(&key("listeners")));
        assert!(!is_known(&key("listeners.ssl.default.more")));
    }

    #[test]
    fn the_nearest_name_is_found() {
        for (wrong, right) in [
            ("heartbeet", "heartbeat"),
            ("listener.tcp.default", "listeners.tcp.default"),
            ("disk_free_limit.absolut", "disk_free_limit.absolute"),
            ("maxconnections", "max_connections"),
            ("ssl_options.cert_file", "ssl_options.certfile"),
        ] {
            assert_eq!(nearest(&key(wrong)), right);
        }
    }
}
