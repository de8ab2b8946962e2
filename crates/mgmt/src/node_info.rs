//! Facts about the node itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// The node's facts that do not change while it runs.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// The node's name, for example `rabbit@host`.
    pub name: String,
    /// The id of its cluster, which stays with the data directory.
    pub cluster_id: String,
    /// Leveret's version.
    pub version: String,
    /// The version of RabbitMQ that clients and scripts may take the node for.
    pub rabbitmq_version: String,
    /// The node's data directory.
    pub data_dir: PathBuf,
    /// The directory of files with traces.
    pub trace_dir: PathBuf,
    /// The configuration files that were read.
    pub config_files: Vec<PathBuf>,
    /// The log files that are written.
    pub log_files: Vec<PathBuf>,
    /// The listeners.
    pub listeners: Vec<ListenerInfo>,
    /// The settings in effect, by key; secrets are masked.
    pub settings: Vec<(String, String)>,
    /// The configured permits of deprecated features, by name.
    pub permits: BTreeMap<String, bool>,
    /// The time of the node's start.
    pub started: Instant,
}

/// An address that the node listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerInfo {
    /// RabbitMQ's name of the protocol, for example `amqp`.
    pub protocol: &'static str,
    /// RabbitMQ's description of the protocol, for example `AMQP 0-9-1`.
    pub purpose: String,
    /// Address and port.
    pub address: SocketAddr,
}

impl NodeInfo {
    /// Seconds since the node started.
    #[must_use]
    pub fn uptime_seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Free bytes on the disk of the data directory, if the system tells.
    #[must_use]
    pub fn disk_free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.data_dir).ok()?;
        disk.f_bavail.checked_mul(disk.f_frsize)
    }
}

/// Whether two complete names mean one node: a host's short name and its whole name are the same host.
#[must_use]
pub fn is_same_node(left: &str, right: &str) -> bool {
    let (Some((left, left_host)), Some((right, right_host))) =
        (left.split_once('@'), right.split_once('@'))
    else {
        return left == right;
    };
    let is_short_for = |short: &str, whole: &str| {
        whole.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    left == right && (is_short_for(left_host, right_host) || is_short_for(right_host, left_host))
}

/// Bytes of memory in use by this process, if the system tells.
#[must_use]
pub fn memory_used_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::is_same_node;

    #[test]
    fn short_and_whole_names_are_one_node() {
        assert!(is_same_node("rabbit@box", "rabbit@box"));
        assert!(is_same_node("rabbit@box", "rabbit@box.example.org"));
        assert!(is_same_node("rabbit@box.example.org", "rabbit@box"));
        assert!(!is_same_node("rabbit@box", "rabbit@boxes"));
        assert!(!is_same_node("rabbit@box", "hare@box"));
        assert!(!is_same_node("rabbit@box", "rabbit@localhost"));
    }

    #[test]
    fn memory_is_known() {
        assert!(super::memory_used_bytes().unwrap() > 100_000);
    }
}
