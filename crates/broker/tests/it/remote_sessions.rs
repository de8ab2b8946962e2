//! Sessions of another node's clients at queues of this node: frames in, and frames out.

mod waiting;

use crate::client::{Client, Kind, short, start, table, text, wait_until};
use broker::{Broker, RemoteSessions};
use bytes::Bytes;
use log::NodeNumber;
use message::{Annotations, Body, BodyForm, MessageRef};
use meta::{ConnectionId, QueueId};
use peer::{
    ConnectionNumber, FrameDecoder, LinkBatch, LinkLimits, PeerFrame, PeerLink, SESSION_ROWS,
    SessionFrame, TakenFromLink, Vocabulary,
};
use queue::{AckMode, Checkout, CreditMode, Return};
use queue_type::{DeleteConditions, Named};
use remote::commands::{LinkTold, SessionCommand};
use remote::requests::{LinkTerms, SessionRequest, SessionResponse};
use remote::wire::{
    AnsweredPuts, DeliverFrame, LINK_CREDIT_BYTES, RemoteDelivery, begin_put, put_message,
    read_answers,
};
use session::{Attachment, ChannelId, CreditRequest, LinkId, Op, Outcome, Position, Table, Value};
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use stdx::record::RecordError;
use testing::MemoryDisk;
use tokio::runtime::{Handle, Runtime};

const NODE: NodeNumber = NodeNumber(2);
const LIMITS: LinkLimits = LinkLimits { room_bytes: 8 << 20, bytes_max: 64 << 20 };

/// Another node, as this one sees it.
struct Peer {
    broker: Arc<Broker>,
    sessions: Arc<RemoteSessions>,
    tasks: Handle,
    link: Arc<PeerLink>,
    number: ConnectionNumber,
    decoder: FrameDecoder,
    n_requests: u64,
    n_puts: u64,
    /// Bytes of puts that this node is done with.
    taken: u64,
    /// Deliveries: the link and the position.
    delivered: Vec<(u64, Position)>,
}

/// A node, a local client of it, and a peer; and what its tasks run in.
struct World {
    _runtime: Runtime,
    local: Client,
    peer: Peer,
}

