//! How a node joins a cluster or leaves one: its own steps, and those of the member that it asks.

use super::cluster::{ClusterRun, LEVELS};
use super::peers;
use super::seat::NodeSeat;
use crate::cli::ServerArgs;
use crate::config::{Config, Distribution};
use anyhow::{Context as _, bail};
use broker::Broker;
use ctl::environment;
use forming::{
    JOINING_ROWS, JoinAnswer, JoinAsk, JoinedCluster, JoinedMember, Joining, JoiningNote,
    JoiningStep, LeaveAsk,
};
use log::{NodeIdentity, NodeNote, NodeNumber, wipe_data};
use meta::{ClusterAddress, Command, Done, MetaError, Name};
use net::Timers;
use net::peer::PeerTunnel;
use peer::{
    ConnectionKind, FrameDecoder, PEER_VERSIONS, PeerAddress, PeerFrame, PeerHello, Vocabulary,
};
use segments::Disk;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The time that an ask of a node that joins or leaves may take, with what the cluster does for it.
const ASK_TIMEOUT: Duration = Duration::from_secs(45);
/// Bytes that are read of a tunnel at once.
const READ_BYTES: usize = 4 << 10;

/// The files and directories that a node loses when it joins or leaves a cluster.
const WIPED: [&str; 17] = [
    "wal",
    "pages",
    "swap",
    "queues",
    "streams",
    "vhosts",
    "images",
    "undo",
    "definitions.snapshot",
    "deduplication.snapshot",
    "leveret-log",
    "leveret-streams",
    "leveret-journals",
    "leveret-bodies",
    "leveret-promise",
    "leveret-node",
    "reserve",
];

/// The means of a node to reach others.
#[derive(Debug)]
pub(super) struct PeerMeans {
    pub(super) settings: Distribution,
    pub(super) data_dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) timers: Timers,
}

impl PeerMeans {
    pub(super) fn of(
        config: &Config,
        args: &ServerArgs,
        disk: Arc<dyn Disk>,
        timers: &Timers,
    ) -> Self {
        let settings = config.listeners.distribution.clone();
        Self { settings, data_dir: args.data_dir.clone(), disk, timers: timers.clone() }
    }
}

/// The address of the node of a name, whose host follows the `@`; a port may follow that.
pub(super) fn address_of(name: &str, port: u16) -> PeerAddress {
    let host = name.split_once('@').map_or("localhost", |(_, host)| host);
    let (host, port) = match host.rsplit_once(':') {
        Some((host, given)) => (host, given.parse().unwrap_or(port)),
        None => (host, port),
    };
    PeerAddress { host: host.to_owned(), port }
}

/// Has a node be added to the cluster of another one, and condemns its data: the next start goes on.
pub(super) async fn join(seat: &NodeSeat, node: &str, is_forced: bool) -> Result<(), String> {
    let disk = seat.means.disk.as_ref();
    let note = read_note(disk).map_err(|error| format!("{error:#}"))?;
    let me = seat.broker.figures().identity();
    let own = seat.means.settings.port.unwrap_or(peers::DISTRIBUTION_PORT);
    let token = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), node);
    let ask = JoinAsk { name: me.name.clone(), address: address_of(&me.name, own), token };
    let to = address_of(node, peers::DISTRIBUTION_PORT);
    advance(seat, Joining::join(ask, is_forced, note), &[to]).await
}

/// Has a node leave its cluster, and condemns its data: the next start goes on.
pub(super) async fn reset(seat: &NodeSeat, is_forced: bool) -> Result<(), String> {
    let me = seat.broker.figures().identity();
    if is_forced {
        return advance(seat, Joining::force_reset(&me.name), &[]).await;
    }
    let view = seat.broker.view();
    let others = view.meta.nodes().iter().filter(|node| node.no != me.number.0);
    let address = |it: &ClusterAddress| PeerAddress { host: it.host.to_string(), port: it.port };
    let others: Vec<_> = others.map(|node| address(&node.address)).collect();
    advance(seat, Joining::reset(me), &others).await
}

