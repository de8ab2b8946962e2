//! The query of a request.

use crate::refusal::Refusal;

/// Most parameters of a query.
const PARAMETERS_MAX: usize = 1_024;

/// The text after the `?`, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        if text.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX {
            let text = format!("the query has more than {PARAMETERS_MAX} parameters");
            return Err(Refusal::bad_request(text));
        }
        let uri =
            format!("/?{text}").parse().map_err(|_| Refusal::bad_request("malformed query"))?;
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
        let pairs = pairs.map_err(|rejection| Refusal::bad_request(rejection.to_string()))?.0;
        let is_replaced = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
        let is_meant = || text.to_ascii_uppercase().contains("%EF%BF%BD");
        if pairs.iter().any(|(key, value)| is_replaced(key) || is_replaced(value)) && !is_meant() {
            return Err(Refusal::bad_request("the query is not UTF-8"));
        }
        Ok(Self(pairs))
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let pairs = self.0.iter().filter(move |(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}
