//! A node without sockets, and clients made of what a connection's task is made of: the protocol
//! front, the broker's session and the outbox, called in the task's order.

use amqp091::method::{
    ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, QueueDeclare,
};
use amqp091::{
    FrameKind, Method, ProtocolHeader, ShortString, Table, TableRef, Value, decode_frame,
};
use broker::{Broker, Identity, PagerOptions, Session, StorageOptions};
use edge::{Step, TaskOutbox as _, WriteBatch};
use front_amqp091::{ClientOutbox, Connection, Settings};
use log::WalOptions;
use segments::RealDisk;
use session::{Outbox, Request, Settle};
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use stdx::Now;

pub(crate) const FRAME_MAX: u32 = 131_072;
const NOW: Now = Now::at_ms(1);
/// Many segments are filled and used again in a test.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Backlogs stay in memory: what pages cost that go to disk and come back is not what is looked at.
const BACKLOG_BYTES: usize = 1 << 30;

/// A broker over a folder of the real disk, with user `guest`.
pub(crate) async fn start(dir: &std::path::Path) -> Arc<Broker> {
    let disk = Arc::new(RealDisk::new(dir).unwrap());
    let options = WalOptions { segment_bytes: SEGMENT_BYTES, ..WalOptions::default() };
    let pager = PagerOptions {
        budget_bytes: BACKLOG_BYTES,
        allowance_bytes_min: BACKLOG_BYTES,
        allowance_bytes_max: BACKLOG_BYTES,
        ..PagerOptions::default()
    };
    let storage = StorageOptions { pager, ..StorageOptions::default() };
    let broker = Broker::open_with(disk, options, storage.into()).unwrap();
    for command in testing::first_user() {
        broker.apply_definition(command).await.unwrap();
    }
    broker.tick(NOW);
    broker
}

/// Counts of the frames that a client has received.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Delivery tags rise from 1 on a channel, so this is also the last one.
    pub(crate) n_deliveries: u64,
    /// The last number that was confirmed; in these tests they are confirmed in order.
    pub(crate) n_confirmed: u64,
    /// Methods that are neither.
    n_answers: u64,
}

/// A connection with channel 1 open.
pub(crate) struct Client {
    front: Connection,
    outbox: Arc<ClientOutbox>,
    session: Session,
    requests: Vec<Request>,
    settles: Vec<Settle>,
    batch: WriteBatch,
    output: Vec<u8>,
    pub(crate) heard: Heard,
}

impl Client {
    pub(crate) async fn connect(broker: &Arc<Broker>) -> Self {
        let mut front = Connection::new(Arc::new(Settings::default()), NOW);
        let mut requests = Vec::new();
        let mut bytes = ProtocolHeader::encode_amqp([0, 0, 9, 1]).to_vec();
        let response = b"\0guest\0guest";
        ConnectionStartOk { mechanism: b"PLAIN", response, ..ConnectionStartOk::default() }
            .encode_frame(0, &mut bytes);
        front.read(NOW, &bytes, &mut requests);
        front.authenticated(Ok(()));
        bytes.clear();
        ConnectionTuneOk { channel_max: 9, frame_max: FRAME_MAX, heartbeat: 0 }
            .encode_frame(0, &mut bytes);
        ConnectionOpen::default().encode_frame(0, &mut bytes);
        front.read(NOW, &bytes, &mut requests);
        let identity = Identity { user: "guest".into(), vhost: "/".into(), ..Identity::default() };
        let outbox = front.outbox();
        let told: Arc<dyn Outbox> = Arc::<ClientOutbox>::clone(&outbox);
        let session = Session::open(Arc::clone(broker), identity, told).unwrap();
        front.opened(NOW, Ok(()));
        let mut client = Self {
            front,
            outbox,
            session,
            requests,
            settles: Vec::new(),
            batch: WriteBatch::default(),
            output: Vec::new(),
            heard: Heard::default(),
        };
        client.listen().await;
        client.ask(ChannelOpen::default()).await;
        client
    }

    /// Says something on channel 1 and waits for the answer.
    pub(crate) async fn ask<'a>(&mut self, method: impl Into<Method<'a>>) {
        let mut bytes = Vec::new();
        method.into().encode_frame(1, &mut bytes);
        let n_answers = self.heard.n_answers;
        self.say(&bytes).await;
        while self.heard.n_answers == n_answers {
            self.listen().await;
        }
    }

    /// Declares a queue that confirms on what is said there.
    pub(crate) async fn declare(&mut self, queue: &str, durable: bool, confirm_on: &str) {
        let mut arguments = Table::new();
        arguments.push(ShortString::from_static("x-confirm-on"), Value::from(confirm_on));
        let arguments = arguments.to_bytes();
        let (queue, arguments) = (queue.as_bytes(), TableRef::trusted(&arguments));
        self.ask(QueueDeclare { queue, durable, arguments, ..QueueDeclare::default() }).await;
    }

    /// Handles a read of whole frames as a connection's task does.
    pub(crate) async fn say(&mut self, input: &[u8]) {
        let mut rest = input;
        loop {
            let progress = self.front.read(NOW, rest, &mut self.requests);
            self.session.submit(&session::ReadInput::of(rest), &mut self.requests).await.unwrap();
            rest = &rest[progress.consumed..];
            match progress.step {
                Step::Again => {}
                Step::More => break,
                Step::Authenticate(_) | Step::Open { .. } | Step::SpeaksOther | Step::Close => {
                    panic!("a bad state")
                }
            }
        }
        assert!(rest.is_empty());
    }

    /// Waits for something in the outbox, and takes it.
    pub(crate) async fn listen(&mut self) {
        poll_fn(|cx| self.outbox.poll_take(cx, &mut self.batch)).await;
        assert!(self.batch.close_mode.is_none());
        self.output.clear();
        while !self.batch.is_written() {
            let mut slices = [IoSlice::new(&[]); 32];
            let n_slices = self.batch.fill(&mut slices);
            let mut n_written = 0;
            for slice in &slices[..n_slices] {
                self.output.extend_from_slice(slice);
                n_written += slice.len();
            }
            self.batch.advance(n_written);
        }
        self.outbox.wrote(&self.batch);
        while self.outbox.take_settled(&mut self.settles) {
            self.session.settle_written(&mut self.settles);
        }
        self.session.resume(self.batch.resume());
        self.batch.resume().clear();
        self.heard.hear(&self.output);
    }
}

impl Heard {
    fn hear(&mut self, mut output: &[u8]) {
        while let Some((frame, used)) = decode_frame(output, FRAME_MAX).unwrap() {
            if frame.kind == FrameKind::Method {
                self.hear_method(&Method::decode(frame.payload).unwrap());
            }
            output = &output[used..];
        }
        assert!(output.is_empty(), "half a frame");
    }

    fn hear_method(&mut self, method: &Method<'_>) {
        if let Method::BasicDeliver(_) = method {
            self.n_deliveries += 1;
        } else if let Method::BasicAck(ack) = method {
            self.n_confirmed = ack.delivery_tag;
        } else {
            assert!(!matches!(method, Method::ChannelClose(_) | Method::ConnectionClose(_)));
            self.n_answers += 1;
        }
    }
}
