//! The data directory: whose it is, what it holds, and how its disk does.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use mgmt::ResourceLimits;
use rustix::fs::{Access, Mode, OFlags};

use super::{Finding, bytes, existing};
use crate::config::Config;

/// The disk is measured by so many writes of [`PROBE_BYTES`], each synced.
const PROBES: usize = 20;
const PROBE_BYTES: usize = 4096;
/// No further probe is begun after this.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Every confirm of a lone publisher takes this long.
const SYNC_SLOW: Duration = Duration::from_millis(20);

/// The default limit of free space and less: the node may be full before anybody has looked.
const DISK_LIMIT_LOW_BYTES: u64 = 50_000_000;

/// Types of filesystems by their numbers in statfs(2), and what is to be said of them.
const FILESYSTEMS: &[(i64, &str, &str)] = &[
    (0x0102_1994, "tmpfs", "data is lost when the machine restarts"),
    (0x794c_7630, "overlayfs", "a container's own layer: data is lost with the container"),
    (0x6969, "nfs", "fsync and locks depend on the NFS server"),
];

pub(super) fn directory(data_dir: &Path, is_running: bool) -> Vec<Finding> {
    let shown = data_dir.display();
    if is_running {
        return vec![Finding::good(format!("data directory: {shown}, in use by a running node"))];
    }
    let there = existing(data_dir);
    let writable = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = rustix::fs::access(there, writable) {
        let user = rustix::process::geteuid().as_raw();
        let mend = format!("as root: install --directory --owner={user} --mode=0750 {shown}");
        return vec![Finding::problem(
            format!("data directory: {}: {error}", there.display()),
            mend,
        )];
    }
    if there != data_dir {
        return vec![Finding::good(format!("data directory: {shown} will be created"))];
    }
    contents(data_dir).unwrap_or_else(|error| {
        vec![Finding::problem(
            format!("data directory: {shown}: {error}"),
            format!("ls -la {shown}"),
        )]
    })
}

fn contents(data_dir: &Path) -> io::Result<Vec<Finding>> {
    let shown = data_dir.display();
    let format = data_dir.join(log::FORMAT_FILE);
    if !format.exists() {
        let mut names = std::fs::read_dir(data_dir)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        return Ok(vec![match names.find(|name| !log::may_be_new(name)) {
            None => Finding::good(format!("data directory: {shown}, empty")),
            Some(name) => Finding::problem(
                format!(
                    "data directory: {shown} contains {name:?}, which is not a file of Leveret"
                ),
                "use another directory: --data-dir DIR or LEVERET_DATA_DIR",
            ),
        }]);
    }
    let known = log::FORMAT_VERSION;
    Ok(vec![match log::version_in(&std::fs::read(format)?) {
        Some(version) if version <= known => owner(data_dir)?,
        Some(version) => Finding::problem(
            format!(
                "data directory: {shown} has format {version}; this version reads up to {known}"
            ),
            "start the newer version that wrote it",
        ),
        None => Finding::problem(
            format!("data directory: {shown} has a foreign format file"),
            "use another directory: --data-dir DIR or LEVERET_DATA_DIR",
        ),
    }])
}

/// Root could start, but whoever owns the directory could not afterwards.
fn owner(data_dir: &Path) -> io::Result<Finding> {
    let (shown, owner) = (data_dir.display(), std::fs::metadata(data_dir)?.uid());
    let user = rustix::process::geteuid().as_raw();
    Ok(if owner == user {
        Finding::good(format!("data directory: {shown}, of a stopped node"))
    } else {
        Finding::warning(
            format!("data directory: {shown} belongs to user {owner}, not to this user, {user}"),
            format!(
                "run the node as the owner: setpriv --reuid={owner} --clear-groups leveret server"
            ),
        )
    })
}

