//! Figures of a node, for listings, `status` and alarms.

mod top_users;

pub use top_users::{HEAVIEST_NAMED, Heaviest, HeavyConnection, HeavyQueue};

use crate::broker::Broker;
use crate::connections::{Connection, Published};
use content::{PAGES_DIR, QUEUES_DIR, SWAP_DIR};
use control::View;
use log::NodeIdentity;
use message_store::VHOSTS_DIR;
use meta::{ConnectionId, Name, QueueDef, QueueKind};
use queue_type::{ConsumerView, Counts, Deaths};
use queues::{Diagnosis, QueueRef};
use quorum::LogFigures;
use segments::FileKind;
use session::ChannelId;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use store::blob::BlobStats;
use stream::{Inspection, ReadCounts, Stream};

/// The kinds of files in a data directory that has a log with the default options.
pub const FILE_KINDS: &[FileKind] = &[
    FileKind { name: "log", dir: "wal" },
    FileKind { name: "pages", dir: PAGES_DIR },
    FileKind { name: "swap", dir: SWAP_DIR },
    FileKind { name: "message_store", dir: VHOSTS_DIR },
    FileKind { name: "classic_v1", dir: QUEUES_DIR },
    FileKind { name: "streams", dir: "streams" },
];

/// Messages and places in files that could not be read since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Losses of classic and quorum queues; the lost messages include those of streams.
    pub of_queues: content::Losses,
    /// Bytes at the ends of streams' segments that were cut off.
    pub stream_cut_off_bytes: u64,
    /// Streams that are closed now, since something of them is missing.
    pub n_closed_streams: u64,
}

/// Queues, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueTotals {
    /// Queues.
    pub n: u64,
    /// Messages ready for delivery.
    pub n_ready: u64,
    /// Messages delivered and not settled.
    pub n_unacked: u64,
    /// Attached consumers.
    pub n_consumers: u64,
    /// Bytes of ready and unacked messages, envelopes included.
    pub message_bytes: u64,
    /// Publishes that are to be confirmed once they are consumed.
    pub n_pending_confirms: u64,
    /// Publishes that were refused since the node started because they waited for consumers for too long.
    pub n_confirm_timeouts: u64,
    /// Messages that are gone and still to be dead-lettered.
    pub n_departing: u64,
    /// Queues whose files are being converted.
    pub n_converting: u64,
    /// Messages that have gone through them.
    pub counts: Counts,
    /// Entries of quorum queues in the log.
    pub log: LogFigures,
    /// Figures that only streams have.
    pub streams: StreamSums,
}

/// Figures of several streams together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSums {
    /// Publishers that have declared themselves.
    pub n_publishers: u64,
    /// Subscriptions.
    pub n_subscriptions: u64,
    /// Files of chunks.
    pub n_segments: u64,
    /// Messages that the slowest subscription of all has not been given.
    pub lag_max: u64,
}

impl StreamSums {
    fn of(stream: &Stream) -> Self {
        let inspection = Inspection::of(stream);
        let (figures, subscriptions) = (inspection.figures(), inspection.subscriptions());
        let next = u64::try_from(figures.committed_offset + 1).unwrap_or(0);
        let lags = subscriptions.iter().map(|it| next.saturating_sub(it.figures.next_offset));
        Self {
            n_publishers: inspection.publishers().len() as u64,
            n_subscriptions: subscriptions.len() as u64,
            n_segments: figures.n_segments as u64,
            lag_max: lags.max().unwrap_or(0),
        }
    }

    fn add(&mut self, more: &Self) {
        self.n_publishers += more.n_publishers;
        self.n_subscriptions += more.n_subscriptions;
        self.n_segments += more.n_segments;
        self.lag_max = self.lag_max.max(more.lag_max);
    }
}

impl From<&QueueRef> for QueueTotals {
    fn from(queue: &QueueRef) -> Self {
        let stat = queue.local_stat();
        Self {
            n: 1,
            n_ready: stat.n_ready,
            n_unacked: stat.n_unacked,
            n_consumers: stat.n_consumers,
            message_bytes: stat.message_bytes,
            n_pending_confirms: stat.n_pending_confirms,
            n_confirm_timeouts: stat.n_confirm_timeouts,
            n_departing: stat.n_departing,
            n_converting: u64::from(stat.conversion.is_some()),
            counts: stat.counts,
            log: Diagnosis(queue).log_figures(),
            streams: queue.as_stream().map_or_else(StreamSums::default, |it| StreamSums::of(it)),
        }
    }
}

