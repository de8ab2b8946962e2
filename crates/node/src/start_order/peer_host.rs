//! The beginning of a node's part in a cluster: its seat, its connections with other nodes, their host.

use super::cluster::{ClusterRun, TICK};
use super::components;
use super::formation::FormingSeat;
use super::joining::Underway;
use super::means::{LEVELS, PeerMeans, address_of, random};
use super::peers::DistributionPort;
use super::remote_sessions::PeerSessions;
use super::{questions, tunnel};
use anyhow::Context as _;
use broker::{
    Alarm, Broker, ControlPlane, awaits_cluster, discard_others, join_cluster, resume_cluster,
};
use cluster_host::{ClusterHost, HostClock, HostTick};
use member::{MemberEvent, Membership, MembershipOptions, PeerConnection, PeerInput, PulseHealth};
use net::Server;
use net::peer::{PeerHandler, PeerService, PeerServiceOptions, PeerTunnel};
use peer::{LinkLimits, PeerHello, PulseAlarms};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// The limits of a link to another node.
const LINK_LIMITS: LinkLimits = LinkLimits { room_bytes: 8 << 20, bytes_max: 256 << 20 };

/// A time between two looks at what is due, at least.
const PAUSE: Duration = Duration::from_millis(10);

/// Begins to serve other nodes. A node that is a member takes its seat again; one that is `underway`
/// goes on; one that is `forming` answers others that do.
pub(super) fn start(
    port: DistributionPort,
    (underway, forming): (&Underway, Option<FormingSeat>),
    broker: &Arc<Broker>,
    server: &Server,
    means: &PeerMeans,
) -> anyhow::Result<(Arc<ClusterRun>, PeerService)> {
    let (listener, transport) = port.into_parts(&means.timers);
    let me = broker.figures().identity().clone();
    let listens_on = listener.local_addr().context("cannot tell the distribution port")?;
    tracing::info!("listening for other nodes on {listens_on}");
    let address = address_of(&me.name, listens_on.port());
    let membership =
        Arc::new(Membership::new(MembershipOptions { me, levels: LEVELS, limits: LINK_LIMITS }));
    let (images, to_write) = mpsc::channel();
    let clock = HostClock { now: || components::clock().now(), random };
    let plane = Arc::clone(&broker.control_plane);
    let due = Arc::new(TickDue::default());
    let waker = Waker::from(Arc::clone(&due));
    let host = ClusterHost::new(Arc::clone(&membership), plane, clock, images, waker);
    let joined = if let Underway::Learns(joined) = underway { Some(joined) } else { None };
    let is_member = joined.is_some() || awaits_cluster(&broker.control_plane);
    if let Some(forming) = forming.as_ref().filter(|_| is_member) {
        forming.close(means.disk.as_ref())?;
    }
    let run = Arc::new(ClusterRun::new(broker, host, address, forming, means));
    write_images(Arc::clone(&broker.control_plane), to_write)?;
    // The definitions may not name them yet, also where a part of the log is there.
    for member in joined.iter().flat_map(|joined| &joined.members) {
        let now = components::clock().now().monotonic_ms;
        membership.set_member((member.number, 0), &member.name, member.address.clone(), now);
    }
    if awaits_cluster(&broker.control_plane) {
        if let Underway::Discards = underway {
            discard_others(&broker.control_plane)?;
        }
        resume_cluster(&broker.control_plane, run.replica_parts())?;
        run.follow();
    } else if joined.is_some() {
        join_cluster(&broker.control_plane, run.replica_parts())?;
        run.follow();
    }
    if let Underway::Discards = underway {
        run.begin_discarding();
    }
    // Members are known before the first of them connects: a refusal is not tried again for a while.
    let _first = run.host().tick();
    let admission = server.admission();
    let options = PeerServiceOptions { listener: Some(listener), transport, admission };
    let sessions = PeerSessions::new(&run, &membership);
    let handler = Arc::new(PeerHost { run: Arc::clone(&run), sessions });
    let service =
        PeerService::start(options, membership, handler).context("cannot start threads")?;
    tokio::spawn(keep_time(Arc::clone(&run), due, service.members_changed()));
    Ok((run, service))
}

/// Tells that a tick is due sooner than was known.
#[derive(Debug, Default)]
struct TickDue(Notify);

impl Wake for TickDue {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Does what is due, over and over, and sleeps while nothing is.
async fn keep_time(run: Arc<ClusterRun>, sooner: Arc<TickDue>, members_changed: Arc<Notify>) {
    let (host, timers) = (run.host(), run.timers());
    loop {
        let HostTick { has_new_members, command, is_next_soon } = host.tick();
        if has_new_members {
            members_changed.notify_one();
        }
        if let Some(command) = command {
            run.tell_boot(command);
        }
        timers.sleep(PAUSE).await;
        let now = components::clock().now().monotonic_ms;
        let due = Duration::from_millis(host.due().since(now));
        let wait = if is_next_soon { due.min(TICK) } else { due };
        let _is_sooner = timers.timeout(wait, sooner.0.notified()).await.is_ok();
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
struct PeerHost {
    run: Arc<ClusterRun>,
    sessions: PeerSessions,
}

impl PeerHandler for PeerHost {
    fn receive(&self, connection: PeerConnection, inputs: &mut Vec<PeerInput>) {
        self.sessions.receive(connection, inputs);
        for question in self.run.host().receive(connection, inputs) {
            questions::answer(&self.run, question);
        }
    }

    fn ended(&self, connection: PeerConnection) {
        self.sessions.ended(connection);
    }

    fn poll_room(&self, _connection: PeerConnection, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn events(&self, events: Vec<MemberEvent>) {
        self.sessions.events(&events);
        self.run.host().events(&events);
    }

    fn health(&self) -> PulseHealth {
        self.sessions.note_alarms();
        let alarms = &self.run.broker().alarms;
        let [memory, disk] = [Alarm::Memory, Alarm::Disk].map(|alarm| alarms.is_on(alarm));
        PulseHealth { alarms: PulseAlarms { memory, disk }, ..PulseHealth::default() }
    }

    fn tunnel(&self, peer: PeerHello, tunnel: PeerTunnel) {
        tokio::spawn(tunnel::serve(Arc::clone(&self.run), peer, tunnel));
    }
}
