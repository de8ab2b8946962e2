//! The caller of a request, by name and password or by a cookie, and what the user's tags allow. Definitions
//! are looked at anew for each request: what was taken from a user counts from the next on.

use crate::Api;
use crate::audit::Operator;
use crate::connection::{Peer, PeerLine};
use crate::origins;
use crate::refusal::Refusal;
use auth::{Attempt, AuthenticatedUser, Credentials, Refused};
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meta::State;
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::sleep;

/// A user that has shown who it is.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) tags: Vec<String>,
    pub(crate) peer: Peer,
    /// The user as the log of changes names it.
    pub(crate) operator: Operator,
}

stdx::named! {
    /// The least that a request needs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Needs {
        /// No right, and no login.
        Nothing = "nothing",
        /// Any tag at all that lets a user in here.
        Management = "management",
        /// A tag as for `Management`, and some permission in the virtual host of the address.
        Vhost = "management, virtual host",
        /// As `Vhost`. COMPAT: nobody has a right to anything in a virtual host that does not exist.
        KnownVhost = "management, virtual host",
        /// The tag `policymaker`, and some permission in the virtual host of the address.
        Policymaker = "policymaker, virtual host",
        Monitoring = "monitoring",
        Administrator = "administrator",
    }
}

impl Caller {
    /// An operator of this machine, who has no user's name.
    pub(crate) fn operator(operator: Operator, peer: Peer) -> Self {
        Self { user: String::new(), tags: vec!["administrator".to_owned()], peer, operator }
    }

    /// A caller who need not log in.
    pub(crate) fn stranger(peer: Peer) -> Self {
        let operator = Operator::User(String::new(), peer.address.ip());
        Self { user: String::new(), tags: Vec::new(), peer, operator }
    }

    fn of(user: AuthenticatedUser, peer: Peer) -> Self {
        let tags = user.tags.iter().map(|tag| tag.as_str().to_owned()).collect();
        let user = user.name.as_str().to_owned();
        let operator = Operator::User(user.clone(), peer.address.ip());
        Self { user, tags, peer, operator }
    }

    /// The caller as a user in whose name something is done, without tags.
    pub(crate) fn in_the_name_of(&self, user: &str) -> Self {
        let operator = Operator::User(user.to_owned(), self.peer.address.ip());
        Self { user: user.to_owned(), tags: Vec::new(), peer: self.peer, operator }
    }

    pub(crate) const fn is_local(&self) -> bool {
        matches!(self.operator, Operator::Local(..))
    }

    /// Whether the node may connect to other brokers as the user says.
    pub(crate) fn may_reach_others(&self) -> bool {
        self.has(&["administrator", "policymaker"])
    }

    fn has(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&tag.as_str()))
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.has(&["administrator"])
    }

    /// Whether the user sees what others do.
    pub(crate) fn is_monitor(&self) -> bool {
        self.has(&["administrator", "monitoring"])
    }

    /// Whether the user sees what is in a virtual host. COMPAT: who monitors lists all of them.
    pub(crate) fn sees(&self, state: &State, vhost: &str) -> bool {
        self.is_monitor() || state.users().may_enter(&self.user, vhost)
    }

    /// Refuses who has too few rights. `vhost` is that of the address, which a request that `makes` something
    /// misses otherwise.
    pub(crate) fn check(
        &self,
        needs: Needs,
        makes: bool,
        state: &State,
        vhost: &str,
    ) -> Result<(), Refusal> {
        let is_in = || state.users().may_enter(&self.user, vhost);
        let vhost_is_there = || vhost.is_empty() || state.vhost(vhost).is_some();
        let lacks = match needs {
            Needs::Nothing => return Ok(()),
            _ if self.is_local() => return Ok(()),
            _ if !self.has(&["administrator", "monitoring", "policymaker", "management"]) => {
                "Not management user"
            }
            Needs::Monitoring if !self.is_monitor() => "Not monitor user",
            Needs::Administrator if !self.is_administrator() => "Not administrator user",
            Needs::Policymaker if !self.has(&["administrator", "policymaker"]) => {
                return Err(Refusal::not_yours());
            }
            Needs::KnownVhost if !vhost_is_there() => "Access refused.",
            Needs::Vhost | Needs::Policymaker if !vhost_is_there() => {
                return Err(if makes {
                    Refusal::lacks("vhost_not_found")
                } else {
                    Refusal::not_found()
                });
            }
            Needs::Vhost | Needs::KnownVhost | Needs::Policymaker
                if !vhost.is_empty() && !self.is_administrator() && !is_in() =>
            {
                "User not authorised to access virtual host"
            }
            Needs::Management
            | Needs::Vhost
            | Needs::KnownVhost
            | Needs::Policymaker
            | Needs::Monitoring
            | Needs::Administrator => return Ok(()),
        };
        Err(Refusal::not_authorised(lacks))
    }
}

