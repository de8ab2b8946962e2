//! The floor of real clients: a process that answers AMQP 0-9-1 without queues. Messages that one read
//! brings are written at once to the consumer of their queue, and confirmed by one ack; acks of consumers
//! are dropped. A message without a consumer is gone. Knows frames and sockets. Never what is measured
//! with it.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use amqp091::method::{
    BasicAck, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicDeliver, BasicPublish, BasicQos,
    BasicQosOk, ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, ConfirmSelect,
    ConfirmSelectOk, ConnectionClose, ConnectionCloseOk, ConnectionOpen, ConnectionOpenOk,
    ConnectionStart, ConnectionStartOk, ConnectionTune, ExchangeDeclare, ExchangeDeclareOk,
    QueueBind, QueueBindOk, QueueDeclareOk, QueueDelete, QueueDeleteOk,
};
use amqp091::table::{TableRef, ValueRef, put_name, put_table};
use amqp091::{ContentHeader, Frame, FrameKind, Method, ProtocolHeader, decode_frame};
use anyhow::Context as _;

const FRAME_MAX: u32 = 131_072;
/// The read buffer; it grows for a message that is larger.
const READ_BYTES: usize = 128 * 1024;
const CAPABILITIES: [&[u8]; 3] = [b"publisher_confirms", b"basic.nack", b"consumer_cancel_notify"];

/// The names that all connections know.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Names>);

#[derive(Debug, Default)]
struct Names {
    /// Queues by exchange and routing key.
    bound: HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
    /// The last consumer of each queue.
    consumers: HashMap<Vec<u8>, Arc<Consumer>>,
    /// Names that were made up.
    n_made: u64,
}

impl Hub {
    fn names(&self) -> MutexGuard<'_, Names> {
        stdx::lock(&self.0)
    }
}

#[derive(Debug)]
struct Consumer {
    peer: Arc<Peer>,
    channel: u16,
    tag: Vec<u8>,
}

/// A client's side of a connection.
#[derive(Debug)]
struct Peer {
    socket: Mutex<TcpStream>,
    delivery_tag: AtomicU64,
    is_gone: AtomicBool,
}

impl Peer {
    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        stdx::lock(&self.socket).write_all(bytes)
    }
}

/// A channel with confirms.
#[derive(Debug)]
struct Confirms {
    channel: u16,
    published: u64,
    confirmed: u64,
}

struct Connection<'h> {
    hub: &'h Hub,
    peer: Arc<Peer>,
    /// Answers to this client.
    out: Vec<u8>,
    confirms: Vec<Confirms>,
    /// The last exchange and routing key, and who consumes from there.
    route: Option<(Vec<u8>, Vec<u8>, Arc<Consumer>)>,
    /// Deliveries of this read.
    deliveries: Vec<(Arc<Consumer>, Vec<u8>)>,
}

/// Serves one client until it goes.
pub(crate) fn serve(mut socket: TcpStream, hub: &Hub) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    socket.read_exact(&mut [0; ProtocolHeader::BYTES])?;
    let (tag, is_gone) = (AtomicU64::new(0), AtomicBool::new(false));
    let ours = Mutex::new(socket.try_clone()?);
    let peer = Arc::new(Peer { socket: ours, delivery_tag: tag, is_gone });
    let (out, confirms, deliveries) = (Vec::new(), Vec::new(), Vec::new());
    let mut it = Connection { hub, peer, out, confirms, route: None, deliveries };
    it.start();
    let end = it.go_on(&mut socket);
    it.peer.is_gone.store(true, Ordering::Relaxed);
    hub.names().consumers.retain(|_, consumer| !Arc::ptr_eq(&consumer.peer, &it.peer));
    end
}

