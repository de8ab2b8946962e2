//! The tasks of a connection: its reader, which gives frames to the host, and its writer, which takes them
//! from the link.

use super::handshake::PeerConnectError;
use super::hub::{PeerHub, PeerTask, random};
use super::socket::{PeerSocket, read};
use crate::socket::{SocketReader, SocketWriter};
use bytes::Bytes;
use member::{MemberAdmission, PeerConnection, PeerInput, PeerInputError};
use peer::{
    ConnectionKind, FrameDecoder, FrameError, FrameKind, HandshakeError, LinkBatch, LinkClass,
    LinkEnd, PeerEstablished, PeerLink, PeerRefusal, PeerRefusalReason, TakenFromLink,
};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Bytes that are read at once, at most.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Bytes read at once of a connection with pulses, of which each has less than a hundred.
const READ_PULSES_BYTES_MAX: usize = 4 * 1024;
/// Parts of a batch that are written at once.
const SLICES_MAX: usize = 64;
/// The time in which a peer takes the reason for the end of a connection.
const FAREWELL: Duration = Duration::from_millis(200);

/// The reason for the end of a connection.
#[derive(Debug, thiserror::Error)]
enum CarryEnd {
    #[error("the link has ended: {0:?}")]
    Link(LinkEnd),
    #[error("the peer has closed it")]
    Closed,
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("the peer violates the protocol: {0}")]
    Frame(#[from] FrameError),
    #[error("the peer violates the protocol: {0}")]
    Input(PeerInputError),
    #[error("the peer does not go on: {0}")]
    RefusedByPeer(PeerRefusal),
    #[error("the node stops")]
    Stopped,
}

/// Makes a connection whose handshake is done one of the node's, and begins its tasks.
///
/// # Errors
/// The peer has been started again or was removed meanwhile: the socket is closed.
pub(super) fn begin(
    hub: &Arc<PeerHub>,
    established: &PeerEstablished,
    socket: PeerSocket,
) -> Result<(), PeerConnectError> {
    let admitted = hub.membership.admit(established, hub.now().monotonic_ms);
    let admitted = admitted.map_err(HandshakeError::Refused)?;
    hub.judge_now.notify_one();
    let name = established.peer.identity.name.clone();
    let (task, hub) = (hub.count_task(), Arc::clone(hub));
    if admitted.connection.kind == ConnectionKind::Pulse {
        let pulses = hub.pulses.clone();
        pulses.spawn(async move {
            match socket.move_here() {
                Ok(socket) => serve(hub, (admitted, name), socket, task).await,
                Err(error) => end(&hub, admitted.connection, &name, &error.into()),
            }
        });
    } else {
        tokio::spawn(serve(hub, (admitted, name), socket, task));
    }
    Ok(())
}

/// Carries frames until the connection ends, for whatever reason.
async fn serve(
    hub: Arc<PeerHub>,
    (admitted, name): (MemberAdmission, String),
    socket: PeerSocket,
    _counted: PeerTask,
) {
    let MemberAdmission { connection, vocabulary, .. } = admitted;
    let Some(link) = hub.membership.link(connection.node, connection.kind) else {
        return end(&hub, connection, &name, &CarryEnd::Link(LinkEnd::Closed));
    };
    tracing::debug!("connection {} with {name} is made", connection.kind.as_str());
    let PeerSocket { reader, writer, early } = socket;
    let decoder = FrameDecoder::new(vocabulary);
    let mut writing = tokio::spawn(write(Arc::clone(&link), connection, writer));
    let reason = tokio::select! {
        reason = receive(&hub, connection, decoder, (reader, early)) => reason,
        reason = &mut writing => reason.unwrap_or_else(|error| io::Error::other(error).into()),
        () = hub.stopped() => CarryEnd::Stopped,
    };
    if matches!(reason, CarryEnd::Frame(_) | CarryEnd::Input(_)) {
        let refusal = PeerRefusal::new(PeerRefusalReason::Protocol, reason.to_string());
        let told = link.put(|out| {
            let put = |body: &mut Vec<u8>| refusal.put_body(body);
            out.push(LinkClass::Urgent, FrameKind::REFUSED, put, &[]);
        });
        told.into_iter().for_each(Waker::wake);
        let _has_time = hub.transport.timers.timeout(FAREWELL, &mut writing).await.is_err();
    }
    writing.abort();
    end(&hub, connection, &name, &reason);
}

