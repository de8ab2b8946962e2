//! `status`, its parts, and `cluster_status`.

use super::health::{alarm_lines, interface_lines};
use crate::failure::{Failure, code};
use crate::fields::{items, texts};
use crate::output::{Answer, Format, emphasised, shows_bold};
use crate::units::UNITS;
use crate::verb::Invocation;
use serde_json::{Value, json};

/// Sections with a heading each; the headings are bold on a terminal.
struct Report {
    lines: Vec<String>,
    bold: bool,
}

impl Report {
    fn new() -> Self {
        Self { lines: Vec::new(), bold: shows_bold() }
    }

    /// Adds a section. COMPAT: a heading is followed by an empty line, and preceded by one unless it is the
    /// first.
    fn section(&mut self, title: &str, lines: impl IntoIterator<Item = String>) {
        let gap = if self.lines.is_empty() { "" } else { "\n" };
        self.lines.push(format!("{gap}{}\n", emphasised(title, self.bold)));
        self.lines.extend(lines);
    }

    fn or_none(&mut self, title: &str, lines: Vec<String>) {
        let none = lines.is_empty().then(|| "(none)".to_owned());
        self.section(title, lines.into_iter().chain(none));
    }

    fn answer(self) -> Answer {
        Answer::Text(self.lines.join("\n"))
    }
}

