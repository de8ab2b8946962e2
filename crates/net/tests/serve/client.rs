//! A client on a socket, and a node for it to talk to.

use amqp091::content::encode_content;
use amqp091::method::{
    BasicPublish, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk,
};
use amqp091::{
    ContentHeader, FrameKind, Method, PropertiesRef, ProtocolHeader, ShortString, Table, TableRef,
    Value, decode_frame,
};
use auth::{Authenticator, Rules};
use broker::Broker;
use front_amqp091::Settings;
use log::{Disk, WalOptions};
use meta::{Command, PasswordHash};
use net::{Clock, Descriptors, ListenAddress, Listener, Server, ServerSettings, Timers};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use testing::MemoryDisk;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const FRAME_MAX: u32 = 131_072;
/// Nothing in these tests takes long; more than this is a hang.
const DEADLINE: Duration = Duration::from_secs(30);

static NODES: RwLock<()> = RwLock::new(());

/// A node's hold on [`NODES`].
enum Process {
    Shared { _nodes: RwLockReadGuard<'static, ()> },
    Alone { _nodes: RwLockWriteGuard<'static, ()> },
}

/// A node.
pub(crate) struct Site {
    pub(crate) broker: Arc<Broker>,
    pub(crate) server: Arc<Server>,
    pub(crate) address: SocketAddr,
    /// Whether listeners are suspended.
    pub(crate) suspended: watch::Sender<bool>,
    _process: Process,
}

impl Site {
    pub(crate) fn start(max_connections: Option<u64>) -> Self {
        Self::start_with(Settings::default(), |settings| settings.max_connections = max_connections)
    }

    /// With settings of its sockets other than those of most tests.
    pub(crate) fn start_with(front: Settings, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let nodes = NODES.read().unwrap_or_else(PoisonError::into_inner);
        Self::start_in(Process::Shared { _nodes: nodes }, front, change)
    }

    /// With no other node in the process.
    pub(crate) fn start_alone() -> Self {
        let nodes = NODES.write().unwrap_or_else(PoisonError::into_inner);
        Self::start_in(Process::Alone { _nodes: nodes }, Settings::default(), |_settings| {})
    }

    fn start_in(
        process: Process,
        front: Settings,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
        let wal = WalOptions { segment_bytes: 1 << 24, ..WalOptions::default() };
        let broker = Broker::open(disk, wal).unwrap();
        let administering = Arc::clone(&broker);
        tokio::task::block_in_place(move || {
            tokio::runtime::Handle::current().block_on(async move {
                for command in definitions() {
                    administering.apply_definition(command).await.unwrap();
                }
            });
        });
        let one = ListenAddress::One("127.0.0.1:0".parse().unwrap());
        let listener = Listener::bind(one, 128).unwrap();
        let address = listener.address();
        let rules = Rules { loopback_users: vec!["guest".to_owned()], anonymous: None };
        let mut settings = ServerSettings {
            nodelay: true,
            keepalive: true,
            proxy_protocol: false,
            send_buffer_bytes: Some(1 << 16),
            receive_buffer_bytes: Some(1 << 16),
            max_connections: None,
            descriptors: Arc::new(Descriptors::new(1 << 20)),
        };
        change(&mut settings);
        let suspended = watch::Sender::new(false);
        let server = Server::new(
            Arc::clone(&broker),
            Authenticator::new(rules),
            front,
            settings,
            Clock::start(),
            Timers::start().unwrap(),
        );
        tokio::spawn(Arc::clone(&server).accept(listener, suspended.subscribe()));
        Self { broker, server, address, suspended, _process: process }
    }

    pub(crate) async fn wait_until_empty(&self) {
        let empty = async {
            while self.server.n_connections() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, empty).await.expect("connections are left behind");
    }
}

fn definitions() -> [Command; 3] {
    let all = || ".*".to_owned();
    [
        Command::CreateVhost { vhost: "/".into(), metadata: Default::default() },
        Command::CreateUser {
            user: "guest".into(),
            password: PasswordHash::new(Default::default(), "guest"),
            tags: Vec::new(),
        },
        Command::SetPermissions {
            user: "guest".into(),
            vhost: "/".into(),
            configure: all(),
            write: all(),
            read: all(),
        },
    ]
}

/// A frame that a client receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A method, by name.
    Method(&'static str),
    /// `basic.ack`.
    Ack(u64),
    /// `basic.deliver` or `basic.get-ok` with its body.
    Message(u64, Vec<u8>),
    /// `connection.close` or `channel.close`.
    Closed(u16, String),
    /// The socket was closed.
    End,
}

pub(crate) struct Client {
    socket: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    at: usize,
}

pub(crate) fn properties() -> Vec<u8> {
    let mut capabilities = Table::new();
    capabilities.push(ShortString::from_static("authentication_failure_close"), true);
    let mut table = Table::new();
    table.push(ShortString::from_static("capabilities"), Value::Table(capabilities));
    table.to_bytes()
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut client = Self::raw(address).await;
        client.send(&ProtocolHeader::encode_amqp([0, 0, 9, 1])).await;
        client
    }

    /// A socket on which nothing was said.
    pub(crate) async fn raw(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, output: Vec::new(), input: Vec::new(), at: 0 }
    }

