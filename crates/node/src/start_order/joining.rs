//! How a node joins a cluster or leaves one: its own steps.

use super::means::{PeerMeans, address_of, random, tunnel_hello};
use super::peers;
use anyhow::{Context as _, bail};
use broker::{Broker, QueueRef};
use cluster_host::peer_address;
use ctl::environment;
use forming::{
    FORMING_ROWS, JOINING_ROWS, JoinAnswer, JoinAsk, JoinedCluster, Joining, JoiningNote,
    JoiningStep,
};
use log::{NodeIdentity, NodeNote, wipe_data};
use net::peer::PeerTunnel;
use peer::{FrameDecoder, PeerAddress, PeerFrame, Vocabulary};
use segments::Disk;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The time that an ask of a node that joins or leaves may take, with what the cluster does for it.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(45);
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

/// A node that joins a cluster or leaves its own.
pub(super) struct Move<'n> {
    pub(super) broker: &'n Broker,
    pub(super) means: &'n PeerMeans,
}

impl Move<'_> {
    /// Has a node be added to the cluster of another one, and condemns its data: the next start goes on.
    pub(super) async fn join(&self, node: &str, is_forced: bool) -> Result<(), String> {
        self.join_at(&address_of(node, peers::DISTRIBUTION_PORT), is_forced).await
    }

    /// As [`Self::join`], at an address.
    pub(super) async fn join_at(&self, to: &PeerAddress, is_forced: bool) -> Result<(), String> {
        let disk = self.means.disk.as_ref();
        let note = read_note(disk).map_err(|error| format!("{error:#}"))?;
        let me = self.broker.figures().identity();
        let own = self.means.settings.port.unwrap_or(peers::DISTRIBUTION_PORT);
        let ask =
            JoinAsk { name: me.name.clone(), address: address_of(&me.name, own), token: random() };
        let joining = Joining::join(ask, is_forced, note);
        self.advance(joining, std::slice::from_ref(to)).await
    }

    /// Has a node leave its cluster, and condemns its data: the next start goes on.
    pub(super) async fn reset(&self, is_forced: bool) -> Result<(), String> {
        let me = self.broker.figures().identity();
        if is_forced {
            return self.advance(Joining::force_reset(&me.name), &[]).await;
        }
        let view = self.broker.view();
        let others = view.meta.nodes().iter().filter(|node| node.no != me.number.0);
        let others: Vec<_> = others.map(|node| peer_address(&node.address)).collect();
        self.advance(Joining::reset(me), &others).await
    }

    /// Has the next start go on without the other members of the cluster.
    pub(super) fn discard_others(&self) -> Result<(), String> {
        let epoch = self.broker.figures().identity().epoch.saturating_add(1);
        let note = JoiningNote::Discards { epoch }.encode();
        let written = NodeNote::Joining.write(self.means.disk.as_ref(), &note);
        written.map_err(|error| error.to_string())
    }

    /// Takes the steps up to the one from which the next start goes on.
    async fn advance(&self, mut joining: Joining, members: &[PeerAddress]) -> Result<(), String> {
        let disk = self.means.disk.as_ref();
        loop {
            let mut ask = Vec::new();
            match joining.step() {
                JoiningStep::CountMessages => {
                    joining.counted(n_durable_messages(self.broker));
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
            match self.ask_any(&ask, members).await? {
                JoinAnswer::NotNow(text) => return Err(text),
                answer @ (JoinAnswer::Joined(_) | JoinAnswer::Left | JoinAnswer::Refused(_)) => {
                    joining.answered(answer);
                }
            }
        }
    }

    /// Asks the first of these nodes that answers.
    async fn ask_any(&self, ask: &[u8], members: &[PeerAddress]) -> Result<JoinAnswer, String> {
        let means = self.means;
        let transport = means.transport().map_err(|error| format!("{error:#}"))?;
        let mut failed = "this node knows no other member".to_owned();
        for address in members {
            let hello = tunnel_hello(self.broker.figures().identity());
            let asking = async {
                let (_, mut tunnel) = transport
                    .open_tunnel(address, hello)
                    .await
                    .map_err(|error| error.to_string())?;
                tunnel.write_all(ask).await.map_err(|error| error.to_string())?;
                let frame = |frame: PeerFrame<'_>| {
                    let (kind, body) = (frame.kind, frame.body.into_bytes());
                    JoinAnswer::decode(kind, &body).ok().flatten()
                };
                let answer =
                    read_frame(&mut tunnel, frame).await.map_err(|error| error.to_string())?;
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
}

fn n_durable_messages(broker: &Broker) -> u64 {
    let view = broker.view();
    let stats = view.queues().filter(|queue| queue.def().durable).map(QueueRef::local_stat);
    stats.map(|stat| stat.n_ready + stat.n_unacked).sum()
}

/// Reads one frame.
pub(super) async fn read_frame<T>(
    tunnel: &mut PeerTunnel,
    take: impl Fn(PeerFrame<'_>) -> T,
) -> anyhow::Result<T> {
    let mut decoder = FrameDecoder::new(Vocabulary::new(0, &[JOINING_ROWS, FORMING_ROWS]));
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

/// The way on which a start finds a node into a cluster, or out of one.
#[derive(Debug)]
pub(super) enum Underway {
    /// None: the node is what its data says.
    Nowhere,
    /// The node is to learn the cluster's definitions.
    Learns(JoinedCluster),
    /// The node goes on without the other members.
    Discards,
}

/// Goes on at a start with what an earlier run has begun, before anything else is read.
pub(super) fn resume(disk: &dyn Disk) -> anyhow::Result<Underway> {
    let name = environment::node_name(&environment::of_process);
    let note = read_note(disk)?;
    if let Some(JoiningNote::Discards { epoch }) = note {
        let me = NodeIdentity::read(disk)?.context("leveret-node is missing")?;
        if me.epoch < epoch {
            NodeIdentity { epoch, ..me }.create(disk)?;
        }
        tracing::warn!("this node goes on without the other members of its cluster");
        return Ok(Underway::Discards);
    }
    let Some(mut joining) = Joining::resume(&name, note) else { return Ok(Underway::Nowhere) };
    loop {
        match joining.step() {
            JoiningStep::Wipe => {
                tracing::warn!("the node's data is removed: it joins or leaves a cluster");
                wipe_data(disk, &WIPED)?;
            }
            JoiningStep::WriteIdentity(identity) => identity.create(disk)?,
            JoiningStep::WriteNote(note) => NodeNote::Joining.write(disk, &note.encode())?,
            JoiningStep::RemoveNote => NodeNote::Joining.remove(disk)?,
            JoiningStep::Learn(cluster) => return Ok(Underway::Learns(cluster)),
            JoiningStep::CountMessages
            | JoiningStep::AskToJoin(_)
            | JoiningStep::AskToLeave(_)
            | JoiningStep::BeFresh
            | JoiningStep::Refuse(_) => return Ok(Underway::Nowhere),
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