impl QueueTotals {
    /// Adds more of them.
    pub fn add(&mut self, more: &Self) {
        self.n += more.n;
        self.n_ready += more.n_ready;
        self.n_unacked += more.n_unacked;
        self.n_consumers += more.n_consumers;
        self.n_pending_confirms += more.n_pending_confirms;
        self.n_confirm_timeouts += more.n_confirm_timeouts;
        self.n_departing += more.n_departing;
        self.n_converting += more.n_converting;
        self.counts.add(&more.counts);
        self.log.add(&more.log);
        self.streams.add(&more.streams);
        self.message_bytes += more.message_bytes;
    }
}

/// A node as listings and `status` show it.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'b>(pub(crate) &'b Broker);

impl Broker {
    /// Its figures.
    pub const fn figures(&self) -> Figures<'_> {
        Figures(self)
    }
}

impl<'b> Figures<'b> {
    /// The node, in its present life.
    #[must_use]
    pub const fn identity(&self) -> &'b NodeIdentity {
        &self.0.start.identity
    }

    /// Directories that a start found of queues and virtual hosts that are not defined, and whose deletion is
    /// not logged: they are kept.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let bodies = self.0.classic.storage().bodies.leftovers();
        self.0.start.dirs.names().chain(bodies).collect()
    }
}