    /// Whether the server has neither closed the socket nor said anything.
    pub(crate) fn is_open(&self) -> bool {
        let seen = self.socket.try_read(&mut [0]);
        seen.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Writes these bytes at once.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Through the handshake, with channel 1 open.
    pub(crate) async fn open(address: SocketAddr, user: &str) -> Self {
        let mut client = Self::connect(address).await;
        client.handshake(user, "/").await;
        assert_eq!(client.hear().await, Said::Method("connection.open-ok"));
        client.call(1, ChannelOpen::default(), "channel.open-ok").await;
        client
    }

    pub(crate) async fn log_in(&mut self, user: &str, password: &str, properties: &[u8]) {
        assert_eq!(self.hear().await, Said::Method("connection.start"));
        let response = format!("\0{user}\0{password}");
        let start_ok = ConnectionStartOk {
            client_properties: TableRef::trusted(properties),
            mechanism: b"PLAIN",
            response: response.as_bytes(),
            locale: b"en_US",
        };
        self.put(0, start_ok);
        self.flush().await;
    }

    /// Up to `connection.open`, whose answer is not waited for.
    pub(crate) async fn handshake(&mut self, user: &str, vhost: &str) {
        self.log_in(user, user, &properties()).await;
        assert_eq!(self.hear().await, Said::Method("connection.tune"));
        self.put(0, ConnectionTuneOk { channel_max: 100, frame_max: FRAME_MAX, heartbeat: 60 });
        self.put(0, ConnectionOpen { virtual_host: vhost.as_bytes(), ..ConnectionOpen::default() });
        self.flush().await;
    }

    pub(crate) fn put<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        method.into().encode_frame(channel, &mut self.output);
    }

    pub(crate) fn put_message(&mut self, channel: u16, publish: BasicPublish<'_>, body: &[u8]) {
        self.put_content(channel, publish, PropertiesRef::EMPTY, body);
    }

    pub(crate) fn put_content(
        &mut self,
        channel: u16,
        publish: BasicPublish<'_>,
        properties: PropertiesRef<'_>,
        body: &[u8],
    ) {
        publish.encode_frame(channel, &mut self.output);
        encode_content(channel, properties, body, FRAME_MAX, &mut self.output);
    }

    pub(crate) async fn flush(&mut self) {
        let written = self.socket.write_all(&self.output);
        tokio::time::timeout(DEADLINE, written).await.expect("writing hangs").unwrap();
        self.output.clear();
    }

    pub(crate) async fn flush_if_large(&mut self) {
        if self.output.len() > 100_000 {
            self.flush().await;
        }
    }

    pub(crate) async fn call<'a>(
        &mut self,
        channel: u16,
        method: impl Into<Method<'a>>,
        answer: &'static str,
    ) {
        self.put(channel, method);
        self.flush().await;
        assert_eq!(self.hear().await, Said::Method(answer));
    }

    pub(crate) async fn delivery(&mut self) -> (u64, Vec<u8>) {
        let said = self.hear().await;
        let Said::Message(tag, body) = said else { panic!("{said:?} instead of a message") };
        (tag, body)
    }

    pub(crate) async fn hear(&mut self) -> Said {
        loop {
            if let Some((said, used)) = parse(&self.input[self.at..]) {
                self.at += used;
                return said;
            }
            self.input.drain(..self.at);
            self.at = 0;
            let read = self.socket.read_buf(&mut self.input);
            match tokio::time::timeout(DEADLINE, read).await.expect("nothing comes") {
                Ok(0) | Err(_) => return Said::End,
                Ok(_) => {}
            }
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are known by name")]
fn parse(input: &[u8]) -> Option<(Said, usize)> {
    let (frame, used) = decode_frame(input, 0).unwrap()?;
    assert_eq!(frame.kind, FrameKind::Method);
    let method = Method::decode(frame.payload).unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = match method {
        Method::BasicAck(ack) => Said::Ack(ack.delivery_tag),
        Method::ConnectionClose(close) => Said::Closed(close.reply_code, text(close.reply_text)),
        Method::ChannelClose(close) => Said::Closed(close.reply_code, text(close.reply_text)),
        Method::BasicDeliver(deliver) => {
            let (body, len) = parse_body(&input[used..])?;
            return Some((Said::Message(deliver.delivery_tag, body), used + len));
        }
        Method::BasicGetOk(got) => {
            let (body, len) = parse_body(&input[used..])?;
            return Some((Said::Message(got.delivery_tag, body), used + len));
        }
        other => Said::Method(other.name()),
    };
    Some((said, used))
}

fn parse_body(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (frame, mut at) = decode_frame(input, 0).unwrap()?;
    let size = ContentHeader::decode(frame.payload).unwrap().body_size;
    let mut body = Vec::new();
    while (body.len() as u64) < size {
        let (frame, used) = decode_frame(&input[at..], 0).unwrap()?;
        assert!(frame.payload.len() <= FRAME_MAX as usize - 8);
        body.extend_from_slice(frame.payload);
        at += used;
    }
    Some((body, at))
}
