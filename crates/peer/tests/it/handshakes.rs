//! Handshakes of two sides without sockets.

use log::{ClusterId, NodeIdentity, NodeNumber};
use peer::{
    ConnectionKind, HANDSHAKE_BYTES_MAX, HANDSHAKE_MS, HandshakeError, HandshakeRole,
    PEER_VERSIONS, PeerCookie, PeerEstablished, PeerHandshake, PeerHello, PeerRefusal,
    PeerRefusalReason, SpokenRange,
};
use proptest::prelude::*;
use stdx::MonotonicMs;

const NOW: MonotonicMs = MonotonicMs::from_raw(10_000);

/// The hello of a node of the cluster 7.
pub(crate) fn hello(number: u16, boot: u32, nonce: u128) -> PeerHello {
    let name = format!("rabbit@{number}");
    let identity = NodeIdentity {
        cluster: ClusterId(7 << 100 | 3),
        epoch: 1,
        number: NodeNumber(number),
        boot,
        name,
    };
    let levels = SpokenRange { min: 3, max: 4 };
    PeerHello { versions: PEER_VERSIONS, levels, kind: ConnectionKind::Raft, identity, nonce }
}

type Outcome = Result<Option<PeerEstablished>, HandshakeError>;

/// A side, what it has sent, and what came of it.
struct Side {
    handshake: PeerHandshake,
    sent: Vec<u8>,
    outcome: Outcome,
    refuses: bool,
}

impl Side {
    fn new(role: HandshakeRole, hello: PeerHello, cookie: &str) -> Self {
        let cookie = PeerCookie::new(cookie.as_bytes()).expect("a cookie");
        let handshake = PeerHandshake::new(role, hello, cookie, NOW);
        let sent = handshake.opening();
        Self { handshake, sent, outcome: Ok(None), refuses: false }
    }

    /// Receives bytes in pieces; returns those that are left once the handshake is done.
    fn receive<'a>(&mut self, bytes: &'a [u8], n_piece: usize) -> &'a [u8] {
        let judge = |peer: &PeerHello| {
            let reason = PeerRefusalReason::Forgotten;
            let text = format!("{} is forgotten", peer.identity.name);
            if self.refuses { Err(PeerRefusal::new(reason, text)) } else { Ok(()) }
        };
        let mut rest = bytes;
        while !rest.is_empty() && self.outcome == Ok(None) {
            let (mut piece, after) = rest.split_at(n_piece.min(rest.len()));
            let whole = piece.len();
            self.outcome = self.handshake.receive(&mut piece, judge, &mut self.sent);
            rest = &rest[whole - piece.len()..];
            assert!(piece.is_empty() || rest.ends_with(after));
        }
        rest
    }

    fn refusal(&self) -> PeerRefusal {
        match &self.outcome {
            Err(HandshakeError::Refused(refusal) | HandshakeError::RefusedByPeer(refusal)) => {
                refusal.clone()
            }
            other => panic!("no refusal: {other:?}"),
        }
    }
}

/// Lets two sides talk until nothing is left to say.
fn talk(dialler: &mut Side, acceptor: &mut Side, n_piece: usize) {
    loop {
        let (there, back) = (std::mem::take(&mut dialler.sent), std::mem::take(&mut acceptor.sent));
        if there.is_empty() && back.is_empty() {
            return;
        }
        assert!(acceptor.receive(&there, n_piece).is_empty());
        assert!(dialler.receive(&back, n_piece).is_empty());
    }
}

fn pair(dialler: PeerHello, acceptor: PeerHello, cookies: [&str; 2]) -> [Side; 2] {
    let [first, second] = cookies;
    [
        Side::new(HandshakeRole::Dialler, dialler, first),
        Side::new(HandshakeRole::Acceptor, acceptor, second),
    ]
}

#[test]
fn both_sides_learn_who_the_other_is_and_what_they_speak() {
    for n_piece in [1, 7, 4_096] {
        let mut older = hello(2, 5, 12);
        older.levels = SpokenRange { min: 2, max: 3 };
        let [mut dialler, mut acceptor] = pair(hello(1, 9, 11), older.clone(), ["c"; 2]);
        assert_eq!(dialler.handshake.deadline(), NOW.plus(HANDSHAKE_MS));
        talk(&mut dialler, &mut acceptor, n_piece);
        let [at_dialler, at_acceptor] = [dialler, acceptor].map(|it| it.outcome.unwrap().unwrap());
        assert_eq!((at_dialler.peer, at_acceptor.peer), (older, hello(1, 9, 11)));
        assert_eq!((at_dialler.level, at_acceptor.level), (3, 3));
        assert_eq!((at_dialler.version, at_acceptor.version), (1, 1));
    }
}