/// Takes the steps up to the one from which the next start goes on.
async fn advance(
    seat: &NodeSeat,
    mut joining: Joining,
    members: &[PeerAddress],
) -> Result<(), String> {
    let disk = seat.means.disk.as_ref();
    loop {
        let mut ask = Vec::new();
        match joining.step() {
            JoiningStep::CountMessages => {
                joining.counted(n_durable_messages(&seat.broker).await);
                continue;
            }
            JoiningStep::WriteNote(note) => {
                let written = NodeNote::Joining.write(disk, &note.encode());
                written.map_err(|error| error.to_string())?;
                if matches!(note, JoiningNote::Wipes(_)) {
                    return Ok(());
                }
                joining.done();
                continue;
            }
            JoiningStep::RemoveNote => {
                NodeNote::Joining.remove(disk).map_err(|error| error.to_string())?;
                joining.done();
                continue;
            }
            JoiningStep::Refuse(text) => return Err(text),
            JoiningStep::AskToJoin(it) => it.encode(&mut ask),
            JoiningStep::AskToLeave(it) => it.encode(&mut ask),
            JoiningStep::Wipe
            | JoiningStep::WriteIdentity(_)
            | JoiningStep::Learn(_)
            | JoiningStep::BeFresh => return Ok(()),
        }
        match ask_any(seat, &ask, members).await? {
            JoinAnswer::NotNow(text) => return Err(text),
            answer @ (JoinAnswer::Joined(_) | JoinAnswer::Left | JoinAnswer::Refused(_)) => {
                joining.answered(answer);
            }
        }
    }
}

async fn n_durable_messages(broker: &Broker) -> u64 {
    let mut n_messages = 0;
    for queue in broker.view().queues().filter(|queue| queue.def().durable) {
        let stat = queue.local_stat();
        n_messages += stat.n_ready + stat.n_unacked;
    }
    n_messages
}

/// Asks the first of these nodes that answers.
async fn ask_any(
    seat: &NodeSeat,
    ask: &[u8],
    members: &[PeerAddress],
) -> Result<JoinAnswer, String> {
    let means = &seat.means;
    let transport = peers::transport(&means.settings, &means.data_dir, &means.timers);
    let transport = transport.map_err(|error| format!("{error:#}"))?;
    let mut failed = "this node knows no other member".to_owned();
    for address in members {
        let hello = hello(seat.broker.figures().identity());
        let asking = async {
            let (_, mut tunnel) =
                transport.open_tunnel(address, hello).await.map_err(|error| error.to_string())?;
            tunnel.write_all(ask).await.map_err(|error| error.to_string())?;
            let frame = |frame: PeerFrame<'_>| {
                let (kind, body) = (frame.kind, frame.body.into_bytes());
                JoinAnswer::decode(kind, &body).ok().flatten()
            };
            let answer = read_frame(&mut tunnel, frame).await.map_err(|error| error.to_string())?;
            answer.ok_or_else(|| "the answer cannot be read: check both versions".to_owned())
        };
        match means.timers.timeout(ASK_TIMEOUT, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failed = format!("{}:{}: {error}", address.host, address.port),
            Err(_) => failed = format!("{}:{} has not answered", address.host, address.port),
        }
    }
    Err(failed)
}

fn hello(me: &NodeIdentity) -> PeerHello {
    let nonce =
        |it| u128::from(std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), it));
    PeerHello {
        versions: PEER_VERSIONS,
        levels: LEVELS,
        kind: ConnectionKind::Ctl,
        identity: NodeIdentity { number: NodeNumber(0), ..me.clone() },
        nonce: nonce(0) << 64 | nonce(1),
    }
}

/// Reads one frame.
async fn read_frame<T>(
    tunnel: &mut PeerTunnel,
    take: impl Fn(PeerFrame<'_>) -> T,
) -> anyhow::Result<T> {
    let mut decoder = FrameDecoder::new(Vocabulary::new(0, &[JOINING_ROWS]));
    let mut bytes = [0; READ_BYTES];
    loop {
        let n = tunnel.read(&mut bytes).await?;
        let Some(mut input) = bytes.get(..n).filter(|it| !it.is_empty()) else {
            bail!("the connection has ended without an answer");
        };
        if let Some(frame) = decoder.next(&mut input)? {
            return Ok(take(frame));
        }
    }
}

/// The ask of a tool or another node, on a tunnel.
enum TunnelAsk {
    Join(JoinAsk),
    Leave(LeaveAsk),
    Unknown,
}

/// Serves a tunnel: one ask and its answer.
pub(super) async fn serve(run: Arc<ClusterRun>, peer: PeerHello, mut tunnel: PeerTunnel) {
    let take = |frame: PeerFrame<'_>| {
        let (kind, body) = (frame.kind, frame.body.into_bytes());
        match (JoinAsk::decode(kind, &body), LeaveAsk::decode(kind, &body)) {
            (Ok(Some(ask)), _) => TunnelAsk::Join(ask),
            (_, Ok(Some(ask))) => TunnelAsk::Leave(ask),
            (_, _) => TunnelAsk::Unknown,
        }
    };
    let answering = async {
        let answer = match read_frame(&mut tunnel, take).await {
            Ok(TunnelAsk::Join(ask)) => add(&run, ask).await,
            Ok(TunnelAsk::Leave(ask)) => remove(&run, &ask).await,
            Ok(TunnelAsk::Unknown) | Err(_) => return,
        };
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        if let Err(error) = tunnel.write_all(&bytes).await {
            tracing::warn!("{} has not taken the answer: {error}", peer.identity.name);
        }
    };
    if run.timers().timeout(ASK_TIMEOUT, answering).await.is_err() {
        tracing::warn!("an ask of {} was given up", peer.identity.name);
    }
}

