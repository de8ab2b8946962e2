//! Resource alarms: while one is on, publishers wait and consumers go on.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use stdx::UnixMs;
use tokio::sync::Notify;

const MEMORY: u8 = 1;
const DISK: u8 = 2;
const DESCRIPTORS: u8 = 4;

stdx::named! {
    /// The resource an alarm is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Alarm {
        /// More memory in use than `vm_memory_high_watermark` allows.
        Memory = "memory",
        /// Less disk space free than `disk_free_limit` asks for.
        Disk = "disk",
        /// The system opens no more files for what is to be stored.
        Descriptors = "file_descriptor_limit",
    }
}

impl Alarm {
    const fn bit(self) -> u8 {
        match self {
            Self::Memory => MEMORY,
            Self::Disk => DISK,
            Self::Descriptors => DESCRIPTORS,
        }
    }
}

/// The alarms of a node.
#[derive(Debug, Default)]
pub struct Alarms {
    bits: AtomicU8,
    /// The alarms of other nodes of the cluster.
    of_others: AtomicU8,
    /// The times of day at which they came on, in the order of their bits, milliseconds.
    since_ms: [AtomicU64; 3],
    changed: Notify,
}

impl Alarms {
    /// Sets or clears an alarm; true when that changed it.
    pub fn set(&self, alarm: Alarm, on: bool) -> bool {
        let before = if on {
            self.bits.fetch_or(alarm.bit(), Ordering::SeqCst)
        } else {
            self.bits.fetch_and(!alarm.bit(), Ordering::SeqCst)
        };
        let changed = (before & alarm.bit() != 0) != on;
        if changed {
            self.changed.notify_waiters();
        }
        changed
    }

    /// Takes the alarms of other nodes of the cluster, all that are on: publishers wait for them too.
    pub fn set_of_others(&self, on: impl Iterator<Item = Alarm>) {
        let bits = on.fold(0, |bits, alarm| bits | alarm.bit());
        if self.of_others.swap(bits, Ordering::SeqCst) != bits {
            self.changed.notify_waiters();
        }
    }

    /// The alarms that publishers wait for.
    fn all(&self) -> u8 {
        self.bits.load(Ordering::Relaxed) | self.of_others.load(Ordering::Relaxed)
    }

    /// The time of day since which an alarm that is on has been, milliseconds.
    #[must_use]
    pub fn since_ms(&self, alarm: Alarm) -> Option<u64> {
        let since_ms = self.since(alarm)?.load(Ordering::Relaxed);
        (self.is_on(alarm) && since_ms > 0).then_some(since_ms)
    }

    pub(crate) fn note_since(&self, alarm: Alarm, unix_ms: UnixMs) {
        if let Some(since_ms) = self.since(alarm) {
            since_ms.store(unix_ms.get(), Ordering::Relaxed);
        }
    }

    fn since(&self, alarm: Alarm) -> Option<&AtomicU64> {
        self.since_ms.get(alarm.bit().trailing_zeros() as usize)
    }

    /// Whether any alarm is on, of this node or another.
    #[must_use]
    pub fn any(&self) -> bool {
        self.all() != 0
    }

    /// Whether this alarm of the node itself is on.
    pub fn is_on(&self, alarm: Alarm) -> bool {
        self.bits.load(Ordering::Relaxed) & alarm.bit() != 0
    }

    /// Whether who publishes to streams as such has to wait. COMPAT: with RabbitMQ memory is no reason.
    #[must_use]
    pub fn stops_streams(&self) -> bool {
        self.all() & (DISK | DESCRIPTORS) != 0
    }

    /// The reason that `connection.blocked` gives, as RabbitMQ words it; `None` without an alarm.
    pub fn reason(&self) -> Option<&'static str> {
        let bits = self.all();
        match bits & (MEMORY | DISK) {
            0 => (bits != 0).then_some("low on file descriptors"),
            MEMORY => Some("low on memory"),
            DISK => Some("low on disk"),
            _ => Some("low on memory & disk"),
        }
    }

    /// Resolves when no alarm is on.
    pub async fn cleared(&self) {
        self.until(|alarms| !alarms.any()).await;
    }

    /// Resolves when nobody has to wait who publishes to streams as such.
    pub async fn cleared_for_streams(&self) {
        self.until(|alarms| !alarms.stops_streams()).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(self) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_add_up_and_clear_one_by_one() {
        let alarms = Alarms::default();
        assert_eq!(alarms.reason(), None);
        assert!(alarms.set(Alarm::Memory, true));
        assert!(!alarms.set(Alarm::Memory, true));
        assert_eq!(alarms.reason(), Some("low on memory"));
        assert!(alarms.set(Alarm::Disk, true));
        assert_eq!(alarms.reason(), Some("low on memory & disk"));
        assert!(alarms.set(Alarm::Memory, false));
        assert_eq!(alarms.reason(), Some("low on disk"));
        assert!(alarms.any() && alarms.is_on(Alarm::Disk) && !alarms.is_on(Alarm::Memory));
        alarms.set_of_others([Alarm::Memory].into_iter());
        assert_eq!(alarms.reason(), Some("low on memory & disk"));
        assert!(!alarms.is_on(Alarm::Memory));
        alarms.set(Alarm::Disk, false);
        alarms.set_of_others(std::iter::empty());
        assert!(!alarms.any());
    }
}
