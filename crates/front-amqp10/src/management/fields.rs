//! Bodies of requests, and checks of the names in requests.

use super::{ManagementStatus, RefusedRequest};
use amqp10::{Body, MapRef, ValueRef};
use session::{
    BindingEnds, BindingTarget, ExchangeBinding, ExchangeDeclaration, Op, QueueBinding,
    QueueDeclaration, ShortString, Table,
};

/// The map that is a request's body.
pub(super) fn map(body: Body<'_>) -> Result<MapRef<'_>, RefusedRequest> {
    if let Body::Value(ValueRef::Map(map)) = body {
        return Ok(map);
    }
    Err(RefusedRequest::bad("the request's body is not a map"))
}

/// The token that is a request's body.
pub(super) fn token(body: Body<'_>) -> Result<Vec<u8>, RefusedRequest> {
    if let Body::Value(ValueRef::Binary(token)) = body {
        return Ok(token.to_vec());
    }
    Err(RefusedRequest::bad("the request's body is not a binary token"))
}

/// A field of a request's body that is not known, or has another type.
struct BadField;

/// Hands each field of a body to `take`.
fn each_field(
    what: &str,
    map: MapRef<'_>,
    mut take: impl FnMut(&str, ValueRef<'_>) -> Result<(), BadField>,
) -> Result<(), RefusedRequest> {
    for (key, value) in map.iter() {
        let ValueRef::Str(key) = key else {
            return Err(RefusedRequest::bad(format!("bad {what}: a key is not a string")));
        };
        let bad = |BadField| RefusedRequest::bad(format!("bad {what} '{key}'"));
        take(key, value).map_err(bad)?;
    }
    Ok(())
}

fn flag(value: ValueRef<'_>) -> Result<bool, BadField> {
    if let ValueRef::Bool(is_set) = value { Ok(is_set) } else { Err(BadField) }
}

fn text(value: ValueRef<'_>) -> Result<ShortString, BadField> {
    let ValueRef::Str(text) = value else { return Err(BadField) };
    ShortString::new(text).map_err(|_| BadField)
}

fn arguments(value: ValueRef<'_>) -> Result<Table, BadField> {
    let ValueRef::Map(map) = value else { return Err(BadField) };
    conversion::arguments_of(map).ok_or(BadField)
}

/// The queue of this name that a body describes; durable by default.
pub(super) fn queue(
    queue: ShortString,
    map: MapRef<'_>,
) -> Result<QueueDeclaration, RefusedRequest> {
    let mut declared = QueueDeclaration {
        queue,
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Table::new(),
    };
    each_field("queue property", map, |key, value| {
        match key {
            "durable" => declared.durable = flag(value)?,
            "exclusive" => declared.exclusive = flag(value)?,
            "auto_delete" => declared.auto_delete = flag(value)?,
            "arguments" => declared.arguments = arguments(value)?,
            _ => return Err(BadField),
        }
        Ok(())
    })?;
    Ok(declared)
}

/// The exchange of this name that a body describes; direct and durable by default.
pub(super) fn exchange(
    exchange: ShortString,
    map: MapRef<'_>,
) -> Result<ExchangeDeclaration, RefusedRequest> {
    let mut declared = ExchangeDeclaration {
        exchange,
        kind: ShortString::from_static("direct"),
        passive: false,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::new(),
    };
    each_field("exchange property", map, |key, value| {
        match key {
            "durable" => declared.durable = flag(value)?,
            "auto_delete" => declared.auto_delete = flag(value)?,
            "internal" => declared.internal = flag(value)?,
            "type" => declared.kind = text(value)?,
            "arguments" => declared.arguments = arguments(value)?,
            _ => return Err(BadField),
        }
        Ok(())
    })?;
    Ok(declared)
}

/// The binding that a body describes.
pub(super) fn binding(map: MapRef<'_>) -> Result<Op, RefusedRequest> {
    let (mut source, mut destination, mut key) = (None, None, None);
    let mut with = Table::new();
    each_field("binding field", map, |field, value| {
        match field {
            "source" => source = Some(text(value)?),
            "destination_queue" => destination = Some(BindingTarget::Queue(text(value)?)),
            "destination_exchange" => destination = Some(BindingTarget::Exchange(text(value)?)),
            "binding_key" => key = Some(text(value)?),
            "arguments" => with = arguments(value)?,
            _ => return Err(BadField),
        }
        Ok(())
    })?;
    let missing = |what| move || RefusedRequest::bad(format!("missing binding field {what}"));
    let ends = BindingEnds {
        source: source.ok_or_else(missing("'source'"))?,
        destination: destination
            .ok_or_else(missing("'destination_queue' or 'destination_exchange'"))?,
        routing_key: key.ok_or_else(missing("'binding_key'"))?,
    };
    check_ends(&ends)?;
    let BindingEnds { source, destination, routing_key } = ends;
    Ok(match destination {
        BindingTarget::Queue(queue) => {
            Op::BindQueue(QueueBinding { queue, exchange: source, routing_key, arguments: with })
        }
        BindingTarget::Exchange(destination) => {
            Op::BindExchange(ExchangeBinding { destination, source, routing_key, arguments: with })
        }
    })
}

/// A queue's name, which sessions would take for another if it were empty.
pub(super) fn not_empty(queue: ShortString) -> Result<ShortString, RefusedRequest> {
    if queue.is_empty() {
        // COMPAT: RabbitMQ's text, also where nothing is declared.
        return Err(RefusedRequest::bad("declare queue with empty name not allowed"));
    }
    Ok(queue)
}

pub(super) fn check_characters(name: &ShortString) -> Result<(), RefusedRequest> {
    if name.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Err(RefusedRequest::bad(format!(
            "Bad name '{}': line feed and carriage return characters not allowed",
            name.to_text()
        )));
    }
    Ok(())
}

pub(super) fn check_exchange(exchange: &ShortString) -> Result<(), RefusedRequest> {
    if exchange.is_empty() {
        return Err(forbidden("operation not permitted on the default exchange"));
    }
    check_characters(exchange)
}

pub(super) fn check_ends(ends: &BindingEnds) -> Result<(), RefusedRequest> {
    check_exchange(&ends.source)?;
    match &ends.destination {
        BindingTarget::Queue(queue) => {
            check_characters(queue)?;
            not_empty(queue.clone()).map(drop)
        }
        BindingTarget::Exchange(exchange) => check_exchange(exchange),
    }
}

pub(super) fn check_reserved(
    kind: &str,
    name: &ShortString,
    vhost: &str,
    permitted: &[&str],
) -> Result<(), RefusedRequest> {
    let is_permitted = permitted.iter().any(|it| it.as_bytes() == name.as_bytes());
    if name.starts_with(b"amq.") && !is_permitted {
        let name = name.to_text();
        return Err(forbidden(format!(
            "{kind} '{name}' in vhost '{vhost}' starts with reserved prefix 'amq.'"
        )));
    }
    Ok(())
}

fn forbidden(text: impl Into<String>) -> RefusedRequest {
    RefusedRequest { status: ManagementStatus::Forbidden, text: text.into() }
}