async fn add(run: &ClusterRun, ask: JoinAsk) -> JoinAnswer {
    if let Err(text) = run.found().await {
        return JoinAnswer::NotNow(text);
    }
    let address = ClusterAddress { host: Name::from(&*ask.address.host), port: ask.address.port };
    let name = Name::from(&*ask.name);
    let command = Command::NodeJoined { no: None, name, address, token: ask.token };
    match run.broker().apply_definition(command).await {
        Ok(Done::NodeJoined(no) | Done::NodeExists(no)) => {
            tracing::info!("{} joins the cluster as node {no}", ask.name);
            JoinAnswer::Joined(joined(run.broker(), no))
        }
        Ok(_) => JoinAnswer::NotNow("the cluster has not added the node".to_owned()),
        Err(MetaError::TimedOut(text)) => JoinAnswer::NotNow(text),
        Err(error) => JoinAnswer::Refused(error.to_string()),
    }
}

async fn remove(run: &ClusterRun, ask: &LeaveAsk) -> JoinAnswer {
    let me = run.broker().figures().identity();
    if ask.cluster != me.cluster || ask.number == me.number {
        return JoinAnswer::Refused(format!("{} is of another cluster", me.name));
    }
    let command = Command::NodeForgotten { no: ask.number.0 };
    match run.broker().apply_definition(command).await {
        Ok(_) | Err(MetaError::NodeNotFound(_)) => JoinAnswer::Left,
        Err(MetaError::TimedOut(text)) => JoinAnswer::NotNow(text),
        Err(error) => JoinAnswer::Refused(error.to_string()),
    }
}

/// The cluster as its new node is told of it.
fn joined(broker: &Broker, no: u16) -> JoinedCluster {
    let me = broker.figures().identity();
    let view = broker.view();
    let others = view.meta.nodes().iter().filter(|node| node.no != no);
    let members = others.map(|node| JoinedMember {
        number: NodeNumber(node.no),
        name: node.name.to_string(),
        address: PeerAddress { host: node.address.host.to_string(), port: node.address.port },
    });
    let (cluster, epoch, number) = (me.cluster, me.epoch, NodeNumber(no));
    JoinedCluster { cluster, epoch, number, members: members.collect() }
}

/// Goes on at a start with what an earlier run has begun, before anything else is read. Returns the cluster
/// whose definitions the node is to learn, if it is on its way into one.
pub(crate) fn resume(disk: &dyn Disk) -> anyhow::Result<Option<JoinedCluster>> {
    let name = environment::node_name(&environment::of_process);
    let Some(mut joining) = Joining::resume(&name, read_note(disk)?) else { return Ok(None) };
    loop {
        match joining.step() {
            JoiningStep::Wipe => {
                tracing::warn!("the node's data is removed: it joins or leaves a cluster");
                wipe_data(disk, &WIPED)?;
            }
            JoiningStep::WriteIdentity(identity) => identity.create(disk)?,
            JoiningStep::WriteNote(note) => NodeNote::Joining.write(disk, &note.encode())?,
            JoiningStep::RemoveNote => NodeNote::Joining.remove(disk)?,
            JoiningStep::Learn(cluster) => return Ok(Some(cluster)),
            JoiningStep::CountMessages
            | JoiningStep::AskToJoin(_)
            | JoiningStep::AskToLeave(_)
            | JoiningStep::BeFresh
            | JoiningStep::Refuse(_) => return Ok(None),
        }
        joining.done();
    }
}

fn read_note(disk: &dyn Disk) -> anyhow::Result<Option<JoiningNote>> {
    let bytes = NodeNote::Joining.read(disk)?;
    let note = bytes.map(|bytes| JoiningNote::decode(&bytes)).transpose();
    note.context("the note of a node that joins a cluster is damaged: remove leveret-joining")
}

/// Removes the note of a node whose definitions are there.
pub(super) fn forget_note(disk: &dyn Disk) {
    if let Err(error) = NodeNote::Joining.remove(disk) {
        tracing::warn!("the note of joining stays: {error}");
    }
}
