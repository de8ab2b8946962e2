//! Queues with random rules, and what these rules let happen.

use crate::declare::{Arguments, Overflow, bind};
use session::Op;
use testing::Random;

pub(super) const QUEUES: &[&str] = &["q0", "q1", "q2", "q3", "q4"];
/// The exchange of dead letters that may go to several queues.
pub(super) const FANOUT: &str = "amq.fanout";
/// The highest priority a queue with priorities has.
pub(super) const PRIORITY_MAX: u8 = 3;

/// The destination of a queue's dead letters.
#[derive(Clone, Copy, Debug)]
pub(super) enum LettersTo {
    Queue(&'static str),
    Fanout,
}

/// A queue as it is declared.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a queue's rules are independent of each other")]
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) durable: bool,
    /// The form it is always to have; else policies say it.
    pub(super) version: Option<u64>,
    pub(super) has_priorities: bool,
    pub(super) is_single_active: bool,
    /// Gets what goes to [`FANOUT`].
    pub(super) on_fanout: bool,
    pub(super) ttl_ms: Option<u64>,
    pub(super) expires_ms: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) max_bytes: Option<u64>,
    pub(super) overflow: Overflow,
    pub(super) delivery_limit: Option<u32>,
    pub(super) letters_to: Option<LettersTo>,
}

impl Spec {
    pub(super) fn new(random: &mut Random, name: &'static str) -> Self {
        let letters_to = random
            .perhaps(65, QUEUES)
            .map(|to| if random.percent(15) { LettersTo::Fanout } else { LettersTo::Queue(to) });
        Self {
            name,
            durable: random.percent(85),
            version: random.perhaps(50, &[1, 1, 2]),
            has_priorities: random.percent(30),
            is_single_active: random.percent(20),
            on_fanout: random.percent(40),
            ttl_ms: random.perhaps(30, &[0, 1_000, 1_000, 5_000]),
            expires_ms: random.perhaps(8, &[4_000, 9_000]),
            max_length: random.perhaps(30, &[0, 1, 3, 10, 30]),
            max_bytes: random.perhaps(12, &[500, 8_000]),
            overflow: random.choose(&Overflow::ALL).unwrap_or(Overflow::DropHead),
            delivery_limit: random.perhaps(25, &[0, 1, 3]),
            letters_to,
        }
    }

    pub(super) fn declare(&self) -> Op {
        let mut arguments = Arguments::default();
        arguments.number("x-message-ttl", self.ttl_ms);
        arguments.number("x-expires", self.expires_ms);
        arguments.number("x-max-length", self.max_length);
        arguments.number("x-max-length-bytes", self.max_bytes);
        let priorities = self.has_priorities.then_some(u64::from(PRIORITY_MAX));
        arguments.number("x-max-priority", priorities);
        arguments.number("x-delivery-limit", self.delivery_limit.map(u64::from));
        arguments.number("x-queue-version", self.version);
        arguments.text("x-overflow", Some(self.overflow.word()));
        arguments.flag("x-single-active-consumer", self.is_single_active);
        let (exchange, key) = match self.letters_to {
            Some(LettersTo::Queue(queue)) => (Some(""), Some(queue)),
            Some(LettersTo::Fanout) => (Some(FANOUT), None),
            None => (None, None),
        };
        arguments.text("x-dead-letter-exchange", exchange);
        arguments.text("x-dead-letter-routing-key", key);
        arguments.declare(self.name, self.durable)
    }

    pub(super) fn bind(&self) -> Option<Op> {
        self.on_fanout.then(|| bind(self.name, FANOUT, ""))
    }

    pub(super) const fn is_limited(&self) -> bool {
        self.max_length.is_some() || self.max_bytes.is_some()
    }

    /// Whether it may not take a message.
    pub(super) fn may_refuse(&self) -> bool {
        self.is_limited() && self.overflow != Overflow::DropHead
    }

    /// Whether it drops messages to make room.
    pub(super) fn may_drop(&self) -> bool {
        self.is_limited() && self.overflow == Overflow::DropHead
    }

    /// The priority a message of that priority has in it.
    pub(super) fn priority(&self, priority: u8) -> u8 {
        if self.has_priorities { priority.min(PRIORITY_MAX) } else { 0 }
    }
}
