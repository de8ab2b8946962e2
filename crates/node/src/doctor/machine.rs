//! Checks of the system: descriptors, memory, the time, ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt::ResourceLimits;
use net::ListenAddress;
use rustix::process::{Resource, getrlimit};

use super::{Finding, bytes};
use crate::config::Config;
use crate::resources::machine_memory_bytes;

/// A node of some size: RabbitMQ's production checklist has this number, too.
const DESCRIPTORS_WANTED: u64 = 65_536;
/// Least memory that is no warning: with less, a few clients reach the watermark.
const MEMORY_WANTED_BYTES: u64 = 128 << 20;
/// The earliest credible time: this program is younger, so a clock before it is not set. 1 January
/// 2026.
const NOT_BEFORE: Duration = Duration::from_secs(1_767_225_600);
/// Files may be newer than the clock by this much: it is moved by small steps all the time.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);
/// The file by which systemd-timesyncd says whether the time is from the network.
const TIMESYNC: &str = "/run/systemd/timesync";

pub(super) fn descriptors() -> Finding {
    // A node raises the soft limit itself.
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let what = match limit {
        u64::MAX => "file descriptors: unlimited".to_owned(),
        limit => format!("file descriptors: limit {limit}; each connection needs one"),
    };
    if limit >= DESCRIPTORS_WANTED {
        return Finding::good(what);
    }
    let mend = format!(
        "LimitNOFILE={DESCRIPTORS_WANTED} in the systemd unit, docker run --ulimit \
         nofile={DESCRIPTORS_WANTED}, or as root: ulimit -Hn {DESCRIPTORS_WANTED}"
    );
    Finding::warning(what, mend)
}

pub(super) fn memory(config: &Config) -> Vec<Finding> {
    let Some(there) = machine_memory_bytes() else {
        return vec![Finding::warning(
            "memory: /proc/meminfo cannot be read",
            "set vm_memory_high_watermark.absolute",
        )];
    };
    let resources = &config.resources;
    let limits = ResourceLimits::new(there, resources.memory_high, resources.disk_free);
    let high = limits.memory_high_bytes();
    let what = format!("memory: {}, publishers are blocked above {}", bytes(there), bytes(high));
    let mut findings = vec![if high < MEMORY_WANTED_BYTES {
        Finding::warning(what, "add memory, or raise vm_memory_high_watermark")
    } else {
        Finding::good(what)
    }];
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    if overcommit.is_ok_and(|mode| mode.trim() == "2") {
        findings.push(Finding::warning(
            "memory: overcommit is off, so allocations fail before memory is used up",
            "sysctl -w vm.overcommit_memory=0",
        ));
    }
    findings
}

pub(super) fn clock(data_dir: &Path) -> Vec<Finding> {
    let now = SystemTime::now();
    let set = "timedatectl set-ntp true, or set the clock by hand: date --set";
    if now < UNIX_EPOCH + NOT_BEFORE {
        return vec![Finding::problem("clock: set to a date before 2026", set)];
    }
    if newest(&data_dir.join("wal")).is_some_and(|newest| newest > now + CLOCK_TOLERANCE) {
        return vec![Finding::warning(
            "clock: log files are newer than the clock, which was set back; messages with a TTL live longer",
            set,
        )];
    }
    let timesync = Path::new(TIMESYNC);
    if timesync.is_dir() && !timesync.join("synchronized").exists() {
        return vec![Finding::warning("clock: not synchronized since the machine started", set)];
    }
    vec![Finding::good("clock: plausible")]
}

/// The last write of any file in the directory.
fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).max()
}

pub(super) fn ports(config: &Config, is_running: bool) -> Vec<Finding> {
    let stream = config.listeners.stream.as_deref().unwrap_or_default();
    let all: Vec<_> = config
        .listeners
        .tcp
        .iter()
        .chain(stream)
        .chain(&config.listeners.ssl)
        .chain(&config.listeners.stream_ssl)
        .collect();
    if all.is_empty() {
        return vec![Finding::good("ports: none configured")];
    }
    all.into_iter().map(|address| port(*address, is_running)).collect()
}

fn port(address: ListenAddress, is_running: bool) -> Finding {
    let bound = match address {
        ListenAddress::One(address) => TcpListener::bind(address),
        ListenAddress::Every(port) => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    };
    let number = match address {
        ListenAddress::One(address) => address.port(),
        ListenAddress::Every(port) => port,
    };
    let Err(error) = bound else { return Finding::good(format!("{address}: free")) };
    let in_use = error.kind() == std::io::ErrorKind::AddrInUse;
    if in_use && is_running {
        return Finding::good(format!("{address}: in use by a node on this data directory"));
    }
    let mend = if in_use {
        format!("find the process: ss --listening --tcp --processes 'sport = :{number}'")
    } else if error.kind() == std::io::ErrorKind::PermissionDenied {
        let allow = "net.ipv4.ip_unprivileged_port_start";
        format!("use a port from 1024, or as root: sysctl -w {allow}={number}")
    } else {
        format!("list this machine's addresses: ip address{}", other(address))
    };
    Finding::problem(format!("{address}: {error}"), mend)
}

/// Asks for the family that is missing.
fn other(address: ListenAddress) -> &'static str {
    match address {
        ListenAddress::One(SocketAddr::V6(address))
            if IpAddr::from(*address.ip()).is_loopback() =>
        {
            "; without IPv6 use 127.0.0.1"
        }
        ListenAddress::One(_) | ListenAddress::Every(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_port_in_use_is_a_problem_unless_a_node_runs() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ListenAddress::One(taken.local_addr().unwrap());
        assert_eq!(port(address, false).verdict, Verdict::Problem);
        assert_eq!(port(address, true).verdict, Verdict::Good);
        drop(taken);
        assert_eq!(port(address, false).verdict, Verdict::Good);
    }

    #[test]
    fn files_from_the_future_tell_of_a_clock_set_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(clock(dir.path()).first().unwrap().verdict, Verdict::Good);
        std::fs::create_dir(dir.path().join("wal")).unwrap();
        let file = std::fs::File::create(dir.path().join("wal/1")).unwrap();
        file.set_modified(SystemTime::now() + 2 * CLOCK_TOLERANCE).unwrap();
        assert_eq!(clock(dir.path()).first().unwrap().verdict, Verdict::Warning);
    }
}