fn text(value: &Value, name: &str) -> String {
    match value.pointer(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn bullets(status: &Value, name: &str) -> Vec<String> {
    texts(status, name).map(|item| format!(" * {item}")).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn status(invocation: &Invocation, status: Value) -> Result<Answer, Failure> {
    let unit = invocation.text("unit").unwrap_or("gb");
    let mut report = Report::new();
    let version = text(&status, "/version");
    report.section(
        "Runtime",
        [
            format!("OS PID: {}", text(&status, "/pid")),
            format!("OS: {}", text(&status, "/os")),
            format!("Uptime (seconds): {}", text(&status, "/uptime")),
            format!(
                "Is under maintenance?: {}",
                status.get("is_under_maintenance").and_then(Value::as_bool).unwrap_or_default()
            ),
            format!("Product name: {}", text(&status, "/product_name")),
            format!("Product version: {version}"),
            format!("RabbitMQ version: {}", text(&status, "/rabbitmq_version")),
            format!("Node name: {}", text(&status, "/node")),
        ],
    );
    report.section(
        "Data directory",
        [format!("Node data directory: {}", text(&status, "/data_directory"))],
    );
    report.section("Config files", bullets(&status, "config_files"));
    report.section("Log file(s)", bullets(&status, "log_files"));
    report.or_none("Alarms", alarm_lines(status.get("alarms").unwrap_or(&Value::Null)));
    report.section("Memory", memory_lines(&status, unit));
    report.section(
        "File Descriptors",
        [format!(
            "Total: {}, limit: {}",
            text(&status, "/file_descriptors/total_used"),
            text(&status, "/file_descriptors/total_limit")
        )],
    );
    report.section(
        "Free Disk Space",
        [
            format!("Low free disk space watermark: {}", size(status.get("disk_free_limit"), unit)),
            format!("Free disk space: {}", size(status.get("disk_free"), unit)),
        ],
    );
    let io = file_io_lines(&status, unit);
    if !io.is_empty() {
        report.section("Disk I/O since the start", io);
    }
    let losses = loss_lines(&status);
    if !losses.is_empty() {
        report.section("Data loss since the start", losses);
    }
    report.section(
        "Totals",
        [
            format!("Connection count: {}", text(&status, "/totals/connection_count")),
            format!("Queue count: {}", text(&status, "/totals/queue_count")),
            format!("Virtual host count: {}", text(&status, "/totals/virtual_host_count")),
        ],
    );
    let listeners = status.get("listeners").unwrap_or(&Value::Null);
    report.or_none("Listeners", interface_lines(listeners, "I"));
    Ok(report.answer())
}

/// Bytes read and written by kind of file; no lines where the node does not tell.
fn file_io_lines(status: &Value, unit: &str) -> Vec<String> {
    let kinds = [
        ("log", "Log"),
        ("pages", "Pages"),
        ("swap", "Swap"),
        ("message_store", "Message store"),
        ("classic_v1", "Classic queues of version 1"),
        ("streams", "Streams"),
        ("other", "Other files"),
        ("total", "Total"),
    ];
    let line = |(name, title): (&str, &str)| {
        let io = status.get("file_io")?.get(name)?;
        let [read, written] = ["read_bytes", "write_bytes"].map(|name| size(io.get(name), unit));
        Some(format!("{title}: read {read}, written {written}"))
    };
    kinds.into_iter().filter_map(line).collect()
}

/// Counts of data that could not be read; no lines where all was.
fn loss_lines(status: &Value) -> Vec<String> {
    let count = |name: &str| {
        status.pointer("/losses").and_then(|losses| losses.get(name)?.as_u64()).unwrap_or_default()
    };
    let (n_places, n_bytes) = (count("unreadable_places"), count("unreadable_bytes"));
    let places = format!("{n_places} of {n_bytes} bytes");
    [
        (count("messages"), "Lost messages", count("messages").to_string()),
        (n_places, "Unreadable blocks of version 1 queues", places),
        (count("log_bytes_cut_off"), "Truncated log bytes", count("log_bytes_cut_off").to_string()),
        (
            count("stream_bytes_cut_off"),
            "Truncated stream bytes",
            count("stream_bytes_cut_off").to_string(),
        ),
        (
            count("closed_streams"),
            "Closed streams (missing or damaged files)",
            count("closed_streams").to_string(),
        ),
    ]
    .into_iter()
    .filter(|(n, ..)| *n > 0)
    .map(|(_, what, text)| format!("{what}: {text}"))
    .chain(
        texts(status, "leftover_directories")
            .map(|dir| format!("Kept, of nothing that is defined: {dir}")),
    )
    .collect()
}

/// The places that lines of the log go to. COMPAT: without `--all` the first.
pub(crate) fn log_location(invocation: &Invocation, status: Value) -> Result<Answer, Failure> {
    let n = if invocation.flag("all") { usize::MAX } else { 1 };
    let places: Vec<&str> = texts(&status, "log_files").take(n).collect();
    if places.is_empty() {
        return Err(Failure::error(code::DATA, "No log files configured on the node"));
    }
    if invocation.format == Format::Json {
        let node = text(&status, "/node");
        return Ok(Answer::Object(json!({"result": "ok", "node_name": node, "paths": places})));
    }
    Ok(Answer::Text(places.join("\n")))
}

/// Messages, and everything else, the larger first; bytes and percent. COMPAT: RabbitMQ's words for parts.
#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn memory_breakdown(invocation: &Invocation, status: Value) -> Result<Answer, Failure> {
    let bytes = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    let (total, messages) = (bytes("/memory/total/rss"), bytes("/memory/messages"));
    let mut parts =
        [("other_proc", total.saturating_sub(messages)), ("queue_procs", messages.min(total))];
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let percent = |bytes: u64| (bytes as f64 / total.max(1) as f64 * 1e4).round() / 1e2;
    if invocation.format == Format::Json {
        let part = |(name, bytes): (&str, u64)| {
            (name.to_owned(), json!({"bytes": bytes, "percentage": percent(bytes)}))
        };
        return Ok(Answer::Object(parts.into_iter().map(part).collect()));
    }
    let unit = invocation.text("unit").unwrap_or("gb");
    let line = |(name, bytes): (&str, u64)| {
        format!("{name}: {} ({:?}%)", size(Some(&json!(bytes)), unit), percent(bytes))
    };
    Ok(Answer::Text(parts.map(line).join("\n")))
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn os_env(invocation: &Invocation, answer: Value) -> Result<Answer, Failure> {
    let node = invocation.node();
    if invocation.format == Format::Json {
        let told = json!({"result": "ok", "node": node, "variables": answer});
        return Ok(Answer::Object(told));
    }
    let variables = answer.as_object().into_iter().flatten();
    let lines: Vec<String> = variables
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    if lines.is_empty() {
        let text = format!("Node {node} reported no relevant environment variables.");
        return Ok(Answer::Text(text));
    }
    Ok(Answer::Text(lines.join("\n")))
}

fn memory_lines(status: &Value, unit: &str) -> Vec<String> {
    vec![
        format!("Total memory used: {}", size(status.pointer("/memory/total/rss"), unit)),
        "Calculation strategy: rss".to_owned(),
        format!(
            "Memory high watermark setting: {}, computed to: {}",
            watermark(status, unit),
            size(status.get("vm_memory_high_watermark_limit"), unit)
        ),
    ]
}

/// The memory watermark as configured: a share of the available memory, or an amount.
fn watermark(status: &Value, unit: &str) -> String {
    match status.pointer("/vm_memory_high_watermark_setting/relative") {
        Some(share) => format!("{share} of available memory"),
        None => size(status.pointer("/vm_memory_high_watermark_setting/absolute"), unit),
    }
}

/// A size in the unit, with one to four decimals as Erlang writes floats.
fn size(bytes: Option<&Value>, unit: &str) -> String {
    let Some(bytes) = bytes.and_then(Value::as_f64) else {
        return "(not available)".to_owned();
    };
    let found = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let divisor = found.map_or(1.0, |&(_, divisor)| divisor);
    if divisor <= 1.0 {
        return format!("{bytes} {unit}");
    }
    format!("{:?} {unit}", (bytes / divisor * 1e4).round() / 1e4)
}

#[expect(clippy::unnecessary_wraps, reason = "one of many functions of this type")]
pub(crate) fn cluster_status(_: &Invocation, status: Value) -> Result<Answer, Failure> {
    let names = |field: &str| -> Vec<String> { texts(&status, field).map(str::to_owned).collect() };
    let by_node = |field: &str| -> Vec<(String, Value)> {
        let map = status.get(field).and_then(Value::as_object);
        map.into_iter().flatten().map(|(node, value)| (node.clone(), value.clone())).collect()
    };
    let cores = by_node("cpu_cores");
    let n_cores: u64 = cores.iter().filter_map(|(_, cores)| cores.as_u64()).sum();
    let mut report = Report::new();
    report.section(
        "Basics",
        [
            format!("Cluster name: {}", text(&status, "/cluster_name")),
            format!("Total CPU cores available cluster-wide: {n_cores}"),
        ],
    );
    let tags = by_node("cluster_tags");
    report.or_none(
        "Cluster Tags",
        tags.iter().map(|(tag, value)| format!("{tag}: {}", text(value, ""))).collect(),
    );
    report.section("Disk Nodes", names("disk_nodes"));
    report.section("Running Nodes", names("running_nodes"));
    report.section(
        "Versions",
        by_node("versions").iter().map(|(node, version)| {
            format!("{node}: {} {}", text(version, "/name"), text(version, "/version"))
        }),
    );
    report.section(
        "CPU Cores",
        cores.iter().map(|(node, cores)| format!("Node: {node}, available CPU cores: {cores}")),
    );
    report.section(
        "Maintenance status",
        by_node("maintenance_status")
            .iter()
            .map(|(node, state)| format!("Node: {node}, status: {}", text(state, ""))),
    );
    report.or_none("Alarms", alarm_lines(status.get("alarms").unwrap_or(&Value::Null)));
    report.or_none("Network Partitions", Vec::new());
    let listeners = by_node("listeners");
    report.or_none(
        "Listeners",
        listeners
            .iter()
            .flat_map(|(node, list)| interface_lines(list, &format!("Node: {node}, i")))
            .collect(),
    );
    let flag =
        |flag: &Value| format!("Flag: {}, state: {}", text(flag, "/name"), text(flag, "/state"));
    report.or_none("Feature flags", items(&status, "feature_flags").map(flag).collect());
    Ok(report.answer())
}
