//! Nodes of a cluster with real sockets between them.

#[cfg(test)]
mod encrypted;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod node;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod strangers;

#[cfg(test)]
mod tests {
    use crate::lines;
    use crate::node::{PeerNode, introduce};
    use crate::relay::PeerRelay;
    use cluster::{Message, MessageBody, OutgoingMessage, PeerId};
    use log::{ClusterId, NodeNumber, Owner};
    use member::{MemberEvent, PeerInput};
    use peer::{ConnectionKind, PeerAddress, PeerCookie, PeerHello};
    use std::task::Waker;
    use stdx::lock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Two nodes of which the first one dials the other through a relay, connected.
    async fn relayed(names: [&str; 2]) -> ([PeerNode; 2], PeerRelay) {
        let [mut one, mut two] =
            [1, 2].map(|n| PeerNode::new(n, names[usize::from(n) - 1], |_, _| {}));
        let relay = PeerRelay::to(two.address).await;
        one.knows(&two, relay.address);
        two.knows(&one, one.address);
        one.start();
        two.start();
        one.host.wait_for_links(2, 1).await;
        two.host.wait_for_links(1, 1).await;
        one.host.wait_until_alive(2).await;
        ([one, two], relay)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nodes_connect_in_any_order_and_hear_each_other() {
        let mut nodes: Vec<PeerNode> =
            (1..=3).map(|n| PeerNode::new(n, &format!("rabbit@{n}"), |_, _| {})).collect();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            introduce(&nodes[one], &nodes[other]);
        }
        for place in [2, 0, 1] {
            nodes[place].start();
        }
        for node in &nodes {
            for other in (1..=3).filter(|other| *other != node.number) {
                node.host.wait_for_links(other, 1).await;
                node.host.wait_until_alive(other).await;
            }
        }
        for node in &mut nodes {
            node.stop().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_member_that_is_added_later_is_dialled_at_once() {
        let [mut one, mut two] =
            [1, 2].map(|n| PeerNode::new(n, &format!("rabbit@later{n}"), |_, _| {}));
        one.start();
        two.start();
        introduce(&one, &two);
        one.host.wait_for_links(2, 1).await;
        two.host.wait_for_links(1, 1).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn messages_keep_their_order_and_those_of_a_group_come_together() {
        let ([one, two], _relay) = relayed(["rabbit@order1", "rabbit@order2"]).await;
        let n = 2_000;
        for request in 0..n {
            one.ask(2, request, if request % 100 == 0 { 200_000 } else { 10 });
        }
        let send = |group: u64, term: u64| {
            let (from, to) = (PeerId(1 << 48 | 1), PeerId(2 << 48 | 1));
            let body = MessageBody::Appended { index: term, commit: 0 };
            let message = Message { from, to, term, body };
            one.membership.send(Owner(group), OutgoingMessage { message, after: None })
        };
        for term in 1..=n {
            send(term % 3, term).into_iter().for_each(Waker::wake);
        }
        two.host.wait_for_inputs(2 * usize::try_from(n).unwrap()).await;
        assert_eq!(two.requests(), (0..n).collect::<Vec<_>>());
        let inputs = lock(&two.host.inputs);
        for group in 0..3 {
            let terms = inputs.iter().filter_map(|(_, input)| match input {
                PeerInput::Group(of, message) if of.0 == group => Some(message.term),
                PeerInput::Group(..) | PeerInput::Node(_) | PeerInput::Session(..) => None,
            });
            assert!(terms.eq((1..=n).filter(|term| term % 3 == group)));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sockets_that_break_are_made_again() {
        let ([one, two], relay) = relayed(["rabbit@break1", "rabbit@break2"]).await;
        for n_times in 2..5 {
            relay.break_all();
            one.host.wait_for_links(2, n_times).await;
            two.host.wait_for_links(1, n_times).await;
        }
        let before = two.requests().len();
        one.ask(2, 77, 10);
        two.host.wait_for_inputs(before + 1).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_stands_still_is_made_again_and_the_others_stay() {
        for kind in [ConnectionKind::Work, ConnectionKind::Pulse] {
            let ([one, two], relay) = relayed(["rabbit@still1", "rabbit@still2"]).await;
            relay.hold(kind);
            one.ask(2, 1, 10);
            one.host.wait("the end of what stands still", |host| {
                let is_it = |event: &MemberEvent| matches!(event, MemberEvent::Stuck(it) if it.kind == kind);
                lock(&host.events).iter().any(is_it)
            })
            .await;
            one.host.wait("the new one", |host| host.n_made(2, kind) == 2).await;
            two.host.wait("the new one", |host| host.n_made(1, kind) == 2).await;
            assert_eq!(one.host.n_made(2, ConnectionKind::Raft), 1);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_host_without_room_is_given_nothing_and_later_all() {
        let ([one, two], _relay) = relayed(["rabbit@full1", "rabbit@full2"]).await;
        two.host.set_full(true);
        one.ask(2, 0, 10);
        // The read that was under way when there was room.
        two.host.wait_for_inputs(1).await;
        two.host.wait("a reader that waits", |host| host.is_waited_for()).await;
        for request in 1..=100 {
            one.ask(2, request, 10_000);
        }
        assert_eq!(two.requests(), [0]);
        two.host.set_full(false);
        two.host.wait_for_inputs(101).await;
        assert_eq!(two.requests(), (0..=100).collect::<Vec<_>>());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_peer_that_is_wrong_is_refused_with_one_text_on_both_sides() {
        lines::keep();
        let wrong = [
            ("cookie", "the cookies of rabbit@cookie2 and rabbit@cookie1 differ"),
            ("foreign", "rabbit@foreign1 and rabbit@foreign2 belong to different clusters"),
        ];
        for (word, text) in wrong {
            let mut one = PeerNode::new(1, &format!("rabbit@{word}1"), |_, _| {});
            let mut two = PeerNode::new(2, &format!("rabbit@{word}2"), |me, transport| {
                if word == "foreign" {
                    me.cluster = ClusterId(9);
                } else {
                    transport.cookie = PeerCookie::new(b"another").unwrap();
                }
            });
            if word == "foreign" {
                // Another node is at the address of a member.
                two.name = "rabbit@foreign3".to_owned();
            }
            introduce(&one, &two);
            one.start();
            two.start();
            lines::wait_for(1, &["cannot connect to node 2 at localhost:", text]).await;
            lines::wait_for(1, &["no connection with the node at", text]).await;
            one.stop().await;
            two.stop().await;
            // Each kind of connection is refused, which is told once.
            assert_eq!(lines::with(&["cannot connect", word]).len(), 1);
            assert_eq!(lines::with(&["no connection with", word]).len(), 1);
            assert_eq!(lock(&one.host.events).as_slice(), []);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_node_with_a_members_name_is_refused() {
        lines::keep();
        let mut one = PeerNode::new(1, "rabbit@twin1", |_, _| {});
        let mut two = PeerNode::new(2, "rabbit@twin2", |_, _| {});
        // The first one looks for the second one where its twin is.
        let mut twin = PeerNode::new(3, "rabbit@twin2", |_, _| {});
        one.knows(&two, twin.address);
        twin.knows(&one, one.address);
        two.start();
        one.start();
        twin.start();
        lines::wait_for(1, &["cannot connect to node 2", "by the name or number of rabbit@twin2"])
            .await;
        lines::wait_for(
            1,
            &["no connection with the node at", "by the name or number of rabbit@twin2"],
        )
        .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_tunnel_is_opened_by_whoever_has_the_cookie() {
        let mut node = PeerNode::new(1, "rabbit@tunnel1", |_, _| {});
        node.start();
        let tool = PeerNode::new(0, "rabbitmqcli-7-rabbit@tunnel1", |_, _| {});
        let hello: PeerHello = tool.membership.hello(ConnectionKind::Ctl, 77);
        let address = PeerAddress { host: "127.0.0.1".to_owned(), port: node.address.port() };
        let opened = tool.transport.open_tunnel(&address, hello.clone()).await;
        let (peer, mut near) = opened.expect("the cookie is right");
        assert_eq!(peer.identity.number, NodeNumber(1));
        near.write_all(b"GET /").await.unwrap();
        node.host.wait("a tunnel", |host| !lock(&host.tunnels).is_empty()).await;
        let (peer, mut far) = lock(&node.host.tunnels).pop().unwrap();
        assert_eq!(peer, hello);
        let mut request = [0; 5];
        far.read_exact(&mut request).await.unwrap();
        far.write_all(b"200").await.unwrap();
        drop(far);
        let mut answer = Vec::new();
        near.read_to_end(&mut answer).await.unwrap();
        assert_eq!((&request, answer.as_slice()), (b"GET /", &b"200"[..]));
        let mut stranger = tool.transport.clone();
        stranger.cookie = PeerCookie::new(b"guessed").unwrap();
        let refused = stranger.open_tunnel(&address, hello).await.unwrap_err();
        assert!(refused.to_string().starts_with("the cookies of "), "{refused}");
        node.stop().await;
    }
}