impl Connection<'_> {
    fn start(&mut self) {
        let mut properties = Vec::new();
        put_name(&mut properties, b"product");
        ValueRef::LongString(b"floor").encode(&mut properties);
        put_name(&mut properties, b"capabilities");
        put_table(&mut properties, |out| {
            for name in CAPABILITIES {
                put_name(out, name);
                ValueRef::Bool(true).encode(out);
            }
        });
        let start = ConnectionStart {
            version_minor: 9,
            server_properties: TableRef::trusted(&properties),
            mechanisms: b"PLAIN",
            locales: b"en_US",
            ..ConnectionStart::default()
        };
        start.encode_frame(0, &mut self.out);
    }

    fn go_on(&mut self, socket: &mut TcpStream) -> anyhow::Result<()> {
        let (mut input, mut filled) = (vec![0; READ_BYTES], 0);
        loop {
            self.flush()?;
            let n @ 1.. = socket.read(input.get_mut(filled..).unwrap_or_default())? else {
                return Ok(());
            };
            filled += n;
            let taken = self.take(input.get(..filled).unwrap_or_default())?;
            input.copy_within(taken..filled, 0);
            filled -= taken;
            if filled == input.len() {
                input.resize(2 * filled, 0);
            }
        }
    }

    /// Takes whole frames and whole messages; how many bytes those are.
    fn take(&mut self, input: &[u8]) -> anyhow::Result<usize> {
        let mut rest = input;
        while let Some((frame, len)) = decode_frame(rest, FRAME_MAX)? {
            let after = rest.get(len..).unwrap_or_default();
            rest = match published(frame)? {
                Some(publish) => {
                    let Some(content_len) = content_len(after)? else { break };
                    let (content, after) = after.split_at(content_len);
                    self.publish(frame.channel, &publish, content)?;
                    after
                }
                None => {
                    if frame.kind == FrameKind::Method {
                        self.method(frame.channel, &Method::decode(frame.payload)?)?;
                    }
                    after
                }
            };
        }
        Ok(input.len() - rest.len())
    }

    fn publish(
        &mut self,
        channel: u16,
        publish: &BasicPublish<'_>,
        content: &[u8],
    ) -> anyhow::Result<()> {
        if let Some(consumer) = self.consumer(publish.exchange, publish.routing_key) {
            let at = self.deliveries.iter().position(|(it, _)| Arc::ptr_eq(it, &consumer));
            let at = at.unwrap_or_else(|| {
                self.deliveries.push((Arc::clone(&consumer), Vec::new()));
                self.deliveries.len() - 1
            });
            let (_, out) = self.deliveries.get_mut(at).context("it was found there")?;
            let deliver = BasicDeliver {
                consumer_tag: &consumer.tag,
                delivery_tag: consumer.peer.delivery_tag.fetch_add(1, Ordering::Relaxed) + 1,
                redelivered: false,
                exchange: publish.exchange,
                routing_key: publish.routing_key,
            };
            deliver.encode_frame(consumer.channel, out);
            put_content(content, consumer.channel, out)?;
        }
        if let Some(confirms) = self.confirms.iter_mut().find(|it| it.channel == channel) {
            confirms.published += 1;
        }
        Ok(())
    }

    fn consumer(&mut self, exchange: &[u8], key: &[u8]) -> Option<Arc<Consumer>> {
        if let Some((of, by, consumer)) = &self.route
            && (of.as_slice(), by.as_slice()) == (exchange, key)
            && !consumer.peer.is_gone.load(Ordering::Relaxed)
        {
            return Some(Arc::clone(consumer));
        }
        let names = self.hub.names();
        let route = (exchange.to_vec(), key.to_vec());
        let queue = if exchange.is_empty() { Some(&route.1) } else { names.bound.get(&route) };
        let consumer = names.consumers.get(queue?).cloned()?;
        drop(names);
        self.deliveries.retain(|(it, _)| !it.peer.is_gone.load(Ordering::Relaxed));
        self.route = Some((route.0, route.1, Arc::clone(&consumer)));
        Some(consumer)
    }

    /// Answers a method, if it has an answer.
    fn method(&mut self, channel: u16, method: &Method<'_>) -> anyhow::Result<()> {
        let id = method.id();
        if let Some((_, answer)) = ANSWERS.iter().find(|(of, _)| *of == id) {
            answer.encode_frame(channel, &mut self.out);
        }
        if let Method::QueueDeclare(declare) = method {
            let queue = match declare.queue {
                [] => self.made_up("amq.gen-"),
                queue => queue.to_vec(),
            };
            let answer = QueueDeclareOk { queue: &queue, ..QueueDeclareOk::default() };
            answer.encode_frame(channel, &mut self.out);
        } else if let Method::QueueBind(bind) = method {
            let route = (bind.exchange.to_vec(), bind.routing_key.to_vec());
            self.hub.names().bound.insert(route, bind.queue.to_vec());
        } else if let Method::BasicConsume(consume) = method {
            self.consume(channel, consume)?;
        } else if let Method::BasicCancel(cancel) = method {
            let is_ours =
                |it: &Consumer| Arc::ptr_eq(&it.peer, &self.peer) && it.tag == cancel.consumer_tag;
            self.hub.names().consumers.retain(|_, it| !is_ours(it));
            let answer = BasicCancelOk { consumer_tag: cancel.consumer_tag };
            answer.encode_frame(channel, &mut self.out);
        } else if id == ConfirmSelect::ID {
            self.confirms.push(Confirms { channel, published: 0, confirmed: 0 });
        } else if id == ChannelClose::ID {
            self.confirms.retain(|it| it.channel != channel);
        }
        Ok(())
    }

    fn consume(&mut self, channel: u16, consume: &BasicConsume<'_>) -> anyhow::Result<()> {
        let tag = match consume.consumer_tag {
            [] => self.made_up("consumer-"),
            tag => tag.to_vec(),
        };
        BasicConsumeOk { consumer_tag: &tag }.encode_frame(channel, &mut self.out);
        // The answer is out before another connection can deliver.
        self.flush()?;
        let consumer = Consumer { peer: Arc::clone(&self.peer), channel, tag };
        self.hub.names().consumers.insert(consume.queue.to_vec(), Arc::new(consumer));
        Ok(())
    }

    fn made_up(&self, prefix: &str) -> Vec<u8> {
        let mut names = self.hub.names();
        names.n_made += 1;
        format!("{prefix}{}", names.n_made).into_bytes()
    }

    /// Writes what has come together, once per socket.
    fn flush(&mut self) -> std::io::Result<()> {
        for (consumer, bytes) in &mut self.deliveries {
            if !bytes.is_empty() && consumer.peer.write(bytes).is_err() {
                consumer.peer.is_gone.store(true, Ordering::Relaxed);
            }
            bytes.clear();
        }
        for Confirms { channel, published, confirmed } in &mut self.confirms {
            if published != confirmed {
                let ack = BasicAck { delivery_tag: *published, multiple: true };
                ack.encode_frame(*channel, &mut self.out);
                *confirmed = *published;
            }
        }
        if !self.out.is_empty() {
            self.peer.write(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }
}

/// Answers that are always the same.
const ANSWERS: [(amqp091::MethodId, Method<'static>); 10] = [
    (
        ConnectionStartOk::ID,
        Method::ConnectionTune(ConnectionTune {
            channel_max: 2047,
            frame_max: FRAME_MAX,
            heartbeat: 0,
        }),
    ),
    (ConnectionOpen::ID, Method::ConnectionOpenOk(ConnectionOpenOk { known_hosts: b"" })),
    (ConnectionClose::ID, Method::ConnectionCloseOk(ConnectionCloseOk {})),
    (ChannelOpen::ID, Method::ChannelOpenOk(ChannelOpenOk { channel_id: b"" })),
    (ChannelClose::ID, Method::ChannelCloseOk(ChannelCloseOk {})),
    (ExchangeDeclare::ID, Method::ExchangeDeclareOk(ExchangeDeclareOk {})),
    (QueueBind::ID, Method::QueueBindOk(QueueBindOk {})),
    (QueueDelete::ID, Method::QueueDeleteOk(QueueDeleteOk { message_count: 0 })),
    (BasicQos::ID, Method::BasicQosOk(BasicQosOk {})),
    (ConfirmSelect::ID, Method::ConfirmSelectOk(ConfirmSelectOk {})),
];

/// The publish that a frame begins, if it does.
fn published(frame: Frame<'_>) -> anyhow::Result<Option<BasicPublish<'_>>> {
    let is_publish = frame.kind == FrameKind::Method
        && amqp091::method::peek_id(frame.payload)? == BasicPublish::ID;
    Ok(if is_publish { Some(BasicPublish::decode_payload(frame.payload)?) } else { None })
}

/// The bytes of a message's header and body frames; `None` if they have not all come.
fn content_len(input: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some((header, mut len)) = decode_frame(input, FRAME_MAX)? else { return Ok(None) };
    let mut left = usize::try_from(ContentHeader::decode(header.payload)?.body_size)?;
    while left > 0 {
        let rest = input.get(len..).unwrap_or_default();
        let Some((body, body_len)) = decode_frame(rest, FRAME_MAX)? else { return Ok(None) };
        left = left.checked_sub(body.payload.len()).context("more than was announced")?;
        len += body_len;
    }
    Ok(Some(len))
}

/// The same frames on another channel.
fn put_content(mut content: &[u8], channel: u16, out: &mut Vec<u8>) -> anyhow::Result<()> {
    while let Some((frame, len)) = decode_frame(content, FRAME_MAX)? {
        out.push(frame.kind.octet());
        out.extend_from_slice(&channel.to_be_bytes());
        let (whole, rest) = content.split_at(len);
        out.extend_from_slice(whole.get(3..).unwrap_or_default());
        content = rest;
    }
    Ok(())
}
