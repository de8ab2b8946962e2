//! The session of one connection: the frames of each queue in order, the links, the end.

use super::answers::AnswersOutbox;
use super::input::SessionInput;
use super::links::PeerLinks;
use super::peer_connection::PeerConnection;
use crate::broker::Broker;
use crate::session::{Turn, detach_all};
use confirm::{ConfirmQueue, Publisher};
use meta::QueueId;
use peer::ConnectionNumber;
use queue::Return;
use queues::QueueRef;
use remote::commands::SessionCommand;
use session::ChannelId;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use stdx::lock;
use stdx::record::RecordError;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Frames that wait at most: flow control keeps those with messages from being many.
const FRAMES_WAITING_MAX: usize = 1 << 20;
/// Requests for one queue after which others are woken.
const WAKES_EACH: usize = 16;
/// The channel that all messages of a session are confirmed on.
pub(super) const CHANNEL: ChannelId = ChannelId(1);

/// The session of a connection.
pub(super) struct PeerSession {
    pub(super) connection: PeerConnection,
    pub(super) answers: Arc<AnswersOutbox>,
    pub(super) confirms: Arc<ConfirmQueue>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) links: Arc<PeerLinks>,
    /// Bytes of messages that are done with, which are told once the node has room.
    pub(super) withheld: AtomicU64,
    inbox: Mutex<SessionInbox>,
    /// Closed at the end of the connection, for requests that wait for their queue.
    ended: Semaphore,
}

stdx::debug_of!(|it: PeerSession| connection = it.connection);

#[derive(Debug, Default)]
struct SessionInbox {
    /// Frames that wait, by queue; those queues are in here for which one is being carried out.
    waiting: HashMap<QueueId, VecDeque<SessionInput>>,
    n_waiting: usize,
}

impl PeerSession {
    pub(super) fn new(connection: PeerConnection) -> Arc<Self> {
        let answers = Arc::new(AnswersOutbox::new(connection.clone()));
        let confirms = ConfirmQueue::new(Arc::<AnswersOutbox>::clone(&answers));
        Arc::new(Self {
            connection,
            answers,
            publisher: confirms.open(CHANNEL),
            confirms,
            links: Arc::new(PeerLinks::new(Handle::try_current().ok())),
            withheld: AtomicU64::new(0),
            inbox: Mutex::default(),
            ended: Semaphore::new(0),
        })
    }

    pub(super) const fn number(&self) -> ConnectionNumber {
        self.connection.number
    }

