//! Two members without sockets: what goes over a link between them, and when.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cluster::{GroupRequest, Message, MessageBody, OutgoingMessage, PeerId};
use log::{ClusterId, Lsn, NodeIdentity, NodeNumber, Owner};
use member::{
    GroupTimers, GroupWork, HELD_MESSAGES_MAX, MemberAdmission, MemberEvent, Membership,
    MembershipOptions, PeerConnection, PeerInput, PeerInputError,
};
use peer::{
    ConnectionKind, FrameBody, FrameDecoder, FrameKind, HandshakeRole, LinkBatch, LinkLimits,
    PeerAddress, PeerEstablished, PeerFrame, SpokenRange, TakenFromLink,
};
use proptest::prelude::*;
use stdx::{MonotonicMs, Now};

const NOW: Now = Now::at_ms(1_000);
const GROUP: Owner = Owner(7);

/// A member and its end of a connection.
struct Side {
    membership: Membership,
    connection: PeerConnection,
    decoder: FrameDecoder,
}

fn member(number: u16) -> Membership {
    let name = format!("rabbit@{number}");
    let number = NodeNumber(number);
    let me = NodeIdentity { cluster: ClusterId(1), epoch: 1, number, boot: 1, name };
    let limits = LinkLimits { room_bytes: 1 << 10, bytes_max: 1 << 20 };
    let levels = SpokenRange { min: 0, max: 0 };
    let membership = Membership::new(MembershipOptions { me, levels, limits });
    for other in [1, 2] {
        let address = PeerAddress { host: "host".to_owned(), port: other };
        let (node, name) = ((NodeNumber(other), 0), format!("rabbit@{other}"));
        membership.set_member(node, &name, address, NOW.monotonic_ms);
    }
    membership
}

fn admit(membership: Membership, peer: &Membership, role: HandshakeRole) -> Side {
    let peer = peer.hello(ConnectionKind::Raft, 5);
    let established = PeerEstablished { peer, role, version: 1, level: 0 };
    let admitted = membership.admit(&established, NOW.monotonic_ms).unwrap();
    let MemberAdmission { connection, vocabulary, ended } = admitted;
    assert_eq!(ended, []);
    Side { membership, connection, decoder: FrameDecoder::new(vocabulary) }
}

/// Nodes 1 and 2 with a connection of kind `raft`.
fn pair() -> [Side; 2] {
    let [one, two] = [member(1), member(2)];
    let there = admit(two, &one, HandshakeRole::Acceptor);
    [admit(one, &there.membership, HandshakeRole::Dialler), there]
}

impl Side {
    fn send(&self, body: MessageBody, after: Option<u64>) {
        let [from, to] = [1_u64, 2].map(|node| PeerId(node << 48 | 1));
        let message = Message { from, to, term: 3, body };
        drop(self.membership.send(GROUP, OutgoingMessage { message, after: after.map(Lsn) }));
    }

    /// The bytes that wait to be written.
    fn take(&self) -> Vec<u8> {
        let link = self.membership.link(NodeNumber(2), ConnectionKind::Raft).unwrap();
        let (mut batch, mut bytes) = (LinkBatch::default(), Vec::new());
        let cx = Context::from_waker(Waker::noop());
        let number = self.connection.number;
        while link.poll_take(number, &cx, &mut batch) == Poll::Ready(TakenFromLink::Batch) {
            let mut slices = [std::io::IoSlice::new(&[]); 8];
            let n = batch.fill(&mut slices);
            let part: Vec<u8> = slices[..n].iter().flat_map(|slice| slice.to_vec()).collect();
            link.wrote(number, &mut batch, part.len());
            bytes.extend(part);
        }
        bytes
    }

    fn receive(&mut self, mut bytes: &[u8]) -> Vec<MessageBody> {
        assert!(self.membership.read(self.connection, bytes.len()));
        let mut inputs = Vec::new();
        while let Some(frame) = self.decoder.next(&mut bytes).unwrap() {
            self.membership.received(self.connection, frame, NOW, &mut inputs).unwrap();
        }
        let body = |input| {
            let PeerInput::Group(GROUP, message) = input else { panic!("{input:?}") };
            message.body
        };
        inputs.into_iter().map(body).collect()
    }
}

const fn appended(index: u64) -> MessageBody {
    MessageBody::Appended { index, commit: 1 }
}

#[test]
fn messages_leave_in_order_once_the_log_is_durable() {
    let [one, mut two] = pair();
    one.send(appended(1), None);
    one.send(appended(2), Some(20));
    one.send(appended(3), None);
    one.send(appended(4), Some(30));
    assert_eq!(two.receive(&one.take()), [appended(1)]);
    drop(one.membership.durable(Lsn(19)));
    assert!(one.take().is_empty());
    drop(one.membership.durable(Lsn(20)));
    assert_eq!(two.receive(&one.take()), [appended(2), appended(3)]);
    drop(one.membership.durable(Lsn(40)));
    one.send(appended(5), Some(35));
    assert_eq!(two.receive(&one.take()), [appended(4), appended(5)]);
}

