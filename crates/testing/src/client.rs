//! An AMQP 0-9-1 client that is as polite as its test wants: blocking, and free to send any bytes.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "what does not go well fails the test"
)]

use amqp091::method::{
    BasicConsume, BasicGet, BasicPublish, ChannelOpen, ConfirmSelect, ConnectionClose,
    ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, QueueDeclare,
};
use amqp091::{
    ContentHeader, FrameKind, Method, Properties, PropertiesRef, ShortString, Table, TableRef,
    Value, content, decode_frame,
};
use rustix::net::{AddressFamily, SocketType};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything a test waits for takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// The protocol header of AMQP 0-9-1.
pub const HEADER: &[u8; 8] = b"AMQP\0\0\x09\x01";

/// A client's login, and the limits it agrees to.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The address of this machine to connect from, if not any.
    pub from: Option<Ipv4Addr>,
    /// Bytes to write before anything else.
    pub before: &'a [u8],
    /// SASL mechanism.
    pub mechanism: &'a str,
    /// User.
    pub user: &'a str,
    /// Password.
    pub password: &'a str,
    /// Virtual host.
    pub vhost: &'a str,
    /// Whether to claim what client libraries can do.
    pub capable: bool,
    /// Channels it agrees to.
    pub channel_max: u16,
    /// Bytes of a frame it agrees to.
    pub frame_max: u32,
    /// Heartbeat it agrees to, in seconds.
    pub heartbeat_s: u16,
}

impl Default for Login<'_> {
    fn default() -> Self {
        Self {
            from: None,
            before: b"",
            mechanism: "PLAIN",
            user: "guest",
            password: "guest",
            vhost: "/",
            capable: true,
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat_s: 0,
        }
    }
}

/// A frame, owned.
#[derive(Clone, Debug)]
pub struct Received {
    /// Kind of frame.
    pub kind: FrameKind,
    /// The bytes between its header and its end.
    pub payload: Vec<u8>,
}

impl Received {
    /// Its method; the frame has to have one.
    pub fn method(&self) -> Method<'_> {
        assert_eq!(self.kind, FrameKind::Method);
        Method::decode(&self.payload).unwrap()
    }

    /// The method in short: its name, and of a close its code and text.
    pub fn show(&self) -> String {
        let method = self.method();
        let close = |code, text: &[u8]| {
            format!("{} {code} {}", method.name(), String::from_utf8_lossy(text))
        };
        match &method {
            Method::ConnectionClose(it) => close(it.reply_code, it.reply_text),
            Method::ChannelClose(it) => close(it.reply_code, it.reply_text),
            Method::ConnectionBlocked(it) => {
                format!("{} {}", method.name(), String::from_utf8_lossy(it.reason))
            }
            other => other.name().to_owned(),
        }
    }
}

/// A message that came by deliver or get-ok.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Delivery tag.
    pub tag: u64,
    /// The flag of that name.
    pub redelivered: bool,
    /// Exchange it was published to.
    pub exchange: Vec<u8>,
    /// Key it was published with.
    pub routing_key: Vec<u8>,
    /// As they came, see [`PropertiesRef`].
    pub properties: Vec<u8>,
    /// Body.
    pub body: Vec<u8>,
}

/// A connection.
pub struct Client {
    socket: TcpStream,
    input: Vec<u8>,
    at: usize,
    /// Output that is not flushed yet.
    pub out: Vec<u8>,
    frame_max: u32,
    /// Publishes since confirms were selected.
    n_published: u64,
    /// Numbers of those that wait for their confirm.
    pub unconfirmed: BTreeSet<u64>,
    confirms: bool,
}

