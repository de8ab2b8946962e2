//! A client that keeps what was not consumed, and a broker that answers with scripted events.

use amqp091::content::encode_content;
use amqp091::method::{BasicPublish, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk};
use amqp091::{
    ContentHeader, FrameKind, Method, PropertiesRef, ProtocolHeader, ShortString, Table, TableRef,
    Value, decode_frame,
};
use edge::{CloseMode, Step, TaskOutbox as _, WriteBatch};
use front_amqp091::{ClientOutbox, Connection, Settings};
use message::{Body, MessageRef};
use session::{
    ChannelId, Content, Control, Delivery, Event, Flag, Op, Outbox, Position, Publish, Request,
    Sink,
};
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;

pub(crate) const START: Now = Now::at_ms(1_000_000);

/// So many milliseconds later.
pub(crate) const fn later(than: Now, ms: u64) -> Now {
    than.plus(ms)
}

/// A request in words, its spans looked up.
pub(crate) fn describe(request: &Request, input: &[u8]) -> String {
    match request {
        Request::Publish(publish) => describe_publish(publish, input),
        Request::Settle(settle) => format!(
            "{:?} ch{} link{} at{}",
            settle.outcome, settle.channel.0, settle.link.0, settle.position.0
        ),
        Request::Append(_) | Request::Credit(_) | Request::Flow(_) => {
            unreachable!("of another protocol")
        }
        Request::Control(control) => {
            let nowait = if control.nowait { " nowait" } else { "" };
            format!("ch{} {:?}{nowait}", control.channel.0, control.op)
        }
    }
}

fn describe_publish(publish: &Publish, input: &[u8]) -> String {
    let (head, body) = match &publish.content {
        Content::Inline(body) => (input, body.of(input)),
        Content::Owned(owned) => (&owned.head[..], &owned.body[..]),
    };
    let text = |span: session::Span| String::from_utf8_lossy(span.of(head)).into_owned();
    let sum = body.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(*byte));
    format!(
        "publish ch{} {}/{} {:x?} {} bytes {sum}{}{}{}{}",
        publish.channel.0,
        text(publish.exchange),
        text(publish.routing_key),
        publish.properties.of(head),
        body.len(),
        if publish.mandatory { " mandatory" } else { "" },
        if publish.persistent { " persistent" } else { "" },
        if publish.immediate { " immediate" } else { "" },
        if publish.inspect { " inspect" } else { "" },
    )
}

/// The front with a client and a broker around it.
pub(crate) struct Talk {
    pub(crate) front: Connection,
    pub(crate) outbox: Arc<ClientOutbox>,
    pub(crate) now: Now,
    /// Received and not consumed.
    pub(crate) input: Vec<u8>,
    /// The requests to the broker, in words.
    pub(crate) asked: Vec<String>,
    pub(crate) close_mode: Option<CloseMode>,
    batch: WriteBatch,
    requests: Vec<Request>,
}

impl Talk {
    pub(crate) fn new(settings: Settings) -> Self {
        let front = Connection::new(Arc::new(settings), START);
        let outbox = front.outbox();
        Self {
            front,
            outbox,
            now: START,
            input: Vec::new(),
            asked: Vec::new(),
            close_mode: None,
            batch: WriteBatch::default(),
            requests: Vec::new(),
        }
    }

    /// Past the handshake, with these channels open.
    pub(crate) fn open(settings: Settings, channels: &[u16]) -> Self {
        let mut talk = Self::new(settings);
        talk.handshake(0);
        for &channel in channels {
            talk.says(channel, amqp091::method::ChannelOpen::default());
            assert_eq!(talk.hears(), [format!("{channel} channel.open-ok")]);
        }
        talk.asked.clear();
        talk
    }

    pub(crate) fn handshake(&mut self, heartbeat: u16) {
        assert!(matches!(self.gets(&ProtocolHeader::encode_amqp([0, 0, 9, 1])), Step::More));
        assert_eq!(self.hears(), ["0 connection.start"]);
        let properties = client_properties().to_bytes();
        let start_ok = ConnectionStartOk {
            client_properties: TableRef::trusted(&properties),
            mechanism: b"PLAIN",
            response: b"\0guest\0guest",
            locale: b"en_US",
        };
        assert!(matches!(self.says(0, start_ok), Step::Authenticate(_)));
        self.front.authenticated(Ok(()));
        assert_eq!(self.hears(), ["0 connection.tune"]);
        self.says(0, ConnectionTuneOk { channel_max: 2047, frame_max: 131_072, heartbeat });
        let step = self.says(0, ConnectionOpen { virtual_host: b"/", ..ConnectionOpen::default() });
        assert!(matches!(step, Step::Open { vhost } if vhost == "/"));
        self.front.opened(self.now, Ok(()));
        assert_eq!(self.hears(), ["0 connection.open-ok"]);
    }

