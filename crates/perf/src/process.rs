//! The operating system's figures of a process: CPU time and memory, who listens on a port, how many
//! files may be open.

use std::fs;
use std::path::Path;

use anyhow::bail;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The clock tick of `/proc/PID/stat`: Linux shows 100 to programs, whatever the kernel uses.
const TICKS_PER_SECOND: f64 = 100.0;
/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// CPU time and memory used by a process and its children.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of all threads and children, ended ones included.
    pub cpu_s: f64,
    /// Memory held now.
    pub rss_bytes: u64,
    /// Bytes given to the disk; `None` if that is not to be seen, as of other users' processes.
    pub written_bytes: Option<u64>,
}

/// The use of a process and of those it started, so far; `None` if the process is gone.
pub fn usage(pid: u32) -> Option<Usage> {
    usage_of(&family(pid))
}

/// A process and those it started, the process first. Looks at every process of the machine, which takes
/// milliseconds.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let others: Vec<(u32, u32)> =
        pids().filter_map(|other| one(other).map(|(parent, _)| (other, parent))).collect();
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        at += 1;
        for (child, _) in others.iter().filter(|(_, of)| *of == parent) {
            if !family.contains(child) {
                family.push(*child);
            }
        }
    }
    family
}

/// The use of these processes together, so far; `None` if the first is gone.
pub(crate) fn usage_of(family: &[u32]) -> Option<Usage> {
    let (first, others) = family.split_first()?;
    let mut total = one(*first)?.1;
    for (_, usage) in others.iter().filter_map(|other| one(*other)) {
        total.cpu_s += usage.cpu_s;
        total.rss_bytes += usage.rss_bytes;
    }
    total.written_bytes = family.iter().map(|pid| written_bytes(*pid)).sum();
    Some(total)
}

/// Context switches, voluntary or not, of all threads of a process and of those it started; those of threads
/// that have ended are not seen any more. `None` if the process is gone.
pub fn switches(pid: u32) -> Option<u64> {
    let of = |pid: u32| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        Some(statuses.map(|status| switches_in(&status)).sum::<u64>())
    };
    let others = family(pid).into_iter().skip(1).filter_map(of).sum::<u64>();
    of(pid).map(|own| own + others)
}

fn switches_in(status: &str) -> u64 {
    let lines = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    lines.filter_map(|(_, n)| n.trim().parse::<u64>().ok()).sum()
}

/// Lets this process open as many files as the system allows it.
///
/// # Errors
/// Those are fewer than `n`.
pub fn allow_files(n: u64) -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Some(maximum) = maximum.filter(|maximum| *maximum < n) {
        bail!(
            "{n} files have to be open for so many connections, and {maximum} may: see ulimit -n"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(())
}

fn one(pid: u32) -> Option<(u32, Usage)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let (parent, cpu_s) = stat_fields(&stat)?;
    let rss_bytes = rss_bytes(&status).unwrap_or(0);
    Some((parent, Usage { cpu_s, rss_bytes, written_bytes: None }))
}

/// Parent and CPU seconds. The name, in parentheses, may itself hold spaces and parentheses.
fn stat_fields(stat: &str) -> Option<(u32, f64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    // utime, stime, and the same of children that ended.
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<f64>().unwrap_or(0.0));
    Some((parent, ticks.sum::<f64>() / TICKS_PER_SECOND))
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Bytes of pages made dirty, whether or not they have reached the disk.
fn written_bytes(pid: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
}

/// The process that listens on a TCP port of this machine, if that can be seen.
pub fn listening_on(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let inodes: Vec<String> =
        tables.iter().flatten().flat_map(|table| listening_inodes(table, port)).collect();
    pids().find(|pid| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).any(|target| {
            inodes.iter().any(|inode| target == Path::new(&format!("socket:[{inode}]")))
        })
    })
}

fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_wanted = fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == LISTENING;
        fields.get(9).filter(|_| is_wanted).map(|inode| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194560 100 0 0 0 150 50 25 25 20 0 1 0 5";
        assert_eq!(stat_fields(stat), Some((3, 2.5)));
        assert_eq!(stat_fields("7 (a"), None);
        let status = "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!(switches_in(status), 12);
        assert_eq!(rss_bytes("Name:\tx\nVmRSS:\t  2048 kB\n"), Some(2 * 1024 * 1024));
    }

    #[test]
    fn listeners_are_told_from_connections() {
        let table = "  sl  local_address rem_address   st tx rx tr tm retr uid timeout inode\n\
             0: 0100007F:1628 00000000:0000 0A 0:0 0:0 0 0 0 4242 1 0\n\
             1: 0100007F:1628 0100007F:9999 01 0:0 0:0 0 0 0 4243 1 0\n";
        assert_eq!(listening_inodes(table, 5672), ["4242"]);
        assert_eq!(listening_inodes(table, 5673), Vec::<String>::new());
    }

    #[test]
    fn this_process_is_found_by_its_port_and_uses_something() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listening_on(port), Some(std::process::id()));
        let own = usage(std::process::id()).unwrap();
        assert!(own.rss_bytes > 0 && own.written_bytes.is_some(), "{own:?}");
        assert!(switches(std::process::id()).is_some_and(|n| n > 0));
        assert_eq!((usage(u32::MAX), switches(u32::MAX)), (None, None));
    }

    #[test]
    fn files_are_allowed_up_to_the_systems_limit() {
        allow_files(1).unwrap();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        if let Some(maximum) = maximum {
            allow_files(maximum).unwrap();
            assert!(allow_files(maximum + 1).unwrap_err().to_string().contains("ulimit -n"));
        }
    }
}
