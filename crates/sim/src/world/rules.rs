//! Rules of queues: what they are declared with, and what a policy changes of it while they are used.

use super::Features;
use super::moves::FULL;
use crate::declare::{Arguments, Overflow, bind};
use session::Op;
use testing::Random;

/// The exchange of publishes, and of dead letters, that go to several queues.
pub(super) const SPREAD: &str = "amq.fanout";
/// The exchange of dead letters that go to [`ENDS`].
const LETTERS: &str = "amq.topic";
/// An exchange without bindings, and one that does not exist.
const NOWHERE: [&str; 2] = ["amq.headers", "nowhere"];
/// Queues to publish to.
const QUEUES: [&str; 5] = ["q0", "q1", "q2", "q3", "q4"];
/// Queues that dead letters end in, where others confirm late.
const ENDS: [&str; 2] = ["d0", "d1"];
/// Messages of a queue that is soon full.
const FULL_AT: u64 = 3;
/// The number of quorum queues.
const N_QUORUM: usize = 3;
/// No message waits longer to be tried again.
pub(super) const RETRY_MAX_MS: u64 = 8_000;
/// The delivery limit of a quorum queue that does not say one.
const DELIVERY_LIMIT: u64 = 20;
/// The highest priority a classic queue with priorities has.
const PRIORITY_MAX: u8 = 3;

