//! The figures of the node at one moment.

use crate::Source;
use auth::Attempts;
use broker::{Alarm, Connection, ProtocolTotals, PublishTotals, QueueTotals};
use meta::QueueKind;
use mgmt::{Management, memory_used_bytes};
use queue_type::{Counts, QueueStat};
use session::{ProtocolKind, StreamCounts};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use store::blob::BlobStats;

/// Everything that is told of the node as a whole.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) clients: Clients,
    pub(crate) queues: Queues,
    pub(crate) system: System,
    pub(crate) log: log::WalStats,
    pub(crate) storage: Storage,
    /// Counts of the clients of the stream protocol.
    pub(crate) streams: StreamCounts,
    pub(crate) n_replies_dropped: u64,
    pub(crate) n_log_lines_dropped: u64,
    pub(crate) n_spans_dropped: Option<u64>,
    /// Members of the cluster that are not heard.
    pub(crate) n_unreachable_members: u64,
    /// Start of the node, seconds since 1970.
    pub(crate) start_seconds: u64,
}

/// Connections and channels.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) n_connections: u64,
    pub(crate) n_connections_opened: u64,
    pub(crate) n_channels: u64,
    pub(crate) n_channels_opened: u64,
    pub(crate) published: PublishTotals,
    /// The clients of each of [`ProtocolKind::COUNTED`].
    pub(crate) protocols: [OfProtocol; ProtocolKind::COUNTED.len()],
    pub(crate) logins: BTreeMap<&'static str, Attempts>,
    pub(crate) held_bytes: u64,
    pub(crate) channels: Channels,
    /// Bytes received and sent since the start, and reads and writes that they took.
    pub(crate) bytes: [u64; 2],
    pub(crate) calls: [u64; 2],
}

/// The clients of a protocol.
#[derive(Debug, Default)]
pub(crate) struct OfProtocol {
    pub(crate) totals: ProtocolTotals,
    pub(crate) n_connections: u64,
    /// Connections that have published.
    pub(crate) n_publishers: u64,
    pub(crate) n_consumers: u64,
    pub(crate) n_channels: u64,
    /// Links of publishers and consumers; clients of AMQP 1.0 alone have them.
    pub(crate) n_links: u64,
    /// Messages converted for consumers.
    pub(crate) n_converted: u64,
}

/// Channels that are open, all together.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    pub(crate) n_consumers: u64,
    pub(crate) n_unconfirmed: u64,
    pub(crate) n_uncommitted: u64,
    pub(crate) n_uncommitted_acks: u64,
    /// Sum of the channels' prefetch limits for new consumers; useful where all have the same limit.
    pub(crate) prefetch: u64,
}

impl Channels {
    fn add(&mut self, connection: &Connection) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (id, channel) in stdx::lock(&connection.channels).iter() {
            self.n_consumers += u64::from(channel.n_consumers.load(Ordering::Relaxed));
            self.n_unconfirmed += connection.n_unconfirmed(*id);
            self.n_uncommitted += read(&channel.n_uncommitted);
            self.n_uncommitted_acks += read(&channel.n_uncommitted_acks);
            self.prefetch += u64::from(channel.prefetch_count.load(Ordering::Relaxed));
        }
    }
}

/// Queues, all together.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    pub(crate) all: QueueTotals,
    pub(crate) n_created: u64,
    pub(crate) n_declared: u64,
    pub(crate) n_deleted: u64,
    pub(crate) n_annotations_dropped: u64,
    pub(crate) counts: BTreeMap<QueueKind, Counts>,
}

/// Messages in memory and on disk.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    /// Bytes of messages in memory.
    pub(crate) message_bytes: u64,
    /// Files of pages, those that survive a restart and those that do not.
    pub(crate) pages: BlobStats,
    /// Files of bodies of all virtual hosts.
    pub(crate) bodies: BlobStats,
    /// Messages and places in files that could not be read.
    pub(crate) n_lost: u64,
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
    pub(crate) fn of(source: &Source<'_>) -> Self {
        let management = source.management;
        let (clients, queues) = (Clients::of(source), Queues::look(management));
        let log = management.broker.figures().log();
        let (system, storage) = (System::of(management), Storage::of(management));
        let streams = management.client_totals.streams.counts();
        let n_replies_dropped = management.broker.figures().n_replies_dropped();
        let n_log_lines_dropped = management.log.n_dropped();
        let n_spans_dropped = management.broker.firehose().spans().map(|spans| spans.n_dropped());
        let up_s = management.node_info.uptime_seconds();
        Self {
            start_seconds: (source.now.unix_ms.get() / 1_000).saturating_sub(up_s),
            clients,
            queues,
            system,
            log,
            storage,
            streams,
            n_replies_dropped,
            n_log_lines_dropped,
            n_spans_dropped,
            n_unreachable_members: management.n_unreachable_members() as u64,
        }
    }
}

