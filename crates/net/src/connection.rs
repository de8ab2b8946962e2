//! The task of one client connection: one turn reads once, has the broker work off what was read,
//! and writes what is to be written.
//!
//! ```text
//! wait (socket readable or writable, outbox, timer, interrupt) -> read -> front -> session -> flush -+
//!   ^                                                                                                |
//!   +------------------------------------------------------------------------------------------------+
//! ```

mod alarm;
mod close;
mod disconnect_log;
mod input;
mod login;
mod pace;
mod room;
mod writer;
mod written;

use crate::front::{Arrival, Front, Protocol};

use crate::server::{DISPLACED_REASON, SHUTDOWN_REASON, Server};
use crate::socket::{SocketReader, SocketWriter};
use admission::Place;
use alarm::Alarm;
use broker::{Hold, Interrupt, Session, TlsPeer, n_settles_spare};
use edge::{CloseMode, OUTBOX_HIGH_WATER_BYTES, OUTBOX_STUCK_BYTES, ReadCounts, Step, Tick};
use input::Input;
use login::Entry;
use pace::Pace;
use room::Room;
use session::{Error, ReadInput, Request};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use stdx::{MonotonicMs, Now};
use writer::Writer;
use written::Written;

/// The bytes of a read after which other tasks have their turn: those that were just given messages wait on
/// this very thread, and would see nothing of them until the client that floods pauses.
const BULK_BYTES: usize = 16 * 1024;
/// The bytes, for each connection to be woken, up to which a client that floods is read on first: if they are
/// many, each is written several messages at once instead of one after every read.
const READ_ON_BYTES_EACH: usize = 4 * 1024;
/// The most bytes for which a client is read on, some milliseconds of work; other tasks have their turn after
/// each read.
const READ_ON_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The end of a connection.
#[derive(Debug)]
enum Disconnect {
    /// The connection was closed by protocol; the socket is to be closed in this way.
    Closed(CloseMode),
    /// The client closed the socket.
    Eof,
    /// The socket failed.
    Io(io::Error),
    /// The peer sent something that is too large, or was not wanted yet.
    Dropped(&'static str),
    /// The peer is dead or does not listen: what waits for it never arrives.
    Dead(&'static str),
}

/// `HOST:PORT -> HOST:PORT`, RabbitMQ's name of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    peer: SocketAddr,
    local: SocketAddr,
    /// Whether the peer is a proxy, and does not say where its client is.
    is_client_unknown: bool,
}

impl Name {
    /// The name of a connection of a client at `peer` that connected to `local`.
    pub(crate) const fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        Self { peer, local, is_client_unknown: false }
    }

    /// Notes that the peer is a proxy, whose client may be anywhere.
    pub(crate) const fn of_unknown_client(self) -> Self {
        Self { is_client_unknown: true, ..self }
    }

