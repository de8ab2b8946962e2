//! Responses of the management node.

use crate::fault::ProtocolFault;
use amqp10::{
    Items, Properties, Section, ValueRef, put_application_properties, put_described, put_list,
    put_map, put_percent_encoded,
};
use session::{
    BindingEnds, BindingReport, BindingTarget, Error, ErrorKind, ManagementOp, Op, QueueReport,
};

/// The descriptor of a body that is a value.
const AMQP_VALUE: u64 = 0x77;

stdx::named! {
    /// The status of a response, as HTTP has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ManagementStatus {
        /// The response has a body.
        Ok = "200",
        /// A queue was made.
        Created = "201",
        /// The response has no body.
        NoContent = "204",
        /// The request cannot be carried out.
        BadRequest = "400",
        /// The operation is forbidden to everybody.
        Forbidden = "403",
        /// The name or the path belongs to nothing.
        NotFound = "404",
        /// The path has no such method.
        MethodNotAllowed = "405",
        /// A thing of the name is there, and is another.
        Conflict = "409",
        /// The broker cannot do that now.
        Unavailable = "503",
    }
}

/// The refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRequest {
    /// The status.
    pub status: ManagementStatus,
    /// The explanation.
    pub text: String,
}

impl RefusedRequest {
    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self { status: ManagementStatus::BadRequest, text: text.into() }
    }

    pub(super) fn not_found(path: &str) -> Self {
        let text = format!("path '{path}' not found");
        Self { status: ManagementStatus::NotFound, text }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub enum ManagementAnswer<'a> {
    /// The operation is carried out.
    Done,
    /// A queue is declared.
    Declared(QueueReport<'a>),
    /// The queue was there before, as described.
    Queue(QueueReport<'a>),
    /// A queue is purged or deleted.
    Removed {
        /// The number of messages that are gone with it.
        n_messages: u64,
    },
    /// The bindings found.
    Bindings(&'a [BindingReport<'a>]),
    /// The request is refused.
    Refused(&'a RefusedRequest),
}

/// The node that responds.
#[derive(Clone, Copy, Debug)]
pub struct ManagingNode<'a> {
    /// The virtual host of the client.
    pub vhost: &'a str,
    /// The node's name, which has and leads all queues.
    pub name: &'a str,
}

/// A response that is to be made: its request's id, and the statuses that errors have.
#[derive(Clone, Debug)]
pub struct PendingResponse {
    /// The request's id, an encoded value.
    id: Vec<u8>,
    of_not_found: ManagementStatus,
    of_precondition: ManagementStatus,
}

impl PendingResponse {
    /// The response to a request with this id, for this operation. COMPAT: RabbitMQ's statuses.
    pub(super) fn new(id: Option<ValueRef<'_>>, op: Option<&Op>) -> Self {
        let mut encoded = Vec::new();
        id.unwrap_or(ValueRef::Null).encode(&mut encoded);
        let bad = ManagementStatus::BadRequest;
        let (of_not_found, of_precondition) = match op {
            Some(Op::Manage(ManagementOp::DescribeQueue(_)) | Op::PurgeQueue { .. }) => {
                (ManagementStatus::NotFound, bad)
            }
            Some(Op::Manage(ManagementOp::DeclareQueue(_)) | Op::DeclareExchange(_)) => {
                (bad, ManagementStatus::Conflict)
            }
            _ => (bad, bad),
        };
        Self { id: encoded, of_not_found, of_precondition }
    }

    /// The refusal that the broker's error is.
    ///
    /// # Errors
    /// The end of the session, where the user lacks a permission. COMPAT: as with RabbitMQ.
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is the request's fault")]
    pub fn refusal(&self, error: Error) -> Result<RefusedRequest, ProtocolFault> {
        let status = match error.kind {
            // COMPAT: RabbitMQ answers 403 where the virtual host has its queues.
            ErrorKind::QueueLimit => ManagementStatus::Forbidden,
            ErrorKind::AccessRefused => return Err(ProtocolFault::of_refusal(error)),
            ErrorKind::NotFound => self.of_not_found,
            ErrorKind::PreconditionFailed => self.of_precondition,
            ErrorKind::InternalError | ErrorKind::ResourceError => ManagementStatus::Unavailable,
            _ => ManagementStatus::BadRequest,
        };
        Ok(RefusedRequest { status, text: error.text.into_owned() })
    }

    /// Appends the response, in sections.
    pub fn put(&self, answer: &ManagementAnswer<'_>, node: &ManagingNode<'_>, out: &mut Vec<u8>) {
        let status = match answer {
            ManagementAnswer::Done => ManagementStatus::NoContent,
            ManagementAnswer::Declared(_) => ManagementStatus::Created,
            ManagementAnswer::Queue(_)
            | ManagementAnswer::Removed { .. }
            | ManagementAnswer::Bindings(_) => ManagementStatus::Ok,
            ManagementAnswer::Refused(refused) => refused.status,
        };
        let id = ValueRef::decode(&self.id).map_or(ValueRef::Null, |(id, _)| id);
        let properties = Properties {
            subject: Some(status.as_str()),
            correlation_id: Some(id).filter(|id| *id != ValueRef::Null),
            ..Properties::default()
        };
        Section::Properties(properties).encode(out);
        put_application_properties(out, |items| {
            items.put(ValueRef::Str("http:response"));
            items.put(ValueRef::Str("1.1"));
        });
        put_described(out, AMQP_VALUE);
        put_body(answer, node, out);
    }
}

fn put_body(answer: &ManagementAnswer<'_>, node: &ManagingNode<'_>, out: &mut Vec<u8>) {
    match answer {
        ManagementAnswer::Done => ValueRef::Null.encode(out),
        ManagementAnswer::Declared(queue) | ManagementAnswer::Queue(queue) => {
            put_map(out, |map| put_queue(queue, node, map));
        }
        ManagementAnswer::Removed { n_messages } => {
            put_map(out, |map| put_field(map, "message_count", ValueRef::U64(*n_messages)));
        }
        ManagementAnswer::Bindings(bindings) => put_list(out, |list| {
            bindings.iter().for_each(|binding| list.put_map(|map| put_binding(binding, map)));
        }),
        ManagementAnswer::Refused(refused) => ValueRef::Str(&refused.text).encode(out),
    }
}

fn put_field(map: &mut Items<'_>, name: &str, value: ValueRef<'_>) {
    map.put(ValueRef::Str(name));
    map.put(value);
}

fn put_queue(queue: &QueueReport<'_>, node: &ManagingNode<'_>, map: &mut Items<'_>) {
    let n_consumers = u32::try_from(queue.n_consumers).unwrap_or(u32::MAX);
    for (name, value) in [
        ("message_count", ValueRef::U64(queue.n_ready)),
        ("consumer_count", ValueRef::U32(n_consumers)),
        ("name", ValueRef::Str(queue.name)),
        ("vhost", ValueRef::Str(node.vhost)),
        ("durable", ValueRef::Bool(queue.durable)),
        ("auto_delete", ValueRef::Bool(queue.auto_delete)),
        ("exclusive", ValueRef::Bool(queue.exclusive)),
        ("type", ValueRef::Str(queue.kind)),
    ] {
        put_field(map, name, value);
    }
    map.put(ValueRef::Str("arguments"));
    conversion::put_arguments(map, queue.arguments);
    map.put(ValueRef::Str("replicas"));
    map.put_strings([node.name]);
    put_field(map, "leader", ValueRef::Str(node.name));
}

fn put_binding(binding: &BindingReport<'_>, map: &mut Items<'_>) {
    let BindingEnds { source, destination, routing_key } = binding.ends;
    let (field, kind, destination) = match destination {
        BindingTarget::Queue(queue) => ("destination_queue", 'q', queue),
        BindingTarget::Exchange(exchange) => ("destination_exchange", 'e', exchange),
    };
    for (name, text) in [("source", source), (field, destination), ("binding_key", routing_key)] {
        put_field(map, name, ValueRef::Str(&text.to_text()));
    }
    map.put(ValueRef::Str("arguments"));
    conversion::put_arguments(map, binding.arguments);
    let mut location = "/bindings/src=".to_owned();
    put_percent_encoded(source, &mut location);
    location.push_str(&format!(";dst{kind}="));
    put_percent_encoded(destination, &mut location);
    location.push_str(";key=");
    put_percent_encoded(routing_key, &mut location);
    location.push_str(";args=");
    location.push_str(&binding.arguments_hash);
    put_field(map, "location", ValueRef::Str(&location));
}
