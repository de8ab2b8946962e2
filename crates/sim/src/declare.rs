//! Declarations of queues, as several worlds make them.

use crate::client::short;
use session::{Op, QueueBinding, QueueDeclaration, Table};

/// The overflow behaviour of a full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    Reject,
    RejectAndLetter,
}

impl Overflow {
    pub(crate) const ALL: [Self; 3] = [Self::DropHead, Self::Reject, Self::RejectAndLetter];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::DropHead => "drop-head",
            Self::Reject => "reject-publish",
            Self::RejectAndLetter => "reject-publish-dlx",
        }
    }
}

/// Arguments of a queue; those without a value are left out.
#[derive(Default)]
pub(crate) struct Arguments(Table);

impl Arguments {
    pub(crate) fn number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.0.push(short(name), i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn signed(&mut self, name: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.0.push(short(name), value);
        }
    }

    pub(crate) fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push(short(name), value);
        }
    }

    pub(crate) fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.0.push(short(name), true);
        }
    }

    pub(crate) fn declare(self, queue: &str, durable: bool) -> Op {
        Op::DeclareQueue(QueueDeclaration {
            queue: short(queue),
            passive: false,
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: self.0,
        })
    }
}

pub(crate) fn bind(queue: &str, exchange: &str, routing_key: &str) -> Op {
    Op::BindQueue(QueueBinding {
        queue: short(queue),
        exchange: short(exchange),
        routing_key: short(routing_key),
        arguments: Table::default(),
    })
}
