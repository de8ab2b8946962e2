//! Bindings, by what they bind; one by its key of properties.

use super::queues::as_client;
use super::{arguments, short, vhosts};
use crate::call::{Answer, Call, Outcome, vhost};
use crate::columns::{Column, LIST, columns, find, shown, some};
use crate::list::{Row, RowSet};
use crate::refusal::Refusal;
use crate::request::optional_text;
use crate::typed_table::typed_table;
use api::BindingColumn;
use control::View;
use meta::definitions::table_to_json;
use meta::{BindingPlace, BindingView, DestinationName, Name, Vhost};
use serde_json::Value;
use session::{ExchangeBinding, Op, QueueBinding};
use std::sync::Arc;

type Read = fn(&BindingRow) -> Option<Value>;

/// The columns of bindings, sorted by name. COMPAT: RabbitMQ's.
const COLUMNS: &[Column<Read>] = columns! { BindingColumn:
    arguments [LIST] |it| Some(table_to_json(&it.binding.arguments)),
        tool |it| Some(typed_table(&it.binding.arguments));
    destination [LIST] |it| some(destination(&it.binding).0.as_str());
    destination_type [LIST] |it| some(destination(&it.binding).1);
    properties_key [LIST] |it| some(properties_key(&it.binding));
    routing_key [LIST] |it| some(it.binding.key.to_text());
    source [LIST] |it| some(it.binding.source.as_str());
    source_kind [] |_| None, tool |_| some("exchange");
    vhost [LIST] |it| some(it.vhost.as_str());
};

/// The bindings of a list. Lists can be long: each is small until it is looked at.
struct Bindings {
    view: Arc<View>,
    is_typed: bool,
    places: Vec<(Name, BindingPlace)>,
}

impl RowSet for Bindings {
    type Row<'t> = BindingRow;

    fn len(&self) -> usize {
        self.places.len()
    }

    fn row(&self, at: usize) -> Option<BindingRow> {
        let (vhost, place) = self.places.get(at)?;
        let binding = place.view(self.view.meta.queues())?;
        Some(BindingRow { vhost: vhost.clone(), binding, is_typed: self.is_typed })
    }
}

struct BindingRow {
    vhost: Name,
    binding: BindingView,
    is_typed: bool,
}

impl Row for BindingRow {
    fn columns(&self) -> impl Iterator<Item = &'static str> {
        shown(COLUMNS, LIST)
    }

    fn value(&self, column: &str) -> Option<Value> {
        find(COLUMNS, column)?.reader(self.is_typed)?(self)
    }
}

fn row(call: &Call, vhost: &Vhost, binding: BindingView) -> BindingRow {
    BindingRow { vhost: vhost.name.clone(), binding, is_typed: call.is_typed() }
}

const fn destination(binding: &BindingView) -> (&Name, &'static str) {
    match &binding.destination {
        DestinationName::Queue(name) => (name, "queue"),
        DestinationName::Exchange(name) => (name, "exchange"),
    }
}

/// The mark of a binding among others between the same two: the key, and after a tilde a hash of the
/// arguments, if there are any. COMPAT: RabbitMQ's hash is another; clients pass it back as it is.
fn properties_key(binding: &BindingView) -> String {
    marked(quoted(binding.key.as_bytes()).replace('~', "%7E"), binding)
}

fn marked(key: String, binding: &BindingView) -> String {
    match arguments_hash(binding) {
        None if key.is_empty() => "~".to_owned(),
        None => key,
        Some(hash) => format!("{key}~{hash}"),
    }
}

/// FNV-1a of the arguments, if there are any.
fn arguments_hash(binding: &BindingView) -> Option<String> {
    if binding.arguments.is_empty() {
        return None;
    }
    let arguments = table_to_json(&binding.arguments).to_string();
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = arguments.bytes().fold(0x811c_9dc5_u32, step);
    Some(format!("{hash:08x}"))
}

/// Encodes bytes as a part of an address. COMPAT: a space is a `+`, as in a form.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            b' ' => text.push('+'),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// The bytes that a quoted text stands for.
fn unquoted(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'+', _) => bytes.push(b' '),
            (b'%', Some(meant)) => {
                bytes.push(meant);
                rest = after.get(2..).unwrap_or_default();
            }
            (other, _) => bytes.push(*other),
        }
    }
    bytes
}

/// The way from one address to another, as the last part of the first is left. COMPAT: it goes up to where
/// the two are spelled otherwise, and down from there.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (parts(from).collect(), parts(to).collect());
    let n_same = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    // The last part is a file among those of its folder, and stays in front of what follows it.
    let n_kept = n_same.min(from.len().saturating_sub(1));
    let up = std::iter::repeat_n("..", from.len() - n_kept - 1);
    up.chain(to.into_iter().skip(n_kept)).collect::<Vec<_>>().join("/")
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// The bindings of the virtual hosts of the address that are wanted.
fn listed(call: &Call, wanted: impl Fn(&BindingView) -> bool) -> Outcome {
    let view = call.view();
    let mut places = Vec::new();
    for vhost in vhosts(&view.meta, call)? {
        let is_wanted = |place: &BindingPlace| {
            place.view(view.meta.queues()).is_some_and(|binding| wanted(&binding))
        };
        let found = BindingPlace::all(vhost).filter(is_wanted);
        places.extend(found.map(|place| (vhost.name.clone(), place)));
    }
    call.list_of(Bindings { view, is_typed: call.is_typed(), places })
}

