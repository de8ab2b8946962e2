//! Another node as the home of queues: what this node's clients have asked of it.

use crate::commands::{LinkTold, SessionCommand};
use crate::consumer::RemoteConsumer;
use crate::puts::{PutRun, Puts, ToldPuts};
use crate::requests::{SessionRequest, SessionResponse};
use crate::wire::{self, DeliverFrame, begin_put, put_message, read_answers};
use bytes::Bytes;
use confirm::{DurabilityToken, DurableJournal, JournalSynced};
use log::NodeNumber;
use message::MessageRef;
use meta::{QueueDef, QueueId};
use peer::{ConnectionNumber, LinkClass, PeerLink, SessionFrame};
use queue_type::{AckTimeout, Confirm, Incoming, Publishes};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use stdx::record::RecordError;
use tokio::sync::{Notify, oneshot};

/// Bytes of messages on their way to a home above which publishers wait.
const IN_FLIGHT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of messages on their way to a home above which others are refused: those of the broker itself, which
/// waits for nothing.
const REFUSED_ABOVE_BYTES: u64 = 64 << 20;
/// Messages go in one frame up to so many bytes: longer frames are sent in pieces.
const FRAME_BYTES: usize = 60 * 1024;

/// Queues at most of which it is remembered that their publishers should slow down.
const SLOWED_MAX: usize = 4_096;

/// The links to other nodes.
pub trait HomeLinks: Debug + Send + Sync {
    /// The link to a node, for what belongs to no group.
    fn link(&self, node: NodeNumber) -> Option<Arc<PeerLink>>;
}

/// The homes of queues on other nodes.
#[derive(Debug, Default)]
pub struct Homes {
    links: Arc<OnceLock<Arc<dyn HomeLinks>>>,
    homes: Mutex<BTreeMap<NodeNumber, Arc<Home>>>,
    last_link: Arc<AtomicU64>,
}

impl Homes {
    /// Has the links that all homes are reached by; until then all are down.
    pub fn connect(&self, links: Arc<dyn HomeLinks>) {
        // A node has one membership in its life.
        let _is_second = self.links.set(links).is_err();
    }

    /// The home of that number.
    pub(crate) fn of(&self, node: NodeNumber) -> Arc<Home> {
        let mut homes = stdx::lock(&self.homes);
        let home = homes.entry(node).or_insert_with(|| {
            Arc::new(Home {
                node,
                links: Arc::clone(&self.links),
                last_link: Arc::clone(&self.last_link),
                room: Notify::new(),
                state: Mutex::default(),
            })
        });
        Arc::clone(home)
    }

    /// Takes a frame that a home has sent over a connection.
    ///
    /// # Errors
    /// The frame cannot be read.
    pub fn receive(
        &self,
        node: NodeNumber,
        connection: ConnectionNumber,
        frame: SessionFrame,
        body: &Bytes,
    ) -> Result<(), RecordError> {
        let home = stdx::lock(&self.homes).get(&node).cloned();
        home.map_or(Ok(()), |home| home.receive(connection, frame, body))
    }

    /// Sends a direct reply to the consumer of a token on another node, which must be a member. False if the
    /// node cannot be reached.
    #[must_use]
    pub fn reply(&self, node: NodeNumber, token: &str, message: &MessageRef<'_>) -> bool {
        let mut record = Vec::new();
        wire::put_record(&mut record, message);
        self.of(node).command(&SessionCommand::Reply { token: token.to_owned(), record })
    }

    /// Has a node, which must be a member, close a channel of its client that holds a message of this node's
    /// for too long.
    pub fn tell_overdue(&self, overdue: AckTimeout) {
        let home = self.of(NodeNumber(overdue.connection.node()));
        // The messages are back once the node's connection has ended.
        let _is_up = home.command(&SessionCommand::Overdue(overdue));
    }

    /// Whether a node, which must be a member, can be reached.
    #[must_use]
    pub fn is_up(&self, node: NodeNumber) -> bool {
        self.of(node).is_up()
    }

    /// Notes that a connection to a node is made.
    pub fn made(&self, node: NodeNumber) {
        let home = stdx::lock(&self.homes).get(&node).cloned();
        home.into_iter().for_each(|home| home.begin());
    }

