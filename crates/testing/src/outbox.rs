//! An outbox that writes down the events it is given, knows as a front does which deliveries its client has
//! not settled, and may be full.

use message::{BodyForm, MessageRef, Refusal};
use session::{
    CHUNK_HEADER_BYTES, ChannelId, ChunkData, ChunkDelivery, Confirmation, ConsumerCredit,
    Delivery, ErrorKind, Event, LinkEvent, LinkId, Outbox, Position, PublisherId, ReturnReason,
    Room, Sink, StreamRefusal, UnsettledSince,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// A message as somebody saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Exchange it was published to.
    pub exchange: Vec<u8>,
    /// Its routing key, without the letters of a token.
    pub key: Vec<u8>,
    /// Its properties, likewise.
    pub properties: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
    /// Its delivery mode.
    pub persistent: bool,
    /// The form of its body.
    pub form: BodyForm,
}

/// Every so many numbered messages have a body of a form of its own.
const FORMED_EVERY: u64 = 3;

/// Names of consumers of direct replies end with the node's number, a hyphen, and two words of 22 letters,
/// which the broker draws, and a dot between: contents have others.
pub const REPLY_TOKEN_BYTES: usize = 47;

/// The bytes with other letters in the place of a name of a consumer of direct replies.
pub fn without_token(bytes: &[u8]) -> Vec<u8> {
    let prefix = b"amq.rabbitmq.reply-to.";
    let mut bytes = bytes.to_vec();
    if let Some(at) = bytes.windows(prefix.len()).position(|window| window == prefix) {
        let token = bytes.iter_mut().skip(at + prefix.len()).take(REPLY_TOKEN_BYTES);
        token.for_each(|letter| *letter = b'A');
    }
    bytes
}

impl Content {
    /// The content of a message.
    pub fn of(message: &MessageRef<'_>) -> Self {
        Self {
            exchange: message.exchange.to_vec(),
            key: without_token(message.routing_key),
            properties: without_token(message.properties),
            body: message.body.bytes().to_vec(),
            persistent: message.persistent,
            form: message.form,
        }
    }

    /// A body with a number in front, and so many bytes more.
    pub fn numbered_body(id: u64, more_bytes: usize) -> Vec<u8> {
        let mut body = format!("{id}|").into_bytes();
        body.resize(body.len() + more_bytes, b'a' + u8::try_from(id % 26).unwrap_or(0));
        body
    }

    /// The form of the body of the message with that number.
    pub const fn form_of(id: u64) -> BodyForm {
        if id.is_multiple_of(FORMED_EVERY) { BodyForm::Amqp10 } else { BodyForm::Plain }
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        let sizes = [&self.exchange, &self.key, &self.properties, &self.body];
        sizes.iter().map(|part| part.len() as u64).sum()
    }

    /// The number in front of a body.
    pub fn number_of(body: &[u8]) -> Option<u64> {
        let text = body.split(|byte| *byte == b'|').next()?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// The number in front of the body.
    pub fn id(&self) -> Option<u64> {
        Self::number_of(&self.body)
    }
}

/// One delivery.
#[derive(Clone, Debug)]
pub struct Given {
    /// The link it came by.
    pub link: u64,
    /// Its position in the queue.
    pub position: Position,
    /// It was delivered before, perhaps.
    pub redelivered: bool,
    /// Deliveries before that failed.
    pub n_failed: u32,
    /// Settled by being written to the client.
    pub by_write: bool,
    /// The message.
    pub content: Content,
    /// The key of direct replies to it.
    pub reply_key: Option<String>,
}

impl Given {
    fn of(link: LinkId, delivery: &Delivery<'_>) -> Self {
        Self {
            link: link.0,
            position: delivery.position,
            redelivered: delivery.redelivered,
            n_failed: delivery.n_failed,
            by_write: delivery.settled_by_write,
            content: Content::of(delivery.message),
            reply_key: reply_key(delivery.message),
        }
    }
}

/// The bytes of a part of a file.
fn read_all(part: &session::FilePart) -> Vec<u8> {
    let mut bytes = vec![0; part.len()];
    let n = part.read_at(0, &mut bytes).unwrap_or_default();
    bytes.truncate(n);
    bytes
}

fn reply_key(message: &MessageRef<'_>) -> Option<String> {
    let reply_to = message.index().reply_to()?;
    String::from_utf8(reply_to.to_vec()).ok()
}

/// An event that a connection got: `session::Event`, owned.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields and events are those of `session::Event`")]
pub enum What {
    /// `late`: the outbox had said in an earlier batch that this link is full.
    Deliver {
        given: Given,
        late: bool,
    },
    Got {
        given: Given,
        n_ready: u64,
        no_ack: bool,
    },
    GetEmpty,
    Consuming {
        link: u64,
        tag: String,
        no_ack: bool,
    },
    Cancelled {
        channel: u16,
        tag: String,
    },
    ConsumerCancelled {
        channel: u16,
        tag: String,
    },
    Done,
    Declared {
        queue: String,
        n_ready: u64,
        n_consumers: u64,
    },
    Purged(u64),
    Deleted(u64),
    Returned(Content, ReturnReason),
    ChannelOpened,
    ChannelClosed(u16),
    ChannelFailed {
        channel: u16,
        kind: ErrorKind,
        text: String,
    },
    ConnectionClosed,
    ConnectionFailed {
        kind: ErrorKind,
        text: String,
    },
    Blocked(String),
    Unblocked,
    Flowed {
        link: u64,
        credit: ConsumerCredit,
    },
    TimedOut {
        link: u64,
        positions: Vec<Position>,
    },
    Confirm {
        channel: u16,
        first: u64,
        last: u64,
        answer: OwnedConfirmation,
    },
    Link(LinkEvent),
    Refused {
        kind: ErrorKind,
        text: String,
    },
    /// An answer to a client that manages, as it is debugged.
    Management(String),
    Stream(StreamWhat),
}

/// The broker's answer to a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedConfirmation {
    /// All queues of the message have it.
    Accepted,
    /// No queue was to have the message.
    Unroutable,
    /// This queue has refused the message, with its reason.
    Refused(String, Refusal),
}

