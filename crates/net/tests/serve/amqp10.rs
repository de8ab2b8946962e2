//! AMQP 1.0 on the port of AMQP 0-9-1, with a client of each.

use crate::site::Site;
use amqp10::{
    Attach, Begin, DeliveryState, Disposition, Flow, FrameType, Open, Performative, ProtocolLayer,
    Role, Section, SenderSettleMode, SerialNumber, Transfer, ValueRef, decode_frame, frame_size,
    put_frame,
};
use amqp091::method::{BasicGet, QueueDeclare};
use amqp091::{PropertiesRef, ShortString, Table, TableRef, Value};
use front_amqp091::Settings;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use testing::amqp10_client;
use testing::client::{Client, DEADLINE, Login};

/// A client of AMQP 1.0 with one session, blocking.
struct Peer {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    fn connect(site: &Site) -> Self {
        let socket = TcpStream::connect(site.address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket, input: Vec::new() }
    }

    /// Past the open, which asked for this virtual host, and its answer.
    fn open(site: &Site, vhost: &str) -> Self {
        let mut peer = Self::connect(site);
        peer.sends(&ProtocolLayer::Sasl.header());
        let mut bytes = amqp10_client::init("PLAIN", b"\0guest\0guest");
        bytes.extend_from_slice(&ProtocolLayer::Amqp.header());
        let hostname = format!("vhost:{vhost}");
        let open = Open {
            hostname: Some(&hostname),
            max_frame_size: 4096,
            channel_max: 0,
            ..amqp10_client::open()
        };
        Performative::Open(Box::new(open)).encode_frame(0, &mut bytes);
        peer.sends(&bytes);
        assert_eq!(peer.bytes(8), ProtocolLayer::Sasl.header());
        peer.frame(FrameType::Sasl);
        peer.frame(FrameType::Sasl);
        assert_eq!(peer.bytes(8), ProtocolLayer::Amqp.header());
        assert!(peer.hears().starts_with("open"));
        peer
    }

    fn begun(site: &Site) -> Self {
        let mut peer = Self::open(site, "/");
        let begin = Begin { handle_max: 10, ..amqp10_client::begin() };
        peer.says(&Performative::Begin(Box::new(begin)));
        assert_eq!(peer.hears(), "begin");
        peer
    }