#[test]
fn the_dialler_says_what_the_connection_is_for() {
    let pulse = |node, nonce| PeerHello { kind: ConnectionKind::Pulse, ..hello(node, 1, nonce) };
    let [mut dialler, mut acceptor] = pair(pulse(1, 11), hello(2, 1, 12), ["c"; 2]);
    talk(&mut dialler, &mut acceptor, 7);
    for side in [dialler, acceptor] {
        assert_eq!(side.outcome.unwrap().unwrap().peer.kind, ConnectionKind::Pulse);
    }
}

#[test]
fn frames_behind_a_handshake_are_left_for_their_decoder() {
    let [mut dialler, mut acceptor] = pair(hello(1, 9, 11), hello(2, 5, 12), ["c"; 2]);
    acceptor.receive(&std::mem::take(&mut dialler.sent), 4_096);
    dialler.receive(&std::mem::take(&mut acceptor.sent), 4_096);
    acceptor.receive(&std::mem::take(&mut dialler.sent), 4_096);
    acceptor.sent.extend(b"first frames");
    assert_eq!(dialler.receive(&acceptor.sent, 4_096), b"first frames");
    assert!(matches!(dialler.outcome, Ok(Some(_))));
}

#[test]
fn refusals_are_texts_on_both_sides_that_say_what_to_do() {
    let base = [hello(1, 9, 11), hello(2, 5, 12)];
    let with = |change: fn(&mut PeerHello)| {
        let [first, mut second] = base.clone();
        change(&mut second);
        [first, second]
    };
    let cases = [
        (base.clone(), ["c", "d"], "RABBITMQ_ERLANG_COOKIE", PeerRefusalReason::WrongCookie),
        (
            with(|it| it.levels = SpokenRange { min: 5, max: 6 }),
            ["c"; 2],
            "one release at a time",
            PeerRefusalReason::NoCommonLevel,
        ),
        (
            with(|it| it.versions = SpokenRange { min: 2, max: 2 }),
            ["c"; 2],
            "upgrade",
            PeerRefusalReason::NoCommonVersion,
        ),
        (
            with(|it| *it = hello(1, 9, 77)),
            ["c"; 2],
            "connected to itself",
            PeerRefusalReason::ItSelf,
        ),
    ];
    for (hellos, cookies, says, reason) in cases {
        let [first, second] = hellos;
        for [one, other] in [[first.clone(), second.clone()], [second, first]] {
            let [mut dialler, mut acceptor] = pair(one, other, cookies);
            talk(&mut dialler, &mut acceptor, 50);
            let [at_dialler, at_acceptor] = [&dialler, &acceptor].map(Side::refusal);
            assert_eq!(at_dialler, at_acceptor);
            assert_eq!(at_dialler.reason, reason);
            assert!(at_dialler.text.contains(says), "{at_dialler}");
            assert!(at_dialler.text.contains("rabbit@1"), "{at_dialler}");
        }
    }
}

#[test]
fn the_judge_of_either_side_refuses() {
    for judging in 0..2 {
        let mut sides = pair(hello(1, 9, 11), hello(2, 5, 12), ["c"; 2]);
        sides[judging].refuses = true;
        let [dialler, acceptor] = &mut sides;
        talk(dialler, acceptor, 50);
        let name = format!("rabbit@{}", 2 - judging);
        for side in &sides {
            assert_eq!(side.refusal().reason, PeerRefusalReason::Forgotten);
            assert!(side.refusal().text.contains(&name));
        }
    }
}

#[test]
fn an_acceptor_judges_nobody_without_the_cookie() {
    let [mut dialler, mut acceptor] = pair(hello(1, 9, 11), hello(2, 5, 12), ["wrong", "c"]);
    acceptor.refuses = true;
    talk(&mut dialler, &mut acceptor, 50);
    assert_eq!(dialler.refusal().reason, PeerRefusalReason::WrongCookie);
}

