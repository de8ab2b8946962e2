//! Methods of an open channel as requests.

use crate::outbox::{DeliveryTag, Settlement};
use amqp091::method::{AccessRequestOk, ChannelFlowOk};
use amqp091::{Method, TableRef};
use session::{
    Attachment, Error, ErrorKind, ExchangeBinding, ExchangeDeclaration, Flag, Op, Outcome,
    QueueBinding, QueueDeclaration, ShortString, Table,
};

/// The request that a method on a channel makes.
#[derive(Debug)]
pub(super) enum Asked {
    /// An operation for the broker, which gives no answer when the flag is set.
    Do(Op, Flag),
    /// A settlement of deliveries.
    Settle(Settlement),
    /// The opening of the channel.
    Open,
    /// The closing of the channel.
    Close,
    /// No operation: the answer is known already.
    Answer(Method<'static>),
    /// No operation and no answer.
    Ignore,
}

/// Takes a method apart, other than the two that come with every message: `basic.publish` and
/// `basic.ack` are taken on a shorter way.
///
/// # Errors
/// The method is forbidden by the protocol: the broker does not hear of it.
pub(super) fn asked(method: &Method<'_>) -> Result<Asked, Error> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else only servers send")]
    Ok(match method {
        Method::BasicNack(nack) => {
            let outcome = if nack.requeue { Outcome::Released } else { Outcome::Rejected };
            settle(nack.delivery_tag, nack.multiple, outcome)
        }
        Method::BasicReject(reject) => {
            let outcome = if reject.requeue { Outcome::Modified } else { Outcome::Rejected };
            settle(reject.delivery_tag, false, outcome)
        }
        Method::ChannelOpen(_) => Asked::Open,
        Method::ChannelClose(_) => Asked::Close,
        // The close of ours that it answers is no longer known, or the channel was opened again.
        Method::ChannelCloseOk(_) | Method::ChannelFlowOk(_) | Method::BasicCancelOk(_) => {
            Asked::Ignore
        }
        Method::ChannelFlow(flow) if !flow.active => return Err(not_implemented("active=false")),
        Method::ChannelFlow(_) => Asked::Answer(ChannelFlowOk { active: true }.into()),
        Method::AccessRequest(_) => Asked::Answer(AccessRequestOk { ticket: 1 }.into()),
        Method::ExchangeDeclare(_)
        | Method::ExchangeDelete(_)
        | Method::ExchangeBind(_)
        | Method::ExchangeUnbind(_) => return exchange(method),
        Method::QueueDeclare(_)
        | Method::QueueBind(_)
        | Method::QueueUnbind(_)
        | Method::QueuePurge(_)
        | Method::QueueDelete(_) => return queue(method),
        Method::ConfirmSelect(select) => {
            Asked::Do(Op::EnableConfirms, Flag::from_bool(select.no_wait))
        }
        Method::TxSelect(_) => Asked::Do(Op::EnableTransactions, Flag::No),
        Method::TxCommit(_) => Asked::Do(Op::Commit, Flag::No),
        Method::TxRollback(_) => Asked::Do(Op::RollBack, Flag::No),
        Method::BasicQos(_)
        | Method::BasicConsume(_)
        | Method::BasicCancel(_)
        | Method::BasicGet(_)
        | Method::BasicRecover(_)
        | Method::BasicRecoverAsync(_) => return consuming(method),
        _ => return Err(unimplemented_method()),
    })
}

fn exchange(method: &Method<'_>) -> Result<Asked, Error> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "called for methods of one class only")]
    Ok(match method {
        Method::ExchangeDeclare(declare) => Asked::Do(
            Op::DeclareExchange(ExchangeDeclaration {
                exchange: short(declare.exchange)?,
                kind: short(declare.kind)?,
                passive: declare.passive,
                durable: declare.durable,
                auto_delete: declare.auto_delete,
                internal: declare.internal,
                arguments: table(declare.arguments)?,
            }),
            Flag::from_bool(declare.no_wait),
        ),
        Method::ExchangeDelete(delete) => Asked::Do(
            Op::DeleteExchange { exchange: short(delete.exchange)?, if_unused: delete.if_unused },
            Flag::from_bool(delete.no_wait),
        ),
        Method::ExchangeBind(bind) => Asked::Do(
            Op::BindExchange(ExchangeBinding {
                destination: short(bind.destination)?,
                source: short(bind.source)?,
                routing_key: short(bind.routing_key)?,
                arguments: table(bind.arguments)?,
            }),
            Flag::from_bool(bind.no_wait),
        ),
        Method::ExchangeUnbind(unbind) => Asked::Do(
            Op::UnbindExchange(ExchangeBinding {
                destination: short(unbind.destination)?,
                source: short(unbind.source)?,
                routing_key: short(unbind.routing_key)?,
                arguments: table(unbind.arguments)?,
            }),
            Flag::from_bool(unbind.no_wait),
        ),
        _ => return Err(unimplemented_method()),
    })
}

fn queue(method: &Method<'_>) -> Result<Asked, Error> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "called for methods of one class only")]
    Ok(match method {
        Method::QueueDeclare(declare) => Asked::Do(
            Op::DeclareQueue(QueueDeclaration {
                queue: short(declare.queue)?,
                passive: declare.passive,
                durable: declare.durable,
                exclusive: declare.exclusive,
                auto_delete: declare.auto_delete,
                arguments: table(declare.arguments)?,
            }),
            Flag::from_bool(declare.no_wait),
        ),
        Method::QueueBind(bind) => Asked::Do(
            Op::BindQueue(QueueBinding {
                queue: short(bind.queue)?,
                exchange: short(bind.exchange)?,
                routing_key: short(bind.routing_key)?,
                arguments: table(bind.arguments)?,
            }),
            Flag::from_bool(bind.no_wait),
        ),
        Method::QueueUnbind(unbind) => Asked::Do(
            Op::UnbindQueue(QueueBinding {
                queue: short(unbind.queue)?,
                exchange: short(unbind.exchange)?,
                routing_key: short(unbind.routing_key)?,
                arguments: table(unbind.arguments)?,
            }),
            Flag::No,
        ),
        Method::QueuePurge(purge) => {
            // COMPAT: a purge takes the name as it is.
            let queue = short(purge.queue)?;
            Asked::Do(Op::PurgeQueue { queue }, Flag::from_bool(purge.no_wait))
        }
        Method::QueueDelete(delete) => Asked::Do(
            Op::DeleteQueue {
                queue: short(delete.queue)?,
                if_unused: Flag::from_bool(delete.if_unused),
                if_empty: Flag::from_bool(delete.if_empty),
            },
            Flag::from_bool(delete.no_wait),
        ),
        _ => return Err(unimplemented_method()),
    })
}

fn consuming(method: &Method<'_>) -> Result<Asked, Error> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "called for these methods only")]
    Ok(match method {
        Method::BasicQos(qos) if qos.prefetch_size != 0 => {
            let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Error::new(ErrorKind::NotImplemented, text));
        }
        Method::BasicQos(qos) => Asked::Do(
            Op::SetPrefetch { prefetch_count: qos.prefetch_count, global: qos.global },
            Flag::No,
        ),
        Method::BasicConsume(consume) => Asked::Do(
            Op::Attach(Attachment {
                queue: short(consume.queue)?,
                consumer_tag: short(consume.consumer_tag)?,
                no_ack: consume.no_ack,
                source: None,
                exclusive: consume.exclusive,
                arguments: table(consume.arguments)?,
            }),
            Flag::from_bool(consume.no_wait),
        ),
        Method::BasicCancel(cancel) => Asked::Do(
            Op::Detach { consumer_tag: short(cancel.consumer_tag)? },
            Flag::from_bool(cancel.no_wait),
        ),
        Method::BasicGet(get) => {
            Asked::Do(Op::Get { queue: short(get.queue)?, no_ack: get.no_ack }, Flag::No)
        }
        Method::BasicRecover(recover) if recover.requeue => {
            Asked::Do(Op::ReleaseUnsettled, Flag::No)
        }
        Method::BasicRecoverAsync(recover) if recover.requeue => {
            Asked::Do(Op::ReleaseUnsettled, Flag::No)
        }
        Method::BasicRecover(_) | Method::BasicRecoverAsync(_) => {
            return Err(not_implemented("requeue=false"));
        }
        _ => return Err(unimplemented_method()),
    })
}

const fn settle(tag: u64, multiple: bool, outcome: Outcome) -> Asked {
    Asked::Settle(Settlement { tag: DeliveryTag::new(tag, multiple), outcome })
}

pub(super) fn not_implemented(text: &'static str) -> Error {
    Error::new(ErrorKind::NotImplemented, text)
}

/// COMPAT: RabbitMQ's text for methods that only servers send.
fn unimplemented_method() -> Error {
    Error::new(ErrorKind::CommandInvalid, "unimplemented method")
}

fn short(bytes: &[u8]) -> Result<ShortString, Error> {
    ShortString::new(bytes).map_err(|error| Error::new(ErrorKind::SyntaxError, error.to_string()))
}

fn table(table: TableRef<'_>) -> Result<Table, Error> {
    table.to_owned().map_err(|error| Error::new(ErrorKind::SyntaxError, error.to_string()))
}