pub(super) fn disk(data_dir: &Path, config: &Config) -> Vec<Finding> {
    let there = existing(data_dir);
    let mut findings = Vec::new();
    if let Ok(statfs) = rustix::fs::statfs(there) {
        let kind = FILESYSTEMS.iter().find(|(number, _, _)| *number == statfs.f_type);
        findings.extend(kind.map(|(_, name, what)| {
            Finding::warning(
                format!("disk: {} is on {name}: {what}", there.display()),
                "use a local disk or a volume: --data-dir DIR",
            )
        }));
    }
    findings.extend(free(there, config));
    findings.push(match sync_time(there) {
        Err(error) => Finding::warning(
            format!("disk: cannot measure fsync: {error}"),
            format!("check write access: touch {}", there.display()),
        ),
        Ok(time) if time > SYNC_SLOW => Finding::warning(
            format!("disk: fsync takes {} ms, and so does every confirm", time.as_millis()),
            "use a faster disk, or find other load: iostat -x 1",
        ),
        Ok(time) => Finding::good(format!("disk: fsync takes {} µs", time.as_micros())),
    });
    findings
}

fn free(there: &Path, config: &Config) -> Option<Finding> {
    let disk = rustix::fs::statvfs(there).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let memory = crate::resources::machine_memory_bytes().unwrap_or_default();
    let resources = &config.resources;
    let limits = ResourceLimits::new(memory, resources.memory_high, resources.disk_free);
    let limit = limits.disk_free_bytes();
    let what = format!("disk: {} free, publishers are blocked below {}", bytes(free), bytes(limit));
    let see = format!(
        "find the largest directories: du --max-depth=2 --one-file-system {}",
        there.display()
    );
    let raise = "set disk_free_limit.absolute, 1GB or more; see docs/sizing.md";
    Some(if free < limit {
        Finding::problem(what, see)
    } else if limit <= DISK_LIMIT_LOW_BYTES {
        Finding::warning(format!("{what}: too low for production"), raise)
    } else if free / 2 < limit {
        Finding::warning(what, see)
    } else {
        Finding::good(what)
    })
}

/// The median of some small writes, each synced, to a file without a name.
fn sync_time(dir: &Path) -> io::Result<Duration> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)?);
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < PROBES && started.elapsed() < PROBE_TIMEOUT {
        let began = Instant::now();
        io::Write::write_all(&mut &file, &[0; PROBE_BYTES])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn verdict(dir: &Path) -> (Verdict, String) {
        let finding = directory(dir, false).pop().unwrap();
        (finding.verdict, finding.what)
    }

    #[test]
    fn directories_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(verdict(&dir.path().join("a/b")).1.ends_with("a/b will be created"));
        assert!(verdict(dir.path()).1.ends_with(", empty"));
        let lost = tempfile::tempdir().unwrap();
        std::fs::write(lost.path().join("leveret-log"), "x").unwrap();
        assert_eq!(verdict(lost.path()).0, Verdict::Problem, "a node refuses it too");
        std::fs::write(dir.path().join("photo.jpg"), "x").unwrap();
        assert!(
            verdict(dir.path())
                .1
                .ends_with("contains \"photo.jpg\", which is not a file of Leveret")
        );
        for (format, expected) in [
            ("leveret 77\n", Verdict::Problem),
            ("rabbit\n", Verdict::Problem),
            ("leveret 1\n", Verdict::Good),
        ] {
            std::fs::write(dir.path().join(log::FORMAT_FILE), format).unwrap();
            assert_eq!(verdict(dir.path()).0, expected, "{format}");
        }
    }

    #[test]
    fn a_disk_below_its_limit_is_a_problem_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::standard();
        config.resources.disk_free = mgmt::Threshold::Bytes(u64::MAX);
        let findings = disk(dir.path(), &config);
        assert!(findings.iter().any(|finding| finding.verdict == Verdict::Problem), "{findings:?}");
        assert!(findings.last().unwrap().what.starts_with("disk: fsync takes "), "{findings:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    #[test]
    fn a_disk_limit_that_nobody_has_raised_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let finding = free(dir.path(), &Config::standard()).unwrap();
        assert_ne!(finding.verdict, Verdict::Good);
        let mut config = Config::standard();
        config.resources.disk_free = mgmt::Threshold::Bytes(DISK_LIMIT_LOW_BYTES + 1);
        let raised = free(dir.path(), &config).unwrap();
        assert!(!raised.what.ends_with("too low for production"), "{raised:?}");
    }
}
