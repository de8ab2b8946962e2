//! The throttle of logins: the wait of a login because others from the same place have failed.
//!
//! Failures slow down the network address they come from, and the user they name as far as it comes from
//! that address. The same user from elsewhere never waits. Attempts that wait are let in one after the
//! other, so that many connections guess no faster than one. A user who has logged in from an address
//! before does not wait for what others at that address do wrong: many clients may share it. Time is an
//! argument; whoever asks does the waiting.

use crate::{AuthenticatedUser, Refused, shown};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use stdx::MonotonicMs;

/// The first delay; each further failure doubles it.
const DELAY_FIRST_MS: u64 = 10;
/// The longest delay between two attempts.
const DELAY_MAX_MS: u64 = 1_000;
/// An attempt waits no longer than this for those before it: it is refused then without a look at its
/// password.
const WAIT_MAX_MS: u64 = 5_000;
/// Failures that cost nothing, of one user from one address.
const FAILURES_FREE_OF_USER: u32 = 2;
/// Failures that cost nothing, of all users from one address.
const FAILURES_FREE_OF_ADDRESS: u32 = 20;
/// The time without another failure after which the failures before are forgotten.
const FORGOTTEN_AFTER_MS: u64 = 60_000;
/// Addresses that are remembered, at least; up to twice as many.
const ADDRESSES_MIN: usize = 8 * 1024;
/// Users by address that are remembered, at least; up to twice as many.
const USERS_MIN: usize = 32 * 1024;

/// Sources of logins that are counted.
const SOURCES_MAX: usize = 10_000;

/// The treatment of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAdmission {
    /// The password is to be looked at after this many milliseconds.
    After(u64),
    /// Too many wait already: the login is to be refused after this many milliseconds, whatever the password
    /// is.
    RefuseAfter(u64),
}

/// The failed logins of late, by address and user.
#[derive(Debug, Default)]
pub struct LoginThrottle {
    /// The random keys of the tables: nobody can make up names that share a place in a table.
    hasher: RandomState,
    records: Mutex<Records>,
    attempts: Mutex<Counted>,
}

/// Counts by protocol and, if that is wanted, by source.
#[derive(Debug, Default)]
struct Counted {
    by_protocol: BTreeMap<&'static str, Attempts>,
    by_source: BTreeMap<LoginSource, Attempts>,
    tracks_sources: bool,
}

/// The source of a login: an address, the name that was given, the protocol.
pub type LoginSource = (IpAddr, String, &'static str);

/// A login that was tried.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The protocol's name in metrics.
    pub protocol: &'static str,
    /// The client's address.
    pub peer: IpAddr,
    /// The user's name as the client gave it.
    pub user: &'a [u8],
    /// Whether the login was accepted.
    pub is_accepted: bool,
}

/// Counts of logins that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Logins that were accepted.
    pub n_succeeded: u64,
    /// Logins that were refused.
    pub n_failed: u64,
}

impl Attempts {
    const fn add(&mut self, is_accepted: bool) {
        *if is_accepted { &mut self.n_succeeded } else { &mut self.n_failed } += 1;
    }
}

#[derive(Debug)]
struct Records {
    addresses: Recent<Failures>,
    users: Recent<Failures>,
    /// Users who have logged in, by address.
    known: Recent<()>,
}

/// The failures that share a key.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    n: u32,
    latest_ms: MonotonicMs,
    /// The time before which no password is looked at.
    next_ms: MonotonicMs,
}

/// A table of what was used of late: when it is full the half that was not used for longest goes.
#[derive(Debug)]
struct Recent<V> {
    half_max: usize,
    newer: HashMap<u64, V>,
    older: HashMap<u64, V>,
}