    /// Adds a request behind those before it for its queue, unless the connection has ended. Returns a queue
    /// for which no request is being carried out: it is to begin.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) fn submit(&self, input: SessionInput) -> Result<Option<QueueId>, RecordError> {
        let queue = self.links.queue_of(&input);
        let mut inbox = lock(&self.inbox);
        if self.ended.is_closed() {
            return Ok(None);
        }
        let n_waiting = inbox.n_waiting;
        match inbox.waiting.entry(queue) {
            Entry::Occupied(_) if n_waiting >= FRAMES_WAITING_MAX => Err(RecordError::Invalid),
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(input);
                inbox.n_waiting += 1;
                Ok(None)
            }
            Entry::Vacant(idle) => {
                idle.insert(VecDeque::from([input]));
                inbox.n_waiting += 1;
                Ok(Some(queue))
            }
        }
    }

    /// Begins to carry out the requests for a queue.
    pub(super) fn begin(self: &Arc<Self>, broker: &Arc<Broker>, queue: QueueId) {
        begin(Arc::clone(self).work(Arc::clone(broker), queue));
    }

    /// Undoes everything: the links of a queue once the request that is being carried out for it is.
    pub(super) fn end(self: &Arc<Self>, broker: &Arc<Broker>) {
        let mut inbox = lock(&self.inbox);
        if self.ended.is_closed() {
            return;
        }
        self.ended.close();
        inbox.waiting.values_mut().for_each(VecDeque::clear);
        inbox.n_waiting = 0;
        let (mut idle, how) = (Vec::new(), Return::Failed);
        for (queue, mut links) in self.links.by_queue() {
            match inbox.waiting.get_mut(&queue) {
                Some(waiting) => {
                    let detach = SessionCommand::Detach { links, how };
                    waiting.push_back(SessionInput::Command(detach));
                    inbox.n_waiting += 1;
                }
                None => idle.append(&mut links),
            }
        }
        drop(inbox);
        self.confirms.forget(CHANNEL);
        let (session, broker) = (Arc::clone(self), Arc::clone(broker));
        begin(async move {
            let mut turn = session.turn(&broker);
            session.detach(&broker, &mut turn, &idle, how).await;
            turn.before_waiting();
        });
    }

    fn turn(&self, broker: &Broker) -> Turn {
        let outbox = Arc::<AnswersOutbox>::clone(&self.answers);
        Turn::new(outbox, Arc::clone(&broker.classic.services))
    }

    /// Carries out requests for a queue, in order, until none waits. Others are woken, and the log is
    /// committed, once for several.
    async fn work(self: Arc<Self>, broker: Arc<Broker>, queue: QueueId) {
        let (mut turn, mut n_done) = (self.turn(&broker), 0_usize);
        while let Some(input) = self.next(queue) {
            match input {
                SessionInput::Put(frame) => self.put(&broker, &mut turn, &frame).await,
                SessionInput::Command(command) => self.command(&broker, &mut turn, command).await,
                SessionInput::Request(number, request) => {
                    self.request(&broker, &mut turn, number, *request).await;
                }
            }
            n_done += 1;
            if n_done.is_multiple_of(WAKES_EACH) {
                turn.before_waiting();
            }
        }
        turn.before_waiting();
    }

    /// The next request for a queue; with none, nothing is being carried out for it any more.
    fn next(&self, queue: QueueId) -> Option<SessionInput> {
        let mut inbox = lock(&self.inbox);
        let next = inbox.waiting.get_mut(&queue).and_then(VecDeque::pop_front);
        match next {
            Some(_) => inbox.n_waiting -= 1,
            None => drop(inbox.waiting.remove(&queue)),
        }
        next
    }

    /// A queue of this node, once this node's definitions have it and it is loaded. None if it is deleted, or
    /// another node's, or if the connection has ended before.
    pub(super) async fn find_queue(
        &self,
        broker: &Broker,
        turn: &mut Turn,
        id: QueueId,
    ) -> Option<QueueRef> {
        let queue = loop {
            let published = broker.control_plane.published();
            let view = broker.view();
            match view.queue_by_id(id) {
                Some(QueueRef::Remote(_)) => return None,
                Some(queue) => break queue,
                None if view.meta.queues().has_given(id) => return None,
                // The client's node has heard of the queue first.
                None => self.comes(turn, published).await?,
            }
        };
        if queue.is_loading() {
            self.comes(turn, queue.loaded()).await?;
        }
        Some(queue)
    }

    /// Waits for a future; none if the connection has ended before.
    async fn comes(&self, turn: &mut Turn, future: impl Future<Output = ()>) -> Option<()> {
        turn.before_waiting();
        let (mut future, mut ended) = (pin!(future), pin!(self.ended.acquire()));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(context).map(Some),
        })
        .await
    }

    /// Detaches links; of each queue, all together.
    pub(super) async fn detach(
        &self,
        broker: &Arc<Broker>,
        turn: &mut Turn,
        numbers: &[u64],
        how: Return,
    ) {
        let links = numbers.iter().filter_map(|number| self.links.get(*number));
        let links = links.map(|it| it.link).collect();
        let unused = detach_all(turn, links, how).await;
        self.links.remove(numbers);
        drop_queues(broker, unused);
    }
}

/// Deletes queues that nobody uses any more, in a task if definitions do not change at once.
fn drop_queues(broker: &Arc<Broker>, unused: Vec<QueueId>) {
    if !unused.is_empty() {
        let broker = Arc::clone(broker);
        begin(async move { broker.changes().drop_queues(&unused).await });
    }
}

/// Runs a future to its end: here if it waits for nothing, else in a task.
pub(super) fn begin(future: impl Future<Output = ()> + Send + 'static) {
    let mut future = Box::pin(future);
    if future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
        tokio::spawn(future);
    }
}
