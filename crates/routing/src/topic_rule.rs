//! The rule of a binding of an `x-jms-topic` exchange: which messages it leads on.

use crate::error::BindingError;
use crate::message::Message;
use crate::selector::{Selector, Steps, Unusable};
use amqp091::{Table, Value};

/// The arguments of a binding that hold a selector: as SQL, or as RabbitMQ's JMS client sends it.
pub const SQL_SELECTOR: &str = "rabbitmq_jms_selector";
const TERM_SELECTOR: &[u8] = b"rjms_erlang_selector";
/// The argument of a binding that makes its key count: only messages with this key are led on.
pub const MATCH_KEY: &str = "x-jms-match-key";
/// The argument of a binding that names the container of a client of AMQP 1.0 whose messages are not led on.
pub const NO_LOCAL: &str = "x-jms-no-local";

/// The beginning of a selector that is told back, in bytes.
const TOLD_BYTES_MAX: usize = 128;

/// The rule of a binding.
#[derive(Clone, Debug)]
pub(crate) struct TopicRule {
    pub(crate) selector: Option<Selector>,
    pub(crate) matches_key: bool,
    no_local: Option<Box<[u8]>>,
}

impl TopicRule {
    /// Reads the arguments of a binding. COMPAT: a binding without a selector leads no message on, unless its
    /// key counts.
    pub(crate) fn read(arguments: &Table) -> Result<Option<Box<Self>>, BindingError> {
        let text = |name: &[u8]| arguments.get(name).and_then(Value::as_bytes);
        let read = match (text(SQL_SELECTOR.as_bytes()), text(TERM_SELECTOR)) {
            (Some(text), _) => Some((text, Selector::of_sql(text))),
            (None, Some(text)) => Some((text, Selector::of_term(text))),
            (None, None) => None,
        };
        let selector = read.map(|(text, selector)| {
            selector.map_err(|Unusable(reason)| BindingError::Selector(told(text), reason))
        });
        let selector = selector.transpose()?;
        let matches_key = arguments.get(MATCH_KEY.as_bytes()) == Some(&Value::Bool(true));
        let no_local = text(NO_LOCAL.as_bytes()).map(Box::from);
        let is_rule = selector.is_some() || matches_key;
        Ok(is_rule.then(|| Box::new(Self { selector, matches_key, no_local })))
    }

    /// Whether nothing but the key counts.
    pub(crate) const fn is_of_key_alone(&self) -> bool {
        self.matches_key && self.selector.is_none() && self.no_local.is_none()
    }

    /// Whether the rule leads on a message, of which the key has been looked at.
    pub(crate) fn selects(&self, message: &Message<'_>, steps: &mut Steps) -> bool {
        let is_foreign = self.no_local.is_none() || self.no_local.as_deref() != message.container;
        is_foreign && self.selector.as_ref().is_none_or(|it| it.matches(message, steps))
    }
}

/// The selector as a refusal tells it.
fn told(text: &[u8]) -> String {
    let mut told = String::from_utf8_lossy(text).into_owned();
    if told.len() > TOLD_BYTES_MAX {
        told.truncate(told.floor_char_boundary(TOLD_BYTES_MAX));
        told.push_str("..");
    }
    told
}