impl OwnedConfirmation {
    /// Whether an AMQP 0-9-1 client would get an ack.
    pub const fn is_ack(&self) -> bool {
        !matches!(self, Self::Refused(..))
    }
}

/// The part of what a connection got that only clients of streams get.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields are those of `session`")]
pub enum StreamWhat {
    /// A chunk.
    Chunk { link: u64, header: [u8; CHUNK_HEADER_BYTES], data: Vec<u8>, committed_chunk_id: u64 },
    /// The answer to messages that were appended.
    Answered { publisher: u8, first: u64, last: u64, answer: Result<(), StreamRefusal> },
    /// Anything else, as it is debugged.
    Event(String),
}

/// The events of all connections, in order: connection, then event.
pub type Transcript = Arc<Mutex<Vec<(usize, What)>>>;

/// The outbox of one client.
pub struct Recorder {
    client: usize,
    transcript: Transcript,
    flow: Mutex<Flow>,
}

/// The space of an outbox.
#[derive(Clone, Copy, Debug)]
pub enum Space {
    /// So many deliveries, until the client reads.
    Deliveries(usize),
    /// So many bytes, however many deliveries there are.
    Bytes(usize),
}

impl Default for Space {
    fn default() -> Self {
        Self::Bytes(1 << 20)
    }
}

/// The flow control of a client's outbox.
#[derive(Default)]
struct Flow {
    n_unread: usize,
    space: Space,
    full: Vec<LinkId>,
    unsettled: Unsettled,
    /// The client is told to settle what it has held for too long.
    settles_overdue: bool,
}

/// Unsettled messages of the client, for queues that keep no record of them.
#[derive(Default)]
struct Unsettled {
    /// Links without acknowledgements.
    no_ack: BTreeSet<u64>,
    /// Deliveries so far.
    n_given: u64,
    /// By link, in the order of delivery, with their numbers.
    given: BTreeMap<u64, Vec<(u64, Position)>>,
    /// Messages being recovered; each is named once.
    recovering: BTreeMap<u64, Vec<Position>>,
}

impl Unsettled {
    fn note(&mut self, given: &Given, no_ack: bool) {
        self.n_given += 1;
        if !no_ack {
            self.given.entry(given.link).or_default().push((self.n_given, given.position));
        }
    }
}

struct Locked<'a> {
    recorder: &'a Recorder,
    flow: &'a mut Flow,
    full_before: usize,
}

/// The size of a delivery that the outbox announces, so that the broker's estimates are tested too.
const ROOM_BYTES_PER_DELIVERY: usize = 64;

impl Recorder {
    /// Of a client that the transcript knows by this number.
    pub fn new(client: usize, transcript: &Transcript, space: Space) -> Arc<Self> {
        let flow = Mutex::new(Flow { space, ..Flow::default() });
        Arc::new(Self { client, transcript: Arc::clone(transcript), flow })
    }

    /// The client has read everything: these links may go on.
    pub fn read_all(&self) -> Vec<LinkId> {
        let mut flow = stdx::lock(&self.flow);
        flow.n_unread = 0;
        std::mem::take(&mut flow.full)
    }

    /// Whether this link waits for the client to read.
    pub fn is_full(&self, link: u64) -> bool {
        stdx::lock(&self.flow).full.contains(&LinkId(link))
    }