    /// The client sends a method.
    pub(crate) fn says<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) -> Step {
        let mut bytes = Vec::new();
        method.into().encode_frame(channel, &mut bytes);
        self.gets(&bytes)
    }

    /// The front is given bytes; its requests are answered.
    pub(crate) fn gets(&mut self, bytes: &[u8]) -> Step {
        self.input.extend_from_slice(bytes);
        loop {
            let progress = self.front.read(self.now, &self.input, &mut self.requests);
            for request in std::mem::take(&mut self.requests) {
                self.asked.push(describe(&request, &self.input));
                if let Request::Control(control) = request {
                    self.answer(*control);
                }
            }
            self.input.drain(..progress.consumed);
            if !matches!(progress.step, Step::Again) {
                return progress.step;
            }
        }
    }

    /// Answers as a broker without queues does.
    fn answer(&self, control: Control) {
        let Control { channel, origin, nowait, op, .. } = control;
        let origin_of = Some(origin);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the others are answered alike")]
        match op {
            Op::OpenChannel => self.event(Event::ChannelOpened(channel)),
            Op::CloseChannel => self.event(Event::ChannelClosed(channel)),
            Op::FailChannel(error) => {
                self.event(Event::ChannelFailed { channel, error, origin: origin_of });
            }
            Op::CloseConnection => self.event(Event::ConnectionClosed),
            Op::FailConnection(error) => {
                let channel = (channel.0 != 0).then_some(channel);
                self.event(Event::ConnectionFailed { channel, error, origin: origin_of });
            }
            Op::Get { no_ack, .. } => {
                let message = MessageRef {
                    exchange: b"ex",
                    routing_key: b"key",
                    properties: b"\0\0",
                    body: Body::Borrowed(b""),
                    persistent: false,
                    annotations: Default::default(),
                    form: message::BodyForm::Plain,
                };
                let (link, position) = (session::LinkId(1), Position(self.asked.len() as u64));
                let delivery = Delivery {
                    position,
                    redelivered: false,
                    n_failed: 0,
                    settled_by_write: false,
                    message: &message,
                };
                self.event(Event::Got { channel, link, delivery, no_ack, n_ready: 0 });
            }
            Op::DeleteQueue { .. } if !nowait => {
                self.event(Event::QueueDeleted { channel, origin, n_messages: 0 });
            }
            _ if nowait => {}
            _ => self.event(Event::Done { channel, origin }),
        }
    }

    /// The broker tells the client something.
    pub(crate) fn event(&self, event: Event<'_>) {
        let mut event = Some(event);
        self.batch(|sink| sink.event(event.take().unwrap()));
    }

    pub(crate) fn batch(&self, mut fill: impl FnMut(&mut dyn Sink)) {
        assert!(self.outbox.batch(&mut |sink| fill(sink)).is_none(), "nobody sleeps here");
    }

    /// The broker delivers.
    pub(crate) fn deliver(&self, link: u64, position: u64, body: Body<'_>) {
        let message = MessageRef {
            exchange: b"ex",
            routing_key: b"key",
            properties: b"\0\0",
            body,
            persistent: false,
            annotations: Default::default(),
            form: message::BodyForm::Plain,
        };
        let position = Position(position);
        let delivery = Delivery {
            position,
            redelivered: false,
            n_failed: 0,
            settled_by_write: false,
            message: &message,
        };
        self.batch(|sink| {
            sink.deliver(session::LinkId(link), delivery);
        });
    }

    /// The broker delivers what nobody acknowledges.
    pub(crate) fn deliver_unacknowledged(&self, link: u64, position: u64, body: &[u8]) {
        let message = MessageRef {
            exchange: b"ex",
            routing_key: b"key",
            properties: b"\0\0",
            body: Body::Borrowed(body),
            persistent: false,
            annotations: Default::default(),
            form: message::BodyForm::Plain,
        };
        let position = Position(position);
        let delivery = Delivery {
            position,
            redelivered: false,
            n_failed: 0,
            settled_by_write: true,
            message: &message,
        };
        self.batch(|sink| {
            sink.deliver(session::LinkId(link), delivery);
        });
    }

    pub(crate) fn consume(&self, channel: u16, link: u64, tag: &'static str, no_ack: Flag) {
        self.event(Event::Attached {
            channel: ChannelId(channel),
            link: session::LinkId(link),
            consumer_tag: &ShortString::from_static(tag),
            no_ack: no_ack.is_set(),
            filters: None,
            answer: false,
        });
    }

    /// The bytes the client is sent.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.outbox.try_take(&mut self.batch) {
            while !self.batch.is_written() {
                let mut slices = [IoSlice::new(&[]); 4];
                let n = self.batch.fill(&mut slices);
                let before = bytes.len();
                for slice in &slices[..n] {
                    bytes.extend_from_slice(slice);
                }
                self.batch.advance(bytes.len() - before);
            }
            self.batch.resume().clear();
            if self.batch.close_mode.is_some() {
                self.close_mode = self.batch.close_mode;
                break;
            }
        }
        bytes
    }

    /// The frames the client is sent, in words; the protocol header of a refusal too.
    pub(crate) fn hears(&mut self) -> Vec<String> {
        frames(&self.bytes())
    }
}