impl LoginThrottle {
    /// Takes a login in its turn: `pause` waits for the milliseconds it is given, `login` looks at the
    /// password.
    ///
    /// # Errors
    /// The end of the pause, if it ends otherwise.
    pub async fn in_turn<E, P: Future<Output = Result<(), E>>>(
        &self,
        (peer, user): (IpAddr, &[u8]),
        now_ms: impl Fn() -> MonotonicMs,
        pause: impl FnOnce(u64) -> P,
        login: impl Future<Output = Result<AuthenticatedUser, Refused>>,
    ) -> Result<Result<AuthenticatedUser, Refused>, E> {
        match self.admit(peer, user, now_ms()) {
            LoginAdmission::After(0) => {}
            LoginAdmission::After(wait_ms) => pause(wait_ms).await?,
            LoginAdmission::RefuseAfter(wait_ms) => {
                pause(wait_ms).await?;
                return Ok(Err(Refused::TooManyFailures(shown(user))));
            }
        }
        let result = login.await;
        match &result {
            Ok(_) => self.succeeded(peer, user),
            Err(_) => self.failed(peer, user, now_ms()),
        }
        Ok(result)
    }

    /// Counts a login that was tried.
    pub fn count(&self, attempt: Attempt<'_>) {
        let Attempt { protocol, peer, user, is_accepted } = attempt;
        let mut counted = stdx::lock(&self.attempts);
        let Counted { by_protocol, by_source, tracks_sources } = &mut *counted;
        by_protocol.entry(protocol).or_default().add(is_accepted);
        if *tracks_sources {
            let source = (peer.to_canonical(), shown(user), protocol);
            if by_source.len() < SOURCES_MAX || by_source.contains_key(&source) {
                by_source.entry(source).or_default().add(is_accepted);
            }
        }
    }

    /// Counts logins by their source too, from now on. COMPAT: only where that is asked for, as there may be
    /// many.
    pub fn track_sources(&self) {
        stdx::lock(&self.attempts).tracks_sources = true;
    }

    /// The logins that were tried, by protocol.
    pub fn attempts(&self) -> BTreeMap<&'static str, Attempts> {
        stdx::lock(&self.attempts).by_protocol.clone()
    }

    /// The logins that were tried, by source, where that is counted.
    pub fn attempts_by_source(&self) -> BTreeMap<LoginSource, Attempts> {
        stdx::lock(&self.attempts).by_source.clone()
    }

    /// Forgets what was tried.
    pub fn forget_attempts(&self) {
        let mut counted = stdx::lock(&self.attempts);
        counted.by_protocol.clear();
        counted.by_source.clear();
    }

    /// A user wants to log in from `peer`: reserves its turn.
    pub fn admit(&self, peer: IpAddr, user: &[u8], now_ms: MonotonicMs) -> LoginAdmission {
        let (address, pair) = self.keys(peer, user);
        let mut records = stdx::lock(&self.records);
        let Records { addresses, users, known } = &mut *records;
        let of_user = users.get(pair).filter(|failures| failures.is_recent(now_ms));
        let of_address = match known.get(pair) {
            Some(()) => None,
            None => addresses.get(address).filter(|failures| failures.is_recent(now_ms)),
        };
        let next_ms = |failures: &Option<&mut Failures>| {
            failures.as_ref().map_or(now_ms, |failures| failures.next_ms)
        };
        let turn_ms = now_ms.max(next_ms(&of_user)).max(next_ms(&of_address));
        let wait_ms = turn_ms.since(now_ms);
        if wait_ms > WAIT_MAX_MS {
            return LoginAdmission::RefuseAfter(WAIT_MAX_MS);
        }
        if let Some(failures) = of_user {
            failures.next_ms = turn_ms.plus(failures.delay_ms(FAILURES_FREE_OF_USER));
        }
        if let Some(failures) = of_address {
            failures.next_ms = turn_ms.plus(failures.delay_ms(FAILURES_FREE_OF_ADDRESS));
        }
        LoginAdmission::After(wait_ms)
    }

    /// The login was refused.
    pub fn failed(&self, peer: IpAddr, user: &[u8], now_ms: MonotonicMs) {
        let (address, pair) = self.keys(peer, user);
        let mut records = stdx::lock(&self.records);
        records.addresses.get_or_default(address).add(now_ms, FAILURES_FREE_OF_ADDRESS);
        records.users.get_or_default(pair).add(now_ms, FAILURES_FREE_OF_USER);
    }

    /// The login was accepted: what this user did wrong at this address is forgotten.
    pub fn succeeded(&self, peer: IpAddr, user: &[u8]) {
        let (_, pair) = self.keys(peer, user);
        let mut records = stdx::lock(&self.records);
        records.users.remove(pair);
        records.known.get_or_default(pair);
    }

    fn keys(&self, peer: IpAddr, user: &[u8]) -> (u64, u64) {
        let place = network(peer);
        (self.hasher.hash_one(place), self.hasher.hash_one((place, user)))
    }
}

