//! A client of AMQP 1.0 over a socket, blocking, with one session.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what does not go well fails the test"
)]

use crate::amqp10_client;
use crate::client::DEADLINE;
use amqp10::{
    Attach, Begin, DeliveryOutcome, DeliveryState, Disposition, Flow, FrameType, Open,
    Performative, ProtocolLayer, Role, Section, SenderSettleMode, SerialNumber, Transfer,
    decode_frame, frame_size, put_frame,
};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// A client of AMQP 1.0 with one session, blocking.
#[derive(Debug)]
pub struct Peer {
    /// The socket.
    pub socket: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    /// A client that has said nothing yet.
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket, input: Vec::new() }
    }

    /// A client past its login (PLAIN), the open, which asked for this virtual host, and its answer.
    pub fn open(address: SocketAddr, login: &[u8], vhost: &str) -> Self {
        let hostname = format!("vhost:{vhost}");
        let open = Open { hostname: Some(&hostname), ..amqp10_client::open() };
        Self::open_as(address, login, open)
    }

    /// A client past its login (PLAIN), its open, and the answer to that.
    pub fn open_as(address: SocketAddr, login: &[u8], open: Open<'_>) -> Self {
        let mut peer = Self::connect(address);
        peer.sends(&ProtocolLayer::Sasl.header());
        let mut bytes = amqp10_client::init("PLAIN", login);
        bytes.extend_from_slice(&ProtocolLayer::Amqp.header());
        let open = Open { max_frame_size: 4096, channel_max: 0, ..open };
        Performative::Open(Box::new(open)).encode_frame(0, &mut bytes);
        peer.sends(&bytes);
        assert_eq!(peer.bytes(8), ProtocolLayer::Sasl.header());
        peer.frame(FrameType::Sasl);
        peer.frame(FrameType::Sasl);
        assert_eq!(peer.bytes(8), ProtocolLayer::Amqp.header());
        assert!(peer.hears().starts_with("open"));
        peer
    }

    /// A client past the begin of its session.
    pub fn begun(address: SocketAddr, login: &[u8], vhost: &str) -> Self {
        let mut peer = Self::open(address, login, vhost);
        let begin = Begin { handle_max: 10, ..amqp10_client::begin() };
        peer.says(&Performative::Begin(Box::new(begin)));
        assert_eq!(peer.hears(), "begin");
        peer
    }

    /// Sends these bytes.
    pub fn sends(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends a performative on the session's channel.
    pub fn says(&mut self, performative: &Performative<'_>) {
        let mut bytes = Vec::new();
        performative.encode_frame(0, &mut bytes);
        self.sends(&bytes);
    }

    /// Attaches a link to the queue `q`: as a publisher on handle 0, or as a consumer on handle 1.
    pub fn attaches(&mut self, role: Role, address: &str) {
        self.attaches_as(role, address, SenderSettleMode::Mixed);
    }

    /// Attaches a link with this settle mode.
    pub fn attaches_as(&mut self, role: Role, address: &str, snd_settle_mode: SenderSettleMode) {
        let attach = match role {
            Role::Sender => amqp10_client::publisher(0, address),
            Role::Receiver => amqp10_client::consumer(1, address),
        };
        self.says(&Performative::Attach(Box::new(Attach { snd_settle_mode, ..attach })));
    }

    /// Publishes a message with this body.
    pub fn transfers(&mut self, n: u32, settled: bool, body: &[u8]) {
        self.transfers_sections(n, settled, |out| Section::Data(body).encode(out));
    }

    /// Publishes the sections that `put` appends.
    pub fn transfers_sections(&mut self, n: u32, settled: bool, put: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let transfer = Transfer { settled: Some(settled), ..amqp10_client::transfer(0, n) };
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            transfer.encode(out);
            put(out);
        });
        self.sends(&bytes);
    }

    /// Gives the consumer credit; `n_seen` transfers have come.
    pub fn gives_credit(&mut self, n_seen: u32, credit: u32) {
        self.flows(n_seen, Flow { link_credit: Some(credit), ..NO_FLOW });
    }

    /// Tells the consumer's part of a flow; `n_seen` transfers have come.
    pub fn flows(&mut self, n_seen: u32, flow: Flow<'static>) {
        let seen = SerialNumber::new(n_seen);
        self.says(&Performative::Flow(Flow {
            next_incoming_id: Some(seen),
            handle: Some(1),
            delivery_count: flow.delivery_count.or(Some(seen)),
            ..flow
        }));
    }

    /// Settles delivery `n` as accepted.
    pub fn accepts(&mut self, n: u32) {
        self.says(&Performative::Disposition(Disposition {
            role: Role::Receiver,
            first: SerialNumber::new(n),
            last: None,
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        }));
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        while self.input.len() < n {
            let mut buffer = [0; 4096];
            let n_read = self.socket.read(&mut buffer).unwrap();
            assert!(n_read > 0, "the connection has ended");
            self.input.extend_from_slice(&buffer[..n_read]);
        }
        self.input.drain(..n).collect()
    }

    /// The body of the next frame.
    pub fn frame(&mut self, kind: FrameType) -> Vec<u8> {
        let header = self.bytes(8);
        let size = frame_size(&header).unwrap();
        let frame = [header, self.bytes(size - 8)].concat();
        decode_frame(&frame, kind, u32::MAX).unwrap().unwrap().0.body.to_vec()
    }

    /// The next frame that is no flow, in words.
    pub fn hears(&mut self) -> String {
        loop {
            let heard = self.hears_any();
            if !heard.starts_with("flow") {
                return heard;
            }
        }
    }

    /// The next frame, in words.
    pub fn hears_any(&mut self) -> String {
        let body = self.frame(FrameType::Amqp);
        let (performative, payload) = Performative::decode(&body).unwrap();
        let error = |error: Option<amqp10::AmqpError<'_>>| {
            error.map_or(String::new(), |error| format!(" {}", error.condition.0))
        };
        match performative {
            Performative::Flow(it) if it.handle.is_none() => {
                format!("flow window {}", it.incoming_window)
            }
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
                let reason = match it.state {
                    Some(DeliveryState::Outcome(DeliveryOutcome::Rejected(it))) => error(it.error),
                    _ => String::new(),
                };
                format!("settled {}..={last} accepted {accepted}{reason}", it.first.bits())
            }
            Performative::Detach(it) => format!("detach{}", error(it.error)),
            Performative::End(it) => format!("end{}", error(it.error)),
            Performative::Close(it) => format!("close{}", error(it.error)),
        }
    }
}

/// A flow of a session's windows.
pub const NO_FLOW: Flow<'static> =
    Flow::of_session(SerialNumber::new(0), 1000, SerialNumber::new(0), 1000);
