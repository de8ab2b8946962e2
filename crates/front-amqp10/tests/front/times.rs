//! Times of a connection as its task drives it, and requests as the broker gets them.

use crate::harness::{begin, consumer, flow, init, open, publisher, whole};
use amqp10::{Flow, FrameType, Open, Performative, ProtocolLayer, Section, put_frame};
use edge::{Step, TaskOutbox as _, Tick, WriteBatch};
use front_amqp10::{ClientConnection, ClientOutbox, ConnectionSettings};
use message::{Annotations, Body, BodyForm, MessageRef};
use session::{
    ChannelId, ConsumerCredit, CreditRequest, Delivery, Event, LinkId, LinkOp, Op, Outbox as _,
    Position, Request, Room, ShortString, Sink,
};
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;

const START: Now = Now::at_ms(1_000_000);

/// A connection with its client.
struct Served {
    front: ClientConnection,
    outbox: Arc<ClientOutbox>,
    batch: WriteBatch,
    requests: Vec<Request>,
}

impl Served {
    fn new() -> Self {
        let front = ClientConnection::new(Arc::new(ConnectionSettings::default()), None, START);
        let outbox = front.outbox();
        Self { front, outbox, batch: WriteBatch::default(), requests: Vec::new() }
    }

    fn open(open: Open<'_>) -> Self {
        let mut served = Self::new();
        served.says(&ProtocolLayer::Sasl.header());
        assert!(matches!(served.says(&init("PLAIN", b"\0me\0pw")), Step::Authenticate(_)));
        served.front.authenticated(START, Ok(()));
        served.says(&ProtocolLayer::Amqp.header());
        let step = served.performs(&Performative::Open(Box::new(open)));
        assert!(matches!(step, Step::Open { .. }));
        served.front.opened(START, Ok(()));
        served.performs(&Performative::Begin(Box::new(begin())));
        served.hears();
        served.requests.clear();
        served
    }

    fn says(&mut self, bytes: &[u8]) -> Step {
        self.front.read(START, bytes, &mut self.requests).step
    }

    fn performs(&mut self, performative: &Performative<'_>) -> Step {
        let mut bytes = Vec::new();
        performative.encode_frame(0, &mut bytes);
        self.says(&bytes)
    }

    fn hears(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        while self.outbox.try_take(&mut self.batch) && !self.batch.is_written() {
            let mut slices = [IoSlice::new(&[]); 8];
            let n_slices = self.batch.fill(&mut slices);
            let n: usize = slices[..n_slices].iter().map(|slice| slice.len()).sum();
            slices[..n_slices].iter().for_each(|slice| heard.extend_from_slice(slice));
            self.batch.advance(n);
        }
        heard
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others are told as they are")]
    fn ops(&mut self) -> Vec<String> {
        let op = |request: Request| match request {
            Request::Control(control) => match control.op {
                Op::Link(LinkOp::AttachConsumer(it)) => {
                    let (queue, tag) = (it.queue.to_text(), it.consumer_tag.to_text());
                    let how = if it.source.is_some() { "by link credit" } else { "" };
                    format!("consume {queue} as {tag} {how}")
                }
                Op::Link(op) => format!("{op:?}"),
                op => format!("{op:?}"),
            },
            Request::Settle(it) => format!("settle {} {:?}", it.position.0, it.outcome),
            other => format!("{other:?}"),
        };
        self.requests.drain(..).map(op).collect()
    }

    /// The broker gives a consumer a message.
    fn deliver(&mut self, position: u64) -> Room {
        let mut room = Room::Full;
        let message = MessageRef {
            exchange: b"",
            routing_key: b"q",
            properties: &[0, 0],
            body: Body::Borrowed(b"body"),
            persistent: false,
            annotations: Annotations::NONE,
            form: BodyForm::Plain,
        };
        drop(self.outbox.batch(&mut |sink: &mut dyn Sink| {
            room = sink.deliver(
                LinkId(7),
                Delivery {
                    position: Position(position),
                    redelivered: false,
                    n_failed: 0,
                    settled_by_write: false,
                    message: &message,
                },
            );
        }));
        room
    }
}

#[test]
fn silence_of_the_client_closes_the_connection() {
    let mut served = Served::open(open());
    assert!(matches!(served.front.tick(START.plus(59_999)), Tick::Idle(_) | Tick::Next(_)));
    assert_eq!(served.hears(), b"");
    served.front.tick(START.plus(60_000));
    let heard = String::from_utf8_lossy(&served.hears()).into_owned();
    assert!(heard.contains("amqp:resource-limit-exceeded"), "{heard}");
    assert!(heard.contains("no frame received from client within idle timeout threshold"));
    // Without an answer the socket is dropped.
    assert!(matches!(served.front.tick(START.plus(70_000)), Tick::Dead(_)));
}

#[test]
fn the_server_shows_life_at_half_of_the_clients_time() {
    let mut served = Served::open(Open { idle_time_out: Some(4_000), ..open() });
    served.front.tick(START.plus(1_000));
    assert_eq!(served.hears(), b"");
    served.front.tick(START.plus(2_000));
    assert_eq!(served.hears(), b"\x00\x00\x00\x08\x02\x00\x00\x00");
}

#[test]
fn a_handshake_that_stops_half_way_ends() {
    let mut served = Served::new();
    served.says(&ProtocolLayer::Sasl.header());
    assert!(!matches!(served.front.tick(START.plus(9_999)), Tick::Dead(_)));
    assert_eq!(served.front.tick(START.plus(10_000)), Tick::Dead("handshake timeout"));
}

#[test]
fn a_refusal_is_told_after_three_seconds() {
    let mut served = Served::new();
    served.says(&ProtocolLayer::Sasl.header());
    served.says(&init("PLAIN", b"\0me\0pw"));
    served.front.authenticated(START, Err(edge::AuthFailure::Refused));
    served.hears();
    served.front.tick(START.plus(2_999));
    assert_eq!(served.hears(), b"");
    served.front.tick(START.plus(3_000));
    assert!(served.hears().ends_with(b"\x00\x53\x44\xc0\x03\x01\x50\x01"));
    assert!(served.front.failure().is_some());
}

/// A publish has the address of its link, and what is not a message ends the link.
#[test]
fn messages_are_published_to_the_node_of_their_link() {
    let mut served = Served::open(open());
    let step = served.performs(&Performative::Attach(Box::new(publisher(0))));
    assert!(matches!(step, Step::Again), "answers to attaches bring further requests");
    assert_eq!(served.ops().len(), 1);
    let origin = session::MethodTag(0);
    let attached = session::LinkEvent::PublisherAttached { origin, link: LinkId(3) };
    drop(served.outbox.batch(&mut |sink| sink.event(Event::Link(attached.clone()))));
    let mut message = Vec::new();
    Section::Data(b"body").encode(&mut message);
    let transfer = |n: u32, payload: &[u8]| {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, FrameType::Amqp, 0, |out| {
            whole(0, n).encode(out);
            out.extend_from_slice(payload);
        });
        bytes
    };
    let input = transfer(0, &message);
    served.says(&input);
    let Some(Request::Publish(publish)) = served.requests.pop() else { panic!("a publish") };
    let session::Content::Inline(body) = &publish.content else { panic!("{publish:?}") };
    assert_eq!((publish.channel, body.of(&input)), (ChannelId(1), &*message));
    let heads = served.front.scratch();
    assert_eq!((publish.exchange.of(heads), publish.routing_key.of(heads)), (&b""[..], &b"q"[..]));
    served.hears();
    served.says(&transfer(1, b"rubbish"));
    let heard = String::from_utf8_lossy(&served.hears()).into_owned();
    assert!(heard.contains("failed to parse message"), "{heard}");
}

