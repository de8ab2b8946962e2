//! A node's part in a cluster from start to stop: the host of its replicas, its connections, its time.

use super::formation::FormingSeat;
use super::means::PeerMeans;
use super::{components, joining};
use broker::{Broker, ReplicaParts, follow_definitions, found_cluster};
use cluster::RaftGroup;
use cluster_host::ClusterHost;
use http::PeerAnswers;
use log::{NodeNote, NodeNumber};
use meta::{ClusterAddress, Command, Name};
use net::Timers;
use peer::PeerAddress;
use segments::Disk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Interval at which what is due is looked for.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Questions of other nodes that are answered at a time.
const ANSWERS_MAX: usize = 512;
/// Interval at which a start tells what it waits for.
const TELL: Duration = Duration::from_secs(5);

/// A node's part in a cluster, or readiness to found one, while the node runs.
#[derive(Debug)]
pub(crate) struct ClusterRun {
    broker: Arc<Broker>,
    host: Arc<ClusterHost>,
    /// The address at which other nodes reach this one.
    address: PeerAddress,
    /// The seat of a node that forms a cluster first.
    forming: Option<FormingSeat>,
    /// Whether the node is to go on without the other members, and has not forgotten them yet.
    discards: AtomicBool,
    /// Whether this start of the node is being told to the cluster.
    tells_boot: AtomicBool,
    timers: Timers,
    disk: Arc<dyn Disk>,
    change_timeout_ms: u64,
    /// The answers to questions of other nodes, once there are some.
    answers: OnceLock<Weak<PeerAnswers>>,
    answer_places: Arc<Semaphore>,
    /// Whether the node serves clients without a majority.
    serves_without_quorum: bool,
}

impl ClusterRun {
    pub(super) fn new(
        broker: &Arc<Broker>,
        host: ClusterHost,
        address: PeerAddress,
        forming: Option<FormingSeat>,
        means: &PeerMeans,
    ) -> Self {
        Self {
            broker: Arc::clone(broker),
            host: Arc::new(host),
            address,
            forming,
            discards: AtomicBool::new(false),
            tells_boot: AtomicBool::new(false),
            timers: means.timers.clone(),
            disk: Arc::clone(&means.disk),
            change_timeout_ms: means.change_timeout_ms,
            answers: OnceLock::new(),
            answer_places: Arc::new(Semaphore::new(ANSWERS_MAX)),
            serves_without_quorum: means.serves_without_quorum,
        }
    }

    /// Has questions of other nodes answered from now on, as long as the answers are there.
    pub(super) fn answer_by(&self, answers: &Arc<PeerAnswers>) {
        let _is_first = self.answers.set(Arc::downgrade(answers));
    }

    /// The answers to questions of other nodes, and a place for one more.
    pub(super) fn answers(&self) -> Option<(Arc<PeerAnswers>, OwnedSemaphorePermit)> {
        let place = Arc::clone(&self.answer_places).try_acquire_owned().ok()?;
        Some((self.answers.get()?.upgrade()?, place))
    }

    /// The parts of this node's replica of the definitions.
    pub(super) fn replica_parts(&self) -> ReplicaParts {
        ReplicaParts { timeout_ms: self.change_timeout_ms, ..self.host.replica_parts() }
    }

    pub(super) const fn host(&self) -> &Arc<ClusterHost> {
        &self.host
    }

    pub(super) const fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    pub(super) const fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The seat of this node, if it forms a cluster and is not a member yet.
    pub(super) fn forming(&self) -> Option<&FormingSeat> {
        self.forming.as_ref().filter(|forming| forming.is_open())
    }

    /// Has a node that forms a cluster be the first one of it.
    pub(super) async fn formed(&self) -> anyhow::Result<()> {
        let Some(forming) = self.forming() else { return Ok(()) };
        self.found().await.map_err(anyhow::Error::msg)?;
        Ok(forming.close(self.disk.as_ref())?)
    }

    /// Whether a node is alive, as far as this one hears it.
    pub(super) fn is_alive(&self, node: u16) -> bool {
        self.host.is_alive(NodeNumber(node))
    }

    /// Whether the node is a member of a cluster, or on its way into one.
    pub(super) fn is_member(&self) -> bool {
        self.broker.control_plane.replication().is_some()
    }

    /// Resolves when a node that was removed has no vote any more, as far as this one knows.
    pub(super) async fn removed(&self, node: u16) {
        while self.host.has_replica(node) {
            self.timers.sleep(TICK).await;
        }
    }

