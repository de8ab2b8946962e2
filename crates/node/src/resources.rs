//! Watches memory and disk, and sets the alarms that make publishers wait.

use crate::config::Resources;
use admission::Descriptors;
use broker::{Alarm, Broker, FileTraffic, HEAVIEST_NAMED};
use mgmt::{FileDescriptors, ResourceLimits};
use segments::{Disk as _, ReservedDisk, Scarcity};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

/// A machine whose memory cannot be read is taken to have this much.
const MEMORY_FALLBACK_BYTES: u64 = 1 << 30;

/// The node's memory and disk, watched for their limits.
#[derive(Debug)]
pub(crate) struct ResourceMonitor {
    limits: ResourceLimits,
    disk: ReservedDisk,
    descriptors: Arc<Descriptors>,
}

impl ResourceMonitor {
    pub(crate) fn new(
        resources: &Resources,
        disk: ReservedDisk,
        descriptors: Arc<Descriptors>,
    ) -> Self {
        let memory_bytes = machine_memory_bytes().unwrap_or(MEMORY_FALLBACK_BYTES);
        let (memory_high, disk_free) = (resources.memory_high, resources.disk_free);
        let limits = ResourceLimits::new(memory_bytes, memory_high, disk_free);
        Self { limits, disk, descriptors }
    }

    /// Whether the disk is short of space, and so its alarm is or has to be set.
    pub(crate) fn is_disk_short(&self) -> bool {
        self.disk.is_used()
            || self.free_bytes().is_some_and(|free| free < self.limits.disk_free_bytes())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.space().ok().map(|space| space.free_bytes)
    }

    /// Has the broker told at once when the disk has run out of something.
    pub(crate) fn watch_disk(&self, broker: &Arc<Broker>) {
        if self.disk.is_without() {
            tracing::warn!("cannot reserve disk space on this file system");
        }
        let broker = Arc::downgrade(broker);
        self.disk.watch(move |scarcity| {
            if let Some(broker) = broker.upgrade() {
                note(&broker, scarcity);
            }
        });
    }

    /// Looks at the memory once, and sets or clears its alarm.
    fn look_at_memory(&self, broker: &Broker) {
        if let Some(used) = used_memory_bytes() {
            let limit = self.limits.memory_high_bytes();
            broker.set_memory_limit(limit);
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
        let limit = self.limits.disk_free_bytes();
        if self.disk.is_used() && self.disk.refill(limit) {
            tracing::info!("disk space is reserved again");
        }
        let is_used = self.disk.is_used();
        broker.note_reserve(is_used);
        if let Some(free) = self.free_bytes() {
            let on = free < limit || is_used;
            if broker.set_alarm(Alarm::Disk, on) {
                let what = if on { "set" } else { "cleared" };
                let is = if free < limit { "below" } else { "above" };
                let kept = if is_used { ", reserved space in use" } else { "" };
                tracing::warn!(
                    "disk resource limit alarm {what}: {free} bytes free, {is} the limit of {limit}{kept}"
                );
                name_the_heaviest(broker, on);
            }
        }
    }

    /// Looks at the descriptors once, and sets or clears their alarm.
    fn look_at_descriptors(&self) {
        let opened = std::fs::File::open(self.disk.root());
        let number = opened.ok().and_then(|dir| u64::try_from(dir.as_raw_fd()).ok());
        self.descriptors.look(number);
    }
}

impl mgmt::Resources for ResourceMonitor {
    fn limits(&self) -> &ResourceLimits {
        &self.limits
    }

    fn look(&self, broker: &Broker) {
        self.look_at_memory(broker);
        self.look_at_disk(broker);
        self.look_at_descriptors();
    }

    fn descriptors(&self) -> FileDescriptors {
        // Listing the directory opens a descriptor, which is not counted.
        let used = std::fs::read_dir("/proc/self/fd").map(|list| list.count().saturating_sub(1));
        FileDescriptors {
            total_used: used.ok(),
            total_limit: self.descriptors.limit,
            is_alarm_on: self.descriptors.is_alarm_on(),
        }
    }

    fn traffic(&self) -> Vec<FileTraffic> {
        self.disk.traffic()
    }
}

/// Sets or clears the alarm of a scarcity at once, not only at the next look.
fn note(broker: &Broker, scarcity: &Scarcity<'_>) {
    match scarcity {
        Scarcity::NoSpace { file } => {
            broker.note_reserve(true);
            if broker.set_alarm(Alarm::Disk, true) {
                tracing::warn!("disk resource limit alarm set: disk full");
            }
            tracing::error!(
                "disk full while writing {file}: using the reserved space now; \
                 consume, purge or delete messages, or free disk space"
            );
        }
        Scarcity::NoDescriptors { file, error } => {
            broker.set_alarm(Alarm::Descriptors, true);
            tracing::error!("cannot open {file}, publishers are blocked until it opens: {error}");
        }
        Scarcity::Descriptors { waited } => {
            broker.set_alarm(Alarm::Descriptors, false);
            tracing::warn!("files can be opened again, after {} ms", waited.as_millis());
        }
    }
}

/// Logs the largest queues and connections when an alarm is set.
fn name_the_heaviest(broker: &Broker, on: bool) {
    if on {
        for sentence in broker.figures().heaviest(HEAVIEST_NAMED).sentences() {
            tracing::warn!("largest user at the alarm: {sentence}");
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
