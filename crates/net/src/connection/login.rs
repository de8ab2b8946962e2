//! From a login to a session.

use super::{Disconnect, Task, canonical};
use crate::server::{Server, Strangers};
use auth::{Admission, AuthenticatedUser, Credentials, Refused};
use broker::{Identity, Session};
use front_amqp091::{AuthFailure, Login, Mechanism};
use session::{Error, ErrorKind, Outbox, Table};
use std::sync::Arc;
use std::time::Duration;

/// The user that logged in, and the mechanism.
pub(super) struct LoggedIn {
    user: String,
    mechanism: Mechanism,
    client_properties: Table,
}

impl Task {
    pub(super) async fn authenticate(&mut self, login: Login) -> Result<(), Disconnect> {
        let result = self.check(&login).await?;
        let refused = result.as_ref().err().map(ToString::to_string);
        let connection = self.name.to_string();
        self.server.broker.tell_login(&login.user, &connection, refused.as_deref());
        let result = match result {
            Ok(user) => {
                self.logged_in = Some(LoggedIn {
                    user: user.name.to_string(),
                    mechanism: login.mechanism,
                    client_properties: login.client_properties,
                });
                Ok(())
            }
            Err(refused) => {
                let mechanism = login.mechanism.name();
                self.refusal = Some(format!("{mechanism} login refused: {refused}"));
                Err(AuthFailure::Refused)
            }
        };
        self.front.authenticated(result);
        Ok(())
    }

    /// Looks at a login in its turn: guesses have to wait. A login without a password guesses nothing.
    async fn check(
        &mut self,
        login: &Login,
    ) -> Result<Result<AuthenticatedUser, Refused>, Disconnect> {
        let (peer, user) = (self.name.client_ip(), login.user.as_bytes());
        let credentials = match login.mechanism {
            Mechanism::Anonymous => {
                let view = self.server.broker.view();
                let login = self.server.auth.login(Credentials::Anonymous, Some(peer), &view.meta);
                return Ok(login.await);
            }
            Mechanism::Plain | Mechanism::AmqPlain | Mechanism::CrDemo => {
                Credentials::Password { username: user, password: &login.password }
            }
        };
        let now_ms = self.server.clock.now().monotonic_ms;
        match self.server.strangers.throttle.admit(peer, user, now_ms) {
            Admission::After(wait_ms) => self.pause(wait_ms).await?,
            Admission::RefuseAfter(wait_ms) => {
                self.pause(wait_ms).await?;
                return Ok(Err(Refused::TooManyFailures(auth::shown(user))));
            }
        }
        let Server { auth, broker, strangers: Strangers { throttle, .. }, clock, .. } =
            &*self.server;
        let result = auth.login(credentials, Some(peer), &broker.view().meta).await;
        match &result {
            Ok(_) => throttle.succeeded(peer, user),
            Err(_) => throttle.failed(peer, user, clock.now().monotonic_ms),
        }
        Ok(result)
    }

    /// Waits, unless the connection has to end.
    async fn pause(&mut self, ms: u64) -> Result<(), Disconnect> {
        if ms == 0 {
            return Ok(());
        }
        let disconnect = self.server.timers.sleep(Duration::from_millis(ms));
        let Some(interrupt) = &mut self.interrupt else {
            disconnect.await;
            return Ok(());
        };
        let kick = tokio::select! {
            () = disconnect => return Ok(()),
            kick = interrupt => kick,
        };
        self.interrupt = None;
        self.interrupted(kick).await
    }

    pub(super) fn open(&mut self, vhost: String) {
        let now = self.server.clock.now();
        let result = self.open_session(vhost);
        self.front.opened(now, result);
    }

    /// Has the task woken when the broker wants something of the connection.
    pub(super) fn listen_for_kicks(&mut self) {
        if let Some(connection) = self.stats.clone() {
            self.interrupt = Some(Box::pin(async move { connection.kicked().await }));
        }
    }

    fn open_session(&mut self, vhost: String) -> Result<(), Error> {
        let broker = Arc::clone(&self.server.broker);
        if let Some(limit) = self.server.settings.max_connections
            && u64::try_from(broker.connections.len()).is_ok_and(|n| n >= limit)
        {
            let text = format!("connection refused: node connection limit ({limit}) is reached");
            return Err(Error::new(ErrorKind::NotAllowed, text));
        }
        let Some(logged_in) = self.logged_in.take() else {
            return Err(Error::new(ErrorKind::InternalError, "nobody has logged in"));
        };
        let identity = self.identity(logged_in, vhost);
        let (user, vhost) = (identity.user.clone(), identity.vhost.clone());
        let outbox: Arc<dyn Outbox> = Arc::clone(&self.outbox) as Arc<dyn Outbox>;
        let session = Session::open(broker, identity, outbox)?;
        self.handshake = None;
        tracing::info!(
            connection = %self.name,
            "user '{user}' authenticated and granted access to vhost '{vhost}'"
        );
        let connection = Arc::clone(session.connection());
        self.stats = Some(Arc::clone(&connection));
        self.writer.count(Arc::clone(&connection));
        self.session = Some(session);
        if *self.server.stopping.borrow() {
            connection.kick(crate::server::SHUTDOWN_REASON);
        }
        self.listen_for_kicks();
        Ok(())
    }

    fn identity(&self, logged_in: LoggedIn, vhost: String) -> Identity {
        let (peer, local) = (canonical(self.name.peer), canonical(self.name.local));
        let negotiated = self.front.negotiated();
        Identity {
            user: logged_in.user,
            vhost,
            name: self.name.to_string(),
            peer_host: peer.ip().to_string(),
            peer_port: peer.port(),
            host: local.ip().to_string(),
            port: local.port(),
            protocol: "{0,9,1}",
            auth_mechanism: logged_in.mechanism.name().to_owned(),
            heartbeat_s: negotiated.heartbeat_s,
            frame_max: negotiated.frame_max,
            channel_max: negotiated.channel_max,
            client_properties: logged_in.client_properties,
            connected_at_ms: self.server.clock.now().unix_ms,
        }
    }
}
