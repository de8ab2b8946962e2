//! The figures of the node at one moment.

use broker::{Alarm, Counts, PublishTotals};
use meta::QueueKind;
use mgmt::{Management, memory_used_bytes};
use std::collections::BTreeMap;

/// Everything that is told of the node as a whole.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) clients: Clients,
    pub(crate) queues: Queues,
    pub(crate) system: System,
    pub(crate) log: log::WalStats,
}

/// Connections and channels.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) n_connections: u64,
    pub(crate) n_connections_opened: u64,
    pub(crate) n_channels: u64,
    pub(crate) n_channels_opened: u64,
    /// Connections that have published.
    pub(crate) n_publishers: u64,
    pub(crate) published: PublishTotals,
}

/// Queues, all together.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) n: u64,
    pub(crate) n_ready: u64,
    pub(crate) n_unacked: u64,
    pub(crate) n_consumers: u64,
    pub(crate) n_pending_confirms: u64,
    pub(crate) n_departing: u64,
    pub(crate) n_created: u64,
    pub(crate) n_declared: u64,
    pub(crate) n_deleted: u64,
    pub(crate) counts: BTreeMap<QueueKind, Counts>,
    pub(crate) message_bytes: u64,
}

/// The machine, and what the node uses of it.
#[derive(Debug, Default)]
pub(crate) struct System {
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_limit_bytes: u64,
    pub(crate) disk_free_bytes: Option<u64>,
    pub(crate) disk_free_limit_bytes: u64,
    pub(crate) n_descriptors: Option<u64>,
    pub(crate) n_descriptors_max: u64,
    pub(crate) uptime_seconds: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) memory_alarm: bool,
    pub(crate) disk_alarm: bool,
    pub(crate) descriptor_alarm: bool,
}

impl Snapshot {
    pub(crate) fn of(management: &Management) -> Self {
        let (clients, queues) = (Clients::of(management), Queues::of(management));
        let log = management.broker.figures().log();
        Self { clients, queues, system: System::of(management), log }
    }
}

impl Clients {
    fn of(management: &Management) -> Self {
        let connections = &management.broker.connections;
        let list = connections.list();
        let (n_connections_opened, n_channels_opened) = connections.n_opened();
        let mut published = PublishTotals::default();
        connections.published().values().for_each(|of_vhost| published.add(of_vhost));
        Self {
            n_connections: list.len() as u64,
            n_connections_opened,
            n_channels: list.iter().map(|one| one.n_channels() as u64).sum(),
            n_channels_opened,
            n_publishers: list.iter().filter(|one| one.has_published()).count() as u64,
            published,
        }
    }
}

impl Queues {
    fn of(management: &Management) -> Self {
        let (broker, view) = (&management.broker, management.broker.view());
        let [n_created, n_declared, n_deleted] = broker.figures().queue_churn();
        let mut this = Self { n_created, n_declared, n_deleted, ..Self::default() };
        for queue in view.queues().filter(|queue| !queue.def().is_internal()) {
            let stat = queue.stat();
            this.n += 1;
            this.n_ready += stat.n_ready;
            this.n_unacked += stat.n_unacked;
            this.n_consumers += stat.n_consumers;
            this.n_pending_confirms += stat.n_pending_confirms;
            this.n_departing += stat.n_departing;
        }
        for ((_, kind), counts) in broker.figures().counts() {
            this.counts.entry(kind).or_default().add(&counts);
        }
        this.message_bytes = broker.figures().message_bytes();
        this
    }
}

impl System {
    fn of(management: &Management) -> Self {
        let (limits, node_info) = (management.resources.limits(), &management.node_info);
        let descriptors = management.resources.descriptors();
        let traffic = management.resources.traffic();
        let is_on = |alarm| management.broker.alarms.is_on(alarm);
        Self {
            memory_bytes: memory_used_bytes(),
            memory_limit_bytes: limits.memory_high_bytes(),
            disk_free_bytes: node_info.disk_free_bytes(),
            disk_free_limit_bytes: limits.disk_free_bytes(),
            n_descriptors: descriptors.total_used.map(|n| n as u64),
            n_descriptors_max: descriptors.total_limit,
            uptime_seconds: node_info.uptime_seconds(),
            read_bytes: traffic.iter().map(|it| it.read_bytes).sum(),
            written_bytes: traffic.iter().map(|it| it.write_bytes).sum(),
            memory_alarm: is_on(Alarm::Memory),
            disk_alarm: is_on(Alarm::Disk),
            descriptor_alarm: descriptors.is_alarm_on,
        }
    }
}
