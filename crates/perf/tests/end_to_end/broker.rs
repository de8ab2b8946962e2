//! Enough of a broker for the tool: one thread per connection, one hub that passes messages on.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use amqp091::content::encode_content;
use amqp091::method::{
    BasicAck, BasicConsumeOk, BasicDeliver, BasicNack, BasicQosOk, ChannelClose, ChannelCloseOk,
    ChannelOpenOk, ConfirmSelectOk, ConnectionClose, ConnectionCloseOk, ConnectionOpenOk,
    ConnectionStart, ConnectionTune, ExchangeDeclareOk, QueueBindOk, QueueDeclareOk, QueueDeleteOk,
};
use amqp091::{ContentHeader, FrameKind, Method, PropertiesRef, decode_frame};

const FRAME_MAX: u32 = 131_072;

/// The test broker's treatment of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// Each message goes to a consumer.
    Echo,
    /// Messages are not even looked at.
    Discard,
    /// Some messages do not arrive.
    Lose,
    /// Some messages arrive twice.
    Repeat,
    /// Some messages arrive changed.
    Damage,
    /// Some messages arrive before those in front of them.
    Swap,
    /// All connections are cut once.
    Cut,
    /// All connections are cut, and nobody is let in again.
    Vanish,
    /// Consumers' connections end right behind the second message.
    Leave,
    /// Some messages are not taken, and that is said.
    Refuse,
    /// Some messages are not taken, and nothing is said.
    Swallow,
    /// Queues cannot be declared.
    RefuseQueues,
    /// Messages with the flag immediate end the connection, as RabbitMQ does it.
    RefuseImmediate,
}

/// A consumer: its connection, its channel, its tag, the last delivery tag.
struct Consumer {
    socket: Arc<Mutex<TcpStream>>,
    channel: u16,
    tag: Vec<u8>,
    delivery_tag: u64,
}

#[derive(Default)]
struct Hub {
    /// By routing key, which is the queue's name where that matters.
    consumers: Vec<Consumer>,
    next: usize,
    n_messages: u64,
    is_gone: bool,
    kept_back: Option<Message>,
    /// Messages nobody consumes yet.
    backlog: Vec<Message>,
}

#[derive(Clone)]
struct Message {
    properties: Vec<u8>,
    body: Vec<u8>,
}

/// Counts over all connections.
#[derive(Default)]
struct Seen {
    n_acknowledged: AtomicU64,
    n_bytes: AtomicU64,
    n_bound: AtomicU64,
}

pub(super) struct Broker {
    port: u16,
    seen: Arc<Seen>,
}

