//! Headers exchanges: the arguments of a binding against the headers of a message.

use amqp091::{Table, TableRef, Value, ValueRef};
use smallvec::SmallVec;

use crate::erlang;
use crate::error::BindingError;

/// Names with this prefix are no headers to match, unless `x-match` ends in `-with-x`.
const PRIVATE_PREFIX: &[u8] = b"x-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    All,
    Any,
}

/// The binding side, prepared once.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    mode: Mode,
    /// What must be there; `Value::Void` asks for presence only.
    fields: Vec<(Box<[u8]>, Value)>,
}

impl Matcher {
    /// Prepares the arguments of a binding. Without `x-match` all must match.
    pub(crate) fn new(arguments: &Table) -> Result<Self, BindingError> {
        let (mode, with_private) = match arguments.get(b"x-match") {
            None => (Mode::All, false),
            Some(Value::LongString(text)) => match text.as_slice() {
                b"all" => (Mode::All, false),
                b"any" => (Mode::Any, false),
                b"all-with-x" => (Mode::All, true),
                b"any-with-x" => (Mode::Any, true),
                other => return Err(BindingError::MatchValue(erlang::binary(other))),
            },
            Some(other) => {
                let value = erlang::term(other);
                return Err(BindingError::MatchType { kind: other.type_name(), value });
            }
        };
        let counts =
            |name: &[u8]| name != b"x-match" && (with_private || !name.starts_with(PRIVATE_PREFIX));
        let fields = (arguments.iter())
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name.as_bytes().into(), value.clone()))
            .collect();
        Ok(Self { mode, fields })
    }

    /// Whether a message with these headers is led on.
    pub(crate) fn matches(&self, headers: &Headers<'_>) -> bool {
        let mut fields = self.fields.iter();
        let is_met = |(name, wanted): &(Box<[u8]>, Value)| {
            headers.get(name).is_some_and(|value| satisfies(value, wanted))
        };
        match self.mode {
            Mode::All => fields.all(is_met),
            Mode::Any => fields.any(is_met),
        }
    }
}

/// The message side: looked through once for all bindings of the exchange.
pub(crate) struct Headers<'a>(SmallVec<[(&'a [u8], ValueRef<'a>); 16]>);

impl<'a> Headers<'a> {
    pub(crate) fn new(table: Option<TableRef<'a>>) -> Self {
        let mut entries: SmallVec<_> = table.iter().flat_map(TableRef::iter).collect();
        // Stable: of entries with the same name the first one counts.
        entries.sort_by_key(|(name, _): &(&[u8], _)| *name);
        Self(entries)
    }

    fn get(&self, name: &[u8]) -> Option<ValueRef<'a>> {
        let at = self.0.partition_point(|(key, _)| *key < name);
        self.0.get(at).filter(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// COMPAT: types matter (1 is not "1"), but all integers and floats compare as numbers, and text
/// and byte arrays as bytes, as Erlang's `==` does.
#[expect(clippy::cast_precision_loss, reason = "RabbitMQ compares integers to floats as floats")]
fn satisfies(value: ValueRef<'_>, wanted: &Value) -> bool {
    if matches!(wanted, Value::Void) {
        return true;
    }
    if let (Some(a), Some(b)) = (value.as_i64(), wanted.as_i64()) {
        return a == b;
    }
    let float = |value: ValueRef<'_>| match value {
        ValueRef::F32(n) => Some(f64::from(n)),
        ValueRef::F64(n) => Some(n),
        ValueRef::Bool(_)
        | ValueRef::I8(_)
        | ValueRef::U8(_)
        | ValueRef::I16(_)
        | ValueRef::U16(_)
        | ValueRef::I32(_)
        | ValueRef::U32(_)
        | ValueRef::I64(_)
        | ValueRef::Decimal(_)
        | ValueRef::LongString(_)
        | ValueRef::Array(_)
        | ValueRef::Timestamp(_)
        | ValueRef::Table(_)
        | ValueRef::Void
        | ValueRef::Bytes(_) => None,
    };
    let a = float(value).or_else(|| value.as_i64().map(|n| n as f64));
    let b = wanted.as_f64().or_else(|| wanted.as_i64().map(|n| n as f64));
    if let (Some(a), Some(b)) = (a, b) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (bytes_of(value), bytes_wanted(wanted)) {
        return a == b;
    }
    value.to_owned().is_ok_and(|value| value == *wanted)
}

fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    if let ValueRef::Bytes(bytes) = value { Some(bytes) } else { value.as_bytes() }
}

