//! Queues with random rules, and what these rules let happen.

use super::short;
use crate::random::Random;
use session::{Op, QueueBinding, QueueDeclare, Table};

pub(super) const QUEUES: &[&str] = &["q0", "q1", "q2", "q3", "q4"];
/// Where dead letters go that may have several queues.
pub(super) const FANOUT: &str = "amq.fanout";
/// The highest priority a queue with priorities has.
pub(super) const PRIORITY_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overflow {
    DropHead,
    Reject,
    RejectAndLetter,
}

/// Where a queue's dead letters go.
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

/// `Some` of one of `values` in so many of a hundred cases.
fn perhaps<T: Clone>(random: &mut Random, percent: usize, values: &[T]) -> Option<T> {
    if random.percent(percent) { random.choose(values) } else { None }
}

impl Spec {
    pub(super) fn new(random: &mut Random, name: &'static str) -> Self {
        let letters_to = perhaps(random, 65, QUEUES)
            .map(|to| if random.percent(15) { LettersTo::Fanout } else { LettersTo::Queue(to) });
        let overflows = [Overflow::DropHead, Overflow::Reject, Overflow::RejectAndLetter];
        Self {
            name,
            durable: random.percent(85),
            version: perhaps(random, 50, &[1, 1, 2]),
            has_priorities: random.percent(30),
            is_single_active: random.percent(20),
            on_fanout: random.percent(40),
            ttl_ms: perhaps(random, 30, &[0, 1_000, 1_000, 5_000]),
            expires_ms: perhaps(random, 8, &[4_000, 9_000]),
            max_length: perhaps(random, 30, &[0, 1, 3, 10, 30]),
            max_bytes: perhaps(random, 12, &[500, 8_000]),
            overflow: random.choose(&overflows).unwrap_or(Overflow::DropHead),
            delivery_limit: perhaps(random, 25, &[0, 1, 3]),
            letters_to,
        }
    }

    pub(super) fn declare(&self) -> Op {
        let mut arguments = Table::default();
        let mut put = |name, value: Option<u64>| {
            if let Some(value) = value {
                arguments.push(short(name), i64::try_from(value).unwrap_or(i64::MAX));
            }
        };
        put("x-message-ttl", self.ttl_ms);
        put("x-expires", self.expires_ms);
        put("x-max-length", self.max_length);
        put("x-max-length-bytes", self.max_bytes);
        put("x-max-priority", self.has_priorities.then_some(u64::from(PRIORITY_MAX)));
        put("x-delivery-limit", self.delivery_limit.map(u64::from));
        put("x-queue-version", self.version);
        let overflow = match self.overflow {
            Overflow::DropHead => "drop-head",
            Overflow::Reject => "reject-publish",
            Overflow::RejectAndLetter => "reject-publish-dlx",
        };
        arguments.push(short("x-overflow"), overflow);
        if self.is_single_active {
            arguments.push(short("x-single-active-consumer"), true);
        }
        match self.letters_to {
            Some(LettersTo::Queue(queue)) => {
                arguments.push(short("x-dead-letter-exchange"), "");
                arguments.push(short("x-dead-letter-routing-key"), queue);
            }
            Some(LettersTo::Fanout) => arguments.push(short("x-dead-letter-exchange"), FANOUT),
            None => {}
        }
        Op::QueueDeclare(QueueDeclare {
            queue: short(self.name),
            passive: false,
            durable: self.durable,
            exclusive: false,
            auto_delete: false,
            arguments,
        })
    }

    pub(super) fn bind(&self) -> Option<Op> {
        self.on_fanout.then(|| {
            Op::QueueBind(QueueBinding {
                queue: short(self.name),
                exchange: short(FANOUT),
                routing_key: short(""),
                arguments: Table::default(),
            })
        })
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
