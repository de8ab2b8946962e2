//! Data whose texts and lists depend on variables:
//!
//! ```text
//! let.n = "=count(1000)"                 a variable, worked out where it is used
//! "-C ${n} -s 12"                        a text with values in it
//! "=2 * n"                               the value itself
//! { each = [["n", 1, 2], ...], ... }     in a list: a table for each n, and for each of the next variable
//! [["n", "s"], [1, "a"], ["2..9", "b"]]  variables that go together, one row of values after the other
//! all = [...]                            in a table of a list: these instead
//! same = ["${n}", "2"]                   ... only if both are the same
//! ```
//! A line break is a space, and what is an empty text is as if it were not there.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Settings, Table, expression};
use crate::plan::number;

/// Variables, and the settings that expressions depend on.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) settings: Settings,
    variables: BTreeMap<String, Value>,
}

impl Scope {
    /// The variables of a file.
    pub(super) fn new(settings: Settings, file: &Table) -> Self {
        let variables = file.get("let").and_then(Value::as_object).into_iter().flatten();
        let variables = variables.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { settings, variables }
    }

    /// The data with the variables' values.
    pub(super) fn expand(&self, value: &Value) -> anyhow::Result<Value> {
        if let Value::String(text) = value {
            return match text.strip_prefix('=') {
                Some(expression) => self.value(expression),
                None => Ok(Value::String(self.text(text)?)),
            };
        }
        if let Value::Array(items) = value {
            let items = items.iter().map(|item| self.items(item));
            return Ok(Value::Array(items.collect::<anyhow::Result<Vec<_>>>()?.concat()));
        }
        let Value::Object(table) = value else { return Ok(value.clone()) };
        let pairs = table.iter().map(|(key, value)| Ok((self.text(key)?, self.expand(value)?)));
        let pairs = pairs.collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        Ok(Value::Object(pairs.filter(|(_, value)| value.as_str() != Some("")).collect()))
    }

    /// The items that an item of a list stands for.
    fn items(&self, item: &Value) -> anyhow::Result<Vec<Value>> {
        let mut item = item.clone();
        let Some(table) = item.as_object_mut() else { return Ok(vec![self.expand(&item)?]) };
        let [each, same, all] = ["each", "same", "all"].map(|key| table.remove(key));
        let mut scopes = vec![self.clone()];
        for axis in each.as_ref().and_then(Value::as_array).into_iter().flatten() {
            scopes = scopes.iter().flat_map(|scope| scope.along(&list(axis))).collect();
        }
        let mut items = Vec::new();
        for scope in scopes {
            if let Some(same) = &same
                && let [one, other] = list(&scope.expand(same)?).as_slice()
                && one != other
            {
                continue;
            }
            match &all {
                Some(all) => items.extend(list(&scope.expand(all)?)),
                None => items.push(scope.expand(&item)?),
            }
        }
        Ok(items)
    }

    /// A scope for each row of values behind the names.
    fn along(&self, axis: &[Value]) -> Vec<Self> {
        let Some((names, rows)) = axis.split_first() else { return Vec::new() };
        let rows = rows.iter().map(list).flat_map(|row| numbered(&row));
        let scope = |row: Vec<Value>| {
            let mut scope = self.clone();
            let names = list(names).into_iter().filter_map(|name| Some(name.as_str()?.to_owned()));
            scope.variables.extend(names.zip(row));
            scope
        };
        rows.map(scope).collect()
    }

    fn text(&self, text: &str) -> anyhow::Result<String> {
        let text = text.replace('\n', " ");
        let (mut out, mut rest) = (String::new(), text.as_str());
        while let Some((before, behind)) = rest.split_once("${") {
            let (inside, after) = behind.split_once('}').context("no end of ${")?;
            out.push_str(before);
            out.push_str(&match inside.strip_prefix("short ") {
                Some(expression) => rounded(expression::number(expression, self)?),
                None => self.shown(inside)?,
            });
            rest = after;
        }
        Ok(out + rest)
    }

    fn shown(&self, expression: &str) -> anyhow::Result<String> {
        let value = self.value(expression)?;
        let number = || value.as_f64().map(number).context("neither text nor number");
        value.as_str().map_or_else(number, |text| Ok(text.to_owned()))
    }

    /// A variable's value, or the number that an expression gives.
    fn value(&self, expression: &str) -> anyhow::Result<Value> {
        if let Some(value) = self.variables.get(expression) {
            return self.expand(value);
        }
        let number = expression::number(expression, self)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a number that is whole stays the same"
        )]
        let whole = number as i64;
        Ok(if whole as f64 == number { json!(whole) } else { json!(number) })
    }

    /// A variable's value as a number.
    pub(super) fn variable(&self, name: &str) -> anyhow::Result<f64> {
        let value = self.variables.get(name).with_context(|| format!("no variable '{name}'"))?;
        self.expand(value)?.as_f64().with_context(|| format!("'{name}' must be a number"))
    }
}

/// The values of a list, or the only value.
fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// A row for each number, if the first value is a range such as `2..9`.
fn numbered(row: &[Value]) -> Vec<Vec<Value>> {
    let range = row.first().and_then(|first| first.as_str()?.split_once(".."));
    let range = range.and_then(|(from, to)| Some(from.parse::<i64>().ok()?..=to.parse().ok()?));
    match range {
        None => vec![row.to_vec()],
        Some(range) => {
            let rest = row.get(1..).unwrap_or_default();
            range.map(|n| [&[json!(n)], rest].concat()).collect()
        }
    }
}

/// A number in a few letters, if it is round: `500 k`.
fn rounded(value: f64) -> String {
    [(1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| value >= *unit && value % (unit / 10.0) == 0.0)
        .map_or_else(|| number(value), |(unit, name)| format!("{} {name}", number(value / unit)))
}
