//! What is known about the node itself.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// What does not change while the node runs.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// For example `rabbit@host`.
    pub name: String,
    /// Leveret's version.
    pub version: String,
    /// The version of RabbitMQ that clients and scripts may take the node for.
    pub rabbitmq_version: String,
    /// Where the node keeps everything.
    pub data_dir: PathBuf,
    /// The configuration files that were read.
    pub config_files: Vec<PathBuf>,
    /// The log files that are written.
    pub log_files: Vec<PathBuf>,
    /// What is listened on.
    pub listeners: Vec<ListenerFacts>,
    /// The settings in effect, by key; secrets are masked.
    pub settings: Vec<(String, String)>,
    /// What the configuration says about deprecated features, by name.
    pub permits: BTreeMap<String, bool>,
    /// When the node started.
    pub started: Instant,
}

/// One address that is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerFacts {
    /// RabbitMQ's word, for example `amqp`.
    pub protocol: &'static str,
    /// Address and port.
    pub address: SocketAddr,
}

impl ListenerFacts {
    fn purpose(&self) -> &'static str {
        match self.protocol {
            "amqp" => "AMQP 0-9-1 and AMQP 1.0",
            "amqp/ssl" => "AMQP 0-9-1 and AMQP 1.0 over TLS",
            "http" => "HTTP API",
            other => other,
        }
    }
}

impl NodeFacts {
    /// The listeners as objects. COMPAT: an IPv6 address stands in brackets.
    pub(crate) fn listeners(&self) -> Value {
        let object = |listener: &ListenerFacts| {
            let ip = listener.address.ip();
            let interface = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
            json!({
                "node": self.name, "protocol": listener.protocol, "interface": interface,
                "port": listener.address.port(), "purpose": listener.purpose(),
            })
        };
        self.listeners.iter().map(object).collect()
    }

    pub(crate) fn uptime_seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Free bytes on the disk of the data directory, if the system tells.
    pub(crate) fn disk_free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.data_dir).ok()?;
        disk.f_bavail.checked_mul(disk.f_frsize)
    }
}

/// Bytes of memory in use by this process, if the system tells.
pub(crate) fn memory_used_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_known() {
        assert!(super::memory_used_bytes().unwrap() > 100_000);
    }
}