    fn sends(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    fn says(&mut self, performative: &Performative<'_>) {
        let mut bytes = Vec::new();
        performative.encode_frame(0, &mut bytes);
        self.sends(&bytes);
    }

    /// Attaches a link to the queue `q`: as a publisher on handle 0, or as a consumer on handle 1.
    fn attaches(&mut self, role: Role, address: &str) {
        self.attaches_as(role, address, SenderSettleMode::Mixed);
    }

    fn attaches_as(&mut self, role: Role, address: &str, snd_settle_mode: SenderSettleMode) {
        let attach = match role {
            Role::Sender => amqp10_client::publisher(0, address),
            Role::Receiver => amqp10_client::consumer(1, address),
        };
        self.says(&Performative::Attach(Box::new(Attach { snd_settle_mode, ..attach })));
    }

    fn transfers(&mut self, n: u32, settled: bool, body: &[u8]) {
        self.transfers_sections(n, settled, |out| Section::Data(body).encode(out));
    }

    fn transfers_sections(&mut self, n: u32, settled: bool, put: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let transfer = Transfer { settled: Some(settled), ..amqp10_client::transfer(0, n) };
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
            put(out);
        });
        self.sends(&bytes);
    }

    /// Gives the consumer credit; `n_seen` transfers have come.
    fn gives_credit(&mut self, n_seen: u32, credit: u32) {
        self.flows(n_seen, Flow { link_credit: Some(credit), ..NO_FLOW });
    }

    /// Tells the consumer's part of a flow; `n_seen` transfers have come.
    fn flows(&mut self, n_seen: u32, flow: Flow<'static>) {
        let seen = SerialNumber::new(n_seen);
        self.says(&Performative::Flow(Flow {
            next_incoming_id: Some(seen),
            handle: Some(1),
            delivery_count: flow.delivery_count.or(Some(seen)),
            ..flow
        }));
    }

    fn accepts(&mut self, n: u32) {
        self.says(&Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: SerialNumber::new(n),
            last: None,
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        }));
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        while self.input.len() < n {
            let mut buffer = [0; 4096];
            let n_read = self.socket.read(&mut buffer).unwrap();
            assert!(n_read > 0, "the connection has ended");
            self.input.extend_from_slice(&buffer[..n_read]);
        }
        self.input.drain(..n).collect()
    }

    fn frame(&mut self, kind: FrameType) -> Vec<u8> {
        let header = self.bytes(8);
        let size = frame_size(&header).unwrap();
        let frame = [header, self.bytes(size - 8)].concat();
        decode_frame(&frame, kind, u32::MAX).unwrap().unwrap().0.body.to_vec()
    }

    /// The next frame that is no flow, in words.
    fn hears(&mut self) -> String {
        loop {
            let heard = self.hears_any();
            if !heard.starts_with("flow") {
                return heard;
            }
        }
    }

    /// The next frame, in words.
    fn hears_any(&mut self) -> String {
        let body = self.frame(FrameType::Amqp);
        let (performative, payload) = Performative::decode(&body).unwrap();
        let error = |error: Option<amqp10::AmqpError<'_>>| {
            error.map_or(String::new(), |error| format!(" {}", error.condition.0))
        };
        match performative {
            Performative::Flow(it) => format!(
                "flow {}+{} of {}{}",
                it.delivery_count.map_or(0, SerialNumber::bits),
                it.link_credit.unwrap_or(0),
                it.available.unwrap_or(0),
                if it.drain { " drained" } else { "" }
            ),
            Performative::Open(open) => format!("open {}", open.container_id),
            Performative::Begin(_) => "begin".to_owned(),
            Performative::Attach(it) => format!("attach {:?}", it.role),
            Performative::Transfer(it) => {
                let message = amqp10::MessageRef::parse(payload).unwrap();
                let body: Vec<u8> = message.body.data().flatten().copied().collect();
                let again = message.header.is_none_or(|header| !header.first_acquirer);
                let again = if again { " again" } else { "" };
                let id = it.delivery_id.map_or(0, SerialNumber::bits);
                format!("transfer {id} {}{again}", String::from_utf8_lossy(&body))
            }
            Performative::Disposition(it) => {
                let last = it.last.unwrap_or(it.first).bits();
                let accepted = it.state == Some(DeliveryState::ACCEPTED);
                format!("settled {}..={last} accepted {accepted}", it.first.bits())
            }
            Performative::Detach(it) => format!("detach{}", error(it.error)),
            Performative::End(it) => format!("end{}", error(it.error)),
            Performative::Close(it) => format!("close{}", error(it.error)),
        }
    }
}

/// A flow of a session's windows.
const NO_FLOW: Flow<'static> =
    Flow::of_session(SerialNumber::new(0), 1000, SerialNumber::new(0), 1000);

fn site() -> Site {
    Site::start_with(Settings::default(), |_| {})
}

