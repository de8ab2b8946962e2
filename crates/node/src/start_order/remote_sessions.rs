//! Sessions at queues of other nodes, and of other nodes at this one's, over the connections between them.

use super::cluster::ClusterRun;
use broker::{Alarm, Broker, HomeLinks, RemoteSessions, other_homes};
use log::NodeNumber;
use member::{MemberEvent, Membership, PeerConnection, PeerInput};
use peer::{ConnectionKind, PeerLink, PulseAlarms, SessionFrame};
use std::sync::Arc;
use std::time::Duration;

/// The time after which a suspected node counts as gone for its clients: what they hold here is given back,
/// and consumers at its queues are cancelled.
const GONE: Duration = Duration::from_secs(5);

/// The links to the homes of queues.
#[derive(Debug)]
struct WorkLinks(Arc<Membership>);

impl HomeLinks for WorkLinks {
    fn link(&self, node: NodeNumber) -> Option<Arc<PeerLink>> {
        self.0.link(node, ConnectionKind::Work)
    }
}

/// Both sides of the sessions between this node and others.
#[derive(Debug)]
pub(super) struct PeerSessions {
    broker: Arc<Broker>,
    /// Sessions of other nodes' clients at queues of this node.
    served: RemoteSessions,
    run: Arc<ClusterRun>,
    membership: Arc<Membership>,
}

impl PeerSessions {
    pub(super) fn new(run: &Arc<ClusterRun>, membership: &Arc<Membership>) -> Self {
        let broker = Arc::clone(run.broker());
        other_homes(&broker.control_plane).connect(Arc::new(WorkLinks(Arc::clone(membership))));
        let served = RemoteSessions::new(Arc::clone(&broker));
        Self { broker, served, run: Arc::clone(run), membership: Arc::clone(membership) }
    }

    /// Takes the frames of sessions among what one read has brought, and leaves the rest.
    pub(super) fn receive(&self, connection: PeerConnection, inputs: &mut Vec<PeerInput>) {
        let PeerConnection { node, number, .. } = connection;
        let Some(link) = self.membership.link(node, connection.kind) else { return };
        let of_sessions = inputs.extract_if(.., |input| matches!(input, PeerInput::Session(..)));
        let (mut for_home, mut read) = (Vec::new(), Ok(()));
        for input in of_sessions {
            let PeerInput::Session(frame, body) = input else { continue };
            match frame {
                SessionFrame::Put | SessionFrame::Command | SessionFrame::Request => {
                    for_home.push((frame, body));
                }
                SessionFrame::Response
                | SessionFrame::Answers
                | SessionFrame::Deliver
                | SessionFrame::Event => {
                    let homes = other_homes(&self.broker.control_plane);
                    read = read.and_then(|()| homes.receive(node, number, frame, &body));
                }
            }
        }
        if !for_home.is_empty() {
            read = read.and_then(|()| self.served.receive(node, number, &link, for_home));
        }
        if let Err(error) = read {
            tracing::warn!("node {} sends what cannot be read: {error}", node.0);
            self.membership.end(node, connection.kind);
        }
    }

    /// Notes that a connection has ended.
    pub(super) fn ended(&self, connection: PeerConnection) {
        if connection.kind == ConnectionKind::Work {
            let PeerConnection { node, number, .. } = connection;
            other_homes(&self.broker.control_plane).ended(node, number);
            self.served.ended(node, number);
        }
    }

    /// Notes the alarms of other nodes that are alive: publishers wait for them too.
    pub(super) fn note_alarms(&self) {
        let living = self.membership.living();
        let pulses =
            living.nodes().filter_map(|node| self.membership.newest_pulse(NodeNumber(node)));
        let [mut memory, mut disk] = [false; 2];
        for PulseAlarms { memory: is_short, disk: is_full } in pulses.map(|pulse| pulse.alarms) {
            memory |= is_short;
            disk |= is_full;
        }
        let on = [(Alarm::Memory, memory), (Alarm::Disk, disk)];
        self.broker.alarms.set_of_others(on.iter().filter(|(_, is_on)| *is_on).map(|(it, _)| *it));
    }

    /// Takes events of peers.
    pub(super) fn events(&self, events: &[MemberEvent]) {
        for event in events {
            match *event {
                MemberEvent::LinkMade(node, ConnectionKind::Work) => {
                    other_homes(&self.broker.control_plane).made(node);
                }
                MemberEvent::Suspected { node, .. } => self.end_unless_alive(node),
                MemberEvent::Alive { .. }
                | MemberEvent::Forgotten(_)
                | MemberEvent::LinkMade(..)
                | MemberEvent::Stuck(_)
                | MemberEvent::ClockSkew { .. } => {}
            }
        }
    }

    /// Ends the connection with a suspected node, unless it is alive by then.
    fn end_unless_alive(&self, node: NodeNumber) {
        let (run, membership) = (Arc::clone(&self.run), Arc::clone(&self.membership));
        tokio::spawn(async move {
            run.timers().sleep(GONE).await;
            if !run.is_alive(node.0) {
                membership.end(node, ConnectionKind::Work);
            }
        });
    }
}
