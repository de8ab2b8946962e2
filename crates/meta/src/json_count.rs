//! The number of values in JSON, counted in its text: a tree of values takes up to a hundred times the memory
//! of its text, so it is not made of too many. Knows no JSON but brackets, commas and texts.

/// Most values of a text that becomes a tree: lists, objects, and what is in them.
pub const JSON_VALUES_MAX: usize = 100_000;

/// A count that goes on with the pieces of a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonCount {
    n: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl JsonCount {
    /// Counts the values of another piece; returns how many there are at most up to its end.
    pub fn note(&mut self, piece: &[u8]) -> usize {
        for byte in piece {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                b'[' | b'{' | b',' if !self.is_in_text => self.n += 1,
                _ => {}
            }
        }
        self.n + 1
    }

    /// Whether a text has no more values than may become a tree.
    #[must_use]
    pub fn is_small(text: &[u8]) -> bool {
        Self::default().note(text) <= JSON_VALUES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn n_values(value: &Value) -> usize {
        1 + match value {
            Value::Array(list) => list.iter().map(n_values).sum::<usize>(),
            Value::Object(object) => object.values().map(n_values).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), "[a\"\\\\,\\[{]{0,6}".prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 6, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from);
            let object = prop::collection::btree_map("[a-c\",{]{0,3}", inner, 0..6);
            prop_oneof![list, object.prop_map(|it| Value::Object(it.into_iter().collect()))]
        })
    }

    proptest! {
        #[test]
        fn the_count_is_never_less_than_the_values_however_the_text_comes(value in values(), at in 0_usize..200) {
            let text = value.to_string().into_bytes();
            let (first, rest) = text.split_at(at.min(text.len()));
            let mut count = JsonCount::default();
            count.note(first);
            let n = count.note(rest);
            let n_there = n_values(&value);
            prop_assert!((n_there..=2 * n_there).contains(&n), "{n} of {n_there}: {value}");
        }
    }
}