fn declare(client: &mut Client, queue: &str, kind: &str) {
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static("x-queue-type"), Value::from(kind));
    let arguments = arguments.to_bytes();
    let arguments = TableRef::trusted(&arguments);
    let queue = queue.as_bytes();
    let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, declare), "queue.declare-ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_header_chooses_the_protocol() {
    let site = site();
    for header in [&b"AMQP\0\x01\0\0"[..], b"AMQP\x02\x01\0\0", b"whatever"] {
        let mut peer = Peer::connect(&site);
        peer.sends(header);
        assert_eq!(peer.bytes(8), ProtocolLayer::Sasl.header());
        assert_eq!(peer.socket.read(&mut [0]).unwrap(), 0, "nothing follows");
    }
    let mut of_old = Peer::connect(&site);
    of_old.sends(b"AMQP\x01\x01\x08\0");
    assert_eq!(of_old.bytes(8), b"AMQP\0\0\x09\x01");
    drop(Client::guest(site.address));
    let mut peer = Peer::open(&site, "/");
    let protocols: Vec<_> =
        site.broker.connections.list().iter().map(|it| it.identity.protocol).collect();
    assert!(protocols.contains(&"{1,0}"), "{protocols:?}");
    assert_eq!(site.broker.connections.n_of("{1,0}"), 1);
    peer.says(&Performative::Close(amqp10::Close { error: None }));
    assert_eq!(peer.hears(), "close");
    let mut refused = Peer::open(&site, "nowhere");
    assert_eq!(refused.hears(), "close amqp:not-allowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_pass_between_both_protocols() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.declare("q");
    let mut peer = Peer::begun(&site);
    peer.attaches(Role::Sender, "/queues/q");
    assert_eq!(peer.hears(), "attach Receiver");
    peer.transfers(0, false, b"one");
    assert_eq!(peer.hears(), "settled 0..=0 accepted true");
    peer.transfers(1, true, b"two");
    peer.transfers(2, false, b"three");
    assert_eq!(peer.hears(), "settled 2..=2 accepted true");
    assert_eq!(old.get("q").map(|it| it.body), Some(b"one".to_vec()));
    peer.attaches(Role::Receiver, "/queues/q");
    assert_eq!(peer.hears(), "attach Sender");
    peer.gives_credit(0, 1);
    assert_eq!(peer.hears(), "transfer 0 two");
    peer.accepts(0);
    peer.gives_credit(1, 2);
    assert_eq!(peer.hears(), "transfer 1 three");
    old.put_publish("q", false, b"four");
    old.flush();
    assert_eq!(peer.hears(), "transfer 2 four");
    // What is not settled when the client is gone comes again.
    drop(peer);
    let mut other = Peer::begun(&site);
    other.attaches(Role::Receiver, "/queues/q");
    assert_eq!(other.hears(), "attach Sender");
    other.gives_credit(0, 10);
    assert_eq!(other.hears(), "transfer 0 three again");
    assert_eq!(other.hears(), "transfer 1 four again");
}

