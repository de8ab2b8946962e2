//! The start of a broker on data that was read.

use crate::broker::{Broker, Start};
use crate::options::BrokerOptions;
use crate::rules::{self, QueueTimersStepper};
use crate::timers::QueueTimers;
use classic::{ClassicParts, ClassicV1Stepper, WorkerHost};
use content::pager::PagerStepper;
use control::{DEFINITIONS_FILE, log_records};
use log::{Lsn, NodeIdentity, Wal, WalOptions};
use meta::{QueueId, QueueVersion};
use recovery::{Found, OpenError, QueueDirs, Replay};
use segments::{Disk, FileError, IoContext};
use std::sync::{Arc, Weak};
use stream::StreamService;

impl Broker {
    /// Starts on the data in `disk`, or anew when there is none.
    ///
    /// # Errors
    /// The disk's, or data that is damaged or of a newer version.
    pub fn open(disk: Arc<dyn Disk>, options: WalOptions) -> Result<Arc<Self>, OpenError> {
        Self::open_with(disk, options, BrokerOptions::default())
    }

    /// As [`Broker::open`], with settings.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_with(
        disk: Arc<dyn Disk>,
        options: WalOptions,
        settings: BrokerOptions,
    ) -> Result<Arc<Self>, OpenError> {
        start(Found::read(&disk, &options)?, disk, options, settings)
    }

    /// As [`Broker::open_with`], with storage whose work the caller does. For simulation.
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_stepped(
        disk: Arc<dyn Disk>,
        mut options: WalOptions,
        settings: BrokerOptions,
    ) -> Result<(Arc<Self>, Steppers), OpenError> {
        let Found { replay, log } = Found::read(&disk, &options)?;
        let before = prepare(&disk, &settings, &mut options)?;
        let (wal, mut log) = Wal::start_stepped(log, Arc::clone(&disk), options)?;
        let (broker, started) = finish(replay, before, wal, &disk, settings)?;
        if let Some(started) = started {
            log.step();
            broker.classic.storage().wal.wait_durable(started)?;
        }
        let (pager, v1) = broker.classic.steppers(&worker_host(&broker));
        let rules = QueueTimersStepper::new(&broker);
        let streams = StreamsStepper(Arc::clone(&broker));
        Ok((broker, Steppers { log, pager, v1, rules, streams }))
    }
}

/// Starts on what was read.
///
/// # Errors
/// The disk's.
pub fn start(
    found: Found,
    disk: Arc<dyn Disk>,
    mut options: WalOptions,
    settings: BrokerOptions,
) -> Result<Arc<Broker>, OpenError> {
    found.tell_of_tail();
    let before = prepare(&disk, &settings, &mut options)?;
    let wal = Wal::start(found.log, Arc::clone(&disk), options)?;
    let (broker, awaited) = finish(found.replay, before, wal, &disk, settings)?;
    if let Some(awaited) = awaited {
        broker.classic.storage().wal.wait_durable(awaited)?;
    }
    broker.classic.start_threads(&worker_host(&broker)).map_err(OpenError::Threads)?;
    broker.control_plane.streams().start_threads().map_err(OpenError::Threads)?;
    rules::start(&broker).map_err(OpenError::Threads)?;
    Ok(broker)
}

/// The work of the broker's threads, for a caller that does it step by step.
#[derive(Debug)]
pub struct Steppers {
    /// Commits of the log.
    pub log: log::Stepper,
    /// The paging of queues' content out of memory and back.
    pub pager: PagerStepper,
    /// The work of queues of version 1.
    pub v1: ClassicV1Stepper,
    /// Alarms of queues, and dead letters.
    pub rules: QueueTimersStepper,
    /// Writes and syncs of streams.
    pub streams: StreamsStepper,
}

/// The threads of streams, step by step.
#[derive(Debug)]
pub struct StreamsStepper(Arc<Broker>);

impl StreamsStepper {
    /// Does one piece of work; returns false if there is none.
    #[must_use]
    pub fn step(&self) -> bool {
        self.0.control_plane.streams().step()
    }
}

/// The broker as the workers of its classic queues know it.
fn worker_host(broker: &Arc<Broker>) -> Weak<dyn WorkerHost> {
    let host: Arc<dyn WorkerHost> = Arc::<Broker>::clone(broker);
    Arc::downgrade(&host)
}

/// Parts that the log needs before it is opened.
struct Prepared {
    parts: ClassicParts,
    timers: Arc<QueueTimers>,
    identity: NodeIdentity,
}

/// Begins the node's life, and makes the parts that the log needs.
fn prepare(
    disk: &Arc<dyn Disk>,
    options: &BrokerOptions,
    of_log: &mut WalOptions,
) -> Result<Prepared, FileError> {
    let identity = NodeIdentity::begin(disk.as_ref(), of_log.given.cluster, &options.limits.node)?;
    let parts = ClassicParts::new(disk, &options.storage, of_log, identity.number_base());
    let timers = QueueTimers::new(&parts.failure);
    of_log.before_commit = Some(Box::new(parts.before_commit()));
    Ok(Prepared { parts, timers, identity })
}

/// Assembles the broker. Also returns up to where the log must be durable before any message is delivered: it
/// says then that the last stop's cursors are void, and which version queues' files have.
fn finish(
    mut replay: Replay,
    Prepared { parts, timers, identity }: Prepared,
    wal: Wal,
    disk: &Arc<dyn Disk>,
    settings: BrokerOptions,
) -> Result<(Arc<Broker>, Option<Lsn>), OpenError> {
    if !replay.is_of_cluster() {
        meta::begin_term(&mut replay.meta, identity.boot);
    }
    let dirs = QueueDirs::list(disk.as_ref())?;
    let start = Start { was_new: replay.is_new(), options: settings, identity, dirs };
    let has_cursors = replay.has_cursors();
    // A process that was killed may have renamed the definitions without having come to this.
    disk.sync_dir("").context("sync the directory of", DEFINITIONS_FILE)?;
    let is_v1 = |id| replay.version_of(QueueId(id)) == QueueVersion::V1;
    let vhosts = replay.meta.vhosts().map(|vhost| &vhost.name);
    let host = Arc::<QueueTimers>::clone(&timers);
    let failure = parts.failure.clone();
    let classic = parts.open(wal, host, is_v1, vhosts, replay.gone.vhosts())?;
    let storage = classic.storage();
    storage.count_cut_off(replay.cut_off_bytes);
    let options = &start.options;
    let streams =
        StreamService::new(Arc::clone(disk), options.streams, options.storage.clock, &failure)?;
    let streams = Arc::new(streams);
    let homes = options.homes.clone().seen_by(start.identity.number);
    let (definitions, versions_upto) =
        replay.into_definitions(&classic, &streams, &start.dirs, homes)?;
    storage.start_freeing();
    let started = has_cursors.then(|| log_records::node::append_started(&storage.wal).upto);
    let awaited = started.max(versions_upto);
    Ok((Broker::assemble(classic, streams, timers, definitions, start), awaited))
}