#[test]
fn the_latest_heartbeat_and_commit_of_a_group_go_out_with_a_batch() {
    let [one, mut two] = pair();
    for commit in 1..5 {
        one.send(MessageBody::Heartbeat { commit }, None);
        one.send(MessageBody::Commit { commit: commit + 10 }, None);
        one.send(MessageBody::HeartbeatAnswer { commit: commit + 20 }, None);
    }
    let bodies = two.receive(&one.take());
    let expected = [
        MessageBody::Heartbeat { commit: 4 },
        MessageBody::HeartbeatAnswer { commit: 24 },
        MessageBody::Commit { commit: 14 },
    ];
    assert_eq!(bodies, expected);
}

#[test]
fn a_link_is_made_anew_when_too_many_messages_wait_for_the_log() {
    let [one, _two] = pair();
    assert_eq!(one.membership.tick(NOW.monotonic_ms).len(), 1);
    for index in 0..=HELD_MESSAGES_MAX as u64 {
        one.send(appended(index), Some(9));
    }
    assert!(!one.membership.read(one.connection, 1), "the connection has ended");
    one.membership.closed(one.connection, NOW.monotonic_ms, 0);
    let again = admit(one.membership, &member(2), HandshakeRole::Dialler);
    let made = MemberEvent::LinkMade(NodeNumber(2), ConnectionKind::Raft);
    assert_eq!(again.membership.tick(NOW.monotonic_ms), [made]);
}

#[test]
fn a_message_for_a_replica_elsewhere_ends_the_connection() {
    let [one, two] = pair();
    one.send(appended(1), None);
    let bytes = one.take();
    let body = FrameBody::Within(&bytes[4..]);
    let frame = PeerFrame { kind: FrameKind(bytes[3]), body };
    let mut inputs = Vec::new();
    // Node 1 takes it for a message of node 2.
    let taken = one.membership.received(one.connection, frame, NOW, &mut inputs);
    assert_eq!(taken, Err(PeerInputError::OtherNode { group: GROUP }));
    assert_eq!(two.membership.me().number, NodeNumber(2));
}

#[test]
fn a_group_has_one_campaign_and_one_tick_that_are_due() {
    let (timers, at) = (GroupTimers::default(), |ms: u64| MonotonicMs::from_raw(1_000 + ms));
    assert!(timers.request(GROUP, GroupRequest::CampaignLater, at(0), 300));
    assert!(!timers.request(GROUP, GroupRequest::CampaignLater, at(500), 0));
    assert!(timers.request(GROUP, GroupRequest::TickLater, at(100), 0));
    assert!(!timers.request(GROUP, GroupRequest::Stopped, at(100), 0));
    assert_eq!((timers.due(), timers.next(at(1_099))), (at(1_100), None));
    assert_eq!(timers.next(at(1_300)), Some((GROUP, GroupWork::Tick)));
    assert_eq!(timers.next(at(1_300)), Some((GROUP, GroupWork::Campaign)));
    assert!(timers.request(GROUP, GroupRequest::Image, at(1_400), 0));
    assert_eq!(timers.next(at(1_400)), Some((GROUP, GroupWork::Image)));
    timers.request(GROUP, GroupRequest::TickLater, at(1_400), 0);
    timers.remove(GROUP);
    assert_eq!(timers.due(), MonotonicMs::NEVER);
}

#[test]
fn many_campaigns_are_spread_to_two_thousand_in_a_second() {
    let (timers, now) = (GroupTimers::default(), MonotonicMs::from_raw(0));
    let mut random = testing::Random::new(1);
    for group in 1..=20_000 {
        timers.request(Owner(group), GroupRequest::CampaignLater, now, random.next());
    }
    let mut most = 0;
    for second in 1..12 {
        let end = MonotonicMs::from_raw(1_000 * second);
        most = most.max(std::iter::from_fn(|| timers.next(end)).count());
    }
    assert_eq!(timers.due(), MonotonicMs::NEVER);
    assert!(most < 8_000, "{most}");
}

proptest! {
    #[test]
    fn any_bytes_of_a_peer_are_read_or_refused(kind in 30..38_u8, body: Vec<u8>) {
        let [one, _two] = pair();
        let frame = PeerFrame { kind: FrameKind(kind), body: FrameBody::Whole(Bytes::from(body)) };
        let mut inputs = Vec::new();
        let taken = one.membership.received(one.connection, frame, NOW, &mut inputs);
        prop_assert!(taken.is_err() || inputs.is_empty());
    }
}
