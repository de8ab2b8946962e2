//! Asks of nodes that join or leave the cluster, on tunnels, and the answers of this member.

use super::cluster::ClusterRun;
use super::joining::{ASK_TIMEOUT, read_frame};
use broker::Broker;
use cluster_host::peer_address;
use forming::{JoinAnswer, JoinAsk, JoinedCluster, JoinedMember, LeaveAsk};
use log::NodeNumber;
use meta::{ClusterAddress, Command, Done, MetaError, Name};
use net::peer::PeerTunnel;
use peer::{PeerFrame, PeerHello};
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;

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
        Ok(_) | Err(MetaError::NodeNotFound(_)) => {
            // Of two voters both are needed for it: the node may lose its data only then.
            run.removed(ask.number.0).await;
            JoinAnswer::Left
        }
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
        address: peer_address(&node.address),
    });
    let (cluster, epoch, number) = (me.cluster, me.epoch, NodeNumber(no));
    JoinedCluster { cluster, epoch, number, members: members.collect() }
}