/// The address that stands for a client's: one may have a whole /64 of IPv6 addresses.
#[must_use]
pub fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip,
    }
}

impl Default for Records {
    fn default() -> Self {
        Self {
            addresses: Recent::new(ADDRESSES_MIN),
            users: Recent::new(USERS_MIN),
            known: Recent::new(USERS_MIN),
        }
    }
}

impl Failures {
    fn is_recent(&self, now_ms: MonotonicMs) -> bool {
        now_ms.since(self.latest_ms) < FORGOTTEN_AFTER_MS
    }

    fn delay_ms(&self, n_free: u32) -> u64 {
        match self.n.checked_sub(n_free + 1) {
            None => 0,
            // Doubled more often it would be longer than the longest anyway.
            Some(n) => (DELAY_FIRST_MS << n.min(16)).min(DELAY_MAX_MS),
        }
    }

    fn add(&mut self, now_ms: MonotonicMs, n_free: u32) {
        if !self.is_recent(now_ms) {
            *self = Self::default();
        }
        self.n = self.n.saturating_add(1);
        self.latest_ms = now_ms;
        self.next_ms = self.next_ms.max(now_ms.plus(self.delay_ms(n_free)));
    }
}

impl<V: Default> Recent<V> {
    fn new(half_max: usize) -> Self {
        Self { half_max, newer: HashMap::new(), older: HashMap::new() }
    }

    fn get(&mut self, key: u64) -> Option<&mut V> {
        if let Some(value) = self.older.remove(&key) {
            self.put(key, value);
        }
        self.newer.get_mut(&key)
    }

    fn get_or_default(&mut self, key: u64) -> &mut V {
        let value = self.older.remove(&key);
        if !self.newer.contains_key(&key) {
            self.put(key, value.unwrap_or_default());
        }
        self.newer.entry(key).or_default()
    }

    fn put(&mut self, key: u64, value: V) {
        if self.newer.len() >= self.half_max {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, value);
    }