/// The destination of a queue's dead letters.
#[derive(Clone, Copy, Debug)]
pub(super) enum LettersTo {
    Queue(&'static str),
    Spread,
    Ends,
    Nowhere(&'static str),
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

/// The rules of a queue; those of a classic one that is declared without arguments by default.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a queue's rules are independent of each other")]
pub(super) struct Rules {
    pub(super) is_quorum: bool,
    pub(super) is_transient: bool,
    /// The version of its files; else policies say it.
    version: Option<u64>,
    has_priorities: bool,
    pub(super) is_single_active: bool,
    /// Gets what goes to [`SPREAD`].
    pub(super) on_spread: bool,
    pub(super) ttl_ms: Option<u64>,
    pub(super) expires_ms: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) max_bytes: Option<u64>,
    pub(super) overflow: Overflow,
    /// Negative for none.
    delivery_limit: Option<i64>,
    pub(super) retry: Option<Retry>,
    /// `x-confirm-on`; policies say it where there is none.
    pub(super) confirm_on: Option<&'static str>,
    pub(super) max_pending: Option<u64>,
    pub(super) max_pending_bytes: Option<u64>,
    /// Publishes that wait for consumers are refused while there are none.
    wants_consumer: bool,
    pub(super) letters_to: Option<LettersTo>,
    wants_at_least_once: bool,
}

/// The queues of a run, with their rules.
pub(super) fn queues(random: &mut Random, features: Features) -> Vec<(&'static str, Rules)> {
    if features.sends_on {
        let mut some = |max_length: Option<u64>| {
            let (is_quorum, is_older) = (random.percent(50), random.percent(50));
            let version = (!is_quorum).then_some(if is_older { 1 } else { 2 });
            Rules { is_quorum, version, max_length, overflow: Overflow::Reject, ..Rules::default() }
        };
        return vec![("q0", some(None)), ("q1", some(None)), (FULL, some(Some(FULL_AT)))];
    }
    let quorum = QUEUES.get(..N_QUORUM).unwrap_or_default();
    if features.has_logs {
        let has_rules = features.has_rules;
        let mut some = || {
            if has_rules {
                Rules::quorum(random, quorum)
            } else if features.has_frames && random.percent(60) {
                Rules::classic(random)
            } else {
                Rules { is_quorum: true, ..Rules::default() }
            }
        };
        return quorum.iter().map(|queue| (*queue, some())).collect();
    }
    if !features.confirms_late {
        let n = 2 + random.below(QUEUES.len() - 1);
        return QUEUES.iter().take(n).map(|queue| (*queue, Rules::classic(random))).collect();
    }
    let n = 1 + random.below(QUEUES.len() - 1);
    let names: Vec<&'static str> = QUEUES.iter().take(n).chain(&ENDS).copied().collect();
    // Many runs are without what makes it hard to say what must happen.
    let is_simple = random.percent(50);
    let mut some = |(at, name): (usize, &&'static str)| {
        let later = names.get(at + 1..).unwrap_or_default();
        let mut rules = Rules::late(random, later, is_simple);
        if features.has_tx_and_alarms {
            rules.max_pending_bytes = random.perhaps(30, &[1, 400, 8_000]);
        }
        (*name, rules)
    };
    names.iter().enumerate().map(&mut some).collect()
}

impl Rules {
    fn quorum(random: &mut Random, queues: &[&'static str]) -> Self {
        let nowhere = LettersTo::Nowhere(NOWHERE[1]);
        let to = random.choose(queues).map_or(nowhere, LettersTo::Queue);
        let to = random.choose(&[to, to, to, LettersTo::Spread, nowhere]).unwrap_or(to);
        let wants_at_least_once = random.percent(50);
        let rejects = random.percent(if wants_at_least_once { 80 } else { 30 });
        Self {
            ttl_ms: random.perhaps(30, &[0, 1_000, 5_000]),
            expires_ms: random.perhaps(8, &[4_000, 9_000]),
            max_length: random.perhaps(40, &[0, 1, 3, 10, 30]),
            max_bytes: random.perhaps(12, &[500, 8_000]),
            overflow: if rejects { Overflow::Reject } else { Overflow::DropHead },
            delivery_limit: random.perhaps(40, &[-1, 0, 1, 3]),
            retry: random.percent(25).then(|| Retry::new(random)),
            is_single_active: random.percent(20),
            confirm_on: random.perhaps(15, &["ack"]),
            on_spread: random.percent(40),
            letters_to: random.perhaps(70, &[to]),
            wants_at_least_once,
            is_quorum: true,
            ..Self::default()
        }
    }

    fn classic(random: &mut Random) -> Self {
        let to = random.perhaps(65, &QUEUES);
        let spread = random.percent(15);
        let letters_to = to.map(|to| if spread { LettersTo::Spread } else { LettersTo::Queue(to) });
        Self {
            is_transient: random.percent(15),
            version: random.perhaps(50, &[1, 1, 2]),
            has_priorities: random.percent(30),
            is_single_active: random.percent(20),
            on_spread: random.percent(40),
            ttl_ms: random.perhaps(30, &[0, 1_000, 1_000, 5_000]),
            expires_ms: random.perhaps(8, &[4_000, 9_000]),
            max_length: random.perhaps(30, &[0, 1, 3, 10, 30]),
            max_bytes: random.perhaps(12, &[500, 8_000]),
            overflow: random.choose(&Overflow::ALL).unwrap_or(Overflow::DropHead),
            delivery_limit: random.perhaps(25, &[0, 1, 3]),
            letters_to,
            ..Self::default()
        }
    }

    fn late(random: &mut Random, later: &[&'static str], is_simple: bool) -> Self {
        let is_limited = !is_simple && random.percent(40);
        let percent = |percent| if is_limited { percent } else { 0 };
        let letters_to = match random.below(10) {
            0..3 => random.choose(later).map(LettersTo::Queue),
            3 if later.len() >= ENDS.len() => Some(LettersTo::Ends),
            4 => Some(LettersTo::Nowhere(NOWHERE[0])),
            _ => None,
        };
        Self {
            is_transient: random.percent(20),
            version: Some(if random.percent(25) { 1 } else { 2 }),
            confirm_on: random.perhaps(75, &["ack", "ack", "ack-direct", "ack-direct", "enqueue"]),
            max_pending: random.perhaps(percent(40), &[1, 5, 20]),
            wants_consumer: random.percent(percent(40)),
            ttl_ms: random.perhaps(percent(40), &[0, 1_000, 4_000]),
            max_length: random.perhaps(percent(50), &[0, 1, 4, 15]),
            overflow: random.choose(&Overflow::ALL).unwrap_or(Overflow::DropHead),
            letters_to,
            on_spread: random.percent(60),
            ..Self::default()
        }
    }

    pub(super) fn declare(&self, queue: &str) -> Op {
        let mut arguments = Arguments::default();
        arguments.text("x-queue-type", self.is_quorum.then_some("quorum"));
        arguments.number("x-message-ttl", self.ttl_ms);
        arguments.number("x-expires", self.expires_ms);
        arguments.number("x-max-length", self.max_length);
        arguments.number("x-max-length-bytes", self.max_bytes);
        arguments.text("x-overflow", Some(self.overflow.word()));
        arguments.signed("x-delivery-limit", self.delivery_limit);
        arguments.text("x-delayed-retry-type", self.retry.map(|retry| retry.on));
        arguments.number("x-delayed-retry-min", self.retry.map(|retry| retry.min_ms));
        arguments.number("x-delayed-retry-max", self.retry.map(|retry| retry.max_ms));
        arguments.flag("x-single-active-consumer", self.is_single_active);
        arguments.text("x-confirm-on", self.confirm_on);
        arguments.number("x-confirm-on-max-pending", self.max_pending);
        arguments.number("x-confirm-on-max-pending-bytes", self.max_pending_bytes);
        arguments.text("x-confirm-on-no-consumer", self.wants_consumer.then_some("nack"));
        arguments.number("x-max-priority", self.has_priorities.then_some(PRIORITY_MAX.into()));
        arguments.number("x-queue-version", self.version);
        let (exchange, key) = match self.letters_to {
            Some(LettersTo::Queue(queue)) => (Some(""), Some(queue)),
            Some(LettersTo::Spread) => (Some(SPREAD), None),
            Some(LettersTo::Ends) => (Some(LETTERS), None),
            Some(LettersTo::Nowhere(exchange)) => (Some(exchange), Some("none")),
            None => (None, None),
        };
        arguments.text("x-dead-letter-exchange", exchange);
        arguments.text("x-dead-letter-routing-key", key);
        let at_least_once = self.letters_to.is_some() && self.wants_at_least_once;
        arguments.text("x-dead-letter-strategy", at_least_once.then_some("at-least-once"));
        arguments.declare(queue, !self.is_transient)
    }

    pub(super) fn binds(&self, queue: &str) -> Vec<Op> {
        let spread = self.on_spread.then(|| bind(queue, SPREAD, ""));
        let letters = ENDS.contains(&queue).then(|| bind(queue, LETTERS, "#"));
        spread.into_iter().chain(letters).collect()
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
            None => self.is_quorum.then_some(DELIVERY_LIMIT),
            Some(limit) => u64::try_from(limit).ok(),
        }
    }

    pub(super) const fn is_limited(&self) -> bool {
        self.max_length.is_some() || self.max_bytes.is_some()
    }

    /// Whether it may not take a message, however it confirms.
    pub(super) fn may_refuse(&self) -> bool {
        self.is_limited() && self.overflow != Overflow::DropHead
    }

    /// Whether it may not take a message whose publisher is to wait for a consumer.
    pub(super) const fn may_refuse_to_wait(&self) -> bool {
        self.max_pending.is_some() || self.max_pending_bytes.is_some() || self.wants_consumer
    }

    /// The same of a publish, with so many consumers.
    pub(super) const fn limits_pending(&self, n_consumers: usize) -> bool {
        let is_limited = self.max_pending.is_some() || self.max_pending_bytes.is_some();
        is_limited || (self.wants_consumer && n_consumers == 0)
    }

    /// Whether it drops messages to make room.
    pub(super) fn may_drop(&self) -> bool {
        self.is_limited() && self.overflow == Overflow::DropHead
    }

    /// Whether a message may be dead for want of room, of as many as there ever were.
    pub(super) fn may_be_full(&self, n_ever: u64) -> bool {
        let is_full = self.max_length.is_some_and(|max| n_ever > max) || self.max_bytes.is_some();
        is_full && self.overflow != Overflow::Reject
    }

    /// Whether messages stay until their dead letters have arrived.
    pub(super) fn is_at_least_once(&self) -> bool {
        self.overflow == Overflow::Reject && self.letters_to.is_some() && self.wants_at_least_once
    }

    /// Whether the queue has a record of each message that a consumer holds.
    pub(super) fn always_records(&self, is_late_world: bool) -> bool {
        !is_late_world || matches!(self.confirm_on, Some("ack" | "enqueue"))
    }

    /// How long a message waits that comes back.
    pub(super) fn wait_ms(&self, has_failed: bool, n_failed: u64) -> u64 {
        self.retry.map_or(0, |retry| retry.wait_ms(has_failed, n_failed))
    }

    /// The priority a message of that priority has in it.
    pub(super) fn priority(&self, priority: u8) -> u8 {
        match (self.is_quorum, self.has_priorities) {
            (true, _) => priority,
            (false, true) => priority.min(PRIORITY_MAX),
            (false, false) => 0,
        }
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
