//! Fields of what the node says.

use serde_json::Value;

/// A number; 0 when there is none.
pub(crate) fn number(of: &Value, field: &str) -> u64 {
    of.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// A text; empty when there is none.
pub(crate) fn text<'v>(of: &'v Value, field: &str) -> &'v str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list.
pub(crate) fn items<'v>(of: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    of.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// The texts among them.
pub(crate) fn texts<'v>(of: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    items(of, field).filter_map(Value::as_str)
}