fn world(queue: &str, arguments: &[(&'static str, Value)]) -> World {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let runtime = runtime();
    let mut local = Client::connect(&broker);
    assert_eq!(local.declare_with(queue, true, arguments), ["declared 0 0"]);
    let peer = Peer::first(&broker, &runtime);
    World { _runtime: runtime, local, peer }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

impl Peer {
    fn first(broker: &Arc<Broker>, runtime: &Runtime) -> Self {
        let sessions = Arc::new(RemoteSessions::new(Arc::clone(broker)));
        Self::open(broker, sessions, runtime.handle(), Arc::new(PeerLink::new(LIMITS)), 1)
    }

    fn open(
        broker: &Arc<Broker>,
        sessions: Arc<RemoteSessions>,
        tasks: &Handle,
        link: Arc<PeerLink>,
        number: u64,
    ) -> Self {
        let number = ConnectionNumber(number);
        assert!(link.open(number));
        Self {
            broker: Arc::clone(broker),
            sessions,
            tasks: tasks.clone(),
            link,
            number,
            decoder: FrameDecoder::new(Vocabulary::new(0, &[SESSION_ROWS])),
            n_requests: 0,
            n_puts: 0,
            taken: 0,
            delivered: Vec::new(),
        }
    }

    fn queue(&self, name: &str) -> QueueId {
        self.broker.queue("/", name).unwrap().id()
    }

    fn send(&self, frame: SessionFrame, body: Vec<u8>) -> Result<(), RecordError> {
        let _in_runtime = self.tasks.enter();
        self.sessions.receive(NODE, self.number, &self.link, [(frame, body.into())])
    }

    /// Ends the connection.
    fn end(&self) {
        let _in_runtime = self.tasks.enter();
        self.sessions.ended(NODE, self.number);
    }

    fn put_in(&mut self, queue: QueueId, bodies: &[&str], persistent: bool) -> u64 {
        self.put_named(queue, bodies, persistent, None)
    }

    /// Puts messages, all as that one of a publisher that names itself; returns their bytes.
    fn put_named(
        &mut self,
        queue: QueueId,
        bodies: &[&str],
        persistent: bool,
        named: Option<&Named>,
    ) -> u64 {
        let mut body = Vec::new();
        begin_put(&mut body, queue, self.n_puts + 1);
        let n_head = body.len();
        for text in bodies {
            let message = MessageRef {
                exchange: b"",
                routing_key: b"q",
                properties: &[0, 0],
                body: Body::Borrowed(text.as_bytes()),
                persistent,
                annotations: Annotations::default(),
                form: BodyForm::Plain,
            };
            put_message(&mut body, &message, named);
            self.n_puts += 1;
        }
        let n_bytes = (body.len() - n_head) as u64;
        self.send(SessionFrame::Put, body).unwrap();
        n_bytes
    }

    /// Puts messages, and waits for so many lines.
    fn put(&mut self, queue: &str, bodies: &[&str], persistent: bool, n: usize) -> Vec<String> {
        self.put_in(self.queue(queue), bodies, persistent);
        self.wait_for(n)
    }

    fn command(&self, command: &SessionCommand) {
        let mut body = Vec::new();
        command.encode(&mut body);
        self.send(SessionFrame::Command, body).unwrap();
    }

    fn settle(&self, link: u64, outcome: Outcome, positions: &[Position]) {
        let positions = positions.to_vec();
        self.command(&SessionCommand::Settle { link, outcome, positions, changes: None });
    }

    /// Makes a request, and waits for so many lines.
    fn ask(&mut self, request: &SessionRequest, n: usize) -> Vec<String> {
        self.request(request);
        self.wait_for(n)
    }

    fn request(&mut self, request: &SessionRequest) {
        self.n_requests += 1;
        let mut body = Vec::new();
        request.encode(self.n_requests, &mut body);
        self.send(SessionFrame::Request, body).unwrap();
    }

    fn attach(&mut self, queue: &str, link: u64, mode: CreditMode, n: usize) -> Vec<String> {
        self.attach_as(queue, link, mode, AckMode::Manual, n)
    }

    fn attach_as(
        &mut self,
        queue: &str,
        link: u64,
        credit_mode: CreditMode,
        settling: AckMode,
        n: usize,
    ) -> Vec<String> {
        self.attach_with(queue, link, credit_mode, settling, Table::default());
        self.wait_for(n)
    }

    fn attach_with(
        &mut self,
        queue: &str,
        link: u64,
        credit_mode: CreditMode,
        settling: AckMode,
        arguments: Table,
    ) {
        let checkout = Checkout { settling, credit_mode, priority: 0 };
        let asked = Attachment {
            queue: short(queue),
            consumer_tag: short("tag"),
            no_ack: settling == AckMode::Auto,
            exclusive: false,
            arguments,
            source: None,
        };
        let terms = self.terms(queue, link);
        self.request(&SessionRequest::Attach { terms, checkout, asked });
    }

    fn terms(&self, queue: &str, link: u64) -> LinkTerms {
        LinkTerms {
            queue: self.queue(queue),
            link,
            connection: ConnectionId(2 << 48 | 1),
            channel: ChannelId(1),
            node_timeout_ms: None,
        }
    }

    fn get(&mut self, link: u64) -> Vec<String> {
        self.ask(&SessionRequest::Get(link), 1)
    }

    /// Lines for the frames that have come since this was last asked.
    fn heard(&mut self) -> Vec<String> {
        let (mut batch, mut bytes) = (LinkBatch::default(), Vec::new());
        let context = Context::from_waker(Waker::noop());
        while self.link.poll_take(self.number, &context, &mut batch)
            == Poll::Ready(TakenFromLink::Batch)
        {
            while batch.n_left() > 0 {
                let mut slices = [IoSlice::new(&[])];
                let n = batch.fill(&mut slices);
                let part: Vec<u8> = slices[..n].iter().flat_map(|it| it.to_vec()).collect();
                bytes.extend_from_slice(&part);
                self.link.wrote(self.number, &mut batch, part.len());
            }
        }
        let (mut input, mut frames) = (&*bytes, Vec::new());
        while let Some(PeerFrame { kind, body }) = self.decoder.next(&mut input).unwrap() {
            frames.push((SessionFrame::of_kind(kind).unwrap(), body.into_bytes()));
        }
        let mut lines = Vec::new();
        frames.into_iter().for_each(|(frame, body)| self.read(frame, &body, &mut lines));
        lines
    }

    fn read(&mut self, frame: SessionFrame, body: &Bytes, lines: &mut Vec<String>) {
        match frame {
            SessionFrame::Answers => {
                let (taken, answers) = read_answers(body).unwrap();
                self.taken += taken.n_bytes;
                lines.extend(answers.iter().map(answer_line));
            }
            SessionFrame::Deliver => {
                let frame = DeliverFrame::decode(body).unwrap();
                for delivery in frame.items() {
                    let delivery = delivery.unwrap();
                    self.delivered.push((frame.link, delivery.as_ref().position));
                    lines.push(format!("{}: {}", frame.link, delivery_line(&delivery)));
                }
            }
            SessionFrame::Event => {
                let (link, told) = LinkTold::decode(body).unwrap();
                lines.push(format!("{link}: {told:?}"));
            }
            SessionFrame::Response => {
                let (number, response) = SessionResponse::decode(body).unwrap();
                assert_eq!(number, self.n_requests, "{response:?}");
                lines.push(match &response {
                    SessionResponse::Got { delivery, n_ready } => {
                        let delivery = SessionResponse::got(delivery).unwrap();
                        self.delivered.push((0, delivery.as_ref().position));
                        format!("got {} left {n_ready}", delivery_line(&delivery))
                    }
                    SessionResponse::Stat(stat) => {
                        format!("{} ready {} consumers", stat.n_ready, stat.n_consumers)
                    }
                    response => format!("{response:?}"),
                });
            }
            other => panic!("{other:?} goes the other way"),
        }
    }

    fn wait_for(&mut self, n: usize) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut lines = self.heard();
        while lines.len() < n {
            assert!(Instant::now() < deadline, "heard only {lines:?}");
            std::thread::yield_now();
            lines.extend(self.heard());
        }
        lines
    }

    /// The positions of all deliveries since this was last asked.
    fn positions(&mut self) -> Vec<Position> {
        std::mem::take(&mut self.delivered).into_iter().map(|(_, position)| position).collect()
    }
}

fn answer_line(answer: &AnsweredPuts) -> String {
    let AnsweredPuts { first, last, refused } = answer;
    match refused {
        None => format!("ack {first}..={last}"),
        Some(why) => format!("{why:?} {first}..={last}"),
    }
}

fn delivery_line(delivery: &RemoteDelivery<'_>) -> String {
    let delivery = delivery.as_ref();
    let body = String::from_utf8_lossy(delivery.message.body.bytes()).into_owned();
    if delivery.redelivered { body + " again" } else { body }
}

#[test]
fn puts_are_in_their_queue_and_answered() {
    let mut world = world("q", &[]);
    let n_bytes = world.peer.put_in(world.peer.queue("q"), &["a", "b"], false);
    assert_eq!(world.peer.wait_for(1), ["ack 1..=2"]);
    assert_eq!(world.peer.taken, n_bytes);
    assert_eq!(world.peer.put("q", &["c"], true, 1), ["ack 3..=3"]);
    assert_eq!(world.local.get("q"), ["got a left 2"]);
    assert_eq!(world.local.get("q"), ["got b left 1"]);
    assert_eq!(world.local.get("q"), ["got c left 0"]);
}

#[test]
fn a_full_queue_refuses_and_sends_its_dead_letters() {
    let mut world = world(
        "q",
        &[
            ("x-max-length", Value::I32(1)),
            ("x-overflow", text("reject-publish-dlx")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dead")),
        ],
    );
    world.local.declare("dead", true);
    let heard = world.peer.put("q", &["a", "b", "c"], false, 2);
    assert_eq!(heard, ["ack 1..=1", "MaxLen 2..=3"]);
    wait_until("both letters come", || {
        world.peer.broker.queue("/", "dead").unwrap().local_stat().n_ready == 2
    });
}

#[test]
fn a_queue_that_is_deleted_refuses() {
    let mut world = world("q", &[]);
    let gone = world.peer.queue("q");
    let no = session::Flag::No;
    world.local.ask(Op::DeleteQueue { queue: short("q"), if_unused: no, if_empty: no });
    let n_bytes = world.peer.put_in(gone, &["a", "b"], true);
    assert_eq!(world.peer.wait_for(1), ["Deleted 1..=2"]);
    assert_eq!(world.peer.taken, n_bytes);
}

#[test]
fn a_queue_that_confirms_on_ack_answers_once_a_consumer_has_settled() {
    let mut world = world("q", &[("x-confirm-on", text("ack"))]);
    assert!(world.peer.put("q", &["a", "b"], false, 0).is_empty());
    assert!(world.peer.taken > 0, "the messages are in their queue");
    assert_eq!(world.local.get("q"), ["got a left 1"]);
    world.local.settle_newest(Outcome::Accepted);
    assert_eq!(world.peer.wait_for(1), ["ack 1..=1"]);
    assert_eq!(world.local.get("q"), ["got b left 0"]);
    world.local.settle_newest(Outcome::Rejected);
    assert_eq!(world.peer.wait_for(1), ["Rejected 2..=2"]);
}

#[test]
fn a_consumer_is_told_first_and_settles() {
    let mut world = world("q", &[]);
    world.local.publish("q", &["a", "b"], Kind::Persistent);
    let heard = world.peer.attach("q", 7, CreditMode::Prefetch(1), 3);
    assert_eq!(heard, ["7: Attached(None)", "7: a", "Done"]);
    let positions = world.peer.positions();
    world.peer.settle(7, Outcome::Accepted, &positions);
    assert_eq!(world.peer.heard(), ["7: b"]);
    let positions = world.peer.positions();
    world.peer.settle(7, Outcome::Released, &positions);
    assert_eq!(world.peer.heard(), ["7: b again"]);
    world.peer.command(&SessionCommand::Prefetch { link: 7, prefetch: None });
    world.local.publish("q", &["c"], Kind::Persistent);
    assert_eq!(world.peer.heard(), ["7: c"]);
    world.peer.settle(8, Outcome::Accepted, &positions);
}

#[test]
fn deliveries_end_with_the_credit_in_bytes_and_resume_with_more() {
    let mut world = world("q", &[]);
    let body = "x".repeat(LINK_CREDIT_BYTES as usize / 4);
    assert_eq!(world.peer.attach("q", 1, CreditMode::Unlimited, 2).len(), 2);
    for _ in 0..8 {
        world.local.publish("q", &[&body], Kind::Transient);
    }
    assert_eq!(world.peer.heard().len(), 4);
    world.peer.command(&SessionCommand::Credit { link: 1, bytes: 1 });
    assert!(world.peer.heard().is_empty(), "what went beyond the credit counts");
    world.peer.command(&SessionCommand::Credit { link: 1, bytes: LINK_CREDIT_BYTES / 2 });
    assert_eq!(world.peer.heard().len(), 2);
    world.peer.command(&SessionCommand::Credit { link: 1, bytes: LINK_CREDIT_BYTES });
    assert_eq!(world.peer.heard().len(), 2);
}

#[test]
fn a_get_is_answered_with_a_message_or_none() {
    let mut world = world("q", &[]);
    let (terms, settling) = (world.peer.terms("q", 3), AckMode::Manual);
    let attach = SessionRequest::AttachPassive { terms, settling };
    assert_eq!(world.peer.ask(&attach, 1), ["Done"]);
    assert_eq!(world.peer.get(3), ["Nothing"]);
    world.local.publish("q", &["a", "b"], Kind::Persistent);
    assert_eq!(world.peer.get(3), ["got a left 1"]);
    let positions = world.peer.positions();
    world.peer.settle(3, Outcome::Released, &positions);
    assert_eq!(world.peer.get(3), ["got a again left 1"]);
    assert_eq!(world.peer.get(4), ["AttachRefused(Gone)"]);
}

#[test]
fn a_cancelled_consumer_keeps_what_it_holds() {
    let mut world = world("q", &[]);
    world.local.publish("q", &["a"], Kind::Persistent);
    world.peer.attach("q", 1, CreditMode::Unlimited, 3);
    assert_eq!(world.peer.ask(&SessionRequest::Cancel(1), 1), ["Done"]);
    world.local.publish("q", &["b"], Kind::Persistent);
    assert_eq!(world.local.get("q"), ["got b left 0"]);
    let positions = world.peer.positions();
    world.peer.settle(1, Outcome::Released, &positions);
    assert_eq!(world.local.get("q"), ["got a again left 0"]);
    world.peer.command(&SessionCommand::Detach { links: vec![1], how: Return::Failed });
    assert_eq!(world.peer.ask(&SessionRequest::Cancel(1), 1), ["Done"]);
}

#[test]
fn what_an_ended_connection_holds_goes_to_another_consumer() {
    for mode in ["enqueue", "ack", "ack-direct"] {
        let mut world = world("q", &[("x-confirm-on", text(mode))]);
        world.local.publish("q", &["a", "b", "c"], Kind::Persistent);
        world.peer.attach("q", 1, CreditMode::Prefetch(2), 4);
        world.peer.attach("q", 2, CreditMode::Prefetch(1), 3);
        let positions = world.peer.positions();
        world.peer.settle(1, Outcome::Accepted, &positions[..1]);
        assert_eq!(world.local.consume("q", false), ["consuming"], "{mode}");
        let (broker, link) = (Arc::clone(&world.peer.broker), Arc::clone(&world.peer.link));
        let mut next =
            Peer::open(&broker, Arc::clone(&world.peer.sessions), &world.peer.tasks, link, 2);
        // The first frame of a newer connection ends the older one.
        assert_eq!(next.ask(&SessionRequest::Stat(next.queue("q")), 1), ["0 ready 1 consumers"]);
        assert_eq!(world.local.heard(), ["deliver b again", "deliver c again"], "{mode}");
        world.peer.end();
        assert_eq!(
            next.put("q", &["d"], false, usize::from(mode == "enqueue")).len(),
            usize::from(mode == "enqueue")
        );
        next.end();
        next.command(&SessionCommand::Touch(next.queue("q")));
    }
}

#[test]
fn messages_come_back_upon_a_recovery_but_those_that_are_kept() {
    for mode in ["enqueue", "ack-direct"] {
        let mut world = world("q", &[("x-confirm-on", text(mode))]);
        world.local.publish("q", &["a", "b"], Kind::Persistent);
        world.peer.attach("q", 1, CreditMode::Unlimited, 4);
        let positions = world.peer.positions();
        let kept = vec![positions[0].0];
        world.peer.command(&SessionCommand::Recover { link: 1, upto: 2, kept });
        assert_eq!(world.peer.heard(), ["1: b again"], "{mode}");
        world.peer.command(&SessionCommand::Detach { links: vec![1, 9], how: Return::Failed });
        assert_eq!(world.local.get("q"), ["got a again left 1"], "{mode}");
        assert_eq!(world.local.get("q"), ["got b again left 0"], "{mode}");
    }
}

#[test]
fn credit_of_links_is_told_behind_its_deliveries() {
    let mut world = world("q", &[]);
    world.local.publish("q", &["a"], Kind::Persistent);
    assert_eq!(world.peer.attach("q", 5, CreditMode::Link, 2).len(), 2);
    let (channel, link) = (ChannelId(9), LinkId(9));
    let credit =
        CreditRequest { channel, link, delivery_count: 0, credit: 2, drain: true, echo: false };
    world.peer.command(&SessionCommand::Flow { link: 5, credit });
    let heard = world.peer.heard();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0], "5: a");
    assert!(heard[1].contains("delivery_count: 2, credit: 0"), "{heard:?}");
}

#[test]
fn purges_figures_and_deletions_are_answered() {
    let mut world = world("q", &[]);
    let queue = world.peer.queue("q");
    world.local.publish("q", &["a", "b"], Kind::Persistent);
    assert_eq!(world.peer.ask(&SessionRequest::Stat(queue), 1), ["2 ready 0 consumers"]);
    let only_empty = DeleteConditions { if_unused: false, if_empty: true };
    let refused = world.peer.ask(&SessionRequest::BeginDelete(queue, only_empty), 1);
    assert_eq!(refused, ["Refused(NotEmpty)"]);
    assert_eq!(world.peer.ask(&SessionRequest::Purge(queue), 1), ["Count(2)"]);
    assert_eq!(world.peer.ask(&SessionRequest::BeginDelete(queue, only_empty), 1), ["Count(0)"]);
    world.local.declare("gone", true);
    let (gone, no) = (world.peer.queue("gone"), session::Flag::No);
    world.local.ask(Op::DeleteQueue { queue: short("gone"), if_unused: no, if_empty: no });
    assert_eq!(world.peer.ask(&SessionRequest::Purge(gone), 1), ["Refused(NotFound)"]);
}

#[test]
fn a_consumer_is_refused_beside_an_exclusive_one() {
    let mut world = world("q", &[("x-single-active-consumer", Value::Bool(false))]);
    world.local.consume_with("q", "tag", true, &[]);
    let heard = world.peer.attach("q", 1, CreditMode::Unlimited, 1);
    assert_eq!(heard, ["AttachRefused(ExclusiveUse)"]);
}

#[test]
fn an_auto_delete_queue_goes_with_the_last_consumer_of_a_connection() {
    let mut world = world("q", &[]);
    world.local.ask(Op::DeclareQueue(session::QueueDeclaration {
        queue: short("auto"),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: true,
        arguments: Table::default(),
    }));
    world.peer.attach("auto", 1, CreditMode::Unlimited, 2);
    world.peer.end();
    wait_until("it is deleted", || world.peer.broker.queue("/", "auto").is_none());
}

#[test]
fn bodies_that_cannot_be_read_are_errors() {
    let world = world("q", &[]);
    let mut nameless = Vec::new();
    begin_put(&mut nameless, world.peer.queue("q"), 0);
    assert!(world.peer.send(SessionFrame::Put, nameless).is_err(), "numbers begin with 1");
    for frame in SessionFrame::ALL {
        assert!(world.peer.send(frame, vec![255]).is_err(), "{frame:?}");
    }
    assert!(world.peer.send(SessionFrame::Answers, vec![0; 8]).is_err(), "it goes the other way");
}

#[test]
fn a_stream_is_read_while_there_is_credit() {
    let mut world = world("q", &[("x-queue-type", text("stream"))]);
    let body = "x".repeat(LINK_CREDIT_BYTES as usize / 4);
    for _ in 0..6 {
        world.local.publish("q", &[&body], Kind::Persistent);
    }
    assert_eq!(world.peer.put("q", &["a", "b"], true, 1).len(), 1);
    let offset = table(&[("x-stream-offset", text("first"))]);
    world.peer.attach_with("q", 1, CreditMode::Prefetch(100), AckMode::Manual, offset);
    let n_first = world.peer.wait_for(6).len();
    assert!(n_first < 10, "beyond its credit the link has got {n_first} lines");
    let positions = world.peer.positions();
    world.peer.settle(1, Outcome::Accepted, &positions);
    world.peer.command(&SessionCommand::Credit { link: 1, bytes: LINK_CREDIT_BYTES });
    assert_eq!(world.peer.wait_for(10 - n_first).pop().unwrap(), "1: b");
    assert_eq!(world.peer.put("q", &["c"], true, 2), ["1: c", "ack 3..=3"]);
}

#[test]
fn a_quorum_queue_knows_messages_that_come_again() {
    let mut world = world("q", &[("x-queue-type", text("quorum"))]);
    let (queue, named) = (world.peer.queue("q"), Named { publisher: (*b"p").into(), id: 1 });
    world.peer.put_named(queue, &["a"], true, Some(&named));
    world.peer.put_named(queue, &["again"], true, Some(&named));
    world.peer.put_in(queue, &["b"], true);
    let heard = world.peer.wait_for(1);
    assert!(heard.iter().all(|line| line.starts_with("ack")), "{heard:?}");
    let heard = world.peer.attach("q", 1, CreditMode::Prefetch(1), 3);
    assert_eq!(heard.concat().split("1: ").last(), Some("aDone"), "{heard:?}");
    world.peer.command(&SessionCommand::Detach { links: vec![1], how: Return::Released });
    assert_eq!(world.local.get("q"), ["got a again left 1"]);
    assert_eq!(world.local.get("q"), ["got b left 0"]);
}
