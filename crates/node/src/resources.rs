//! Watches memory and disk, and sets the alarms that make publishers wait.

use crate::config::Resources;
use broker::{Alarm, Broker, HEAVIEST_NAMED};
use mgmt::{FileDescriptors, ResourceLimits};
use net::Descriptors;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A machine whose memory cannot be read is taken to have this much.
const MEMORY_FALLBACK_BYTES: u64 = 1 << 30;

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Watch {
    limits: ResourceLimits,
    data_dir: PathBuf,
    descriptors: Arc<Descriptors>,
}

impl Watch {
    pub(crate) fn new(
        resources: &Resources,
        data_dir: &Path,
        descriptors: Arc<Descriptors>,
    ) -> Self {
        let memory_bytes = machine_memory_bytes().unwrap_or(MEMORY_FALLBACK_BYTES);
        let (memory_high, disk_free) = (resources.memory_high, resources.disk_free);
        let limits = ResourceLimits::new(memory_bytes, memory_high, disk_free);
        Self { limits, data_dir: data_dir.to_owned(), descriptors }
    }

    /// Looks at the memory once, and sets or clears its alarm.
    fn look_at_memory(&self, broker: &Broker) {
        if let Some(used) = used_memory_bytes() {
            let limit = self.limits.memory_high_bytes();
            let on = used > limit;
            if broker.set_alarm(Alarm::Memory, on) {
                let (is, what) = if on { ("above", "set") } else { ("below", "cleared") };
                tracing::warn!(
                    "memory resource limit alarm {what}: {used} bytes used, {is} the limit of {limit}"
                );
                name_the_heaviest(broker, on);
            }
        }
    }

    /// Looks at the disk once, and sets or clears its alarm.
    fn look_at_disk(&self, broker: &Broker) {
        if let Ok(disk) = rustix::fs::statvfs(&self.data_dir) {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let limit = self.limits.disk_free_bytes();
            let on = free < limit;
            if broker.set_alarm(Alarm::Disk, on) {
                let (is, what) = if on { ("below", "set") } else { ("above", "cleared") };
                tracing::warn!(
                    "disk resource limit alarm {what}: {free} bytes free, {is} the limit of {limit}"
                );
                name_the_heaviest(broker, on);
            }
        }
    }

    /// Looks at the descriptors once, and sets or clears their alarm.
    fn look_at_descriptors(&self) {
        let opened = std::fs::File::open(&self.data_dir);
        let number = opened.ok().and_then(|dir| u64::try_from(dir.as_raw_fd()).ok());
        self.descriptors.look(number);
    }
}

impl mgmt::Resources for Watch {
    fn limits(&self) -> &ResourceLimits {
        &self.limits
    }

    fn look(&self, broker: &Broker) {
        self.look_at_memory(broker);
        self.look_at_disk(broker);
        self.look_at_descriptors();
    }

    fn descriptors(&self) -> FileDescriptors {
        // One of those in the list is the list's own.
        let used = std::fs::read_dir("/proc/self/fd").map(|list| list.count().saturating_sub(1));
        FileDescriptors {
            total_used: used.ok(),
            total_limit: self.descriptors.limit(),
            is_alarm_on: self.descriptors.is_alarm_on(),
        }
    }
}

/// Says where an operator has to look when an alarm goes on.
fn name_the_heaviest(broker: &Broker, on: bool) {
    if on {
        for sentence in broker.heaviest(HEAVIEST_NAMED).sentences() {
            tracing::warn!("heaviest at the alarm: {sentence}");
        }
    }
}

/// The machine's memory, or the control group's when that is less.
pub(crate) fn machine_memory_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some((kib * 1024).min(group))
}

/// Memory of this process that is in use: its resident set.
fn used_memory_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_can_be_measured() {
        let machine = machine_memory_bytes().unwrap();
        let used = used_memory_bytes().unwrap();
        assert!(used > 0 && used < machine);
    }
}