impl Client {
    /// A socket on which nothing was said.
    pub fn raw(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).unwrap())
    }

    /// As [`Self::raw`], from this address.
    fn raw_from(from: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        Self::on(TcpStream::from(socket))
    }

    fn on(socket: TcpStream) -> Self {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        Self {
            socket,
            input: Vec::new(),
            at: 0,
            out: Vec::new(),
            frame_max: 131_072,
            n_published: 0,
            unconfirmed: BTreeSet::new(),
            confirms: false,
        }
    }

    /// The protocol header is sent.
    fn connected(address: SocketAddr, login: Login<'_>) -> Self {
        let mut client = match login.from {
            Some(from) => Self::raw_from(from, address),
            None => Self::raw(address),
        };
        client.write(login.before);
        client.write(HEADER);
        client
    }

    /// Up to start-ok, which is sent.
    pub fn introduced(address: SocketAddr, login: Login<'_>) -> Self {
        let mut client = Self::connected(address, login);
        client.introduce(login);
        client
    }

    fn introduce(&mut self, login: Login<'_>) {
        assert_eq!(self.next().show(), "connection.start");
        let mut properties = Table::new();
        if login.capable {
            let names = [
                "authentication_failure_close",
                "connection.blocked",
                "basic.nack",
                "consumer_cancel_notify",
            ];
            let capabilities: Table = names
                .into_iter()
                .map(|name| (ShortString::from_static(name), Value::Bool(true)))
                .collect();
            properties.push(ShortString::from_static("capabilities"), Value::Table(capabilities));
        }
        let properties = properties.to_bytes();
        let response = format!("\0{}\0{}", login.user, login.password);
        let start_ok = ConnectionStartOk {
            client_properties: TableRef::trusted(&properties),
            mechanism: login.mechanism.as_bytes(),
            response: response.as_bytes(),
            locale: b"en_US",
        };
        self.say(0, start_ok);
    }

    /// Up to tune-ok, which is sent.
    pub fn tuned(address: SocketAddr, login: Login<'_>) -> Self {
        let mut client = Self::introduced(address, login);
        client.tune(login);
        client
    }

    fn tune(&mut self, login: Login<'_>) {
        assert_eq!(self.next().show(), "connection.tune");
        self.frame_max = login.frame_max;
        let Login { channel_max, frame_max, heartbeat_s, .. } = login;
        self.say(0, ConnectionTuneOk { channel_max, frame_max, heartbeat: heartbeat_s });
    }

    /// Up to `connection.open`, whatever the answer is.
    pub fn asking(address: SocketAddr, login: Login<'_>) -> Self {
        let mut client = Self::connected(address, login);
        client.ask_to_open(login);
        client
    }

    /// The handshake behind the protocol header, up to `connection.open`, whatever the answer is.
    pub fn ask_to_open(&mut self, login: Login<'_>) {
        self.introduce(login);
        self.tune(login);
        let vhost = login.vhost.as_bytes();
        self.say(0, ConnectionOpen { virtual_host: vhost, ..ConnectionOpen::default() });
    }

    /// An open connection.
    pub fn login(address: SocketAddr, login: Login<'_>) -> Self {
        let mut client = Self::asking(address, login);
        assert_eq!(client.next().show(), "connection.open-ok");
        client
    }

    /// An open connection of guest with channel 1.
    pub fn guest(address: SocketAddr) -> Self {
        let mut client = Self::login(address, Login::default());
        client.open_channel(1);
        client
    }

    /// Opens a channel.
    pub fn open_channel(&mut self, channel: u16) {
        assert_eq!(self.ask(channel, ChannelOpen::default()), "channel.open-ok");
    }

    /// Declares a durable queue. How many messages are ready in it.
    pub fn declare(&mut self, queue: &str) -> u32 {
        let declare =
            QueueDeclare { queue: queue.as_bytes(), durable: true, ..QueueDeclare::default() };
        self.say(1, declare);
        let answer = self.next();
        let Method::QueueDeclareOk(declared) = answer.method() else { panic!("{}", answer.show()) };
        declared.message_count
    }

    /// Has channel 1 confirm.
    pub fn select_confirms(&mut self) {
        assert_eq!(self.ask(1, ConfirmSelect::default()), "confirm.select-ok");
        self.confirms = true;
    }

    /// Consumes on channel 1.
    pub fn consume(&mut self, queue: &str, no_ack: bool) {
        let consume = BasicConsume { queue: queue.as_bytes(), no_ack, ..BasicConsume::default() };
        assert_eq!(self.ask(1, consume), "basic.consume-ok");
    }

    /// Puts a publish through the default exchange into the output.
    pub fn put_publish(&mut self, queue: &str, persistent: bool, body: &[u8]) {
        self.put_content("", queue, if persistent { 2 } else { 1 }, body);
    }

    /// Puts a publish into the output.
    pub fn put_content(&mut self, exchange: &str, key: &str, mode: u8, body: &[u8]) {
        let properties = Properties { delivery_mode: Some(mode), ..Properties::default() };
        self.put_message(exchange, key, &properties, body);
    }

    /// Puts a publish with these properties into the output.
    pub fn put_message(&mut self, exchange: &str, key: &str, properties: &Properties, body: &[u8]) {
        let (exchange, routing_key) = (exchange.as_bytes(), key.as_bytes());
        let publish = BasicPublish { exchange, routing_key, ..BasicPublish::default() };
        self.put_whole(publish, properties, body);
    }

    /// Puts a publish with all its fields and these properties into the output.
    pub fn put_whole(&mut self, publish: BasicPublish<'_>, properties: &Properties, body: &[u8]) {
        publish.encode_frame(1, &mut self.out);
        if self.confirms {
            self.n_published += 1;
            self.unconfirmed.insert(self.n_published);
        }
        let properties = properties.to_bytes();
        let properties = PropertiesRef::parse(&properties).unwrap();
        content::encode_content(1, properties, body, self.frame_max, &mut self.out);
    }

    /// The numbers of the publishes that the next frame confirms; an error when the connection ends, or
    /// when its publishes have to wait.
    pub fn try_confirmed(&mut self) -> std::io::Result<Vec<u64>> {
        let frame = self.try_next()?;
        let (tag, multiple) = match frame.method() {
            Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple),
            Method::ConnectionClose(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Method::ConnectionBlocked(_) => return Err(ErrorKind::ResourceBusy.into()),
            Method::ConnectionUnblocked(_) => return Ok(Vec::new()),
            other => panic!("no confirm but {}", other.name()),
        };
        let told: Vec<u64> =
            if multiple { self.unconfirmed.range(..=tag).copied().collect() } else { vec![tag] };
        for number in &told {
            assert!(self.unconfirmed.remove(number), "{number} is confirmed, and does not wait");
        }
        Ok(told)
    }

    /// Writes what was put into the output, and waits until all publishes are confirmed.
    pub fn wait_for_confirms(&mut self) {
        self.flush();
        while !self.unconfirmed.is_empty() {
            self.try_confirmed().unwrap();
        }
    }

    /// One message by `basic.get`, acknowledged with it; `None` when the queue is empty.
    pub fn get(&mut self, queue: &str) -> Option<Message> {
        self.say(1, BasicGet { queue: queue.as_bytes(), no_ack: true, ..BasicGet::default() });
        self.message()
    }

    /// As `get`, and to be acknowledged.
    pub fn get_to_ack(&mut self, queue: &str) -> Option<Message> {
        self.say(1, BasicGet { queue: queue.as_bytes(), ..BasicGet::default() });
        self.message()
    }

    /// Publishes since confirms were selected.
    pub const fn n_published(&self) -> u64 {
        self.n_published
    }

    /// The next delivery or get-ok with its content; `None` for get-empty and goodbye.
    pub fn message(&mut self) -> Option<Message> {
        self.try_message().unwrap()
    }

    /// As `message`; an error when the connection ends.
    pub fn try_message(&mut self) -> std::io::Result<Option<Message>> {
        let frame = self.try_next()?;
        let (tag, redelivered, exchange, key) = match frame.method() {
            Method::BasicDeliver(it) => {
                (it.delivery_tag, it.redelivered, it.exchange, it.routing_key)
            }
            Method::BasicGetOk(it) => {
                (it.delivery_tag, it.redelivered, it.exchange, it.routing_key)
            }
            Method::BasicGetEmpty(_) | Method::ConnectionClose(_) => return Ok(None),
            other => panic!("no message but {}", other.name()),
        };
        let header = self.try_next()?;
        assert_eq!(header.kind, FrameKind::Header);
        let content = ContentHeader::decode(&header.payload).unwrap();
        let (size, properties) = (content.body_size, content.properties.as_bytes().to_vec());
        let mut body = Vec::new();
        while (body.len() as u64) < size {
            let frame = self.try_next()?;
            assert_eq!(frame.kind, FrameKind::Body);
            body.extend_from_slice(&frame.payload);
        }
        let (exchange, routing_key) = (exchange.to_vec(), key.to_vec());
        Ok(Some(Message { tag, redelivered, exchange, routing_key, properties, body }))
    }

    /// Writes what was put into the output.
    pub fn flush(&mut self) {
        self.try_flush().unwrap();
    }

    /// As [`Self::flush`]; an error when the connection ends.
    pub fn try_flush(&mut self) -> std::io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.socket.write_all(&out)
    }

    /// Writes these bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Writes the bytes over and over until the peer takes no more for a second. How much it took.
    pub fn flood(&mut self, bytes: &[u8], n_max: usize) -> usize {
        self.socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut n_written = 0;
        let mut rest = bytes;
        while n_written < n_max {
            match self.socket.write(rest) {
                Ok(n) => {
                    n_written += n;
                    rest = if n == rest.len() { bytes } else { &rest[n..] };
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return n_written,
                Err(error) => panic!("cannot write: {error}"),
            }
        }
        panic!("{n_written} bytes were taken and more would be")
    }

    /// Says something on a channel.
    pub fn say<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        method.into().encode_frame(channel, &mut self.out);
        self.flush();
    }

    /// Says something and shows the answer.
    pub fn ask<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) -> String {
        self.say(channel, method);
        self.next().show()
    }

    /// The next frame that is no heartbeat.
    #[expect(clippy::should_implement_trait, reason = "an end fails the test")]
    pub fn next(&mut self) -> Received {
        self.try_next().unwrap()
    }

    /// As `next`; an error when the connection ends.
    pub fn try_next(&mut self) -> std::io::Result<Received> {
        loop {
            if let Some((frame, used)) = decode_frame(&self.input[self.at..], 0).unwrap() {
                let (kind, payload) = (frame.kind, frame.payload.to_vec());
                self.at += used;
                let frame_max = self.frame_max as usize;
                assert!(frame_max == 0 || used <= frame_max, "a frame of {used} bytes");
                if kind != FrameKind::Heartbeat {
                    return Ok(Received { kind, payload });
                }
                continue;
            }
            self.input.drain(..self.at);
            self.at = 0;
            let mut buffer = [0; 16 * 1024];
            let n = self.socket.read(&mut buffer)?;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&buffer[..n]);
        }
    }

    /// Everything that comes until the peer closes the socket.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = self.input.split_off(self.at);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return rest,
                Ok(n) => rest.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("the connection is not closed: {error}"),
            }
        }
    }

    /// Says nothing more, so that the peer finds the end of the stream.
    pub fn shut_up(&self) {
        // The peer may have closed the socket, which is as good.
        drop(self.socket.shutdown(Shutdown::Write));
    }

    /// Closes in good order.
    pub fn close(self) {
        drop(self.say_goodbye());
    }

    /// Closes the connection, not the socket.
    pub fn say_goodbye(mut self) -> Self {
        assert_eq!(self.ask(0, ConnectionClose::default()), "connection.close-ok");
        self
    }

    /// The port of this machine that it connects from.
    pub fn local_port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Whether the peer has neither closed the socket nor said anything.
    pub fn is_open(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let seen = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        seen.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// A publish and a get of it on a queue of its own: what somebody else sees of the node.
    pub fn round_trip(&mut self) {
        let queue = "bystander";
        self.declare(queue);
        self.put_publish(queue, false, b"ping");
        let message = self.get(queue).unwrap();
        assert_eq!(message.body, b"ping");
    }
}