    /// The client's address; no machine's address if it is not known.
    pub(crate) const fn client_ip(&self) -> IpAddr {
        if self.is_client_unknown { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { self.peer.ip() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", canonical(self.peer), canonical(self.local))
    }
}

/// IPv4 clients of an IPv6 socket are IPv4 clients.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Resolves with the reason when somebody wants the connection closed.
type NextInterrupt = Pin<Box<dyn Future<Output = Interrupt> + Send>>;

/// A connection, kept small: what happens once or seldom in its life awaits a future of its own on the heap,
/// since the task's future is as large as the largest that it may have to wait for.
struct Task {
    server: Arc<Server>,
    name: Name,
    front: Front,
    input: Input,
    requests: Vec<Request>,
    writer: Arc<Writer>,
    written: Written,
    entry: Entry,
    client: Client,
    interrupt: Option<NextInterrupt>,
    alarm: Alarm,
    pace: Pace,
}

/// The client, once a virtual host is open for it.
#[derive(Default)]
struct Client {
    /// The session, from the opening of the virtual host until the broker has let go.
    session: Option<Session>,
    /// The figures of the connection, from the opening of the virtual host on.
    stats: Option<Arc<broker::Connection>>,
    is_paused: bool,
    room: Room,
}

impl Client {
    /// Has the broker work off what the client asks for. False when it has ended the session.
    async fn submit(&mut self, input: &ReadInput<'_>, requests: &mut Vec<Request>) -> bool {
        let goes_on = match &mut self.session {
            Some(session) if !requests.is_empty() => session.submit(input, requests).await.is_ok(),
            Some(_) | None => true,
        };
        requests.clear();
        goes_on
    }

    fn count_received(&mut self, n: usize) {
        self.room.note_read(n);
        if let Some(stats) = &self.stats {
            stats.received.count(n);
        }
    }

    /// Tells listings whether the client is listened to.
    fn note_paused(&mut self, now: Now, is_paused: bool) {
        if std::mem::replace(&mut self.is_paused, is_paused) != is_paused
            && let Some(stats) = &self.stats
        {
            let until_ms = if is_paused { MonotonicMs::NEVER } else { now.monotonic_ms };
            stats.paused_until_ms.store(until_ms.get(), Ordering::Relaxed);
        }
    }

    /// Whether more is read before connections are woken that were given messages of the `n_read` bytes so
    /// far.
    fn is_read_on(&mut self, n_read: usize) -> bool {
        let n_to_wake = self.session.as_ref().map_or(0, Session::n_to_wake);
        n_read < READ_ON_BYTES_MAX.min(n_to_wake * READ_ON_BYTES_EACH) && !self.is_held()
    }

    /// Whether the connection must not be read now: it published during an alarm, or brought much while the
    /// node has more to write than it may.
    fn is_held(&mut self) -> bool {
        match self.session.as_ref().map_or(Hold::None, Session::hold) {
            Hold::None => {
                self.room.is_there();
                false
            }
            Hold::NoRoom => self.room.is_used_up(),
            Hold::Blocked => true,
        }
    }

    /// Gives back what the session holds.
    async fn let_go(&mut self) {
        // The future takes the session as it is made, and this one does not hold it as well.
        let closed = self.session.take().map(|session| Box::pin(session.close()));
        if let Some(closed) = closed {
            closed.await;
        }
    }
}

/// Whether the client is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Yes,
    /// The broker wants nothing from it for now.
    Held,
    /// The client asks for much and does not take the answers.
    Stuck,
    /// The client publishes faster than consumers take: until then.
    Slowed {
        until_ms: MonotonicMs,
    },
}

/// The reasons for a turn.
#[derive(Debug, Default)]
struct Wakeup {
    /// Bytes read; 0 at the end of the stream.
    n_read: Option<usize>,
    /// Whether input that was read before is still to be worked off.
    goes_on: bool,
    interrupted: Option<Interrupt>,
    released: bool,
}

/// A connection at its beginning.
pub(crate) struct Begun {
    pub(crate) name: Name,
    pub(crate) accepted: Now,
    pub(crate) front: Front,
    /// Another protocol that the client may say it speaks.
    pub(crate) other: Option<Protocol>,
    /// The connection's encryption, if there is any.
    pub(crate) tls: Option<Arc<TlsPeer>>,
}

/// Serves a connection until it is over. The time of its handshake runs since `accepted`.
pub(crate) fn serve(
    socket: (SocketReader, SocketWriter),
    begun: Begun,
    handshake: Place,
    server: &Arc<Server>,
) -> impl Future<Output = ()> + Send {
    tracing::debug!(connection = %begun.name, "accepted");
    // Made here, so that the future has its address alone.
    serve_task(Box::new(Task::new(socket, begun, handshake, Arc::clone(server))), server)
}

async fn serve_task(mut task: Box<Task>, server: &Arc<Server>) {
    let disconnect = catch_panics(pin!(task.run())).await;
    disconnect_log::log_end(&task, disconnect.as_ref());
    // Consumers, unsettled messages and exclusive queues are given back before the socket is closed.
    task.client.let_go().await;
    let network = auth::network(task.name.client_ip());
    let (socket, handshake) = socket_of(task);
    match disconnect {
        Some(Disconnect::Closed(close_mode)) => {
            close::close(socket, close_mode, handshake, network, server).await
        }
        // A client that still listens finds the end of the stream; nothing is kept for one that does not.
        Some(Disconnect::Dead(_)) => {
            let _already_closed = socket.shut_down().is_err();
            let _is_gone = socket.reset().is_err();
        }
        Some(Disconnect::Eof | Disconnect::Io(_) | Disconnect::Dropped(_)) | None => {}
    }
}

/// The socket's reading half and the place of its handshake: all that outlives the rest of the
/// connection.
fn socket_of(task: Box<Task>) -> (SocketReader, Option<Place>) {
    let Task { input, entry, .. } = *task;
    (input.into_socket(), entry.into_place())
}

/// Runs a future; `None` when it panics: what the connection holds is given back all the same.
async fn catch_panics<F: Future<Output = Disconnect>>(
    mut future: Pin<&mut F>,
) -> Option<Disconnect> {
    poll_fn(move |cx| {
        // State that a panic leaves behind is only dropped.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_panic) => Poll::Ready(None),
        }
    })
    .await
}