/// Notes the end of a connection.
fn end(hub: &PeerHub, connection: PeerConnection, name: &str, reason: &CarryEnd) {
    hub.membership.closed(connection, hub.now().monotonic_ms, random());
    hub.handler.ended(connection);
    hub.dial_now.notify_one();
    hub.judge_now.notify_one();
    let kind = connection.kind.as_str();
    match reason {
        CarryEnd::Frame(_) | CarryEnd::Input(_) | CarryEnd::RefusedByPeer(_) => {
            tracing::warn!("connection {kind} with {name} has ended: {reason}");
        }
        CarryEnd::Link(LinkEnd::Overflowed) => {
            tracing::warn!("connection {kind} with {name} has ended: the peer does not read");
        }
        CarryEnd::Link(_) | CarryEnd::Closed | CarryEnd::Socket(_) | CarryEnd::Stopped => {
            tracing::debug!("connection {kind} with {name} has ended: {reason}");
        }
    }
}

/// Reads frames and gives what they hold to the host.
async fn receive(
    hub: &PeerHub,
    connection: PeerConnection,
    mut decoder: FrameDecoder,
    (mut reader, early): (SocketReader, Bytes),
) -> CarryEnd {
    let is_pulse = connection.kind == ConnectionKind::Pulse;
    let n_max = if is_pulse { READ_PULSES_BYTES_MAX } else { READ_BYTES_MAX };
    let (mut buffer, mut inputs) = (vec![0; n_max], Vec::new());
    let mut taken = take(hub, connection, &mut decoder, &early, &mut inputs);
    drop(early);
    loop {
        if let Err(reason) = taken {
            return reason;
        }
        poll_fn(|cx| hub.handler.poll_room(connection, cx)).await;
        taken = match read(&mut reader, &mut buffer).await {
            Ok(0) => Err(CarryEnd::Closed),
            Ok(n) => {
                let input = buffer.get(..n).unwrap_or_default();
                take(hub, connection, &mut decoder, input, &mut inputs)
            }
            Err(error) => Err(error.into()),
        };
    }
}

/// Takes the bytes of one read.
fn take(
    hub: &PeerHub,
    connection: PeerConnection,
    decoder: &mut FrameDecoder,
    mut input: &[u8],
    inputs: &mut Vec<PeerInput>,
) -> Result<(), CarryEnd> {
    if !hub.membership.read(connection, input.len()) {
        return Err(CarryEnd::Link(LinkEnd::Replaced));
    }
    let now = hub.now();
    while let Some(frame) = decoder.next(&mut input)? {
        let received = hub.membership.received(connection, frame, now, inputs);
        received.map_err(|error| match error {
            PeerInputError::Refused(refusal) => CarryEnd::RefusedByPeer(refusal),
            error @ (PeerInputError::Damaged { .. } | PeerInputError::OtherNode { .. }) => {
                CarryEnd::Input(error)
            }
        })?;
    }
    if connection.kind == ConnectionKind::Pulse && hub.membership.due() <= now.monotonic_ms {
        hub.judge_now.notify_one();
    }
    if !inputs.is_empty() {
        inputs.sort_by_key(|input| match input {
            PeerInput::Group(group, _) => group.0,
            PeerInput::Node(_) | PeerInput::Session(..) => 0,
        });
        hub.handler.receive(connection, inputs);
        inputs.clear();
    }
    Ok(())
}

/// Writes what is put into the link, until that ends.
async fn write(link: Arc<PeerLink>, connection: PeerConnection, writer: SocketWriter) -> CarryEnd {
    let (number, mut batch) = (connection.number, LinkBatch::default());
    loop {
        let taken = poll_fn(|cx| link.poll_take(number, cx, &mut batch)).await;
        if let TakenFromLink::End(end) = taken {
            return CarryEnd::Link(end);
        }
        while batch.n_left() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let n_slices = batch.fill(&mut slices);
            let written = writer.try_write(slices.get(..n_slices).unwrap_or_default());
            match written {
                Ok(n) => link.wrote(number, &mut batch, n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(end) = wait_for_room(&link, connection, &writer).await {
                        return CarryEnd::Link(end);
                    }
                }
                Err(error) => return error.into(),
            }
        }
        // A socket that always has room does not keep its thread from others.
        tokio::task::coop::consume_budget().await;
    }
}

/// Waits until the socket has room, or the connection ends.
async fn wait_for_room(
    link: &PeerLink,
    connection: PeerConnection,
    writer: &SocketWriter,
) -> Option<LinkEnd> {
    poll_fn(|cx| match link.poll_end(connection.number, cx) {
        Poll::Ready(end) => Poll::Ready(Some(end)),
        Poll::Pending => writer.poll_room(cx).map(|()| None),
    })
    .await
}