    /// Notes that a connection to a node has ended.
    pub fn ended(&self, node: NodeNumber, connection: ConnectionNumber) {
        let home = stdx::lock(&self.homes).get(&node).cloned();
        home.into_iter().for_each(|home| home.end(connection));
    }
}

/// Another node as the home of queues.
#[derive(Debug)]
pub(crate) struct Home {
    node: NodeNumber,
    links: Arc<OnceLock<Arc<dyn HomeLinks>>>,
    last_link: Arc<AtomicU64>,
    /// Notified when publishers may go on.
    room: Notify,
    state: Mutex<HomeState>,
}

/// The requests and messages that were sent over one connection.
#[derive(Debug, Default)]
struct HomeState {
    connection: Option<ConnectionNumber>,
    puts: Puts,
    /// Queues whose publishers should let the consumers have their turn.
    slowed: HashSet<QueueId>,
    last_request: u64,
    requests: BTreeMap<u64, oneshot::Sender<SessionResponse>>,
    consumers: BTreeMap<u64, Arc<RemoteConsumer>>,
}

/// The open connection to a home.
#[derive(Debug)]
struct HomeWay {
    link: Arc<PeerLink>,
    number: ConnectionNumber,
}

impl HomeWay {
    /// Puts a frame into the link, behind those before.
    fn send(&self, frame: SessionFrame, fill: impl FnOnce(&mut Vec<u8>)) -> Option<Waker> {
        self.send_in(LinkClass::Ordinary, frame, fill)
    }

