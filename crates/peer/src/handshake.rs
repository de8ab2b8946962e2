//! The handshake at the beginning of a connection, for both sides.
//!
//! ```text
//! dialler                             acceptor
//! hello                      ->
//!                            <-       hello
//! proof of the dialler       ->
//!                            <-       proof of the acceptor
//! ```
//!
//! A proof is HMAC-SHA-256 with the cookie as key over the role and both hellos as they were sent: whoever
//! sends a proof back, or one of another connection, has a wrong one. The dialler proves first: an acceptor
//! computes for a stranger one HMAC, and gives away none. Instead of a message a side may send a refusal and
//! close. A peer's refusal proves nothing: it only puts off the next attempt.

use crate::frame::{FRAME_HEAD_BYTES, parse_head, put_frame};
use crate::hello::{HANDSHAKE_BYTES_MAX, MAGIC, PeerHello};
use crate::kinds::FrameKind;
use crate::refusal::{PeerRefusal, PeerRefusalReason};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use stdx::MonotonicMs;

/// The time that a handshake may take.
pub const HANDSHAKE_MS: u64 = 2_000;

/// Separates proofs from whatever else a cookie may be used for.
const LABEL: &[u8] = b"leveret peer handshake";

/// The secret that the nodes of a cluster share.
#[derive(Clone)]
pub struct PeerCookie(Vec<u8>);

stdx::debug_of!(|cookie: PeerCookie| n_bytes = cookie.0.len());

impl PeerCookie {
    /// The cookie of these bytes; none if there are none.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    /// Begins the proof of a side; none only of a key that no HMAC takes.
    fn proof(&self, role: HandshakeRole, hellos: [&[u8]; 2]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(LABEL);
        mac.update(&[role as u8]);
        for hello in hellos {
            mac.update(&u64::try_from(hello.len()).ok()?.to_le_bytes());
            mac.update(hello);
        }
        Some(mac)
    }
}

/// The side of a connection that a node is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRole {
    /// The node has made the connection.
    Dialler,
    /// The node has accepted it.
    Acceptor,
}

/// The end of a handshake that failed: the connection is closed once what there is to send is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The refusal of this node, which tells the peer.
    #[error("{0}")]
    Refused(PeerRefusal),
    /// The peer refuses.
    #[error("{0}")]
    RefusedByPeer(PeerRefusal),
    /// The other side is no node, which is told nothing.
    #[error("the other side is no Leveret node")]
    Stranger,
}

/// A connection whose peer has proved that it has the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEstablished {
    /// The peer's hello.
    pub peer: PeerHello,
    /// The side of this node.
    pub role: HandshakeRole,
    /// The version that both sides speak.
    pub version: u16,
    /// The level that both sides speak.
    pub level: u16,
}

/// A handshake under way.
#[derive(Debug)]
pub struct PeerHandshake {
    role: HandshakeRole,
    ours: PeerHello,
    cookie: PeerCookie,
    deadline: MonotonicMs,
    /// The body of this side's hello.
    our_hello: Vec<u8>,
    /// The body of the peer's.
    their_hello: Vec<u8>,
    /// The peer's hello, once it has come and was found good.
    peer: Option<PeerHello>,
    /// The message that is coming, from its magic on.
    message: Vec<u8>,
    n_received: usize,
}

impl PeerHandshake {
    /// Begins a handshake at `now`.
    #[must_use]
    pub fn new(role: HandshakeRole, ours: PeerHello, cookie: PeerCookie, now: MonotonicMs) -> Self {
        let our_hello = ours.encode();
        let deadline = now.plus(HANDSHAKE_MS);
        let (their_hello, message, n_received) = (Vec::new(), Vec::new(), 0);
        let peer = None;
        Self { role, ours, cookie, deadline, our_hello, their_hello, peer, message, n_received }
    }

    /// The bytes that this side sends before anything has come.
    #[must_use]
    pub fn opening(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.role == HandshakeRole::Dialler {
            self.put_hello(&mut out);
        }
        out
    }

