//! From a login to a session.

use super::{Disconnect, Task, canonical};
use crate::front::{Front, Protocol};
use crate::server::Server;
use admission::Place;
use auth::{Attempt, AuthenticatedUser, Credentials, NoName, Refused};
use broker::{Identity, Interrupt, Session, TlsPeer};
use edge::{AuthFailure, Login, Mechanism, Proof, TaskOutbox};
use session::{Error, ErrorKind, Table};
use std::sync::Arc;
use std::time::Duration;
use stdx::{MonotonicMs, Now};

/// The user that logged in, and the mechanism.
struct LoggedIn {
    user: String,
    mechanism: &'static str,
    client_properties: Table,
}

/// The way of a client into the node, from its acceptance to a virtual host.
pub(super) struct Entry {
    /// Monotonic milliseconds.
    pub(super) accepted_ms: MonotonicMs,
    /// The place among those that have not opened a virtual host yet.
    handshake: Option<Place>,
    /// The user that logged in, until the session is opened; apart, so that none takes no memory.
    logged_in: Option<Box<LoggedIn>>,
    /// The reason why the login was refused: the log is told more than the client.
    refusal: Option<String>,
    /// Another protocol that the client may say it speaks.
    other: Option<Protocol>,
    /// The encryption of the connection, if there is any.
    tls: Option<Arc<TlsPeer>>,
}

impl Entry {
    pub(super) fn new(
        handshake: Place,
        now: Now,
        other: Option<Protocol>,
        tls: Option<Arc<TlsPeer>>,
    ) -> Self {
        Self {
            accepted_ms: now.monotonic_ms,
            handshake: Some(handshake),
            logged_in: None,
            refusal: None,
            other,
            tls,
        }
    }

    /// The client has sent something.
    pub(super) fn heard(&self) {
        self.handshake.as_ref().inspect(|place| place.heard());
    }

    /// Takes the other protocol of the port.
    pub(super) const fn take_other(&mut self) -> Option<Protocol> {
        self.other.take()
    }

    /// The reason why the login was refused.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn name_in_certificate(&self) -> Result<&str, NoName> {
        let tls = self.tls.as_ref().ok_or(NoName::NoTls)?;
        let certificate = tls.certificate.as_ref().ok_or(NoName::NoCertificate)?;
        certificate.user.as_deref().ok_or(NoName::NotFound)
    }

    /// The place, unless it was given up for a virtual host.
    pub(super) fn into_place(self) -> Option<Place> {
        self.handshake
    }
}

impl Task {
    pub(super) async fn authenticate(&mut self, login: Login) -> Result<(), Disconnect> {
        let result = self.check(&login).await?;
        self.server.strangers.throttle.count(Attempt {
            protocol: self.front.kind().row().counted_as,
            peer: self.name.client_ip(),
            user: login.user.as_bytes(),
            is_accepted: result.is_ok(),
        });
        let refused = result.as_ref().err().map(ToString::to_string);
        let connection = self.name.to_string();
        let (events, protocol) = (self.server.broker.events(), self.front.kind().row().told_as);
        events.login(&login.user, &connection, protocol, refused.as_deref());
        let result = match (result, &mut self.client.session) {
            (Ok(_), Some(session)) => session.renew_login().map_err(AuthFailure::Error),
            (Ok(user), None) => {
                self.entry.logged_in = Some(Box::new(LoggedIn {
                    user: user.name.to_string(),
                    mechanism: login.mechanism,
                    client_properties: login.client_properties,
                }));
                Ok(())
            }
            (Err(refused), _) => {
                let mechanism = login.mechanism;
                self.entry.refusal = Some(format!("{mechanism} login refused: {refused}"));
                let is_malformed = refused == Refused::Malformed;
                Err(if is_malformed { AuthFailure::Malformed } else { AuthFailure::Refused })
            }
        };
        self.front.authenticated(self.server.clock.now(), result);
        if let Some(session) = &mut self.client.session {
            // The client is told behind the answer of what it has lost.
            session.obey(Interrupt::ReviewRights).await;
        }
        Ok(())
    }

