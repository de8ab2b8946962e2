//! The fields of a request.

use api::ErrorCode;
use meta::Name;
use mgmt::{ApiError, Course};
use serde_json::{Map, Value};

/// The fields of a request: those of its body, its query and its address together. Queries and older tools
/// send numbers, flags and lists as texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    fields: Map<String, Value>,
    /// Whether anybody waits for its answer.
    pub(crate) course: Course,
}

impl Request {
    /// Makes a request of fields.
    #[must_use]
    pub(crate) fn of(fields: Map<String, Value>) -> Self {
        Self { fields, course: Course::default() }
    }

    /// Makes the request end with `course`, so that its client may disconnect before the answer.
    #[must_use]
    pub(crate) fn during(self, course: &Course) -> Self {
        Self { course: course.clone(), ..self }
    }

    /// A field that must be there. COMPAT: RabbitMQ's words.
    ///
    /// # Errors
    /// The field is missing.
    pub(crate) fn require(&self, field: &str) -> Result<&Value, ApiError> {
        self.require_all(&[field])?;
        Ok(self.value(field).unwrap_or(&Value::Null))
    }

    /// Fields that must be there, as [`require_all`] does.
    pub(crate) fn require_all(&self, fields: &[&str]) -> Result<(), ApiError> {
        require_all(&self.fields, fields)
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// The field is missing, or no text.
    pub(crate) fn text(&self, field: &str) -> Result<&str, ApiError> {
        text(&self.fields, field)
    }

    /// A text, if it is there.
    pub(crate) fn optional_text(&self, field: &str) -> Result<Option<&str>, ApiError> {
        optional_text(&self.fields, field)
    }

    /// A number, if it is there.
    pub(crate) fn integer(&self, field: &str) -> Result<Option<i64>, ApiError> {
        match (self.value(field), self.number(field)) {
            (None | Some(Value::Null), _) => Ok(None),
            (Some(_), Some(number)) => Ok(Some(number)),
            (Some(_), None) => {
                Err(ApiError::new(ErrorCode::BadRequest, format!("{field} must be a number")))
            }
        }
    }

    /// A text, if it is there and is one.
    pub(crate) fn optional(&self, field: &str) -> Option<&str> {
        self.value(field).and_then(Value::as_str)
    }

    /// A field as it came.
    pub(crate) fn value(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    /// A name that must be there.
    ///
    /// # Errors
    /// The field is missing, or no text.
    pub(crate) fn name(&self, field: &str) -> Result<Name, ApiError> {
        self.text(field).map(Name::from)
    }

    pub(crate) fn vhost(&self) -> Result<Name, ApiError> {
        self.name("vhost")
    }

    pub(crate) fn user(&self) -> Result<Name, ApiError> {
        self.name("user")
    }

    /// A flag; absent means no.
    #[must_use]
    pub(crate) fn flag(&self, field: &str) -> bool {
        self.optional_flag(field).unwrap_or_default()
    }

    pub(crate) fn optional_flag(&self, field: &str) -> Option<bool> {
        let value = self.value(field)?;
        value.as_bool().or_else(|| value.as_str()?.parse().ok())
    }

    /// A number, if it is there and is one.
    #[must_use]
    pub(crate) fn number(&self, field: &str) -> Option<i64> {
        let value = self.value(field)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    pub(crate) fn fraction(&self, field: &str) -> Option<f64> {
        self.value(field).and_then(Value::as_f64)
    }

    /// A list of texts, or one text with commas; absent means none.
    pub(crate) fn words(&self, field: &str) -> impl Iterator<Item = &str> {
        let list = self.value(field).and_then(Value::as_array).into_iter().flatten();
        let text = self.optional(field).into_iter().flat_map(|text| text.split(','));
        list.filter_map(Value::as_str).chain(text.map(str::trim).filter(|word| !word.is_empty()))
    }

    /// Tags: a list of texts, or one text with commas.
    pub(crate) fn tags(&self) -> Result<Vec<Name>, ApiError> {
        let are_texts = match self.value("tags") {
            None | Some(Value::String(_)) => true,
            Some(Value::Array(tags)) => tags.iter().all(Value::is_string),
            Some(_) => false,
        };
        let tags = are_texts.then(|| self.names("tags"));
        tags.ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "tags must be a list of strings"))
    }

    pub(crate) fn names(&self, field: &str) -> Vec<Name> {
        self.words(field).map(Name::from).collect()
    }
}

/// Refuses an object without one of the fields. COMPAT: those that lack come as a list of Erlang's.
pub(crate) fn require_all(object: &Map<String, Value>, fields: &[&str]) -> Result<(), ApiError> {
    let lacking = fields.iter().filter(|field| !object.contains_key(**field));
    let lacking: Vec<String> = lacking.map(|it| format!("{{key_missing,{it}}}")).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(ApiError::new(ErrorCode::BadRequest, format!("[{}]", lacking.join(","))))
}

/// A text of an object, which must be there.
pub(crate) fn text<'o>(object: &'o Map<String, Value>, field: &str) -> Result<&'o str, ApiError> {
    require_all(object, &[field])?;
    object.get(field).and_then(Value::as_str).ok_or_else(|| no_text(field))
}

/// A text of an object, if it is there.
pub(crate) fn optional_text<'o>(
    object: &'o Map<String, Value>,
    field: &str,
) -> Result<Option<&'o str>, ApiError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| no_text(field)),
    }
}

fn no_text(field: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, format!("{field} must be a string"))
}