/// Finds the caller of a request.
pub(crate) async fn caller(
    api: &Api,
    headers: &HeaderMap,
    peer: Peer,
    changes: bool,
) -> Result<Caller, Refusal> {
    let header = headers.get(header::AUTHORIZATION);
    if let Some((user, password)) = header.and_then(|it| basic(it.as_bytes())) {
        return log_in(api, &user, &password, peer).await;
    }
    let view = api.management.broker.view();
    let user = api.logins.user(headers, &view.meta, api.now().monotonic_ms.get());
    let user = user.ok_or_else(Refusal::unauthorized)?;
    if changes {
        origins::check_cookie(headers)?;
    }
    // The user has shown a password for the cookie, and needs none here.
    let (from, credentials) = (Some(peer.address.ip()), Credentials::Certificate(Ok(&user)));
    let known = api.management.authenticator.login(credentials, from, &view.meta).await;
    let told = |refused| refusal(api, peer.address.ip(), &refused);
    known.map(|user| Caller::of(user, peer)).map_err(told)
}

/// Refuses names and passwords where the configuration of the API does. Prometheus has them all the same.
pub(crate) fn check_passwords(api: &Api, peer: Peer) -> Result<(), Refusal> {
    if !api.settings.restrictions.refuses_passwords {
        return Ok(());
    }
    let text = "HTTP access denied: basic auth disabled";
    if api.is_told(peer.address.ip(), PeerLine::Login) {
        tracing::warn!("{text}");
    }
    Err(Refusal::not_authorised(text))
}

/// Checks a name and a password, in turn with others who guess.
pub(crate) async fn log_in(
    api: &Api,
    username: &[u8],
    password: &[u8],
    peer: Peer,
) -> Result<Caller, Refusal> {
    let view = api.management.broker.view();
    let (from, credentials) = (peer.address.ip(), Credentials::Password { username, password });
    let pause = |wait_ms| async move {
        sleep(Duration::from_millis(wait_ms)).await;
        Ok::<_, Infallible>(())
    };
    let login = api.management.authenticator.login(credentials, Some(from), &view.meta);
    let now_ms = || api.now().monotonic_ms;
    let Ok(result) = api.throttle.in_turn((from, username), now_ms, pause, login).await;
    let is_accepted = result.is_ok();
    api.throttle.count(Attempt { protocol: "http", peer: from, user: username, is_accepted });
    result.map(|user| Caller::of(user, peer)).map_err(|refused| refusal(api, from, &refused))
}

fn refusal(api: &Api, client: IpAddr, refused: &Refused) -> Refusal {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nobody is told more")]
    match refused {
        Refused::NotLoopback(_) => Refusal::not_authorised("User can only log in via localhost"),
        Refused::TooManyFailures(_) => {
            let text = "too many failed logins from this address";
            Refusal::too_many(text)
        }
        refused => {
            if api.is_told(client, PeerLine::Login) {
                tracing::warn!("HTTP access denied: {refused}");
            }
            Refusal::of_status(StatusCode::UNAUTHORIZED, "not_authorized", "Not_Authorized")
        }
    }
}

/// Name and password of `Basic ...`.
fn basic(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (user, password) = decoded.split_at(colon);
    scheme
        .eq_ignore_ascii_case(b"basic ")
        .then(|| (user.to_vec(), password.get(1..).unwrap_or_default().to_vec()))
}
