//! A node's part in a cluster from start to stop: the host of its replicas, its connections, its time.

use super::components;
use super::joining::{self, PeerMeans};
use super::peers::DistributionPort;
use anyhow::Context as _;
use broker::{
    Alarm, Broker, ControlPlane, awaits_cluster, follow_definitions, found_cluster, join_cluster,
    resume_cluster,
};
use cluster_host::{ClusterHost, HostClock, HostTick};
use forming::JoinedCluster;
use log::NodeNumber;
use member::{MemberEvent, Membership, MembershipOptions, PeerConnection, PeerInput, PulseHealth};
use meta::{ClusterAddress, Command, Name};
use net::peer::{PeerHandler, PeerService, PeerServiceOptions, PeerTunnel};
use net::{Server, Timers};
use peer::{LinkLimits, PeerAddress, PeerHello, PulseAlarms, SpokenRange};
use segments::Disk;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The levels of a cluster's commands and formats that this version supports.
pub(super) const LEVELS: SpokenRange = SpokenRange { min: 0, max: 0 };
/// The limits of a link to another node.
const LINK_LIMITS: LinkLimits = LinkLimits { room_bytes: 8 << 20, bytes_max: 256 << 20 };
/// Interval at which what is due is looked for.
const TICK: Duration = Duration::from_millis(50);
/// Interval at which a start tells what it waits for.
const TELL: Duration = Duration::from_secs(5);

/// A node's part in a cluster, or readiness to found one, while the node runs.
#[derive(Debug)]
pub(crate) struct ClusterRun {
    broker: Arc<Broker>,
    host: Arc<ClusterHost>,
    /// The address at which other nodes reach this one.
    address: PeerAddress,
    /// Whether this start of the node is being told to the cluster.
    tells_boot: AtomicBool,
    timers: Timers,
    disk: Arc<dyn Disk>,
}

impl ClusterRun {
    /// Begins to serve other nodes. A node that is a member takes its seat again; one that was added to a
    /// cluster, which `joined` tells, learns the definitions.
    pub(super) fn start(
        port: DistributionPort,
        joined: Option<&JoinedCluster>,
        broker: &Arc<Broker>,
        server: &Server,
        means: &PeerMeans,
    ) -> anyhow::Result<(Arc<Self>, PeerService)> {
        let (listener, transport) = port.into_parts(&means.timers);
        let me = broker.figures().identity().clone();
        let listens_on = listener.local_addr().context("cannot tell the distribution port")?;
        tracing::info!("listening for other nodes on {listens_on}");
        let address = joining::address_of(&me.name, listens_on.port());
        let membership = Arc::new(Membership::new(MembershipOptions {
            me,
            levels: LEVELS,
            limits: LINK_LIMITS,
        }));
        let (images, to_write) = mpsc::channel();
        let clock = HostClock {
            now: || components::clock().now(),
            random: || RandomState::new().hash_one(()),
        };
        let plane = Arc::clone(broker.control_plane());
        let host = ClusterHost::new(Arc::clone(&membership), plane, clock, images);
        let run = Arc::new(Self {
            broker: Arc::clone(broker),
            host: Arc::new(host),
            address,
            tells_boot: AtomicBool::new(false),
            timers: means.timers.clone(),
            disk: Arc::clone(&means.disk),
        });
        write_images(Arc::clone(broker.control_plane()), to_write)?;
        if awaits_cluster(broker.control_plane()) {
            resume_cluster(broker.control_plane(), run.host.replica_parts())?;
            run.follow();
        } else if let Some(joined) = joined {
            for member in &joined.members {
                let peer = (member.number, 0);
                let now = components::clock().now().monotonic_ms;
                membership.set_member(peer, &member.name, member.address.clone(), now);
            }
            join_cluster(broker.control_plane(), run.host.replica_parts())?;
            run.follow();
        }
        let admission = server.admission();
        let options = PeerServiceOptions { listener: Some(listener), transport, admission };
        let handler = Arc::new(PeerHost(Arc::clone(&run)));
        let service =
            PeerService::start(options, membership, handler).context("cannot start threads")?;
        tokio::spawn(keep_time(Arc::clone(&run), service.members_changed()));
        Ok((run, service))
    }

    pub(super) const fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    pub(super) const fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Whether a node is alive, as far as this one hears it.
    pub(super) fn is_alive(&self, node: u16) -> bool {
        self.host.is_alive(NodeNumber(node))
    }

