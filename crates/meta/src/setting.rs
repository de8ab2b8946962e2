//! The settings of queues and exchanges, a row each: what sets them, to which values, and what several come
//! to. Knows nothing of a queue or policy that exists. A new queue argument is a row here, and a field of
//! [`QueueSettings`](crate::QueueSettings).

pub(crate) mod argument;
pub(crate) mod policy;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use table::*;
pub use words::{ConfirmOn, DeadLetterStrategy, Overflow, RetryType, WithoutConsumer};

use amqp091::{Table, Value};
use serde_json::{Map, Value as Json};

use crate::queue_type::{QUORUM, QueueType};
use argument::ArgumentRule;
use policy::PolicyRule;

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The argument of `queue.declare`, if there is one.
    argument: Option<(&'static str, ArgumentRule)>,
    /// The key in policies, if policies can set this.
    policy: Option<(&'static str, PolicyRule)>,
    with_policy: Precedence,
    /// The queue types that know the setting: a new type knows none until it is named here.
    types: &'static [&'static QueueType],
    of_quorum: OfQuorum,
}

/// The difference of a setting in quorum queues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfQuorum {
    /// No difference from other queue types.
    Usual,
    /// COMPAT: the argument may be anything; a value that it cannot have counts as missing.
    AnyValue,
    /// The argument has a rule of its own.
    Rule(&'static ArgumentRule),
    /// COMPAT: of an argument and a policy the policy counts.
    PolicyCounts,
}

/// The value that counts of an argument's and a policy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// The argument's, if there is one.
    Argument,
    /// The policy's, if there is one.
    Policy,
    /// The smaller number; negative ones are none.
    Smaller,
}

/// The arguments of one queue and the policies in force for it, read by setting.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) queues: &'static QueueType,
    pub(crate) arguments: &'a Table,
    pub(crate) policy: &'a Map<String, Json>,
}

impl Setting {
    pub(crate) fn argument_name(&self) -> Option<&'static str> {
        self.argument.as_ref().map(|(name, _)| *name)
    }

    pub(crate) fn is_known_to(&self, queues: &QueueType) -> bool {
        self.types.contains(&queues)
    }

    pub(crate) fn policy_key(&self) -> Option<&'static str> {
        self.policy.as_ref().map(|(key, _)| *key)
    }

    /// Whether a value is a number, a text or a flag as those that policies can set.
    pub(crate) fn is_like(&self, value: &Json) -> bool {
        self.policy.as_ref().is_none_or(|(_, rule)| rule.is_like(value))
    }
}

impl<'a> Given<'a> {
    /// The number that counts; what is negative or no number counts as missing.
    pub(crate) fn number(&self, setting: &Setting) -> Option<u64> {
        let argument = self.argument(setting).and_then(Value::as_i64);
        let argument = argument.and_then(|number| u64::try_from(number).ok());
        self.precedence(setting).of(argument, || self.policy(setting).and_then(Json::as_u64))
    }

    /// The limit that counts, or `default` if none is given; a negative one is none.
    pub(crate) fn limit(&self, setting: &Setting, default: Option<u32>) -> Option<u32> {
        let argument = self.argument(setting).and_then(Value::as_i64);
        let policy = self.policy(setting).and_then(Json::as_i64);
        if argument.or(policy).is_none() {
            return default;
        }
        let limits = argument.into_iter().chain(policy);
        limits.filter_map(|limit| u32::try_from(limit).ok()).min()
    }

    /// The text that counts; what is no text counts as missing.
    pub(crate) fn text(&self, setting: &Setting) -> Option<&'a str> {
        let argument = self.argument(setting).and_then(Value::as_str);
        self.precedence(setting).of(argument, || self.policy(setting).and_then(Json::as_str))
    }

    /// The value that the text names; where it names none, the default.
    pub(crate) fn value<T: Default>(&self, setting: &Setting, of_name: fn(&str) -> Option<T>) -> T {
        self.text(setting).and_then(of_name).unwrap_or_default()
    }

    /// The text that counts, which need not be UTF-8 in an argument.
    pub(crate) fn bytes(&self, setting: &Setting) -> Option<&'a [u8]> {
        let argument = self.argument(setting).and_then(Value::as_bytes);
        let policy = || self.policy(setting).and_then(Json::as_str).map(str::as_bytes);
        self.precedence(setting).of(argument, policy)
    }

    /// Whether the flag is set.
    pub(crate) fn is_set(&self, setting: &Setting) -> bool {
        let argument = self.argument(setting).and_then(Value::as_bool);
        let policy = || self.policy(setting).and_then(Json::as_bool);
        self.precedence(setting).of(argument, policy).unwrap_or_default()
    }

    pub(crate) fn precedence(&self, setting: &Setting) -> Precedence {
        let is_other =
            matches!(setting.of_quorum, OfQuorum::PolicyCounts) && *self.queues == QUORUM;
        let is_policy = is_other || self.queues.policy_counts;
        if is_policy { Precedence::Policy } else { setting.with_policy }
    }

    fn argument(&self, setting: &Setting) -> Option<&'a Value> {
        self.arguments.get(setting.argument_name()?.as_bytes())
    }

    fn policy(&self, setting: &Setting) -> Option<&'a Json> {
        self.policy.get(setting.policy_key()?)
    }
}

impl Precedence {
    fn of<T: Ord>(self, argument: Option<T>, policy: impl FnOnce() -> Option<T>) -> Option<T> {
        match self {
            Self::Argument => argument.or_else(policy),
            Self::Policy => policy().or(argument),
            Self::Smaller => argument.into_iter().chain(policy()).min(),
        }
    }
}
