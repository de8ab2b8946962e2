//! What must hold for any input of AMQP 1.0's front. Shared by the fuzz target and by an ordinary test of the
//! crate, which needs no fuzzer.

use amqp10::{FrameType, Open, Performative, ProtocolLayer, Role, decode_frame, frame_size};
use edge::Step;
use front_amqp10::{
    AttachedLink, ConnectionSettings, LINK_PAIR, LinkHandle, LinkRequest, ProtocolFault,
    SentMessage, ServerConnection, UNFINISHED_BYTES_MAX, transaction_ended,
};
use message::Refusal;
use session::{
    ChannelId, Confirmation, ConsumerCredit, Content, Error, ErrorKind, LinkId, Position, RefusedBy,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest frame either way.
const FRAME_BYTES_MAX: u32 = 512;

/// A client that says anything once its connection is open, in reads whose size the first octet tells, to a
/// broker that grants some requests and refuses others. What is published lies within the input, no more than
/// a frame is ever kept, and everything that the server says is frames in an order that clients may expect.
pub(crate) fn conversation(input: &[u8]) {
    let Some((&size, said)) = input.split_first() else { return };
    let settings = ConnectionSettings {
        frame_bytes_max: FRAME_BYTES_MAX,
        capabilities: vec![LINK_PAIR],
        ..ConnectionSettings::default()
    };
    let mut front = ServerConnection::new(Arc::new(settings));
    let mut broker = ScriptedBroker::default();
    let (mut kept, mut requests, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let hello = hello();
    for piece in std::iter::once(&hello[..]).chain(said.chunks(usize::from(size) + 1)) {
        kept.extend_from_slice(piece);
        loop {
            let progress = front.read(&kept, &mut requests);
            broker.work(&mut front, &mut requests, &kept);
            kept.drain(..progress.consumed);
            match progress.step {
                Step::Again => {}
                Step::Authenticate(_) => front.authenticated(Ok(())),
                Step::Open { .. } => front.opened(Ok(())),
                Step::More | Step::Close | Step::SpeaksOther => break,
            }
        }
        front.take_output(&mut written);
        assert!(front.unfinished_bytes() <= UNFINISHED_BYTES_MAX);
        assert!(kept.len() <= FRAME_BYTES_MAX as usize || broker.is_closing);
        if broker.is_closing {
            kept.clear();
        }
    }
    if broker.is_closing {
        front.closed();
        front.take_output(&mut written);
    }
    check_output(&written);
}

/// Everything from the protocol header to the open.
fn hello() -> Vec<u8> {
    let mut out = ProtocolLayer::Sasl.header().to_vec();
    out.extend(testing::amqp10_client::init("PLAIN", b"\0a\0b"));
    out.extend_from_slice(&ProtocolLayer::Amqp.header());
    let open =
        Open { max_frame_size: FRAME_BYTES_MAX, channel_max: 3, ..testing::amqp10_client::open() };
    Performative::Open(Box::new(open)).encode_frame(0, &mut out);
    out
}

/// A broker that has a message for each credit, and refuses what has certain numbers.
#[derive(Default)]
struct ScriptedBroker {
    /// Links by their numbers.
    links: Vec<LinkHandle>,
    /// Publishes of each channel.
    n_published: [u64; 4],
    is_closing: bool,
}

impl ScriptedBroker {
    fn work(
        &mut self,
        front: &mut ServerConnection,
        requests: &mut Vec<LinkRequest>,
        input: &[u8],
    ) {
        while !requests.is_empty() {
            let mut more = Vec::new();
            for request in requests.drain(..) {
                self.answer(front, request, input, &mut more);
            }
            requests.append(&mut more);
        }
    }

    fn answer(
        &mut self,
        front: &mut ServerConnection,
        request: LinkRequest,
        input: &[u8],
        more: &mut Vec<LinkRequest>,
    ) {
        match request {
            LinkRequest::Attach(asked) => {
                let attach = asked.attach().expect("an attach");
                assert_eq!(attach.handle, asked.key.handle);
                let link = LinkId(self.links.len() as u64);
                self.links.push(asked.key);
                let result = match asked.key.handle % 4 {
                    3 => Err(ProtocolFault::link(amqp10::Condition::NotFound, "no")),
                    _ => Ok(AttachedLink { link, source: None, target: None, filters: None }),
                };
                front.attached(asked.key, result, more);
            }
            LinkRequest::Publish(publish) => {
                match &publish.content {
                    Content::Inline(span) => assert_eq!(span.of(input).len(), span.len as usize),
                    Content::Owned(owned) => assert!(owned.head.is_empty()),
                }
                self.answer_publish(front, publish.channel);
            }
            LinkRequest::Credit(it) => {
                let Some(key) = self.handle(it.link) else { panic!("no such link") };
                let n = it.credit.min(3);
                for position in 0..u64::from(n) {
                    let message = [7; 700];
                    let delivery = SentMessage::in_sections(Position(position), &message);
                    front.deliver(key, delivery, more);
                }
                let delivery_count = it.delivery_count.wrapping_add(n);
                let credit = ConsumerCredit {
                    delivery_count,
                    credit: it.credit - n,
                    available: 0,
                    drain: it.drain,
                    is_active: None,
                };
                front.flowed(key, credit);
            }
            LinkRequest::Settle(it) => assert!(self.handle(it.link).is_some()),
            LinkRequest::Modify { modification: it, .. } => {
                assert!(self.handle(it.link).is_some() && !it.positions.is_empty());
            }
            LinkRequest::Detach { link, .. } => assert!(self.handle(link).is_some()),
            LinkRequest::Manage(call) => {
                let response = SentMessage::in_sections(Position(0), &call.sections);
                front.deliver(call.responses, response, more);
            }
            LinkRequest::Discharge { session, number, commits, .. } => {
                let result =
                    if commits { Ok(()) } else { Err(Error::new(ErrorKind::NotFound, "no")) };
                transaction_ended(front, session, number, result, more);
            }
            LinkRequest::EndResponses(_)
            | LinkRequest::BeginTransactions(_)
            | LinkRequest::NeedTopics(_) => {}
            LinkRequest::BeginSession(channel) => {
                assert_eq!(self.n_published[usize::from(channel.0)], 0);
            }
            LinkRequest::EndSession(channel) => {
                self.n_published[usize::from(channel.0)] = 0;
            }
            LinkRequest::CloseConnection => self.is_closing = true,
        }
    }

    fn handle(&self, link: LinkId) -> Option<LinkHandle> {
        usize::try_from(link.0).ok().and_then(|at| self.links.get(at)).copied()
    }

    /// Answers each publish but every fifth, which is answered together with the next one.
    fn answer_publish(&mut self, front: &mut ServerConnection, channel: ChannelId) {
        let n = &mut self.n_published[usize::from(channel.0)];
        *n += 1;
        let answer = match *n % 5 {
            4 => return,
            0 => Confirmation::Unroutable,
            1 => Confirmation::Refused(RefusedBy { queue: "q", why: Refusal::MaxLen }),
            _ => Confirmation::Accepted,
        };
        front.answer(channel, n.saturating_sub(1).max(1), *n, answer);
    }
}

/// Frames are whole and small enough; those of sessions stand between begin and end, those of links between
/// attach and detach; nothing follows a close.
fn check_output(written: &[u8]) {
    let (mut rest, mut is_closed) = (written, false);
    let (mut sessions, mut links) = (BTreeSet::new(), BTreeSet::new());
    while !rest.is_empty() {
        assert!(!is_closed, "nothing follows a close");
        if let Some(behind) = rest.strip_prefix(b"AMQP") {
            rest = &behind[4..];
            continue;
        }
        let size = frame_size(rest).expect("a whole header");
        if rest[5] == 1 {
            rest = &rest[size..];
            continue;
        }
        let frame = decode_frame(rest, FrameType::Amqp, FRAME_BYTES_MAX).expect("a frame");
        let (frame, used) = frame.expect("a whole frame");
        rest = &rest[used..];
        let (performative, _) = Performative::decode(frame.body).expect("what peers can read");
        let channel = frame.channel;
        let is_of_session = !matches!(
            performative,
            Performative::Open(_) | Performative::Begin(_) | Performative::Close(_)
        );
        assert!(!is_of_session || sessions.contains(&channel), "within a session");
        match performative {
            Performative::Begin(_) => assert!(sessions.insert(channel)),
            Performative::End(_) => {
                sessions.remove(&channel);
                links.retain(|(of, _)| *of != channel);
            }
            Performative::Attach(it) => assert!(links.insert((channel, it.handle))),
            Performative::Detach(it) => assert!(links.remove(&(channel, it.handle))),
            Performative::Transfer(it) => assert!(links.contains(&(channel, it.handle))),
            Performative::Flow(it) => {
                assert!(it.handle.is_none_or(|handle| links.contains(&(channel, handle))));
            }
            Performative::Disposition(it) => assert!(it.settled || it.role == Role::Sender),
            Performative::Close(_) => is_closed = true,
            Performative::Open(_) => {}
        }
    }
}
