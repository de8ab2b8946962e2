//! The task that serves one connection: read, decode, submit, write, in that order, over and over.

use crate::input::Input;
use crate::server::{Server, told_to_stop};
use auth::Credentials;
use broker::{Identity, Session};
use front_amqp091::{
    AuthFailure, ClientOutbox, Connection, Ending, Login, Mechanism, Step, Tick, WriteBatch,
};
use session::{Error, ErrorKind, LinkId, Outbox, Request};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Slices given to one write.
const SLICES_MAX: usize = 64;
/// What clients are told when the node stops.
const STOP_REASON: &str = "broker forced connection closure with reason 'shutdown'";

/// Serves a connection until it ends.
pub(crate) async fn run(server: &Arc<Server>, stream: TcpStream, peer: SocketAddr, over: bool) {
    if over {
        tracing::warn!(%peer, "connection refused: node connection limit is reached");
        return;
    }
    if server.settings.nodelay
        && let Err(error) = stream.set_nodelay(true)
    {
        tracing::debug!(%peer, "cannot set TCP_NODELAY: {error}");
    }
    let front = Connection::new(Arc::clone(&server.front), server.clock.now());
    let outbox = front.outbox();
    let mut task = Task {
        server: Arc::clone(server),
        stream,
        peer,
        front,
        outbox,
        session: None,
        login: None,
        input: Input::new(),
        requests: Vec::new(),
        batch: WriteBatch::default(),
        refusal: None,
    };
    let ended = task.serve().await;
    task.finish(ended).await;
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// All was said; close as told.
    Said(Ending),
    /// The peer went away.
    Gone,
    /// The socket failed.
    Failed(io::Error),
    /// The peer is dead or too slow.
    Dead(&'static str),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// What a connection waits for.
enum Event {
    Readable,
    /// There is something to write, or the socket takes more.
    Output,
    Timer,
    Kicked(String),
    Released,
    Stopping,
}

struct Task {
    server: Arc<Server>,
    stream: TcpStream,
    peer: SocketAddr,
    front: Connection,
    outbox: Arc<ClientOutbox>,
    session: Option<Box<Session>>,
    /// Who logged in, until the virtual host is opened.
    login: Option<Box<Identity>>,
    input: Input,
    requests: Vec<Request>,
    batch: WriteBatch,
    /// Why the login was refused, for the log.
    refusal: Option<String>,
}

impl Task {
    async fn serve(&mut self) -> End {
        match self.serve_until_end().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn serve_until_end(&mut self) -> Result<std::convert::Infallible, End> {
        let mut stopping = self.server.stopping.subscribe();
        let mut deadline = self.tick()?;
        loop {
            self.write()?;
            if self.batch.is_written()
                && let Some(ending) = self.batch.ending()
            {
                return Err(End::Said(ending));
            }
            match self.next_event(deadline, &mut stopping).await? {
                Event::Readable => self.read().await?,
                Event::Output => {}
                Event::Timer => deadline = self.tick()?,
                Event::Released => self.release(),
                Event::Kicked(reason) => self.force_close(&reason).await,
                Event::Stopping => self.force_close(STOP_REASON).await,
            }
        }
    }

    /// Sleeps until something is to be done.
    async fn next_event(
        &mut self,
        deadline: Option<u64>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<Event, End> {
        let Self { server, stream, outbox, batch, session, front, .. } = self;
        let all_written = batch.is_written();
        let held = session.as_ref().is_some_and(|session| session.is_held());
        let reading = !held && all_written;
        front.set_reading(server.clock.now(), !held);
        let may_stop = session.is_some();
        let output = async {
            if all_written {
                std::future::poll_fn(|cx| outbox.poll_take(cx, batch)).await;
                Ok(())
            } else {
                stream.writable().await
            }
        };
        let timer = async {
            match deadline {
                Some(ms) => tokio::time::sleep_until(server.clock.instant(ms)).await,
                None => std::future::pending().await,
            }
        };
        let session = session.as_deref();
        tokio::select! {
            biased;
            done = output => done.map(|()| Event::Output).map_err(End::Failed),
            ready = stream.readable(), if reading => {
                ready.map(|()| Event::Readable).map_err(End::Failed)
            }
            () = released(session), if held => Ok(Event::Released),
            reason = kicked(session) => Ok(Event::Kicked(reason)),
            () = timer => Ok(Event::Timer),
            () = told_to_stop(stopping), if may_stop => Ok(Event::Stopping),
        }
    }

    /// Writes what waits, as far as the socket takes it.
    fn write(&mut self) -> Result<(), End> {
        loop {
            if self.batch.is_written() {
                self.resume();
                if self.batch.ending().is_some() || !self.outbox.try_take(&mut self.batch) {
                    return Ok(());
                }
                self.resume();
                continue;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let n_slices = self.batch.fill(&mut slices);
            let slices = slices.get(..n_slices).unwrap_or_default();
            match self.stream.try_write_vectored(slices) {
                Ok(n) => {
                    self.batch.advance(n);
                    self.front.wrote(self.server.clock.now());
                    self.count_sent(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(End::Failed(error)),
            }
        }
    }

    /// Asks for more deliveries on links that found no room before.
    fn resume(&mut self) {
        let links = self.batch.resume();
        if links.is_empty() {
            return;
        }
        let links: Vec<LinkId> = std::mem::take(links);
        if let Some(session) = &self.session {
            session.resume(&links);
        }
    }

    async fn read(&mut self) -> Result<(), End> {
        let Self { input, stream, server, .. } = self;
        let read = input.fill(&server.buffers, |buffer| stream.try_read_buf(buffer));
        match read {
            Ok(0) => return Err(End::Gone),
            Ok(n) => self.count_received(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(End::Failed(error)),
        }
        if !self.input.is_short() {
            self.work_off().await;
        }
        self.input.put_away(&self.server.buffers);
        Ok(())
    }

    /// Decodes and works off what was read.
    async fn work_off(&mut self) {
        loop {
            let now = self.server.clock.now();
            let progress = self.front.read(now, self.input.bytes(), &mut self.requests);
            self.submit().await;
            self.input.consume(progress.consumed, progress.wanted);
            match progress.step {
                Step::More | Step::Close => return,
                Step::Again => {}
                Step::Authenticate(login) => Box::pin(self.authenticate(*login)).await,
                Step::Open { vhost } => self.open(vhost),
            }
        }
    }

    async fn submit(&mut self) {
        match &mut self.session {
            Some(session) => {
                // What the client is told at the end, and that it is the end, is in the outbox.
                let _stopped =
                    session.submit(self.input.bytes(), &mut self.requests).await.is_err();
            }
            None => self.requests.clear(),
        }
    }

    async fn authenticate(&mut self, login: Login) {
        let credentials = match login.mechanism {
            Mechanism::Plain | Mechanism::AmqPlain => {
                Credentials::Password { username: login.user.as_bytes(), password: &login.password }
            }
            Mechanism::Anonymous => Credentials::Anonymous,
        };
        let view = self.server.broker.view();
        let ip = self.peer.ip().to_canonical();
        let result = match self.server.auth.login(credentials, Some(ip), &view.meta).await {
            Ok(user) => {
                self.login = Some(Box::new(self.identity(&login, user.name.as_str())));
                Ok(())
            }
            Err(refused) => {
                self.refusal = Some(refused.to_string());
                Err(AuthFailure::Refused)
            }
        };
        self.front.authenticated(result);
    }

    fn identity(&self, login: &Login, user: &str) -> Identity {
        let local = self.stream.local_addr().unwrap_or(self.peer);
        let (peer, host) = (self.peer.ip().to_canonical(), local.ip().to_canonical());
        Identity {
            user: user.to_owned(),
            vhost: String::new(),
            name: format!("{peer}:{} -> {host}:{}", self.peer.port(), local.port()),
            peer_host: peer.to_string(),
            peer_port: self.peer.port(),
            host: host.to_string(),
            port: local.port(),
            protocol: "{0,9,1}",
            auth_mechanism: login.mechanism.name().to_owned(),
            client_properties: login.client_properties.clone(),
            connected_at_ms: self.server.clock.now().unix_ms,
            ..Identity::default()
        }
    }

    fn open(&mut self, vhost: String) {
        let opened = self.open_session(vhost);
        if let Err(error) = &opened {
            self.refusal = Some(error.to_string());
        }
        self.front.opened(self.server.clock.now(), opened);
    }

    fn open_session(&mut self, vhost: String) -> Result<(), Error> {
        let Some(identity) = self.login.take() else {
            return Err(Error::new(ErrorKind::InternalError, "opened without a login"));
        };
        let negotiated = self.front.negotiated();
        let identity = Identity {
            vhost,
            heartbeat_s: negotiated.heartbeat_s,
            frame_max: negotiated.frame_max,
            channel_max: negotiated.channel_max,
            ..*identity
        };
        let outbox: Arc<dyn Outbox> = Arc::<ClientOutbox>::clone(&self.outbox);
        let broker = Arc::clone(&self.server.broker);
        let session = Session::open(broker, identity, outbox)?;
        let identity = &session.connection().identity;
        tracing::info!(
            "connection {}: user '{}' authenticated and granted access to vhost '{}'",
            identity.name,
            identity.user,
            identity.vhost
        );
        self.session = Some(Box::new(session));
        Ok(())
    }

    fn tick(&mut self) -> Result<Option<u64>, End> {
        match self.front.tick(self.server.clock.now()) {
            Tick::Next(next) => Ok(next),
            Tick::Idle(next) => {
                self.batch.trim();
                self.requests = Vec::new();
                Ok(next)
            }
            Tick::Dead(reason) => Err(End::Dead(reason)),
        }
    }

    fn release(&mut self) {
        if let Some(session) = &mut self.session {
            session.release_hold();
        }
    }

    async fn force_close(&mut self, reason: &str) {
        if let Some(session) = &mut self.session {
            session.force_close(reason).await;
        }
    }

    fn count_received(&self, n: usize) {
        if let Some(session) = &self.session {
            session.connection().received_bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
    }

    fn count_sent(&self, n: usize) {
        if let Some(session) = &self.session {
            session.connection().sent_bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
    }

    /// Gives everything back and closes the socket as it should be.
    async fn finish(mut self, end: End) {
        let name = self.session.as_ref().map(|one| one.connection().identity.name.clone());
        let name = name.unwrap_or_else(|| self.peer.to_string());
        self.log_end(&name, &end);
        if let Some(session) = self.session.take() {
            session.close().await;
        }
        match end {
            End::Said(Ending::Linger(ms)) => {
                let linger = linger(&mut self.stream);
                drop(tokio::time::timeout(Duration::from_millis(ms), linger).await);
            }
            End::Said(Ending::Hold(ms)) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            End::Gone | End::Failed(_) | End::Dead(_) => {}
        }
    }

    fn log_end(&self, name: &str, end: &End) {
        let known = self.session.is_some();
        match (end, self.refusal.as_deref().or_else(|| self.front.failure())) {
            (End::Dead(reason), _) => tracing::warn!("connection {name}: {reason}"),
            (_, Some(why)) => tracing::warn!("connection {name} refused: {why}"),
            (End::Said(_), None) => tracing::info!("closing connection {name}"),
            (End::Gone, None) if known => {
                tracing::warn!("connection {name}: client unexpectedly closed TCP connection");
            }
            (End::Failed(error), None) if known => tracing::warn!("connection {name}: {error}"),
            (End::Gone | End::Failed(_), None) => {
                tracing::debug!("connection {name} ended before its handshake");
            }
        }
    }
}

async fn kicked(session: Option<&Session>) -> String {
    match session {
        Some(session) => session.connection().kicked().await,
        None => std::future::pending().await,
    }
}

async fn released(session: Option<&Session>) {
    match session {
        Some(session) => session.released().await,
        None => std::future::pending().await,
    }
}

/// Half-closes, and drops what the peer still sends until it closes too.
async fn linger(stream: &mut TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut dropped = Vec::with_capacity(4 * 1024);
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        dropped.clear();
        match stream.try_read_buf(&mut dropped) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