    /// The client settles this, or asks for what ends it.
    pub fn forget(&self, link: u64, position: Position) {
        if let Some(given) = stdx::lock(&self.flow).unsettled.given.get_mut(&link) {
            given.retain(|(_, known)| *known != position);
        }
    }

    /// The client asks for all of these links' messages to be given back.
    pub fn recover(&self, links: &[u64]) {
        let given = |link: &u64| stdx::lock(&self.flow).unsettled.given.get(link).cloned();
        for link in links {
            let held =
                given(link).unwrap_or_default().into_iter().map(|(_, position)| (*link, position));
            self.recover_some(held);
        }
    }

    /// The client asks for these messages to be given back.
    pub fn recover_some(&self, held: impl Iterator<Item = (u64, Position)>) {
        for (link, position) in held {
            self.forget(link, position);
            let unsettled = &mut stdx::lock(&self.flow).unsettled;
            unsettled.recovering.entry(link).or_default().push(position);
        }
    }

    /// From now on the outbox has this space.
    pub fn set_space(&self, space: Space) {
        stdx::lock(&self.flow).space = space;
    }

    /// From now on the client is told to settle what it has held for too long: its consumers stay.
    pub fn settle_overdue(&self) {
        stdx::lock(&self.flow).settles_overdue = true;
    }

    /// Ends the recovery.
    pub fn end_recovering(&self) {
        stdx::lock(&self.flow).unsettled.recovering.clear();
    }

    fn note(&self, what: What) {
        stdx::lock(&self.transcript).push((self.client, what));
    }
}

impl Outbox for Recorder {
    fn batch(&self, fill: &mut dyn FnMut(&mut dyn Sink)) -> Option<Waker> {
        let mut flow = stdx::lock(&self.flow);
        let full_before = flow.full.len();
        fill(&mut Locked { recorder: self, flow: &mut flow, full_before });
        None
    }

    fn unsettled(&self, links: &[LinkId]) -> Vec<(LinkId, Position)> {
        let unsettled = &mut stdx::lock(&self.flow).unsettled;
        let mut found = Vec::new();
        for link in links {
            let recovering = unsettled.recovering.remove(&link.0).unwrap_or_default();
            let given = unsettled.given.get(&link.0).into_iter().flatten().map(|(_, at)| *at);
            found.extend(recovering.into_iter().chain(given).map(|position| (*link, position)));
        }
        found
    }

    fn unsettled_since(&self, link: LinkId) -> Option<UnsettledSince> {
        let Unsettled { n_given, given, .. } = &stdx::lock(&self.flow).unsettled;
        let (oldest, _) = *given.get(&link.0)?.first()?;
        Some(UnsettledSince { oldest, newest: *n_given })
    }
}

impl Locked<'_> {
    /// The room after a delivery on this link.
    fn room_after(&mut self, link: LinkId) -> Room {
        self.flow.n_unread += 1;
        let room_bytes = self.room_bytes();
        if room_bytes > 0 {
            return Room::Bytes(room_bytes);
        }
        self.readable(link);
        Room::Full
    }
}