/// Sections whose header in AMQP 0-9-1 is larger than the smallest frames, and those that are not.
fn put_many(out: &mut Vec<u8>, n_properties: u32) {
    amqp10::put_application_properties(out, |items| {
        for n in 0..n_properties {
            items.put(ValueRef::Str(&format!("property {n:04}")));
            items.put(ValueRef::U64(0));
        }
        items.put(ValueRef::Str(&"k".repeat(256)));
        items.put(ValueRef::Str("no name in AMQP 0-9-1"));
    });
    Section::Data(b"large").encode(out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_whose_header_becomes_too_large_stay_for_others() {
    const N_PROPERTIES: u32 = 400;
    let site = site();
    let mut wide = Client::guest(site.address);
    for kind in ["classic", "quorum"] {
        let arguments = Table::from_iter([(ShortString::from_static("x-queue-type"), kind.into())]);
        let arguments = arguments.to_bytes();
        let arguments = TableRef::trusted(&arguments);
        let queue = kind.as_bytes();
        let declare = QueueDeclare { queue, arguments, durable: true, ..QueueDeclare::default() };
        assert_eq!(wide.ask(1, declare), "queue.declare-ok");
        let mut peer = Peer::begun(&site);
        peer.attaches(Role::Sender, &format!("/queues/{kind}"));
        assert_eq!(peer.hears(), "attach Receiver");
        let narrow = || {
            let login = Login { frame_max: 8_192, ..Login::default() };
            let mut narrow = Client::login(site.address, login);
            narrow.open_channel(1);
            narrow
        };
        let mut waiting = narrow();
        waiting.consume(kind, true);
        peer.transfers_sections(0, false, |out| put_many(out, N_PROPERTIES));
        assert_eq!(peer.hears(), "settled 0..=0 accepted true");
        let mut coming = narrow();
        coming.consume(kind, true);
        let mut getting = narrow();
        let get = BasicGet { queue, no_ack: true, ..BasicGet::default() };
        let refused = getting.ask(1, get);
        for refused in [refused, coming.next().show(), waiting.next().show()] {
            assert!(refused.starts_with("connection.close 501 FRAME_ERROR"), "{refused}");
            assert!(refused.ends_with(&format!("stays in queue '{kind}'")), "{refused}");
        }
        let got = wide.get(kind).unwrap();
        assert_eq!((got.redelivered, &*got.body), (kind == "quorum", &b"large"[..]));
        let headers = PropertiesRef::parse(&got.properties).unwrap().headers().unwrap();
        assert_eq!(
            headers.iter().filter(|(name, _)| !name.starts_with(b"x-")).count(),
            N_PROPERTIES as usize
        );
        // A head that is perhaps too large, and is not.
        let mut narrow = narrow();
        narrow.consume(kind, true);
        peer.transfers_sections(1, true, |out| put_many(out, 100));
        assert_eq!(narrow.message().unwrap().body, b"large");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_refused_alone() {
    let site = site();
    let mut peer = Peer::begun(&site);
    for (role, address, condition) in [
        (Role::Receiver, "/queues/none", "amqp:not-found"),
        (Role::Sender, "/exchanges/none/key", "amqp:not-found"),
        (Role::Sender, "nothing", "amqp:invalid-field"),
    ] {
        peer.attaches(role, address);
        assert!(peer.hears().starts_with("attach"));
        assert_eq!(peer.hears(), format!("detach {condition}"));
        let handle = u32::from(role == Role::Receiver);
        peer.says(&Performative::Detach(amqp10::Detach { handle, closed: true, error: None }));
    }
    peer.attaches(Role::Sender, "/queues/none");
    assert_eq!(peer.hears(), "attach Receiver");
    peer.transfers(0, false, b"lost");
    assert_eq!(peer.hears(), "settled 0..=0 accepted false");
}

/// Credit is the queue's own: it counts what is there, and a drain uses it up. What one consumer has no
/// credit for another one gets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_get_what_they_give_credit_for() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.select_confirms();
    for (queue, kind) in [("of-classic", "classic"), ("of-quorum", "quorum")] {
        declare(&mut old, queue, kind);
        let mut peer = Peer::begun(&site);
        peer.attaches(Role::Receiver, &format!("/queues/{queue}"));
        assert_eq!(peer.hears(), "attach Sender");
        for n in 0..15 {
            old.put_publish(queue, true, format!("m{n}").as_bytes());
        }
        old.wait_for_confirms();
        peer.flows(0, Flow { link_credit: Some(0), echo: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "flow 0+0 of 15", "{queue}");
        peer.flows(0, Flow { link_credit: Some(1), echo: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "transfer 0 m0");
        assert_eq!(peer.hears_any(), "flow 1+0 of 14");
        // Without credit it holds nothing back from another one.
        let mut other = Peer::begun(&site);
        other.attaches(Role::Receiver, &format!("/queues/{queue}"));
        assert_eq!(other.hears(), "attach Sender");
        other.gives_credit(0, 2);
        assert_eq!([other.hears(), other.hears()], ["transfer 0 m1", "transfer 1 m2"]);
        peer.gives_credit(1, 10);
        for n in 0..10 {
            assert_eq!(peer.hears_any(), format!("transfer {} m{}", n + 1, n + 3));
        }
        peer.flows(11, Flow { link_credit: Some(100), drain: true, ..NO_FLOW });
        assert_eq!([peer.hears_any(), peer.hears_any()], ["transfer 11 m13", "transfer 12 m14"]);
        assert_eq!(peer.hears_any(), "flow 111+0 of 0 drained");
        // What the client holds when it is gone comes again, in order.
        drop(peer);
        other.gives_credit(2, 13);
        for (id, n) in (2..).zip([0].into_iter().chain(3..15)) {
            assert_eq!(other.hears(), format!("transfer {id} m{n} again"));
        }
    }
}

/// A stream gives no more than the credit, whether the client settles what it gets or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_consumed_by_credit() {
    let site = site();
    let mut old = Client::guest(site.address);
    old.select_confirms();
    declare(&mut old, "s", "stream");
    for (n, mode) in [SenderSettleMode::Mixed, SenderSettleMode::Settled].into_iter().enumerate() {
        let mut peer = Peer::begun(&site);
        peer.attaches_as(Role::Receiver, "/queues/s", mode);
        assert_eq!(peer.hears(), "attach Sender");
        for body in [b"a", b"b", b"c"] {
            old.put_publish("s", true, body);
        }
        old.wait_for_confirms();
        peer.gives_credit(0, 2);
        assert_eq!([peer.hears(), peer.hears()], ["transfer 0 a", "transfer 1 b"], "{n}");
        peer.flows(2, Flow { link_credit: Some(9), drain: true, ..NO_FLOW });
        assert_eq!(peer.hears_any(), "transfer 2 c");
        assert_eq!(peer.hears_any(), "flow 11+0 of 0 drained");
    }
}