/// Counts what the client asks for.
fn count(requests: &[Request], counts: &mut ReadCounts) {
    for request in requests {
        match request {
            Request::Publish(_) => counts.n_publishes += 1,
            Request::Settle(_) => counts.n_settles += 1,
            Request::Append(_) | Request::Credit(_) | Request::Flow(_) | Request::Control(_) => {
                counts.is_other = true;
            }
        }
    }
}

/// Goes on in the other protocol of the port, which the client has said it speaks. Nothing was written, and
/// nobody else has the outbox.
fn hand_over(task: &mut Task, now: Now) -> Result<(), Disconnect> {
    const FAILED: Disconnect = Disconnect::Dropped("the protocol is not served here");
    let protocol = task.entry.take_other().ok_or(FAILED)?;
    let cluster_name = task.server.broker.view().meta.global_parameters().cluster_name();
    let accepted = Now { monotonic_ms: task.entry.accepted_ms, ..now };
    let port = task.name.local.port();
    task.front = protocol.front(Arrival { port, cluster_name, accepted, has_other: false });
    let outbox = task.front.outbox();
    let before = std::mem::replace(&mut task.writer, Writer::new(None, Arc::clone(&outbox)));
    let to_peer = before.into_socket().ok_or(FAILED)?;
    task.writer = Writer::new(Some(to_peer), outbox);
    Ok(())
}

impl Task {
    fn new(
        (from_peer, to_peer): (SocketReader, SocketWriter),
        Begun { name, accepted, front, other, tls }: Begun,
        handshake: Place,
        server: Arc<Server>,
    ) -> Self {
        let (mut stopping, displaced) = (server.stopping.subscribe(), handshake.lost());
        let interrupt: NextInterrupt = Box::pin(async move {
            let reason = tokio::select! {
                // The sender lives as long as the server.
                _ended = stopping.wait_for(|stopping| *stopping) => SHUTDOWN_REASON,
                () = displaced.notified() => DISPLACED_REASON,
            };
            Interrupt::Close(reason.to_owned())
        });
        Self {
            writer: Writer::new(Some(to_peer), front.outbox()),
            front,
            name,
            input: Input::new(from_peer),
            requests: Vec::new(),
            written: Written::default(),
            entry: Entry::new(handshake, accepted, other, tls),
            client: Client::default(),
            interrupt: Some(interrupt),
            alarm: Alarm::new(&server, accepted),
            pace: Pace::new(accepted),
            server,
        }
    }

