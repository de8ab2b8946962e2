//! Headers exchanges: the arguments of a binding against the headers of a message.

use amqp091::{Table, TableRef, Value, ValueRef};
use smallvec::SmallVec;

use crate::comparable::Comparable;
use crate::digest::Digest;
use crate::erlang;
use crate::error::BindingError;

/// Names with this prefix are no headers to match, unless `x-match` ends in `-with-x`.
const PRIVATE_PREFIX: &[u8] = b"x-";

/// The number of a binding's fields that a message must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    All,
    Any,
}

/// The binding side, prepared once.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    pub(crate) mode: Mode,
    fields: Vec<Field>,
}

/// A required header; `Value::Void` asks for presence only.
#[derive(Clone, Debug)]
struct Field {
    name: Box<[u8]>,
    name_digest: Digest,
    wanted: Value,
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
                return Err(BindingError::MatchType { kind: other.type_name().into(), value });
            }
        };
        let counts =
            |name: &[u8]| name != b"x-match" && (with_private || !name.starts_with(PRIVATE_PREFIX));
        let fields = (arguments.iter())
            .filter(|(name, _)| counts(name))
            .map(|(name, wanted)| Field {
                name: name.as_bytes().into(),
                name_digest: Digest::of_name(name),
                wanted: wanted.clone(),
            })
            .collect();
        Ok(Self { mode, fields })
    }

    /// The digest, for each field, that every header which meets the field has among its
    /// [`digests`](Header::digests).
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.fields.iter().map(|field| {
            if matches!(field.wanted, Value::Void) {
                field.name_digest
            } else {
                field.name_digest.with_value(Comparable::of_argument(&field.wanted))
            }
        })
    }

    /// Whether a message with these headers is led on.
    pub(crate) fn matches(&self, headers: &Headers<'_>) -> bool {
        let mut fields = self.fields.iter();
        let is_met = |field: &Field| {
            (headers.get(field.name_digest, &field.name))
                .is_some_and(|header| header.satisfies(&field.wanted))
        };
        match self.mode {
            Mode::All => fields.all(is_met),
            Mode::Any => fields.any(is_met),
        }
    }
}

/// The message side: decoded once for all bindings of the exchange.
pub(crate) struct Headers<'a>(SmallVec<[Header<'a>; 16]>);

impl<'a> Headers<'a> {
    pub(crate) fn new(table: Option<TableRef<'a>>) -> Self {
        let mut entries: SmallVec<_> = (table.iter().flat_map(TableRef::iter))
            .map(|(name, value)| Header { name, name_digest: Digest::of_name(name), value })
            .collect();
        // Stable: of entries with the same name the first one counts.
        entries.sort_by_key(|header: &Header<'_>| header.name_digest);
        Self(entries)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Header<'a>> {
        self.0.iter()
    }

    fn get(&self, digest: Digest, name: &[u8]) -> Option<&Header<'a>> {
        let first = self.0.partition_point(|header| header.name_digest < digest);
        (self.0.iter().skip(first))
            .take_while(|header| header.name_digest == digest)
            .find(|header| header.name == name)
    }
}

/// A header of a message, with the digest of its name.
pub(crate) struct Header<'a> {
    name: &'a [u8],
    name_digest: Digest,
    value: ValueRef<'a>,
}

impl Header<'_> {
    /// The digests by which fields find this header: that of its presence, and that of its value.
    pub(crate) fn digests(&self) -> [Digest; 2] {
        let value = Comparable::of_header(self.value);
        [self.name_digest, self.name_digest.with_value(value)]
    }

    fn satisfies(&self, wanted: &Value) -> bool {
        if matches!(wanted, Value::Void) {
            return true;
        }
        let of_value = Comparable::of_header(self.value);
        match of_value.equals(Comparable::of_argument(wanted)) {
            Some(is_equal) => is_equal,
            None => self.value.to_owned().is_ok_and(|value| value == *wanted),
        }
    }
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
