//! Alert rules and a dashboard, made from the tables: a name that no table has is in neither.

use super::{all_rows, committed};
use serde_json::{Value, json};

const RULES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring/leveret-rules.yml");
const DASHBOARD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/monitoring/leveret-dashboard.json");

/// Name, condition, time until it fires, severity, summary.
const ALERTS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "LeveretMemoryAlarm",
        "rabbitmq_alarms_memory_used_watermark == 1",
        "1m",
        "critical",
        "Publishers blocked: memory use exceeds vm_memory_high_watermark. See `leveret ctl memory_breakdown`.",
    ),
    (
        "LeveretDiskAlarm",
        "rabbitmq_alarms_free_disk_space_watermark == 1",
        "1m",
        "critical",
        "Publishers blocked: free disk space is below disk_free_limit.",
    ),
    (
        "LeveretDescriptorAlarm",
        "rabbitmq_alarms_file_descriptor_limit == 1",
        "1m",
        "critical",
        "New connections are refused: file descriptors are low. Raise the service's limit, or close connections.",
    ),
    (
        "LeveretDiskNearLimit",
        "rabbitmq_disk_space_available_bytes < 2 * rabbitmq_disk_space_available_limit_bytes",
        "10m",
        "warning",
        "Free disk space is below twice disk_free_limit. Publishers will be blocked at the limit.",
    ),
    (
        "LeveretMemoryNearLimit",
        "rabbitmq_process_resident_memory_bytes > 0.9 * rabbitmq_resident_memory_limit_bytes",
        "10m",
        "warning",
        "Memory use exceeds 90 % of vm_memory_high_watermark. Publishers will be blocked at the limit.",
    ),
    (
        "LeveretSlowSyncs",
        "histogram_quantile(0.99, rate(leveret_wal_fsync_seconds_bucket[5m])) > 0.25",
        "10m",
        "warning",
        "fsync takes more than 250 ms (p99) and delays publisher confirms.",
    ),
    (
        "LeveretMessagesLost",
        "increase(leveret_messages_lost_total[1h]) > 0",
        "0m",
        "critical",
        "Messages on disk are unreadable. The log has details; see docs/troubleshooting.md.",
    ),
    (
        "LeveretOldMessages",
        "leveret_queue_oldest_message_age_seconds > 3600",
        "10m",
        "warning",
        "A message has waited for over an hour. /metrics/detailed?family=leveret_queue_age shows its queue.",
    ),
    (
        "LeveretUnroutableMessages",
        "rate(rabbitmq_global_messages_unroutable_dropped_total[5m]) > 0",
        "10m",
        "warning",
        "Unroutable messages are dropped: no binding matches.",
    ),
    (
        "LeveretConfirmTimeouts",
        "rate(leveret_confirm_timeouts_total[5m]) > 0",
        "10m",
        "warning",
        "Publishes are rejected: no consumer acknowledged them before the confirm timeout.",
    ),
    (
        "LeveretLoginsFail",
        "rate(rabbitmq_auth_attempts_failed_total[5m]) > 1",
        "10m",
        "warning",
        "More than one failed login per second: a client has a wrong password, or passwords are being guessed.",
    ),
    (
        "LeveretConnectionChurn",
        "rate(rabbitmq_connections_opened_total[5m]) > 10",
        "10m",
        "warning",
        "More than 10 new connections per second. Use long-lived connections.",
    ),
    (
        "LeveretCertificateExpires",
        "leveret_certificate_not_after_seconds - time() < 14 * 86400",
        "1h",
        "warning",
        "A certificate expires within two weeks.",
    ),
];

/// A panel: title, unit, figures.
type Panel = (&'static str, &'static str, &'static [&'static str]);

/// Rows of panels, each with its title.
const PANELS: &[(&str, &[Panel])] = &[
    (
        "Messages",
        &[
            (
                "Published",
                "msg/s",
                &[
                    "global_messages_received_total",
                    "global_messages_confirmed_total",
                    "global_messages_routed_total",
                    "global_messages_unroutable_dropped_total",
                    "global_messages_unroutable_returned_total",
                ],
            ),
            (
                "Delivered",
                "msg/s",
                &[
                    "global_messages_delivered_total",
                    "global_messages_acknowledged_total",
                    "global_messages_redelivered_total",
                    "global_messages_get_empty_total",
                ],
            ),
            ("Queued messages", "short", &["queue_messages_ready", "queue_messages_unacked"]),
            ("Oldest message", "s", &["leveret_queue_oldest_message_age_seconds"]),
            ("Message size, p99", "bytes", &["message_size_bytes"]),
            (
                "Pending confirms and dead letters",
                "short",
                &["leveret_pending_confirms", "leveret_dead_letters_waiting"],
            ),
        ],
    ),
    (
        "Clients",
        &[
            (
                "Connections and channels",
                "short",
                &["connections", "channels", "global_consumers", "global_publishers"],
            ),
            (
                "Connections and channels opened",
                "ops",
                &["connections_opened_total", "channels_opened_total"],
            ),
            ("Logins", "ops", &["auth_attempts_succeeded_total", "auth_attempts_failed_total"]),
            ("Queues", "short", &["queues"]),
        ],
    ),
    (
        "Disk",
        &[
            ("fsync time, p99", "s", &["leveret_wal_fsync_seconds"]),
            (
                "Bytes written",
                "Bps",
                &[
                    "leveret_wal_bytes_written_total",
                    "leveret_page_bytes_written_total",
                    "io_write_bytes_total",
                ],
            ),
            ("Log size", "bytes", &["leveret_wal_needed_bytes", "leveret_wal_unsynced_bytes"]),
            (
                "Page and message store files",
                "bytes",
                &["leveret_page_file_bytes", "leveret_message_store_file_bytes"],
            ),
            ("Quorum queue log entries", "ops", &["raft_last_written_index", "raft_commit_index"]),
            (
                "Free disk space",
                "bytes",
                &["disk_space_available_bytes", "disk_space_available_limit_bytes"],
            ),
        ],
    ),
    (
        "Node",
        &[
            (
                "Memory",
                "bytes",
                &[
                    "process_resident_memory_bytes",
                    "resident_memory_limit_bytes",
                    "leveret_message_bytes",
                ],
            ),
            ("File descriptors", "short", &["process_open_fds", "process_max_fds"]),
            (
                "Alarms",
                "short",
                &[
                    "alarms_memory_used_watermark",
                    "alarms_free_disk_space_watermark",
                    "alarms_file_descriptor_limit",
                ],
            ),
            ("Uptime", "s", &["erlang_uptime_seconds"]),
        ],
    ),
];

