//! Nodes with sockets between them and hosts that write down what comes.

use admission::{Admission, Descriptors};
use log::{ClusterId, NodeIdentity, NodeNumber};
use member::{MemberEvent, Membership, MembershipOptions, PeerConnection, PeerInput, PulseHealth};
use net::peer::{PeerHandler, PeerService, PeerServiceOptions, PeerTransport, PeerTunnel};
use net::{Clock, ListenAddress, Timers};
use peer::{
    ConnectionKind, LinkLimits, NodeMessage, PeerAddress, PeerCookie, PeerHello, SpokenRange,
};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stdx::lock;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The time after which a condition that tests wait for will not come any more.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) const LIMITS: LinkLimits = LinkLimits { room_bytes: 1 << 20, bytes_max: 4 << 20 };

/// A host.
#[derive(Debug, Default)]
pub(crate) struct PeerHost {
    pub(crate) events: Mutex<Vec<MemberEvent>>,
    pub(crate) inputs: Mutex<Vec<(PeerConnection, PeerInput)>>,
    pub(crate) tunnels: Mutex<Vec<(PeerHello, PeerTunnel)>>,
    /// The reader that waits for room; none if there is room.
    full: Mutex<Option<Vec<Waker>>>,
    /// The number of calls.
    changes: watch::Sender<u64>,
}

impl PeerHost {
    fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        let waiting = std::mem::replace(&mut *lock(&self.full), is_full.then(Vec::new));
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether a reader waits for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        lock(&self.full).as_ref().is_some_and(|waiting| !waiting.is_empty())
    }

    /// Waits until the host knows what is wanted.
    pub(crate) async fn wait(&self, what: &str, is_there: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        let wait = changes.wait_for(|_| is_there(self));
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "{what} does not come: {:?}", lock(&self.events));
    }

    pub(crate) fn n_made(&self, node: u16, kind: ConnectionKind) -> usize {
        let made = MemberEvent::LinkMade(NodeNumber(node), kind);
        lock(&self.events).iter().filter(|event| **event == made).count()
    }

    /// Waits until each kind of connection with a node has been made so often at least.
    pub(crate) async fn wait_for_links(&self, node: u16, n_times: usize) {
        let is_there = |host: &Self| {
            ConnectionKind::HELD.into_iter().all(|kind| host.n_made(node, kind) >= n_times)
        };
        self.wait("a link", is_there).await;
    }

    pub(crate) async fn wait_until_alive(&self, node: u16) {
        let is_it = |event: &MemberEvent| matches!(event, MemberEvent::Alive { node: it, .. } if it.0 == node);
        self.wait("a pulse", |host| lock(&host.events).iter().any(is_it)).await;
    }

    pub(crate) async fn wait_for_inputs(&self, n: usize) {
        self.wait("a frame", |host| lock(&host.inputs).len() >= n).await;
    }
}

impl PeerHandler for PeerHost {
    fn receive(&self, connection: PeerConnection, inputs: &mut Vec<PeerInput>) {
        lock(&self.inputs).extend(inputs.drain(..).map(|input| (connection, input)));
        self.changed();
    }

    fn ended(&self, _: PeerConnection) {}

    fn poll_room(&self, connection: PeerConnection, cx: &mut Context<'_>) -> Poll<()> {
        let mut full = lock(&self.full);
        match &mut *full {
            Some(waiting) if connection.kind == ConnectionKind::Work => {
                waiting.push(cx.waker().clone());
                drop(full);
                self.changed();
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }

    fn events(&self, events: Vec<MemberEvent>) {
        lock(&self.events).extend(events);
        self.changed();
    }

    fn health(&self) -> PulseHealth {
        PulseHealth::default()
    }

    fn tunnel(&self, peer: PeerHello, tunnel: PeerTunnel) {
        lock(&self.tunnels).push((peer, tunnel));
        self.changed();
    }
}

/// A node that may not have been started.
pub(crate) struct PeerNode {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) membership: Arc<Membership>,
    pub(crate) host: Arc<PeerHost>,
    pub(crate) transport: PeerTransport,
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
    service: Option<PeerService>,
}

impl PeerNode {
    /// A node of this number and name, with changes to its identity and transport.
    pub(crate) fn new(
        number: u16,
        name: &str,
        change: impl FnOnce(&mut NodeIdentity, &mut PeerTransport),
    ) -> Self {
        let mut me = NodeIdentity {
            cluster: ClusterId(7 << 100 | 3),
            epoch: 1,
            number: NodeNumber(number),
            boot: 1,
            name: name.to_owned(),
        };
        let cookie = PeerCookie::new(b"crumb").unwrap();
        let (clock, timers) = (Clock::start(), Timers::start().unwrap());
        let mut transport = PeerTransport { cookie, tls: None, clock, timers };
        change(&mut me, &mut transport);
        let levels = SpokenRange { min: 1, max: 1 };
        let address = ListenAddress::One("127.0.0.1:0".parse().unwrap());
        let listener = address.listen(64).unwrap();
        Self {
            number: me.number.0,
            name: me.name.clone(),
            membership: Arc::new(Membership::new(MembershipOptions { me, levels, limits: LIMITS })),
            host: Arc::default(),
            transport,
            address: listener.local_addr().unwrap(),
            listener: Some(listener),
            service: None,
        }
    }

    /// Makes another node a member as this one knows it, at an address.
    pub(crate) fn knows(&self, other: &Self, address: SocketAddr) {
        let address = PeerAddress { host: "localhost".to_owned(), port: address.port() };
        let now = self.transport.clock.now().monotonic_ms;
        let node = (NodeNumber(other.number), 0);
        self.membership.set_member(node, &other.name, address, now);
        self.service.iter().for_each(|it| it.members_changed().notify_one());
    }

    pub(crate) fn start(&mut self) {
        let options = PeerServiceOptions {
            listener: self.listener.take(),
            transport: self.transport.clone(),
            admission: Admission::new(Arc::new(Descriptors::new(1 << 20))),
        };
        let (membership, host) = (Arc::clone(&self.membership), Arc::clone(&self.host));
        self.service = Some(PeerService::start(options, membership, host).unwrap());
    }

    pub(crate) async fn stop(&mut self) {
        let service = self.service.take().expect("the node runs");
        tokio::time::timeout(DEADLINE, service.stop()).await.expect("the service stops");
    }

    /// Sends a message of the node.
    pub(crate) fn ask(&self, to: u16, request: u64, n_bytes: usize) {
        let link = self.membership.link(NodeNumber(to), ConnectionKind::Work).unwrap();
        let message = NodeMessage::Ask(request, vec![7; n_bytes].into());
        link.put(|out| message.put(out)).into_iter().for_each(Waker::wake);
    }

    /// The numbers of the requests that have come.
    pub(crate) fn requests(&self) -> Vec<u64> {
        let inputs = lock(&self.host.inputs);
        let request = |(_, input): &(PeerConnection, PeerInput)| match input {
            PeerInput::Node(NodeMessage::Ask(request, _)) => Some(*request),
            PeerInput::Node(_) | PeerInput::Session(..) | PeerInput::Group(..) => None,
        };
        inputs.iter().filter_map(request).collect()
    }
}

/// Two nodes that know each other at these addresses.
pub(crate) fn introduce(one: &PeerNode, other: &PeerNode) {
    one.knows(other, other.address);
    other.knows(one, one.address);
}