    async fn run(&mut self) -> Disconnect {
        loop {
            // The outbox is locked once for all that is asked of it.
            let n_pending = self.writer.outbox.n_pending();
            if let Err(disconnect) = self.note_held(n_pending).await {
                return disconnect;
            }
            let read_state = self.read_state(n_pending);
            if let Err(disconnect) = self.keep_time(read_state) {
                return disconnect;
            }
            let wakeup = match self.wait(read_state).await {
                Ok(wakeup) => wakeup,
                Err(error) => return Disconnect::Io(error),
            };
            let is_bulk = wakeup.n_read.is_some_and(|n| n >= BULK_BYTES);
            if let Err(disconnect) = self.turn(wakeup).await {
                return disconnect;
            }
            if is_bulk || self.written.gives_way() {
                tokio::task::yield_now().await;
            } else {
                tokio::task::coop::consume_budget().await;
            }
        }
    }

    fn read_state(&mut self, n_pending: usize) -> ReadState {
        let slowed_until_ms = self.pace.slowed_until_ms(|| self.server.clock.now());
        if self.client.is_held() {
            ReadState::Held
        } else if n_pending >= OUTBOX_STUCK_BYTES && self.writer.is_behind() {
            ReadState::Stuck
        } else if let Some(until_ms) = slowed_until_ms {
            ReadState::Slowed { until_ms }
        } else {
            ReadState::Yes
        }
    }

    async fn turn(&mut self, wakeup: Wakeup) -> Result<(), Disconnect> {
        if let Some(interrupt) = wakeup.interrupted {
            Box::pin(self.interrupted(interrupt)).await?;
        }
        if wakeup.released {
            Box::pin(self.release_hold()).await;
        }
        match wakeup.n_read {
            Some(0) => return Err(Disconnect::Eof),
            Some(n) => {
                self.entry.heard();
                self.work_off_and_commit(n).await?;
            }
            None if wakeup.goes_on => self.work_off_and_commit(0).await?,
            None => {}
        }
        self.flush()?;
        if let Some(error) = self.written.take_refused() {
            Box::pin(self.fail(*error)).await;
            self.flush()?;
        }
        Ok(())
    }

    /// Works off the `n_read` bytes that were read, or what was left of earlier ones if that is 0.
    async fn work_off_and_commit(&mut self, n_read: usize) -> Result<(), Disconnect> {
        self.client.count_received(n_read);
        let mut worked_off = self.work_off(n_read).await;
        let (mut n_all, mut n) = (n_read, n_read);
        while worked_off.is_ok()
            && n >= BULK_BYTES
            && !self.input.is_left()
            && self.client.is_read_on(n_all)
        {
            tokio::task::yield_now().await;
            n = match poll_fn(|cx| Poll::Ready(self.input.poll_read(cx))).await {
                // An end or an error is met again by the next read.
                Poll::Pending | Poll::Ready(Ok(0) | Err(_)) => break,
                Poll::Ready(Ok(n)) => n,
            };
            n_all += n;
            self.client.count_received(n);
            worked_off = self.work_off(n).await;
        }
        self.wake_others();
        self.commit(if n_read == 0 { BULK_BYTES } else { n_all });
        worked_off
    }

    fn wake_others(&mut self) {
        let Some(session) = &mut self.client.session else { return };
        if session.wake() {
            self.pace.slow_down(self.server.clock.now());
        }
    }

    /// Tells the broker what the client has this node keep for it, `n_pending` bytes of answers among it: the
    /// client fails if that is too much. What an outbox may hold at any time is not of the client's doing.
    async fn note_held(&mut self, n_pending: usize) -> Result<(), Disconnect> {
        let Some(session) = &self.client.session else { return Ok(()) };
        let unread_bytes = if n_pending < OUTBOX_HIGH_WATER_BYTES { 0 } else { n_pending as u64 };
        let Err(error) = session.note_held(self.front.unfinished_bytes() + unread_bytes) else {
            return Ok(());
        };
        Box::pin(self.fail(error)).await;
        self.flush()
    }

