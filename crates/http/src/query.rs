//! The query of a request.

use crate::refusal::Refusal;

/// The text after the `?`, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let uri = format!("/?{text}").parse().map_err(|_| Refusal::bad_request("no query"))?;
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri);
        let pairs = pairs.map_err(|rejection| Refusal::bad_request(rejection.to_string()))?;
        Ok(Self(pairs.0))
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