fn full_name(name: &str) -> String {
    if name.starts_with("leveret_") { name.to_owned() } else { format!("rabbitmq_{name}") }
}

fn rules() -> String {
    let names: Vec<String> = all_rows().into_iter().map(|(name, ..)| full_name(name)).collect();
    let mut text = String::from(
        "# Generated from crates/metrics/src/tests/monitoring.rs: cargo xtask docs\ngroups:\n  - name: leveret\n    rules:\n",
    );
    for (alert, expr, wait, severity, summary) in ALERTS {
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|it| it.starts_with("rabbitmq_") || it.starts_with("leveret_")) {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            assert!(names.iter().any(|known| known == name), "{alert}: there is no {name}");
        }
        text.push_str(&format!(
            "      - alert: {alert}\n        expr: {expr}\n        for: {wait}\n        labels:\n          \
             severity: {severity}\n        annotations:\n          summary: {summary:?}\n"
        ));
    }
    text
}

fn target(name: &str) -> Value {
    let rows = all_rows();
    let known = rows.iter().find(|(known, ..)| *known == name);
    let (_, kind, _) = known.unwrap_or_else(|| panic!("there is no {name}"));
    let full = full_name(name);
    let instance = "{instance=~\"$instance\"}";
    let (expr, legend) = match *kind {
        "counter" => {
            let rate = format!("sum by (instance) (rate({full}{instance}[$__rate_interval]))");
            (rate, name.strip_suffix("_total").unwrap_or(name))
        }
        "histogram" => {
            let rate =
                format!("sum by (instance, le) (rate({full}_bucket{instance}[$__rate_interval]))");
            (format!("histogram_quantile(0.99, {rate})"), name)
        }
        _ => (format!("sum by (instance) ({full}{instance})"), name),
    };
    let legend = legend.trim_start_matches("leveret_").trim_start_matches("global_messages_");
    json!({"expr": expr, "legendFormat": format!("{{{{instance}}}} {}", legend.replace('_', " "))})
}

fn dashboard() -> String {
    const WIDTH: usize = 8;
    const HEIGHT: usize = 7;
    let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
    let mut panels: Vec<Value> = Vec::new();
    let mut y = 0;
    for (row, of_row) in PANELS {
        let place = json!({"x": 0, "y": y, "w": 3 * WIDTH, "h": 1});
        panels.push(json!({"id": panels.len() + 1, "type": "row", "title": row, "gridPos": place}));
        y += 1;
        for (at, (title, unit, names)) in of_row.iter().enumerate() {
            let (x, y) = (at % 3 * WIDTH, y + at / 3 * HEIGHT);
            let targets = names.iter().zip('A'..).map(|(name, id)| {
                let mut target = target(name);
                target["refId"] = json!(id.to_string());
                target
            });
            panels.push(json!({
                "id": panels.len() + 1, "type": "timeseries", "title": title, "datasource": datasource,
                "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "targets": targets.collect::<Vec<_>>(),
            }));
        }
        y += of_row.len().div_ceil(3) * HEIGHT;
    }
    let instance = json!({
        "name": "instance", "label": "Node", "type": "query", "datasource": datasource,
        "query": "label_values(rabbitmq_identity_info, instance)", "refresh": 2,
        "includeAll": true, "multi": true, "allValue": ".*",
    });
    let variables =
        json!([{"name": "datasource", "type": "datasource", "query": "prometheus"}, instance]);
    let board = json!({
        "uid": "leveret", "title": "Leveret", "tags": ["leveret"], "schemaVersion": 39, "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"}, "templating": {"list": variables}, "panels": panels,
    });
    serde_json::to_string_pretty(&board).unwrap() + "\n"
}

#[test]
fn the_alert_rules_are_up_to_date() {
    committed(RULES, &rules());
}

#[test]
fn the_dashboard_is_up_to_date() {
    committed(DASHBOARD, &dashboard());
}