impl Clients {
    fn of(source: &Source<'_>) -> Self {
        let connections = &source.management.broker.connections;
        let list = connections.list();
        let (n_connections_opened, n_channels_opened) = connections.n_opened();
        let mut protocols = <[OfProtocol; ProtocolKind::COUNTED.len()]>::default();
        let mut published = PublishTotals::default();
        for (protocol, totals) in connections.by_protocol() {
            published.add(&totals.published);
            let of_protocol = protocols.get_mut(protocol.counted_at());
            of_protocol.into_iter().for_each(|it| it.totals.add(&totals));
        }
        let [properties, sections] = source.management.client_totals.conversions.counts();
        let of_streams = source.management.broker.figures().converted_by_streams();
        let [amqp091, amqp10, ..] = &mut protocols;
        [amqp091.n_converted, amqp10.n_converted] = of_streams;
        amqp091.n_converted += properties;
        amqp10.n_converted += sections;
        let (mut channels, mut bytes) = (Channels::default(), [0, 0]);
        for one in &list {
            let n_consumers_before = channels.n_consumers;
            channels.add(one);
            let protocol = one.identity.protocol;
            let Some(of_protocol) = protocols.get_mut(protocol.counted_at()) else { continue };
            let n_consumers = channels.n_consumers - n_consumers_before;
            of_protocol.n_connections += 1;
            of_protocol.n_channels += one.n_channels() as u64;
            of_protocol.n_publishers += u64::from(one.has_published());
            of_protocol.n_consumers += n_consumers;
            if protocol == ProtocolKind::Amqp10 {
                let n_publisher_links = one.n_publisher_links.load(Ordering::Relaxed);
                of_protocol.n_links += u64::from(n_publisher_links) + n_consumers;
            }
        }
        for of_vhost in connections.traffic().into_values() {
            bytes.iter_mut().zip(of_vhost).for_each(|(sum, n)| *sum += n);
        }
        Self {
            n_connections: list.len() as u64,
            n_connections_opened,
            n_channels: list.iter().map(|one| one.n_channels() as u64).sum(),
            n_channels_opened,
            published,
            protocols,
            logins: source.throttle.attempts(),
            held_bytes: list.iter().map(|one| one.held_bytes()).sum(),
            channels,
            bytes,
            calls: connections.calls(),
        }
    }
}

impl Queues {
    /// Counts of messages that went through the queues of a type.
    pub(crate) fn of(&self, kind: QueueKind) -> Counts {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Figures of all queues together, in the form of one queue's.
    pub(crate) fn stat(&self) -> QueueStat {
        QueueStat {
            n_ready: self.all.n_ready,
            n_unacked: self.all.n_unacked,
            n_consumers: self.all.n_consumers,
            message_bytes: self.all.message_bytes,
            counts: self.all.counts,
            ..QueueStat::default()
        }
    }

    fn look(management: &Management) -> Self {
        let figures = management.broker.figures();
        let [n_created, n_declared, n_deleted] = figures.queue_churn();
        let n_annotations_dropped = figures.n_annotations_dropped();
        let mut this =
            Self { n_created, n_declared, n_deleted, n_annotations_dropped, ..Self::default() };
        this.all.log = figures.ended_entries();
        for ((_, kind), totals) in figures.totals() {
            this.all.add(&totals);
            this.counts.entry(kind).or_default().add(&totals.counts);
        }
        this
    }
}

impl Storage {
    fn of(management: &Management) -> Self {
        let figures = management.broker.figures();
        let (lasting, passing) = figures.pages();
        let bodies = figures.bodies();
        Self {
            message_bytes: figures.message_bytes(),
            pages: sum([lasting, passing]),
            bodies: sum(bodies.into_iter().map(|(_, stats)| stats)),
            n_lost: figures.losses().of_queues.n_messages,
        }
    }
}

fn sum(stats: impl IntoIterator<Item = BlobStats>) -> BlobStats {
    stats.into_iter().fold(BlobStats::default(), |sum, it| BlobStats {
        files: sum.files + it.files,
        file_bytes: sum.file_bytes + it.file_bytes,
        live_bytes: sum.live_bytes + it.live_bytes,
        appended_bytes: sum.appended_bytes + it.appended_bytes,
        ..sum
    })
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