    /// Whether the node is a member of a cluster, or on its way into one.
    pub(super) fn is_member(&self) -> bool {
        self.broker.control_plane().replication().is_some()
    }

    /// Has this node be the first one of a cluster, unless it is a member of one.
    pub(super) async fn found(&self) -> Result<(), String> {
        let plane = self.broker.control_plane();
        if plane.replication().is_none() {
            let parts = self.host.replica_parts();
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
        Ok(())
    }

    /// Resolves when the node knows the cluster's definitions, and the cluster knows of this start of it.
    pub(super) async fn ready(&self) {
        let mut told = Instant::now();
        while !self.is_ready() {
            if told.elapsed() >= TELL {
                told = Instant::now();
                tracing::warn!("waiting for a majority of the cluster: {}", self.missing());
            }
            self.timers.sleep(TICK).await;
        }
    }

    fn is_ready(&self) -> bool {
        let me = self.broker.figures().identity();
        let view = self.broker.view();
        let is_alone = self.broker.control_plane().replication().is_none();
        is_alone || view.meta.nodes().get(me.number.0).is_some_and(|known| known.boot == me.boot)
    }

    /// The nodes that are not heard, for the operator.
    fn missing(&self) -> String {
        let view = self.broker.view();
        let me = self.broker.figures().identity().number.0;
        let others = view.meta.nodes().iter().filter(|node| node.no != me);
        let names: Vec<&str> =
            others.filter(|node| !self.is_alive(node.no)).map(|node| &*node.name).collect();
        if names.is_empty() { "no leader yet".to_owned() } else { names.join(", ") + " are down" }
    }

    /// Carries out what the replica of the definitions leaves to do, from now on.
    fn follow(&self) {
        self.host.begin();
        let broker = Arc::clone(&self.broker);
        tokio::spawn(async move { follow_definitions(&broker).await });
    }

    /// Tells the cluster of this start of the node, unless that is under way.
    fn tell_boot(self: &Arc<Self>, command: Command) {
        if !self.tells_boot.swap(true, Ordering::AcqRel) {
            let run = Arc::clone(self);
            tokio::spawn(async move {
                match run.broker.apply_definition(command).await {
                    Ok(_) => joining::forget_note(run.disk.as_ref()),
                    Err(error) => tracing::warn!("the cluster is not told of this start: {error}"),
                }
                run.tells_boot.store(false, Ordering::Release);
            });
        }
    }
}

/// Does what is due, over and over.
async fn keep_time(run: Arc<ClusterRun>, members_changed: Arc<Notify>) {
    let mut ticks = run.timers.interval(TICK);
    loop {
        ticks.tick().await;
        let HostTick { has_new_members, command } = run.host.tick();
        if has_new_members {
            members_changed.notify_one();
        }
        if let Some(command) = command {
            run.tell_boot(command);
        }
    }
}

/// Writes images of the definitions, on a thread that may wait for the disk.
fn write_images(
    plane: Arc<ControlPlane>,
    to_write: mpsc::Receiver<cluster::ImageWrite>,
) -> anyhow::Result<()> {
    let write = move || {
        for write in to_write {
            if let Some(replication) = plane.replication() {
                replication.write_image(write);
            }
        }
    };
    let spawned = std::thread::Builder::new().name("images".to_owned()).spawn(write);
    spawned.map(drop).context("cannot start threads")
}

/// The host of connections with other nodes.
#[derive(Debug)]
struct PeerHost(Arc<ClusterRun>);

impl PeerHandler for PeerHost {
    fn receive(&self, connection: PeerConnection, inputs: &mut Vec<PeerInput>) {
        self.0.host.receive(connection, inputs);
    }

    fn poll_room(&self, _connection: PeerConnection, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn events(&self, events: Vec<MemberEvent>) {
        self.0.host.events(&events);
    }

    fn health(&self) -> PulseHealth {
        let alarms = &self.0.broker.alarms;
        let [memory, disk] = [Alarm::Memory, Alarm::Disk].map(|alarm| alarms.is_on(alarm));
        PulseHealth { alarms: PulseAlarms { memory, disk }, ..PulseHealth::default() }
    }

    fn tunnel(&self, peer: PeerHello, tunnel: PeerTunnel) {
        tokio::spawn(joining::serve(Arc::clone(&self.0), peer, tunnel));
    }
}