/// Frames in words.
pub(crate) fn frames(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut words) = (bytes, Vec::new());
    if let Some(ProtocolHeader::Amqp(version)) = ProtocolHeader::decode(rest) {
        words.push(format!("AMQP {version:?}"));
        rest = &rest[8..];
    }
    while let Some((frame, used)) = decode_frame(rest, 0).unwrap() {
        let what = match frame.kind {
            FrameKind::Method => describe_method(frame.payload),
            FrameKind::Header => {
                let header = ContentHeader::decode(frame.payload).unwrap();
                format!("header {}", header.body_size)
            }
            FrameKind::Body => match std::str::from_utf8(frame.payload) {
                Ok(text) if text.len() < 32 => format!("body {text}"),
                Ok(_) | Err(_) => format!("body of {}", frame.payload.len()),
            },
            FrameKind::Heartbeat => "heartbeat".to_owned(),
        };
        words.push(format!("{} {what}", frame.channel));
        rest = &rest[used..];
    }
    assert!(rest.is_empty(), "the output ends within a frame");
    words
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others are described by their name")]
fn describe_method(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy;
    let method = Method::decode(payload).unwrap();
    let more = match &method {
        Method::ConnectionClose(close) => format!(
            " {} {} ({},{})",
            close.reply_code,
            text(close.reply_text),
            close.class_id,
            close.method_id
        ),
        Method::ChannelClose(close) => format!(
            " {} {} ({},{})",
            close.reply_code,
            text(close.reply_text),
            close.class_id,
            close.method_id
        ),
        Method::BasicDeliver(deliver) => format!(
            " {} {} {}/{}",
            text(deliver.consumer_tag),
            deliver.delivery_tag,
            text(deliver.exchange),
            text(deliver.routing_key)
        ),
        Method::BasicGetOk(got) => format!(" {} left {}", got.delivery_tag, got.message_count),
        Method::BasicReturn(back) => format!(" {} {}", back.reply_code, text(back.reply_text)),
        Method::BasicAck(ack) => {
            format!(" {}{}", ack.delivery_tag, if ack.multiple { " multiple" } else { "" })
        }
        Method::BasicNack(nack) => {
            format!(" {}{}", nack.delivery_tag, if nack.multiple { " multiple" } else { "" })
        }
        Method::BasicCancel(cancel) => format!(" {}", text(cancel.consumer_tag)),
        Method::QueueDeclareOk(ok) => {
            format!(" {} {} {}", text(ok.queue), ok.message_count, ok.consumer_count)
        }
        Method::ConnectionBlocked(blocked) => format!(" {}", text(blocked.reason)),
        _ => String::new(),
    };
    format!("{}{more}", method.name())
}

pub(crate) fn client_properties() -> Table {
    let yes = |name| (ShortString::from_static(name), Value::Bool(true));
    let capabilities: Table =
        ["consumer_cancel_notify", "connection.blocked", "authentication_failure_close"]
            .into_iter()
            .map(yes)
            .collect();
    let mut table = Table::new();
    table.push(ShortString::from_static("capabilities"), Value::Table(capabilities));
    table
}

/// A whole publish on the wire.
pub(crate) fn publish(
    channel: u16,
    key: &str,
    properties: &[u8],
    body: &[u8],
    frame_max: u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let publish =
        BasicPublish { exchange: b"ex", routing_key: key.as_bytes(), ..BasicPublish::default() };
    publish.encode_frame(channel, &mut bytes);
    encode_content(channel, PropertiesRef::trusted(properties), body, frame_max, &mut bytes);
    bytes
}