    /// Has this node be the first one of a cluster, unless it is a member of one.
    pub(super) async fn found(&self) -> Result<(), String> {
        let plane = &self.broker.control_plane;
        if plane.replication().is_none() {
            let parts = self.replica_parts();
            found_cluster(plane, parts).map_err(|error| error.to_string())?;
            self.follow();
        }
        let me = self.broker.figures().identity();
        if self.broker.view().meta.nodes().get(me.number.0).is_none() {
            let PeerAddress { host, port } = &self.address;
            let address = ClusterAddress { host: Name::from(&**host), port: *port };
            let (no, name) = (Some(me.number.0), Name::from(&*me.name));
            let joined = Command::NodeJoined { no, name, address, token: 0 };
            let booted = Command::NodeBooted { no: me.number.0, boot: me.boot };
            for command in [joined, booted] {
                let made = self.broker.apply_definition(command).await;
                made.map_err(|error| error.to_string())?;
            }
        }
        // COMPAT: a cluster keeps the name of its first node, also when that node has left.
        if self.broker.view().meta.global_parameters().cluster_name().is_none() {
            let named = components::set_cluster_name(&self.broker, &me.name).await;
            named.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    /// Resolves when the node knows the cluster's definitions, and the cluster knows of this start of it; or
    /// when it is not to wait for that any longer.
    pub(super) async fn ready(&self) {
        if self.is_unfinished()
            && let Err(error) = self.found().await
        {
            tracing::warn!("the cluster does not know its first member yet: {error}");
        }
        let mut told = Instant::now();
        while !self.is_ready() {
            if told.elapsed() >= TELL {
                told = Instant::now();
                if self.serves_without_quorum && self.is_known() {
                    tracing::warn!("serving without a majority of the cluster: {}", self.missing());
                    return;
                }
                tracing::warn!("waiting for a majority of the cluster: {}", self.missing());
            }
            self.timers.sleep(TICK).await;
        }
    }

    /// Begins to go on without the other members: none of them is added to the group meanwhile.
    pub(super) fn begin_discarding(&self) {
        self.discards.store(true, Ordering::Release);
        self.host.hold_members(true);
    }

    /// Forgets all other members, of a node that goes on without them.
    pub(super) async fn discard(&self) -> anyhow::Result<()> {
        if !self.discards.load(Ordering::Acquire) {
            return Ok(());
        }
        let me = self.broker.figures().identity().number.0;
        let others: Vec<_> = self.broker.view().meta.nodes().iter().cloned().collect();
        for other in others.into_iter().filter(|other| other.no != me) {
            tracing::warn!("{} is forgotten with all that only it had", other.name);
            self.broker.apply_definition(Command::NodeForgotten { no: other.no }).await?;
        }
        NodeNote::Joining.remove(self.disk.as_ref())?;
        self.discards.store(false, Ordering::Release);
        self.host.hold_members(false);
        Ok(())
    }

    /// Whether this node has been stopped while it became the first one of a cluster.
    fn is_unfinished(&self) -> bool {
        let is_lone = |group: &RaftGroup| group.members().are_only(group.me());
        let replication = self.broker.control_plane.replication();
        let is_lone = replication.and_then(|it| it.inspect(|it| is_lone(it.group())));
        is_lone == Some(true) && self.broker.view().meta.nodes().is_empty()
    }

    /// Whether the definitions that are here know this node.
    fn is_known(&self) -> bool {
        let me = self.broker.figures().identity().number.0;
        self.broker.view().meta.nodes().get(me).is_some()
    }

    fn is_ready(&self) -> bool {
        let me = self.broker.figures().identity();
        let view = self.broker.view();
        let is_alone = self.broker.control_plane.replication().is_none();
        is_alone || view.meta.nodes().get(me.number.0).is_some_and(|known| known.boot == me.boot)
    }

    /// Whether a majority of the cluster runs, as far as this node knows.
    pub(super) fn is_led(&self) -> bool {
        let replication = self.broker.control_plane.replication();
        replication.and_then(|it| it.inspect(|it| it.leader().is_some())).unwrap_or_default()
    }

    /// The nodes that are not heard, for the operator.
    pub(super) fn missing(&self) -> String {
        let view = self.broker.view();
        let me = self.broker.figures().identity().number.0;
        let others = view.meta.nodes().iter().filter(|node| node.no != me);
        let names: Vec<&str> =
            others.filter(|node| !self.is_alive(node.no)).map(|node| &*node.name).collect();
        if names.is_empty() { "no leader yet".to_owned() } else { names.join(", ") + " are down" }
    }

    /// Carries out what the replica of the definitions leaves to do, from now on.
    pub(super) fn follow(&self) {
        self.host.begin();
        let broker = Arc::clone(&self.broker);
        tokio::spawn(async move { follow_definitions(&broker).await });
    }

    /// Tells the cluster of this start of the node, unless that is under way.
    pub(super) fn tell_boot(self: &Arc<Self>, command: Command) {
        if !self.tells_boot.swap(true, Ordering::AcqRel) {
            let run = Arc::clone(self);
            tokio::spawn(async move {
                match run.broker.apply_definition(command).await {
                    Ok(_) if run.discards.load(Ordering::Acquire) => {}
                    Ok(_) => joining::forget_note(run.disk.as_ref()),
                    Err(error) => tracing::warn!("the cluster is not told of this start: {error}"),
                }
                run.tells_boot.store(false, Ordering::Release);
            });
        }
    }
}