impl Broker {
    pub(super) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hub = Arc::new(Mutex::new(Hub::default()));
        let seen = Arc::new(Seen::default());
        let seen_by_all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (hub, seen) = (Arc::clone(&hub), Arc::clone(&seen_by_all));
                let socket = socket.unwrap();
                if hub.lock().unwrap().is_gone {
                    continue;
                }
                std::thread::spawn(move || Session::new(socket, behaviour, hub, seen).serve());
            }
        });
        Self { port, seen }
    }

    pub(super) fn uri(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn n_acknowledged(&self) -> u64 {
        self.seen.n_acknowledged.load(Ordering::SeqCst)
    }

    /// Bindings that were asked for.
    pub(super) fn n_bound(&self) -> u64 {
        self.seen.n_bound.load(Ordering::SeqCst)
    }

    /// Bytes of all kinds that came.
    pub(super) fn n_bytes(&self) -> u64 {
        self.seen.n_bytes.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct Incoming {
    confirms: bool,
    n_published: u64,
    last_settled: u64,
    /// Delivery tags that are not to be confirmed.
    not_taken: Vec<u64>,
    properties: Vec<u8>,
    left: u64,
    body: Vec<u8>,
}

struct Session {
    read: TcpStream,
    write: Arc<Mutex<TcpStream>>,
    behaviour: Behaviour,
    hub: Arc<Mutex<Hub>>,
    seen: Arc<Seen>,
    channels: HashMap<u16, Incoming>,
    out: Vec<u8>,
}

impl Session {
    fn new(socket: TcpStream, behaviour: Behaviour, hub: Arc<Mutex<Hub>>, seen: Arc<Seen>) -> Self {
        socket.set_nodelay(true).unwrap();
        let write = Arc::new(Mutex::new(socket.try_clone().unwrap()));
        let (channels, out) = (HashMap::new(), Vec::new());
        Self { read: socket, write, behaviour, hub, seen, channels, out }
    }

    /// Until the client goes.
    fn serve(mut self) {
        let mut greeting = [0; 8];
        self.read.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"AMQP\0\0\x09\x01");
        let start = ConnectionStart {
            version_minor: 9,
            mechanisms: b"PLAIN",
            locales: b"en_US",
            ..ConnectionStart::default()
        };
        start.encode_frame(0, &mut self.out);
        self.flush();
        let mut input = Vec::new();
        let mut chunk = vec![0; 256 * 1024];
        let mut goodbye = Vec::new();
        let close = ConnectionClose { reply_code: 200, ..ConnectionClose::default() };
        close.encode_frame(0, &mut goodbye);
        let mut is_open = false;
        while let Ok(n @ 1..) = self.read.read(&mut chunk) {
            self.seen.n_bytes.fetch_add(n as u64, Ordering::SeqCst);
            if is_open && self.behaviour == Behaviour::Discard {
                input.extend_from_slice(&chunk[n - n.min(goodbye.len())..n]);
                if input.ends_with(&goodbye) {
                    ConnectionCloseOk {}.encode_frame(0, &mut self.out);
                    self.flush();
                }
                input.drain(..input.len().saturating_sub(goodbye.len()));
                continue;
            }
            input.extend_from_slice(&chunk[..n]);
            let mut used_all = 0;
            while let Some((frame, used)) = decode_frame(&input[used_all..], FRAME_MAX).unwrap() {
                let payload = frame.payload.to_vec();
                self.on_frame(frame.kind, frame.channel, &payload);
                is_open |= frame.kind == FrameKind::Header;
                used_all += used;
            }
            input.drain(..used_all);
            self.confirm();
            self.flush();
        }
    }

    fn flush(&mut self) {
        // A client that is gone is no failure of the test.
        drop(self.write.lock().unwrap().write_all(&self.out));
        self.out.clear();
    }

    fn confirm(&mut self) {
        for (&channel, incoming) in &mut self.channels {
            if incoming.confirms && incoming.n_published > incoming.last_settled {
                let unsettled = incoming.last_settled + 1..=incoming.n_published;
                incoming.last_settled = incoming.n_published;
                let not_taken = std::mem::take(&mut incoming.not_taken);
                if !matches!(self.behaviour, Behaviour::Refuse | Behaviour::Swallow) {
                    let ack = BasicAck { delivery_tag: incoming.n_published, multiple: true };
                    ack.encode_frame(channel, &mut self.out);
                    continue;
                }
                for delivery_tag in unsettled {
                    if !not_taken.contains(&delivery_tag) {
                        BasicAck { delivery_tag, multiple: false }
                            .encode_frame(channel, &mut self.out);
                    } else if self.behaviour == Behaviour::Refuse {
                        let nack = BasicNack { delivery_tag, ..BasicNack::default() };
                        nack.encode_frame(channel, &mut self.out);
                    }
                }
            }
        }
    }

    fn on_frame(&mut self, kind: FrameKind, channel: u16, payload: &[u8]) {
        match kind {
            FrameKind::Heartbeat => {}
            FrameKind::Method => self.on_method(channel, &Method::decode(payload).unwrap()),
            FrameKind::Header => {
                let header = ContentHeader::decode(payload).unwrap();
                let incoming = self.channels.get_mut(&channel).unwrap();
                incoming.left = header.body_size;
                incoming.properties = header.properties.as_bytes().to_vec();
                incoming.body.clear();
            }
            FrameKind::Body => {
                let incoming = self.channels.get_mut(&channel).unwrap();
                incoming.body.extend_from_slice(payload);
                incoming.left -= payload.len() as u64;
                if incoming.left == 0 {
                    incoming.n_published += 1;
                    let properties = std::mem::take(&mut incoming.properties);
                    let body = std::mem::take(&mut incoming.body);
                    let tag = incoming.n_published;
                    if !self.pass_on(Message { properties, body }) {
                        self.channels.get_mut(&channel).unwrap().not_taken.push(tag);
                    }
                }
            }
        }
    }

    /// Whether the message is taken.
    fn pass_on(&mut self, message: Message) -> bool {
        if self.behaviour == Behaviour::Discard {
            return true;
        }
        let mut hub = self.hub.lock().unwrap();
        hub.n_messages += 1;
        let is_cut = matches!(self.behaviour, Behaviour::Cut | Behaviour::Vanish);
        if is_cut && hub.n_messages == 300 {
            hub.is_gone = self.behaviour == Behaviour::Vanish;
            for consumer in std::mem::take(&mut hub.consumers) {
                consumer.socket.lock().unwrap().shutdown(Shutdown::Both).unwrap();
            }
            self.read.shutdown(Shutdown::Both).unwrap();
        }
        let is_special = hub.n_messages % 100 == 50;
        match self.behaviour {
            Behaviour::Refuse | Behaviour::Swallow if is_special => return false,
            Behaviour::Lose if is_special => {}
            Behaviour::Repeat if is_special => {
                hub.deliver(&message);
                hub.deliver(&message);
            }
            Behaviour::Damage if is_special => {
                let mut body = message.body.clone();
                body[20] ^= 1;
                hub.deliver(&Message { body, ..message });
            }
            Behaviour::Swap if is_special => hub.kept_back = Some(message),
            Behaviour::Echo
            | Behaviour::Discard
            | Behaviour::Lose
            | Behaviour::Repeat
            | Behaviour::Damage
            | Behaviour::Swap
            | Behaviour::Cut
            | Behaviour::Vanish
            | Behaviour::Leave
            | Behaviour::Refuse
            | Behaviour::Swallow
            | Behaviour::RefuseQueues
            | Behaviour::RefuseImmediate => {
                hub.deliver(&message);
                if let Some(kept_back) = hub.kept_back.take() {
                    hub.deliver(&kept_back);
                }
            }
        }
        if self.behaviour == Behaviour::Leave && hub.n_messages == 2 {
            for consumer in std::mem::take(&mut hub.consumers) {
                consumer.socket.lock().unwrap().shutdown(Shutdown::Write).unwrap();
            }
        }
        true
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the tool uses a few methods of many")]
    fn on_method(&mut self, channel: u16, method: &Method<'_>) {
        let out = &mut self.out;
        match method {
            Method::ConnectionStartOk(start_ok) => {
                assert_eq!(start_ok.response, b"\0guest\0guest");
                let tune =
                    ConnectionTune { channel_max: 2047, frame_max: FRAME_MAX, heartbeat: 60 };
                tune.encode_frame(0, out);
            }
            Method::ConnectionOpen(_) => ConnectionOpenOk::default().encode_frame(0, out),
            Method::ConnectionClose(_) => ConnectionCloseOk {}.encode_frame(0, out),
            Method::ChannelOpen(_) => {
                self.channels.insert(channel, Incoming::default());
                ChannelOpenOk::default().encode_frame(channel, out);
            }
            Method::ChannelClose(_) => ChannelCloseOk {}.encode_frame(channel, out),
            Method::ExchangeDeclare(_) => ExchangeDeclareOk {}.encode_frame(channel, out),
            Method::QueueDeclare(_) if self.behaviour == Behaviour::RefuseQueues => {
                let close = ChannelClose {
                    reply_code: 406,
                    reply_text: b"refused",
                    ..ChannelClose::default()
                };
                close.encode_frame(channel, out);
            }
            Method::QueueDeclare(declare) => {
                let queue = if declare.queue.is_empty() { b"made-up" } else { declare.queue };
                QueueDeclareOk { queue, ..QueueDeclareOk::default() }.encode_frame(channel, out);
            }
            Method::QueueDelete(delete) if delete.no_wait => {}
            Method::QueueDelete(_) => QueueDeleteOk::default().encode_frame(channel, out),
            Method::QueueBind(_) => self.bind(channel),
            Method::BasicQos(_) => BasicQosOk {}.encode_frame(channel, out),
            Method::ConfirmSelect(_) => {
                self.channels.get_mut(&channel).unwrap().confirms = true;
                ConfirmSelectOk {}.encode_frame(channel, out);
            }
            Method::BasicConsume(consume) => {
                BasicConsumeOk { consumer_tag: consume.consumer_tag }.encode_frame(channel, out);
                let socket = Arc::clone(&self.write);
                let tag = consume.consumer_tag.to_vec();
                let consumer = Consumer { socket, channel, tag, delivery_tag: 0 };
                self.flush();
                let mut hub = self.hub.lock().unwrap();
                hub.consumers.push(consumer);
                for message in std::mem::take(&mut hub.backlog) {
                    hub.deliver(&message);
                }
            }
            Method::BasicAck(ack) => {
                let incoming = self.channels.get_mut(&channel).unwrap();
                let n = if ack.multiple { ack.delivery_tag - incoming.last_settled } else { 1 };
                incoming.last_settled = ack.delivery_tag;
                self.seen.n_acknowledged.fetch_add(n, Ordering::SeqCst);
            }
            Method::BasicPublish(publish)
                if publish.immediate && self.behaviour == Behaviour::RefuseImmediate =>
            {
                let close = ConnectionClose {
                    reply_code: 540,
                    reply_text: b"NOT_IMPLEMENTED - immediate=true",
                    ..ConnectionClose::default()
                };
                close.encode_frame(0, out);
            }
            Method::ConnectionCloseOk(_) => {}
            Method::BasicPublish(_) | Method::ConnectionTuneOk(_) => {}
            other => panic!("unexpected {}", other.name()),
        }
    }
}

impl Session {
    fn bind(&mut self, channel: u16) {
        self.seen.n_bound.fetch_add(1, Ordering::SeqCst);
        QueueBindOk {}.encode_frame(channel, &mut self.out);
    }
}

impl Hub {
    /// To the consumers in turn.
    fn deliver(&mut self, message: &Message) {
        if self.consumers.is_empty() {
            return self.backlog.push(message.clone());
        }
        self.next = (self.next + 1) % self.consumers.len();
        let consumer = &mut self.consumers[self.next];
        consumer.delivery_tag += 1;
        let deliver = BasicDeliver {
            consumer_tag: &consumer.tag,
            delivery_tag: consumer.delivery_tag,
            ..BasicDeliver::default()
        };
        let mut out = Vec::new();
        deliver.encode_frame(consumer.channel, &mut out);
        let properties = PropertiesRef::trusted(&message.properties);
        encode_content(consumer.channel, properties, &message.body, FRAME_MAX, &mut out);
        drop(consumer.socket.lock().unwrap().write_all(&out));
    }
}
