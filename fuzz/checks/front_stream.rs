//! What must hold for any input of the stream protocol's front. Shared by the fuzz target and by an ordinary
//! test of the crate, which needs no fuzzer.

use edge::{Step, TaskOutbox as _, WriteBatch};
use front_stream::{ClientOutbox, Connection, Settings};
use session::{
    Append, CHUNK_HEADER_BYTES, ChunkData, ChunkDelivery, Event, LinkId, MethodTag, ONLY_CHANNEL,
    Op, Outbox as _, Request, StreamEvent, StreamOp, StreamRefusal, StreamSubscription,
    SubscriptionId, Texts,
};
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;
use streamproto::command::{
    FilteredMessage, Open, PeerProperties, PublishedMessage, SaslAuthenticate, SaslHandshake, Tune,
};
use streamproto::field::Field as _;
use streamproto::{Command, ToClient, decode_frame};

const NOW: Now = Now::at_ms(0);
const FRAME_MAX: u32 = 4096;
const PORT: u16 = 5552;

/// A client that says anything once it is let in, in reads whose size the first octet tells, to a broker that
/// grants some requests and refuses others: what is published lies within the input, no more than a frame is
/// ever kept, and everything answered is frames that clients can read.
pub(crate) fn conversation(input: &[u8]) {
    let Some((&size, said)) = input.split_first() else { return };
    let mut front = Connection::new(Arc::new(Settings::default()), PORT, NOW);
    let mut broker = Broker { outbox: front.outbox(), links: Vec::new() };
    let (mut kept, mut requests) = (Vec::new(), Vec::new());
    let hello = hello();
    for piece in std::iter::once(&hello[..]).chain(said.chunks(usize::from(size) + 1)) {
        kept.extend_from_slice(piece);
        loop {
            let progress = front.read(NOW, &kept, &mut requests);
            for request in requests.drain(..) {
                broker.answer(request, &kept);
            }
            kept.drain(..progress.consumed);
            match progress.step {
                Step::Again => {}
                Step::Authenticate(_) => front.authenticated(NOW, Ok(())),
                Step::Open { .. } => front.opened(NOW, Ok(())),
                Step::More | Step::Close | Step::SpeaksOther => break,
            }
        }
        assert!(kept.len() <= FRAME_MAX as usize + 4);
    }
    let written = broker.written();
    let mut rest = &written[..];
    while !rest.is_empty() {
        let frame = decode_frame(rest, 0).expect("the server sends frames");
        let (frame, used) = frame.expect("and whole ones");
        ToClient::decode(frame).expect("that are commands for clients");
        rest = &rest[used..];
    }
}

fn hello() -> Vec<u8> {
    let mut out = Vec::new();
    PeerProperties::default().encode_frame(&mut out);
    SaslHandshake { correlation_id: 2 }.encode_frame(&mut out);
    let (mechanism, data) = ("PLAIN", &b"\0a\0b"[..]);
    SaslAuthenticate { correlation_id: 3, mechanism, data }.encode_frame(&mut out);
    Tune { frame_max: FRAME_MAX, heartbeat_secs: 0 }.encode_frame(&mut out);
    Open { correlation_id: 4, virtual_host: "/" }.encode_frame(&mut out);
    out
}

/// A broker that has a chunk for each credit.
struct Broker {
    outbox: Arc<ClientOutbox>,
    /// Of subscriptions.
    links: Vec<(SubscriptionId, LinkId)>,
}

impl Broker {
    fn answer(&mut self, request: Request, input: &[u8]) {
        match request {
            Request::Append(append) => self.confirm(&append, input),
            Request::Credit(credit) => match self.link(credit.subscription) {
                Some(link) => self.deliver(link, credit.n_chunks.clamp(0, 9)),
                None => {
                    let why = StreamRefusal::SubscriptionIdDoesNotExist;
                    let subscription = credit.subscription;
                    self.say(StreamEvent::CreditRefused { subscription, why });
                }
            },
            Request::Control(control) => self.control(control.origin, control.op),
            Request::Publish(_) | Request::Settle(_) | Request::Flow(_) => {
                panic!("of another protocol")
            }
        }
    }