    /// Has the broker end the connection for what the client holds or cannot be sent.
    async fn fail(&mut self, error: Error) {
        if let Some(session) = &mut self.client.session {
            session.obey(Interrupt::Fail(error)).await;
            self.let_go().await;
        }
    }

    /// Sleeps until there is something to do.
    async fn wait(&mut self, read_state: ReadState) -> io::Result<Wakeup> {
        let Self {
            client: Client { session, .. }, writer, input, interrupt, alarm, server, ..
        } = self;
        let is_held = read_state == ReadState::Held;
        let mut released = pin!(async {
            match session {
                Some(session) if is_held => session.released().await,
                Some(_) | None => std::future::pending().await,
            }
        });
        poll_fn(|cx| {
            let mut wakeup = Wakeup::default();
            let mut is_ready = writer.poll_ready(cx).is_ready();
            if read_state == ReadState::Yes && input.take_left() {
                wakeup.goes_on = true;
                is_ready = true;
            } else if read_state == ReadState::Yes
                && let Poll::Ready(result) = input.poll(cx, server, writer.take_read_due())
            {
                match result {
                    Ok(n) => wakeup.n_read = Some(n),
                    Err(error) => return Poll::Ready(Err(error)),
                }
                is_ready = true;
            } else if read_state != ReadState::Yes {
                input.hold_gathered();
            }
            if let Some(future) = interrupt
                && let Poll::Ready(reason) = future.as_mut().poll(cx)
            {
                *interrupt = None;
                wakeup.interrupted = Some(reason);
                is_ready = true;
            }
            if is_held && released.as_mut().poll(cx).is_ready() {
                wakeup.released = true;
                is_ready = true;
            }
            is_ready |= alarm.poll(cx).is_ready();
            if is_ready { Poll::Ready(Ok(wakeup)) } else { Poll::Pending }
        })
        .await
    }

    /// Does what is due, and sets the alarm clock for what is due next.
    fn keep_time(&mut self, read_state: ReadState) -> Result<(), Disconnect> {
        let now = self.server.clock.now();
        self.front.set_reading(now, read_state == ReadState::Yes);
        self.client.note_paused(now, read_state != ReadState::Yes);
        let stuck_until_ms = self.pace.stuck_until_ms(now, read_state == ReadState::Stuck);
        if stuck_until_ms <= now.monotonic_ms {
            return Err(Disconnect::Dead("the client does not read responses"));
        }
        if self.pace.is_idle() && self.writer.has_written() {
            self.pace.set_idle(false);
            self.front.wrote(now);
        }
        let next = match self.front.tick(now) {
            Tick::Next(next) => next,
            Tick::Idle(next) => {
                self.pace.set_idle(!self.writer.forget_written());
                if self.pace.is_idle() {
                    self.give_back_memory();
                    next
                } else {
                    self.front.wrote(now);
                    Some(now.monotonic_ms)
                }
            }
            Tick::Dead(reason) => return Err(Disconnect::Dead(reason)),
        };
        let next = next.unwrap_or(MonotonicMs::NEVER).min(match read_state {
            ReadState::Stuck => stuck_until_ms,
            ReadState::Slowed { until_ms } => until_ms,
            ReadState::Yes | ReadState::Held => MonotonicMs::NEVER,
        });
        self.alarm.set(&self.server.clock, now, next);
        Ok(())
    }

    fn give_back_memory(&mut self) {
        self.input.trim();
        self.writer.trim();
        self.requests = Vec::new();
        self.written.trim();
    }