pub(crate) fn list(call: &Call) -> Outcome {
    listed(call, |_| true)
}

pub(crate) fn of_queue(call: &Call) -> Outcome {
    listed(call, |binding| match &binding.destination {
        DestinationName::Queue(name) => name == call.param("name"),
        DestinationName::Exchange(_) => false,
    })
}

pub(crate) fn from_exchange(call: &Call) -> Outcome {
    let name = super::exchanges::name(call);
    listed(call, |binding| binding.source == name)
}

pub(crate) fn to_exchange(call: &Call) -> Outcome {
    let name = super::exchanges::name(call);
    listed(call, |binding| match &binding.destination {
        DestinationName::Exchange(found) => found == name,
        DestinationName::Queue(_) => false,
    })
}

/// The source exchange of the address. COMPAT: the default exchange has a name there.
fn source(call: &Call) -> &str {
    Some(call.param("source")).filter(|name| *name != "amq.default").unwrap_or_default()
}

/// Whether a binding is between the two that the address names.
fn is_between(call: &Call, binding: &BindingView) -> bool {
    let (destination, kind) = destination(binding);
    binding.source == source(call)
        && destination == call.param("destination")
        && kind.starts_with(call.param("kind"))
}

fn check_kind(call: &Call) -> Result<(), Refusal> {
    if matches!(call.param("kind"), "q" | "e") { Ok(()) } else { Err(Refusal::not_found()) }
}

pub(crate) fn between(call: &Call) -> Outcome {
    check_kind(call)?;
    listed(call, |binding| is_between(call, binding))
}

fn found(call: &Call) -> Result<BindingView, Refusal> {
    check_kind(call)?;
    let view = call.view();
    // The address has been decoded once; what it names so is quoted, or else plain.
    let wanted = call.param("props");
    let (key, hash) = wanted.split_once('~').unwrap_or((wanted, ""));
    let (key, hash) = (unquoted(key), (!hash.is_empty()).then(|| hash.to_owned()));
    let is_it = |it: &BindingView| it.key.as_bytes() == key && arguments_hash(it) == hash;
    let is_plain = |it: &BindingView| marked(it.key.to_text().into_owned(), it) == wanted;
    let mut plain = None;
    for binding in view.meta.bindings(vhost(&view.meta, call)?) {
        if !is_between(call, &binding) {
            continue;
        }
        if is_it(&binding) {
            return Ok(binding);
        }
        plain = plain.or_else(|| is_plain(&binding).then_some(binding));
    }
    plain.ok_or_else(Refusal::not_found)
}

pub(crate) fn get(call: &Call) -> Outcome {
    let (view, binding) = (call.view(), found(call)?);
    Ok(Answer::Json(row(call, vhost(&view.meta, call)?, binding).object()))
}

pub(crate) async fn add(call: &Call) -> Outcome {
    check_kind(call)?;
    let body = call.object()?;
    let arguments = arguments(&body)?;
    let key = optional_text(&body, "routing_key")?.unwrap_or_default();
    let op = binding_op(call, key, arguments.clone(), true)?;
    as_client(call, op).await?;
    let binding = BindingView {
        source: call.name("source"),
        destination: DestinationName::Queue(call.name("destination")),
        key: meta::RoutingKey::from(key),
        arguments,
    };
    let properties = quoted(properties_key(&binding).as_bytes());
    let part = |name| quoted(call.param(name).as_bytes());
    let (vhost, kind, destination) = (part("vhost"), part("kind"), part("destination"));
    let (prefix, source) = (&call.api.settings.look.prefix, quoted(source(call).as_bytes()));
    let place =
        format!("{prefix}/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}");
    Ok(Answer::Created(Some(relative(&call.path, &place))))
}

pub(crate) async fn delete(call: &Call) -> Outcome {
    let binding = found(call)?;
    let key = binding.key.to_text().into_owned();
    as_client(call, binding_op(call, &key, binding.arguments, false)?).await?;
    Ok(Answer::NoContent)
}

fn binding_op(
    call: &Call,
    key: &str,
    arguments: session::Table,
    binds: bool,
) -> Result<Op, Refusal> {
    let (source, destination) = (short(source(call))?, short(call.param("destination"))?);
    let routing_key = short(key)?;
    if call.param("kind") == "q" {
        let binding = QueueBinding { queue: destination, exchange: source, routing_key, arguments };
        return Ok(if binds { Op::BindQueue(binding) } else { Op::UnbindQueue(binding) });
    }
    let binding = ExchangeBinding { destination, source, routing_key, arguments };
    Ok(if binds { Op::BindExchange(binding) } else { Op::UnbindExchange(binding) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted() {
        assert!(COLUMNS.is_sorted_by_key(|column| column.name));
    }
}
