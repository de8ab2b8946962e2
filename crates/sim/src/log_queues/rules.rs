//! Rules of quorum queues: what they are declared with, and what a policy changes of it while they are used.

use crate::declare::{Arguments, bind};
use session::Op;
use testing::Random;

/// The exchange of dead letters that may go to several queues.
const FANOUT: &str = "amq.fanout";
/// An exchange that does not exist.
const NOWHERE: &str = "nowhere";
/// No message waits longer to be tried again.
pub(super) const RETRY_MAX_MS: u64 = 8_000;
/// The delivery limit of a queue that does not say one.
const DELIVERY_LIMIT: u64 = 20;

/// The destination of a queue's dead letters.
#[derive(Clone, Copy, Debug)]
pub(super) enum LettersTo {
    Queue(&'static str),
    Fanout,
    Nowhere,
}

/// The fate of messages that nobody is to be given any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters {
    pub(super) to: LettersTo,
    wants_at_least_once: bool,
}

/// Waiting before a message is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    on: &'static str,
    min_ms: u64,
    max_ms: u64,
}

impl Retry {
    fn new(random: &mut Random) -> Self {
        let on = random.choose(&["all", "failed", "returned"]).unwrap_or("all");
        let max_ms = random.choose(&[2_000, RETRY_MAX_MS]).unwrap_or(RETRY_MAX_MS);
        Self { on, min_ms: random.choose(&[1_000, 2_000]).unwrap_or(1_000), max_ms }
    }

    fn wait_ms(&self, has_failed: bool, n_failed: u64) -> u64 {
        let waits = self.on == "all" || (self.on == "failed") == has_failed;
        if waits { self.max_ms.min(self.min_ms * n_failed.max(1)) } else { 0 }
    }
}

/// The rules of a quorum queue; those of one that is declared without arguments by default.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a queue's rules are independent of each other")]
pub(super) struct Rules {
    pub(super) ttl_ms: Option<u64>,
    pub(super) expires_ms: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) max_bytes: Option<u64>,
    pub(super) rejects: bool,
    /// Negative for none.
    delivery_limit: Option<i64>,
    pub(super) retry: Option<Retry>,
    pub(super) is_single_active: bool,
    /// Confirms once a consumer has acknowledged.
    pub(super) confirms_late: bool,
    /// Gets what goes to [`FANOUT`].
    pub(super) on_fanout: bool,
    pub(super) letters: Option<Letters>,
}

