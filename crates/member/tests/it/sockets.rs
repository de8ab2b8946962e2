//! The sockets of a node: handshakes, and the frames of links.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use log::NodeNumber;
use member::{Membership, PeerConnection, PeerInput};
use peer::{
    ConnectionKind, FrameDecoder, HandshakeError, HandshakeRole, LinkBatch, PeerCookie, PeerDial,
    PeerHandshake, PeerLink, TakenFromLink,
};
use stdx::Now;
use testing::Random;
use testing::cluster_world::Port;
use testing::net::{Address, ConnectionNo, NetEvent};

/// Slices that are written at once.
const SLICES_MAX: usize = 16;

/// A socket in its handshake, or one that carries a link.
enum Socket {
    Handshake { handshake: Box<PeerHandshake>, dial: Option<PeerDial> },
    Open(Box<OpenSocket>),
}

struct OpenSocket {
    connection: PeerConnection,
    link: Arc<PeerLink>,
    decoder: FrameDecoder,
    batch: LinkBatch,
}

/// The sockets of a node.
#[derive(Default)]
pub(crate) struct Sockets(BTreeMap<ConnectionNo, Socket>);

/// The surroundings of sockets.
pub(crate) struct Around<'a, 'p> {
    pub(crate) membership: &'a Membership,
    pub(crate) random: &'a mut Random,
    pub(crate) port: &'a mut Port<'p>,
}

impl Around<'_, '_> {
    const fn now(&self) -> Now {
        self.port.now
    }

    fn handshake(&mut self, role: HandshakeRole, kind: ConnectionKind) -> Box<PeerHandshake> {
        let hello = self.membership.hello(kind, u128::from(self.random.next()));
        let cookie = PeerCookie::new(b"cookie").unwrap();
        Box::new(PeerHandshake::new(role, hello, cookie, self.now().monotonic_ms))
    }
}

impl Sockets {
    /// Makes the attempts to connect that are due. False if none is.
    pub(crate) fn dial(&mut self, around: &mut Around<'_, '_>) -> bool {
        let mut dials = Vec::new();
        around.membership.dials(around.now().monotonic_ms, &mut dials);
        let has_dials = !dials.is_empty();
        for dial in dials {
            let handshake = around.handshake(HandshakeRole::Dialler, dial.kind);
            let number = around.port.dial(Address(dial.address.port.into()));
            self.0.insert(number, Socket::Handshake { handshake, dial: Some(dial) });
        }
        has_dials
    }

    /// The socket that carries a link to a node.
    pub(crate) fn of_link(&self, with: NodeNumber, of: ConnectionKind) -> Option<ConnectionNo> {
        self.0.iter().find_map(|(number, socket)| {
            let Socket::Open(it) = socket else { return None };
            let is_it = it.connection.node == with && it.connection.kind == of;
            is_it.then_some(*number)
        })
    }

    /// The node at the other end of an open socket.
    pub(crate) fn node(&self, number: ConnectionNo) -> Option<NodeNumber> {
        match self.0.get(&number)? {
            Socket::Open(open) => Some(open.connection.node),
            Socket::Handshake { .. } => None,
        }
    }

    /// Takes an event of a socket; returns what its peer has sent.
    pub(crate) fn deliver(
        &mut self,
        number: ConnectionNo,
        event: NetEvent,
        around: &mut Around<'_, '_>,
    ) -> Vec<PeerInput> {
        let mut inputs = Vec::new();
        match event {
            NetEvent::Accepted { .. } => {
                let handshake = around.handshake(HandshakeRole::Acceptor, ConnectionKind::Ctl);
                self.0.insert(number, Socket::Handshake { handshake, dial: None });
            }
            NetEvent::Connected => {
                if let Some(Socket::Handshake { handshake, .. }) = self.0.get(&number) {
                    around.port.write(number, &handshake.opening());
                }
            }
            NetEvent::Bytes(bytes) => {
                let mut input = bytes.as_slice();
                if !self.shake_hands(number, &mut input, around) {
                    return inputs;
                }
                if !self.receive(number, input, &mut inputs, around) {
                    self.end(number, around);
                }
            }
            NetEvent::Closed | NetEvent::Lost => self.end(number, around),
        }
        inputs
    }