    /// Every entry lies within the input; every other publisher is none.
    fn confirm(&self, append: &Append, input: &[u8]) {
        let mut rest = append.entries(input);
        let ids: Vec<u64> = (0..append.n_entries)
            .map(|_| match append.has_filter_values {
                true => FilteredMessage::read(&mut rest).expect("an entry").publishing_id,
                false => PublishedMessage::read(&mut rest).expect("an entry").publishing_id,
            })
            .collect();
        assert_eq!(rest, b"", "nothing is left over");
        let publisher = append.publisher;
        let is_known = publisher.0.is_multiple_of(2);
        let answer = if is_known { Ok(()) } else { Err(StreamRefusal::PublisherDoesNotExist) };
        let _waker = self.outbox.batch(&mut |sink| {
            ids.iter().for_each(|id| sink.answer_append(publisher, *id, *id, answer));
        });
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are of another protocol")]
    fn control(&mut self, origin: MethodTag, op: Op) {
        match op {
            Op::Stream(op) => self.stream(origin, op),
            Op::CloseConnection => self.tell(Event::ConnectionClosed),
            Op::FailConnection(error) => {
                let origin = Some(origin);
                self.tell(Event::ConnectionFailed { channel: None, error, origin });
            }
            _ => panic!("of another protocol"),
        }
    }

    fn stream(&mut self, origin: MethodTag, op: StreamOp) {
        match op {
            StreamOp::StoreOffset { .. } => self.ask_for_offset(),
            StreamOp::ConsumerUpdated { .. } => {}
            StreamOp::Subscribe(wanted) => self.subscribe(origin, &wanted),
            StreamOp::Unsubscribe(subscription) => self.unsubscribe(origin, subscription),
            StreamOp::Metadata { streams } => self.metadata(origin, &streams),
            StreamOp::Route { routing_key: name, .. }
            | StreamOp::Partitions { super_stream: name } => {
                self.say(StreamEvent::Streams { origin, streams: &[&name, "s"] });
            }
            StreamOp::Stats { stream } => {
                self.say(StreamEvent::Stats { origin, figures: &[(&stream, -1)] });
            }
            StreamOp::QueryPublisherSequence { .. } => {
                self.say(StreamEvent::PublisherSequence { origin, sequence: 7 });
            }
            StreamOp::QueryOffset { .. } | StreamOp::ResolveOffset { .. } => {
                self.say(StreamEvent::Offset { origin, offset: 7 });
            }
            StreamOp::Delete { stream } => {
                self.tell(Event::Done { channel: ONLY_CHANNEL, origin });
                let links: Vec<_> = self.links.drain(..).map(|(_, link)| link).collect();
                self.say(StreamEvent::StreamGone { stream: &stream, links: &links });
            }
            StreamOp::DeclarePublisher { .. }
            | StreamOp::DeletePublisher(_)
            | StreamOp::Create { .. }
            | StreamOp::CreateSuperStream(_)
            | StreamOp::DeleteSuperStream { .. } => {
                self.tell(Event::Done { channel: ONLY_CHANNEL, origin });
            }
        }
    }

    /// A stream whose name begins with `n` is not there.
    fn subscribe(&mut self, origin: MethodTag, wanted: &StreamSubscription) {
        let subscription = wanted.subscription;
        if wanted.stream.starts_with('n') || self.link(subscription).is_some() {
            return self.refuse(origin);
        }
        let link = LinkId(subscription.0.into());
        self.links.push((subscription, link));
        self.say(StreamEvent::Subscribed { origin, link, subscription });
        self.deliver(link, wanted.credit.min(9).cast_signed());
    }

    fn unsubscribe(&mut self, origin: MethodTag, subscription: SubscriptionId) {
        let Some(link) = self.link(subscription) else { return self.refuse(origin) };
        self.links.retain(|(id, _)| *id != subscription);
        self.say(StreamEvent::Unsubscribed { origin, link });
    }

    fn metadata(&self, origin: MethodTag, streams: &Texts) {
        let state = |stream: &str| match stream.starts_with('n') {
            true => Err(StreamRefusal::StreamDoesNotExist),
            false => Ok(()),
        };
        let streams: Vec<_> = streams.iter().map(|it| (it, state(it))).collect();
        let (first, rest) = streams.split_at(streams.len() / 2);
        self.say(StreamEvent::MetadataPart { streams: first, is_served: true });
        self.say(StreamEvent::Metadata { origin, streams: rest, is_served: true });
    }

    fn refuse(&self, origin: MethodTag) {
        self.say(StreamEvent::Refused { origin, why: StreamRefusal::StreamDoesNotExist });
    }

    fn say(&self, event: StreamEvent<'_>) {
        self.tell(Event::Stream(event));
    }

    /// One of its subscriptions is to be the active one.
    fn ask_for_offset(&self) {
        if let Some((subscription, _)) = self.links.first() {
            let (update, subscription, active) = (7, *subscription, true);
            self.say(StreamEvent::ConsumerUpdate { update, subscription, active });
        }
    }

    fn link(&self, subscription: SubscriptionId) -> Option<LinkId> {
        self.links.iter().find(|(id, _)| *id == subscription).map(|(_, link)| *link)
    }

    fn deliver(&self, link: LinkId, n_chunks: i16) {
        let (header, committed_chunk_id) = (&[0; CHUNK_HEADER_BYTES], 3);
        let data = ChunkData::Borrowed(b"entries");
        let chunk = ChunkDelivery { header, data, committed_chunk_id };
        let _waker = self.outbox.batch(&mut |sink| {
            (0..n_chunks).for_each(|_| _ = sink.deliver_chunk(link, &chunk));
        });
    }

    fn tell(&self, event: Event<'_>) {
        let mut event = Some(event);
        let _waker = self.outbox.batch(&mut |sink| {
            event.take().into_iter().for_each(|event| sink.event(event));
        });
    }

    /// Everything that goes out.
    fn written(&self) -> Vec<u8> {
        let (mut written, mut batch) = (Vec::new(), WriteBatch::default());
        while self.outbox.try_take(&mut batch) {
            batch.resume().clear();
            while !batch.is_written() {
                let mut slices = [IoSlice::new(&[]); 4];
                let n_slices = batch.fill(&mut slices);
                let before = written.len();
                slices[..n_slices].iter().for_each(|slice| written.extend_from_slice(slice));
                batch.advance(written.len() - before);
            }
            if batch.close_mode.is_some() {
                break;
            }
        }
        written
    }
}