impl Figures<'_> {
    /// The node's own queues of each virtual host and type, with what those counted that are gone.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<(String, QueueKind), QueueTotals> {
        let mut totals: BTreeMap<_, QueueTotals> = BTreeMap::new();
        for (key, counts) in stdx::lock(&self.0.control_plane.churn.ended).iter() {
            totals.entry(key.clone()).or_default().counts.add(counts);
        }
        let view = self.0.view();
        // Neighbours are of one virtual host more often than not.
        let mut run: Option<(&QueueDef, QueueTotals)> = None;
        let mut end = |run: Option<(&QueueDef, QueueTotals)>| {
            let Some((def, sum)) = run else { return };
            totals.entry((def.vhost.to_string(), def.kind)).or_default().add(&sum);
        };
        let is_own =
            |queue: &&QueueRef| !queue.def().is_internal() && Diagnosis(queue).home().is_none();
        for queue in view.queues().filter(is_own) {
            let def = &**queue.def();
            let is_alike = |of: &QueueDef| of.kind == def.kind && of.vhost == def.vhost;
            if !run.as_ref().is_some_and(|(of, _)| is_alike(of)) {
                end(run.replace((def, QueueTotals::default())));
            }
            run.iter_mut().for_each(|(_, sum)| sum.add(&queue.into()));
        }
        end(run);
        totals
    }

    /// Counts of what went through queues that are gone. Who adds those that are there asks for these first.
    #[must_use]
    pub fn ended(&self) -> BTreeMap<(String, QueueKind), Counts> {
        stdx::lock(&self.0.control_plane.churn.ended).clone()
    }

    /// Queues whose figures have changed since this was asked last, or all of them the first time. Of streams
    /// nobody knows.
    #[must_use]
    pub fn used_queues(&self, view: &View) -> Vec<QueueRef> {
        let ids = self.0.classic.services.used.take();
        let used: Vec<QueueRef> = match ids {
            None => view.queues().cloned().collect(),
            Some(ids) => ids.into_iter().filter_map(|id| view.queue_by_id(id)).collect(),
        };
        used.iter().for_each(|queue| Diagnosis(queue).clear_used());
        used
    }

    /// Messages published since the node started, by virtual host, to exchanges and queues that are there.
    #[must_use]
    pub fn published(&self) -> BTreeMap<String, Published> {
        let view = self.0.view();
        self.0.connections.published_by_route(|vhost, exchange, queue| {
            let is_there = |name| view.meta.exchange(vhost, name).is_some();
            std::str::from_utf8(exchange).is_ok_and(is_there)
                && queue.is_none_or(|queue| view.queue_by_id(queue).is_some())
        })
    }

    /// Entries that quorum queues had in the log which are gone.
    #[must_use]
    pub fn ended_entries(&self) -> LogFigures {
        *stdx::lock(&self.0.control_plane.churn.ended_entries)
    }

    /// Queues created, declared by clients, and deleted since the node started.
    #[must_use]
    pub fn queue_churn(&self) -> [u64; 3] {
        let churn = &self.0.control_plane.churn;
        [&churn.n_created, &churn.n_declared, &churn.n_deleted].map(|n| n.load(Ordering::Relaxed))
    }

    /// The consumers of every queue, with their queue.
    #[must_use]
    pub fn consumers(&self) -> Vec<(QueueRef, ConsumerView)> {
        let view = self.0.view();
        let of_queue = |queue: &QueueRef| {
            let queue = queue.clone();
            let consumers = queue.local_consumers();
            consumers.into_iter().map(move |consumer| (queue.clone(), consumer))
        };
        view.queues().flat_map(of_queue).collect()
    }

    /// Bytes of messages that queues hold in memory.
    #[must_use]
    pub fn message_bytes(&self) -> u64 {
        self.0.classic.held_bytes()
    }

    /// How long the oldest publish of a channel has waited for consumers, in milliseconds; none if none
    /// waits. Takes time: it is looked for among what waits.
    #[must_use]
    pub fn oldest_unconfirmed_ms(
        &self,
        connection: &Connection,
        channel: ChannelId,
    ) -> Option<u64> {
        let publisher = connection.confirms.get()?.publisher(channel)?;
        let view = self.0.view();
        let waited_for = |queue: &&QueueRef| queue.local_stat().n_pending_confirms > 0;
        let queues = view.queues().filter(waited_for);
        let oldest_ms =
            queues.filter_map(|queue| Diagnosis(queue).pending_since_ms(&publisher)).min()?;
        Some(self.0.classic.storage().time.monotonic_ms().since(oldest_ms))
    }

    /// The log's figures.
    #[must_use]
    pub fn log(&self) -> log::WalStats {
        self.0.classic.storage().wal.stats()
    }

    /// Direct replies that were dropped since the start: their consumers had no room.
    #[must_use]
    pub fn n_replies_dropped(&self) -> u64 {
        self.0.replies.n_dropped()
    }

    /// Figures of the readers of all streams since the start.
    #[must_use]
    pub fn stream_reads(&self) -> ReadCounts {
        self.0.control_plane.streams().read_counts()
    }

    /// Figures of the files of pages: those that survive a restart, and those that do not.
    #[must_use]
    pub fn pages(&self) -> (BlobStats, BlobStats) {
        let images = &self.0.classic.storage().images;
        (images.durable.stats(), images.volatile.stats())
    }

    /// Figures of the files of bodies, by virtual host.
    #[must_use]
    pub fn bodies(&self) -> Vec<(Name, BlobStats)> {
        let stores = self.0.classic.storage().bodies.all().into_iter();
        stores.map(|(vhost, store)| (vhost, store.blobs.stats())).collect()
    }

    /// Messages that died in queues since the start.
    pub fn deaths(&self) -> &Deaths {
        &self.0.classic.storage().deaths
    }

    /// Messages settled with annotations that their queue has not kept, since the start.
    #[must_use]
    pub fn n_annotations_dropped(&self) -> u64 {
        self.0.classic.services.n_annotations_dropped.load(Ordering::Relaxed)
    }

    /// Messages since the start that streams have converted: to properties, and to sections.
    #[must_use]
    pub fn converted_by_streams(&self) -> [u64; 2] {
        self.0.control_plane.streams().conversions().counts()
    }

    /// Messages and places in files that could not be read since the start.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let mut of_queues = self.0.classic.storage().losses();
        let of_streams = self.0.control_plane.streams().losses();
        of_queues.n_messages += of_streams.n_messages;
        let n_closed_streams =
            self.0.view().streams().filter(|it| it.lack().is_some()).count() as u64;
        let stream_cut_off_bytes = of_streams.cut_off_bytes;
        Losses { of_queues, stream_cut_off_bytes, n_closed_streams }
    }

    /// How many unsettled messages each channel holds.
    #[must_use]
    pub fn unacked_by_channel(&self) -> BTreeMap<(ConnectionId, ChannelId), u64> {
        let mut held = BTreeMap::new();
        for queue in self.0.view().queues() {
            Diagnosis(queue).count_held(&mut held);
        }
        held
    }

    /// How many messages each connection holds that it has not acknowledged.
    pub(crate) fn unacked_by_connection(&self) -> BTreeMap<ConnectionId, u64> {
        let mut unacked = BTreeMap::new();
        for ((connection, _), n) in self.unacked_by_channel() {
            *unacked.entry(connection).or_default() += n;
        }
        unacked
    }
}
