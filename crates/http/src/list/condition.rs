//! Conditions on columns: `messages_ready>1000`, `type=quorum`, `policy=` for none, `state:run` for a part.

use super::{Row, value_at};
use serde_json::Value;
use std::cmp::Ordering;

/// The operators; of two that begin alike the longer comes first.
const OPERATORS: [&str; 7] = ["!=", ">=", "<=", ">", "<", "=", ":"];

/// A column compared with a value.
#[derive(Debug)]
pub(super) struct Condition {
    path: Vec<String>,
    operator: &'static str,
    /// The value in small letters.
    value: String,
    number: Option<f64>,
}

impl Condition {
    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (path, rest) = text.split_at(text.find(['!', '>', '<', '=', ':'])?);
        let operator = OPERATORS.into_iter().find(|it| rest.starts_with(it))?;
        let value = rest.strip_prefix(operator)?.to_lowercase();
        let path = path.split('.').map(str::to_owned).collect();
        Some(Self { path, operator, number: value.parse().ok(), value })
    }

    /// Whether a row is as it says. What is not there is nothing: zero, or an empty text.
    pub(super) fn takes<R: Row>(&self, row: &R) -> bool {
        let (text, number) = match value_at(row, &self.path) {
            Some(Value::Number(number)) => (number.to_string(), number.as_f64()),
            Some(Value::String(text)) => (text.to_lowercase(), None),
            Some(Value::Null) | None => (String::new(), Some(0.0)),
            Some(other) => (other.to_string().to_lowercase(), None),
        };
        let order = match (number, self.number) {
            (Some(number), Some(wanted)) => number.total_cmp(&wanted),
            _ => text.cmp(&self.value),
        };
        match self.operator {
            "!=" => order.is_ne(),
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            ":" => text.contains(&self.value),
            _ => order == Ordering::Equal,
        }
    }
}
