use super::*;
use meta::{Command, PasswordHash};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

/// The future of a decision that has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn state() -> State {
    let mut state = State::new();
    let time = stdx::Now::default();
    for (user, password, tags) in
        [("guest", "guest", &["administrator"][..]), ("ada", "Lovelace", &[]), ("cert", "", &[])]
    {
        let command = Command::CreateUser {
            user: Name::from(user),
            password: PasswordHash::new([1, 2, 3, 4], password),
            tags: tags.iter().map(|&tag| Name::from(tag)).collect(),
        };
        state.apply(time, &command).unwrap();
    }
    state
}

fn authenticator(anonymous: Option<(&str, &str)>) -> Authenticator {
    Authenticator::new(Rules {
        loopback_users: vec!["guest".to_owned()],
        anonymous: anonymous.map(|(user, password)| AnonymousLogin {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
    })
}

fn login(username: &[u8], password: &[u8], peer: IpAddr) -> Result<String, String> {
    let credentials = Credentials::Password { username, password };
    let answer = now(authenticator(None).login(credentials, Some(peer), &state()));
    answer.map(|user| user.name.to_string()).map_err(|refused| refused.to_string())
}

#[test]
fn the_right_password_is_accepted_with_the_users_tags() {
    let credentials = Credentials::Password { username: b"guest", password: b"guest" };
    let user = now(authenticator(None).login(credentials, Some(HOME), &state())).unwrap();
    assert_eq!(user.name.as_str(), "guest");
    assert!(user.has_tag("administrator") && !user.has_tag("monitoring"));
    assert_eq!(login(b"ada", b"Lovelace", AWAY), Ok("ada".to_owned()));
}

#[test]
fn wrong_unknown_missing_and_garbled_are_refused_alike() {
    let refused = |name: &str| Err(format!("user '{name}' - invalid credentials"));
    assert_eq!(login(b"ada", b"lovelace", HOME), refused("ada"));
    assert_eq!(login(b"bob", b"x", HOME), refused("bob"));
    assert_eq!(login(b"cert", b"x", HOME), refused("cert"));
    assert_eq!(login(b"", b"x", HOME), refused(""));
    assert_eq!(login(b"\xff", b"x", HOME), refused("\u{fffd}"));
}

#[test]
fn names_that_are_too_long_are_cut() {
    let refused = login(&[b'n'; 8_000], b"x", HOME).unwrap_err();
    assert_eq!(refused, format!("user '{}...' - invalid credentials", "n".repeat(255)));
    assert_eq!(shown(&[b'n'; 255]), "n".repeat(255));
}

#[test]
fn blank_passwords_are_refused_even_where_none_is_set() {
    for user in [&b"cert"[..], b"ada", b"nobody"] {
        assert!(login(user, b"", HOME).unwrap_err().contains("with a blank password"));
    }
}

#[test]
fn some_users_may_only_connect_from_the_same_machine() {
    let refused = Err("user 'guest' can only connect via localhost".to_owned());
    assert_eq!(login(b"guest", b"guest", AWAY), refused);
    for home in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(login(b"guest", b"guest", home.parse().unwrap()), Ok("guest".to_owned()));
    }
    let wrong = login(b"guest", b"wrong", AWAY).unwrap_err();
    assert!(wrong.ends_with("invalid credentials"), "the rule says nothing about passwords");
    let credentials = Credentials::Password { username: b"guest", password: b"guest" };
    assert!(now(authenticator(None).login(credentials, None, &state())).is_ok());
}

#[test]
fn anonymous_logins_are_those_of_the_configured_user() {
    let login = |anonymous: Option<(&str, &str)>, peer| {
        let authenticator = authenticator(anonymous);
        let answer = now(authenticator.login(Credentials::Anonymous, Some(peer), &state()));
        answer.map(|user| user.name.to_string())
    };
    assert_eq!(login(None, HOME), Err(Refused::AnonymousForbidden));
    assert_eq!(login(Some(("ada", "Lovelace")), AWAY), Ok("ada".to_owned()));
    let refused = Refused::InvalidCredentials("ada".to_owned());
    assert_eq!(login(Some(("ada", "wrong")), AWAY), Err(refused));
    let refused = Refused::NotLoopback("guest".to_owned());
    assert_eq!(login(Some(("guest", "guest")), AWAY), Err(refused));
}

#[test]
fn passwords_are_not_shown() {
    let credentials = Credentials::Password { username: b"ada", password: b"Lovelace" };
    let authenticator = authenticator(Some(("ada", "Lovelace")));
    assert!(!format!("{credentials:?} {authenticator:?}").contains("Lovelace"));
}
