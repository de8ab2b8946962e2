//! Asks of nodes that join or leave the cluster, on tunnels, and the answers of this member.

use super::cluster::ClusterRun;
use super::joining::{ASK_TIMEOUT, read_frame};
use broker::Broker;
use cluster_host::peer_address;
use forming::{
    FormingAnswer, FormingAsk, JoinAnswer, JoinAsk, JoinedCluster, JoinedMember, LeaveAsk,
};
use log::NodeNumber;
use meta::{ClusterAddress, Command, Done, MetaError, Name};
use net::peer::PeerTunnel;
use peer::{PeerFrame, PeerHello};
use std::sync::Arc;
use stdx::record::RecordError;
use tokio::io::AsyncWriteExt as _;

/// The ask of a tool or another node, on a tunnel.
enum TunnelAsk {
    Join(JoinAsk),
    Leave(LeaveAsk),
    Form(FormingAsk),
    Unknown,
}

/// Serves a tunnel: one ask and its answer.
pub(super) async fn serve(run: Arc<ClusterRun>, peer: PeerHello, mut tunnel: PeerTunnel) {
    let take = |frame: PeerFrame<'_>| {
        let (kind, body) = (frame.kind, frame.body.into_bytes());
        let join = || Ok(JoinAsk::decode(kind, &body)?.map(TunnelAsk::Join));
        let leave = || Ok(LeaveAsk::decode(kind, &body)?.map(TunnelAsk::Leave));
        let form = || Ok(FormingAsk::decode(kind, &body)?.map(TunnelAsk::Form));
        let known = [&join as &dyn Fn() -> Result<Option<TunnelAsk>, RecordError>, &leave, &form];
        let found = known.into_iter().find_map(|decode| decode().transpose());
        found.and_then(Result::ok).unwrap_or(TunnelAsk::Unknown)
    };
    let answering = async {
        let mut bytes = Vec::new();
        match read_frame(&mut tunnel, take).await {
            Ok(TunnelAsk::Join(ask)) => add(&run, ask).await.encode(&mut bytes),
            Ok(TunnelAsk::Leave(ask)) => remove(&run, &ask).await.encode(&mut bytes),
            Ok(TunnelAsk::Form(ask)) => match form(&run, ask).await {
                Some(answer) => answer.encode(&mut bytes),
                None => return,
            },
            Ok(TunnelAsk::Unknown) | Err(_) => return,
        }
        if let Err(error) = tunnel.write_all(&bytes).await {
            tracing::warn!("{} has not taken the answer: {error}", peer.identity.name);
        }
    };
    if run.timers().timeout(ASK_TIMEOUT, answering).await.is_err() {
        tracing::warn!("an ask of {} was given up", peer.identity.name);
    }
}

/// Answers a fresh node; none if this one is about to start again.
async fn form(run: &ClusterRun, ask: FormingAsk) -> Option<FormingAnswer> {
    if let Some(forming) = run.forming() {
        return forming.answer(ask).await;
    }
    let me = run.broker().figures().identity();
    Some(FormingAnswer::Member { name: me.name.clone(), cluster: me.cluster })
}

async fn add(run: &ClusterRun, ask: JoinAsk) -> JoinAnswer {
    if run.forming().is_some() {
        return JoinAnswer::NotNow("the node is about to form a cluster: try again".to_owned());
    }
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
