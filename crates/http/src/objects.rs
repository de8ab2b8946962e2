//! The objects of the API: what each shows, and what can be done to it.

pub(crate) mod access;
pub(crate) mod bindings;
pub(crate) mod bulk;
pub(crate) mod client_details;
pub(crate) mod clients;
mod connection_columns;
mod consumer_states;
pub(crate) mod definitions;
pub(crate) mod exchanges;
pub(crate) mod explain;
mod flows;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod messages;
pub(crate) mod node;
pub(crate) mod permitted;
pub(crate) mod policies;
mod queue_columns;
pub(crate) mod queues;
mod removal;
pub(crate) mod sessions;
pub(crate) mod streams;
mod sums;
pub(crate) mod traces;
pub(crate) mod undo;
pub(crate) mod vhosts;
pub(crate) mod why;

use crate::call::{Call, vhost};
use crate::refusal::Refusal;
use meta::definitions::table_from_json;
use meta::{State, Vhost};
use serde_json::{Map, Value};
use session::{ShortString, Table};

/// The virtual hosts that a list is of: that of the address, or all that the caller sees.
fn vhosts<'s>(state: &'s State, call: &Call) -> Result<Vec<&'s Vhost>, Refusal> {
    if call.params.iter().any(|(name, _)| name == "vhost") {
        return Ok(vec![vhost(state, call)?]);
    }
    Ok(state.vhosts().filter(|vhost| call.caller.sees(state, &vhost.name)).collect())
}

/// A field of an object; `null` if it is not there.
fn field<'v>(object: &'v Value, name: &str) -> &'v Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// Puts a field into an object.
pub(crate) fn put_field(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(name.to_owned(), value);
    }
}

/// A name, as AMQP 0-9-1 takes it.
pub(crate) fn short(text: &str) -> Result<ShortString, Refusal> {
    ShortString::new(text).map_err(|_| Refusal::too_long(text))
}

/// A flag of a body; absent means no.
pub(crate) fn flag(object: &Map<String, Value>, field: &str) -> Result<bool, Refusal> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        // COMPAT: forms and older tools send texts.
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(other) => {
            Err(Refusal::bad_request(format!("{field} must be true or false, not {other}")))
        }
    }
}

fn arguments(object: &Map<String, Value>) -> Result<Table, Refusal> {
    table_from_json(object.get("arguments")).map_err(Refusal::bad_request)
}