fn bytes_wanted(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { value.as_bytes() }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use amqp091::ShortString;

    use super::*;

    fn table(entries: &[(&'static str, Value)]) -> Table {
        (entries.iter())
            .map(|(name, value)| (ShortString::from_static(name), value.clone()))
            .collect()
    }

    fn matches(arguments: &[(&'static str, Value)], headers: &[(&'static str, Value)]) -> bool {
        let bytes = table(headers).to_bytes();
        let headers = Headers::new(Some(TableRef::parse(&bytes).unwrap()));
        Matcher::new(&table(arguments)).unwrap().matches(&headers)
    }

    fn mode(text: &str) -> (&'static str, Value) {
        ("x-match", Value::from(text))
    }

    #[test]
    fn all_and_any() {
        let a = ("a", Value::from("1"));
        let b = ("b", Value::from("2"));
        let other = ("b", Value::from("3"));
        assert!(matches(&[a.clone(), b.clone()], &[b.clone(), a.clone()]));
        assert!(!matches(&[a.clone(), b.clone()], slice::from_ref(&a)));
        assert!(!matches(&[a.clone(), b.clone()], &[a.clone(), other.clone()]));
        assert!(matches(&[mode("any"), a.clone(), b.clone()], &[a, other.clone()]));
        assert!(!matches(&[mode("any"), b], &[other]));
    }

    #[test]
    fn without_arguments_all_matches_everything_and_any_nothing() {
        assert!(matches(&[], &[]));
        assert!(matches(&[mode("all")], &[("z", Value::Bool(true))]));
        assert!(!matches(&[mode("any")], &[("z", Value::Bool(true))]));
    }

    #[test]
    fn private_names_count_only_with_x() {
        let x = ("x-a", Value::from("1"));
        assert!(matches(&[mode("all"), x.clone()], &[]));
        assert!(!matches(&[mode("any"), x.clone()], slice::from_ref(&x)));
        assert!(!matches(&[mode("all-with-x"), x.clone()], &[]));
        assert!(matches(&[mode("all-with-x"), x.clone()], slice::from_ref(&x)));
        assert!(matches(&[mode("any-with-x"), x.clone()], &[x]));
        assert!(!matches(&[mode("any-with-x")], &[mode("any-with-x")]));
    }

    #[test]
    fn values_compare_typed_and_void_asks_for_presence() {
        let one = |value: Value| [("a", value)];
        assert!(matches(&one(Value::I32(1)), &one(Value::I64(1))));
        assert!(matches(&one(Value::I32(1)), &one(Value::F64(1.0))));
        assert!(matches(&one(Value::F32(0.5)), &one(Value::F64(0.5))));
        assert!(matches(&one(Value::from("a")), &one(Value::Bytes(b"a".to_vec()))));
        assert!(!matches(&one(Value::I32(1)), &one(Value::from("1"))));
        assert!(!matches(&one(Value::Bool(true)), &one(Value::I32(1))));
        assert!(matches(&one(Value::Void), &one(Value::from("whatever"))));
        assert!(!matches(&one(Value::Void), &[("b", Value::Void)]));
        assert!(!matches(&one(Value::from("a")), &one(Value::Void)));
        let array = Value::Array(vec![Value::I32(1)]);
        assert!(matches(&one(array.clone()), &one(array.clone())));
        assert!(!matches(&one(array), &one(Value::Array(vec![]))));
    }

    #[test]
    fn bad_x_match_is_refused_with_rabbitmqs_texts() {
        let error = |value: Value| Matcher::new(&table(&[("x-match", value)])).unwrap_err();
        assert_eq!(
            error(Value::from("none")).to_string(),
            "Invalid x-match field value <<\"none\">>; expected all, any, all-with-x, or any-with-x"
        );
        assert_eq!(
            error(Value::I32(3)).to_string(),
            "Invalid x-match field type signedint (value 3); expected longstr"
        );
    }
}