/// Credit is the queue's: a flow goes to it, and its answer comes behind the deliveries before it.
#[test]
fn credit_is_given_to_the_queue_and_told_by_it() {
    let mut served = Served::open(open());
    served.performs(&Performative::Attach(Box::new(consumer(5))));
    assert_eq!(served.ops(), ["consume q as 5 by link credit"]);
    let tag = ShortString::from_static("5");
    let (channel, link) = (ChannelId(1), LinkId(7));
    drop(served.outbox.batch(&mut |sink: &mut dyn Sink| {
        let (consumer_tag, no_ack, answer) = (&tag, false, true);
        sink.event(Event::Attached { channel, link, consumer_tag, no_ack, filters: None, answer });
    }));
    served.hears();
    let credit = Flow { handle: Some(5), link_credit: Some(3), drain: true, ..flow(0, 0) };
    served.performs(&Performative::Flow(credit));
    let asked =
        CreditRequest { channel, link, delivery_count: 0, credit: 3, drain: true, echo: false };
    assert_eq!(served.ops(), [format!("{:?}", Request::Flow(asked))]);
    for position in 1..=2 {
        assert!(matches!(served.deliver(position), Room::Bytes(_)), "the outbox has room");
    }
    let drained =
        ConsumerCredit { delivery_count: 3, credit: 0, available: 9, drain: true, is_active: None };
    drop(served.outbox.batch(&mut |sink| {
        sink.flowed(link, drained);
        sink.flowed(LinkId(8), drained);
    }));
    let heard = served.hears();
    let mut rest = &*heard;
    let mut told = Vec::new();
    while let Some((frame, n)) = amqp10::decode_frame(rest, FrameType::Amqp, 512).unwrap() {
        rest = &rest[n..];
        told.push(match Performative::decode(frame.body).unwrap() {
            (Performative::Flow(it), _) => format!(
                "flow {:?}+{:?} of {:?}",
                it.delivery_count.map(amqp10::SerialNumber::bits),
                it.link_credit,
                it.available
            ),
            (Performative::Transfer(_), _) => "transfer".to_owned(),
            (other, _) => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["transfer", "transfer", "flow Some(3)+Some(0) of Some(9)"]);
    // Settled deliveries are told by their places.
    let state = Some(amqp10::DeliveryState::ACCEPTED);
    served.performs(&crate::harness::disposition(0, 2, state));
    assert_eq!(served.ops(), ["settle 1 Accepted", "settle 2 Accepted"]);
}