/// An attacker without the cookie connects to a node that also dials the attacker, and sends what the one
/// connection says back over the other.
#[test]
fn reflected_proofs_prove_nothing() {
    let [dialling, mut accepting] = pair(hello(1, 9, 11), hello(1, 9, 12), ["c"; 2]);
    // Its own hello is noticed.
    let opening = dialling.sent.clone();
    assert!(accepting.receive(&opening, 4_096).is_empty());
    assert_eq!(accepting.refusal().reason, PeerRefusalReason::ItSelf);
    // A hello of another name gets the node's hello, which goes back as the attacker's; the proofs that come
    // are of that connection and role.
    let [mut dialling, mut accepting] = pair(hello(1, 9, 11), hello(1, 9, 12), ["c"; 2]);
    let [mut lure, _] = pair(hello(2, 9, 11), hello(2, 9, 11), ["?"; 2]);
    accepting.receive(&std::mem::take(&mut lure.sent), 4_096);
    let mut attacker = Side::new(HandshakeRole::Acceptor, hello(2, 9, 12), "?");
    attacker.receive(&std::mem::take(&mut dialling.sent), 4_096);
    dialling.receive(&std::mem::take(&mut attacker.sent), 4_096);
    let proof = std::mem::take(&mut dialling.sent);
    assert_eq!(proof.len(), 4 + 32);
    accepting.receive(&proof, 4_096);
    assert_eq!(accepting.refusal().reason, PeerRefusalReason::WrongCookie);
    // Its own proof as a welcome.
    let welcome = [&[32, 0, 0, 10], &proof[4..]].concat();
    dialling.receive(&welcome, 4_096);
    assert_eq!(dialling.refusal().reason, PeerRefusalReason::WrongCookie);
}

#[test]
fn a_recorded_handshake_cannot_be_played_again() {
    let [mut dialler, mut acceptor] = pair(hello(1, 9, 11), hello(2, 5, 12), ["c"; 2]);
    let mut record = dialler.sent.clone();
    acceptor.receive(&std::mem::take(&mut dialler.sent), 4_096);
    dialler.receive(&std::mem::take(&mut acceptor.sent), 4_096);
    record.extend(&dialler.sent);
    let mut again = Side::new(HandshakeRole::Acceptor, hello(2, 5, 13), "c");
    again.receive(&record, 4_096);
    assert_eq!(again.refusal().reason, PeerRefusalReason::WrongCookie);
}

#[test]
fn strangers_are_told_nothing_and_nobody_may_send_much() {
    for bytes in
        [&b"GET / HTTP/1.1\r\n"[..], b"AMQP\x00\x00\x09\x01", b"LVPX", b"LVPR\xff\xff\xff\x08"]
    {
        let mut acceptor = Side::new(HandshakeRole::Acceptor, hello(2, 5, 12), "c");
        acceptor.receive(bytes, 4_096);
        assert_eq!(acceptor.outcome, Err(HandshakeError::Stranger));
        assert_eq!(acceptor.sent, b"");
    }
    let n_body = u32::try_from(HANDSHAKE_BYTES_MAX - 7).unwrap().to_le_bytes();
    let head = [b"LVPR", &n_body[..3], &[8]].concat();
    let mut acceptor = Side::new(HandshakeRole::Acceptor, hello(2, 5, 12), "c");
    acceptor.receive(&head, 4_096);
    assert_eq!(acceptor.outcome, Err(HandshakeError::Stranger));
}

#[test]
fn a_cookie_is_not_shown() {
    let cookie = PeerCookie::new(b"secret").unwrap();
    assert_eq!(format!("{cookie:?}"), "PeerCookie { n_bytes: 6, .. }");
    assert!(PeerCookie::new(b"").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A bit that changes on the way is noticed, whichever it is.
    #[test]
    fn changed_messages_establish_nothing(at in any::<prop::sample::Index>(), bit in 0..8_u8, leg in 0..4) {
        let [mut dialler, mut acceptor] = pair(hello(1, 9, 11), hello(2, 5, 12), ["c"; 2]);
        for now in 0..4 {
            let (from, to) = if now % 2 == 0 { (&mut dialler, &mut acceptor) } else { (&mut acceptor, &mut dialler) };
            let mut bytes = std::mem::take(&mut from.sent);
            if now == leg && !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            to.receive(&bytes, 4_096);
        }
        let changed_the_last = leg == 3;
        prop_assert!(!matches!(dialler.outcome, Ok(Some(_))));
        prop_assert_eq!(matches!(acceptor.outcome, Ok(Some(_))), changed_the_last);
    }
}
