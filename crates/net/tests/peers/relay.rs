//! A relay between a node and those that dial it, which can break and hold what goes through.

use peer::ConnectionKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use stdx::lock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The place of the kind in a dialler's first bytes.
const KIND_AT: usize = 16;

/// The state of a relayed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relayed {
    Goes,
    Held,
    Broken,
}

/// The connections that there have been, with the codes of their kinds.
type RelayedSockets = Mutex<Vec<(u8, watch::Sender<Relayed>)>>;

/// A relay.
pub(crate) struct PeerRelay {
    pub(crate) address: SocketAddr,
    connections: Arc<RelayedSockets>,
}

impl PeerRelay {
    /// A relay to a node without TLS.
    pub(crate) async fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<RelayedSockets> = Arc::default();
        let known = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(relay(near, node, Arc::clone(&known)));
            }
        });
        Self { address, connections }
    }

    fn set_all(&self, kind: Option<ConnectionKind>, state: Relayed) {
        for (code, connection) in lock(&self.connections).iter() {
            if kind.is_none_or(|kind| kind as u8 == *code) {
                connection.send_replace(state);
            }
        }
    }

    /// Breaks all connections that there are.
    pub(crate) fn break_all(&self) {
        self.set_all(None, Relayed::Broken);
    }

    /// Holds whatever goes over the connections of this kind that there are.
    pub(crate) fn hold(&self, kind: ConnectionKind) {
        self.set_all(Some(kind), Relayed::Held);
    }
}

async fn relay(mut near: TcpStream, node: SocketAddr, known: Arc<RelayedSockets>) {
    let mut first = [0; KIND_AT + 1];
    let Ok(_) = near.read_exact(&mut first).await else { return };
    let Ok(mut far) = TcpStream::connect(node).await else { return };
    far.write_all(&first).await.unwrap();
    let state = watch::Sender::new(Relayed::Goes);
    let mut broken = state.subscribe();
    let states = [state.subscribe(), state.subscribe()];
    lock(&known).push((first[KIND_AT], state));
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let [there, back] = states;
    tokio::select! {
        () = copy(from_near, to_far, there) => {}
        () = copy(from_far, to_near, back) => {}
        _ = broken.wait_for(|state| *state == Relayed::Broken) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<Relayed>,
) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut piece).await {
        let _goes = state.wait_for(|state| *state == Relayed::Goes).await.is_ok();
        if to.write_all(&piece[..n]).await.is_err() {
            return;
        }
    }
}
