//! Queues that confirm late, or not, and what may become of the messages in them.

use super::Kind;
use crate::declare::{Arguments, Overflow, bind};
use session::Op;
use testing::Random;

/// Queues to publish to; dead letters go to later ones only.
pub(super) const QUEUES: &[&str] = &["q0", "q1", "q2", "q3", "d0", "d1"];
/// The number of queues that exist in every world, beside the first of the others.
const N_ENDS: usize = 2;
/// The exchange of publishes to several queues.
pub(super) const SPREAD: &str = "amq.fanout";
/// The exchange of dead letters that may go to several queues.
const LETTERS: &str = "amq.topic";
/// An exchange without bindings.
const NOWHERE: &str = "amq.headers";

/// A queue as it is declared.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a queue's rules are independent of each other")]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) durable: bool,
    is_older: bool,
    /// `x-confirm-on`; policies say it where there is none.
    pub(super) confirm_on: Option<&'static str>,
    pub(super) max_pending: Option<u64>,
    pub(super) max_pending_bytes: Option<u64>,
    /// Publishes are refused while nobody consumes.
    pub(super) wants_consumer: bool,
    pub(super) ttl_ms: Option<u64>,
    max_length: Option<u64>,
    overflow: Overflow,
    /// The queues its dead letters go to, which may be none; `None` if it has no dead letters.
    pub(super) letters_to: Option<Vec<&'static str>>,
    /// Gets what goes to [`SPREAD`].
    pub(super) on_spread: bool,
}

/// The queues of a world.
pub(super) fn specs(random: &mut Random, kind: Kind) -> Vec<Spec> {
    let (queues, ends) = QUEUES.split_at(QUEUES.len() - N_ENDS);
    let n_queues = 1 + random.below(queues.len());
    let names: Vec<&'static str> = queues.iter().take(n_queues).chain(ends).copied().collect();
    // Many worlds are without what makes it hard to say what must happen.
    let is_simple = random.percent(50);
    (0..names.len())
        .filter_map(|at| {
            let (name, behind) = names.get(at..)?.split_first()?;
            let mut spec = Spec::new(random, name, behind, is_simple);
            if kind == Kind::TxAndAlarms {
                spec.max_pending_bytes = random.perhaps(30, &[1, 400, 8_000]);
            }
            Some(spec)
        })
        .collect()
}

impl Spec {
    fn new(
        random: &mut Random,
        name: &'static str,
        behind: &[&'static str],
        is_simple: bool,
    ) -> Self {
        let is_limited = !is_simple && random.percent(40);
        let percent = |percent| if is_limited { percent } else { 0 };
        let letters_to = match random.below(10) {
            0..3 => random.choose(behind).map(|to| vec![to]),
            3 if !name.starts_with('d') => Some(vec!["d0", "d1"]),
            4 => Some(Vec::new()),
            _ => None,
        };
        Self {
            name,
            durable: random.percent(80),
            is_older: random.percent(25),
            confirm_on: random.perhaps(75, &["ack", "ack", "ack-direct", "ack-direct", "enqueue"]),
            max_pending: random.perhaps(percent(40), &[1, 5, 20]),
            max_pending_bytes: None,
            wants_consumer: random.percent(percent(40)),
            ttl_ms: random.perhaps(percent(40), &[0, 1_000, 4_000]),
            max_length: random.perhaps(percent(50), &[0, 1, 4, 15]),
            overflow: random.choose(&Overflow::ALL).unwrap_or(Overflow::DropHead),
            letters_to,
            on_spread: random.percent(60),
        }
    }

    pub(super) fn declare(&self) -> Op {
        let mut arguments = Arguments::default();
        arguments.number("x-confirm-on-max-pending", self.max_pending);
        arguments.number("x-confirm-on-max-pending-bytes", self.max_pending_bytes);
        arguments.number("x-message-ttl", self.ttl_ms);
        arguments.number("x-max-length", self.max_length);
        arguments.number("x-queue-version", Some(if self.is_older { 1 } else { 2 }));
        arguments.text("x-overflow", Some(self.overflow.word()));
        arguments.text("x-confirm-on", self.confirm_on);
        let without = if self.wants_consumer { "nack" } else { "wait" };
        arguments.text("x-confirm-on-no-consumer", Some(without));
        let (exchange, key) = match self.letters_to.as_deref() {
            None => (None, None),
            Some([]) => (Some(NOWHERE), Some("none")),
            Some([one]) => (Some(""), Some(*one)),
            Some([..]) => (Some(LETTERS), None),
        };
        arguments.text("x-dead-letter-exchange", exchange);
        arguments.text("x-dead-letter-routing-key", key);
        arguments.declare(self.name, self.durable)
    }

    pub(super) fn binds(&self) -> Vec<Op> {
        let spread = self.on_spread.then(|| bind(self.name, SPREAD, ""));
        let letters = self.name.starts_with('d').then(|| bind(self.name, LETTERS, "#"));
        spread.into_iter().chain(letters).collect()
    }

    const fn is_limited(&self) -> bool {
        self.max_length.is_some()
    }

    /// Whether it may not take a message however it confirms.
    pub(super) fn may_refuse(&self) -> bool {
        self.is_limited() && self.overflow != Overflow::DropHead
    }

    /// Whether no more than some publishes may wait for its consumers.
    pub(super) const fn limits_pending(&self) -> bool {
        self.max_pending.is_some() || self.max_pending_bytes.is_some()
    }

    /// Whether messages leave it without anybody's doing.
    pub(super) fn may_drop(&self) -> bool {
        self.ttl_ms.is_some() || (self.is_limited() && self.overflow == Overflow::DropHead)
    }

    /// Whether a policy says how it confirms.
    pub(super) const fn heeds_policies(&self) -> bool {
        self.confirm_on.is_none()
    }
}