impl Sink for Locked<'_> {
    fn deliver(&mut self, link: LinkId, delivery: Delivery<'_>) -> Room {
        let late = self.flow.full.iter().take(self.full_before).any(|full| *full == link);
        let given = Given::of(link, &delivery);
        let no_ack = self.flow.unsettled.no_ack.contains(&link.0);
        self.flow.unsettled.note(&given, no_ack);
        self.recorder.note(What::Deliver { given, late });
        self.room_after(link)
    }

    fn room_bytes(&self) -> usize {
        match self.flow.space {
            Space::Bytes(bytes) => bytes,
            Space::Deliveries(limit) => {
                limit.saturating_sub(self.flow.n_unread).saturating_mul(ROOM_BYTES_PER_DELIVERY)
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        let what = what_of(event);
        if let What::Got { given, no_ack, .. } = &what {
            self.flow.unsettled.note(given, *no_ack);
        }
        if let What::Consuming { link, no_ack: true, .. } = &what {
            self.flow.unsettled.no_ack.insert(*link);
        }
        self.recorder.note(what);
    }

    fn confirm(&mut self, channel: ChannelId, first: u64, last: u64, answer: Confirmation<'_>) {
        let answer = match answer {
            Confirmation::Accepted => OwnedConfirmation::Accepted,
            Confirmation::Unroutable => OwnedConfirmation::Unroutable,
            Confirmation::Refused(by) => OwnedConfirmation::Refused(by.queue.to_owned(), by.why),
        };
        self.recorder.note(What::Confirm { channel: channel.0, first, last, answer });
    }

    fn flowed(&mut self, link: LinkId, credit: ConsumerCredit) {
        self.recorder.note(What::Flowed { link: link.0, credit });
    }

    fn timed_out(&mut self, link: LinkId, positions: &[Position]) -> bool {
        if self.flow.settles_overdue {
            self.recorder.note(What::TimedOut { link: link.0, positions: positions.to_vec() });
        }
        self.flow.settles_overdue
    }

    fn readable(&mut self, link: LinkId) {
        if !self.flow.full.contains(&link) {
            self.flow.full.push(link);
        }
    }

    fn deliver_chunk(&mut self, link: LinkId, chunk: &ChunkDelivery<'_>) -> Room {
        let data = match &chunk.data {
            ChunkData::Borrowed(bytes) => bytes.to_vec(),
            ChunkData::Shared(bytes) => bytes.to_vec(),
            ChunkData::File(part) => read_all(part),
        };
        let (header, committed_chunk_id) = (*chunk.header, chunk.committed_chunk_id);
        let chunk = StreamWhat::Chunk { link: link.0, header, data, committed_chunk_id };
        self.recorder.note(What::Stream(chunk));
        self.room_after(link)
    }

    fn answer_append(
        &mut self,
        publisher: PublisherId,
        first: u64,
        last: u64,
        answer: Result<(), StreamRefusal>,
    ) {
        let answered = StreamWhat::Answered { publisher: publisher.0, first, last, answer };
        self.recorder.note(What::Stream(answered));
    }
}

fn what_of(event: Event<'_>) -> What {
    let tag = |tag: &session::ShortString| tag.to_text().into_owned();
    match event {
        Event::ChannelOpened(_) => What::ChannelOpened,
        Event::ChannelClosed(channel) => What::ChannelClosed(channel.0),
        Event::ChannelFailed { channel, error, .. } => What::ChannelFailed {
            channel: channel.0,
            kind: error.kind,
            text: error.text.into_owned(),
        },
        Event::ConnectionClosed => What::ConnectionClosed,
        Event::ConnectionFailed { error, .. } => {
            What::ConnectionFailed { kind: error.kind, text: error.text.into_owned() }
        }
        Event::Blocked { reason } => What::Blocked(reason.to_owned()),
        Event::Unblocked => What::Unblocked,
        Event::Done { .. } => What::Done,
        Event::QueueDeclared { queue, n_ready, n_consumers, .. } => What::Declared {
            queue: String::from_utf8_lossy(queue).into_owned(),
            n_ready,
            n_consumers,
        },
        Event::QueuePurged { n_messages, .. } => What::Purged(n_messages),
        Event::QueueDeleted { n_messages, .. } => What::Deleted(n_messages),
        Event::Attached { link, consumer_tag, no_ack, .. } => {
            What::Consuming { link: link.0, tag: tag(consumer_tag), no_ack }
        }
        Event::Detached { channel, consumer_tag, .. } => {
            What::Cancelled { channel: channel.0, tag: tag(consumer_tag) }
        }
        Event::ConsumerCancelled { channel, consumer_tag, .. } => {
            What::ConsumerCancelled { channel: channel.0, tag: tag(consumer_tag) }
        }
        Event::GetEmpty(_) => What::GetEmpty,
        Event::Got { link, delivery, no_ack, n_ready, .. } => {
            What::Got { given: Given::of(link, &delivery), n_ready, no_ack }
        }
        Event::Returned { message, reason, .. } => What::Returned(Content::of(&message), reason),
        Event::Link(event) => What::Link(event),
        Event::Refused { error, .. } => {
            What::Refused { kind: error.kind, text: error.text.into_owned() }
        }
        Event::Management(event) => What::Management(format!("{event:?}")),
        Event::Stream(event) => What::Stream(StreamWhat::Event(format!("{event:?}"))),
    }
}

impl std::fmt::Display for What {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are shown as they are")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let given = |f: &mut std::fmt::Formatter<'_>, what: &str, given: &Given| {
            let Given { link, position, redelivered, content, .. } = given;
            let again = if *redelivered { " again" } else { "" };
            let id = content.id().unwrap_or(u64::MAX);
            write!(f, "{what} m{id}{again} on link {link} at {}", position.0)
        };
        match self {
            Self::Deliver { given: one, .. } => given(f, "deliver", one),
            Self::Got { given: one, n_ready, .. } => {
                given(f, "got", one)?;
                write!(f, ", {n_ready} left")
            }
            Self::ChannelFailed { channel, kind, text } => {
                write!(f, "channel {channel} fails, {kind:?}: {text}")
            }
            Self::ConnectionFailed { kind, text } => {
                write!(f, "the connection fails, {kind:?}: {text}")
            }
            Self::Returned(content, _) => write!(f, "returned m{:?}", content.id()),
            Self::Blocked(_) => f.write_str("Blocked"),
            _ => write!(f, "{self:?}"),
        }
    }
}
