//! One simulated connection: its session, what it is in the middle of, and what it is owed.

use crate::model::Link;
use broker::{Broker, Hold, Session};
use session::{
    ChannelId, Control, ErrorKind, HeadPlace, LinkId, MethodTag, Op, Outcome, Position, Publish,
    ReadInput, Request, Settle, ShortString, Span,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use testing::outbox::{Content, Recorder};

/// A request on its way through the session; gives the session back unless the connection is over.
pub(crate) type Task = Pin<Box<dyn Future<Output = Option<Session>>>>;

/// The waker of a task that only let others go on.
#[derive(Default)]
struct Yielded(AtomicBool);

impl Wake for Yielded {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls a task, and once more if it has only let others go on.
pub(crate) fn poll_on<T>(mut task: Pin<&mut dyn Future<Output = T>>) -> Poll<T> {
    let yielded = Arc::<Yielded>::default();
    let waker = Waker::from(Arc::clone(&yielded));
    let mut context = Context::from_waker(&waker);
    let polled = task.as_mut().poll(&mut context);
    if polled.is_ready() || !yielded.0.load(Ordering::Relaxed) {
        return polled;
    }
    task.as_mut().poll(&mut context)
}

pub(crate) struct Client {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) session: Option<Session>,
    pub(crate) task: Option<Task>,
    pub(crate) doing: Doing,
    pub(crate) channels: BTreeMap<u16, Channel>,
    /// Published during an alarm.
    pub(crate) blocked: bool,
}

#[derive(Default)]
pub(crate) struct Channel {
    /// With confirms: the number of the last publish.
    pub(crate) sequence: Option<u64>,
    /// Publishes that are to be confirmed, and their messages.
    pub(crate) unconfirmed: BTreeMap<u64, u64>,
    pub(crate) tx: Option<Tx>,
    pub(crate) prefetch: u16,
    pub(crate) tags: BTreeSet<String>,
}

/// The publishes and settlements of an open transaction.
#[derive(Default)]
pub(crate) struct Tx {
    /// Messages and their queues are worked out at the commit.
    pub(crate) publishes: Vec<Publishing>,
    pub(crate) settles: Vec<(LinkId, Position, Outcome)>,
}

/// A publish as the model needs it.
#[derive(Clone, Debug)]
pub(crate) struct Publishing {
    pub(crate) id: u64,
    pub(crate) exchange: String,
    pub(crate) key: String,
    pub(crate) header: Option<String>,
    pub(crate) mandatory: bool,
}

/// The answer a request must get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expect {
    #[default]
    Nothing,
    Done,
    ChannelOpened,
    ChannelClosed,
    ConnectionClosed,
    Declared {
        queue: String,
        n_ready: u64,
        n_consumers: u64,
    },
    Purged(u64),
    Deleted(u64),
    Consuming,
    Cancelled,
    /// From this queue.
    Got(String),
    GetEmpty,
    ChannelFails(ErrorKind),
    ConnectionFails(ErrorKind),
}

/// The request a connection waits for, and the answer it expects.
#[derive(Default)]
pub(crate) struct Doing {
    pub(crate) channel: u16,
    pub(crate) expect: Expect,
    pub(crate) answered: bool,
    /// Messages to be returned, in order.
    pub(crate) returned: Vec<u64>,
    /// The consumer or get link in the making.
    pub(crate) link: Option<Link>,
    /// The consumer of direct replies in the making.
    pub(crate) reply_tag: Option<String>,
    /// Messages that must be in the log before the answer.
    pub(crate) committed: Vec<u64>,
    /// Changes durable definitions: no answer once the log has failed.
    pub(crate) durable: bool,
    /// The connection is over when it ends.
    pub(crate) last: bool,
}

/// Requests of one read, and the bytes they refer to.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) input: Vec<u8>,
    scratch: Vec<u8>,
    pub(crate) requests: Vec<Request>,
}

impl Read {
    /// A read of requests that refer to no bytes.
    pub(crate) fn of(requests: Vec<Request>) -> Self {
        Self { requests, ..Self::default() }
    }

    pub(crate) fn source(&self) -> ReadInput<'_> {
        ReadInput { bytes: &self.input, scratch: &self.scratch }
    }

    /// A publish of this. The heads of messages with a form of their own lie in the scratch.
    pub(crate) fn publish_of(&mut self, channel: u16, content: &Content) -> Publish {
        let (head, place) = match content.form.is_plain() {
            true => (&mut self.input, HeadPlace::Content),
            false => (&mut self.scratch, HeadPlace::Scratch),
        };
        Publish {
            channel: ChannelId(channel),
            head: place,
            exchange: put(head, &content.exchange),
            routing_key: put(head, &content.key),
            properties: put(head, &content.properties),
            content: session::Content::Inline(put(&mut self.input, &content.body)),
            form: content.form,
            mandatory: false,
            persistent: content.persistent,
            immediate: false,
            inspect: true,
        }
    }

    /// Adds a publish that need not go anywhere.
    pub(crate) fn publish(&mut self, channel: u16, content: &Content) {
        let publish = self.publish_of(channel, content);
        self.requests.push(Request::Publish(publish));
    }
}

fn put(buffer: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = u32::try_from(buffer.len()).expect("a simulated read is small");
    buffer.extend_from_slice(bytes);
    Span { start, len: u32::try_from(bytes.len()).expect("a simulated read is small") }
}

impl Client {
    pub(crate) const fn is_idle(&self) -> bool {
        self.task.is_none() && self.session.is_some()
    }
}

/// A name, of which there are none that are too long.
pub(crate) fn short(text: &str) -> ShortString {
    ShortString::truncated(text)
}

/// A request on a channel that is answered.
pub(crate) fn control(channel: u16, op: Op) -> Request {
    let channel = ChannelId(channel);
    Request::Control(Box::new(Control {
        channel,
        origin: MethodTag(0),
        nowait: false,
        refusal: session::RefusalScope::Channel,
        op,
    }))
}

/// A client's settlement of a delivery.
pub(crate) fn settle(channel: u16, (link, position): (u64, Position), outcome: Outcome) -> Settle {
    Settle { channel: ChannelId(channel), link: LinkId(link), position, outcome }
}

/// Works off a read and gives the session back, once no alarm holds what it published.
pub(crate) fn submit(mut session: Session, mut read: Read, broker: Arc<Broker>) -> Task {
    Box::pin(async move {
        let mut requests = std::mem::take(&mut read.requests);
        let mut done = session.submit(&read.source(), &mut requests).await;
        while done.is_ok() && session.hold() != Hold::None && broker.alarms.any() {
            // Also one that only waits for room, which has nothing to do with the alarm.
            session.released().await;
            done = session.release_hold().await;
        }
        if done.is_err() {
            session.close().await;
            return None;
        }
        Some(session)
    })
}

/// The connection ends without a word.
pub(crate) fn lose(session: Session) -> Task {
    Box::pin(async move {
        session.close().await;
        None
    })
}