    /// The time at which the connection is closed if the handshake is not done.
    #[must_use]
    pub const fn deadline(&self) -> MonotonicMs {
        self.deadline
    }

    /// Takes what belongs to the handshake from the front of `input`, and appends what is to be sent to
    /// `out`. `judge` decides about the peer: the dialler asks it before it proves anything, the acceptor
    /// once the peer has. After the end frames follow in both directions.
    ///
    /// # Errors
    /// No connection comes of it: `out` is sent, and the socket is closed.
    pub fn receive(
        &mut self,
        input: &mut &[u8],
        judge: impl Fn(&PeerHello) -> Result<(), PeerRefusal>,
        out: &mut Vec<u8>,
    ) -> Result<Option<PeerEstablished>, HandshakeError> {
        let outcome = self.advance(input, judge, out);
        if let Err(HandshakeError::Refused(refusal)) = &outcome {
            if self.role == HandshakeRole::Acceptor && self.their_hello.is_empty() {
                out.extend(MAGIC);
            }
            refusal.encode(out);
        }
        outcome
    }

    fn advance(
        &mut self,
        input: &mut &[u8],
        judge: impl Fn(&PeerHello) -> Result<(), PeerRefusal>,
        out: &mut Vec<u8>,
    ) -> Result<Option<PeerEstablished>, HandshakeError> {
        let is_dialler = self.role == HandshakeRole::Dialler;
        while let Some((kind, body)) = self.next_message(input)? {
            match (kind, self.peer.take()) {
                (FrameKind::HELLO, None) => {
                    let peer = self.check(&body)?;
                    if is_dialler {
                        judge(&peer).map_err(HandshakeError::Refused)?;
                    } else {
                        // The dialler says what the connection is for.
                        self.ours.kind = peer.kind;
                        self.our_hello = self.ours.encode();
                    }
                    self.their_hello = body;
                    if is_dialler {
                        self.put_proof(FrameKind::PROOF, out);
                    } else {
                        self.put_hello(out);
                    }
                    self.peer = Some(peer);
                }
                (FrameKind::PROOF, Some(peer)) if !is_dialler => {
                    self.verify(&body, &peer)?;
                    judge(&peer).map_err(HandshakeError::Refused)?;
                    self.put_proof(FrameKind::WELCOME, out);
                    return Ok(Some(self.established(peer)));
                }
                (FrameKind::WELCOME, Some(peer)) if is_dialler => {
                    self.verify(&body, &peer)?;
                    return Ok(Some(self.established(peer)));
                }
                (FrameKind::REFUSED, _) => {
                    let refusal = PeerRefusal::decode(&body);
                    return Err(HandshakeError::RefusedByPeer(refusal));
                }
                (_, _) => return Err(HandshakeError::Stranger),
            }
        }
        Ok(None)
    }

    /// Reads the peer's hello and checks what needs no proof.
    fn check(&self, body: &[u8]) -> Result<PeerHello, HandshakeError> {
        let refuse = |reason, text| Err(HandshakeError::Refused(PeerRefusal::new(reason, text)));
        let (ours, us) = (&self.ours, &self.ours.identity.name);
        let Ok(peer) = PeerHello::decode(body) else {
            let text = format!("{us} cannot read the hello of the other node: check both versions");
            return refuse(PeerRefusalReason::Protocol, text);
        };
        let them = &peer.identity.name;
        let is_same = ours.identity == peer.identity && ours.identity.number.0 != 0;
        let [versions, levels] = [[ours.versions, peer.versions], [ours.levels, peer.levels]];
        if ours.nonce == peer.nonce || is_same {
            let text = format!("{us} has connected to itself: correct the address of its peer");
            refuse(PeerRefusalReason::ItSelf, text)
        } else if self.role == HandshakeRole::Dialler && ours.kind != peer.kind {
            let text = format!("{us} dialled {them} for another connection: check both versions");
            refuse(PeerRefusalReason::Protocol, text)
        } else if let ([mine, theirs], None) = (versions, ours.versions.common(peer.versions)) {
            let text = format!(
                "{us} speaks versions {mine} between nodes, {them} versions {theirs}: upgrade one of them"
            );
            refuse(PeerRefusalReason::NoCommonVersion, text)
        } else if let ([mine, theirs], None) = (levels, ours.levels.common(peer.levels)) {
            let text = format!(
                "{us} supports levels {mine} of the cluster, {them} levels {theirs}: upgrade the older one, \
                 one release at a time"
            );
            refuse(PeerRefusalReason::NoCommonLevel, text)
        } else {
            Ok(peer)
        }
    }