    fn remove(&mut self, key: u64) {
        self.newer.remove(&key);
        self.older.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Guesses whose passwords are looked at within the time, by one client that tries again at once.
    fn guesses(throttle: &LoginThrottle, user: impl Fn(u64) -> String, ms: u64) -> u64 {
        let (mut now_ms, mut n) = (0, 0);
        while now_ms < ms {
            let user = user(n);
            match throttle.admit(HERE, user.as_bytes(), MonotonicMs::from_raw(now_ms)) {
                LoginAdmission::After(wait_ms) => now_ms += wait_ms,
                LoginAdmission::RefuseAfter(_) => panic!("nobody else waits"),
            }
            throttle.failed(HERE, user.as_bytes(), MonotonicMs::from_raw(now_ms));
            n += 1;
        }
        n
    }

    const fn tried<'a>(
        protocol: &'static str,
        peer: IpAddr,
        user: &'a [u8],
        is_accepted: bool,
    ) -> Attempt<'a> {
        Attempt { protocol, peer, user, is_accepted }
    }

    #[test]
    fn logins_are_counted_by_source_where_that_is_asked_for_and_not_without_bound() {
        let (throttle, peer) = (LoginThrottle::default(), IpAddr::from([10, 0, 0, 1]));
        throttle.count(tried("amqp091", peer, b"ann", true));
        assert!(throttle.attempts_by_source().is_empty());
        throttle.track_sources();
        let mapped = IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1]);
        throttle.count(tried("amqp091", mapped, b"ann", true));
        throttle.count(tried("amqp091", peer, b"ann", false));
        for n in 0..2 * SOURCES_MAX {
            throttle.count(tried("http", peer, n.to_string().as_bytes(), false));
        }
        let by_source = throttle.attempts_by_source();
        let of_ann = by_source.get(&(peer, "ann".to_owned(), "amqp091"));
        assert_eq!(of_ann, Some(&Attempts { n_succeeded: 1, n_failed: 1 }));
        assert_eq!(by_source.len(), SOURCES_MAX);
        throttle.forget_attempts();
        assert!(throttle.attempts_by_source().is_empty() && throttle.attempts().is_empty());
    }

    #[test]
    fn guessing_grows_slow_and_nobody_elsewhere_notices() {
        let throttle = LoginThrottle::default();
        let n = guesses(&throttle, |_| "ann".to_owned(), 60_000);
        // Ten in the first second and a bit, then one a second.
        assert!((60..75).contains(&n), "{n} guesses in a minute");
        assert_eq!(
            throttle.admit(ELSEWHERE, b"ann", MonotonicMs::from_raw(60_000)),
            LoginAdmission::After(0)
        );
        // Nor does a user of the same address that is known there, but one that is not.
        throttle.succeeded(HERE, b"bob");
        assert_eq!(
            throttle.admit(HERE, b"bob", MonotonicMs::from_raw(60_000)),
            LoginAdmission::After(0)
        );
        assert!(matches!(
            throttle.admit(HERE, b"eve", MonotonicMs::from_raw(60_000)),
            LoginAdmission::After(1..)
        ));
    }

    #[test]
    fn many_users_from_one_address_are_guessed_no_faster() {
        let throttle = LoginThrottle::default();
        let n = guesses(&throttle, |n| format!("user {n}"), 60_000);
        assert!((70..95).contains(&n), "{n} guesses in a minute");
    }

    #[test]
    fn many_connections_guess_no_faster_than_one() {
        let throttle = LoginThrottle::default();
        guesses(&throttle, |_| "ann".to_owned(), 10_000);
        let admitted =
            (0..1_000).map(|_| throttle.admit(HERE, b"ann", MonotonicMs::from_raw(10_000)));
        let n = admitted.filter(|admission| matches!(admission, LoginAdmission::After(_))).count();
        assert!((4..=6).contains(&n), "{n} of 1,000 passwords are looked at within five seconds");
    }

    #[test]
    fn a_few_failures_cost_nothing_and_a_success_or_a_minute_forgets_them() {
        let throttle = LoginThrottle::default();
        for now_ms in 0..2 {
            throttle.failed(HERE, b"ann", MonotonicMs::from_raw(now_ms));
            assert_eq!(
                throttle.admit(HERE, b"ann", MonotonicMs::from_raw(now_ms)),
                LoginAdmission::After(0)
            );
        }
        throttle.failed(HERE, b"ann", MonotonicMs::from_raw(2));
        assert_eq!(
            throttle.admit(HERE, b"ann", MonotonicMs::from_raw(2)),
            LoginAdmission::After(10)
        );
        throttle.succeeded(HERE, b"ann");
        assert_eq!(
            throttle.admit(HERE, b"ann", MonotonicMs::from_raw(3)),
            LoginAdmission::After(0)
        );
        guesses(&throttle, |_| "ann".to_owned(), 10_000);
        let later_ms = 12_000 + FORGOTTEN_AFTER_MS;
        assert_eq!(
            throttle.admit(HERE, b"ann", MonotonicMs::from_raw(later_ms)),
            LoginAdmission::After(0)
        );
    }

    #[test]
    fn addresses_of_one_network_are_one_place() {
        let ip = |text: &str| text.parse().unwrap();
        assert_eq!(network(ip("2001:db8::1")), network(ip("2001:db8::ffff:1")));
        assert_ne!(network(ip("2001:db8::1")), network(ip("2001:db8:0:1::1")));
        assert_eq!(network(ip("::ffff:10.0.0.1")), HERE);
    }

    #[test]
    fn the_tables_do_not_grow_without_end() {
        let mut recent = Recent::<u8>::new(100);
        for key in 0..10_000 {
            *recent.get_or_default(key) = 1;
            // An entry that is used stays.
            *recent.get_or_default(0) = 2;
        }
        assert!(recent.newer.len() + recent.older.len() <= 200);
        assert_eq!(recent.get(0).copied(), Some(2));
        assert_eq!(recent.get(1), None);
    }
}