    /// Looks at a login in its turn: guesses have to wait. A login without a password guesses nothing.
    async fn check(
        &mut self,
        login: &Login,
    ) -> Result<Result<AuthenticatedUser, Refused>, Disconnect> {
        let (peer, user) = (self.name.client_ip(), login.user.as_bytes());
        let credentials = match &login.proof {
            Proof::Malformed => return Ok(Err(Refused::Malformed)),
            Proof::Nothing => {
                let view = self.server.broker.view();
                let is_external = login.mechanism == Mechanism::External.as_str();
                let credentials = if is_external {
                    Credentials::Certificate(self.entry.name_in_certificate())
                } else {
                    Credentials::Anonymous
                };
                return Ok(self.server.auth.login(credentials, Some(peer), &view.meta).await);
            }
            Proof::Password(password) => Credentials::Password { username: user, password },
        };
        let server = Arc::clone(&self.server);
        let view = server.broker.view();
        let task = &mut *self;
        server
            .strangers
            .throttle
            .in_turn(
                (peer, user),
                || server.clock.now().monotonic_ms,
                move |wait_ms| task.pause(wait_ms),
                server.auth.login(credentials, Some(peer), &view.meta),
            )
            .await
    }

    /// Waits, unless the connection has to end.
    async fn pause(&mut self, ms: u64) -> Result<(), Disconnect> {
        let disconnect = self.server.timers.sleep(Duration::from_millis(ms));
        let Some(interrupt) = &mut self.interrupt else {
            disconnect.await;
            return Ok(());
        };
        let reason = tokio::select! {
            () = disconnect => return Ok(()),
            reason = interrupt => reason,
        };
        self.interrupt = None;
        self.interrupted(reason).await
    }

    pub(super) fn open(&mut self, vhost: String) {
        let now = self.server.clock.now();
        let result = self.open_session(vhost);
        self.front.opened(now, result);
    }

    /// Has the task woken when the broker wants something of the connection.
    pub(super) fn listen_for_interrupts(&mut self) {
        if let Some(connection) = self.client.stats.clone() {
            self.interrupt = Some(Box::pin(async move { connection.kicked().await }));
        }
    }

    fn open_session(&mut self, vhost: String) -> Result<(), Error> {
        let broker = Arc::clone(&self.server.broker);
        check_limits(&self.server, &self.front)?;
        let Some(logged_in) = self.entry.logged_in.take() else {
            return Err(Error::new(ErrorKind::InternalError, "not authenticated"));
        };
        let identity = self.identity(*logged_in, vhost);
        let (user, vhost) = (identity.user.clone(), identity.vhost.clone());
        let session =
            Session::open(broker, identity, Arc::<dyn TaskOutbox>::clone(&self.writer.outbox))?;
        self.entry.handshake = None;
        tracing::info!(
            connection = %self.name,
            "user '{user}' authenticated and granted access to vhost '{vhost}'"
        );
        let connection = Arc::clone(session.connection());
        self.client.stats = Some(Arc::clone(&connection));
        self.writer.count(Arc::clone(&connection));
        self.client.session = Some(session);
        if *self.server.stopping.borrow() {
            connection.kick(crate::server::SHUTDOWN_REASON);
        }
        self.listen_for_interrupts();
        Ok(())
    }

    fn identity(&self, logged_in: LoggedIn, vhost: String) -> Identity {
        let (peer, local) = (canonical(self.name.peer), canonical(self.name.local));
        Identity {
            user: logged_in.user,
            vhost,
            name: self.name.to_string(),
            peer_host: peer.ip().to_string(),
            peer_port: peer.port(),
            host: local.ip().to_string(),
            port: local.port(),
            protocol: self.front.kind(),
            login: broker::Login {
                container: self.front.container().map(Box::new),
                mechanism: logged_in.mechanism,
                tls: self.entry.tls.clone(),
            },
            negotiated: self.front.negotiated(),
            client_properties: self
                .front
                .client_properties()
                .unwrap_or(logged_in.client_properties),
            connected_at_ms: self.server.clock.now().unix_ms.get(),
        }
    }
}

/// The limits of the node and of the protocol.
fn check_limits(server: &Server, front: &Front) -> Result<(), Error> {
    let connections = &server.broker.connections;
    let is_reached = |limit: u64, n: usize| u64::try_from(n).is_ok_and(|n| n >= limit);
    let of_node = server.settings.max_connections;
    let of_node = of_node.filter(|limit| is_reached(*limit, connections.len()));
    let of_protocol =
        front.max_connections().filter(|limit| is_reached(*limit, connections.n_of(front.kind())));
    let Some(limit) = of_node.or(of_protocol) else { return Ok(()) };
    let text = format!("connection refused: node connection limit ({limit}) is reached");
    Err(Error::new(ErrorKind::LimitReached, text))
}