    fn send_in(
        &self,
        class: LinkClass,
        frame: SessionFrame,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Waker> {
        let Self { link, number } = self;
        link.answer(*number, |out| out.push(class, frame.kind(), fill, &[]))
    }
}

/// The clients of an ended connection, to be told without a lock.
#[derive(Debug, Default)]
struct Lost {
    puts: ToldPuts,
    consumers: Vec<Arc<RemoteConsumer>>,
    /// The writer of the new connection.
    writer: Option<Waker>,
}

impl Lost {
    fn tell(self) {
        self.writer.into_iter().for_each(Waker::wake);
        self.puts.tell();
        self.consumers.iter().for_each(|consumer| consumer.cancelled());
    }
}

impl HomeState {
    /// Gives up what was asked over the connection, if there is one.
    fn lose(&mut self) -> Lost {
        let mut lost = Lost::default();
        if self.connection.take().is_some() {
            self.puts.lose(&mut lost.puts);
            // The askers hear that the home is down.
            self.requests.clear();
            self.slowed.clear();
            lost.consumers = std::mem::take(&mut self.consumers).into_values().collect();
        }
        lost
    }
}

impl Home {
    /// The number of a new link to the home.
    pub(crate) fn next_link(&self) -> u64 {
        self.last_link.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the home can be reached.
    pub(crate) fn is_up(&self) -> bool {
        self.link().is_some_and(|link| link.connection().is_some())
    }

    fn link(&self) -> Option<Arc<PeerLink>> {
        self.links.get()?.link(self.node)
    }

    /// The open connection; what was asked over an earlier one is lost, and told by the caller.
    fn way(&self, state: &mut HomeState, lost: &mut Lost) -> Option<HomeWay> {
        let link = self.link()?;
        let number = link.connection()?;
        let way = HomeWay { link, number };
        if state.connection != Some(number) {
            *lost = state.lose();
            state.connection = Some(number);
            for frame in state.puts.kept() {
                let sent = way.send(SessionFrame::Put, |out| out.extend_from_slice(frame));
                lost.writer = sent.or_else(|| lost.writer.take());
            }
        }
        Some(way)
    }

    /// Does something over the open connection; none if there is none. The waker is called afterwards.
    fn over<T>(
        &self,
        act: impl FnOnce(&mut HomeState, &HomeWay, &mut Option<Waker>) -> T,
    ) -> Option<T> {
        let (mut lost, mut waker) = (Lost::default(), None);
        let mut state = stdx::lock(&self.state);
        let way = self.way(&mut state, &mut lost);
        let done = way.map(|way| act(&mut state, &way, &mut waker));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        lost.tell();
        done
    }

    /// Sends a command; false if the home is down.
    pub(crate) fn command(&self, command: &SessionCommand) -> bool {
        let sent = self.over(|_, way, waker| {
            // Credit passes messages on their way, which others wait for.
            let is_credit = matches!(command, SessionCommand::Credit { .. });
            let class = if is_credit { LinkClass::Urgent } else { LinkClass::Ordinary };
            *waker = way.send_in(class, SessionFrame::Command, |out| command.encode(out));
        });
        sent.is_some()
    }

    /// Asks the home, and waits for the answer; none if it is down. A consumer that is being attached gets
    /// its deliveries from now on.
    pub(crate) async fn ask(
        &self,
        request: &SessionRequest,
        consumer: Option<&Arc<RemoteConsumer>>,
    ) -> Option<SessionResponse> {
        let answer = self.over(|state, way, waker| {
            let (done, answer) = oneshot::channel();
            state.last_request += 1;
            let number = state.last_request;
            state.requests.insert(number, done);
            if let Some(consumer) = consumer {
                state.consumers.insert(consumer.number(), Arc::clone(consumer));
            }
            *waker = way.send(SessionFrame::Request, |out| request.encode(number, out));
            answer
        })?;
        answer.await.ok()
    }

    /// Forgets links that were given up, and has the home do so.
    pub(crate) fn detach(&self, links: Vec<u64>, how: queue::Return) {
        let mut state = stdx::lock(&self.state);
        for link in &links {
            state.consumers.remove(link);
        }
        drop(state);
        // A home that is down has given back what the links held.
        let _is_up = self.command(&SessionCommand::Detach { links, how });
    }

    /// Whether publishers may go on.
    pub(crate) fn has_room(&self) -> bool {
        stdx::lock(&self.state).puts.in_flight_bytes < IN_FLIGHT_BYTES_MAX
    }

    /// Whether the publishers of a queue should let its consumers have their turn now.
    pub(crate) fn slows_down(&self, queue: QueueId) -> bool {
        stdx::lock(&self.state).slowed.remove(&queue)
    }

    /// Resolves when publishers may go on.
    pub(crate) async fn room(&self) {
        loop {
            let notified = self.room.notified();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Sends messages to a queue; none if the home is down, or far behind. The token waits for those messages
    /// that no publisher waits for.
    pub(crate) fn put(
        self: &Arc<Self>,
        queue: &Arc<QueueDef>,
        publishes: &Publishes<'_, '_>,
    ) -> Option<DurabilityToken> {
        let sender = Sender { queue, is_kept: !publishes.on_consume };
        let sent = self.over(|state, way, waker| {
            if state.puts.in_flight_bytes > REFUSED_ABOVE_BYTES {
                return None;
            }
            let mut rest = &*publishes.messages;
            while !rest.is_empty() {
                rest = sender.send_some(&mut state.puts, way, rest, waker);
            }
            Some(state.puts.last())
        })??;
        let mut token = DurabilityToken::default();
        if publishes.messages.iter().any(|message| message.confirm.is_none()) {
            let journal = HomeJournal { home: Arc::clone(self), is_kept: sender.is_kept };
            token.add_journal(Arc::new(journal), sent);
        }
        Some(token)
    }

    fn begin(&self) {
        let _is_down = self.over(|_, _, _| ());
    }

    fn end(&self, connection: ConnectionNumber) {
        let mut state = stdx::lock(&self.state);
        let is_current = state.connection == Some(connection);
        let lost = if is_current { state.lose() } else { Lost::default() };
        drop(state);
        lost.tell();
        self.room.notify_waiters();
    }

    fn receive(
        &self,
        connection: ConnectionNumber,
        frame: SessionFrame,
        body: &Bytes,
    ) -> Result<(), RecordError> {
        if stdx::lock(&self.state).connection != Some(connection) {
            return Ok(());
        }
        match frame {
            SessionFrame::Answers => self.take_answers(body)?,
            SessionFrame::Response => {
                let (number, response) = SessionResponse::decode(body)?;
                let asker = stdx::lock(&self.state).requests.remove(&number);
                // The asker may have given up.
                let _has_gone = asker.map(|asker| asker.send(response).is_err());
            }
            SessionFrame::Deliver => {
                let deliveries = DeliverFrame::decode(body)?;
                match self.consumer(deliveries.link) {
                    Some(consumer) => consumer.deliver(&deliveries)?,
                    None => tracing::trace!("deliveries to a link that has gone"),
                }
            }
            SessionFrame::Event => {
                let (link, told) = LinkTold::decode(body)?;
                if let Some(consumer) = self.consumer(link) {
                    if told == LinkTold::Cancelled {
                        stdx::lock(&self.state).consumers.remove(&link);
                    }
                    consumer.told(told);
                }
            }
            SessionFrame::Put | SessionFrame::Command | SessionFrame::Request => {}
        }
        Ok(())
    }

    fn consumer(&self, link: u64) -> Option<Arc<RemoteConsumer>> {
        stdx::lock(&self.state).consumers.get(&link).cloned()
    }

    fn take_answers(&self, body: &[u8]) -> Result<(), RecordError> {
        let (taken, answers) = read_answers(body)?;
        let mut told = ToldPuts::default();
        let mut state = stdx::lock(&self.state);
        let puts = &mut state.puts;
        puts.in_flight_bytes = puts.in_flight_bytes.saturating_sub(taken.n_bytes);
        answers.into_iter().for_each(|answer| puts.answer(answer, &mut told));
        let has_room = puts.in_flight_bytes < IN_FLIGHT_BYTES_MAX;
        if state.slowed.len() < SLOWED_MAX {
            state.slowed.extend(taken.slowed);
        }
        drop(state);
        told.tell();
        if has_room {
            self.room.notify_waiters();
        }
        Ok(())
    }
}

/// The sender of messages to one queue.
struct Sender<'q> {
    queue: &'q Arc<QueueDef>,
    /// Whether frames are sent again until they are answered.
    is_kept: bool,
}

impl Sender<'_> {
    /// Sends the first messages in one frame; returns the others.
    fn send_some<'m, 'i>(
        &self,
        puts: &mut Puts,
        way: &HomeWay,
        messages: &'m [Incoming<'i>],
        waker: &mut Option<Waker>,
    ) -> &'m [Incoming<'i>] {
        let first = puts.next();
        let (mut n, mut head_bytes, mut kept) = (0, 0, None);
        let fill = |out: &mut Vec<u8>| {
            let begins = out.len();
            begin_put(out, self.queue.id, first);
            head_bytes = out.len() - begins;
            for message in messages {
                put_message(out, &message.message, message.named);
                n += 1;
                if out.len() - begins >= FRAME_BYTES {
                    break;
                }
            }
            head_bytes = out.len() - begins - head_bytes;
            if self.is_kept {
                kept = out.get(begins..).map(Bytes::copy_from_slice);
            }
        };
        *waker = way.send(SessionFrame::Put, fill).or_else(|| waker.take());
        puts.in_flight_bytes += head_bytes as u64;
        let (sent, rest) = messages.split_at_checked(n).unwrap_or((messages, &[]));
        if self.is_kept {
            puts.note_others(sent.len() as u64, kept);
        } else {
            for run in sent.chunk_by(follows) {
                self.note(puts, run);
            }
        }
        rest
    }

