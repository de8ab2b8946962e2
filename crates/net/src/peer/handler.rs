//! The host of a node's connections with its peers.

use super::socket::PeerTunnel;
use member::{MemberEvent, PeerConnection, PeerInput, PulseHealth};
use peer::PeerHello;
use std::fmt::Debug;
use std::task::{Context, Poll};

/// The host that takes what peers send. All but [`PeerHandler::health`] is called on the runtime's threads.
pub trait PeerHandler: Debug + Send + Sync {
    /// Takes what one read of a connection has brought, and leaves `inputs` empty: messages of groups group
    /// by group, those of each group in order; messages of the node in order.
    fn receive(&self, connection: PeerConnection, inputs: &mut Vec<PeerInput>);

    /// Notes that a connection has ended: its link is closed, and nothing comes over it any more.
    fn ended(&self, connection: PeerConnection);

    /// Waits until the host has room for what the connection brings: until then its socket is not read. The
    /// peer takes a connection that is not read for five seconds for stuck.
    fn poll_room(&self, connection: PeerConnection, cx: &mut Context<'_>) -> Poll<()>;

    /// Takes events, in order.
    fn events(&self, events: Vec<MemberEvent>);

    /// The health of this node, for its pulses. Called on their thread five times a second: it takes no lock
    /// that is held for longer than a few microseconds.
    fn health(&self) -> PulseHealth;

    /// Takes the tunnel of a tool or of a node that joins, whose hello this was. The peer has the cookie.
    fn tunnel(&self, peer: PeerHello, tunnel: PeerTunnel);
}