    fn put_hello(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        put_frame(out, FrameKind::HELLO, &self.our_hello);
    }

    /// The proof that the dialler or the acceptor gives.
    fn proof(&self, of: HandshakeRole) -> Option<Hmac<Sha256>> {
        let [ours, theirs] = [self.our_hello.as_slice(), &self.their_hello];
        let is_dialler = self.role == HandshakeRole::Dialler;
        self.cookie.proof(of, if is_dialler { [ours, theirs] } else { [theirs, ours] })
    }

    fn put_proof(&self, kind: FrameKind, out: &mut Vec<u8>) {
        let proof = self.proof(self.role);
        proof.into_iter().for_each(|mac| put_frame(out, kind, &mac.finalize().into_bytes()));
    }

    /// Compares the peer's proof, in constant time.
    fn verify(&self, proof: &[u8], peer: &PeerHello) -> Result<(), HandshakeError> {
        let expected = self.proof(match self.role {
            HandshakeRole::Dialler => HandshakeRole::Acceptor,
            HandshakeRole::Acceptor => HandshakeRole::Dialler,
        });
        if expected.is_some_and(|mac| mac.verify_slice(proof).is_ok()) {
            return Ok(());
        }
        let text = format!(
            "the cookies of {} and {} differ: give both the same RABBITMQ_ERLANG_COOKIE or .erlang.cookie",
            self.ours.identity.name, peer.identity.name
        );
        Err(HandshakeError::Refused(PeerRefusal::new(PeerRefusalReason::WrongCookie, text)))
    }

    fn established(&self, peer: PeerHello) -> PeerEstablished {
        let version = self.ours.versions.common(peer.versions).unwrap_or_default();
        let level = self.ours.levels.common(peer.levels).unwrap_or_default();
        PeerEstablished { peer, role: self.role, version, level }
    }

    /// Takes the next message, none of the bytes that follow it; returns its kind and body.
    fn next_message(
        &mut self,
        input: &mut &[u8],
    ) -> Result<Option<(FrameKind, Vec<u8>)>, HandshakeError> {
        let head_at = if self.n_received == 0 { MAGIC.len() } else { 0 };
        let body_at = head_at + FRAME_HEAD_BYTES;
        loop {
            let head = self.message.get(head_at..).and_then(|head| head.first_chunk());
            let head = head.map(|head| parse_head(*head));
            let n_wanted = body_at + head.map_or(0, |(_, n_body)| n_body as usize);
            if self.n_received + n_wanted > HANDSHAKE_BYTES_MAX {
                return Err(HandshakeError::Stranger);
            }
            let (part, rest) = input.split_at(input.len().min(n_wanted - self.message.len()));
            *input = rest;
            self.message.extend_from_slice(part);
            if self.message.iter().zip(MAGIC).take(head_at).any(|(it, its)| *it != its) {
                return Err(HandshakeError::Stranger);
            }
            if self.message.len() < n_wanted {
                return Ok(None);
            }
            if let Some((kind, _)) = head {
                self.n_received += n_wanted;
                let mut message = std::mem::take(&mut self.message);
                return Ok(Some((kind, message.split_off(body_at))));
            }
        }
    }
}