    /// Notes messages that follow each other on their channel, or that nobody waits for.
    fn note(&self, puts: &mut Puts, run: &[Incoming<'_>]) {
        let n = run.len() as u64;
        match run.first().and_then(|first| first.confirm) {
            Some(first) => {
                let publisher = Arc::clone(first.publisher);
                let confirm = Confirm { publisher, sequence: first.sequence };
                puts.note_confirmed(PutRun { queue: Arc::clone(self.queue), confirm, n });
            }
            None => puts.note_others(n, None),
        }
    }
}

/// Whether a message follows another on the channel of their publisher, or nobody waits for either.
fn follows(a: &Incoming<'_>, b: &Incoming<'_>) -> bool {
    match (a.confirm, b.confirm) {
        (Some(a), Some(b)) => a.sequence + 1 == b.sequence && Arc::ptr_eq(a.publisher, b.publisher),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The messages of a home that no publisher waits for, as something that becomes durable.
#[derive(Debug)]
struct HomeJournal {
    home: Arc<Home>,
    is_kept: bool,
}

impl DurableJournal for HomeJournal {
    fn wait(&self, note: u64, waiter: Box<dyn JournalSynced>) {
        let waits = stdx::lock(&self.home.state).puts.wait(note, self.is_kept, waiter);
        let tell = |(waiter, is_done): (Box<dyn JournalSynced>, bool)| {
            if is_done { waiter.synced() } else { waiter.lost() }
        };
        waits.and_then(tell).into_iter().for_each(Waker::wake);
    }

    fn is_durable(&self, note: u64) -> bool {
        stdx::lock(&self.home.state).puts.is_done(note, self.is_kept)
    }
}
