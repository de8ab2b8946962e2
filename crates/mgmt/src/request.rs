//! The parameters of a request.

use crate::api_error::{ApiError, Kind};
use meta::Name;
use serde_json::{Map, Value};

/// The JSON object of a request.
#[derive(Debug, Default)]
pub(crate) struct Request(Map<String, Value>);

impl Request {
    pub(crate) const fn of(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(object)) => Ok(Self(object)),
            Ok(_) => Err(ApiError::new(Kind::BadRequest, "the request is not a JSON object")),
            Err(error) => Err(ApiError::new(Kind::BadRequest, error.to_string())),
        }
    }

    /// A text that must be there.
    pub(crate) fn text(&self, field: &str) -> Result<&str, ApiError> {
        self.optional(field)
            .ok_or_else(|| ApiError::new(Kind::BadRequest, format!("there is no text `{field}`")))
    }

    pub(crate) fn optional(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str)
    }

    /// A field as it came.
    pub(crate) fn value(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    pub(crate) fn name(&self, field: &str) -> Result<Name, ApiError> {
        self.text(field).map(Name::from)
    }

    pub(crate) fn vhost(&self) -> Result<Name, ApiError> {
        self.name("vhost")
    }

    pub(crate) fn user(&self) -> Result<Name, ApiError> {
        self.name("user")
    }

    /// Absent means no.
    pub(crate) fn flag(&self, field: &str) -> bool {
        self.optional_flag(field).unwrap_or_default()
    }

    pub(crate) fn optional_flag(&self, field: &str) -> Option<bool> {
        self.0.get(field).and_then(Value::as_bool)
    }

    pub(crate) fn number(&self, field: &str) -> Option<i64> {
        self.0.get(field).and_then(Value::as_i64)
    }

    pub(crate) fn fraction(&self, field: &str) -> Option<f64> {
        self.0.get(field).and_then(Value::as_f64)
    }

    /// A list of texts; absent means none.
    pub(crate) fn words(&self, field: &str) -> impl Iterator<Item = &str> {
        let list = self.0.get(field).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    pub(crate) fn names(&self, field: &str) -> Vec<Name> {
        self.words(field).map(Name::from).collect()
    }

    /// `a, b,c` as names; `None` when the field is absent.
    pub(crate) fn comma_names(&self, field: &str) -> Option<Vec<Name>> {
        let words = self.optional(field)?.split(',').map(str::trim);
        Some(words.filter(|word| !word.is_empty()).map(Name::from).collect())
    }
}
