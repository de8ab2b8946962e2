//! A TCP forwarder for one connection between lapin and the node. It reads frame by frame, so it
//! can count heartbeats, swallow what the client says, and cut the connection.

use crate::check::Outcome;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const FRAME_HEARTBEAT: u8 = 8;
const PROTOCOL_HEADER_OCTETS: usize = 8;

pub struct Relay {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    client_muted: AtomicBool,
    heartbeats_from_client: AtomicUsize,
    heartbeats_from_node: AtomicUsize,
    node_closed: Notify,
    cut: Notify,
}

impl Relay {
    pub async fn to(node: (&str, u16)) -> Outcome<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let to_node = TcpStream::connect(node).await?;
        let state = Arc::new(State::default());
        tokio::spawn(forward(listener, to_node, Arc::clone(&state)));
        Ok(Self { port, state })
    }

    pub fn heartbeats_from_client(&self) -> usize {
        self.state.heartbeats_from_client.load(Ordering::Relaxed)
    }

    pub fn heartbeats_from_node(&self) -> usize {
        self.state.heartbeats_from_node.load(Ordering::Relaxed)
    }

    /// From now on nothing the client sends reaches the node.
    pub fn mute_client(&self) {
        self.state.client_muted.store(true, Ordering::Relaxed);
    }

    /// Returns once the node has ended the connection on its side.
    pub async fn node_closed(&self) {
        self.state.node_closed.notified().await;
    }

    /// Drops both sides without a goodbye.
    pub fn cut(&self) {
        self.state.cut.notify_one();
    }
}

/// Both directions, until one side ends or the relay is cut; dropping the sockets ends the other.
async fn forward(listener: TcpListener, to_node: TcpStream, state: Arc<State>) -> Outcome {
    let (to_client, _) = listener.accept().await?;
    to_client.set_nodelay(true)?;
    to_node.set_nodelay(true)?;
    let (client_in, client_out) = to_client.into_split();
    let (node_in, node_out) = to_node.into_split();
    tokio::select! {
        ended = client_to_node(client_in, node_out, &state) => ended,
        ended = node_to_client(node_in, client_out, &state) => {
            state.node_closed.notify_one();
            ended
        }
        () = state.cut.notified() => Ok(()),
    }
}

async fn client_to_node(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) -> Outcome {
    let mut header = [0; PROTOCOL_HEADER_OCTETS];
    from.read_exact(&mut header).await?;
    to.write_all(&header).await?;
    loop {
        let frame = read_frame(&mut from).await?;
        if frame[0] == FRAME_HEARTBEAT {
            state.heartbeats_from_client.fetch_add(1, Ordering::Relaxed);
        }
        if !state.client_muted.load(Ordering::Relaxed) {
            to.write_all(&frame).await?;
        }
    }
}

async fn node_to_client(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) -> Outcome {
    loop {
        let frame = read_frame(&mut from).await?;
        if frame[0] == FRAME_HEARTBEAT {
            state.heartbeats_from_node.fetch_add(1, Ordering::Relaxed);
        }
        to.write_all(&frame).await?;
    }
}

/// Type, channel and length; then the payload and the frame end.
async fn read_frame(from: &mut OwnedReadHalf) -> Outcome<Vec<u8>> {
    let mut frame = vec![0; 7];
    from.read_exact(&mut frame).await?;
    let payload = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]);
    frame.resize(7 + usize::try_from(payload)? + 1, 0);
    from.read_exact(&mut frame[7..]).await?;
    Ok(frame)
}
