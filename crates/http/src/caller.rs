//! Who asks: name and password of each request, and what the user's tags allow.
//! Definitions are looked at anew for each request: what was taken from a user counts from the next on.

use crate::Api;
use crate::refusal::Refusal;
use auth::{Admission, Credentials};
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use meta::State;
use mgmt::Operator;
use std::net::IpAddr;
use std::time::Duration;

/// A user that has shown who it is.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) tags: Vec<String>,
    pub(crate) peer: IpAddr,
    /// It, for the log of changes.
    pub(crate) operator: Operator,
}

/// The least that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Any tag at all that lets a user in here.
    Management,
    /// That, and some permission in the virtual host of the address.
    Vhost,
    /// The same for tag `policymaker`.
    Policymaker,
    Monitoring,
    Administrator,
}

impl Needs {
    /// As documents name it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Management => "management",
            Self::Vhost => "management, virtual host",
            Self::Policymaker => "policymaker, virtual host",
            Self::Monitoring => "monitoring",
            Self::Administrator => "administrator",
        }
    }
}

impl Caller {
    /// An operator of this machine, who has no user's name.
    pub(crate) fn operator(operator: Operator, peer: IpAddr) -> Self {
        Self { user: String::new(), tags: vec!["administrator".to_owned()], peer, operator }
    }

    pub(crate) const fn is_local(&self) -> bool {
        matches!(self.operator, Operator::Local(..))
    }

    fn has(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&tag.as_str()))
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.has(&["administrator"])
    }

    /// Whether it sees what others do.
    pub(crate) fn is_monitor(&self) -> bool {
        self.has(&["administrator", "monitoring"])
    }

    /// Whether it sees what is in a virtual host. COMPAT: who monitors lists all of them.
    pub(crate) fn sees(&self, state: &State, vhost: &str) -> bool {
        self.is_monitor() || state.users().may_enter(&self.user, vhost)
    }

    /// Refuses who has too few rights. `vhost` is that of the address.
    pub(crate) fn check(&self, needs: Needs, state: &State, vhost: &str) -> Result<(), Refusal> {
        let is_in = || state.users().may_enter(&self.user, vhost);
        let vhost_is_there = || vhost.is_empty() || state.vhost(vhost).is_some();
        let lacks = match needs {
            _ if self.is_local() => return Ok(()),
            _ if !self.has(&["administrator", "monitoring", "policymaker", "management"]) => {
                "Not management user"
            }
            Needs::Monitoring if !self.is_monitor() => "Not monitor user",
            Needs::Administrator if !self.is_administrator() => "Not administrator user",
            Needs::Policymaker if !self.has(&["administrator", "policymaker"]) => {
                "Not policymaker user"
            }
            Needs::Vhost | Needs::Policymaker if !vhost_is_there() => {
                return Err(match needs {
                    Needs::Policymaker => Refusal::lacks("vhost_not_found"),
                    Needs::Management | Needs::Vhost | Needs::Monitoring | Needs::Administrator => {
                        Refusal::not_found()
                    }
                });
            }
            Needs::Vhost | Needs::Policymaker
                if !vhost.is_empty() && !self.is_administrator() && !is_in() =>
            {
                "User not authorised to access virtual host"
            }
            Needs::Management
            | Needs::Vhost
            | Needs::Policymaker
            | Needs::Monitoring
            | Needs::Administrator => return Ok(()),
        };
        Err(Refusal::not_authorised(lacks))
    }
}

/// Finds out who asks.
pub(crate) async fn caller(
    api: &Api,
    headers: &HeaderMap,
    peer: IpAddr,
) -> Result<Caller, Refusal> {
    let Some((user, password)) =
        headers.get(header::AUTHORIZATION).and_then(|it| basic(it.as_bytes()))
    else {
        // An empty reason: browsers ask, others are told by the header.
        return Err(Refusal::of_status(StatusCode::UNAUTHORIZED, "not_authorized", ""));
    };
    let state = &api.management.broker.view().meta;
    let credentials = Credentials::Password { username: &user, password: &password };
    let now_ms = api.now().monotonic_ms;
    let admission = api.throttle.admit(peer, &user, now_ms);
    let (wait_ms, is_refused) = match admission {
        Admission::After(wait_ms) => (wait_ms, false),
        Admission::RefuseAfter(wait_ms) => (wait_ms, true),
    };
    if wait_ms > 0 {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
    if is_refused {
        let text = "too many logins from this address have failed";
        let status = StatusCode::TOO_MANY_REQUESTS;
        return Err(Refusal::of_status(status, "too_many_requests", text));
    }
    match api.management.authenticator.login(credentials, Some(peer), state).await {
        Ok(known) => {
            api.throttle.succeeded(peer, &user);
            let tags = known.tags.iter().map(|tag| tag.as_str().to_owned()).collect();
            let user = known.name.as_str().to_owned();
            let operator = Operator::User(user.clone(), peer);
            Ok(Caller { user, tags, peer, operator })
        }
        Err(auth::Refused::NotLoopback(_)) => {
            Err(Refusal::not_authorised("User can only log in via localhost"))
        }
        Err(refused) => {
            tracing::warn!("HTTP access denied: {refused}");
            api.throttle.failed(peer, &user, now_ms);
            let (status, text) = (StatusCode::UNAUTHORIZED, "Not_Authorized");
            Err(Refusal::of_status(status, "not_authorized", text))
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