    /// Goes on with a handshake. False if the socket is not open after that.
    fn shake_hands(
        &mut self,
        number: ConnectionNo,
        input: &mut &[u8],
        around: &mut Around<'_, '_>,
    ) -> bool {
        let Some(Socket::Handshake { handshake, dial }) = self.0.get_mut(&number) else {
            return self.0.contains_key(&number);
        };
        let (dialled, mut out) = (dial.as_ref().map(|dial| dial.node), Vec::new());
        let judge = |hello: &_| around.membership.judge(hello, dialled);
        let outcome = handshake.receive(input, judge, &mut out);
        around.port.write(number, &out);
        let admitted = match outcome {
            Ok(None) => return false,
            Ok(Some(established)) => {
                around.membership.admit(&established, around.now().monotonic_ms)
            }
            Err(HandshakeError::Refused(refusal) | HandshakeError::RefusedByPeer(refusal)) => {
                Err(refusal)
            }
            Err(HandshakeError::Stranger) => {
                self.end(number, around);
                return false;
            }
        };
        match admitted {
            Ok(admission) => {
                let connection = admission.connection;
                let link = around.membership.link(connection.node, connection.kind).unwrap();
                let decoder = FrameDecoder::new(admission.vocabulary);
                let batch = LinkBatch::default();
                let open = Box::new(OpenSocket { connection, link, decoder, batch });
                self.0.insert(number, Socket::Open(open));
                true
            }
            Err(refusal) => {
                self.fail(number, Some(refusal.reason), around);
                false
            }
        }
    }

    /// Takes frames. False if the connection has ended, or has to.
    fn receive(
        &mut self,
        number: ConnectionNo,
        mut input: &[u8],
        inputs: &mut Vec<PeerInput>,
        around: &mut Around<'_, '_>,
    ) -> bool {
        let Some(Socket::Open(open)) = self.0.get_mut(&number) else { return true };
        if !around.membership.read(open.connection, input.len()) {
            return false;
        }
        while let Some(frame) = open.decoder.next(&mut input).unwrap() {
            let taken = around.membership.received(open.connection, frame, around.now(), inputs);
            taken.unwrap();
        }
        true
    }

    fn end(&mut self, number: ConnectionNo, around: &mut Around<'_, '_>) {
        self.fail(number, None, around);
    }

    fn fail(
        &mut self,
        number: ConnectionNo,
        refusal: Option<peer::PeerRefusalReason>,
        around: &mut Around<'_, '_>,
    ) {
        around.port.close(number);
        let (now, random) = (around.now().monotonic_ms, around.random.next());
        match self.0.remove(&number) {
            Some(Socket::Open(open)) => around.membership.closed(open.connection, now, random),
            Some(Socket::Handshake { dial: Some(dial), .. }) => {
                around.membership.dial_failed(&dial, refusal, now, random);
            }
            Some(Socket::Handshake { dial: None, .. }) | None => {}
        }
    }

    /// Writes what links have, and ends sockets that have to. False if there was nothing to do.
    pub(crate) fn write(&mut self, around: &mut Around<'_, '_>) -> bool {
        let mut has_worked = false;
        for number in self.0.keys().copied().collect::<Vec<_>>() {
            let Some(socket) = self.0.get_mut(&number) else { continue };
            let outcome = match socket {
                Socket::Handshake { handshake, dial } => {
                    let deadline =
                        dial.as_ref().map_or_else(|| handshake.deadline(), |dial| dial.deadline);
                    (around.now().monotonic_ms < deadline).then_some(false)
                }
                Socket::Open(open) => open.write(number, around.port),
            };
            has_worked |= outcome != Some(false);
            if outcome.is_none() {
                self.end(number, around);
            }
        }
        has_worked
    }
}

impl OpenSocket {
    /// Writes what the socket takes; whether that was anything, none if the connection has ended.
    fn write(&mut self, number: ConnectionNo, port: &mut Port<'_>) -> Option<bool> {
        let (cx, of) = (Context::from_waker(Waker::noop()), self.connection.number);
        if self.batch.n_left() == 0 {
            match self.link.poll_take(of, &cx, &mut self.batch) {
                Poll::Pending => return Some(false),
                Poll::Ready(TakenFromLink::End(_)) => return None,
                Poll::Ready(TakenFromLink::Batch) => {}
            }
        } else if self.link.poll_end(of, &cx).is_ready() {
            return None;
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let n = self.batch.fill(&mut slices);
        let mut n_written = 0;
        for slice in &slices[..n] {
            let taken = port.write(number, slice);
            n_written += taken;
            if taken < slice.len() {
                break;
            }
        }
        self.link.wrote(of, &mut self.batch, n_written);
        Some(n_written > 0)
    }
}
