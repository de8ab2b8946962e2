//! Decides who may log in: a chain of backends, the loopback rule, the anonymous login; and how long logins
//! have to wait where others have failed.
//! Never how a protocol or SASL mechanism carries a name and a password, never what a user may do.
//! Start reading at [`Authenticator::login`].

mod internal;
mod throttle;

pub use throttle::{Attempt, Attempts, LoginAdmission, LoginSource, LoginThrottle, network};

use meta::{Name, State};
use std::net::IpAddr;

/// Bytes of a name that the log shows: the name may have been made up to fill the log.
const SHOWN_NAME_BYTES_MAX: usize = 255;

/// A client's credentials, whatever mechanism brought them.
#[derive(Clone, Copy)]
pub enum Credentials<'a> {
    /// A name and a password.
    Password {
        /// The name; not text that could be a user's name if it is not UTF-8.
        username: &'a [u8],
        /// The password.
        password: &'a [u8],
    },
    /// No credentials (`ANONYMOUS`).
    Anonymous,
    /// The name in a certificate that was verified (`EXTERNAL`), or why there is none.
    Certificate(Result<&'a str, NoName>),
}

/// The reason why a client has no name by its certificate. COMPAT: RabbitMQ's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    /// The connection is not encrypted.
    #[error("not a TLS-enabled connection")]
    NoTls,
    /// The client has shown no certificate.
    #[error("connection peer presented no TLS (x.509) certificate")]
    NoCertificate,
    /// The certificate has no part that names the client.
    #[error("no name found")]
    NotFound,
}

impl std::fmt::Debug for Credentials<'_> {
    /// Passwords do not belong into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Password { username, .. } => {
                write!(f, "Password({}, ...)", shown(username))
            }
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Certificate(name) => write!(f, "Certificate({name:?})"),
        }
    }
}

/// A client that has proved its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedUser {
    /// The user's name.
    pub name: Name,
    /// Tags, for example `administrator`.
    pub tags: Vec<Name>,
}

impl AuthenticatedUser {
    /// Whether the user has a tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known.as_str() == tag)
    }
}

/// The reason why a login was refused. For the log, in RabbitMQ's words; a client is never told which.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such user, no password set, or another one.
    #[error("user '{0}' - invalid credentials")]
    InvalidCredentials(String),
    /// The password given is empty.
    #[error(
        "user '{0}' attempted to log in with a blank password, which is prohibited by the internal \
         authN backend. To use TLS/x509 certificate-based authentication, see the \
         rabbitmq_auth_mechanism_ssl plugin and configure the client to use the EXTERNAL \
         authentication mechanism. Alternatively change the password for the user to be non-blank."
    )]
    BlankPassword(String),
    /// The user may connect from the node's own machine only, and did not.
    #[error("user '{0}' can only connect via localhost")]
    NotLoopback(String),
    /// Too many others from the same address have failed: the password was not looked at.
    #[error(
        "user '{0}' - too many logins from the same address have failed, the password was not looked at"
    )]
    TooManyFailures(String),
    /// The response is none of the mechanism's; nobody was named.
    #[error("malformed response")]
    Malformed,
    /// The client has no name by its certificate.
    #[error(transparent)]
    NoName(#[from] NoName),
    /// Logins without credentials are not allowed.
    #[error("anonymous access is not allowed")]
    AnonymousForbidden,
}

/// A name as the log shows it.
#[must_use]
pub fn shown(username: &[u8]) -> String {
    match username.get(..SHOWN_NAME_BYTES_MAX) {
        Some(beginning) if beginning.len() < username.len() => {
            format!("{}...", String::from_utf8_lossy(beginning))
        }
        Some(_) | None => String::from_utf8_lossy(username).into_owned(),
    }
}

/// The rules of logins: which users, by which mechanisms.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Users who may connect from the node's own machine only.
    pub loopback_users: Vec<String>,
    /// The user that a login without credentials stands for; `None` refuses such logins.
    pub anonymous: Option<AnonymousLogin>,
}

/// The user that a login without credentials is taken for.
#[derive(Clone)]
pub struct AnonymousLogin {
    /// `anonymous_login_user`.
    pub user: String,
    /// `anonymous_login_pass`.
    pub password: String,
}

stdx::debug_of!(|it: AnonymousLogin| user = it.user);

/// The backends, in the order they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    /// The users among the definitions.
    Internal,
}

/// Decides about logins.
#[derive(Clone, Debug)]
pub struct Authenticator {
    rules: Rules,
    backends: Vec<Backend>,
}

impl Authenticator {
    /// Asks the internal backend only.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, backends: vec![Backend::Internal] }
    }

    /// Decides about one login. `peer` is where the client connects from; `None` is a connection that
    /// cannot come from another machine.
    ///
    /// # Errors
    /// Why it is refused; the client is told no more than that it is.
    pub async fn login(
        &self,
        credentials: Credentials<'_>,
        peer: Option<IpAddr>,
        state: &State,
    ) -> Result<AuthenticatedUser, Refused> {
        let user = self.authenticate(credentials, state).await?;
        let is_local = peer.is_none_or(|peer| peer.to_canonical().is_loopback());
        let local_only = self.rules.loopback_users.iter().any(|name| name == user.name.as_str());
        if local_only && !is_local {
            return Err(Refused::NotLoopback(user.name.to_string()));
        }
        Ok(user)
    }

    /// Decides whether name and password belong together, wherever the client is.
    ///
    /// # Errors
    /// Why it is refused: what the last backend said.
    pub async fn authenticate(
        &self,
        credentials: Credentials<'_>,
        state: &State,
    ) -> Result<AuthenticatedUser, Refused> {
        let (username, password) = match credentials {
            Credentials::Password { username, password } => (username, Some(password)),
            Credentials::Anonymous => {
                let anonymous = self.rules.anonymous.as_ref();
                let anonymous = anonymous.ok_or(Refused::AnonymousForbidden)?;
                (anonymous.user.as_bytes(), Some(anonymous.password.as_bytes()))
            }
            Credentials::Certificate(name) => (name?.as_bytes(), None),
        };
        let mut answer = Err(Refused::InvalidCredentials(shown(username)));
        for backend in &self.backends {
            answer = match backend {
                Backend::Internal => internal::authenticate(state, username, password),
            };
            if answer.is_ok() {
                break;
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests;