impl Rules {
    pub(super) fn new(random: &mut Random, queues: &[&'static str]) -> Self {
        let to = random.choose(queues).map_or(LettersTo::Nowhere, LettersTo::Queue);
        let to = random.choose(&[to, to, to, LettersTo::Fanout, LettersTo::Nowhere]).unwrap_or(to);
        let wants_at_least_once = random.percent(50);
        let letters = random.perhaps(70, &[Letters { to, wants_at_least_once }]);
        Self {
            ttl_ms: random.perhaps(30, &[0, 1_000, 5_000]),
            expires_ms: random.perhaps(8, &[4_000, 9_000]),
            max_length: random.perhaps(40, &[0, 1, 3, 10, 30]),
            max_bytes: random.perhaps(12, &[500, 8_000]),
            rejects: random.percent(if wants_at_least_once { 80 } else { 30 }),
            delivery_limit: random.perhaps(40, &[-1, 0, 1, 3]),
            retry: random.percent(25).then(|| Retry::new(random)),
            is_single_active: random.percent(20),
            confirms_late: random.percent(15),
            on_fanout: random.percent(40),
            letters,
        }
    }

    pub(super) fn declare(&self, queue: &str) -> Op {
        let mut arguments = Arguments::default();
        arguments.text("x-queue-type", Some("quorum"));
        arguments.number("x-message-ttl", self.ttl_ms);
        arguments.number("x-expires", self.expires_ms);
        arguments.number("x-max-length", self.max_length);
        arguments.number("x-max-length-bytes", self.max_bytes);
        arguments.text("x-overflow", self.rejects.then_some("reject-publish"));
        arguments.signed("x-delivery-limit", self.delivery_limit);
        arguments.text("x-delayed-retry-type", self.retry.map(|retry| retry.on));
        arguments.number("x-delayed-retry-min", self.retry.map(|retry| retry.min_ms));
        arguments.number("x-delayed-retry-max", self.retry.map(|retry| retry.max_ms));
        arguments.flag("x-single-active-consumer", self.is_single_active);
        arguments.text("x-confirm-on", self.confirms_late.then_some("ack"));
        let (exchange, key) = match self.letters.map(|letters| letters.to) {
            Some(LettersTo::Queue(queue)) => (Some(""), Some(queue)),
            Some(LettersTo::Fanout) => (Some(FANOUT), None),
            Some(LettersTo::Nowhere) => (Some(NOWHERE), None),
            None => (None, None),
        };
        arguments.text("x-dead-letter-exchange", exchange);
        arguments.text("x-dead-letter-routing-key", key);
        let at_least_once = self.letters.is_some_and(|letters| letters.wants_at_least_once);
        arguments.text("x-dead-letter-strategy", at_least_once.then_some("at-least-once"));
        arguments.declare(queue, true)
    }

    pub(super) fn bind(&self, queue: &str) -> Option<Op> {
        self.on_fanout.then(|| bind(queue, FANOUT, ""))
    }

    /// These arguments with that policy.
    pub(super) fn with(&self, policy: &Policy) -> Self {
        Self {
            ttl_ms: smaller(self.ttl_ms, policy.ttl_ms),
            max_length: smaller(self.max_length, policy.max_length),
            delivery_limit: smaller_limit(self.delivery_limit, policy.delivery_limit),
            retry: self.retry_with(policy),
            ..*self
        }
    }

    fn retry_with(&self, policy: &Policy) -> Option<Retry> {
        let (Some(own), Some(others)) = (self.retry, policy.retry) else {
            return policy.retry.or(self.retry);
        };
        let (min_ms, max_ms) = (own.min_ms.min(others.min_ms), own.max_ms.min(others.max_ms));
        Some(Retry { on: others.on, min_ms, max_ms })
    }

    /// How often a delivery may fail; `None` for no limit.
    pub(super) fn delivery_limit(&self) -> Option<u64> {
        match self.delivery_limit {
            None => Some(DELIVERY_LIMIT),
            Some(limit) => u64::try_from(limit).ok(),
        }
    }

    pub(super) const fn is_limited(&self) -> bool {
        self.max_length.is_some() || self.max_bytes.is_some()
    }

    /// Whether it may not take a message.
    pub(super) const fn may_refuse(&self) -> bool {
        self.is_limited() && self.rejects
    }

    /// Whether it drops messages to make room.
    pub(super) const fn may_drop(&self) -> bool {
        self.is_limited() && !self.rejects
    }

    /// Whether messages stay until their dead letters have arrived.
    pub(super) fn is_at_least_once(&self) -> bool {
        self.rejects && self.letters.is_some_and(|letters| letters.wants_at_least_once)
    }

    /// How long a message waits that comes back.
    pub(super) fn wait_ms(&self, has_failed: bool, n_failed: u64) -> u64 {
        self.retry.map_or(0, |retry| retry.wait_ms(has_failed, n_failed))
    }
}

fn smaller<N: Ord>(a: Option<N>, b: Option<N>) -> Option<N> {
    a.into_iter().chain(b).min()
}

/// The smaller limit; a negative one is none.
fn smaller_limit(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    let limits = || a.into_iter().chain(b);
    limits().filter(|limit| *limit >= 0).min().or_else(|| limits().min())
}

/// A policy for quorum queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    ttl_ms: Option<u64>,
    max_length: Option<u64>,
    delivery_limit: Option<i64>,
    retry: Option<Retry>,
}

impl Policy {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            ttl_ms: random.perhaps(40, &[0, 1_000, 5_000]),
            max_length: random.perhaps(70, &[0, 2, 10]),
            delivery_limit: random.perhaps(40, &[-1, 0, 2]),
            retry: random.percent(30).then(|| Retry::new(random)),
        }
    }

    pub(super) fn definition(&self) -> String {
        let number = |key: &str, value: Option<u64>| value.map(|it| format!("\"{key}\":{it}"));
        let keys = [
            // A policy says something.
            Some("\"max-length-bytes\":1000000".to_owned()),
            number("message-ttl", self.ttl_ms),
            number("max-length", self.max_length),
            self.delivery_limit.map(|limit| format!("\"delivery-limit\":{limit}")),
            self.retry.map(|retry| format!("\"delayed-retry-type\":\"{}\"", retry.on)),
            number("delayed-retry-min", self.retry.map(|retry| retry.min_ms)),
            number("delayed-retry-max", self.retry.map(|retry| retry.max_ms)),
        ];
        format!("{{{}}}", keys.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}