    /// Has the broker work off everything in the input that is whole, or what the client asks for until
    /// too many answers wait to be written: the rest is left until they are.
    async fn work_off(&mut self, n_read: usize) -> Result<(), Disconnect> {
        let now = self.server.clock.now();
        let mut at = 0;
        let mut acknowledges = true;
        let mut counts = ReadCounts { n_bytes: n_read, ..ReadCounts::default() };
        let wanted = loop {
            let input = self.input.bytes().get(at..).unwrap_or_default();
            let progress = self.front.read(now, input, &mut self.requests);
            acknowledges &= matches!(self.requests.first(), None | Some(Request::Settle(_)));
            count(&self.requests, &mut counts);
            let input = ReadInput { bytes: input, scratch: self.front.scratch() };
            if !self.client.submit(&input, &mut self.requests).await {
                self.let_go().await;
            }
            at += progress.consumed;
            match progress.step {
                Step::Again if self.writer.outbox.n_pending() >= OUTBOX_STUCK_BYTES => {
                    self.input.leave();
                    break progress.wanted;
                }
                Step::Again => {}
                Step::Authenticate(login) => Box::pin(self.authenticate(*login)).await?,
                Step::Open { vhost } => self.open(vhost),
                Step::SpeaksOther => hand_over(self, now)?,
                Step::More | Step::Close => break progress.wanted,
            }
        };
        self.record_activity(now, acknowledges);
        if n_read > 0
            && let Some(session) = &self.client.session
        {
            self.input.note_read(now, counts, || n_settles_spare(session));
            self.writer.wake_to_read_after(self.input.n_writes_to_read());
        }
        self.input
            .consume(at, wanted)
            .map_err(|input::TooLarge| Disconnect::Dropped("a frame is too large"))
    }

    /// The node has room again, or its alarms have cleared: what was kept is worked off.
    async fn release_hold(&mut self) {
        let Some(session) = &mut self.client.session else { return };
        let released = session.release_hold().await;
        // Input that was left is looked at, although the client sends nothing: it may go on by now.
        self.input.leave();
        self.wake_others();
        self.commit(BULK_BYTES);
        if released.is_err() {
            self.let_go().await;
        }
    }

    /// Lets other clients know of this one, unless it does no more than acknowledge what they publish.
    fn record_activity(&mut self, now: Now, acknowledges: bool) {
        if self.writer.take_written_inline() {
            self.pace.was_given(now);
        }
        let answers = acknowledges && self.pace.answers(now);
        if !answers && let Some(stats) = &self.client.stats {
            self.server.activity.record(stats.id.0, now.monotonic_ms);
        }
    }

    /// Commits a single publish that waits for the disk by this very thread if its client has the node to
    /// itself: a client that comes meanwhile waits for the sync, or for the next tick of the node's clock.
    /// Beside others the log's thread commits, for as many of them as wait.
    fn commit(&mut self, n_read: usize) {
        if !self.client.session.as_ref().is_some_and(Session::commits_here) {
            return;
        }
        let now_ms = self.server.clock.now().monotonic_ms;
        let id = self.client.stats.as_ref().map(|stats| stats.id.0);
        // A consumer that was given so much that its own task has to write it would wait as well.
        let is_only_active_client = n_read < BULK_BYTES
            && id.is_some_and(|id| self.server.activity.is_only_active_client(id, now_ms));
        if let Some(session) = &mut self.client.session {
            session.commit(is_only_active_client);
        }
    }

    /// The broker has ended the session: what it holds is given back, the client is still told.
    async fn let_go(&mut self) {
        self.interrupt = None;
        self.client.let_go().await;
        // The front learns of the end, and gives the client its time to answer.
        self.front.read(self.server.clock.now(), &[], &mut self.requests);
        self.requests.clear();
    }

    async fn interrupted(&mut self, interrupt: Interrupt) -> Result<(), Disconnect> {
        let Some(session) = &mut self.client.session else {
            let is_stopping = *self.server.stopping.borrow();
            return Err(Disconnect::Dropped(if is_stopping {
                "shutdown"
            } else {
                DISPLACED_REASON
            }));
        };
        if session.obey(interrupt).await {
            self.listen_for_interrupts();
        } else {
            self.let_go().await;
        }
        Ok(())
    }

    /// Writes what can be written without waiting.
    fn flush(&mut self) -> Result<(), Disconnect> {
        self.written.flush(&self.writer, &mut self.client.session)
    }
}
