//! Requests to the management node (HTTP over AMQP, in RabbitMQ's subset) to operations of the broker.
//!
//! ```text
//! GET PUT DELETE  /queues/:queue                      DELETE  /queues/:queue/messages
//! PUT DELETE      /exchanges/:exchange                PUT     /auth/tokens
//! POST            /bindings                           GET     /bindings?src=&(dstq|dste)=&key=
//! DELETE          /bindings/src=:exchange;(dstq|dste)=:name;key=:key;args=:hash
//! ```
//!
//! A request is a message: `subject` is the method, `to` the path, the body a map or null. Its response has
//! the request's `message-id` as `correlation-id`, and the status as `subject`.

mod fields;
mod response;
mod target;

pub use response::{
    ManagementAnswer, ManagementStatus, ManagingNode, PendingResponse, RefusedRequest,
};

use amqp10::{Body, DecodeError, Properties, Section, Sections, ValueRef};
use session::{Flag, ManagementOp, Op, ShortString};
use target::RequestTarget;

/// A request of a client to the management node.
#[derive(Debug)]
pub struct ManagementRequest {
    /// The response that is to be made.
    pub pending: PendingResponse,
    /// The operation asked for, or why there is none.
    pub op: Result<Op, RefusedRequest>,
}

impl ManagementRequest {
    /// Reads a request from the sections of a message, for a client of a virtual host.
    #[must_use]
    pub fn parse(sections: &[u8], vhost: &str) -> Self {
        let (properties, body) = match properties_and_body(sections) {
            Ok(found) => found,
            Err(error) => {
                let refused = RefusedRequest::bad(format!("failed to parse message: {error}"));
                return Self { pending: PendingResponse::new(None, None), op: Err(refused) };
            }
        };
        let op = match (properties.subject, properties.to, properties.reply_to) {
            (Some(method), Some(ValueRef::Str(to)), Some(ValueRef::Str("$me"))) => {
                RequestTarget::parse(to)
                    .and_then(|target| RequestLine { method, target, vhost }.operation(body))
            }
            _ => Err(RefusedRequest::bad(
                "a request has a method as subject, a path as to, and '$me' as reply-to",
            )),
        };
        let pending = PendingResponse::new(properties.message_id, op.as_ref().ok());
        Self { pending, op }
    }
}

/// The sections that make a request. COMPAT: they come in any order; RabbitMQ's Python client sends a body
/// that is null in front of the properties.
fn properties_and_body(sections: &[u8]) -> Result<(Properties<'_>, Body<'_>), DecodeError> {
    let (mut properties, mut body) = (Properties::default(), Body::Value(ValueRef::Null));
    for section in Sections::new(sections) {
        let section = section?;
        if let Section::Properties(found) = section {
            properties = found;
        } else if let Section::Value(found) = section {
            body = Body::Value(found);
        }
    }
    Ok((properties, body))
}

/// A method on a path.
struct RequestLine<'a> {
    method: &'a str,
    target: RequestTarget<'a>,
    vhost: &'a str,
}

impl RequestLine<'_> {
    fn operation(&self, body: Body<'_>) -> Result<Op, RefusedRequest> {
        Ok(match (self.target.segments.as_slice(), self.method) {
            (["queues", queue], _) => self.of_queue(target::name(queue)?, body)?,
            (["exchanges", exchange], _) => self.of_exchange(target::name(exchange)?, body)?,
            (["queues", queue, "messages"], "DELETE") => {
                Op::PurgeQueue { queue: fields::not_empty(target::name(queue)?)? }
            }
            (["bindings"], "POST") => fields::binding(fields::map(body)?)?,
            (["bindings"], "GET") => {
                let ends = self.target.binding_in_query()?;
                fields::check_ends(&ends)?;
                Op::Manage(ManagementOp::FindBindings(ends))
            }
            (["bindings", binding], "DELETE") => {
                let (ends, arguments_hash) = target::binding_in_path(binding)?;
                fields::check_ends(&ends)?;
                Op::Manage(ManagementOp::RemoveBinding { ends, arguments_hash })
            }
            (["auth", "tokens"], "PUT") => Op::UpdateSecret { secret: fields::token(body)? },
            (
                ["queues", _, "messages"] | ["bindings"] | ["bindings", _] | ["auth", "tokens"],
                _,
            ) => return Err(self.not_allowed()),
            _ => return Err(RefusedRequest::not_found(self.target.path)),
        })
    }

    fn of_queue(&self, queue: ShortString, body: Body<'_>) -> Result<Op, RefusedRequest> {
        let queue = fields::not_empty(queue)?;
        Ok(match self.method {
            "GET" => Op::Manage(ManagementOp::DescribeQueue(queue)),
            "PUT" => {
                fields::check_characters(&queue)?;
                fields::check_reserved("queue", &queue, self.vhost, &[])?;
                let declared = fields::queue(queue, fields::map(body)?)?;
                Op::Manage(ManagementOp::DeclareQueue(declared))
            }
            "DELETE" => {
                fields::check_characters(&queue)?;
                Op::DeleteQueue { queue, if_unused: Flag::No, if_empty: Flag::No }
            }
            _ => return Err(self.not_allowed()),
        })
    }

    fn of_exchange(&self, exchange: ShortString, body: Body<'_>) -> Result<Op, RefusedRequest> {
        /// The exchanges whose declaration may be repeated.
        const PREDECLARED: [&str; 8] = [
            "amq.direct",
            "amq.fanout",
            "amq.headers",
            "amq.match",
            "amq.rabbitmq.event",
            "amq.rabbitmq.log",
            "amq.rabbitmq.trace",
            "amq.topic",
        ];
        fields::check_exchange(&exchange)?;
        match self.method {
            "PUT" => {
                fields::check_reserved("exchange", &exchange, self.vhost, &PREDECLARED)?;
                Ok(Op::DeclareExchange(fields::exchange(exchange, fields::map(body)?)?))
            }
            "DELETE" => {
                fields::check_reserved("exchange", &exchange, self.vhost, &[])?;
                Ok(Op::DeleteExchange { exchange, if_unused: false })
            }
            _ => Err(self.not_allowed()),
        }
    }

    fn not_allowed(&self) -> RefusedRequest {
        let text = format!("method '{}' not allowed for '{}'", self.method, self.target.path);
        RefusedRequest { status: ManagementStatus::MethodNotAllowed, text }
    }
}

#[cfg(test)]
mod tests;
