//! The handshake of a connection that has just been made: TLS where it is configured, then hellos and proofs.

use super::socket::{PeerSocket, read, write_all};
use peer::{
    HANDSHAKE_BYTES_MAX, HandshakeError, PeerEstablished, PeerHandshake, PeerHello, PeerRefusal,
};
use std::io;

/// The reason why no connection came of a socket.
#[derive(Debug, thiserror::Error)]
pub enum PeerConnectError {
    /// The address cannot be resolved, or the socket fails.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// A side does not accept what the other one offers or shows.
    #[error("TLS handshake failed: {0}")]
    Encryption(String),
    /// A side refuses, or the other one is no node.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// The attempt has taken too long.
    #[error("no answer in time")]
    TimedOut,
}

impl PeerConnectError {
    /// The refusal of either side.
    pub(super) const fn refusal(&self) -> Option<&PeerRefusal> {
        match self {
            Self::Handshake(
                HandshakeError::Refused(refusal) | HandshakeError::RefusedByPeer(refusal),
            ) => Some(refusal),
            Self::Handshake(HandshakeError::Stranger)
            | Self::Socket(_)
            | Self::Encryption(_)
            | Self::TimedOut => None,
        }
    }

    /// Whether the acceptor's operator has to know: ports are also probed by whoever checks that they are
    /// open.
    pub(super) const fn is_told(&self) -> bool {
        self.refusal().is_some() || matches!(self, Self::Encryption(_))
    }
}

/// Drives a handshake to its end. Frames that came behind it are kept with the socket.
///
/// # Errors
/// No connection comes of it; the peer has been told of a refusal.
pub(super) async fn shake_hands(
    socket: &mut PeerSocket,
    mut handshake: PeerHandshake,
    judge: impl Fn(&PeerHello) -> Result<(), PeerRefusal>,
) -> Result<PeerEstablished, PeerConnectError> {
    write_all(&socket.writer, &handshake.opening()).await?;
    let mut buffer = vec![0; HANDSHAKE_BYTES_MAX];
    loop {
        let n = read(&mut socket.reader, &mut buffer).await?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let (mut input, mut out) = (buffer.get(..n).unwrap_or_default(), Vec::new());
        let outcome = handshake.receive(&mut input, &judge, &mut out);
        write_all(&socket.writer, &out).await?;
        if let Some(established) = outcome? {
            socket.early = input.to_vec().into();
            return Ok(established);
        }
    }
}
